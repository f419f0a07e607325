//! HTML in which nothing but our own markup is markup.

use crate::rows::Rows;
use crate::shown;
use crate::text::Piece;

/// A page under way. Markup is a literal of this program; everything else goes through [`Html::text`].
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Appends markup.
    pub fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Appends one line of text. What is not graphic is escaped as on a terminal, and no character is markup.
    pub fn text(&mut self, text: &str) {
        for c in shown::line(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
    }

    /// Appends text whose line ends are line ends.
    fn lines(&mut self, text: &str) {
        for (i, line) in text.split('\n').enumerate() {
            if i > 0 {
                self.0.push('\n');
            }
            self.text(line);
        }
    }

    /// Appends an attribute that holds a number.
    pub fn number(&mut self, name: &'static str, value: f64, unit: &'static str) {
        self.0.push_str(&format!(" {name}=\"{value:.1}{unit}\""));
    }

    pub fn paragraph(&mut self, text: &str) {
        self.raw("<p>");
        self.text(text);
        self.raw("</p>\n");
    }

    /// Appends commands to copy.
    pub fn code(&mut self, commands: &str) {
        self.raw("<pre>");
        self.lines(commands);
        self.raw("</pre>\n");
    }

    /// Appends what somebody said, below the name of the speaker.
    pub fn said(&mut self, name: &str, class: &'static str, pieces: &[Piece]) {
        self.raw("<h3>");
        self.text(name);
        self.raw("</h3>\n<div class=\"said ");
        self.raw(class);
        self.raw("\" dir=\"auto\">");
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.lines(text),
                Piece::Hidden(tokens) => {
                    self.raw("<span class=\"token\">");
                    self.text(&shown::hidden(*tokens));
                    self.raw("</span>");
                }
                Piece::Special { id, name, .. } => {
                    self.raw("<span class=\"token\">");
                    match name {
                        Some(name) => self.text(&shown::name(name)),
                        None => self.text(&format!("id {id}: no token")),
                    }
                    self.raw("</span>");
                }
            }
        }
        self.raw("</div>\n");
    }

    /// Appends rows of a name and a value.
    pub fn rows(&mut self, rows: &Rows) {
        self.raw("<dl>\n");
        for (name, value) in rows.pairs() {
            self.raw(match name.starts_with(' ') {
                true => "<dt class=\"part\">",
                false => "<dt>",
            });
            self.text(name.trim());
            self.raw("</dt><dd>");
            self.lines(value);
            self.raw("</dd>\n");
        }
        self.raw("</dl>\n");
    }

    pub fn done(self) -> String {
        self.0
    }
}
