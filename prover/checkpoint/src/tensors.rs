//! The tensors that a model has, by their names in the hub layout.

use std::collections::BTreeMap;

use tessera_circuits::model::{MatmulKind, MatrixId};

use super::config::HubConfig;
use super::error::{CheckpointError, Unsupported};
use super::families::{self, Description, Family, HeadPart, Norm, Parameter, Place};
use super::orientation::{orientation_of, Orientation};

/// Name of the embedding in most checkpoints.
pub const EMBED: &str = "model.embed_tokens.weight";
/// Name of the gain of the last norm in most checkpoints.
pub const FINAL_NORM: &str = "model.norm.weight";
/// Name of the output head in most checkpoints.
pub const HEAD: &str = "lm_head.weight";

/// Name of a weight matrix in most checkpoints, which messages use for all; its shape is `[out, in]`, except for the
/// embedding, `[vocab, hidden]`.
pub fn matmul_tensor(id: MatrixId) -> String {
    families::name(Parameter::Matrix(id.kind(), id.layer()))
}

/// Name of the gain of the norm before attention in most checkpoints.
pub fn attn_norm_tensor(layer: usize) -> String {
    families::name(Parameter::AttentionNorm(layer))
}

/// Name of the gain of the norms of the heads of Q or K in most checkpoints.
pub fn head_norm_tensor(id: MatrixId) -> String {
    families::name(Parameter::HeadNorm(id.kind(), id.layer()))
}

/// Name of the gain of the norm before the MLP in most checkpoints.
pub fn mlp_norm_tensor(layer: usize) -> String {
    families::name(Parameter::MlpNorm(layer))
}

/// A tensor that a model has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// What it is, or the first of what is in it.
    pub parameter: Parameter,
    /// Its name in the hub layout.
    pub name: String,
    pub shape: Vec<usize>,
}

/// All tensors that a model has; the head only if it is not tied.
pub(super) fn needed(family: &Family, description: &Description) -> Vec<Needed> {
    let config = &description.config;
    let mut all: Vec<Parameter> = Vec::new();
    for m in config.matmuls() {
        let (kind, layer) = (m.id.kind(), m.id.layer());
        match kind {
            MatmulKind::Head if description.tied => {}
            _ => all.push(Parameter::Matrix(kind, layer)),
        }
        if description.biases.contains(&kind) {
            all.push(Parameter::Bias(kind, layer));
        }
        if kind == MatmulKind::Down {
            all.extend([Parameter::AttentionNorm(layer), Parameter::MlpNorm(layer)]);
            if config.norms_outputs() {
                all.extend([MatmulKind::O, MatmulKind::Down].map(|kind| Parameter::PostNorm(kind, layer)));
            }
            if config.head_norms {
                all.extend([MatmulKind::Q, MatmulKind::K].map(|kind| Parameter::HeadNorm(kind, layer)));
            }
            if description.norm == Norm::Layer {
                all.extend([MatmulKind::Q, MatmulKind::Up].map(|kind| Parameter::NormBias(kind, layer)));
            }
        }
    }
    all.push(Parameter::FinalNorm);
    if description.norm == Norm::Layer {
        all.push(Parameter::NormBias(MatmulKind::Head, 0));
    }
    if config.positions {
        all.push(Parameter::Positions);
    }
    all.extend(description.types.map(Parameter::Types));
    let head = |labels: usize| HeadPart::ALL.map(|part| Parameter::Head(part, labels));
    all.extend(description.labels.map(head).into_iter().flatten());
    let tensor = |parameter: Parameter| {
        let (rows, width) = parameter.shape(config);
        let Place { tensor, fused } = (family.place)(config, parameter);
        let rows = fused.as_ref().map_or(rows, |(stored, _)| *stored);
        let shape = match parameter {
            Parameter::Matrix(kind, _)
                if orientation_of(family, kind) == Orientation::InputsFirst && kind != MatmulKind::Embed =>
            {
                vec![width, rows]
            }
            Parameter::Matrix(..)
            | Parameter::Positions
            | Parameter::Types(_)
            | Parameter::Head(HeadPart::Dense | HeadPart::Scores, _) => vec![rows, width],
            Parameter::Bias(..) => vec![fused.map_or(width, |(stored, _)| stored)],
            _ => vec![width],
        };
        let name = tensor;
        Needed { parameter, name, shape }
    };
    // Of a fused tensor, what comes first stands for all; and two norms may be one.
    let mut needed: Vec<Needed> = Vec::new();
    for own in all.into_iter().map(tensor) {
        if needed.iter().all(|other| other.name != own.name) {
            needed.push(own);
        }
    }
    needed
}

/// The shapes of all tensors that a model has, by name.
pub(super) fn expected_tensors(family: &Family, description: &Description) -> BTreeMap<String, Vec<usize>> {
    let all = needed(family, description).into_iter();
    all.map(|Needed { name, shape, .. }| (name, shape)).collect()
}

/// All tensors of a model with this `config.json`, and what it is.
pub fn tensors(config: &[u8]) -> Result<(Vec<Needed>, Description), CheckpointError> {
    let hub = HubConfig::parse(config)?;
    hub.check_architecture()?;
    let families::Read {
        family,
        description,
        unsupported,
    } = families::read(&hub);
    let (Some(family), []) = (family, unsupported.as_slice()) else {
        return Err(CheckpointError::Unsupported(unsupported));
    };
    let description = description?;
    match description.config.check() {
        Ok(()) => Ok((needed(family, &description), description)),
        Err(error) => Err(CheckpointError::Unsupported(vec![Unsupported {
            feature: "dimensions".to_string(),
            detail: error.to_string(),
            tensors: Vec::new(),
        }])),
    }
}

/// The embedding and a tied head are the same tensor, stored under either name.
pub(super) fn aliases(family: &Family, description: &Description) -> Vec<String> {
    let place = |kind| (family.place)(&description.config, Parameter::Matrix(kind, 0)).tensor;
    match description.tied {
        true => vec![place(MatmulKind::Embed), place(MatmulKind::Head)],
        false => Vec::new(),
    }
}
