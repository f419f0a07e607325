//! The weight matrices of a model: their names, dimensions, and places in the weights file (docs/protocol.md, section 3).

use serde::{Deserialize, Serialize};

use super::{ModelConfig, MAX_BAND_LOG, TILE};

/// The use of a weight matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MatmulKind {
    /// Rows of the embedding, selected by token.
    Embed,
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Attention outputs.
    O,
    /// The gate of the MLP.
    Gate,
    /// The other factor of the MLP.
    Up,
    /// The way back from the MLP.
    Down,
    /// Logits.
    Head,
}

impl MatmulKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Embed,
        Self::Q,
        Self::K,
        Self::V,
        Self::O,
        Self::Gate,
        Self::Up,
        Self::Down,
        Self::Head,
    ];

    /// The name of the matrix of this kind in a layer. Embedding and head belong to no layer, so `layer` does not matter to them.
    pub const fn at(self, layer: usize) -> MatrixId {
        let layer = if self.is_layered() { layer } else { 0 };
        MatrixId { kind: self, layer }
    }

    /// Whether a layer has a matrix of this kind: all kinds but embedding and head.
    pub const fn is_layered(self) -> bool {
        !matches!(self, Self::Embed | Self::Head)
    }
}

/// The name of a weight matrix. Whoever passes a matrix on passes its name, so that only those who make names or ask for their
/// parts know what a matrix is named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixId {
    kind: MatmulKind,
    layer: usize,
}

impl MatrixId {
    /// The embedding.
    pub const EMBED: Self = MatmulKind::Embed.at(0);
    /// The matrix that makes logits, or, in encoders, stands for the last norm.
    pub const HEAD: Self = MatmulKind::Head.at(0);

    /// The use that the model makes of the matrix.
    pub const fn kind(self) -> MatmulKind {
        self.kind
    }

    /// The layer that the matrix belongs to, or 0 if it belongs to none.
    pub const fn layer(self) -> usize {
        self.layer
    }
}

/// How the accumulators of a matmul are claimed: as they are, where they are known to be small, or in two limbs, each with the
/// limb of the operand that it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limbs {
    /// One limb: the accumulators as they are.
    One,
    /// Two limbs.
    Two,
}

impl Limbs {
    /// Columns of an int16 operand: limbs are columns of their own.
    pub const fn columns(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// The limbs of all matmuls of a model whose weights are read by normed states: what row spaces depend on beside the
/// architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimbSet {
    /// The limbs of queries.
    pub q: Limbs,
    /// The limbs of keys.
    pub k: Limbs,
    /// The limbs of values.
    pub v: Limbs,
    /// The limbs of gates.
    pub gate: Limbs,
    /// The limbs of the MLP's other factor.
    pub up: Limbs,
    /// The limbs of logits.
    pub head: Limbs,
}

impl LimbSet {
    /// The same limbs for all matmuls.
    pub const fn all(limbs: Limbs) -> Self {
        Self {
            q: limbs,
            k: limbs,
            v: limbs,
            gate: limbs,
            up: limbs,
            head: limbs,
        }
    }

    /// The limbs of a matmul.
    pub const fn of(&self, kind: MatmulKind) -> Limbs {
        match kind {
            MatmulKind::Q => self.q,
            MatmulKind::K => self.k,
            MatmulKind::V => self.v,
            MatmulKind::Gate => self.gate,
            MatmulKind::Up => self.up,
            MatmulKind::Head => self.head,
            MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => Limbs::Two,
        }
    }
}

/// The per-layer kinds, in file order.
pub const LAYER_KINDS: [MatmulKind; 7] = [
    MatmulKind::Q,
    MatmulKind::K,
    MatmulKind::V,
    MatmulKind::O,
    MatmulKind::Gate,
    MatmulKind::Up,
    MatmulKind::Down,
];

/// One weight matrix `[in, out]` in the padded layout, with its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matmul {
    /// The matrix's name.
    pub id: MatrixId,
    /// Number of real input channels.
    pub in_dim: usize,
    /// Number of real output channels.
    pub out_dim: usize,
    /// log2 of the padded input channels.
    pub in_log: u32,
    /// log2 of the padded output channels.
    pub out_log: u32,
    /// Number of rows of tiles that are stored.
    pub in_blocks: usize,
    /// Number of columns of tiles that are stored.
    pub out_blocks: usize,
    /// Index of the first tile; tile `(b, c)` is `first_tile + b * out_blocks + c`.
    pub first_tile: usize,
}

