//! Metadata of a GGUF file: typed values that stay in the file until they are asked for.

use std::collections::BTreeMap;
use std::ops::Range;

/// What is wrong with a file, or why something in it is not supported.
pub(super) type Problem = String;

/// Arrays of arrays are allowed to this depth.
const MAX_DEPTH: usize = 4;

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes that are left.
    pub(super) const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Where the next `n` bytes are, which are skipped.
    fn skip(&mut self, n: usize) -> Result<Range<usize>, Problem> {
        if n > self.left() {
            return Err(format!("the file ends at byte {}, within the header", self.bytes.len()));
        }
        self.at += n;
        Ok(self.at - n..self.at)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let range = self.skip(N)?;
        Ok(std::array::from_fn(|i| self.bytes[range.start + i]))
    }

    pub(super) fn word(&mut self) -> Result<u32, Problem> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, Problem> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number of things that take at least `size` bytes each.
    pub(super) fn count(&mut self, what: &str, size: usize, limit: usize) -> Result<usize, Problem> {
        let n = self.long()?;
        let fits = usize::try_from(n).ok().filter(|n| *n <= self.left() / size);
        let n = fits.ok_or_else(|| format!("the file ends too early for {n} {what}"))?;
        match n <= limit {
            true => Ok(n),
            false => Err(format!("{n} {what} are more than {limit}")),
        }
    }

    /// Where a string is.
    pub(super) fn string(&mut self) -> Result<Range<usize>, Problem> {
        let n = self.long()?;
        let n = usize::try_from(n).ok().filter(|n| *n <= self.left());
        let n = n.ok_or_else(|| format!("the string at byte {} is longer than the file", self.at - 8))?;
        self.skip(n)
    }

    /// A short name.
    pub(super) fn name(&mut self, limit: usize) -> Result<&'a str, Problem> {
        let range = self.string()?;
        let bytes: &'a [u8] = self.bytes;
        let name = std::str::from_utf8(&bytes[range.clone()]).ok();
        let name = name.filter(|name| !name.is_empty() && name.len() <= limit && !name.chars().any(char::is_control));
        name.ok_or_else(|| format!("the name at byte {} is empty, too long or not text", range.start))
    }
}

/// Bytes of a number of a type; `None` for strings, arrays and what is no type.
const fn fixed_size(kind: u32) -> Option<usize> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    /// A number of 32 bits is the shortest decimal number that rounds to it: 1e-5, not 0.0000099999997.
    Real(f64),
    Flag(bool),
    Text(Range<usize>),
    Array(Array),
}

/// Where the elements of an array are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    kind: u32,
    len: usize,
    bytes: Range<usize>,
}

impl Value {
    /// Reads a value with its type.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let kind = cursor.word()?;
        Self::of_kind(cursor, kind)
    }

    fn of_kind(cursor: &mut Cursor<'_>, kind: u32) -> Result<Self, Problem> {
        Ok(match kind {
            0 => Self::Unsigned(u8::from_le_bytes(cursor.take()?).into()),
            1 => Self::Signed(i8::from_le_bytes(cursor.take()?).into()),
            2 => Self::Unsigned(u16::from_le_bytes(cursor.take()?).into()),
            3 => Self::Signed(i16::from_le_bytes(cursor.take()?).into()),
            4 => Self::Unsigned(cursor.word()?.into()),
            5 => Self::Signed(i32::from_le_bytes(cursor.take()?).into()),
            6 => Self::Real(decimal(f32::from_le_bytes(cursor.take()?))),
            7 => match cursor.take()? {
                [0] => Self::Flag(false),
                [1] => Self::Flag(true),
                [other] => return Err(format!("{other} is neither true nor false")),
            },
            STRING => Self::Text(cursor.string()?),
            ARRAY => Self::Array(Array::read(cursor, 1)?),
            10 => Self::Unsigned(cursor.long()?),
            11 => Self::Signed(i64::from_le_bytes(cursor.take()?)),
            12 => Self::Real(f64::from_le_bytes(cursor.take()?)),
            other => return Err(format!("{other} is no type of a value")),
        })
    }
}

