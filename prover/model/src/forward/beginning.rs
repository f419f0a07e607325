//! Which rows of a text are leading ones, found as its tokens come.

use tessera_circuits::model::LeadingRows;

/// What is known of the beginning of a text, on which the class of a row depends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// Leading rows so far.
    pub leading: usize,
    /// The id that all rows so far have, if there is one.
    run: Option<u32>,
}

impl Beginning {
    /// Counts the leading rows among those of `ids`, which follow the first `before` rows.
    pub fn read(&mut self, rule: &LeadingRows, before: usize, ids: &[u32]) {
        // A text that begins with another token than that of the rule has no leading rows, in whatever blocks it comes.
        let begins = match before {
            0 => rule.token.is_none_or(|token| ids.first() == Some(&token)),
            _ => rule.token.is_none() || self.leading > 0,
        };
        if !begins {
            return;
        }
        let first = match before {
            0 => ids.first().copied(),
            _ => self.run,
        };
        let same = ids.iter().take_while(|id| Some(**id) == first).count();
        let total = before + ids.len();
        if rule.run && first.is_some() {
            self.leading = self.leading.max(before + same);
        }
        self.run = first.filter(|_| same == ids.len());
        self.leading = self.leading.max(usize::from(rule.first).min(total));
    }
}
