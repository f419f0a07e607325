//! Reads a checkpoint: a directory in the hub layout (`config.json` and `model.safetensors`, or several safetensors
//! files with an index), or a GGUF file. Its family says what its
//! config and its tensors mean ([`families`]). Whatever a supported model does not have is refused by name.

mod blocks;
mod config;
mod damaged;
mod encoding;
mod error;
pub mod families;
mod gguf;
mod mistaken;
mod open;
mod orientation;
mod source;
mod storage;
mod survey;
mod tensors;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

use tessera_circuits::model::{MatmulKind, MatrixId, ModelConfig};

pub use error::{CheckpointError, Unsupported};
pub use gguf::{architectures as gguf_architectures, MAGIC as GGUF_MAGIC};
pub use mistaken::{file as mistaken_file, folder as mistaken_folder, CONVERT};
pub use orientation::{orientation, Orientation};
pub use storage::Tensor;
pub use survey::{Survey, TensorSummary};
pub use tensors::{
    attn_norm_tensor, head_norm_tensor, matmul_tensor, mlp_norm_tensor, tensors, Needed, EMBED, FINAL_NORM, HEAD,
};

use families::{Description, Family, HeadPart, Norm, Pairs, Parameter, Place};
use source::{Names, Source, TokenizerSource};
use storage::Storage;
use tensors::{aliases, expected_tensors};
use tessera_text::tokenizer::{IdFiles, TokenizerError};

/// An open checkpoint of a supported model, with all tensors present and of the right shape.
#[derive(Debug)]
pub struct Checkpoint {
    family: &'static Family,
    description: Description,
    aliases: Vec<String>,
    names: Names,
    storage: Storage,
    tokenizer: TokenizerSource,
}

