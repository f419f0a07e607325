//! A pattern as a program, and the search that runs it.

use regex_syntax::hir::ClassUnicode;

use super::classes;
use super::node::{Around, Assertion, Node};

/// The most instructions of a program.
const INSTRUCTIONS: usize = 1 << 16;
/// The most times that one attempt goes back, as in Oniguruma.
const RETRIES: u64 = 10_000_000;
/// The most places to go back to.
const PLACES: usize = 1 << 23;

/// A set of characters that is quick to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    ascii: u128,
    ranges: Vec<(char, char)>,
}

impl Set {
    fn new(class: &ClassUnicode) -> Self {
        let ranges: Vec<_> = class.ranges().iter().map(|r| (r.start(), r.end())).collect();
        let within = |c: u8| ranges.iter().any(|(a, b)| *a <= char::from(c) && char::from(c) <= *b);
        let ascii = (0..128).filter(|c| within(*c)).fold(0, |bits, c| bits | 1 << c);
        Self { ascii, ranges }
    }

    fn has(&self, c: char) -> bool {
        match u32::from(c) {
            code @ 0..=127 => self.ascii >> code & 1 == 1,
            _ => {
                let after = self.ranges.partition_point(|(first, _)| *first <= c);
                after > 0 && c <= self.ranges[after - 1].1
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Instruction {
    /// One character of a set.
    One(usize),
    /// As many of a set as there are, at least and at most; goes back one by one.
    Run {
        set: usize,
        min: u32,
        max: Option<u32>,
    },
    /// Continues at the first place, or else at the second.
    Split(usize, usize),
    Jump(usize),
    Assert(Assertion),
    /// Runs what follows, up to an `End`, on its own, and goes on at `after`.
    Apart {
        around: Around,
        after: usize,
    },
    /// Notes where a turn of a loop begins.
    Mark(usize),
    /// Leaves the loop if its turn was empty.
    Turn {
        slot: usize,
        exit: usize,
    },
    End,
}

/// The search went beyond its limits.
pub struct TooLong;

/// A pattern that is ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    instructions: Vec<Instruction>,
    sets: Vec<Set>,
    slots: usize,
    word: Set,
    /// The characters that a match can begin with; `None` if it can be empty.
    first: Option<Set>,
}

impl Program {
    /// Translates a pattern. Errors if it is too large.
    pub fn new(node: &Node) -> Result<Self, String> {
        let (first, nullable) = first(node);
        let mut program = Self {
            instructions: Vec::new(),
            sets: Vec::new(),
            slots: 0,
            word: Set::new(&classes::word_alone()),
            first: (!nullable).then(|| Set::new(&first)),
        };
        program.add(node)?;
        program.push(Instruction::End)?;
        Ok(program)
    }

    fn push(&mut self, instruction: Instruction) -> Result<usize, String> {
        if self.instructions.len() >= INSTRUCTIONS {
            return Err(format!("is too large: its counts make more than {INSTRUCTIONS} steps"));
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() - 1)
    }

    fn here(&self) -> usize {
        self.instructions.len()
    }

    fn set(&mut self, class: &ClassUnicode) -> usize {
        let set = Set::new(class);
        let found = self.sets.iter().position(|known| *known == set);
        found.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        })
    }

    fn add(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Set(class) | Node::Letter { class, .. } => {
                let set = self.set(class);
                self.push(Instruction::One(set))?;
            }
            Node::All(nodes) => nodes.iter().try_for_each(|node| self.add(node))?,
            Node::Any(nodes) => self.any(nodes)?,
            Node::Assert(assertion) => {
                self.push(Instruction::Assert(*assertion))?;
            }
            Node::Apart(around, node) => {
                let start = self.push(Instruction::End)?;
                self.add(node)?;
                self.push(Instruction::End)?;
                let (around, after) = (*around, self.here());
                self.instructions[start] = Instruction::Apart { around, after };
            }
            Node::Repeat { node, min, max, greedy } => self.repeat(node, *min, *max, *greedy)?,
        }
        Ok(())
    }

