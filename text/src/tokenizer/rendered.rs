//! Encodes what a chat template made of messages: special tokens that the template wrote become special tokens, and
//! what a message spells like one stays text.
//!
//! A special token counts as the template's only if the template wrote every byte of it.

use std::collections::{BTreeMap, BTreeSet};

use tokenizers::AddedToken;

use super::guard::{guarded, time_for};
use super::{Tokenizer, TokenizerError};

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

    /// The names that `text` starts with, the longest first.
    fn at<'s>(&'s self, text: &'s str) -> impl Iterator<Item = &'a str> + 's {
        let names = text.chars().next().and_then(|c| self.0.get(&c));
        names
            .into_iter()
            .flatten()
            .filter(|name| text.starts_with(**name))
            .copied()
    }
}

/// Special tokens in a rendered text.
struct Found<'a> {
    /// Where the template has written them.
    own: Vec<(usize, &'a str)>,
    /// Names of the ones that a message spells, wholly or in part.
    spelled: BTreeSet<String>,
}

impl Tokenizer {
    /// The ids of a text that stands inside of another: no token goes around it, and special tokens that it spells stay text.
    ///
    /// # Errors
    /// If the text is too long, or cannot be encoded.
    pub fn encode_inside(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let (this, text) = (self.clone(), text.to_owned());
        let time = time_for(text.len());
        guarded(time, move || this.encode_rendered(&text, &[(0, text.len())]))?.map(|(ids, _)| ids)
    }

    /// The ids of a rendered text, without any that the tokenizer adds by itself, and the special tokens that messages
    /// spell in it. `user` are the ranges of bytes that came from messages, ascending.
    pub(crate) fn encode_rendered(
        &self,
        text: &str,
        user: &[(usize, usize)],
    ) -> Result<(Vec<u32>, Vec<String>), TokenizerError> {
        let failed = |e: tokenizers::Error| TokenizerError::Encode(e.to_string());
        self.growth.check_text(text.len()).map_err(TokenizerError::Limit)?;
        let found = self.special_tokens(text, user);
        let spelled: Vec<String> = found.spelled.into_iter().collect();
        let plain = self.inner.encode(text, false).map_err(failed)?;
        let mut expected = found.own.iter().map(|(_, name)| *name);
        let mut special = plain.get_ids().iter().filter_map(|id| self.special(*id));
        // A tokenizer may leave out tokens that stand inside of a word, or make one of what only becomes one as it is
        // normalised: the latter is not the template's.
        let honest = match spelled.is_empty() {
            true => special.all(|name| expected.any(|e| e == name)),
            false => special.eq(expected),
        };
        if honest {
            return Ok((plain.get_ids().to_vec(), spelled));
        }
        let ids = self.encode_apart(text, &found.own).map_err(failed)?;
        Ok((ids, spelled))
    }

    /// Ids of a text of which only the given special tokens are any. They become tokens that nobody can spell, with the
    /// same rules for the space around them; all others are switched off.
    fn encode_apart(&self, text: &str, own: &[(usize, &str)]) -> tokenizers::Result<Vec<u32>> {
        let mut free = ('\u{fdd0}'..='\u{fdef}').filter(|c| !text.contains(*c));
        let fence = free.next().ok_or("the text has all noncharacters of Unicode")?;
        let mut inner = (*self.inner).clone();
        inner.set_encode_special_tokens(true);
        let (mut stand_ins, mut replaced, mut end) = (BTreeMap::new(), String::new(), 0);
        for (at, name) in own {
            let number = stand_ins.len();
            let stand_in: &String = stand_ins
                .entry(*name)
                .or_insert_with(|| format!("{fence}{number}{fence}"));
            replaced.push_str(&text[end..*at]);
            replaced.push_str(stand_in);
            end = at + name.len();
        }
        replaced.push_str(&text[end..]);
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
        let encoding = inner.encode(replaced, false)?;
        Ok(encoding
            .get_ids()
            .iter()
            .map(|id| *real.get(id).unwrap_or(id))
            .collect())
    }

    fn special_tokens(&self, text: &str, user: &[(usize, usize)]) -> Found<'_> {
        let names = Names::of(self);
        let has_user = |start: usize, end: usize| {
            let first = user.partition_point(|(_, e)| *e <= start);
            user.get(first).is_some_and(|(s, _)| *s < end)
        };
        let mut found = Found {
            own: Vec::new(),
            spelled: BTreeSet::new(),
        };
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let mut length = c.len_utf8();
            for name in names.at(&text[at..]) {
                if has_user(at, at + name.len()) {
                    found.spelled.insert(name.to_owned());
                } else {
                    found.own.push((at, name));
                    length = name.len();
                    break;
                }
            }
            at += length;
        }
        found
    }

    fn added(&self, name: &str) -> AddedToken {
        let token = self.specials.values().find(|token| token.content == name);
        token.cloned().unwrap_or_default()
    }
}
