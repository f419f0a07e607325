//! What the caller wants a proof to be about.

use std::str::FromStr;

pub use tessera_verifier::context::Context;

use crate::claim::Claim;
use crate::rows::count;

/// Token ids: numbers between commas or white space, or a JSON list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        let words = inside
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|word| !word.is_empty());
        let ids = words.map(|word| word.parse().map_err(|_| format!("{word:?} is not a token id")));
        let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
        match ids.is_empty() {
            true => Err("no token ids are given".to_owned()),
            false => Ok(Self(ids)),
        }
    }
}

/// What a proof has to be about; nothing if it may be about anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The ids of the prompt.
    pub prompt: Option<Vec<u32>>,
    /// The ids of the output.
    pub output: Option<Vec<u32>>,
    /// The text of the output, without special tokens.
    pub output_text: Option<String>,
    /// The context that the proof was made in.
    pub context: Option<Context>,
}

impl Expected {
    /// Why a proof that holds in a context, or in none, does not hold in the expected one.
    pub fn other_context(&self, got: Option<Context>) -> Option<String> {
        let expected = self.context.filter(|expected| got != Some(*expected))?;
        Some(match got {
            Some(got) => format!("the context is not the expected one: {got}, expected {expected}"),
            None => format!("the proof has no context, expected {expected}"),
        })
    }

    /// Why a proven statement is not the expected one. A vector is no output of ids and has no text, not even an empty one.
    ///
    /// # Errors
    /// If that cannot be decided.
    pub fn mismatch(&self, claim: &Claim) -> Result<Option<String>, String> {
        let statement = claim.statement();
        let of = |what, got: &[u32], expected: &Option<Vec<u32>>| {
            expected.as_deref().and_then(|expected| difference(what, got, expected))
        };
        if let Some(vector) = claim.vector() {
            let output = (self.output.is_some() || self.output_text.is_some()).then(|| {
                let integers = count(vector.integers.len(), "integer");
                format!("the output is not the expected one: it is a vector of {integers}")
            });
            return Ok(of("prompt", &statement.prompt, &self.prompt).or(output));
        }
        let text = match (&self.output_text, claim.texts()) {
            (None, _) => None,
            (Some(expected), Ok(texts)) => {
                let differs = *expected != texts.output.text;
                differs.then(|| "the output is not the expected text".to_owned())
            }
            (Some(_), Err(reason)) => return Err(format!("the output has no text to compare: {reason}")),
        };
        let prompt = of("prompt", &statement.prompt, &self.prompt);
        Ok(prompt
            .or_else(|| of("output", &statement.output, &self.output))
            .or(text))
    }
}

/// The first difference of two id lists.
fn difference(what: &str, got: &[u32], expected: &[u32]) -> Option<String> {
    let differing = |(_, (g, e)): &(usize, (&u32, &u32))| g != e;
    if let Some((at, (got, expected))) = got.iter().zip(expected).enumerate().find(differing) {
        return Some(format!(
            "the {what} is not the expected one: id {got} at position {at}, expected {expected}"
        ));
    }
    let (got, expected) = (got.len(), expected.len());
    (got != expected).then(|| {
        format!(
            "the {what} is not the expected one: {}, expected {expected}",
            count(got, "id")
        )
    })
}

#[cfg(test)]
mod tests {
    use tessera_circuits::model::{Pooling, WeightFormat};
    use tessera_circuits::statement::Statement;
    use tessera_testkit::{encoder_config, random_model, unrooted_key};

    use super::{difference, Expected};
    use crate::claim::Claim;
    use crate::text::{Side, Texts};

    /// Of what text there is: that of a tokenizer shows none for a vector.
    #[test]
    fn a_vector_is_neither_ids_nor_an_empty_text() {
        let key = unrooted_key(&random_model(encoder_config(Pooling::Mean), WeightFormat::Int16, 7));
        let vector = vec![-3; key.config.hidden];
        let statement = Statement::of_vector(vec![5, 6], &vector);
        let texts = [
            Ok(Texts {
                prompt: Side::default(),
                output: Side::default(),
            }),
            Err("the model has no tokenizer".to_owned()),
        ];
        for texts in texts {
            let claim = Claim::new(&statement, &key, texts, |_| None);
            let mismatch = |expected: Expected| expected.mismatch(&claim).expect("a decision");
            let own = Expected {
                prompt: Some(statement.prompt.clone()),
                ..Expected::default()
            };
            assert_eq!(mismatch(own), None);
            let text = Expected {
                output_text: Some(String::new()),
                ..Expected::default()
            };
            let words = Expected {
                output: Some(statement.output.clone()),
                ..Expected::default()
            };
            for other in [text, words] {
                let reason = mismatch(other).expect("another output");
                assert!(reason.ends_with("a vector of 20 integers"), "{reason}");
            }
            let other = Expected {
                prompt: Some(vec![5, 7]),
                output: Some(vec![1]),
                ..Expected::default()
            };
            let reason = mismatch(other).expect("another prompt");
            assert!(reason.contains("id 6 at position 1, expected 7"), "{reason}");
        }
    }

    #[test]
    fn differences_are_located() {
        assert_eq!(difference("prompt", &[1, 2], &[1, 2]), None);
        let text = difference("prompt", &[1, 2], &[1, 3]).unwrap();
        assert!(text.contains("id 2 at position 1, expected 3"), "{text}");
        let text = difference("output", &[1, 2], &[1]).unwrap();
        assert!(text.contains("2 ids, expected 1"), "{text}");
        assert!(difference("output", &[], &[1]).is_some());
    }
}
