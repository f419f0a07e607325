//! RoBERTa and XLM-R: BERT whose positions are counted from the row after that of the padding token.

use tessera_circuits::model::ModelConfig;

use super::bert::{self, Fields, ReadHead};
use super::description::{Description, Family};
use super::place::{Parameter, Place};
use super::reader::Reader;
use crate::CheckpointError;

/// The row of positions that padding has, which is the id of its token; all models that are distributed have this one.
const PADDING: usize = 1;

pub const FAMILY: Family = Family {
    models: "RoBERTa encoders",
    architecture: "RobertaModel",
    model_type: "roberta",
    describe,
    place,
    inputs_first: false,
};

pub const MULTILINGUAL: Family = Family {
    models: "XLM-R encoders (multilingual-e5, bge-m3)",
    architecture: "XLMRobertaModel",
    model_type: "xlm-roberta",
    ..FAMILY
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    encoder(reader, None)
}

/// An encoder, with a head of scores or without.
pub(super) fn encoder(reader: &mut Reader<'_>, head: Option<ReadHead>) -> Result<Description, CheckpointError> {
    let padding = reader.integer("pad_token_id")?.unwrap_or(PADDING);
    if padding != PADDING {
        let detail = format!("positions would begin after row {padding}, not after row {PADDING}");
        reader.refuse("pad_token_id", detail);
    }
    let fields = Fields {
        skipped: PADDING + 1,
        head,
        ..Fields::BERT
    };
    bert::encoder(reader, &fields)
}

pub(super) fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let whole = bert::place(config, parameter);
    match parameter {
        Parameter::Positions => Place::part(whole.tensor, &[PADDING + 1, config.context], 1),
        _ => whole,
    }
}
