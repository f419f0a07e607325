//! Encodes what a chat template made of messages: special tokens that the template put there become special tokens, and
//! what a message spells like one stays text.
//!
//! A mark, a character that occurs nowhere else, is put inside of everything in a message that a special token is
//! spelled like. The template carries the marks along; afterwards they tell the one from the other.

use std::collections::{BTreeMap, BTreeSet};

use tokenizers::AddedToken;

use super::{Tokenizer, TokenizerError};

/// Two characters that no text has: noncharacters of Unicode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    mark: char,
    fence: char,
}

impl Marks {
    /// Characters that are in none of the texts; `None` if the texts have them all.
    pub fn absent_from(texts: &[&str]) -> Option<Self> {
        let mut free = ('\u{fdd0}'..='\u{fdef}').filter(|c| !texts.iter().any(|text| text.contains(*c)));
        Some(Self {
            mark: free.next()?,
            fence: free.next()?,
        })
    }
}

/// Names of special tokens by their first character, the longest first.
struct Names<'a>(BTreeMap<char, Vec<&'a str>>);

impl<'a> Names<'a> {
    fn of(tokenizer: &'a Tokenizer) -> Self {
        let mut names: BTreeMap<char, Vec<&str>> = BTreeMap::new();
        for name in tokenizer.specials.values().map(|token| token.content.as_str()) {
            if let Some(first) = name.chars().next() {
                names.entry(first).or_default().push(name);
            }
        }
        for list in names.values_mut() {
            list.sort_by_key(|name| std::cmp::Reverse(name.len()));
        }
        Self(names)
    }

    /// The longest name that `text` starts with.
    fn at(&self, text: &str) -> Option<&'a str> {
        let names = self.0.get(&text.chars().next()?)?;
        names.iter().find(|name| text.starts_with(**name)).copied()
    }
}

impl Tokenizer {
    /// Puts a mark inside of everything that a special token is spelled like; `spelled` gets their names.
    pub(crate) fn mark(&self, text: &str, marks: Marks, spelled: &mut BTreeSet<String>) -> String {
        let names = Names::of(self);
        let mut marked = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            marked.push(c);
            if let Some(name) = names.at(&text[at..]) {
                spelled.insert(name.to_owned());
                marked.push(marks.mark);
            }
        }
        marked
    }

    /// The text without marks, and its ids without any that the tokenizer adds by itself.
    pub(crate) fn encode_marked(&self, marked: &str, marks: Marks) -> Result<(String, Vec<u32>), TokenizerError> {
        let failed = |e: tokenizers::Error| TokenizerError::Encode(e.to_string());
        self.growth.check_text(marked.len()).map_err(TokenizerError::Limit)?;
        let text = marked.replace(marks.mark, "");
        let tokens = self.template_tokens(marked, marks);
        let plain = self.inner.encode(text.as_str(), false).map_err(failed)?;
        let found = plain.get_ids().iter().filter_map(|id| self.special(*id));
        if found.eq(tokens.iter().map(|(_, name)| *name)) {
            return Ok((text, plain.get_ids().to_vec()));
        }
        // The messages spell special tokens. Those of the template become tokens that nobody can spell, with the same
        // rules for the space around them; all others are switched off.
        let mut inner = (*self.inner).clone();
        inner.set_encode_special_tokens(true);
        let (mut stand_ins, mut replaced, mut end) = (BTreeMap::new(), String::new(), 0);
        for (at, name) in tokens {
            let number = stand_ins.len();
            let stand_in: &String = stand_ins
                .entry(name)
                .or_insert_with(|| format!("{}{number}{}", marks.fence, marks.fence));
            replaced.push_str(&marked[end..at]);
            replaced.push_str(stand_in);
            end = at + name.len();
        }
        replaced.push_str(&marked[end..]);
        let added = stand_ins.iter().map(|(name, stand_in)| AddedToken {
            content: stand_in.clone(),
            special: false,
            normalized: false,
            ..self.added(name)
        });
        inner.add_tokens(&added.collect::<Vec<_>>());
        let real = stand_ins.iter().filter_map(|(name, stand_in)| {
            let id = |token: &str| inner.token_to_id(token);
            Some((id(stand_in)?, id(name)?))
        });
        let real: BTreeMap<u32, u32> = real.collect();
        let encoding = inner.encode(replaced.replace(marks.mark, ""), false).map_err(failed)?;
        let ids = encoding.get_ids().iter().map(|id| *real.get(id).unwrap_or(id));
        Ok((text, ids.collect()))
    }

    /// Where the template has put special tokens.
    fn template_tokens(&self, marked: &str, marks: Marks) -> Vec<(usize, &str)> {
        let names = Names::of(self);
        let (mut tokens, mut at) = (Vec::new(), 0);
        while let Some(c) = marked[at..].chars().next() {
            match names.at(&marked[at..]) {
                // A token of one character has its mark behind it.
                Some(name) if !marked[at + name.len()..].starts_with(marks.mark) || name.len() > c.len_utf8() => {
                    tokens.push((at, name));
                    at += name.len();
                }
                _ => at += c.len_utf8(),
            }
        }
        tokens
    }

    fn added(&self, name: &str) -> AddedToken {
        let token = self.specials.values().find(|token| token.content == name);
        token.cloned().unwrap_or_default()
    }
}
