//! The tree of a pattern, and facts about its parts that the parser asks for.

use regex_syntax::hir::ClassUnicode;

use super::classes;

/// A part of a pattern.
#[derive(Clone, Debug)]
pub enum Node {
    /// One character of a set.
    Set(ClassUnicode),
    /// A character as it was written; with `folds`, `class` has those that differ in case, too.
    Letter {
        c: char,
        folds: bool,
        class: ClassUnicode,
    },
    /// One after the other.
    All(Vec<Node>),
    /// The first that matches.
    Any(Vec<Node>),
    Assert(Assertion),
    /// A part that is matched on its own.
    Apart(Around, Box<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    },
}

/// What holds at a place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    LineStart,
    LineEnd,
    Start,
    End,
    EndOrLastLine,
    SearchStart,
    Word { boundary: bool },
}

/// How a part is matched on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    Atomic,
    Ahead {
        negative: bool,
    },
    /// Lengths in characters.
    Behind {
        negative: bool,
        min: usize,
        max: usize,
    },
}

/// Refuses a pattern by naming the part that is not supported.
pub fn unsupported<T>(what: &str) -> Result<T, String> {
    Err(format!("uses {what}, which is not supported"))
}

/// Sequences in sequences become one.
pub fn flatten(nodes: Vec<Node>, flat: &mut Vec<Node>) {
    for node in nodes {
        match node {
            Node::All(inner) => flatten(inner, flat),
            other => flat.push(other),
        }
    }
}

/// Refuses neighbours that Oniguruma would match with one character, as "ss" with "ß".
pub fn check_folds(nodes: &[Node]) -> Result<(), String> {
    let mut before = None;
    for node in nodes {
        let (letter, twice) = match node {
            Node::Letter { c, folds: true, .. } => (Some(*c), false),
            Node::Repeat { node, max, .. } => match &**node {
                Node::Letter { c, folds: true, .. } => (Some(*c), *max != Some(1)),
                _ => (None, false),
            },
            _ => (None, false),
        };
        let pairs = [before.zip(letter), letter.zip(letter).filter(|_| twice)];
        for (a, b) in pairs.into_iter().flatten() {
            if classes::begin_a_fold(a, b) {
                return unsupported(&format!("{:?} where case is ignored", format!("{a}{b}")));
            }
        }
        before = letter;
    }
    Ok(())
}

/// Whether a look-behind has a part that looks around, or that is matched on its own with one of several lengths.
pub fn has_own_length(node: &Node) -> bool {
    match node {
        Node::Apart(Around::Atomic, node) => {
            let (min, max) = lengths(node);
            max != Some(min) || has_own_length(node)
        }
        Node::Apart(..) => true,
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(has_own_length),
        Node::Repeat { node, .. } => has_own_length(node),
        Node::Set(_) | Node::Letter { .. } | Node::Assert(_) => false,
    }
}

/// The least and the most characters that a part matches; no most if there is none.
pub fn lengths(node: &Node) -> (usize, Option<usize>) {
    match node {
        Node::Set(_) | Node::Letter { .. } => (1, Some(1)),
        Node::Assert(_) => (0, Some(0)),
        Node::Apart(Around::Atomic, node) => lengths(node),
        Node::Apart(..) => (0, Some(0)),
        Node::All(nodes) => nodes.iter().map(lengths).fold((0, Some(0)), |(min, max), (a, b)| {
            (min + a, max.zip(b).map(|(max, b)| max.saturating_add(b)))
        }),
        Node::Any(nodes) => {
            let all: Vec<_> = nodes.iter().map(lengths).collect();
            let min = all.iter().map(|(min, _)| *min).min().unwrap_or(0);
            let max = all.iter().map(|(_, max)| *max).collect::<Option<Vec<_>>>();
            (min, max.map(|all| all.into_iter().max().unwrap_or(0)))
        }
        Node::Repeat { node, min, max, .. } => {
            let (least, most) = lengths(node);
            let most = most.zip(*max).map(|(most, max)| most.saturating_mul(max as usize));
            (least.saturating_mul(*min as usize), most)
        }
    }
}
