//! Strings that know which of their bytes a user wrote.
//!
//! A template cuts, joins and changes strings of messages like its own. All operations here carry along who wrote a
//! byte, so that afterwards a special token of the template can be told from one that a message spells.

use std::rc::Rc;

/// A string with the ranges of bytes that came from the user: ascending, disjoint, not adjacent.
#[derive(Clone, Debug)]
pub struct Text {
    text: Rc<str>,
    user: Rc<[(usize, usize)]>,
}

thread_local! {
    static NOTHING: Rc<[(usize, usize)]> = Rc::from([]);
}

impl Text {
    /// A text of the template.
    pub fn of(text: &str) -> Self {
        Self {
            text: text.into(),
            user: NOTHING.with(Rc::clone),
        }
    }

    /// A text of the user.
    pub fn of_user(text: &str) -> Self {
        let mut out = Builder::default();
        out.push(text, true);
        out.done()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn rc(&self) -> Rc<str> {
        Rc::clone(&self.text)
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Ranges of bytes that came from the user.
    pub fn user(&self) -> &[(usize, usize)] {
        &self.user
    }

    /// Number of characters.
    pub fn chars(&self) -> usize {
        self.text.chars().count()
    }

    /// Whether one byte in the range came from the user.
    pub fn has_user(&self, start: usize, end: usize) -> bool {
        let first = self.user.partition_point(|(_, e)| *e <= start);
        self.user.get(first).is_some_and(|(s, _)| *s < end)
    }

    /// Bytes `start..end`, which must be on borders of characters.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        if start == 0 && end == self.len() {
            return self.clone();
        }
        let mut out = Builder::default();
        out.push_slice(self, start, end);
        out.done()
    }

    /// The part of the text that `part`, a slice of its string, stands for.
    pub fn part(&self, part: &str) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.slice(start.min(self.len()), (start + part.len()).min(self.len()))
    }

    /// Each character with its byte position and whether the user wrote it.
    pub fn marked(&self) -> impl Iterator<Item = (usize, char, bool)> + '_ {
        let mut at = 0;
        self.text.char_indices().map(move |(i, c)| {
            while self.user.get(at).is_some_and(|(_, end)| *end <= i) {
                at += 1;
            }
            (i, c, self.user.get(at).is_some_and(|(start, _)| *start <= i))
        })
    }

    /// The text with each character changed.
    pub fn map(&self, mut change: impl FnMut(usize, char, &mut String)) -> Self {
        let (mut out, mut piece) = (Builder::default(), String::new());
        for (i, c, user) in self.marked() {
            piece.clear();
            change(i, c, &mut piece);
            out.push(&piece, user);
        }
        out.done()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::of(&text)
    }
}

/// Puts a text together.
#[derive(Debug, Default)]
pub struct Builder {
    text: String,
    user: Vec<(usize, usize)>,
}

impl Builder {
    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn push(&mut self, text: &str, user: bool) {
        let start = self.text.len();
        self.text.push_str(text);
        if user {
            self.mark(start, self.text.len());
        }
    }

    /// Appends what the template wrote.
    pub fn own(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn push_text(&mut self, text: &Text) {
        self.push_slice(text, 0, text.len());
    }

    pub fn push_slice(&mut self, text: &Text, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let base = self.text.len();
        self.text.push_str(&text.text[start..end]);
        let first = text.user.partition_point(|(_, e)| *e <= start);
        for (s, e) in &text.user[first..] {
            if *s >= end {
                break;
            }
            self.mark(base + (*s).max(start) - start, base + (*e).min(end) - start);
        }
    }

    fn mark(&mut self, start: usize, end: usize) {
        match self.user.last_mut() {
            _ if start == end => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => self.user.push((start, end)),
        }
    }

    pub fn done(self) -> Text {
        Text {
            text: self.text.into(),
            user: match self.user.is_empty() {
                true => NOTHING.with(Rc::clone),
                false => self.user.into(),
            },
        }
    }
}
