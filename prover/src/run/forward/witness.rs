//! Everything that one forward pass computed, for the trace builder.

use tessera_circuits::shape::Part;

/// The residual stream at one of its stages, with the RMSNorm that reads it. Stage 0 is the embedding, stage `2 l + 1` follows the
/// attention of layer `l`, stage `2 l + 2` its MLP; where outputs are normed before they are added, they are stages, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Limb accumulators of the matmul that ends in this stage (embedding, o or down), `[rows][hidden]`.
    pub acc_hi: Vec<i32>,
    pub acc_lo: Vec<i32>,
    /// The residual, `[rows][hidden]`.
    pub x: Vec<i16>,
    /// Limb sums of squares of each row of `x`, `[rows]`.
    pub sums: Vec<[i64; 3]>,
    /// Reciprocal square roots, `[rows]`.
    pub rsqrt: Vec<u32>,
    /// Output of the norm, `[rows][hidden]`.
    pub y: Vec<i16>,
}

/// Heads of queries or keys that are normed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormedHeads {
    /// Limb sums of squares of each head, `[rows][heads]`.
    pub sums: Vec<[i64; 3]>,
    /// Reciprocal square roots, `[rows][heads]`.
    pub rsqrt: Vec<u32>,
    /// The normed values, without gains, `[rows][heads * head_dim]`.
    pub y: Vec<i16>,
}

/// Intermediate values of one layer, in real dimensions. `width` is `heads * head_dim`, `kv_width` is
/// `kv_heads * head_dim`; accumulators have a high and a low limb, `256 hi + lo` in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerWitness {
    /// `[rows][width]`: accumulators, queries and rotated queries.
    pub q_acc_hi: Vec<i32>,
    pub q_acc_lo: Vec<i32>,
    pub q: Vec<i16>,
    pub q_rot: Vec<i16>,
    /// `[rows][kv_width]`: accumulators, keys and rotated keys.
    pub k_acc_hi: Vec<i32>,
    pub k_acc_lo: Vec<i32>,
    pub k: Vec<i16>,
    pub k_rot: Vec<i16>,
    /// Queries and keys after the norms of their heads; empty where these are not normed.
    pub q_norm: NormedHeads,
    pub k_norm: NormedHeads,
    /// `[rows][kv_width]`: accumulators and values.
    pub v_acc_hi: Vec<i32>,
    pub v_acc_lo: Vec<i32>,
    pub v: Vec<i16>,
    /// `[heads][rows][rows]` (head, query, key), masked pairs (key after query) included.
    pub score_acc_hi: Vec<i32>,
    pub score_acc_lo: Vec<i32>,
    /// What softmax compares: where scores are capped, capped ones.
    pub score: Vec<i16>,
    /// `[heads][rows]`: largest unmasked score and the lowest key that attains it.
    pub max: Vec<i16>,
    pub arg: Vec<u32>,
    /// `[heads][rows][rows]`: exponentials, zero where masked.
    pub exp: Vec<u32>,
    /// `[heads][rows]`: sum of the exponentials and its reciprocal.
    pub sum: Vec<u32>,
    pub recip: Vec<u32>,
    /// `[heads][rows][rows]`: probabilities, zero where masked.
    pub prob: Vec<i16>,
    /// `[rows][width]`: accumulators and attention output.
    pub att_acc_hi: Vec<i32>,
    pub att_acc_lo: Vec<i32>,
    pub att: Vec<i16>,
    /// `[rows][ff]`: accumulators, gate and SiLU of the gate.
    pub gate_acc_hi: Vec<i32>,
    pub gate_acc_lo: Vec<i32>,
    pub gate: Vec<i16>,
    pub silu: Vec<i16>,
    /// `[rows][ff]`: accumulators and up projection.
    pub up_acc_hi: Vec<i32>,
    pub up_acc_lo: Vec<i32>,
    pub up: Vec<i16>,
    /// `[rows][ff]`: requantised `silu * up`.
    pub h: Vec<i16>,
}

/// All values of a forward pass over `ids`, processed in one block from position 0, in real dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// Token ids, `[rows]`.
    pub ids: Vec<u32>,
    /// Of all states.
    pub streams: Vec<Stream>,
    /// `[layers]`.
    pub layers: Vec<LayerWitness>,
    /// The first row that has logits.
    pub first_logits: usize,
    /// `[rows with logits][vocab]`: accumulators and logits.
    pub logits_acc_hi: Vec<i32>,
    pub logits_acc_lo: Vec<i32>,
    pub logits: Vec<i16>,
}

fn clear<T, const N: usize>(lists: [&mut Vec<T>; N]) {
    lists.into_iter().for_each(|list| *list = Vec::new());
}

impl Witness {
    /// Lets go of what no part behind a part, in the order of [`tessera_circuits::shape::PARTS`], is made of.
    pub fn forget(&mut self, part: Part) {
        match part {
            Part::Stream => self.streams.iter_mut().for_each(|state| {
                clear([&mut state.acc_hi, &mut state.acc_lo]);
                clear([&mut state.x, &mut state.y]);
            }),
            Part::Logits => {
                clear([&mut self.logits_acc_hi, &mut self.logits_acc_lo]);
                clear([&mut self.logits]);
            }
            _ => self.layers.iter_mut().for_each(|layer| layer.forget(part)),
        }
    }
}

impl LayerWitness {
    fn forget(&mut self, part: Part) {
        match part {
            Part::Q => {
                clear([&mut self.q_acc_hi, &mut self.q_acc_lo]);
                clear([&mut self.q, &mut self.q_rot, &mut self.q_norm.y]);
            }
            Part::K => {
                clear([&mut self.k_acc_hi, &mut self.k_acc_lo]);
                clear([&mut self.k, &mut self.k_rot, &mut self.k_norm.y]);
            }
            Part::V => {
                clear([&mut self.v_acc_hi, &mut self.v_acc_lo]);
                clear([&mut self.v]);
            }
            Part::Scores => {
                clear([&mut self.score_acc_hi, &mut self.score_acc_lo]);
                clear([&mut self.exp]);
                clear([&mut self.prob]);
            }
            Part::Softmax => clear([&mut self.score]),
            Part::Att => {
                clear([&mut self.att_acc_hi, &mut self.att_acc_lo]);
                clear([&mut self.att]);
            }
            Part::Ff => {
                clear([&mut self.gate_acc_hi, &mut self.gate_acc_lo]);
                clear([&mut self.up_acc_hi, &mut self.up_acc_lo]);
                clear([&mut self.gate, &mut self.silu, &mut self.up, &mut self.h]);
            }
            // Of rows alone, and short.
            Part::Norms | Part::QNorms | Part::KNorms | Part::Stream | Part::Logits => {}
        }
    }
}
