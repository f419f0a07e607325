//! Tokens of a template, as Jinja2's lexer cuts them with `trim_blocks` and `lstrip_blocks`.

use super::error::{unsupported, Error, Result};
use super::print::is_space;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Data(String),
    BlockBegin,
    BlockEnd,
    PrintBegin,
    PrintEnd,
    Name(String),
    Text(String),
    Int(i128),
    Float(f64),
    Op(&'static str),
    End,
}

const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<(usize, Token)>,
    /// Whether what was read last ends with a line end.
    line_starting: bool,
}

/// Tokens with their lines, counted from 1.
pub fn tokens(source: &str) -> Result<Vec<(usize, Token)>> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer {
        source: &source,
        at: 0,
        tokens: Vec::new(),
        line_starting: true,
    };
    lexer.root()?;
    let line = lexer.line();
    lexer.tokens.push((line, Token::End));
    Ok(lexer.tokens)
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn line(&self) -> usize {
        1 + self.source[..self.at].matches('\n').count()
    }

    fn fail<T>(&self, problem: impl AsRef<str>) -> Result<T> {
        let (problem, line) = (problem.as_ref(), self.line());
        Err(Error::Syntax(format!("{problem} (line {line})")))
    }

    fn push(&mut self, line: usize, token: Token) {
        self.tokens.push((line, token));
    }

    /// Goes on behind `bytes`, which a rule of the lexer matched.
    fn advance(&mut self, bytes: usize) {
        self.line_starting = self.source[..self.at + bytes].ends_with('\n') && bytes > 0;
        self.at += bytes;
    }

    fn root(&mut self) -> Result<()> {
        let mut line = 1;
        while !self.rest().is_empty() {
            let rest = self.rest();
            let begin = rest
                .as_bytes()
                .windows(2)
                .position(|w| matches!(w, b"{%" | b"{{" | b"{#"));
            let Some(begin) = begin else {
                self.push(line, Token::Data(rest.to_owned()));
                self.at = self.source.len();
                return Ok(());
            };
            let (text, tag) = rest.split_at(begin);
            let raw = raw_begin(tag);
            let sign = tag[2..].chars().next().filter(|c| matches!(c, '-' | '+'));
            let text = self.stripped(text, sign, tag.starts_with("{{"));
            if !text.is_empty() {
                self.push(line, Token::Data(text.to_owned()));
            }
            if let Some(length) = raw {
                self.advance(begin + length);
                self.raw(line)?;
            } else {
                self.advance(begin + 2 + usize::from(sign.is_some()));
                let at = self.line();
                match &tag[..2] {
                    "{#" => self.comment()?,
                    "{%" => {
                        self.push(at, Token::BlockBegin);
                        self.tag("%}", Token::BlockEnd)?;
                    }
                    _ => {
                        self.push(at, Token::PrintBegin);
                        self.tag("}}", Token::PrintEnd)?;
                    }
                }
            }
            line = self.line();
        }
        Ok(())
    }

    /// The text before a tag, without the white space that belongs to the tag.
    fn stripped<'t>(&self, text: &'t str, sign: Option<char>, prints: bool) -> &'t str {
        match sign {
            Some('-') => return text.trim_end_matches(is_space),
            Some(_) => return text,
            None if prints => return text,
            None => {}
        }
        let start = text.rfind('\n').map_or(0, |at| at + 1);
        match (start > 0 || self.line_starting) && text[start..].chars().all(is_space) {
            true => &text[..start],
            false => text,
        }
    }

    fn comment(&mut self) -> Result<()> {
        let rest = self.rest();
        let Some(end) = rest.find("#}") else {
            return self.fail("Missing end of comment tag");
        };
        // A sign before the end belongs to it.
        let mut length = end + 2;
        if rest[..end].ends_with('-') {
            length += space(&rest[length..]);
        } else if !rest[..end].ends_with('+') {
            length += usize::from(rest[length..].starts_with('\n'));
        }
        self.advance(length);
        Ok(())
    }

    fn raw(&mut self, line: usize) -> Result<()> {
        let rest = self.rest();
        let mut from = 0;
        while let Some(begin) = rest[from..].find("{%").map(|at| at + from) {
            if let Some((sign, length)) = raw_end(&rest[begin..]) {
                let text = self.stripped(&rest[..begin], sign, false);
                if !text.is_empty() {
                    self.push(line, Token::Data(text.to_owned()));
                }
                self.advance(begin + length);
                return Ok(());
            }
            from = begin + 2;
        }
        self.fail("Missing end of raw directive")
    }

    /// Tokens up to the end of a tag.
    fn tag(&mut self, end: &str, token: Token) -> Result<()> {
        let mut open: Vec<&str> = Vec::new();
        loop {
            let rest = self.rest();
            let line = self.line();
            if open.is_empty() {
                if let Some(length) = tag_end(rest, end) {
                    self.advance(length);
                    self.push(line, token);
                    return Ok(());
                }
            }
            let Some(first) = rest.chars().next() else {
                // Jinja2 leaves it to its parser.
                return Ok(());
            };
            if is_space(first) {
                self.advance(space(rest));
            } else if let Some((length, number)) = self.number(rest)? {
                self.push(line, number);
                self.advance(length);
            } else if first.is_alphanumeric() || first == '_' {
                let length = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len());
                let name = &rest[..length];
                if first.is_numeric() {
                    return self.fail("Invalid character in identifier");
                }
                self.push(line, Token::Name(name.to_owned()));
                self.advance(length);
            } else if let Some(length) = string(rest) {
                let text = unescaped(&rest[1..length - 1])?;
                self.push(line, Token::Text(text));
                self.advance(length);
            } else if let Some(op) = OPERATORS.into_iter().find(|op| rest.starts_with(op)) {
                match op {
                    "{" => open.push("}"),
                    "(" => open.push(")"),
                    "[" => open.push("]"),
                    "}" | ")" | "]" => match open.pop() {
                        Some(expected) if expected == op => {}
                        Some(expected) => return self.fail(format!("unexpected '{op}', expected '{expected}'")),
                        None => return self.fail(format!("unexpected '{op}'")),
                    },
                    _ => {}
                }
                self.push(line, Token::Op(op));
                self.advance(op.len());
            } else {
                return self.fail(format!("unexpected char {first:?}"));
            }
        }
    }

    fn number(&self, rest: &str) -> Result<Option<(usize, Token)>> {
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let behind_dot = self.source[..self.at].ends_with('.');
        if let Some(length) = float(rest).filter(|_| !behind_dot) {
            let value: f64 = rest[..length].replace('_', "").parse().unwrap_or(f64::NAN);
            return Ok(Some((length, Token::Float(value))));
        }
        let radix = match rest.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0b") => 2,
            Some("0o") => 8,
            Some("0x") => 16,
            _ => 10,
        };
        let length = match radix {
            10 if rest.starts_with('0') => digits(rest, |c| c == '0'),
            10 => digits(rest, |c| c.is_ascii_digit()),
            _ => {
                let start = usize::from(rest[2..].starts_with('_'));
                match digits(&rest[2 + start..], |c| c.is_digit(radix)) {
                    0 => 1,
                    length => 2 + start + length,
                }
            }
        };
        let text = rest[..length].replace('_', "");
        let text = if radix != 10 && length > 1 { &text[2..] } else { &text };
        match i128::from_str_radix(text, radix) {
            Ok(value) => Ok(Some((length, Token::Int(value)))),
            Err(_) => unsupported("an integer of more than 127 bits"),
        }
    }
}

