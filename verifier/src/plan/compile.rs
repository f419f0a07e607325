//! From a record of what was calculated to a program of the machine.

use std::collections::HashMap;

use stwo::core::fields::m31::P;
use tessera_circuits::scalar::Source;

use super::program::{op, word_of, TABLE_LOG};
use super::symbol::{Node, Place, Record, Symbol, Table};

/// Terms of one sum, at most: more would not fit what a contract adds up before it reduces.
const TERMS: usize = 1 << 11;

/// A program and how many registers it has.
#[derive(Clone, Debug)]
pub struct Program {
    /// The instructions.
    pub code: Vec<u8>,
    /// The registers.
    pub registers: usize,
}

/// A sum that is collected.
#[derive(Default)]
struct Terms {
    multiples: Vec<(u16, u32)>,
    products: Vec<(u16, u16)>,
    constant: u64,
}

struct Compiler<'a> {
    record: &'a Record,
    /// Whether an expression has a register of its own.
    own: Vec<bool>,
    used: Vec<bool>,
    registers: HashMap<Symbol, u16>,
    tables: HashMap<u32, u16>,
    constants: HashMap<u32, u16>,
    next: usize,
    code: Vec<u8>,
    /// The instruction that was written last, if more of its kind may follow it as one.
    last: Option<Last>,
}

/// An instruction that may go on.
#[derive(Clone, Copy)]
struct Last {
    start: usize,
    to: u16,
    count: u16,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scale { from: u16, shift: bool },
    Multiply { a: u16, b: u16, step: Option<u8> },
}

/// A program that has inputs in its first registers, and writes the outputs to its first registers at its end. `None` if it does not
/// fit the machine.
pub fn compile(record: &Record, inputs: usize, outputs: &[Symbol]) -> Option<Program> {
    let mut compiler = Compiler {
        record,
        own: vec![false; record.nodes.len()],
        used: vec![false; record.nodes.len()],
        registers: HashMap::new(),
        tables: HashMap::new(),
        constants: HashMap::new(),
        next: inputs,
        code: Vec::new(),
        last: None,
    };
    compiler.mark(outputs);
    compiler.write_constants()?;
    for index in 0..record.nodes.len() {
        if *compiler.own.get(index)? {
            compiler.node(Symbol(index as u32))?;
        }
    }
    let outputs: Vec<u16> = outputs
        .iter()
        .map(|own| compiler.register(*own))
        .collect::<Option<_>>()?;
    let to = compiler.room(outputs.len())?;
    compiler.list(op::COPY, to, &outputs)?;
    let again: Vec<u16> = (0..outputs.len() as u16).map(|i| to + i).collect();
    compiler.list(op::COPY, 0, &again)?;
    Some(Program {
        registers: compiler.next,
        code: compiler.code,
    })
}