    fn any(&mut self, nodes: &[Node]) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            if i + 1 == nodes.len() {
                self.add(node)?;
                break;
            }
            let split = self.push(Instruction::End)?;
            self.add(node)?;
            jumps.push(self.push(Instruction::End)?);
            self.instructions[split] = Instruction::Split(split + 1, self.here());
        }
        let end = self.here();
        for jump in jumps {
            self.instructions[jump] = Instruction::Jump(end);
        }
        Ok(())
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, greedy: bool) -> Result<(), String> {
        if let (Node::Set(class) | Node::Letter { class, .. }, true) = (node, greedy) {
            let set = self.set(class);
            self.push(Instruction::Run { set, min, max })?;
            return Ok(());
        }
        let branch = |on: usize, out: usize| match greedy {
            true => Instruction::Split(on, out),
            false => Instruction::Split(out, on),
        };
        for _ in 0..min {
            self.add(node)?;
        }
        let Some(max) = max else {
            let slot = self.slots;
            self.slots += 1;
            let start = self.push(Instruction::End)?;
            self.push(Instruction::Mark(slot))?;
            self.add(node)?;
            let turn = self.push(Instruction::End)?;
            self.push(Instruction::Jump(start))?;
            let exit = self.here();
            self.instructions[turn] = Instruction::Turn { slot, exit };
            self.instructions[start] = branch(start + 1, exit);
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.push(Instruction::End)?);
            self.add(node)?;
        }
        let exit = self.here();
        for split in splits {
            self.instructions[split] = branch(split + 1, exit);
        }
        Ok(())
    }

    /// The first match that begins at `from` or later.
    pub fn search(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, TooLong> {
        let mut machine = Machine {
            program: self,
            text,
            from,
            places: Vec::new(),
            slots: vec![usize::MAX; self.slots],
            retries: 0,
        };
        let begins = |c: char| self.first.as_ref().is_none_or(|first| first.has(c));
        let starts = text[from..].char_indices().filter(|(_, c)| begins(*c));
        let starts = starts.map(|(at, _)| from + at);
        let end = self.first.is_none().then_some(text.len());
        for start in starts.chain(end) {
            machine.retries = 0;
            if let Some(end) = machine.run(0, start, None)? {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }
}

/// Finds the characters that a match can begin with, and whether it can be empty.
fn first(node: &Node) -> (ClassUnicode, bool) {
    match node {
        Node::Set(class) | Node::Letter { class, .. } => (class.clone(), false),
        Node::All(nodes) => {
            let mut all = ClassUnicode::empty();
            for node in nodes {
                let (set, nullable) = first(node);
                all.union(&set);
                if !nullable {
                    return (all, false);
                }
            }
            (all, true)
        }
        Node::Any(nodes) => {
            let (sets, nullable): (Vec<_>, Vec<bool>) = nodes.iter().map(first).unzip();
            (classes::union(&sets), nullable.contains(&true))
        }
        Node::Repeat { node, min, .. } => {
            let (set, nullable) = first(node);
            (set, nullable || *min == 0)
        }
        Node::Apart(Around::Atomic, node) => first(node),
        Node::Apart(..) | Node::Assert(_) => (ClassUnicode::empty(), true),
    }
}

/// A place to go back to.
enum Place {
    Branch {
        at: usize,
        pos: usize,
    },
    /// One character less of a run, as long as it is longer than `least`.
    Run {
        after: usize,
        least: usize,
        pos: usize,
    },
    Slot {
        slot: usize,
        old: usize,
    },
}

struct Machine<'a> {
    program: &'a Program,
    text: &'a str,
    /// Where the search began.
    from: usize,
    places: Vec<Place>,
    slots: Vec<usize>,
    retries: u64,
}

impl Machine<'_> {
    /// Runs from an instruction up to an `End`; with `until`, only an end there counts.
    fn run(&mut self, start: usize, pos: usize, until: Option<usize>) -> Result<Option<usize>, TooLong> {
        let base = self.places.len();
        let (mut at, mut pos) = (start, pos);
        loop {
            let next = match &self.program.instructions[at] {
                Instruction::End if until.is_none_or(|until| until == pos) => {
                    self.places.truncate(base);
                    return Ok(Some(pos));
                }
                Instruction::End => None,
                instruction => self.step(instruction, at, pos)?,
            };
            match next.or_else(|| self.back(base)) {
                Some(place) => (at, pos) = place,
                None => return Ok(None),
            }
            if self.retries > RETRIES || self.places.len() > PLACES {
                return Err(TooLong);
            }
        }
    }

    /// The next instruction and place in the text; `None` if this one does not match.
    fn step(&mut self, instruction: &Instruction, at: usize, pos: usize) -> Result<Option<(usize, usize)>, TooLong> {
        let next = |c: char| pos + c.len_utf8();
        let following = self.text[pos..].chars().next();
        let to = match instruction {
            Instruction::One(set) => {
                let set = &self.program.sets[*set];
                following.filter(|c| set.has(*c)).map(|c| (at + 1, next(c)))
            }
            Instruction::Run { set, min, max } => self.run_of(*set, *min, *max, at, pos),
            Instruction::Split(on, or) => {
                self.places.push(Place::Branch { at: *or, pos });
                Some((*on, pos))
            }
            Instruction::Jump(to) => Some((*to, pos)),
            Instruction::Assert(assertion) => self.holds(*assertion, pos).then_some((at + 1, pos)),
            Instruction::Apart { around, after } => {
                let end = self.apart(*around, at + 1, pos)?;
                end.map(|end| (*after, end))
            }
            Instruction::Mark(slot) => {
                let old = std::mem::replace(&mut self.slots[*slot], pos);
                self.places.push(Place::Slot { slot: *slot, old });
                Some((at + 1, pos))
            }
            Instruction::Turn { slot, exit } if self.slots[*slot] == pos => Some((*exit, pos)),
            Instruction::Turn { .. } => Some((at + 1, pos)),
            Instruction::End => None,
        };
        Ok(to)
    }

    fn run_of(&mut self, set: usize, min: u32, max: Option<u32>, at: usize, pos: usize) -> Option<(usize, usize)> {
        let set = &self.program.sets[set];
        let (mut count, mut end, mut least) = (0, pos, pos);
        for c in self.text[pos..].chars() {
            if max.is_some_and(|max| count >= max) || !set.has(c) {
                break;
            }
            count += 1;
            end += c.len_utf8();
            if count <= min {
                least = end;
            }
        }
        if count < min {
            return None;
        }
        if end > least {
            let after = at + 1;
            self.places.push(Place::Run { after, least, pos: end });
        }
        Some((at + 1, end))
    }

    /// The last place to go back to that is not used up.
    fn back(&mut self, base: usize) -> Option<(usize, usize)> {
        self.retries += 1;
        while self.places.len() > base {
            match self.places.pop()? {
                Place::Branch { at, pos } => return Some((at, pos)),
                Place::Slot { slot, old } => self.slots[slot] = old,
                Place::Run { after, least, pos } => {
                    let last = self.text[..pos].chars().next_back()?;
                    let pos = pos - last.len_utf8();
                    if pos > least {
                        self.places.push(Place::Run { after, least, pos });
                    }
                    return Some((after, pos));
                }
            }
        }
        None
    }

    /// Where the text goes on after a part that is matched on its own.
    fn apart(&mut self, around: Around, start: usize, pos: usize) -> Result<Option<usize>, TooLong> {
        match around {
            Around::Atomic => self.run(start, pos, None),
            Around::Ahead { negative } => {
                let found = self.run(start, pos, None)?.is_some();
                Ok((found != negative).then_some(pos))
            }
            Around::Behind { negative, min, max } => {
                let (mut begin, mut found) = (Some(pos), false);
                for count in 0..=max {
                    let Some(from) = begin else { break };
                    if count >= min && self.run(start, from, Some(pos))?.is_some() {
                        found = true;
                        break;
                    }
                    let before = self.text[..from].chars().next_back();
                    begin = before.map(|c| from - c.len_utf8());
                }
                Ok((found != negative).then_some(pos))
            }
        }
    }

    fn holds(&self, assertion: Assertion, pos: usize) -> bool {
        let (before, after) = self.text.split_at(pos);
        let (before, mut after) = (before.chars().next_back(), after.chars());
        let next = after.next();
        let word = |c: Option<char>| c.is_some_and(|c| self.program.word.has(c));
        match assertion {
            Assertion::LineStart => before.is_none() || (before == Some('\n') && next.is_some()),
            Assertion::LineEnd => next.is_none() || next == Some('\n'),
            Assertion::Start => before.is_none(),
            Assertion::End => next.is_none(),
            Assertion::EndOrLastLine => next.is_none() || (next == Some('\n') && after.next().is_none()),
            Assertion::SearchStart => pos == self.from,
            Assertion::Word { boundary } => (word(before) != word(next)) == boundary,
        }
    }
}
