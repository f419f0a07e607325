//! How dimensions are padded to powers of two, and where what is real lies among them (docs/protocol.md, notation).

use super::{log_ceil, MatmulKind, ModelConfig, TILE_LOG};

/// log2 of the padded dimensions of a model. Head vectors are laid out as (half, index in half) with
/// each half padded, so that RoPE pairs are rows of one trace row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    /// Channels of the residual stream.
    pub hidden: u32,
    /// Layers.
    pub layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// log2 of a padded half head.
    pub half: u32,
    /// Channels of the MLP.
    pub ff: u32,
    /// Entries of the vocabulary.
    pub vocab: u32,
    /// Rows of the embedding.
    pub embed: u32,
}

impl Padded {
    /// log2 of a padded head.
    pub const fn head_dim(&self) -> u32 {
        self.half + 1
    }
    /// log2 of the padded width of q.
    pub const fn q(&self) -> u32 {
        self.heads + self.half + 1
    }
    /// log2 of the padded width of k and v.
    pub const fn kv(&self) -> u32 {
        self.kv_heads + self.half + 1
    }
}

impl ModelConfig {
    /// Padded dimensions.
    pub fn padded(&self) -> Padded {
        let half = self.log_half();
        let head_min = TILE_LOG.saturating_sub(half + 1);
        Padded {
            hidden: log_ceil(self.hidden, TILE_LOG),
            layers: log_ceil(self.layers, 0),
            heads: log_ceil(self.heads, head_min),
            kv_heads: log_ceil(self.kv_heads, head_min),
            half,
            ff: log_ceil(self.ff, TILE_LOG),
            vocab: log_ceil(self.vocab, TILE_LOG),
            embed: log_ceil(self.dims(MatmulKind::Embed).0, TILE_LOG),
        }
    }

    /// Logarithm of the padded half of a head.
    fn log_half(&self) -> u32 {
        log_ceil(self.head_dim / 2, 0)
    }

    /// Padded position of element `x` of head `h`.
    pub fn head_index(&self, h: usize, x: usize) -> usize {
        let half = self.log_half();
        let (hi, lo) = (x / (self.head_dim / 2), x % (self.head_dim / 2));
        (((h << 1) | hi) << half) | lo
    }

    /// Padded position of (real) output channel `out` of a matmul of this kind.
    pub fn pad_out(&self, kind: MatmulKind, out: usize) -> usize {
        match kind {
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => self.head_index(out / self.head_dim, out % self.head_dim),
            _ => out,
        }
    }

    /// Whether every output channel of a matmul of this kind stands at its own number: half a head needs no padding, or there are no heads.
    pub fn keeps_outputs(&self, kind: MatmulKind) -> bool {
        self.pad_out(kind, self.head_dim) == self.head_dim
    }

    /// Whether every input channel of a matmul of this kind stands at its own number.
    pub fn keeps_inputs(&self, kind: MatmulKind) -> bool {
        self.pad_in(kind, self.head_dim) == self.head_dim
    }

    /// Padded position of (real) input channel `x` of a matmul of this kind.
    pub fn pad_in(&self, kind: MatmulKind, x: usize) -> usize {
        match kind {
            MatmulKind::O => self.head_index(x / self.head_dim, x % self.head_dim),
            _ => x,
        }
    }
}
