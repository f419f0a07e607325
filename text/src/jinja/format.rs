//! Python's `%` of strings and `str.format`.

use super::call::Call;
use super::error::{fail, unsupported, Result};
use super::print;
use super::sequences;
use super::strings::padded;
use super::text::{Builder, Text};
use super::value::{fits, Value};

/// How a value is put into a text.
#[derive(Clone, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    comma: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Widths and precisions beyond this are refused.
const WIDTH: usize = 1 << 16;

fn number(digits: &str, what: &str) -> Result<usize> {
    match digits.parse() {
        Ok(n) if n <= WIDTH => Ok(n),
        _ => unsupported(format!("a {what} of more than {WIDTH}")),
    }
}

/// `text % value`.
pub fn percent(text: &Text, value: &Value) -> Result<Text> {
    let mut positional = match value {
        Value::Tuple(seq) => seq.items.clone(),
        other => vec![other.clone()],
    }
    .into_iter();
    let mut mapped = false;
    let string = text.as_str();
    let (mut out, mut at) = (Builder::default(), 0);
    while let Some(percent) = string[at..].find('%').map(|i| at + i) {
        out.push_slice(text, at, percent);
        at = percent + 1;
        let rest = |at: usize| string[at..].chars().next();
        let mut key = None;
        if rest(at) == Some('(') {
            let mut open = 1;
            let end = string[at + 1..].find(|c| {
                open += i32::from(c == '(') - i32::from(c == ')');
                open == 0
            });
            let Some(end) = end else {
                return fail("incomplete format key");
            };
            key = Some(text.slice(at + 1, at + 1 + end));
            at += end + 2;
        }
        let mut spec = Spec::default();
        while let Some(c @ ('-' | '+' | ' ' | '#' | '0')) = rest(at) {
            match c {
                '-' => spec.align = Some('<'),
                '+' => spec.sign = Some('+'),
                ' ' => spec.sign = spec.sign.or(Some(' ')),
                '#' => spec.alternate = true,
                _ => spec.zero = true,
            }
            at += 1;
        }
        let digits =
            |at: usize| string[at..].len() - string[at..].trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if rest(at) == Some('*') {
            return unsupported("a width of * in a format");
        }
        let length = digits(at);
        if length > 0 {
            spec.width = number(&string[at..at + length], "width")?;
            at += length;
        }
        if rest(at) == Some('.') {
            let length = digits(at + 1);
            let shown = if length == 0 {
                "0"
            } else {
                &string[at + 1..at + 1 + length]
            };
            spec.precision = Some(number(shown, "precision")?);
            at += 1 + length;
        }
        while let Some('h' | 'l' | 'L') = rest(at) {
            at += 1;
        }
        let Some(kind) = rest(at) else {
            return fail("incomplete format");
        };
        at += kind.len_utf8();
        if kind == '%' {
            out.own("%");
            continue;
        }
        let item = match key {
            Some(key) => {
                let Value::Dict(dict) = value else {
                    return fail("format requires a mapping");
                };
                mapped = true;
                match dict.get(&Value::Text(key.clone()))? {
                    Some(item) => item.clone(),
                    None => return fail(format!("no key {:?} for the format", key.as_str())),
                }
            }
            None => match positional.next() {
                Some(item) => item,
                None => return fail("not enough arguments for format string"),
            },
        };
        let item = converted(&item, kind, spec)?;
        fits(out.len() + item.len())?;
        out.push_text(&item);
    }
    out.push_slice(text, at, text.len());
    let takes_all = mapped
        || matches!(
            value,
            Value::Undefined(_) | Value::Dict(_) | Value::List(_) | Value::Range(_)
        );
    if positional.next().is_some() && !takes_all {
        return fail("not all arguments converted during string formatting");
    }
    fits(out.len())?;
    Ok(out.done())
}

