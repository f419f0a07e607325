//! Oniguruma's syntax (its default, without options) to a tree. What is not known to mean the same is refused.

use regex_syntax::hir::ClassUnicode;

use super::classes::{self, negated, range, union};
use super::node::{check_folds, flatten, has_own_length, lengths, unsupported, Around, Assertion, Node};

/// The deepest nesting of groups or classes.
const DEPTH: usize = 32;
/// The most that something is repeated by a count.
const COUNT: u32 = 1000;
/// The longest text that a look-behind can reach back.
const BEHIND: usize = 255;

/// Reads a pattern.
pub fn parse(pattern: &str) -> Result<Node, String> {
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        depth: 0,
    };
    let node = parser.alternatives(Options::default())?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err("has a ) without a (".to_owned()),
    }
}

#[derive(Clone, Copy, Default)]
struct Options {
    ignore_case: bool,
    /// A dot matches a line feed, too.
    multi_line: bool,
}

/// The last item of a class in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    /// Nothing yet.
    Start,
    One(char),
    Range(char),
    Type,
    Complete,
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.chars[self.at..].iter().copied().zip(text.chars());
        let found = found.filter(|(a, b)| a == b).count() == text.chars().count();
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        match self.depth > DEPTH {
            true => Err(format!("is nested more than {DEPTH} deep")),
            false => Ok(()),
        }
    }

    /// Alternatives up to the end, or to a `)` that is left.
    fn alternatives(&mut self, options: Options) -> Result<Node, String> {
        self.deeper()?;
        let mut all = vec![self.sequence(options)?];
        while self.take("|") {
            all.push(self.sequence(options)?);
        }
        self.depth -= 1;
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Node::Any(all),
        })
    }

    fn sequence(&mut self, options: Options) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let Some(node) = self.atom(options)? else { continue };
            let node = self.quantifiers(node)?;
            nodes.push(node);
        }
        let mut flat = Vec::new();
        flatten(nodes, &mut flat);
        check_folds(&flat)?;
        Ok(match flat.len() {
            1 => flat.remove(0),
            _ => Node::All(flat),
        })
    }

    /// Whether a quantifier is next.
    fn quantified(&self) -> bool {
        matches!(self.peek(), Some('*' | '+' | '?')) || self.counts().is_some()
    }

    fn quantifiers(&mut self, mut node: Node) -> Result<Node, String> {
        while self.quantified() {
            if matches!(node, Node::Assert(_)) || matches!(&node, Node::Apart(around, _) if *around != Around::Atomic) {
                return Err("repeats a part that has no length".to_owned());
            }
            let counts = self.counts();
            let (min, max) = match counts {
                Some((min, max, end)) => {
                    self.at = end;
                    (min, max)
                }
                None => match self.next() {
                    Some('*') => (0, None),
                    Some('+') => (1, None),
                    _ => (0, Some(1)),
                },
            };
            if max.is_some_and(|max| max < min) {
                return unsupported("{n,m} with n > m");
            }
            if min > COUNT || max.is_some_and(|max| max > COUNT) {
                return Err(format!("repeats a part more than {COUNT} times"));
            }
            // {n}? and {n,m}+ are two quantifiers.
            let fixed = counts.is_some() && max == Some(min);
            let lazy = !fixed && self.take("?");
            let possessive = !lazy && counts.is_none() && self.take("+");
            if matches!(&node, Node::Repeat { .. }) && (lazy || matches!(&node, Node::Repeat { greedy: false, .. })) {
                return unsupported("a quantifier of a quantifier that prefers fewer");
            }
            let (inner, greedy) = (Box::new(node), !lazy);
            node = Node::Repeat {
                node: inner,
                min,
                max,
                greedy,
            };
            if possessive {
                node = Node::Apart(Around::Atomic, Box::new(node));
            }
        }
        Ok(node)
    }

    /// The counts in braces that are next, and where they end; braces with anything else are text.
    fn counts(&self) -> Option<(u32, Option<u32>, usize)> {
        let rest = self.chars[self.at..].strip_prefix(&['{'])?;
        let close = rest.iter().position(|c| *c == '}')?;
        let text: String = rest[..close].iter().collect();
        // A number that is too large is refused by its size.
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let end = self.at + close + 2;
        match text.split_once(',') {
            None => number(&text).map(|n| (n, Some(n), end)),
            Some(("", max)) => number(max).map(|max| (0, Some(max), end)),
            Some((min, "")) => number(min).map(|min| (min, None, end)),
            Some((min, max)) => Some((number(min)?, Some(number(max)?), end)),
        }
    }

    /// One part; `None` for a comment.
    fn atom(&mut self, options: Options) -> Result<Option<Node>, String> {
        if self.quantified() {
            return Err("repeats nothing".to_owned());
        }
        let node = match self.next() {
            Some('(') => return self.group(options),
            Some('[') => {
                let (set, negative) = self.class()?;
                Node::Set(finish(set, negative, options)?)
            }
            Some('.') => any(options.multi_line),
            Some('^') => Node::Assert(Assertion::LineStart),
            Some('$') => Node::Assert(Assertion::LineEnd),
            Some('\\') => self.escape(options)?,
            Some(c) => letter(c, options)?,
            None => Node::All(Vec::new()),
        };
        Ok(Some(node))
    }

    fn group(&mut self, options: Options) -> Result<Option<Node>, String> {
        if self.peek() == Some('*') {
            return unsupported("a callout");
        }
        let around = if !self.take("?") {
            None
        } else if self.take("#") {
            return self.comment().map(|()| None);
        } else if self.take(":") {
            None
        } else if self.take("=") {
            Some(Around::Ahead { negative: false })
        } else if self.take("!") {
            Some(Around::Ahead { negative: true })
        } else if self.take(">") {
            Some(Around::Atomic)
        } else if self.take("<=") {
            Some(Around::Behind {
                negative: false,
                min: 0,
                max: 0,
            })
        } else if self.take("<!") {
            Some(Around::Behind {
                negative: true,
                min: 0,
                max: 0,
            })
        } else if matches!(self.peek(), Some('<' | '\'')) {
            self.name()?;
            None
        } else {
            return self.options(options).map(Some);
        };
        let node = self.inside(options)?;
        let around = match around {
            Some(Around::Behind { negative, .. }) => {
                if has_own_length(&node) {
                    return unsupported("a look-behind with a part that looks around or does not go back");
                }
                let (min, max) = lengths(&node);
                let max = max.filter(|max| *max <= BEHIND);
                let Some(max) = max else {
                    return unsupported("a look-behind of more than 255 characters");
                };
                Some(Around::Behind { negative, min, max })
            }
            other => other,
        };
        Ok(Some(match around {
            Some(around) => Node::Apart(around, Box::new(node)),
            // A group without a mark of its own is transparent.
            None => node,
        }))
    }

    /// Reads the inside of a group and its `)`.
    fn inside(&mut self, options: Options) -> Result<Node, String> {
        let node = self.alternatives(options)?;
        match self.take(")") {
            true => Ok(node),
            false => Err("has a ( without a )".to_owned()),
        }
    }

    fn comment(&mut self) -> Result<(), String> {
        loop {
            match self.next() {
                None => return Err("has a comment without an end".to_owned()),
                Some(')') => return Ok(()),
                Some('\\') => {
                    self.next();
                }
                Some(_) => {}
            }
        }
    }

    /// The name of a group, to which nothing refers.
    fn name(&mut self) -> Result<(), String> {
        let close = if self.next() == Some('<') { '>' } else { '\'' };
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let first = self.chars.get(start).copied();
        let named = self.at > start && !first.is_some_and(|c| c.is_ascii_digit());
        match named && self.next() == Some(close) {
            true => Ok(()),
            false => unsupported("such a name of a group"),
        }
    }

    /// Options up to a colon for a group, or up to `)` for all that follows in this group.
    fn options(&mut self, mut options: Options) -> Result<Node, String> {
        let mut on = true;
        loop {
            match self.next() {
                Some('-') => on = false,
                Some('i') => options.ignore_case = on,
                Some('m') => options.multi_line = on,
                Some(':') => return self.inside(options),
                Some(')') => return self.rest(options),
                Some('~') => return unsupported("an absence operator"),
                Some('(') => return unsupported("a condition"),
                Some('{') => return unsupported("a callout"),
                Some(c) => return unsupported(&format!("(?{c}")),
                None => return Err("has a ( without a )".to_owned()),
            }
        }
    }

    /// All that follows in this group, alternatives included.
    fn rest(&mut self, options: Options) -> Result<Node, String> {
        if self.quantified() {
            return Err("repeats options".to_owned());
        }
        self.alternatives(options)
    }

    /// A character that is written by its number, after `x` or `u`.
    fn number(&mut self, kind: char) -> Result<char, String> {
        let (most, braces) = match kind {
            'u' => (4, false),
            _ if self.take("{") => (8, true),
            _ => (2, false),
        };
        let start = self.at;
        while self.at - start < most && self.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
            self.at += 1;
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        let whole = if braces { self.take("}") } else { digits.len() == most };
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| whole);
        let c = code.and_then(char::from_u32);
        match c.filter(|c| kind == 'u' || braces || c.is_ascii()) {
            Some(c) => Ok(c),
            None => unsupported(&format!("a \\{kind} that is not one character")),
        }
    }

    /// The set of an escape, such as `\w`; `None` if it is none.
    fn type_of(&mut self, c: char) -> Result<Option<ClassUnicode>, String> {
        let set = match c.to_ascii_lowercase() {
            'w' => classes::word(),
            'd' => classes::posix("digit").unwrap_or_else(ClassUnicode::empty),
            's' => classes::posix("space").unwrap_or_else(ClassUnicode::empty),
            'h' => classes::hex(),
            'p' => {
                if !self.take("{") {
                    return unsupported(&format!("\\{c} without braces"));
                }
                let not = self.take("^");
                let start = self.at;
                while self.peek().is_some_and(|c| c != '}') {
                    self.at += 1;
                }
                let name: String = self.chars[start..self.at].iter().collect();
                let set = classes::property(&name).filter(|_| self.take("}"));
                match (set, not) {
                    (None, _) => return unsupported(&format!("the property {name:?}")),
                    (Some(set), false) => set,
                    (Some(set), true) => negated(set),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(if c.is_ascii_uppercase() { negated(set) } else { set }))
    }

    /// The character of an escape that stands for one.
    fn single(&mut self, c: char) -> Result<char, String> {
        match c {
            't' => Ok('\t'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            'f' => Ok('\u{c}'),
            'v' => Ok('\u{b}'),
            'a' => Ok('\u{7}'),
            'e' => Ok('\u{1b}'),
            'x' | 'u' => self.number(c),
            c if c.is_ascii_alphanumeric() => unsupported(&format!("\\{c}")),
            c => Ok(c),
        }
    }

    fn escape(&mut self, options: Options) -> Result<Node, String> {
        let c = self.next().ok_or("ends with a \\")?;
        let assertion = match c {
            'A' => Assertion::Start,
            'z' => Assertion::End,
            'Z' => Assertion::EndOrLastLine,
            'G' => Assertion::SearchStart,
            'b' => Assertion::Word { boundary: true },
            'B' => Assertion::Word { boundary: false },
            'N' => return Ok(any(false)),
            'O' => return Ok(any(true)),
            'R' => return Ok(line_end()),
            _ => {
                return match self.type_of(c)? {
                    Some(set) if set == classes::word() => Ok(Node::Set(classes::word_alone())),
                    Some(set) if set == negated(classes::word()) => Ok(Node::Set(negated(classes::word_alone()))),
                    Some(set) => Ok(Node::Set(set)),
                    None => letter(self.single(c)?, options),
                };
            }
        };
        Ok(Node::Assert(assertion))
    }

    /// A class in brackets after its `[`: what is in it, and whether it stands for all others.
    fn class(&mut self) -> Result<(ClassUnicode, bool), String> {
        self.deeper()?;
        let negative = self.take("^");
        if self.peek() == Some(']') {
            return unsupported("a class that begins with ]");
        }
        let (mut set, mut before, mut last) = (ClassUnicode::empty(), None::<ClassUnicode>, Item::Start);
        loop {
            let c = self.next().ok_or("has a [ without a ]")?;
            match c {
                ']' if !matches!(last, Item::Range(_)) => break,
                '[' => {
                    let inner = self.bracket(last)?;
                    last = inner.1;
                    set.union(&inner.0);
                }
                '&' if self.take("&") => {
                    if let Item::Range(_) = last {
                        return Err("has a range without an end".to_owned());
                    }
                    before = Some(intersection(before, set));
                    (set, last) = (ClassUnicode::empty(), Item::Start);
                }
                '-' => last = self.dash(last, &mut set)?,
                '\\' => {
                    let c = self.next().ok_or("ends with a \\")?;
                    last = match self.type_of(c)? {
                        Some(_) if matches!(last, Item::Range(_)) => {
                            return Err("has a range that ends with a class".to_owned());
                        }
                        Some(inner) => {
                            set.union(&inner);
                            Item::Type
                        }
                        None if c == 'b' => one('\u{8}', last, &mut set)?,
                        None => one(self.single(c)?, last, &mut set)?,
                    };
                }
                c => last = one(c, last, &mut set)?,
            }
        }
        self.depth -= 1;
        Ok((intersection(before, set), negative))
    }

    /// A class in a class, after its `[`.
    fn bracket(&mut self, last: Item) -> Result<(ClassUnicode, Item), String> {
        if let Item::Range(_) = last {
            return Err("has a range that ends with a class".to_owned());
        }
        if !self.take(":") {
            let (set, negative) = self.class()?;
            return Ok((if negative { negated(set) } else { set }, Item::Complete));
        }
        let not = self.take("^");
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_lowercase()) {
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        match classes::posix(&name).filter(|_| self.take(":]")) {
            Some(set) => Ok((if not { negated(set) } else { set }, Item::Type)),
            None => unsupported(&format!("[:{name}")),
        }
    }

    /// A `-` in a class: a range, or the character.
    fn dash(&mut self, last: Item, set: &mut ClassUnicode) -> Result<Item, String> {
        let rest = &self.chars[self.at..];
        let ends = rest.starts_with(&[']']) || rest.starts_with(&['&', '&']);
        match last {
            Item::One(first) if !ends => Ok(Item::Range(first)),
            Item::Type if !ends => Err("has a range that begins with a class".to_owned()),
            _ => one('-', last, set),
        }
    }
}

/// Adds a character to a class, or the end of a range.
fn one(c: char, last: Item, set: &mut ClassUnicode) -> Result<Item, String> {
    match last {
        Item::Range(first) if first > c => Err(format!("has the empty range {first:?} to {c:?}")),
        Item::Range(first) => {
            set.union(&range(first, c));
            Ok(Item::Complete)
        }
        _ => {
            set.union(&range(c, c));
            Ok(Item::One(c))
        }
    }
}

fn intersection(before: Option<ClassUnicode>, set: ClassUnicode) -> ClassUnicode {
    match before {
        None => set,
        Some(mut before) => {
            before.intersect(&set);
            before
        }
    }
}

/// A class as it matches: case is ignored before it is turned round.
fn finish(set: ClassUnicode, negative: bool, options: Options) -> Result<ClassUnicode, String> {
    let set = match (options.ignore_case, negative) {
        (false, _) => set,
        (true, false) => match classes::folded(set) {
            Some(set) => set,
            None => return unsupported("a class with characters such as \"ß\" whose case is ignored"),
        },
        (true, true) => {
            let mut set = set;
            set.case_fold_simple();
            set
        }
    };
    Ok(if negative { negated(set) } else { set })
}

fn letter(c: char, options: Options) -> Result<Node, String> {
    let folds = options.ignore_case;
    let class = match folds {
        false => Some(range(c, c)),
        true => classes::folded(range(c, c)),
    };
    match class {
        Some(class) => Ok(Node::Letter { c, folds, class }),
        None => unsupported(&format!("{c:?} where case is ignored")),
    }
}

/// Any character, with the line feed or without.
fn any(line_feed: bool) -> Node {
    let feed = range('\n', '\n');
    Node::Set(negated(if line_feed { ClassUnicode::empty() } else { feed }))
}

/// `\R`.
fn line_end() -> Node {
    let one = |c: char| Node::Set(range(c, c));
    let others = union(&[
        range('\n', '\r'),
        range('\u{85}', '\u{85}'),
        range('\u{2028}', '\u{2029}'),
    ]);
    let both = Node::All(vec![one('\r'), one('\n')]);
    Node::Apart(Around::Atomic, Box::new(Node::Any(vec![both, Node::Set(others)])))
}
