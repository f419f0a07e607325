//! How often the integer model writes exactly what the float model writes, and how often bfloat16 does (docs/fidelity.md):
//! greedy texts of prompts, with the ends of the model respected.
//!
//!     cargo run --release --example greedy -- MODEL_DIR CHECKPOINT IDS_FILE TOKENS
//!
//! `IDS_FILE` has the ids of one prompt per line, separated by commas.

use std::path::Path;

use tessera::model::Model;
use tessera_checkpoint::Checkpoint;
use tessera_circuits::semantics::arg_max;
use tessera_float::precision::Precision;
use tessera_float::{Blind, FloatModel};
use tessera_model::forward::ForwardState;

type Failure = Box<dyn std::error::Error>;

/// A prompt and what is made of it.
struct Text {
    prompt: Vec<u32>,
    output: Vec<u32>,
}

impl Text {
    fn ids(&self) -> Vec<u32> {
        [self.prompt.as_slice(), &self.output].concat()
    }
}

/// Goes on with a text in the integer model, up to `tokens` tokens or an end.
fn continued(model: &Model, text: &mut Text, tokens: usize) -> Result<(), Failure> {
    let ended = |output: &[u32]| output.last().is_some_and(|id| model.key.config.eos.contains(id));
    let mut state = ForwardState::new(&model.quantised);
    let mut next = text.ids();
    while text.output.len() < tokens && !ended(&text.output) {
        let logits = state.run_last(&next)?;
        next = vec![arg_max(&logits) as u32];
        text.output.extend(&next);
    }
    Ok(())
}

/// What the model in this precision would write in every position of the outputs, given what stands before it.
fn told(checkpoint: &Checkpoint, precision: Precision, texts: &[&Text]) -> Result<Vec<Vec<u32>>, Failure> {
    let ids: Vec<Vec<u32>> = texts.iter().map(|text| text.ids()).collect();
    let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
    let mut run = FloatModel::with_precision(checkpoint, precision).run(&ids)?;
    for l in 0..checkpoint.config().layers {
        run.layer(l, &mut Blind)?;
    }
    let output = run.into_output()?;
    let vocab = checkpoint.config().vocab;
    let mut first = 0;
    let mut all = Vec::new();
    for text in texts {
        let start = first + text.prompt.len() - 1;
        let logits = output.logits(start..start + text.output.len())?;
        let best = |row: &[f32]| {
            let top = row.iter().enumerate();
            top.fold(0, |best, (i, v)| if *v > row[best] { i } else { best }) as u32
        };
        all.push(logits.chunks_exact(vocab).map(best).collect());
        first += text.prompt.len() + text.output.len();
    }
    Ok(all)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, checkpoint, ids, tokens] = args.as_slice() else {
        return Err("usage: greedy MODEL_DIR CHECKPOINT IDS_FILE TOKENS".into());
    };
    let (model, checkpoint) = (Model::open(Path::new(model))?, Checkpoint::open(Path::new(checkpoint))?);
    let tokens: usize = tokens.parse()?;
    let mut texts = Vec::new();
    for line in std::fs::read_to_string(ids)?.lines() {
        let prompt = line.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        let mut text = Text {
            prompt,
            output: Vec::new(),
        };
        continued(&model, &mut text, tokens)?;
        texts.push(text);
    }
    // The float model's own texts: the integer model's, corrected at the first difference, until there is none.
    let mut same = vec![true; texts.len()];
    let mut open: Vec<usize> = (0..texts.len()).collect();
    while !open.is_empty() {
        let drafts: Vec<&Text> = open.iter().map(|i| &texts[*i]).collect();
        let told = told(&checkpoint, Precision::Float32, &drafts)?;
        let mut still = Vec::new();
        for (i, told) in open.into_iter().zip(told) {
            let output = &mut texts[i].output;
            if let Some(at) = output.iter().zip(&told).position(|(a, b)| a != b) {
                same[i] = false;
                output.truncate(at);
                output.push(told[at]);
                continued(&model, &mut texts[i], tokens)?;
                still.push(i);
            }
        }
        open = still;
    }
    let all: Vec<&Text> = texts.iter().collect();
    let bfloat16: Vec<bool> = told(&checkpoint, Precision::Bfloat16, &all)?
        .iter()
        .zip(&texts)
        .map(|(told, text)| *told == text.output)
        .collect();
    for (i, text) in texts.iter().enumerate() {
        let word = |same: bool| if same { "same" } else { "other" };
        let (int, bf16, length) = (word(same[i]), word(bfloat16[i]), text.output.len());
        println!("prompt {i}: {length} tokens of the float model; integer {int}, bfloat16 {bf16}");
    }
    let count = |flags: &[bool]| flags.iter().filter(|same| **same).count();
    println!(
        "integer {} of {}, bfloat16 {}",
        count(&same),
        same.len(),
        count(&bfloat16)
    );
    Ok(())
}
