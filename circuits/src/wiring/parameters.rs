//! The requantisation parameters of a model, by matmul and residual state.

use crate::chunk::INPUT_SHIFT;
use crate::model::{ChannelShift, MatmulKind, ModelConfig, ModelParams};

/// `2^shift` of every padded output channel.
pub fn pow_column(config: &ModelConfig, kind: MatmulKind, shift: &ChannelShift, log: u32) -> Vec<u32> {
    if let [one] = shift.0.as_slice() {
        return vec![1 << one; 1 << log];
    }
    let mut column = vec![2; 1 << log];
    for (out, s) in shift.0.iter().enumerate() {
        if let Some(at) = column.get_mut(config.pad_out(kind, out)) {
            *at = 1 << s;
        }
    }
    column
}

/// The parameters of a matmul's requantisation.
pub fn shift_of(params: &ModelParams, kind: MatmulKind, layer: usize) -> Option<&ChannelShift> {
    let of = params.layers.get(layer);
    match kind {
        MatmulKind::Embed => Some(&params.embed),
        MatmulKind::Head => Some(&params.head),
        MatmulKind::Q => of.map(|l| &l.q),
        MatmulKind::K => of.map(|l| &l.k),
        MatmulKind::V => of.map(|l| &l.v),
        MatmulKind::O => of.map(|l| &l.o),
        MatmulKind::Gate => of.map(|l| &l.gate),
        MatmulKind::Up => of.map(|l| &l.up),
        MatmulKind::Down => of.map(|l| &l.down),
    }
}

/// The matmul that updates a residual state.
pub fn update_of(state: usize) -> (MatmulKind, usize) {
    match state {
        0 => (MatmulKind::Embed, 0),
        n if n % 2 == 1 => (MatmulKind::O, n / 2),
        n => (MatmulKind::Down, n / 2 - 1),
    }
}

/// Exponent of the factor of the previous residual in the update of a state. Before the first state there is what enters
/// the chunk.
pub fn skip_of(params: &ModelParams, state: usize) -> u8 {
    match update_of(state) {
        (MatmulKind::O, l) => params.layers.get(l).map_or(0, |p| p.skip_attn),
        (MatmulKind::Down, l) => params.layers.get(l).map_or(0, |p| p.skip_mlp),
        _ => INPUT_SHIFT,
    }
}