fn converted(item: &Value, kind: char, mut spec: Spec) -> Result<Text> {
    spec.zero &= spec.align.is_none();
    match kind {
        's' | 'r' | 'a' => {
            let text = if kind == 's' {
                print::text(item)?
            } else {
                print::repr(item)?
            };
            if kind == 'a' && !text.as_str().is_ascii() {
                return unsupported("%a beyond ASCII");
            }
            let text = match spec.precision {
                Some(precision) => {
                    let parts = [Value::None, Value::Int(precision as i128), Value::None];
                    match sequences::slice(&Value::Text(text.clone()), &parts)? {
                        Value::Text(cut) => cut,
                        _ => text,
                    }
                }
                None => text,
            };
            let side = if spec.align == Some('<') { "ljust" } else { "rjust" };
            padded(&text, spec.width as i128, &Text::of(" "), side)
        }
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let n = match item {
                Value::Float(f) if matches!(kind, 'd' | 'i' | 'u') && f.is_finite() && f.abs() < 1e30 => *f as i128,
                other => match other.as_int() {
                    Some(n) => n,
                    None => {
                        return fail(format!(
                            "%{kind} format: a real number is required, not {}",
                            item.type_name()
                        ))
                    }
                },
            };
            let mut digits = match kind {
                'x' => format!("{:x}", n.unsigned_abs()),
                'X' => format!("{:X}", n.unsigned_abs()),
                'o' => format!("{:o}", n.unsigned_abs()),
                _ => n.unsigned_abs().to_string(),
            };
            if let Some(precision) = spec.precision {
                digits = format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len())));
            }
            let prefix = match (spec.alternate, kind) {
                (true, 'x') => "0x",
                (true, 'X') => "0X",
                (true, 'o') => "0o",
                _ => "",
            };
            Ok(placed(n < 0, prefix, &digits, &spec))
        }
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            if let Value::Text(_) = item {
                return fail("must be real number, not str");
            }
            let Some(f) = item.as_float() else {
                return fail(format!("must be real number, not {}", item.type_name()));
            };
            spec.kind = Some(kind);
            let digits = digits_of(f.abs(), kind, spec.precision, spec.alternate)?;
            if !f.is_finite() {
                spec.zero = false;
            }
            Ok(placed(f.is_sign_negative() && !f.is_nan(), "", &digits, &spec))
        }
        'c' => unsupported("%c in a format"),
        other => fail(format!("unsupported format character {other:?}")),
    }
}

/// A number with sign and padding.
fn placed(negative: bool, prefix: &str, digits: &str, spec: &Spec) -> Text {
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let length = sign.len() + prefix.len() + digits.chars().count();
    let missing = spec.width.saturating_sub(length);
    let fill = |c: char, n: usize| c.to_string().repeat(n);
    let align = spec.align.unwrap_or(if spec.zero { '=' } else { '>' });
    let pad = spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' });
    Text::from(match align {
        '<' => format!("{sign}{prefix}{digits}{}", fill(pad, missing)),
        '=' => format!("{sign}{prefix}{}{digits}", fill(pad, missing)),
        '^' => format!(
            "{}{sign}{prefix}{digits}{}",
            fill(pad, missing / 2),
            fill(pad, missing - missing / 2)
        ),
        _ => format!("{}{sign}{prefix}{digits}", fill(pad, missing)),
    })
}

/// The digits of a float that is not negative.
fn digits_of(f: f64, kind: char, precision: Option<usize>, alternate: bool) -> Result<String> {
    if !f.is_finite() {
        let name = if f.is_nan() { "nan" } else { "inf" };
        return Ok(if kind.is_uppercase() {
            name.to_uppercase()
        } else {
            name.to_owned()
        });
    }
    if alternate {
        return unsupported("# of a float in a format");
    }
    let precision = precision.unwrap_or(6);
    let text = match kind.to_ascii_lowercase() {
        'f' => format!("{f:.precision$}"),
        'e' => exponent(&format!("{f:.precision$e}")),
        _ => {
            let precision = precision.max(1);
            let scientific = format!("{f:.*e}", precision - 1);
            let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let power: i64 = power.parse().unwrap_or(0);
            let trimmed = |text: &str| match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text.to_owned(),
            };
            match (-4..precision as i64).contains(&power) {
                true => trimmed(&format!(
                    "{f:.*}",
                    usize::try_from(precision as i64 - 1 - power).unwrap_or(0)
                )),
                false => exponent(&format!("{}e{power}", trimmed(mantissa))),
            }
        }
    };
    Ok(if kind.is_uppercase() { text.to_uppercase() } else { text })
}

/// An exponent with sign and two digits.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// A step from a value to a part of it.
pub enum Lookup<'a> {
    Attribute(&'a str),
    Item(Value),
}

