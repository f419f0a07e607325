//! Sets of characters, as Oniguruma 6.9.10 names and folds them (Unicode 16).

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The most characters of a name of a property.
const NAME: usize = 64;
/// Names that `regex-syntax` knows and Oniguruma does not, or that both know with another meaning.
const OTHERS: [&str; 6] = ["lc", "casedletter", "age", "isc", "scx", "gc"];

/// The set of one range.
pub fn range(first: char, last: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(first, last)])
}

/// Everything that is not in a set.
pub fn negated(mut set: ClassUnicode) -> ClassUnicode {
    set.negate();
    set
}

/// The union of sets.
pub fn union(sets: &[ClassUnicode]) -> ClassUnicode {
    let mut all = ClassUnicode::empty();
    for set in sets {
        all.union(set);
    }
    all
}

/// A set as `regex-syntax` has it; `None` if it does not know the name.
fn unicode(name: &str) -> Option<ClassUnicode> {
    let parsed = regex_syntax::parse(&format!(r"\p{{{name}}}")).ok()?;
    match parsed.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set),
        HirKind::Literal(one) => {
            let only = std::str::from_utf8(&one.0).ok()?.chars().next()?;
            Some(range(only, only))
        }
        _ => None,
    }
}

/// A set that `regex-syntax` always knows.
fn known(name: &str) -> ClassUnicode {
    unicode(name).expect("a property of Unicode")
}

/// A class in brackets, `[[:alpha:]]`, or its name in `\p{..}`.
pub fn posix(name: &str) -> Option<ClassUnicode> {
    let set = match name {
        "alnum" => union(&[known("Alphabetic"), known("Nd")]),
        "alpha" => known("Alphabetic"),
        "ascii" => range('\0', '\x7f'),
        "blank" => union(&[known("Zs"), range('\t', '\t')]),
        "cntrl" => known("Cc"),
        "digit" => known("Nd"),
        "graph" => graph(),
        "lower" => known("Lowercase"),
        "print" => union(&[graph(), known("Zs")]),
        "punct" => union(&[known("P"), known("S")]),
        "space" => known("White_Space"),
        "upper" => known("Uppercase"),
        "xdigit" => hex(),
        "word" => word(),
        _ => return None,
    };
    Some(set)
}

fn graph() -> ClassUnicode {
    negated(union(&[known("White_Space"), known("Cc"), known("Cn")]))
}

/// `\h`.
pub fn hex() -> ClassUnicode {
    union(&[range('0', '9'), range('A', 'F'), range('a', 'f')])
}

/// `\w` outside of brackets, which decides `\b`, too: Oniguruma has another table for Latin-1, with six numbers more.
pub fn word_alone() -> ClassUnicode {
    union(&[word(), range('²', '³'), range('¹', '¹'), range('¼', '¾')])
}

/// `\w` in brackets, and the property.
pub fn word() -> ClassUnicode {
    union(&[known("Alphabetic"), known("M"), known("Nd"), known("Pc")])
}

/// `\p{name}`: general categories, scripts and binary properties; case, spaces, `-` and `_` do not count. `None` for other names.
pub fn property(name: &str) -> Option<ClassUnicode> {
    let plain = |c: &char| !matches!(c, ' ' | '-' | '_');
    let name: String = name.chars().filter(plain).map(|c| c.to_ascii_lowercase()).collect();
    let letters = name.len() <= NAME && name.bytes().all(|b| b.is_ascii_alphanumeric());
    match letters && !OTHERS.contains(&name.as_str()) && !name.starts_with("is") {
        // Punctuation alone; in brackets it has symbols, too.
        true if name == "punct" => unicode("P"),
        true => posix(&name).or_else(|| unicode(&name)),
        false => None,
    }
}

/// A set with everything that differs from a member only in case. `None` if a member folds to several characters.
pub fn folded(mut set: ClassUnicode) -> Option<ClassUnicode> {
    let several = |(c, _): &(char, String)| set.ranges().iter().any(|r| r.start() <= *c && *c <= r.end());
    if SEVERAL.iter().any(several) {
        return None;
    }
    set.case_fold_simple();
    Some(set)
}

/// Whether two neighbours in a text, whatever their case, begin what another character folds to.
pub fn begin_a_fold(a: char, b: char) -> bool {
    let lower = |c: char| {
        let mut set = range(c, c);
        set.case_fold_simple();
        set
    };
    let (a, b) = (lower(a), lower(b));
    let has = |set: &ClassUnicode, c: Option<char>| {
        c.is_some_and(|c| set.ranges().iter().any(|r| r.start() <= c && c <= r.end()))
    };
    SEVERAL.iter().any(|(_, text)| {
        let mut chars = text.chars();
        has(&a, chars.next()) && has(&b, chars.next())
    })
}

/// The characters that fold to several, with these.
static SEVERAL: LazyLock<Vec<(char, String)>> = LazyLock::new(|| {
    let folds = |c: char| {
        let upper: String = c.to_lowercase().flat_map(char::to_uppercase).collect();
        let lower: String = upper.chars().flat_map(char::to_lowercase).collect();
        let long = lower.chars().count() > 1;
        (long || c == '\u{130}').then(|| match c {
            '\u{130}' => (c, c.to_lowercase().collect()),
            _ => (c, lower),
        })
    };
    ('\0'..=char::MAX).filter_map(folds).collect()
});
