//! An honest proof as a tree of named nodes, found through its serialisation: no field is listed by hand.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bincode::config::standard;
use bincode::error::EncodeError;
use bincode::serde::encode_to_vec;
use serde::Deserialize;
use serde_json::Value;
use stwo::core::fields::m31::P;
use tessera_testkit::SplitMix;
use tessera_verifier::hiding::HiddenProof;
use tessera_verifier::proof::Proof;

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// One number of a value becomes another one of the same type: a small random change, then zero.
    Change,
    /// One number of a value becomes the modulus.
    Modulus,
    /// A sequence loses its last entry.
    Truncate,
    /// A sequence gets its last entry twice.
    Extend,
    /// A sequence loses all its entries.
    Empty,
}

/// A place in the tree: a value that can be changed, or a sequence whose length can be.
#[derive(Clone, Debug)]
pub struct Node {
    /// `stark.queried_values[1][4][17]`; the inside of arrays of fixed length is not named.
    pub path: String,
    /// The same for [`Value::pointer`].
    pointer: String,
    pub ops: Vec<Op>,
}

/// The nodes of a proof.
pub struct Tree {
    pub root: Value,
    pub nodes: Vec<Node>,
    /// Sequences without entries.
    empty: Vec<String>,
    /// By path without its indices: does it have a length of its own?
    growable: HashMap<String, bool>,
    /// By path without its indices: do its numbers reach the modulus?
    wide: HashMap<String, bool>,
}

/// Where the tree of a proof that hides has what only such proofs have.
const HIDDEN: &str = "hidden";

/// Sequences of which proofs that hide have no entry; other tests add some.
const EMPTY_WHEN_HIDDEN: [&str; 2] = ["boundaries", "chunks[].statistics.clips"];

/// The proof that a tree stands for, if there is one.
fn parse(root: &Value) -> Option<Proof> {
    let hidden = root.get(HIDDEN).map(HiddenProof::deserialize).transpose();
    let (hidden, proof) = (hidden.ok()?, Proof::deserialize(root).ok()?);
    Some(Proof { hidden, ..proof })
}

/// The encoding of a proof without the checks of [`Proof::to_bytes`], which refuses what verifiers must.
pub fn encode(proof: &Proof) -> Vec<u8> {
    let kind = proof.file_kind();
    let mut bytes = Vec::from(kind.magic());
    bytes.extend(kind.version().to_le_bytes());
    let config = standard().with_fixed_int_encoding();
    let mut write = |part: Result<Vec<u8>, EncodeError>| bytes.extend(part.expect("a proof is encoded"));
    if let Some(context) = &proof.context {
        write(encode_to_vec(context, config));
    }
    if let Some(hidden) = &proof.hidden {
        write(encode_to_vec(hidden, config));
    }
    write(encode_to_vec(proof, config));
    bytes
}

/// A path without its indices: `stark.queried_values[][][]`.
pub fn collapse(path: &str) -> String {
    let parts = path
        .split('[')
        .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    parts.collect::<Vec<_>>().join("[]")
}

impl Tree {
    pub fn new(proof: &Proof) -> Self {
        let mut root = serde_json::to_value(proof).expect("a proof is a tree");
        if let Some(hidden) = &proof.hidden {
            root[HIDDEN] = serde_json::to_value(hidden).expect("it is a tree, too");
        }
        let mut tree = Self {
            root: root.clone(),
            nodes: Vec::new(),
            empty: Vec::new(),
            growable: HashMap::new(),
            wide: HashMap::new(),
        };
        tree.walk(&root, String::new(), String::new());
        let filled: HashSet<String> = tree.nodes.iter().map(|node| collapse(&node.path)).collect();
        for path in &tree.empty {
            let own = collapse(path);
            assert!(
                filled.contains(&own) || proof.hidden.is_some() && EMPTY_WHEN_HIDDEN.contains(&&*own),
                "{path} is empty in an honest proof: it cannot be tampered with"
            );
        }
        tree
    }

