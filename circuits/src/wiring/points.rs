//! The random point at which accumulators, wires and public columns are claimed.

use crate::scalar::Scalar;

use stwo::core::fields::qm31::SecureField;

use super::terms::power;
use crate::mle::{eq_table, index_eq};
use crate::model::{MatmulKind, MatrixId, LAYER_KINDS};
use crate::shape::Shape;

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
        self.weight(kind as usize)
    }

    /// Weight of accumulators of a number among all. Those of matmuls come first; each operator names its own.
    pub(crate) fn weight(&self, number: usize) -> K {
        power(self.kind, number)
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

    /// Weight of a matmul among the batched accumulators.
    pub fn matmul_weight(&self, id: MatrixId) -> K {
        let (kind, layer) = (id.kind(), id.layer());
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
