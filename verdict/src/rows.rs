//! What a report is made of: rows of a name and a value, quantities in words.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tessera_circuits::statement::HIDDEN;

use crate::shown;

pub use tessera_circuits::wording::{bytes, count, seconds};

/// Columns that rows are wrapped for.
static WIDTH: AtomicUsize = AtomicUsize::new(80);

/// Says how many columns the terminal of this process has; 80 if nobody does.
pub fn set_width(columns: usize) {
    WIDTH.store(columns, Ordering::Relaxed);
}

/// Columns of the terminal of this process.
pub fn width() -> usize {
    WIDTH.load(Ordering::Relaxed)
}

/// Columns of what is printed about files of these names. Where there is no terminal, lines are as long as they are, for the
/// programs that read them; but not if a name could look like a line of its own on the terminal that shows them in the end.
pub fn columns<'a>(terminal: Option<usize>, names: impl IntoIterator<Item = &'a Path>) -> usize {
    terminal.unwrap_or_else(|| match names.into_iter().all(shown::is_plain) {
        true => usize::MAX,
        false => width(),
    })
}

/// Aligned `name  value` rows. Values are hostile: what is not graphic is escaped, and lines that would not fit into the
/// terminal are wrapped, so that no part of a value can look like another row.
#[derive(Clone, Debug, Default)]
pub struct Rows(Vec<Row>);

#[derive(Clone, Debug)]
struct Row {
    name: String,
    value: String,
    /// The beginning of a wrapped line of the value; none if it stays on one line.
    mark: Option<&'static str>,
}

impl Rows {
    /// Adds a row; a value of several lines is indented below the first.
    pub fn row(self, name: impl Into<String>, value: impl ToString) -> Self {
        self.with(name.into(), value.to_string(), Some(shown::CONTINUED))
    }

    /// Adds a row if there is a value.
    pub fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.row(name, value),
            None => self,
        }
    }

    /// Adds a digest in hexadecimal, which stays on one line however narrow the terminal is, so that it can be copied.
    pub fn digest(self, name: &str, digest: &[u8; 32]) -> Self {
        self.with(name.to_owned(), hex::encode(digest), None)
    }

    /// Adds a file.
    pub fn path(self, name: &str, path: &Path) -> Self {
        self.row(name, shown::path(path))
    }

    /// Adds a sentence of ours, which needs no mark where it goes on.
    pub fn prose(self, name: &str, text: impl Into<String>) -> Self {
        self.with(name.to_owned(), text.into(), Some(""))
    }

    /// Adds a list of ids, as in `4 ids: 1 147 203 9`, or `4 ids: 1 (2 hidden) 9`.
    pub fn ids(self, name: &str, ids: &[u32]) -> Self {
        let mut text = format!("{}:", count(ids.len(), "id"));
        for run in ids.chunk_by(|a, b| [*a, *b] == [HIDDEN; 2]) {
            match run {
                [HIDDEN, ..] => text.push_str(&format!(" ({} hidden)", run.len())),
                _ => run.iter().for_each(|id| text.push_str(&format!(" {id}"))),
            }
        }
        self.with(name.to_owned(), text, Some(""))
    }

    fn with(mut self, name: String, value: String, mark: Option<&'static str>) -> Self {
        self.0.push(Row { name, value, mark });
        self
    }

    /// Names and values, as they were given.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|row| (row.name.as_str(), row.value.as_str()))
    }

    /// The rows for a terminal of this many columns.
    pub fn render(&self, width: usize) -> String {
        let label = self.0.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
        // The last column is left free: some terminals go on in the next line by themselves.
        let columns = width.saturating_sub(label + 3).max(20);
        let mut text = String::new();
        for Row { name, value, mark } in &self.0 {
            let lines = value.lines().flat_map(|line| match mark {
                Some(mark) => shown::wrapped(&shown::line(line), columns, mark),
                None => vec![shown::line(line)],
            });
            // Spaces at the end of a line are part of a text, but not of a list.
            let mut lines = lines.map(|line| match mark {
                Some("") => line.trim_end().to_owned(),
                _ => line,
            });
            let mut add = |name: &str, line: String| {
                let whole = format!("{name:label$}  {line}");
                text.push_str(if line.is_empty() { whole.trim_end() } else { &whole });
                text.push('\n');
            };
            add(name, lines.next().unwrap_or_default());
            lines.for_each(|line| add("", line));
        }
        text
    }
}

impl Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(width()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(312_456), "312 kB");
        assert_eq!(bytes(1_500_000), "1.50 MB");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(2.5), "2.50 s");
    }

    #[test]
    fn rows_are_aligned_and_long_values_indented() {
        let rows = Rows::default()
            .row("a", 1)
            .row("long", "x\ny")
            .maybe("none", None::<u32>);
        assert_eq!(rows.to_string(), "a     1\nlong  x\n      y\n");
    }

    #[test]
    fn digests_stay_on_one_line() {
        let rows = Rows::default()
            .digest("plan", &[0xab; 32])
            .row("words", "ab".repeat(32));
        let text = rows.render(40);
        assert!(
            text.starts_with(&format!("plan   {}\nwords  ", "ab".repeat(32))),
            "{text}"
        );
        assert!(text.lines().count() > 2, "{text}");
    }

    #[test]
    fn id_lists_are_wrapped() {
        let rows = |ids: &[u32]| Rows::default().ids("ids", ids).render(80);
        assert_eq!(rows(&[1, 22]), "ids  2 ids: 1 22\n");
        assert_eq!(rows(&[7]), "ids  1 id: 7\n");
        let long = rows(&[12345; 40]);
        let mut lines = long.lines();
        assert!(
            lines.next().is_some_and(|l| l.starts_with("ids  40 ids: 12345 ")),
            "{long}"
        );
        assert!(
            lines.clone().count() > 1 && lines.all(|l| l.starts_with("     12345")),
            "{long}"
        );
        assert!(long.lines().all(|l| l.len() < 80), "{long}");
        assert_eq!(long.split_whitespace().count(), 43);
    }
}