    fn walk(&mut self, value: &Value, path: String, pointer: String) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.walk(field, format!("{path}{dot}{name}"), format!("{pointer}/{name}"));
                }
            }
            Value::Array(entries) if self.is_growable(&path, &pointer) => {
                let ops = match entries.len() {
                    // Another chunk must have some.
                    0 => {
                        self.empty.push(path);
                        return;
                    }
                    1 => vec![Op::Extend, Op::Empty],
                    _ => vec![Op::Truncate, Op::Extend, Op::Empty],
                };
                let (own, own_pointer) = (path.clone(), pointer.clone());
                self.nodes.push(Node {
                    path: own,
                    pointer: own_pointer,
                    ops,
                });
                for (i, entry) in entries.iter().enumerate() {
                    self.walk(entry, format!("{path}[{i}]"), format!("{pointer}/{i}"));
                }
            }
            // A variant without fields: its name is all that there is.
            Value::String(_) => {}
            _ => {
                let mut ops = vec![Op::Change];
                if self.is_wide(&path, &pointer) {
                    ops.push(Op::Modulus);
                }
                self.nodes.push(Node { path, pointer, ops });
            }
        }
    }

    /// Does the array have a length of its own? An array of fixed length cannot lose an entry.
    fn is_growable(&mut self, path: &str, pointer: &str) -> bool {
        let key = collapse(path);
        if let Some(known) = self.growable.get(&key) {
            return *known;
        }
        let mut other = self.root.clone();
        let array = other
            .pointer_mut(pointer)
            .and_then(Value::as_array_mut)
            .expect("an array");
        let fits = array.pop().is_none() || parse(&other).is_some();
        self.growable.insert(key, fits);
        fits
    }

    /// Can the numbers of the value be the modulus (those of a digest cannot)?
    fn is_wide(&mut self, path: &str, pointer: &str) -> bool {
        let key = collapse(path);
        if let Some(known) = self.wide.get(&key) {
            return *known;
        }
        let mut other = self.root.clone();
        let mut numbers = Vec::new();
        collect(other.pointer_mut(pointer).expect("a node"), &mut numbers);
        *numbers[0] = Value::from(P);
        let fits = parse(&other).is_some();
        self.wide.insert(key, fits);
        fits
    }

    /// Pointers to all named fields, from the largest to the smallest.
    pub fn fields(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut rest = vec![(String::new(), &self.root)];
        while let Some((pointer, value)) = rest.pop() {
            match value {
                Value::Object(fields) => {
                    for (name, field) in fields {
                        all.push(format!("{pointer}/{name}"));
                        rest.push((format!("{pointer}/{name}"), field));
                    }
                }
                Value::Array(entries) if matches!(entries.first(), Some(Value::Object(_))) => {
                    let entries = entries.iter().enumerate();
                    rest.extend(entries.map(|(i, entry)| (format!("{pointer}/{i}"), entry)));
                }
                _ => {}
            }
        }
        all
    }

    /// The proof with one field of another proof, `None` if it is the same there.
    pub fn with_field_of(&self, other: &Self, pointer: &str) -> Option<Proof> {
        let theirs = other.root.pointer(pointer)?;
        let mut root = self.root.clone();
        let ours = root.pointer_mut(pointer)?;
        if ours == theirs {
            return None;
        }
        *ours = theirs.clone();
        Some(parse(&root).expect("a field fits"))
    }

    /// The proof after an operation on a node, `None` if the operation changes nothing. `zero` picks the
    /// second form of [`Op::Change`].
    pub fn tampered(&mut self, node: &Node, op: Op, zero: bool, rng: &mut SplitMix) -> Option<Proof> {
        let place = self.root.pointer_mut(&node.pointer).expect("a node");
        let before = place.clone();
        match op {
            Op::Change | Op::Modulus => {
                let mut numbers = Vec::new();
                collect(place, &mut numbers);
                let bytes = numbers.len() == 32;
                let pick = rng.below(numbers.len() as u64) as usize;
                let number = &mut *numbers[pick];
                *number = match (op, number.as_i64()) {
                    (Op::Modulus, _) => Value::from(P),
                    (_, None) => Value::from(13),
                    _ if zero => Value::from(0),
                    (_, Some(v)) if bytes => Value::from(v ^ (1 << rng.below(8))),
                    (_, Some(v)) => {
                        let delta = 1 + rng.below(8) as i64;
                        // Beyond what its type can hold it would be no number of a proof.
                        let beyond = |most: i64| v <= most && v + delta > most;
                        let most = [i64::from(i16::MAX), i64::from(P) - 1, u32::MAX.into()];
                        Value::from(if most.into_iter().any(beyond) {
                            v - delta
                        } else {
                            v + delta
                        })
                    }
                };
            }
            Op::Truncate | Op::Extend | Op::Empty => {
                let entries = place.as_array_mut().expect("a sequence");
                match op {
                    Op::Truncate => drop(entries.pop()),
                    Op::Extend => entries.extend(entries.last().cloned()),
                    _ => entries.clear(),
                }
            }
        }
        let changed = *place != before;
        let proof = changed.then(|| parse(&self.root).unwrap_or_else(|| panic!("{op:?} of {}: no proof", node.path)));
        *self.root.pointer_mut(&node.pointer).expect("a node") = before;
        proof
    }
}

/// All numbers (and absent ones) of a value.
fn collect<'a>(value: &'a mut Value, numbers: &mut Vec<&'a mut Value>) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(|v| collect(v, numbers)),
        Value::Number(_) | Value::Null => numbers.push(value),
        other => panic!("no number: {other}"),
    }
}

/// A set of places: a path in which an index may be `*` or `a..b`.
#[derive(Clone, Debug)]
pub struct Pattern(pub String);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    pub fn matches(&self, path: &str) -> bool {
        let steps = |text: &str| text.split(['[', ']']).map(str::to_owned).collect::<Vec<_>>();
        let (own, other) = (steps(&self.0), steps(path));
        own.len() == other.len()
            && own.iter().zip(&other).all(|(pattern, step)| {
                let within = |(from, to): (&str, &str)| {
                    let [from, to, index] = [from, to, step].map(|text| text.parse::<usize>().ok());
                    index.is_some() && from <= index && index < to
                };
                pattern == step
                    || (pattern == "*" && step.parse::<usize>().is_ok())
                    || pattern.split_once("..").is_some_and(within)
            })
    }
}
