//! Shifts and biases as set-up makes them of most models, for predictions that depend on them: they do not follow from dimensions.

use tessera_circuits::model::{ChannelShift, MatmulKind, ModelConfig, ModelParams, StreamShift};

/// Of a thousand channels, how many have a shift that differs by so much from the most common one.
type Shares = &'static [(i8, u32)];

/// Of a matrix that reads a norm.
const READING: Shares = &[(-1, 300), (-2, 80), (1, 20)];
/// Of a matrix that writes into the residual stream.
const WRITING: Shares = &[(-1, 220), (1, 200), (-2, 30)];
const EMBEDDING: Shares = &[(1, 120), (2, 10)];
const HEAD: Shares = &[(-1, 25)];
/// Of the norms, and of the exponents of the residual stream.
const STREAM: Shares = &[(-1, 25), (-2, 5)];

/// The most common shift of a norm.
const NORM: u8 = 7;

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % bound
    }

    fn shifts(&mut self, count: usize, common: u8, shares: Shares) -> ChannelShift {
        let shift = |_| {
            let mut left = self.below(1_000);
            let differs = shares.iter().find(|(_, share)| {
                let own = left < *share;
                left = left.wrapping_sub(*share);
                own
            });
            common.saturating_add_signed(differs.map_or(0, |(by, _)| *by)).max(1)
        };
        ChannelShift((0..count).map(shift).collect())
    }
}

/// Sample parameters of these dimensions, but shifts differ by channel, and matrices of the kinds `biased` have biases.
pub(super) fn typical(sample: ModelParams, config: &ModelConfig, biased: &[MatmulKind]) -> ModelParams {
    let mut params = sample;
    let mut random = Random(1);
    let outputs = |kind: MatmulKind| match kind {
        MatmulKind::Gate if !config.gated => 0,
        kind => config.dims(kind).1,
    };
    let stream = random.shifts(config.hidden, NORM, STREAM);
    for layer in &mut params.layers {
        let (attention, mlp) = (&mut layer.attention, &mut layer.mlp);
        (attention.norm.shift, mlp.norm.shift) = (stream.clone(), stream.clone());
        for (shift, kind) in [
            (&mut attention.q, MatmulKind::Q),
            (&mut attention.k, MatmulKind::K),
            (&mut attention.v, MatmulKind::V),
            (&mut mlp.gate, MatmulKind::Gate),
            (&mut mlp.up, MatmulKind::Up),
        ] {
            *shift = random.shifts(outputs(kind), 4, READING);
        }
        if let Some(norms) = &mut attention.head_norms {
            let gains = norms.q.gains.iter_mut().chain(&mut norms.k.gains);
            gains.for_each(|gain| *gain -= random.below(1 << 13) as i16);
        }
        for shift in [&mut attention.o, &mut mlp.down] {
            shift.body = random.shifts(config.hidden, 5, WRITING);
        }
    }
    params.exponents = stream.0.iter().map(|shift| NORM.saturating_sub(*shift)).collect();
    params.norm_final.shift = stream;
    params.embed = StreamShift {
        body: random.shifts(config.hidden, 2, EMBEDDING),
        lead: 0,
    };
    params.head = random.shifts(config.vocab, 4, HEAD);
    if !biased.is_empty() {
        let listed = config.listed_matrices().map(|id| id.kind());
        let biases = listed.map(|kind| match biased.contains(&kind) {
            true => (0..outputs(kind)).map(|_| random.below(1 << 20) as i32).collect(),
            false => Vec::new(),
        });
        params.biases = biases.collect();
    }
    params
}