impl Checkpoint {
    /// Opens a checkpoint directory or file; refuses whatever the proof system does not represent.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let source = open::open(path)?;
        source.hub.check_architecture()?;
        let names = Names::of(&source.storage);
        let families::Read {
            family, description, ..
        } = source.read(&names);
        // What the format found may be the reason why a dimension is missing.
        let description = if source.unsupported.is_empty() {
            Some(description?)
        } else {
            description.ok()
        };
        let survey = Survey::new(&source);
        let (Some(family), Some(description), []) = (family, description, survey.unsupported.as_slice()) else {
            return Err(CheckpointError::Unsupported(survey.unsupported));
        };
        let Source { storage, tokenizer, .. } = source;
        let aliases = aliases(family, &description);
        for (tensor, expected) in expected_tensors(family, &description) {
            match names.resolve(&tensor, &aliases).and_then(|n| storage.info(n)) {
                None => return Err(CheckpointError::Missing { tensor }),
                Some(info) if info.shape != expected => {
                    return Err(CheckpointError::Shape {
                        tensor,
                        got: info.shape.clone(),
                        expected,
                    });
                }
                Some(_) => {}
            }
        }
        Ok(Self {
            family,
            description,
            aliases,
            names,
            storage,
            tokenizer,
        })
    }

    /// Reports what a checkpoint directory or file contains, supported or not. Errors only if the files cannot be
    /// read as a checkpoint at all.
    pub fn survey(path: &Path) -> Result<Survey, CheckpointError> {
        Survey::of(path)
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.description.config
    }

    /// What the family of the model says of it.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Whether the output head is the embedding.
    pub fn tied(&self) -> bool {
        self.description.tied
    }

    /// A tensor by its name in the hub layout.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        self.storage
            .tensor(self.names.resolve(name, &self.aliases).ok_or_else(missing)?)
    }

    /// The values of a tensor, row-major, by its name in the hub layout. Errors name a value that is not
    /// finite.
    pub fn values(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        self.tensor(name)?.values()
    }

    /// A weight matrix, with the channels of Q and K in the order of the proof; [`orientation`] says how it is stored. The rows of
    /// positions have that of the first type of tokens added, where there are types; in rerankers of two types they follow once more, with
    /// the second.
    pub fn matrix(&self, id: MatrixId) -> Result<Tensor<'_>, CheckpointError> {
        let kind = id.kind();
        let place = |parameter| (self.family.place)(self.config(), parameter);
        let Place { tensor, fused } = place(Parameter::Matrix(id.kind(), id.layer()));
        let tensor = self.tensor(&tensor)?;
        if kind == MatmulKind::Embed && self.config().positions {
            let Place { tensor: name, fused } = place(Parameter::Positions);
            let rows = fused.map(|(_, rows)| rows.into_iter().flatten().collect::<Vec<_>>());
            let of_type = |token_type: usize| {
                let positions = self.tensor(&name)?;
                let positions = match &rows {
                    Some(rows) => positions.with_rows(rows.clone()),
                    None => positions,
                };
                let Some(types) = self.description.types else {
                    return Ok(positions);
                };
                let mut added = vec![0.0; self.config().hidden];
                self.tensor(&place(Parameter::Types(types)).tensor)?
                    .read(token_type * self.config().hidden, &mut added)?;
                Ok::<_, CheckpointError>(positions.with_each(added))
            };
            let first = of_type(0)?;
            return Ok(tensor.followed_by(match self.config().token_types() {
                1 => first,
                _ => first.followed_by(of_type(1)?),
            }));
        }
        Ok(match (self.rows(kind, fused), self.orientation(kind)) {
            (None, _) => tensor,
            // No family has both these and channels in another order.
            (Some(rows), Orientation::InputsFirst) => {
                let first = rows.first().copied().unwrap_or_default();
                tensor.with_columns(first..first + rows.len())
            }
            (Some(rows), Orientation::OutputsFirst) => tensor.with_rows(rows),
        })
    }

    /// What is added to the outputs of a matrix, in the order of [`Checkpoint::matrix`]; `None` if nothing is.
    pub fn bias(&self, id: MatrixId) -> Result<Option<Vec<f32>>, CheckpointError> {
        let kind = id.kind();
        let (config, description) = (self.config(), &self.description);
        if !description.biases.contains(&kind) {
            return Ok(None);
        }
        let Place { tensor, fused } = (self.family.place)(config, Parameter::Bias(id.kind(), id.layer()));
        let stored = self.values(&tensor)?;
        let rows = self.rows(kind, fused);
        Ok(Some(match rows {
            Some(rows) => rows.into_iter().map(|row| stored[row]).collect(),
            None => stored,
        }))
    }

    /// Which of the stored outputs of a matrix are those of the proof, in their order; `None` if all are, as they are.
    fn rows(&self, kind: MatmulKind, fused: Option<(usize, Vec<Range<usize>>)>) -> Option<Vec<usize>> {
        let (config, pairs) = (self.config(), &self.description.pairs);
        let rotated = matches!(kind, MatmulKind::Q | MatmulKind::K) && !pairs.is_plain(config.head_dim);
        let rows = match fused {
            Some((_, ranges)) => ranges.into_iter().flatten().collect(),
            None if rotated => (0..config.dims(kind).1).collect::<Vec<_>>(),
            None => return None,
        };
        Some(match rotated {
            true => turned(&rows, pairs, config.head_dim),
            false => rows,
        })
    }

    /// The values of the gain of a norm, or of its bias.
    pub fn gain(&self, norm: Parameter) -> Result<Vec<f32>, CheckpointError> {
        let mut gain = self.values(&(self.family.place)(self.config(), norm).tensor)?;
        if self.description.gains_less_one && !matches!(norm, Parameter::NormBias(..)) {
            gain.iter_mut().for_each(|g| *g += 1.0);
        }
        Ok(gain)
    }

    /// A part of the head of a reranker, row-major; `None` of other models.
    pub fn head_part(&self, part: HeadPart) -> Result<Option<Vec<f32>>, CheckpointError> {
        let labels = self.description.labels;
        let place = |labels| (self.family.place)(self.config(), Parameter::Head(part, labels)).tensor;
        labels.map(|labels| self.values(&place(labels))).transpose()
    }

    /// The gains of the norms of the heads of Q or K, in the order of the channels of a head as it is proved; `None` where heads are
    /// not normed.
    pub fn head_gain(&self, id: MatrixId) -> Result<Option<Vec<f32>>, CheckpointError> {
        let (config, pairs) = (self.config(), &self.description.pairs);
        if !config.head_norms {
            return Ok(None);
        }
        let stored = self.gain(Parameter::HeadNorm(id.kind(), id.layer()))?;
        let channels = 0..config.head_dim;
        Ok(Some(
            channels.map(|x| stored[pairs.stored(x, config.head_dim)]).collect(),
        ))
    }

    /// The bias of the norm that a matrix reads; `None` if it reads none, or norms have none.
    pub fn norm_bias(&self, id: MatrixId) -> Result<Option<Vec<f32>>, CheckpointError> {
        let (kind, layer) = (id.kind(), id.layer());
        let reader = match kind {
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => MatmulKind::Q,
            MatmulKind::Gate | MatmulKind::Up => MatmulKind::Up,
            MatmulKind::Head => MatmulKind::Head,
            MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => return Ok(None),
        };
        match self.description.norm {
            Norm::Rms | Norm::Centred => Ok(None),
            Norm::Layer => self.gain(Parameter::NormBias(reader, layer)).map(Some),
        }
    }

    /// How the weight matrices of a kind are stored.
    pub fn orientation(&self, kind: MatmulKind) -> Orientation {
        orientation::orientation_of(self.family, kind)
    }

    /// The files that decide ids, and the two tokenizer files that a key gets.
    pub fn id_files(&self) -> Result<IdFiles, TokenizerError> {
        self.tokenizer.files()
    }

    /// The files with tensors, and of each what precedes the tensors.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.storage.files()
    }
}

/// The rows of heads in the order of the pairs that are rotated together.
fn turned(rows: &[usize], pairs: &Pairs, head_dim: usize) -> Vec<usize> {
    let heads = rows.chunks_exact(head_dim);
    heads
        .flat_map(|head| (0..head_dim).map(|x| head[pairs.stored(x, head_dim)]))
        .collect()
}