/// The length of white space at the beginning.
fn space(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

/// The length of the end of a tag, if the text begins with it.
fn tag_end(rest: &str, end: &str) -> Option<usize> {
    if let Some(behind) = rest.strip_prefix('-').and_then(|r| r.strip_prefix(end)) {
        return Some(1 + end.len() + space(behind));
    }
    let block = end == "%}";
    if block && rest.starts_with("+%}") {
        return Some(3);
    }
    let behind = rest.strip_prefix(end)?;
    Some(end.len() + usize::from(block && behind.starts_with('\n')))
}

fn raw_begin(tag: &str) -> Option<usize> {
    let rest = tag.strip_prefix("{%")?;
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let rest = rest.trim_start_matches(is_space).strip_prefix("raw")?;
    let rest = rest.trim_start_matches(is_space);
    let rest = match rest.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(is_space),
        None => rest.strip_prefix("%}")?,
    };
    Some(tag.len() - rest.len())
}

fn raw_end(tag: &str) -> Option<(Option<char>, usize)> {
    let rest = tag.strip_prefix("{%")?;
    let sign = rest.chars().next().filter(|c| matches!(c, '-' | '+'));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let rest = rest.trim_start_matches(is_space).strip_prefix("endraw")?;
    let rest = rest.trim_start_matches(is_space);
    let end = tag_end(rest, "%}")?;
    Some((sign, tag.len() - rest.len() + end))
}

