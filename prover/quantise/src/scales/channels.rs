//! Exponents of the channels of the residual stream, as all scales see them.

use tessera_circuits::model::MatmulKind;

use super::super::exponents::Stream;
use super::{Readers, Scales};

impl Scales<'_> {
    /// Whether a state is an output of O or Down, which is normed before it is added and whose channels have no exponents.
    pub(super) fn is_output(&self, n: usize) -> bool {
        self.config.is_post_normed() && n % 2 == 1
    }

    pub(super) fn exponent(&self, c: usize) -> i32 {
        self.exponents.get(c).copied().map_or(0, i32::from)
    }

    /// What the choice of exponents follows from: the rows of the body.
    pub(super) fn stream(&self, readers: &Readers) -> Stream {
        let mut sensitivity: Vec<Vec<f64>> = Vec::new();
        let mut later = vec![0.0; self.config.hidden];
        let states = || readers.iter().zip(&self.ranges.residual).enumerate();
        for (_, (readers, state)) in states().rev().filter(|(n, _)| !self.is_output(*n)) {
            let square = state.body.median().powi(2).max(f64::MIN_POSITIVE);
            later.iter_mut().zip(readers).for_each(|(a, r)| *a += r / square);
            sensitivity.push(later.clone());
        }
        sensitivity.reverse();
        let need = |n: usize, max: f32| (f64::from(max).max(1e-9) * self.headroom(n) / f64::from(i16::MAX)).log2();
        let states = states().filter(|(n, _)| !self.is_output(*n));
        Stream {
            needs: states
                .map(|(n, (_, state))| state.body.max.iter().map(|max| need(n, *max)).collect())
                .collect(),
            sensitivity,
            massive: self.ranges.are_massive(),
        }
    }

    /// Exponent of a channel that a matrix writes to.
    pub(super) fn written_exponent(&self, kind: MatmulKind, c: usize) -> i32 {
        match kind == MatmulKind::Embed || !self.config.is_post_normed() {
            true => self.exponent(c),
            false => 0,
        }
    }

    /// Fewest bits of a channel of a matrix that writes to the residual stream, with what the channel's unit takes off.
    pub(super) fn min_writer(&self, kind: MatmulKind, layer: usize) -> i32 {
        let channels = self.weights[&(kind, layer)].iter().enumerate();
        channels
            .map(|(c, w)| w + self.written_exponent(kind, c))
            .min()
            .unwrap_or(0)
    }

    /// Fewest bits of a channel of a weight matrix.
    pub(super) fn min_weight(&self, kind: MatmulKind, layer: usize) -> i32 {
        self.weights[&(kind, layer)].iter().copied().min().unwrap_or(0)
    }
}
