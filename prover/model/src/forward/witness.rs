//! Everything that one forward pass computed, for the trace builder.

use tessera_circuits::shape::{Part, Shape};

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
    /// `[heads][rows][rows]` (head, query, key), masked pairs (key after query, or before its window) included.
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
    pub att_acc: Vec<i32>,
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

/// What is kept of a text that comes in blocks. Values of pairs of rows are only in it if there is one block.
pub(super) struct Record {
    pub witness: Witness,
    /// Rows that there is room for.
    rows: usize,
}

impl Record {
    /// For a text of up to `rows` rows.
    pub fn of(rows: usize) -> Self {
        Self {
            witness: Witness::default(),
            rows,
        }
    }

    /// Puts the values of the next block, of `rows` rows, behind those of the blocks before.
    pub fn append(&mut self, block: Witness, rows: usize) {
        match self.witness.streams.is_empty() && self.rows <= rows {
            true => self.witness = block,
            false => self.witness.append(block, Room { rows, of: self.rows }),
        }
    }
}

/// How many rows a block has of how many that are to come.
#[derive(Clone, Copy)]
struct Room {
    rows: usize,
    of: usize,
}

impl Room {
    /// Appends rows to a list, which has room for all of them from the first ones on: it does not move as it grows.
    fn append<T>(self, to: &mut Vec<T>, mut rows: Vec<T>) {
        if to.is_empty() {
            to.reserve_exact(rows.len() / self.rows * self.of.max(self.rows));
        }
        to.append(&mut rows);
    }
}

/// Appends every field of a value to that of another one, in the room that there is: lists, and what has lists.
macro_rules! append {
    ($to:expr, $from:expr, $room:expr, $type:ident { $($list:ident),* } $(, $rest:ident)*) => {
        // All fields stand here: one that is added cannot be forgotten.
        let $type { $($list,)* $($rest: _,)* } = $from;
        $($room.append(&mut $to.$list, $list);)*
    };
}

fn clear<T, const N: usize>(lists: [&mut Vec<T>; N]) {
    lists.into_iter().for_each(|list| *list = Vec::new());
}

impl Stream {
    fn append(&mut self, block: Self, room: Room) {
        append!(
            self,
            block,
            room,
            Stream {
                acc_hi,
                acc_lo,
                x,
                sums,
                rsqrt,
                y
            }
        );
    }
}

impl NormedHeads {
    fn append(&mut self, block: Self, room: Room) {
        append!(self, block, room, NormedHeads { sums, rsqrt, y });
    }
}

/// Appends the values of every layer or state of a block.
fn append_all<T: Default>(to: &mut Vec<T>, block: Vec<T>, append: impl Fn(&mut T, T)) {
    to.resize_with(block.len(), T::default);
    to.iter_mut().zip(block).for_each(|(to, block)| append(to, block));
}

impl Witness {
    fn append(&mut self, block: Self, room: Room) {
        if self.logits.is_empty() {
            self.first_logits = self.ids.len() + block.first_logits;
        }
        let Self {
            ids,
            streams,
            layers,
            first_logits: _,
            logits_acc_hi,
            logits_acc_lo,
            logits,
        } = block;
        room.append(&mut self.ids, ids);
        append_all(&mut self.streams, streams, |to, block| to.append(block, room));
        append_all(&mut self.layers, layers, |to, block| to.append(block, room));
        // Of the last row of every block.
        let outputs = Room {
            rows: 1,
            of: 1 + room.of.saturating_sub(room.rows),
        };
        outputs.append(&mut self.logits_acc_hi, logits_acc_hi);
        outputs.append(&mut self.logits_acc_lo, logits_acc_lo);
        outputs.append(&mut self.logits, logits);
    }

    /// Lets go of what no part behind a part, in the order of [`Shape::parts`], is made of.
    pub fn forget(&mut self, part: Part, shape: &Shape) {
        match part {
            Part::STREAM => self.streams.iter_mut().for_each(|state| {
                clear([&mut state.acc_hi, &mut state.acc_lo]);
                clear([&mut state.x, &mut state.y]);
            }),
            Part::LOGITS => {
                clear([&mut self.logits_acc_hi, &mut self.logits_acc_lo]);
                clear([&mut self.logits]);
            }
            Part::SCORES | Part::WINDOWED => {
                let own = shape.kinds().into_iter().filter(|kind| kind.part == part);
                for layer in own.flat_map(|kind| kind.layers) {
                    self.layers[layer].forget(part);
                }
            }
            _ => self.layers.iter_mut().for_each(|layer| layer.forget(part)),
        }
    }
}

impl LayerWitness {
    fn append(&mut self, mut block: Self, room: Room) {
        self.q_norm.append(std::mem::take(&mut block.q_norm), room);
        self.k_norm.append(std::mem::take(&mut block.k_norm), room);
        append!(
            self,
            block,
            room,
            LayerWitness {
                q_acc_hi,
                q_acc_lo,
                q,
                q_rot,
                k_acc_hi,
                k_acc_lo,
                k,
                k_rot,
                v_acc_hi,
                v_acc_lo,
                v,
                att_acc,
                att,
                gate_acc_hi,
                gate_acc_lo,
                gate,
                silu,
                up_acc_hi,
                up_acc_lo,
                up,
                h
            },
            q_norm,
            k_norm,
            score_acc_hi,
            score_acc_lo,
            score,
            max,
            arg,
            exp,
            sum,
            recip,
            prob
        );
    }

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
            Part::SCORES | Part::WINDOWED => {
                clear([&mut self.score_acc_hi, &mut self.score_acc_lo]);
                clear([&mut self.exp]);
                clear([&mut self.prob]);
            }
            Part::SOFTMAX => clear([&mut self.score]),
            Part::ATT => {
                clear([&mut self.att_acc]);
                clear([&mut self.att]);
            }
            Part::FF => {
                clear([&mut self.gate_acc_hi, &mut self.gate_acc_lo]);
                clear([&mut self.up_acc_hi, &mut self.up_acc_lo]);
                clear([&mut self.gate, &mut self.silu, &mut self.up, &mut self.h]);
            }
            // Of rows alone, and short.
            _ => {}
        }
    }
}