/// The length of digits with single underscores between them.
fn digits(text: &str, is_digit: impl Fn(char) -> bool) -> usize {
    let mut length = 0;
    let bytes = text.as_bytes();
    loop {
        let skip = usize::from(length > 0 && bytes.get(length) == Some(&b'_'));
        match bytes.get(length + skip) {
            Some(c) if is_digit(char::from(*c)) => length += skip + 1,
            _ => return length,
        }
    }
}

/// The length of a number with a fraction or an exponent.
fn float(text: &str) -> Option<usize> {
    let decimal = |text: &str| digits(text, |c| c.is_ascii_digit());
    let whole = decimal(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, |rest| match decimal(rest) {
        0 => 0,
        n => n + 1,
    });
    let exponent = text[whole + fraction..].strip_prefix(['e', 'E']).map_or(0, |rest| {
        let sign = usize::from(rest.starts_with(['+', '-']));
        match decimal(&rest[sign..]) {
            0 => 0,
            n => 1 + sign + n,
        }
    });
    (fraction + exponent > 0).then_some(whole + fraction + exponent)
}

/// The length of a string with its quotes.
fn string(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()?),
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Decodes the escapes of a string in the template, as Python's `unicode-escape` does.
fn unescaped(text: &str) -> Result<String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    // As Jinja2 does: characters beyond ASCII are escapes first, so that a backslash before one escapes that.
    let mut ascii = String::new();
    for c in text.chars() {
        match u32::from(c) {
            0..=0x7f => ascii.push(c),
            n @ 0x80..=0xff => ascii.push_str(&format!("\\x{n:02x}")),
            n @ 0x100..=0xffff => ascii.push_str(&format!("\\u{n:04x}")),
            n => ascii.push_str(&format!("\\U{n:08x}")),
        }
    }
    let bytes = ascii.as_bytes();
    let (mut out, mut at) = (String::new(), 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(char::from(bytes[at]));
            at += 1;
            continue;
        }
        let Some(kind) = bytes.get(at + 1) else {
            return Err(Error::Syntax("\\ at end of string".to_owned()));
        };
        at += 2;
        let hex = |count: usize| -> Result<char> {
            let code = ascii
                .get(at..at + count)
                .filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
            let code = code.and_then(|text| u32::from_str_radix(text, 16).ok());
            let code = code.ok_or_else(|| Error::Syntax("truncated \\ escape".to_owned()))?;
            char::from_u32(code).ok_or_else(|| Error::Unsupported(format!("the escape of the surrogate {code:x}")))
        };
        match kind {
            b'\n' => {}
            b'\\' | b'\'' | b'"' => out.push(char::from(*kind)),
            b'a' => out.push('\u{7}'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'v' => out.push('\u{b}'),
            b'0'..=b'7' => {
                let start = at - 1;
                let octal = |b: &&u8| (b'0'..=b'7').contains(*b);
                let length = bytes[start..].iter().take(3).take_while(octal).count();
                let code = u32::from_str_radix(&ascii[start..start + length], 8).unwrap_or(0);
                out.push(char::from_u32(code).unwrap_or('\0'));
                at = start + length;
            }
            b'x' | b'u' | b'U' => {
                let count = match kind {
                    b'x' => 2,
                    b'u' => 4,
                    _ => 8,
                };
                out.push(hex(count)?);
                at += count;
            }
            b'N' => return unsupported("the escape \\N{..}"),
            other => {
                out.push('\\');
                out.push(char::from(*other));
            }
        }
    }
    Ok(out)
}
