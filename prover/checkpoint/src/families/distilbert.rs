//! DistilBERT: BERT without types of tokens, under other names.

use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::bert::{self, Fields};
use super::description::{Description, Family};
use super::place::{Parameter, Place};
use super::reader::Reader;
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "DistilBERT encoders",
    architecture: "DistilBertModel",
    model_type: "distilbert",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    // How the rows of positions began; the checkpoint has what became of them.
    reader.get("sinusoidal_pos_embds");
    // Heads of other tasks, of which there are none here.
    for other in ["qa_dropout", "seq_classif_dropout", "tie_weights_"] {
        reader.get(other);
    }
    let fields = Fields {
        hidden: "dim",
        layers: "n_layers",
        heads: "n_heads",
        ff: "hidden_dim",
        activation: "activation",
        types: None,
        ..Fields::BERT
    };
    bert::encoder(reader, &fields)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| format!("model.layer.{layer}.{part}");
    let middle = |layer: usize, end: &str| Place::whole(of(layer, &format!("sa_layer_norm.{end}")));
    let entering = |layer: usize, end: &str| match layer.checked_sub(1) {
        Some(before) => Place::whole(of(before, &format!("output_layer_norm.{end}"))),
        None => Place::whole(format!("model.embeddings.LayerNorm.{end}")),
    };
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        Parameter::AttentionNorm(layer) => return entering(layer, "weight"),
        Parameter::MlpNorm(layer) => return middle(layer, "weight"),
        Parameter::FinalNorm => return entering(config.layers, "weight"),
        Parameter::NormBias(MatmulKind::Head, _) => return entering(config.layers, "bias"),
        Parameter::NormBias(MatmulKind::Up, layer) => return middle(layer, "bias"),
        Parameter::NormBias(_, layer) => return entering(layer, "bias"),
        _ => return bert::place(config, parameter),
    };
    let part = match kind {
        MatmulKind::Embed | MatmulKind::Head => return bert::place(config, parameter),
        MatmulKind::Q => "attention.q_lin",
        MatmulKind::K => "attention.k_lin",
        MatmulKind::V => "attention.v_lin",
        MatmulKind::O => "attention.out_lin",
        MatmulKind::Gate | MatmulKind::Up => "ffn.lin1",
        MatmulKind::Down => "ffn.lin2",
    };
    Place::whole(of(layer, &format!("{part}.{end}")))
}
