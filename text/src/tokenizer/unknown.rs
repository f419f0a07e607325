//! Text that a tokenizer has no token for: other texts have the same ids.

use std::collections::BTreeSet;

use super::{Tokenizer, TokenizerError};

/// A character that every tokenizer knows, to see whether another one between two of them leaves anything.
const KNOWN: char = 'a';

impl Tokenizer {
    /// The token in the place of text that no other token stands for, if the tokenizer has one.
    pub const fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The parts of a text that the tokenizer does not know, each once: those that become the unknown token, and characters that become
    /// nothing. A text with others in their place has the same ids.
    pub fn unknown_parts(&self, text: &str) -> Result<Vec<String>, TokenizerError> {
        let unknown = self.unknown;
        self.run(text, move |inner, text| {
            let mut parts = BTreeSet::new();
            let encoding = inner.encode(text, false)?;
            for (id, (start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
                if Some(*id) == unknown {
                    // Some normalizers move offsets: a part that cannot be named is unknown all the same.
                    let part = text.get(*start..*end).unwrap_or_default().trim();
                    parts.insert(part.to_owned());
                }
            }
            let ids = |text: String| Ok::<_, tokenizers::Error>(inner.encode(text, false)?.get_ids().to_vec());
            let nothing = ids(format!("{KNOWN}{KNOWN}"))?;
            // If it is unknown itself, it becomes one token with whatever stands beside it.
            if nothing.is_empty() || nothing.iter().any(|id| Some(*id) == unknown) {
                return Ok(parts.into_iter().collect());
            }
            let others: BTreeSet<char> = text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
            for own in others {
                if ids(format!("{KNOWN}{own}{KNOWN}"))? == nothing {
                    parts.insert(own.to_string());
                }
            }
            Ok(parts.into_iter().collect())
        })
    }
}