/// Finds parts of values.
type Look<'a> = dyn FnMut(&Value, Lookup<'_>) -> Result<Value> + 'a;

/// `text.format(..)`.
pub fn braces(text: &Text, call: &Call, look: &mut Look<'_>) -> Result<Text> {
    let string = text.as_str();
    let (mut out, mut at, mut next) = (Builder::default(), 0, Some(0_usize));
    while at < string.len() {
        let Some(brace) = string[at..].find(['{', '}']).map(|i| at + i) else {
            break;
        };
        out.push_slice(text, at, brace);
        let rest = &string[brace..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_slice(text, brace, brace + 1);
            at = brace + 2;
            continue;
        }
        if rest.starts_with('}') {
            return fail("Single '}' encountered in format string");
        }
        let Some(end) = rest.find('}') else {
            return fail("expected '}' before end of string");
        };
        let field = &rest[1..end];
        if field.contains('{') {
            return unsupported("a format in a format");
        }
        let item = replaced(field, call, &mut next, look)?;
        fits(out.len() + item.len())?;
        out.push_text(&item);
        at = brace + end + 1;
    }
    out.push_slice(text, at.min(text.len()), text.len());
    fits(out.len())?;
    Ok(out.done())
}

fn replaced(field: &str, call: &Call, next: &mut Option<usize>, look: &mut Look<'_>) -> Result<Text> {
    let (field, spec) = field.split_once(':').unwrap_or((field, ""));
    let (name, conversion) = match field.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (field, None),
    };
    let length = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(length);
    let mut value = if first.is_empty() || first.bytes().all(|b| b.is_ascii_digit()) {
        let index = match (first.is_empty(), *next) {
            (true, Some(index)) => {
                *next = Some(index + 1);
                index
            }
            (false, None | Some(0)) => {
                *next = None;
                number(first, "number")?
            }
            _ => return fail("cannot switch between manual field specification and automatic field numbering"),
        };
        call.args.get(index).cloned()
    } else {
        call.named.iter().find(|(n, _)| n == first).map(|(_, v)| v.clone())
    };
    while !path.is_empty() {
        let Some(object) = value else {
            break;
        };
        if let Some(rest) = path.strip_prefix('.') {
            let length = rest.find(['.', '[']).unwrap_or(rest.len());
            value = Some(look(&object, Lookup::Attribute(&rest[..length]))?);
            path = &rest[length..];
        } else {
            let Some(end) = path.find(']') else {
                return fail("Missing ']' in format string");
            };
            let index = &path[1..end];
            let index = match index.parse::<u32>() {
                Ok(n) => Value::Int(i128::from(n)),
                Err(_) => Value::text(index),
            };
            value = Some(look(&object, Lookup::Item(index))?);
            path = &path[end + 1..];
        }
    }
    let Some(value) = value else {
        return fail(format!("the format has no value for {first:?}"));
    };
    let value = match conversion {
        None => value,
        Some("s") => Value::Text(print::text(&value)?),
        Some("r") => Value::Text(print::repr(&value)?),
        Some(_) => return unsupported("this conversion in a format"),
    };
    formatted(&value, spec)
}

