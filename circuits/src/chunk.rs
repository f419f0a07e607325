//! Chunks (docs/protocol.md, section 15): contiguous ranges of layers that are proved on their own, from the residual
//! stream that enters them to the one that leaves. The first chunk has the embedding, too, the last one norm, head and
//! arg max; a whole model is a single chunk that is both.

use std::fmt;
use std::ops::Range;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::boundary::{BoundaryUnits, COMMITTED_VALUES};
use crate::model::{Matmul, MatmulKind, ModelConfig, ModelParams, StreamShift, LAYER_KINDS};

/// Skip exponent of the first state of every chunk, and its shift where there is no embedding: the state is what enters,
/// times 2, halved. Nothing enters a chunk with embedding.
pub const INPUT_SHIFT: u8 = 1;

/// A contiguous range of layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The first layer of the chunk, as the model counts them, and the first one after it.
    pub start: usize,
    /// The first layer after it.
    pub end: usize,
    /// Layers of the model.
    pub of: usize,
}

/// Numbers of layers that do not divide a model in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ChunkError {
    #[error("chunk {index} has no layers")]
    Empty { index: usize },
    #[error("the chunks have {got} layers, the model {expected}")]
    Layers { got: usize, expected: usize },
}

impl Chunk {
    /// All layers.
    pub const fn whole(layers: usize) -> Self {
        Self {
            start: 0,
            end: layers,
            of: layers,
        }
    }

    /// Chunks of these numbers of layers, from the first layer on. Total on hostile numbers.
    pub fn partition(layers: impl IntoIterator<Item = usize>, of: usize) -> Result<Vec<Self>, ChunkError> {
        let mut chunks = Vec::new();
        let mut start = 0usize;
        for (index, count) in layers.into_iter().enumerate() {
            if count == 0 {
                return Err(ChunkError::Empty { index });
            }
            let end = start.saturating_add(count);
            chunks.push(Self { start, end, of });
            start = end;
        }
        match start == of {
            true => Ok(chunks),
            false => Err(ChunkError::Layers {
                got: start,
                expected: of,
            }),
        }
    }

    /// Its layers, as the model counts them.
    pub const fn layers(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether it starts with the embedding.
    pub const fn is_first(&self) -> bool {
        self.start == 0
    }

    /// Whether it ends with head and arg max.
    pub const fn is_last(&self) -> bool {
        self.end == self.of
    }

    /// The architecture of the chunk alone, as if it were a model.
    pub fn config(&self, model: &ModelConfig) -> ModelConfig {
        ModelConfig {
            layers: self.layers().len(),
            rotation_of: model.rotation_of.get(self.layers()).unwrap_or_default().to_vec(),
            blocks: model.blocks.within(self.layers()),
            ..model.clone()
        }
    }

    /// Two chunks of a model have the same shape if this is the same: whether they have the embedding, whether they have the logits, the
    /// number of their layers, and how many of these have a window.
    pub fn kind(&self, model: &ModelConfig) -> (bool, bool, usize, usize) {
        let windowed = self.layers().filter(|layer| model.window(*layer).is_some()).count();
        (self.is_first(), self.is_last(), self.layers().len(), windowed)
    }

    /// The parameters of the chunk alone. What enters takes the place of the embedding; the norm of the last state, which
    /// only the next chunk uses, is that of the next layer.
    pub fn params(&self, model: &ModelParams) -> ModelParams {
        let next = model.layers.get(self.end);
        let (embed_exponent, embed) = match self.is_first() {
            true => (model.embed_exponent, model.embed.clone()),
            false => (0, StreamShift::one(INPUT_SHIFT)),
        };
        let kinds = LAYER_KINDS.len();
        let head = model.columns.last().copied();
        let own = model.columns.get(self.start * kinds..self.end * kinds);
        let biases = |range| model.biases.get(range).unwrap_or_default();
        // Those of the layers, that of the head, and the gains of the states, if there are any.
        let per_layer = if model.norms_outputs() { 4 } else { 2 };
        let (last, states) = (self.of * kinds, per_layer * self.start..per_layer * self.end + 1);
        let lists = [
            biases(self.start * kinds..self.end * kinds),
            biases(last..last + 1),
            biases(last + 1 + states.start..last + 1 + states.end),
        ];
        ModelParams {
            biases: lists.concat(),
            layers: model.layers.get(self.layers()).unwrap_or_default().to_vec(),
            columns: own.unwrap_or_default().iter().copied().chain(head).collect(),
            norm_final: next.map_or(&model.norm_final, |layer| &layer.attention.norm).clone(),
            embed_exponent,
            embed,
            ..model.clone()
        }
    }

    /// The weight matrices of the chunk: layers as the chunk counts them, tiles as the model does.
    pub fn matmuls(&self, model: &ModelConfig) -> Vec<Matmul> {
        let own = |m: &Matmul| match m.id.kind() {
            MatmulKind::Embed => self.is_first(),
            MatmulKind::Head => self.is_last(),
            _ => self.layers().contains(&m.id.layer()),
        };
        let local = |m: Matmul| Matmul {
            id: m.id.kind().at(m.id.layer().saturating_sub(self.start)),
            ..m
        };
        model.matmuls().into_iter().filter(own).map(local).collect()
    }

    /// The tiles of the chunk, which are contiguous.
    pub fn tiles(&self, model: &ModelConfig) -> Range<usize> {
        let matmuls = self.matmuls(model);
        let start = matmuls.first().map_or(0, |m| m.first_tile);
        start..matmuls.last().map_or(start, |m| m.first_tile + m.tiles())
    }
}

/// The residual stream between two chunks, `[token][feature]` in real dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary(pub Vec<i16>);

/// A boundary as a proof has it: in clear, or as the root of a commitment to it ([`BoundaryUnits`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicBoundary {
    /// The values.
    Clear(Boundary),
    /// The root of the commitment to the values.
    Committed([u8; 32]),
}