impl Compiler<'_> {
    fn of(&self, symbol: Symbol) -> Option<&Node> {
        self.record.nodes.get(symbol.0 as usize)
    }

    fn require(&mut self, symbol: Symbol) {
        if let (Some(own), Some(used)) = (
            self.own.get_mut(symbol.0 as usize),
            self.used.get_mut(symbol.0 as usize),
        ) {
            (*own, *used) = (true, true);
        }
    }

    /// What a sum adds: it has a register if it is used again.
    fn refer(&mut self, symbol: Symbol, scaled: bool) {
        let again = self.used.get(symbol.0 as usize).copied().unwrap_or(false);
        let inline = match self.of(symbol) {
            Some(Node::Constant(_)) => true,
            Some(Node::Add(..) | Node::Mul(..)) => !scaled && !again,
            // What is scaled lies side by side more often than its multiples.
            Some(Node::Scale(..)) => true,
            _ => false,
        };
        if !inline {
            self.require(symbol);
        }
        if let Some(used) = self.used.get_mut(symbol.0 as usize) {
            *used = true;
        }
    }

    /// Finds what has a register, from the last expression to the first one.
    fn mark(&mut self, outputs: &[Symbol]) {
        outputs.iter().for_each(|own| self.require(*own));
        let mut scaled = vec![false; self.record.nodes.len()];
        let mut seen = std::collections::HashSet::new();
        for index in (0..self.record.nodes.len()).rev() {
            if !self.used.get(index).copied().unwrap_or(false) {
                continue;
            }
            let inlined = !self.own.get(index).copied().unwrap_or(false);
            let within = inlined && scaled.get(index).copied().unwrap_or(false);
            let Some(node) = self.record.nodes.get(index).cloned() else {
                continue;
            };
            match node {
                Node::Add(a, b) => [a, b].into_iter().for_each(|own| self.refer(own, within)),
                Node::Scale(a, _) => {
                    self.refer(a, true);
                    if let Some(own) = scaled.get_mut(a.0 as usize) {
                        *own = true;
                    }
                }
                Node::Mul(a, b) => [a, b].into_iter().for_each(|own| self.require(own)),
                Node::Eq(a, b) => a.into_iter().chain(b).for_each(|own| self.require(own)),
                Node::Entry(table, _) | Node::Select(table, _) => {
                    let own = self.record.tables.get(table as usize);
                    if let Some(Table::Eq(list) | Table::Prefix(list) | Table::List(list)) =
                        own.filter(|_| seen.insert(table))
                    {
                        list.iter().for_each(|own| self.require(*own));
                    }
                }
                Node::Constant(_) | Node::Input(_) | Node::Word(_) | Node::Bit(..) => {}
            }
        }
    }

    fn room(&mut self, count: usize) -> Option<u16> {
        let first = u16::try_from(self.next).ok()?;
        self.next += count;
        (self.next <= 1 << 16).then_some(first)
    }

    fn number(&mut self, value: u16) {
        self.code.extend(value.to_be_bytes());
    }

    fn begin(&mut self, op: u8, to: u16) {
        self.last = None;
        self.code.push(op);
        self.number(to);
    }

    fn list(&mut self, op: u8, to: u16, registers: &[u16]) -> Option<()> {
        self.begin(op, to);
        self.number(u16::try_from(registers.len()).ok()?);
        registers.iter().for_each(|own| self.number(*own));
        Some(())
    }

    /// All constants that have registers, and 1, 0.
    fn write_constants(&mut self) -> Option<()> {
        let own = self.record.nodes.iter().zip(&self.own);
        let mut values: Vec<u32> = vec![0, 1];
        values.extend(own.filter_map(|(node, own)| match node {
            Node::Constant(value) if *own && *value > 1 => Some(*value),
            _ => None,
        }));
        let to = self.room(values.len())?;
        self.begin(op::CONSTANTS, to);
        self.number(u16::try_from(values.len()).ok()?);
        for (i, value) in values.into_iter().enumerate() {
            self.code.extend(value.to_be_bytes());
            self.constants.insert(value, to + i as u16);
        }
        Some(())
    }

    fn register(&mut self, symbol: Symbol) -> Option<u16> {
        match self.of(symbol)? {
            Node::Constant(value) => self.constants.get(value).copied(),
            Node::Input(index) => u16::try_from(*index).ok(),
            Node::Entry(table, index) => {
                let (table, index) = (*table, *index);
                Some(self.table(table)? + index as u16)
            }
            _ => self.registers.get(&symbol).copied(),
        }
    }

    /// The first register of a table, which is written where it is needed first.
    fn table(&mut self, table: u32) -> Option<u16> {
        if let Some(to) = self.tables.get(&table) {
            return Some(*to);
        }
        let own = self.record.tables.get(table as usize)?;
        let (Table::Eq(list) | Table::Prefix(list) | Table::List(list)) = own;
        let registers: Vec<u16> = list.iter().map(|own| self.register(*own)).collect::<Option<_>>()?;
        let to = match own {
            Table::Eq(point) => {
                let to = (point.len() <= TABLE_LOG).then(|| self.room(1 << point.len()))??;
                self.begin(op::TABLE, to);
                self.code.push(point.len() as u8);
                registers.iter().for_each(|own| self.number(*own));
                to
            }
            Table::Prefix(_) => {
                let to = self.room(registers.len() + 1)?;
                self.list(op::PREFIX, to, &registers)?;
                to
            }
            Table::List(_) => {
                let to = self.room(registers.len())?;
                self.list(op::COPY, to, &registers)?;
                to
            }
        };
        self.tables.insert(table, to);
        Some(to)
    }

    fn length(&self, table: u32) -> usize {
        match self.record.tables.get(table as usize) {
            Some(Table::Eq(point)) => 1 << point.len(),
            Some(Table::Prefix(list)) => list.len() + 1,
            Some(Table::List(list)) => list.len(),
            None => 0,
        }
    }

    fn select(&mut self, base: u16, length: usize, place: Place) -> Option<u16> {
        let to = self.room(1)?;
        self.begin(op::SELECT, to);
        self.number(base);
        self.number(u16::try_from(length).ok()?);
        let (kind, index) = word_of(place.source);
        self.code.push(kind);
        self.number(index);
        self.code.push(place.shift);
        self.number(place.mask);
        self.number(u16::try_from(place.offset).ok()?);
        Some(to)
    }

    /// Writes an expression that has a register.
    fn node(&mut self, symbol: Symbol) -> Option<()> {
        let to = match self.of(symbol)?.clone() {
            Node::Constant(_) | Node::Input(_) => return Some(()),
            Node::Entry(table, _) => {
                self.table(table)?;
                return Some(());
            }
            Node::Word(source) => self.word(source)?,
            Node::Bit(source, shift) => {
                let zero = *self.constants.get(&0)?;
                let (mask, offset) = (1, 0);
                let place = Place {
                    source,
                    shift,
                    mask,
                    offset,
                };
                self.select(zero, 2, place)?
            }
            Node::Select(table, place) => {
                let base = self.table(table)?;
                self.select(base, self.length(table), place)?
            }
            Node::Eq(a, b) => {
                let registers: Vec<u16> = (a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]))
                    .map(|own| self.register(own))
                    .collect::<Option<_>>()?;
                let to = self.room(1)?;
                self.begin(op::EQ, to);
                self.code.push(u8::try_from(a.len()).ok()?);
                registers.iter().for_each(|own| self.number(*own));
                to
            }
            Node::Add(..) | Node::Scale(..) | Node::Mul(..) => {
                let mut terms = Terms::default();
                self.terms(symbol, 1, true, &mut terms)?;
                self.sum(terms)?
            }
        };
        self.registers.insert(symbol, to);
        Some(())
    }

    fn word(&mut self, source: Source) -> Option<u16> {
        let to = self.room(1)?;
        self.begin(op::WORD, to);
        let (kind, index) = word_of(source);
        self.code.push(kind);
        self.number(index);
        Some(to)
    }

    /// Collects the terms of a sum, times a factor.
    fn terms(&mut self, symbol: Symbol, factor: u32, first: bool, terms: &mut Terms) -> Option<()> {
        let mut pending = vec![(symbol, factor, first)];
        while let Some((symbol, factor, first)) = pending.pop() {
            let node = self.of(symbol)?.clone();
            let scaled = |own: u32| (u64::from(factor) * u64::from(own) % u64::from(P)) as u32;
            if let Node::Constant(value) = node {
                terms.constant = (terms.constant + u64::from(scaled(value))) % u64::from(P);
                continue;
            }
            let multiple = matches!(node, Node::Scale(..));
            if !first && !multiple && *self.own.get(symbol.0 as usize)? {
                terms.multiples.push((self.register(symbol)?, factor));
                continue;
            }
            match node {
                Node::Add(a, b) => pending.extend([(b, factor, false), (a, factor, false)]),
                Node::Scale(a, own) => pending.push((a, scaled(own), false)),
                Node::Mul(a, b) if factor == 1 => terms.products.push((self.register(a)?, self.register(b)?)),
                _ => return None,
            }
        }
        Some(())
    }

    fn sum(&mut self, mut terms: Terms) -> Option<u16> {
        if terms.constant != 0 {
            terms.multiples.push((*self.constants.get(&1)?, terms.constant as u32));
        }
        if terms.multiples.len() + terms.products.len() > TERMS {
            return self.long_sum(terms);
        }
        let to = self.room(1)?;
        match (terms.multiples.as_slice(), terms.products.as_slice()) {
            ([(from, factor)], []) => self.scale(to, *from, *factor),
            ([], [(a, b)]) => self.multiply(to, *a, *b),
            _ => self.write_sum(to, terms)?,
        }
        Some(to)
    }

    fn long_sum(&mut self, terms: Terms) -> Option<u16> {
        let one = *self.constants.get(&1)?;
        let mut parts = Terms::default();
        for own in terms.multiples.chunks(TERMS) {
            let (multiples, products, constant) = (own.to_vec(), Vec::new(), 0);
            let part = self.sum(Terms {
                multiples,
                products,
                constant,
            })?;
            parts.products.push((part, one));
        }
        for own in terms.products.chunks(TERMS) {
            let (multiples, products, constant) = (Vec::new(), own.to_vec(), 0);
            let part = self.sum(Terms {
                multiples,
                products,
                constant,
            })?;
            parts.products.push((part, one));
        }
        self.sum(parts)
    }

    fn write_sum(&mut self, to: u16, mut terms: Terms) -> Option<()> {
        terms
            .products
            .iter_mut()
            .for_each(|(a, b)| (*a, *b) = (*a.min(b), *a.max(b)));
        terms.products.sort_unstable();
        let (mut single, mut runs) = (Vec::new(), Vec::new());
        for run in terms
            .products
            .chunk_by(|(a, b), (c, d)| c.checked_sub(*a) == Some(1) && d.checked_sub(*b) == Some(1))
        {
            match run {
                [] => {}
                [one] => single.push(*one),
                [(a, b), ..] => runs.push((*a, *b, run.len() as u16)),
            }
        }
        terms.multiples.sort_unstable();
        let shift = |factor: u32| factor.is_power_of_two();
        let multiples: Vec<&[(u16, u32)]> = (terms.multiples)
            .chunk_by(|(a, own), (b, other)| b.checked_sub(*a) == Some(1) && shift(*own) == shift(*other))
            .collect();
        self.begin(op::SUM, to);
        for count in [multiples.len(), single.len(), runs.len()] {
            self.number(u16::try_from(count).ok()?);
        }
        for run in multiples {
            let (from, first) = run.first().copied()?;
            self.number(from);
            let kind = if shift(first) { op::SHIFTS } else { 0 };
            self.number(run.len() as u16 | kind);
            run.iter().for_each(|(_, factor)| self.factor(*factor, shift(first)));
        }
        for (a, b) in single {
            self.number(a);
            self.number(b);
        }
        for (a, b, count) in runs {
            [a, b, count].into_iter().for_each(|own| self.number(own));
        }
        Some(())
    }

    /// The last instruction, if the next one can be a part of it.
    fn going_on(&self, to: u16) -> Option<Last> {
        self.last
            .filter(|last| last.count < op::SHIFTS - 1 && last.to.checked_add(last.count) == Some(to))
    }

    fn scale(&mut self, to: u16, from: u16, factor: u32) {
        let shift = factor.is_power_of_two();
        let follows = |last: &Last| match last.kind {
            Kind::Scale { from: own, shift: kind } => kind == shift && own.checked_add(last.count) == Some(from),
            Kind::Multiply { .. } => false,
        };
        let before = self.going_on(to).filter(follows);
        let last = before.unwrap_or_else(|| {
            let start = self.code.len();
            self.begin(op::SCALE, to);
            self.number(from);
            self.number(0);
            Last {
                start,
                to,
                count: 0,
                kind: Kind::Scale { from, shift },
            }
        });
        self.factor(factor, shift);
        self.count(last, 5);
    }

    fn factor(&mut self, factor: u32, shift: bool) {
        match shift {
            true => self.code.push(factor.trailing_zeros() as u8),
            false => self.code.extend(factor.to_be_bytes()),
        }
    }

    /// Counts one more of an instruction, whose number is at a place.
    fn count(&mut self, mut last: Last, at: usize) {
        last.count += 1;
        let shifts = matches!(last.kind, Kind::Scale { shift: true, .. });
        let bytes = (last.count | if shifts { op::SHIFTS } else { 0 }).to_be_bytes();
        let own = self.code.iter_mut().skip(last.start + at);
        own.zip(bytes).for_each(|(own, byte)| *own = byte);
        self.last = Some(last);
    }

    fn multiply(&mut self, to: u16, a: u16, b: u16) {
        let follows = |last: &Last, a: u16, b: u16| match last.kind {
            Kind::Multiply { a: c, b: d, step } if c.checked_add(last.count) == Some(a) => {
                [0, 1].into_iter().find(|own| {
                    step.is_none_or(|step| step == *own) && d.checked_add(last.count * u16::from(*own)) == Some(b)
                })
            }
            _ => None,
        };
        let before = self.going_on(to);
        let either = [(a, b), (b, a)]
            .into_iter()
            .find_map(|(a, b)| before.and_then(|last| Some((last, follows(&last, a, b)?))));
        if let Some((mut last, step)) = either {
            if let Kind::Multiply { step: own, .. } = &mut last.kind {
                *own = Some(step);
            }
            if let Some(own) = self.code.get_mut(last.start + 7) {
                *own = step;
            }
            self.count(last, 8);
            return;
        }
        let start = self.code.len();
        self.begin(op::MULTIPLY, to);
        self.number(a);
        self.number(b);
        self.code.push(0);
        self.number(0);
        self.count(
            Last {
                start,
                to,
                count: 0,
                kind: Kind::Multiply { a, b, step: None },
            },
            8,
        );
    }
}