/// Python's `format(value, spec)`.
fn formatted(value: &Value, spec: &str) -> Result<Text> {
    if spec.is_empty() {
        return print::text(value);
    }
    let spec = parsed(spec)?;
    match (value, spec.kind) {
        (Value::Text(text), None | Some('s')) => {
            if spec.sign.is_some() || spec.alternate || spec.comma.is_some() || spec.align == Some('=') {
                return fail("this format is not allowed for a string");
            }
            let parts = [
                Value::None,
                spec.precision.map_or(Value::None, |p| Value::Int(p as i128)),
                Value::None,
            ];
            let Value::Text(text) = sequences::slice(&Value::Text(text.clone()), &parts)? else {
                return fail("no text");
            };
            let fill = Text::of(&spec.fill.unwrap_or(if spec.zero { '0' } else { ' ' }).to_string());
            let missing = spec.width.saturating_sub(text.chars());
            match spec.align {
                Some('>') => padded(&text, spec.width as i128, &fill, "rjust"),
                Some('^') => {
                    let left = padded(&text, (text.chars() + missing / 2) as i128, &fill, "rjust")?;
                    padded(&left, spec.width as i128, &fill, "ljust")
                }
                _ => padded(&text, spec.width as i128, &fill, "ljust"),
            }
        }
        (Value::Int(_) | Value::Bool(_), None | Some('d' | 'x' | 'X' | 'o' | 'b' | 'n')) => {
            let n = value.as_int().unwrap_or(0);
            if spec.precision.is_some() {
                return fail("Precision not allowed in integer format specifier");
            }
            let (digits, prefix) = match spec.kind {
                Some('x') => (format!("{:x}", n.unsigned_abs()), "0x"),
                Some('X') => (format!("{:X}", n.unsigned_abs()), "0X"),
                Some('o') => (format!("{:o}", n.unsigned_abs()), "0o"),
                Some('b') => (format!("{:b}", n.unsigned_abs()), "0b"),
                _ => (n.unsigned_abs().to_string(), ""),
            };
            let digits = grouped(&digits, &spec)?;
            Ok(placed(n < 0, if spec.alternate { prefix } else { "" }, &digits, &spec))
        }
        (Value::Int(_) | Value::Bool(_) | Value::Float(_), Some('f' | 'F' | 'e' | 'E' | 'g' | 'G' | '%')) => {
            let mut f = value.as_float().unwrap_or(0.0);
            let percent = spec.kind == Some('%');
            if percent {
                f *= 100.0;
            }
            let kind = spec.kind.filter(|_| !percent).unwrap_or('f');
            let digits = grouped(&digits_of(f.abs(), kind, spec.precision, spec.alternate)?, &spec)?;
            let digits = if percent { digits + "%" } else { digits };
            Ok(placed(f.is_sign_negative() && !f.is_nan(), "", &digits, &spec))
        }
        (Value::Float(f), None) if spec.precision.is_none() => {
            let digits = grouped(&print::float(f.abs()), &spec)?;
            Ok(placed(f.is_sign_negative() && !f.is_nan(), "", &digits, &spec))
        }
        (other, _) => unsupported(format!("this format of a value of the type '{}'", other.type_name())),
    }
}

fn grouped(digits: &str, spec: &Spec) -> Result<String> {
    let Some(comma) = spec.comma else {
        return Ok(digits.to_owned());
    };
    if comma == ',' && matches!(spec.kind, Some('x' | 'X' | 'o' | 'b')) {
        return fail("Cannot specify ',' with this format");
    }
    if spec.zero || spec.align == Some('=') || comma == '_' && matches!(spec.kind, Some('x' | 'X' | 'o' | 'b')) {
        return unsupported("this separator in a format");
    }
    let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(length);
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(comma);
        }
        out.push(c);
    }
    Ok(out + rest)
}

fn parsed(text: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let mut chars: Vec<char> = text.chars().collect();
    let is_align = |c: char| matches!(c, '<' | '>' | '=' | '^');
    if chars.len() > 1 && is_align(chars[1]) {
        spec.fill = Some(chars[0]);
        spec.align = Some(chars[1]);
        chars.drain(..2);
    } else if chars.first().is_some_and(|c| is_align(*c)) {
        spec.align = Some(chars.remove(0));
    }
    let mut rest = chars.into_iter().peekable();
    spec.sign = rest.next_if(|c| matches!(c, '+' | '-' | ' '));
    if rest.next_if_eq(&'z').is_some() {
        return unsupported("z in a format");
    }
    spec.alternate = rest.next_if_eq(&'#').is_some();
    spec.zero = rest.next_if_eq(&'0').is_some();
    let mut digits = String::new();
    while let Some(c) = rest.next_if(char::is_ascii_digit) {
        digits.push(c);
    }
    if !digits.is_empty() {
        spec.width = number(&digits, "width")?;
    }
    spec.comma = rest.next_if(|c| matches!(c, ',' | '_'));
    if rest.next_if_eq(&'.').is_some() {
        let mut digits = String::new();
        while let Some(c) = rest.next_if(char::is_ascii_digit) {
            digits.push(c);
        }
        if digits.is_empty() {
            return fail("Format specifier missing precision");
        }
        spec.precision = Some(number(&digits, "precision")?);
    }
    spec.kind = rest.next();
    match rest.next() {
        None => Ok(spec),
        Some(_) => fail("Invalid format specifier"),
    }
}
