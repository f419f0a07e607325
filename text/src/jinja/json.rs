//! JSON as Python's `json` reads it: NaN, large integers, and of a name that is there twice the last value.

use super::error::Result;
use super::text::Text;
use super::value::{Dict, Value};

/// Values in values.
const DEPTH: usize = 100;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    /// Names are in their order, and each is there once.
    Map(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text. Errors say what is wrong at which character, counted from 0.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        match reader.next_token() {
            None => Ok(value),
            Some(_) => reader.fail("there is more behind the value"),
        }
    }

    pub fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Map(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The value for a template; its texts are the user's.
    pub fn value(&self) -> Result<Value> {
        Ok(match self {
            Self::Null => Value::None,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => Value::Int(*n),
            Self::Float(f) => Value::Float(*f),
            Self::Text(text) => Value::Text(Text::of_user(text)),
            Self::List(items) => Value::list(items.iter().map(Self::value).collect::<Result<_>>()?)?,
            Self::Map(fields) => {
                let mut dict = Dict::default();
                for (name, value) in fields {
                    dict.insert(Value::Text(Text::of_user(name)), value.value()?)?;
                }
                Value::Dict(std::rc::Rc::new(dict))
            }
        })
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

type Read<T> = std::result::Result<T, String>;

impl<'a> Reader<'a> {
    fn fail<T>(&self, problem: &str) -> Read<T> {
        let at = self.text[..self.at].chars().count();
        Err(format!("{problem} (at character {at})"))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next character that is no white space.
    fn next_token(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.rest().chars().next()
    }

    fn skip(&mut self, word: &str) -> bool {
        let is = self.rest().starts_with(word);
        self.at += if is { word.len() } else { 0 };
        is
    }

    fn value(&mut self, depth: usize) -> Read<Json> {
        if depth > DEPTH {
            return self.fail("values are nested too deep");
        }
        let Some(first) = self.next_token() else {
            return self.fail("the JSON ends where a value should be");
        };
        match first {
            '"' => self.string().map(Json::Text),
            '[' => self.list(depth),
            '{' => self.map(depth),
            '-' | '0'..='9' if !self.rest().starts_with("-I") => self.number(),
            '\u{feff}' => self.fail("the file begins with a byte-order mark: save it as UTF-8 without one"),
            _ => {
                let words = [
                    ("null", Json::Null),
                    ("true", Json::Bool(true)),
                    ("false", Json::Bool(false)),
                    ("NaN", Json::Float(f64::NAN)),
                    ("Infinity", Json::Float(f64::INFINITY)),
                    ("-Infinity", Json::Float(f64::NEG_INFINITY)),
                ];
                match words.into_iter().find(|(word, _)| self.skip(word)) {
                    Some((_, value)) => Ok(value),
                    None => self.fail("this is not a JSON value"),
                }
            }
        }
    }

    fn list(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut items = Vec::new();
        if self.next_token() == Some(']') {
            self.at += 1;
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            match self.next_token() {
                Some(',') => self.at += 1,
                Some(']') => break,
                _ => return self.fail("a list goes on with a comma or ends with ]"),
            }
        }
        self.at += 1;
        Ok(Json::List(items))
    }

    fn map(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut fields: Vec<(String, Json)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        if self.next_token() == Some('}') {
            self.at += 1;
            return Ok(Json::Map(fields));
        }
        loop {
            if self.next_token() != Some('"') {
                return self.fail("a name in quotes should be here");
            }
            let name = self.string()?;
            if self.next_token() != Some(':') {
                return self.fail("a colon should be here");
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            match places.get(&name) {
                Some(at) => {
                    let place: &mut (String, Json) = &mut fields[*at];
                    place.1 = value;
                }
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
            match self.next_token() {
                Some(',') => self.at += 1,
                Some('}') => break,
                _ => return self.fail("a map goes on with a comma or ends with }"),
            }
        }
        self.at += 1;
        Ok(Json::Map(fields))
    }

    fn number(&mut self) -> Read<Json> {
        let rest = self.rest();
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let sign = usize::from(rest.starts_with('-'));
        let whole = match rest[sign..].starts_with('0') {
            true => 1,
            false => digits(&rest[sign..]),
        };
        if whole == 0 {
            return self.fail("this is not a JSON value");
        }
        let mut length = sign + whole;
        let mut is_float = false;
        if rest[length..].starts_with('.') && digits(&rest[length + 1..]) > 0 {
            length += 1 + digits(&rest[length + 1..]);
            is_float = true;
        }
        if rest[length..].starts_with(['e', 'E']) {
            let signed = usize::from(rest[length + 1..].starts_with(['+', '-']));
            let power = digits(&rest[length + 1 + signed..]);
            if power > 0 {
                length += 1 + signed + power;
                is_float = true;
            }
        }
        let number = &rest[..length];
        let value = match is_float {
            true => number.parse().map(Json::Float).map_err(drop),
            false => number.parse().map(Json::Int).map_err(drop),
        };
        let Ok(value) = value else {
            return self.fail("integers of more than 127 bits are not supported");
        };
        self.at += length;
        Ok(value)
    }

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return self.fail("a text has no closing quote");
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => out.push(self.escape()?),
                '\0'..='\u{1f}' => return self.fail("a text has a control character, which JSON escapes"),
                c => {
                    self.at += c.len_utf8();
                    out.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        self.at += 1;
        let Some(c) = self.rest().chars().next() else {
            return self.fail("a text ends in an escape");
        };
        let plain = match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(),
            _ => return self.fail("a text has an escape that JSON does not know"),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unit(&mut self) -> Read<u32> {
        let code = self
            .rest()
            .get(1..5)
            .filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|code| u32::from_str_radix(code, 16).ok()) {
            Some(code) => {
                self.at += 5;
                Ok(code)
            }
            None => self.fail("\\u needs four hexadecimal digits"),
        }
    }

    fn unicode(&mut self) -> Read<char> {
        let mut code = self.unit()?;
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with("\\u") {
            self.at += 1;
            let low = self.unit()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.fail("a text has half of a surrogate pair, which no tokenizer takes"),
        }
    }
}
