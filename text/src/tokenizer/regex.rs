//! The regular expressions of a `tokenizer.json`, as the official library reads and runs them.
//!
//! The official library has Oniguruma (a library in C), in its own syntax and without options. This is a small engine of the
//! same kind: it parses that syntax, and searches by backtracking. A pattern with a part that is not known here to
//! mean the same is refused by name, and a search that takes too long is an error, never another split.

mod classes;
mod machine;
mod node;
mod parse;
#[cfg(test)]
mod tests;

use tokenizers::pattern::Pattern;
use tokenizers::{Offsets, Result};

use self::machine::Program;

/// A regular expression, ready to search.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: String,
    program: Program,
}

impl Regex {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If the pattern is malformed, or uses what is not supported; the text names the pattern.
    pub fn new(pattern: &str) -> std::result::Result<Self, String> {
        let named = |problem: String| format!("the regular expression {pattern:?} {problem}");
        let node = parse::parse(pattern).map_err(named)?;
        let program = Program::new(&node).map_err(named)?;
        let pattern = pattern.to_owned();
        Ok(Self { pattern, program })
    }

    /// Matches from left to right as byte offsets, none inside of another; an empty match does not follow a match at the
    /// same place.
    ///
    /// # Errors
    /// If the search takes too many steps.
    pub fn find_all(&self, text: &str) -> std::result::Result<Vec<Offsets>, String> {
        let (mut found, mut from, mut last) = (Vec::new(), 0, None);
        while from <= text.len() {
            let next = self.program.search(text, from);
            let next = next.map_err(|_| {
                let pattern = &self.pattern;
                format!("the regular expression {pattern:?} takes too many steps for this text")
            })?;
            let Some((start, end)) = next else { break };
            if start == end && last == Some(end) {
                from += text[from..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            (from, last) = (end, Some(end));
            found.push((start, end));
        }
        Ok(found)
    }
}

impl Pattern for &Regex {
    fn find_matches(&self, inside: &str) -> Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut splits, mut prev) = (Vec::new(), 0);
        for (start, end) in self.find_all(inside)? {
            if prev != start {
                splits.push(((prev, start), false));
            }
            splits.push(((start, end), true));
            prev = end;
        }
        if prev != inside.len() {
            splits.push(((prev, inside.len()), false));
        }
        Ok(splits)
    }
}