/// A boundary for people, and for whoever looks for all values of a proof.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Readable {
    Clear(Vec<i16>),
    Committed { root: [u8; 32] },
}

/// In files the values, as a sequence; of a commitment an empty one, and then the root. No boundary is empty.
impl Serialize for PublicBoundary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Clear(Boundary(values)) => values.serialize(serializer),
            Self::Committed(root) if serializer.is_human_readable() => {
                Readable::Committed { root: *root }.serialize(serializer)
            }
            Self::Committed(root) => (Vec::<i16>::new(), root).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PublicBoundary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = PublicBoundary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the values of a boundary, or none and a root")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<PublicBoundary, A::Error> {
                let lacking = |part| A::Error::invalid_length(part, &self);
                let values: Vec<i16> = parts.next_element()?.ok_or_else(|| lacking(0))?;
                if !values.is_empty() {
                    return Ok(PublicBoundary::Clear(Boundary(values)));
                }
                let root = parts.next_element()?.ok_or_else(|| lacking(1))?;
                Ok(PublicBoundary::Committed(root))
            }
        }

        if deserializer.is_human_readable() {
            return Ok(match Readable::deserialize(deserializer)? {
                Readable::Clear(values) => Self::Clear(Boundary(values)),
                Readable::Committed { root } => Self::Committed(root),
            });
        }
        deserializer.deserialize_tuple(2, Parts)
    }
}

impl PublicBoundary {
    /// Checks that the boundary is one of so many rows, in clear or committed to as their number says. `index` names it in the error.
    pub fn check(&self, index: usize, rows: usize, hidden: usize) -> Result<(), BoundaryError> {
        let committed = BoundaryUnits::of(rows, hidden).is_some();
        match self {
            Self::Clear(_) if committed => Err(BoundaryError::Clear { index }),
            Self::Committed(_) if !committed => Err(BoundaryError::Committed { index }),
            Self::Committed(_) => Ok(()),
            Self::Clear(Boundary(values)) => {
                let (got, expected) = (values.len(), rows.saturating_mul(hidden));
                match got == expected {
                    true => Ok(()),
                    false => Err(BoundaryError::Length { index, got, expected }),
                }
            }
        }
    }
}

/// What enters and leaves a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Ends<E> {
    /// `None` in the first chunk.
    pub input: Option<E>,
    /// `None` in the last chunk.
    pub output: Option<E>,
}

impl<E> Default for Ends<E> {
    fn default() -> Self {
        Self {
            input: None,
            output: None,
        }
    }
}

