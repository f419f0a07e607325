//! The random point at which accumulators, wires and public columns are claimed.

use crate::scalar::Scalar;

use stwo::core::fields::qm31::SecureField;

use super::terms::power;
use crate::mle::{eq_table, index_eq};
use crate::model::{Maker, MatmulKind, LAYER_KINDS};
use crate::shape::{Part, Shape};

/// Random point of the accumulator and wire claims, drawn after the trace commitment.
#[derive(Clone, Debug)]
pub struct Points<K = SecureField> {
    /// Of layers.
    pub layer: Vec<K>,
    /// Of residual states.
    pub state: Vec<K>,
    /// Of tokens.
    pub token: Vec<K>,
    /// Of key tokens.
    pub key: Vec<K>,
    /// Of heads.
    pub head: Vec<K>,
    /// Output channels; a tensor of width `2^k` uses the last `k` coordinates.
    pub out: Vec<K>,
    /// Output tokens.
    pub output: Vec<K>,
    /// Powers weigh the matmul kinds.
    pub kind: K,
    /// Weighs the low limb against the high limb.
    pub limb: K,
    /// Powers weigh the clipped values.
    pub clip: K,
}

/// What weighs the products of norms among the batched accumulators.
#[derive(Clone, Copy, Debug)]
pub struct NormWeights<K = SecureField> {
    /// Of the squares of what is normed.
    pub square: K,
    /// Of the values times their reciprocal roots.
    pub normed: K,
    /// Of the quotients times the sums of squares.
    pub quotient: K,
    /// Of the squares of reciprocal roots.
    pub root: K,
}

impl Points {
    fn lengths(shape: &Shape) -> [usize; 7] {
        let p = &shape.padded;
        let out = [p.hidden, p.q(), p.kv(), p.ff, p.vocab].into_iter().max().unwrap_or(0);
        let state = crate::model::log_ceil(shape.states(), 0);
        [
            p.layers,
            state,
            shape.token,
            shape.token,
            p.heads,
            out,
            if shape.has_logits() { shape.output() } else { 0 },
        ]
        .map(|l| l as usize)
    }

    /// Number of challenges.
    pub fn count(shape: &Shape) -> usize {
        Self::lengths(shape).iter().sum::<usize>() + 3
    }
}

impl<K: Scalar> Points<K> {
    /// From [`Points::count`] challenges, in order.
    pub fn new(shape: &Shape, challenges: Vec<K>) -> Self {
        let mut rest = challenges.into_iter();
        let [layer, state, token, key, head, out, output] =
            Points::<SecureField>::lengths(shape).map(|n| rest.by_ref().take(n).collect::<Vec<_>>());
        let kind = rest.next().unwrap_or_default();
        let limb = rest.next().unwrap_or_default();
        let clip = rest.next().unwrap_or_default();
        Self {
            layer,
            state,
            token,
            key,
            head,
            out,
            output,
            kind,
            limb,
            clip,
        }
    }

    /// Point for a width of `2^log` output channels.
    pub fn out(&self, log: u32) -> &[K] {
        suffix(&self.out, log)
    }

    /// Weight of a matmul kind among the batched accumulators.
    pub fn kind_weight(&self, kind: MatmulKind) -> K {
        power(self.kind, kind as usize)
    }

    /// Weight of the scores among the batched accumulators.
    pub fn score_weight(&self) -> K {
        power(self.kind, 9)
    }

    /// Weight of the attention output among the batched accumulators.
    pub fn att_weight(&self) -> K {
        power(self.kind, 10)
    }

    /// Weight of the products of the MLP among the batched accumulators.
    pub fn act_weight(&self) -> K {
        power(self.kind, 11)
    }

    /// Weight of the sums of exponentials times their reciprocals among the batched accumulators.
    pub fn reciprocal_weight(&self) -> K {
        power(self.kind, 13)
    }

    /// Weight of the exponentials times their reciprocals among the batched accumulators.
    pub fn probability_weight(&self) -> K {
        power(self.kind, 14)
    }

    /// Weights of the products of norms among the batched accumulators: of the states', of the queries' or of the keys'.
    pub fn norms(&self, part: Part) -> NormWeights<K> {
        let powers = match part {
            Part::QNorms => [18, 19, 20, 21],
            Part::KNorms => [22, 23, 24, 25],
            _ => [12, 15, 16, 17],
        };
        let [square, normed, quotient, root] = powers.map(|n| power(self.kind, n));
        NormWeights {
            square,
            normed,
            quotient,
            root,
        }
    }

    /// `eq(layer, l)` for the real layers.
    pub fn layer_weights(&self, layers: usize) -> Vec<K> {
        let mut table = eq_table(&self.layer);
        table.truncate(layers);
        table
    }

    /// `eq(state, n)` for the real states.
    pub fn state_weights(&self, states: usize) -> Vec<K> {
        let mut table = eq_table(&self.state);
        table.truncate(states);
        table
    }

    /// Weight of what makes a state among the batched accumulators.
    pub fn maker_weight(&self, maker: Maker) -> K {
        match maker {
            Maker::Matmul(kind, layer) => self.matmul_weight(kind, layer),
            Maker::Sum(kind, layer) => {
                let after = if kind == MatmulKind::O { 26 } else { 27 };
                power(self.kind, after) * index_eq(layer, &self.layer)
            }
        }
    }

    /// Weight of matmul `(kind, layer)` among the batched accumulators.
    pub fn matmul_weight(&self, kind: MatmulKind, layer: usize) -> K {
        let layered = LAYER_KINDS.contains(&kind);
        self.kind_weight(kind)
            * if layered {
                index_eq(layer, &self.layer)
            } else {
                K::one()
            }
    }
}

/// Last `log` coordinates of a point.
pub fn suffix<K>(point: &[K], log: u32) -> &[K] {
    point.get(point.len().saturating_sub(log as usize)..).unwrap_or(point)
}
