//! Exponents of the channels of the residual stream, as all scales see them.

use tessera_circuits::model::{MatmulKind, MatrixId};

use super::given::Readers;
use super::{Exponents, Given, WeightScales};
use crate::exponents::Stream;

impl Given<'_> {
    /// Exponents of the channels of the residual stream; none if all are 0.
    pub(crate) fn stream_exponents(&self, readers: &Readers) -> Vec<u8> {
        self.stream(readers).exponents(self.options.exponents)
    }

    /// What the choice of exponents follows from: the rows of the body.
    fn stream(&self, readers: &Readers) -> Stream {
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
}

impl WeightScales {
    /// Fewest bits of a channel of a weight matrix.
    pub(super) fn fewest(&self, id: MatrixId) -> i32 {
        self.bits[&id].iter().copied().min().unwrap_or(0)
    }
}

impl Exponents<'_> {
    /// The exponent of a channel of the stream.
    pub(super) fn exponent(&self, c: usize) -> i32 {
        self.stream.get(c).copied().map_or(0, i32::from)
    }

    /// Exponent of a channel of a state, which may be an output of O or Down.
    pub(super) fn state_exponent(&self, n: usize, c: usize) -> i32 {
        match self.given.is_output(n) {
            true => 0,
            false => self.exponent(c),
        }
    }

    /// Exponent of a channel that a matrix writes to.
    pub(super) fn written_exponent(&self, kind: MatmulKind, c: usize) -> i32 {
        match kind == MatmulKind::Embed || !self.given.config.norms_outputs() {
            true => self.exponent(c),
            false => 0,
        }
    }

    /// Fewest bits of a channel of a matrix that writes to the residual stream, with what the channel's unit takes off.
    pub(super) fn fewest_written(&self, id: MatrixId) -> i32 {
        let kind = id.kind();
        let channels = self.weights.bits[&id].iter().enumerate();
        channels
            .map(|(c, w)| w + self.written_exponent(kind, c))
            .min()
            .unwrap_or(0)
    }
}