impl<E> Ends<E> {
    /// Both ends, the input first.
    pub fn both(self) -> [Option<E>; 2] {
        [self.input, self.output]
    }
}

/// Boundaries that do not fit a model and its token rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum BoundaryError {
    #[error("{got} boundaries between {chunks} chunks")]
    Number { got: usize, chunks: usize },
    #[error("a chunk has {got} boundaries: one is missing, or there is one at an end of the model")]
    Ends { got: usize },
    #[error("boundary {index}: {got} values, expected {expected}")]
    Length { index: usize, got: usize, expected: usize },
    #[error(
        "boundary {index} is in clear, but has {COMMITTED_VALUES} values or more, so a proof has their commitment"
    )]
    Clear { index: usize },
    #[error(
        "boundary {index} is committed to, but has fewer than {COMMITTED_VALUES} values, so a proof has them in clear"
    )]
    Committed { index: usize },
}

/// The boundaries at both ends of every chunk. There must be one between any two neighbouring chunks.
pub fn ends<B>(boundaries: &[B], chunks: usize) -> Result<Vec<Ends<&B>>, BoundaryError> {
    if boundaries.len().checked_add(1) != Some(chunks) {
        return Err(BoundaryError::Number {
            got: boundaries.len(),
            chunks,
        });
    }
    let of = |i: usize| Ends {
        input: i.checked_sub(1).and_then(|i| boundaries.get(i)),
        output: boundaries.get(i),
    };
    Ok((0..chunks).map(of).collect())
}

