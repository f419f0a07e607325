//! Cross-encoders, which make scores of a query and a document: BERT, RoBERTa and XLM-R whose first row goes to a dense layer, tanh and a
//! row of weights for every score.

use serde_json::Value;
use tessera_circuits::model::{ModelConfig, Reranker};

use super::bert::{self, Fields};
use super::description::{Description, Family};
use super::place::{HeadPart, Parameter, Place};
use super::reader::Reader;
use super::roberta;
use crate::config::SEPARATOR;
use crate::CheckpointError;

pub const BERT: Family = Family {
    models: "BERT rerankers (ms-marco-MiniLM)",
    architecture: "BertForSequenceClassification",
    model_type: "bert",
    describe: of_bert,
    place,
    inputs_first: false,
};

pub const ROBERTA: Family = Family {
    models: "RoBERTa rerankers",
    architecture: "RobertaForSequenceClassification",
    model_type: "roberta",
    describe: of_roberta,
    place: roberta::place,
    inputs_first: false,
};

pub const MULTILINGUAL: Family = Family {
    models: "XLM-R rerankers (bge-reranker)",
    architecture: "XLMRobertaForSequenceClassification",
    model_type: "xlm-roberta",
    ..ROBERTA
};

/// Where a config says what a logit goes through, and the names that are known, with whether it is the sigmoid.
const ACTIVATIONS: [&str; 2] = [
    "sbert_ce_default_activation_function",
    "sentence_transformers.activation_fn",
];
const IDENTITY: &str = "torch.nn.modules.linear.Identity";
const SIGMOID: &str = "torch.nn.modules.activation.Sigmoid";
/// Scores of a config that does not say how many.
const LABELS: usize = 2;

fn of_bert(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let fields = Fields {
        head: Some(head),
        ..Fields::BERT
    };
    bert::encoder(reader, &fields)
}

fn of_roberta(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    roberta::encoder(reader, Some(head))
}

/// What beside the encoder makes scores, and how many: with several types of tokens, the token that ends the first text.
fn head(reader: &mut Reader<'_>, types: Option<usize>) -> Result<(Reranker, usize), CheckpointError> {
    let names = reader
        .get("id2label")
        .and_then(Value::as_object)
        .map(|names| names.len());
    let stated = reader.integer("num_labels")?;
    if let (Some(stated), Some(named)) = (stated, names) {
        if stated != named {
            return Err(reader.error("num_labels", format!("{stated}, but id2label names {named}")));
        }
    }
    let mut sigmoid = false;
    for field in ACTIVATIONS {
        match reader.text(field)? {
            None | Some(IDENTITY) => {}
            Some(SIGMOID) => sigmoid = true,
            Some(other) => reader.refuse(field, format!("{other} is neither {IDENTITY} nor {SIGMOID}")),
        }
    }
    // Of the program that wrote it.
    reader.get("sentence_transformers.version");
    let separator = match types {
        Some(2..) => reader.integer(SEPARATOR)?.and_then(|id| u32::try_from(id).ok()),
        _ => None,
    };
    if separator.is_none() && types.is_some_and(|types| types > 1) {
        let detail = format!(
            "the second text has tokens of another type, and neither {SEPARATOR} nor a sep_token of the tokenizer says where it begins"
        );
        reader.refuse(SEPARATOR, detail);
    }
    Ok((Reranker { separator, sigmoid }, stated.or(names).unwrap_or(LABELS)))
}

/// BERT has its dense layer as a part of the encoder.
fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    Place::whole(match parameter {
        Parameter::Head(HeadPart::Dense, _) => "model.pooler.dense.weight",
        Parameter::Head(HeadPart::DenseBias, _) => "model.pooler.dense.bias",
        Parameter::Head(HeadPart::Scores, _) => "model.classifier.weight",
        Parameter::Head(HeadPart::ScoresBias, _) => "model.classifier.bias",
        _ => return bert::place(config, parameter),
    })
}