impl Matmul {
    /// Number of stored tiles.
    pub const fn tiles(&self) -> usize {
        self.in_blocks * self.out_blocks
    }
}

impl ModelConfig {
    /// Real (in, out) dimensions of a matmul kind.
    pub fn dims(&self, kind: MatmulKind) -> (usize, usize) {
        let (d, q, kv, f) = (
            self.hidden,
            self.heads * self.head_dim,
            self.kv_heads * self.head_dim,
            self.ff,
        );
        match kind {
            MatmulKind::Embed if self.positions => {
                let positions = self.context.saturating_mul(self.token_types());
                (self.vocab.saturating_add(positions), d)
            }
            MatmulKind::Embed => (self.vocab, d),
            MatmulKind::Q => (d, q),
            MatmulKind::K | MatmulKind::V => (d, kv),
            MatmulKind::O => (q, d),
            MatmulKind::Gate | MatmulKind::Up => (d, f),
            MatmulKind::Down => (f, d),
            // The last norm of an encoder has a bias for every channel, and there is no matrix.
            MatmulKind::Head if !self.generates() => (d, d),
            MatmulKind::Head => (d, self.vocab),
        }
    }

    /// The kinds that the layers have, in file order: all but the gate, if the MLP has none.
    pub fn layer_kinds(&self) -> impl Iterator<Item = MatmulKind> + Clone {
        let gated = self.gated;
        LAYER_KINDS
            .into_iter()
            .filter(move |kind| gated || *kind != MatmulKind::Gate)
    }

    /// The matrices whose norms and biases a key lists, in the order of the lists: those of every layer, whether it has them or not, and
    /// the head's.
    pub fn listed_matrices(&self) -> impl Iterator<Item = MatrixId> {
        let layers = (0..self.layers).flat_map(|layer| LAYER_KINDS.map(|kind| kind.at(layer)));
        layers.chain([MatrixId::HEAD])
    }

    /// All weight matrices in the order of the weights file: embedding, layers (q k v o gate up down), head.
    pub fn matmuls(&self) -> Vec<Matmul> {
        let p = self.padded();
        let layers = (0..self.layers).flat_map(|layer| self.layer_kinds().map(move |kind| kind.at(layer)));
        let head = self.generates().then_some(MatrixId::HEAD);
        let order = [MatrixId::EMBED].into_iter().chain(layers).chain(head);
        let mut first_tile = 0;
        order
            .map(|id| {
                let kind = id.kind();
                let (in_dim, out_dim) = self.dims(kind);
                let (in_log, out_log) = match kind {
                    MatmulKind::Embed => (p.embed, p.hidden),
                    MatmulKind::Q => (p.hidden, p.q()),
                    MatmulKind::K | MatmulKind::V => (p.hidden, p.kv()),
                    MatmulKind::O => (p.q(), p.hidden),
                    MatmulKind::Gate | MatmulKind::Up => (p.hidden, p.ff),
                    MatmulKind::Down => (p.ff, p.hidden),
                    MatmulKind::Head => (p.hidden, p.vocab),
                };
                let blocks = |last: usize| last / TILE + 1;
                let m = Matmul {
                    id,
                    in_dim,
                    out_dim,
                    in_log,
                    out_log,
                    in_blocks: blocks(self.pad_in(kind, in_dim - 1)),
                    out_blocks: blocks(self.pad_out(kind, out_dim - 1)),
                    first_tile,
                };
                first_tile += m.tiles();
                m
            })
            .collect()
    }

    /// Total number of tiles.
    pub fn total_tiles(&self) -> usize {
        self.matmuls().last().map_or(0, |m| m.first_tile + m.tiles())
    }

    /// log2 of the number of tiles of a band: neighbours in a row of tiles of a matrix, which are opened as one
    /// (docs/protocol.md, section 3). Bands are the longest, up to [`MAX_BAND_LOG`], that leave no tile over in any row.
    pub fn band_log(&self) -> u32 {
        let rows = self.matmuls().into_iter().map(|m| m.out_blocks.trailing_zeros());
        rows.fold(MAX_BAND_LOG, u32::min)
    }
}