// They unwrap what must not fail: a panic is a failed test. The lints that forbid it are for what hostile bytes reach.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        odd_config, test_params, Blocks, ChannelShift, ColumnNorms, LimbSet, Limbs, Mask, MatrixId, Windows,
    };
    use crate::shape::{Part, Shape};

    const LAYERS: usize = 7;

    fn config() -> ModelConfig {
        ModelConfig {
            hidden: 100,
            ..odd_config(LAYERS)
        }
    }

    /// Parameters that tell layers apart.
    fn params() -> ModelParams {
        let mut params = test_params(&config());
        for (l, layer) in params.layers.iter_mut().enumerate() {
            layer.attention.norm.shift = ChannelShift::one(1 + l as u8);
            layer.mlp.norm.shift = ChannelShift::one(2 + l as u8);
            layer.attention.q = ChannelShift(vec![1 + l as u8]);
            layer.mlp.down = StreamShift::one(1 + l as u8);
            layer.attention.skip.lead = -(l as i8);
        }
        for (i, norms) in params.columns.iter_mut().enumerate() {
            let l1 = 1 + (i / LAYER_KINDS.len()) as u64;
            *norms = ColumnNorms { l1, square: l1 };
        }
        params.norm_final.shift = ChannelShift::one(13);
        (params.embed_exponent, params.embed) = (5, StreamShift::one(9));
        params
    }

    /// Windows in another order, and layers in another place, make no other shape; another number of either does.
    #[test]
    fn chunks_of_one_kind_have_one_shape() {
        let config = ModelConfig {
            context: 1 << 13,
            blocks: Blocks {
                mask: Mask::Windows(Windows::new(100, [1, 2, 5])),
                ..Blocks::DECODER
            },
            ..config()
        };
        let all = (0..LAYERS).flat_map(|start| (start + 1..=LAYERS).map(move |end| (start, end)));
        let chunks: Vec<Chunk> = all.map(|(start, end)| Chunk { start, end, of: LAYERS }).collect();
        let shape = |chunk: &Chunk| {
            let shape = Shape::with_limbs(&config, LimbSet::all(Limbs::Two), chunk, 600);
            let of = |part: &Part| (*part, shape.full_axes(*part), shape.lanes(*part), shape.columns(*part));
            (shape.parts().iter().map(of).collect::<Vec<_>>(), shape.fractions())
        };
        let mut alike = 0;
        for a in &chunks {
            for b in &chunks {
                if a.kind(&config) == b.kind(&config) {
                    assert_eq!(shape(a), shape(b), "{a:?} and {b:?}");
                    alike += usize::from(a != b);
                }
            }
        }
        // Layers 3 and 4 have no window, and 5 has one.
        let [without, other, with] = [3, 4, 5].map(|start| Chunk {
            start,
            end: start + 1,
            of: LAYERS,
        });
        assert_eq!(without.kind(&config), other.kind(&config));
        assert_ne!(without.kind(&config), with.kind(&config));
        assert_ne!(shape(&without), shape(&with));
        assert!(alike > 10, "{alike}");
    }

    /// All partitions of the model.
    fn partitions() -> Vec<Vec<Chunk>> {
        let cuts = 0..1u32 << (LAYERS - 1);
        let sizes = cuts.map(|cuts| {
            (0..LAYERS).fold(vec![0], |mut sizes, l| {
                *sizes.last_mut().unwrap() += 1;
                if l + 1 < LAYERS && cuts >> l & 1 == 1 {
                    sizes.push(0);
                }
                sizes
            })
        });
        sizes.map(|sizes| Chunk::partition(sizes, LAYERS).unwrap()).collect()
    }

    /// Every matrix is in one chunk, with its own tiles; so is every parameter of a layer.
    #[test]
    fn chunks_leave_nothing_out_and_share_nothing() {
        let (config, params) = (config(), params());
        assert_eq!(partitions().len(), 64);
        for chunks in partitions() {
            let mut matmuls = Vec::new();
            let mut tile = 0;
            for chunk in &chunks {
                let own = chunk.matmuls(&config);
                let tiles = chunk.tiles(&config);
                assert_eq!((tiles.start, tiles.len()), (tile, own.iter().map(Matmul::tiles).sum()));
                tile = tiles.end;
                assert!(own.iter().all(|m| m.id.layer() < chunk.layers().len()));
                matmuls.extend(own.into_iter().map(|m| match m.id.kind() {
                    MatmulKind::Embed | MatmulKind::Head => m,
                    kind => Matmul {
                        id: kind.at(m.id.layer() + chunk.start),
                        ..m
                    },
                }));
            }
            assert_eq!(matmuls, config.matmuls());
            assert_eq!(tile, config.total_tiles());
            let layers: Vec<_> = chunks.iter().flat_map(|chunk| chunk.params(&params).layers).collect();
            assert_eq!(layers, params.layers);
            let ends = |is: fn(&Chunk) -> bool| chunks.iter().filter(|c| is(c)).count();
            assert_eq!((ends(Chunk::is_first), ends(Chunk::is_last)), (1, 1));
        }
    }

    /// A chunk is a model whose parameters pass the same checks; what is not its own is that of its ends.
    #[test]
    fn a_chunk_is_a_model() {
        let (config, params) = (config(), params());
        for chunk in partitions().concat() {
            let own = chunk.params(&params);
            assert_eq!(chunk.config(&config).layers, chunk.layers().len());
            assert_eq!(own.layers.len(), chunk.layers().len());
            let norm = match chunk.is_last() {
                true => &params.norm_final,
                false => &params.layers[chunk.end].attention.norm,
            };
            assert_eq!(own.norm_final, *norm);
            for kind in LAYER_KINDS {
                let norms = |p: &ModelParams, layer: usize| p.norms(kind.at(layer)).unwrap();
                assert!((chunk.layers().zip(0..)).all(|(layer, l)| norms(&own, l) == norms(&params, layer)));
            }
            let head = |p: &ModelParams| p.norms(MatrixId::HEAD);
            assert_eq!(
                (head(&own), own.columns.len()),
                (head(&params), 7 * chunk.layers().len() + 1)
            );
            let embedding = match chunk.is_first() {
                true => (5, StreamShift::one(9)),
                false => (0, StreamShift::one(INPUT_SHIFT)),
            };
            assert_eq!((own.embed_exponent, own.embed), embedding);
        }
    }

    #[test]
    fn other_numbers_of_layers_are_no_partition() {
        let partition = |layers: &[usize]| Chunk::partition(layers.iter().copied(), LAYERS);
        let layers = |got| Err(ChunkError::Layers { got, expected: LAYERS });
        assert_eq!(partition(&[]), layers(0));
        assert_eq!(partition(&[3, 3]), layers(6));
        assert_eq!(partition(&[3, 5]), layers(8));
        assert_eq!(partition(&[usize::MAX, 8]), layers(usize::MAX));
        assert_eq!(partition(&[3, 0, 4]), Err(ChunkError::Empty { index: 1 }));
    }
}