impl Array {
    /// Finds the end of an array. Every element takes bytes of the file, so that the work is bounded by its length.
    fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, Problem> {
        let kind = cursor.word()?;
        let least = match kind {
            STRING => 8,
            ARRAY if depth < MAX_DEPTH => 12,
            ARRAY => return Err(format!("arrays are nested more than {MAX_DEPTH} deep")),
            _ => fixed_size(kind).ok_or_else(|| format!("{kind} is no type of a value"))?,
        };
        let len = cursor.count("elements", least, usize::MAX)?;
        let start = cursor.at;
        match kind {
            STRING => (0..len).try_for_each(|_| cursor.string().map(drop))?,
            ARRAY => (0..len).try_for_each(|_| Self::read(cursor, depth + 1).map(drop))?,
            _ => cursor.skip(len * least).map(drop)?,
        }
        Ok(Self {
            kind,
            len,
            bytes: start..cursor.at,
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

/// The shortest decimal number that is rounded to `value`.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The metadata of a file, with the bytes of the file.
#[derive(Debug)]
pub(super) struct Metadata<'a> {
    bytes: &'a [u8],
    values: BTreeMap<String, Value>,
}

const MAX_KEY: usize = 1 << 16;

impl<'a> Metadata<'a> {
    /// Reads `count` keys with their values.
    pub(super) fn read(bytes: &'a [u8], cursor: &mut Cursor<'a>, count: usize) -> Result<Self, Problem> {
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = cursor.name(MAX_KEY)?;
            let value = Value::read(cursor).map_err(|problem| format!("{key}: {problem}"))?;
            if values.insert(key.to_string(), value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(Self { bytes, values })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A string, if the key is there.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(range)) => self.utf8(range.clone()).map(Some).map_err(|p| format!("{key}: {p}")),
            Some(_) => Err(format!("{key} is not a string")),
        }
    }

    /// True or false, if the key is there.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("{key} is neither true nor false")),
        }
    }

    /// A whole number that is not negative, if the key is there.
    pub(super) fn unsigned(&self, key: &str) -> Result<Option<u64>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(n)) => Ok(Some(*n)),
            Some(Value::Signed(n)) if *n >= 0 => Ok(Some(n.unsigned_abs())),
            Some(_) => Err(format!("{key} is not a whole number")),
        }
    }

    /// An array; an error if there is none.
    fn array(&self, key: &str) -> Result<&Array, Problem> {
        match self.get(key) {
            Some(Value::Array(array)) => Ok(array),
            Some(_) => Err(format!("{key} is not an array")),
            None => Err(format!("{key} is missing")),
        }
    }

    /// An array of at most `limit` strings; an error if there is none.
    pub(super) fn strings(&self, key: &str, limit: usize) -> Result<Vec<&'a str>, Problem> {
        let array = self.array(key)?;
        if array.kind != STRING {
            return Err(format!("{key} is not an array of strings"));
        }
        let mut cursor = self.cursor(key, array, limit)?;
        (0..array.len)
            .map(|i| {
                let text = cursor.string().and_then(|range| self.utf8(range));
                text.map_err(|problem| format!("{key}: element {i}: {problem}"))
            })
            .collect()
    }

    /// An array of at most `limit` numbers; an error if there is none.
    pub(super) fn numbers(&self, key: &str, limit: usize) -> Result<Vec<f64>, Problem> {
        let array = self.array(key)?;
        let mut cursor = self.cursor(key, array, limit)?;
        (0..array.len)
            .map(|i| match Value::of_kind(&mut cursor, array.kind)? {
                Value::Unsigned(n) => Ok(n as f64),
                Value::Signed(n) => Ok(n as f64),
                Value::Real(x) if x.is_finite() => Ok(x),
                _ => Err(format!("{key}: element {i} is not a finite number")),
            })
            .collect()
    }

    /// A cursor at the elements of an array.
    fn cursor(&self, key: &str, array: &Array, limit: usize) -> Result<Cursor<'a>, Problem> {
        if array.len > limit {
            return Err(format!("{key} has {} elements, more than {limit}", array.len));
        }
        Ok(Cursor {
            bytes: &self.bytes[..array.bytes.end],
            at: array.bytes.start,
        })
    }

    fn utf8(&self, range: Range<usize>) -> Result<&'a str, Problem> {
        let bytes: &'a [u8] = self.bytes;
        std::str::from_utf8(&bytes[range]).map_err(|_| "the text is not UTF-8".to_string())
    }
}
