//! From a record of what was calculated to instructions, in the order in which they are followed.

use std::collections::{BTreeMap, HashMap};

use stwo::core::fields::m31::P;
use tessera_circuits::scalar::Source;

use crate::program::TABLE_LOG;
use crate::symbol::{Curve, CurveRow, Node, Place, Record, Row, Symbol, Table, CURVE};

/// Terms of one sum, at most: more would not fit what a contract adds up before it reduces.
const TERMS: usize = 1 << 11;

/// What instructions read and write: an element, by its number. Numbers ascend in the order in which elements are written. Constants are
/// told apart from all others by this bit.
pub type Element = u32;
/// The bit of constants, beside their value.
pub const CONSTANT: Element = 1 << 31;

/// A sum that is collected.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Elements and what they are multiplied with.
    pub multiples: Vec<(Element, u32)>,
    /// Products of two.
    pub products: Vec<(Element, Element)>,
    constant: u64,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub enum Step {
    /// `eq` of a point.
    Table(Vec<Element>),
    /// Sums of all before each, and of all.
    Prefix(Vec<Element>),
    /// These, side by side.
    Copy(Vec<Element>),
    /// The entry of a table, from its first element on, that a number of the statement says.
    Select(Element, u32, Place),
    /// `eq` of two points, coordinate by coordinate.
    Eq(Vec<Element>),
    /// A sum.
    Sum(Terms),
    /// Products of two lists of elements that lie side by side, from their first ones on.
    Multiply(Element, Element, u32),
    /// A multiple of an element, and multiples of sums of elements that lie side by side, by their places from the first one on.
    Row(Element, (Element, u32), Vec<(u32, Vec<u8>)>),
    /// Of numbers of the statement the sums of the first entries of rows.
    Below(Rows, Vec<Source>),
    /// The extension of a function: elements of the first table that lie side by side, one for each row, and sums of the second table.
    Curve(Element, Element, Vec<CurveRow>),
}

/// Rows of powers of two, beside elements that lie side by side.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The first element.
    pub from: Element,
    /// log2 of the elements.
    pub log: u8,
    /// The number of the first row.
    pub first: u32,
    /// The powers.
    pub factors: Vec<u32>,
}

/// Bytes of a row of a function.
fn row_bytes(row: &CurveRow) -> usize {
    9 + row.planes.as_flattened().len()
}

/// The most bytes of the rows of an instruction: it fits a page.
const ROWS: usize = 24_000;

/// An instruction, and what it writes.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it does.
    pub step: Step,
    /// The first element that it writes.
    pub to: Element,
    /// How many it writes.
    pub count: u32,
}

impl Instruction {
    /// All elements that it reads.
    pub fn reads(&self) -> Box<dyn Iterator<Item = Element> + '_> {
        match &self.step {
            Step::Table(list) | Step::Prefix(list) | Step::Copy(list) | Step::Eq(list) => {
                Box::new(list.iter().copied())
            }
            Step::Select(base, length, _) => Box::new(*base..base.saturating_add(*length)),
            Step::Row(from, (total, _), groups) => {
                // As a whole: what lies side by side stays so.
                let length = groups.iter().filter_map(|(_, places)| places.last()).max();
                let length = length.map_or(0, |last| u32::from(*last) + 1);
                Box::new((*from..from.saturating_add(length)).chain([*total]))
            }
            Step::Below(rows, _) => Box::new(rows.from..rows.from.saturating_add(1 << rows.log)),
            Step::Curve(high, low, rows) => {
                let high = *high..high.saturating_add(rows.len() as u32);
                Box::new(high.chain(*low..low.saturating_add(CURVE as u32)))
            }
            Step::Multiply(a, b, count) => {
                Box::new([*a, *b].into_iter().flat_map(|own| own..own.saturating_add(*count)))
            }
            Step::Sum(terms) => {
                let multiples = terms.multiples.iter().map(|(own, _)| *own);
                Box::new(multiples.chain(terms.products.iter().flat_map(|(a, b)| [*a, *b])))
            }
        }
    }
}

struct Compiler<'a> {
    record: &'a Record,
    /// Whether an expression has an element of its own.
    own: Vec<bool>,
    used: Vec<bool>,
    elements: HashMap<Symbol, Element>,
    tables: BTreeMap<u32, Element>,
    next: Element,
    instructions: Vec<Instruction>,
}

/// Instructions, and the elements that they leave as outputs. The first elements are the inputs. `None` if a table is too long.
pub fn compile(record: &Record, inputs: usize, outputs: &[Symbol]) -> Option<(Vec<Instruction>, Vec<Element>)> {
    let mut compiler = Compiler {
        record,
        own: vec![false; record.nodes.len()],
        used: vec![false; record.nodes.len()],
        elements: HashMap::new(),
        tables: BTreeMap::new(),
        next: Element::try_from(inputs).ok()?,
        instructions: Vec::new(),
    };
    compiler.mark(outputs);
    for symbol in compiler.schedule(outputs) {
        compiler.node(symbol)?;
    }
    let outputs = outputs
        .iter()
        .map(|own| compiler.element(*own))
        .collect::<Option<_>>()?;
    Some((compiler.instructions, outputs))
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

    /// What a sum adds: it has an element if it is used again.
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

    /// Finds what has an element, from the last expression to the first one.
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
                Node::Entry(table, _)
                | Node::Select(table, _)
                | Node::Row(Row { table, .. })
                | Node::Below(table, _) => {
                    if let Node::Row(Row { total, .. }) = node {
                        self.require(total.0);
                    }
                    if seen.insert(table) {
                        let own = self.made_of(table);
                        own.into_iter().for_each(|own| self.require(own));
                    }
                }
                Node::Curve(Curve { high, low, .. }) => {
                    for table in [high, low] {
                        let own = self.made_of(table);
                        own.into_iter().for_each(|own| self.require(own));
                    }
                }
                Node::Constant(_) | Node::Input(_) | Node::Bit(..) => {}
            }
        }
    }

    /// What an expression is made of.
    fn parts(&self, node: &Node) -> Vec<Symbol> {
        match node {
            Node::Add(a, b) | Node::Mul(a, b) => vec![*a, *b],
            Node::Scale(a, _) => vec![*a],
            Node::Eq(a, b) => [a.as_slice(), b.as_slice()].concat(),
            Node::Row(Row { table, total, .. }) => [self.made_of(*table), vec![total.0]].concat(),
            Node::Entry(table, _) | Node::Select(table, _) | Node::Below(table, _) => self.made_of(*table),
            Node::Curve(Curve { high, low, .. }) => {
                [*high, *low].into_iter().flat_map(|own| self.made_of(own)).collect()
            }
            Node::Constant(_) | Node::Input(_) | Node::Bit(..) => Vec::new(),
        }
    }

    /// What a table is made of.
    fn made_of(&self, table: u32) -> Vec<Symbol> {
        match self.record.tables.get(table as usize) {
            Some(Table::Eq(list) | Table::Prefix(list) | Table::List(list)) => list.clone(),
            // Each begins before the product: this ends.
            Some(Table::Product(a, b)) => [a, b].into_iter().flat_map(|own| self.made_of(*own)).collect(),
            Some(Table::Rows(table, ..)) => self.made_of(*table),
            None => Vec::new(),
        }
    }

    /// All expressions that have elements, in the order of the outputs that they are needed for first: what is needed for one alone is
    /// not kept while others are calculated. Those of one output stay in the order of the record, in which like ones are side by side.
    fn schedule(&self, outputs: &[Symbol]) -> Vec<Symbol> {
        let mut first = vec![usize::MAX; self.record.nodes.len()];
        for (i, own) in outputs.iter().enumerate().rev() {
            first.get_mut(own.0 as usize).into_iter().for_each(|own| *own = i);
        }
        let mut seen = HashMap::new();
        for index in (0..self.record.nodes.len()).rev() {
            let (Some(node), Some(&own)) = (self.record.nodes.get(index), first.get(index)) else {
                continue;
            };
            if own == usize::MAX {
                continue;
            }
            // Long tables have many entries: what they are made of is looked at where an earlier output needs it.
            if let Node::Entry(table, _) | Node::Select(table, _) | Node::Below(table, _) = node {
                let known = seen.entry(*table).or_insert(usize::MAX);
                if *known <= own {
                    continue;
                }
                *known = own;
            }
            for part in self.parts(node) {
                let part = first.get_mut(part.0 as usize);
                part.into_iter().for_each(|part| *part = own.min(*part));
            }
        }
        let mut order: Vec<(usize, u32)> = (self.own.iter().zip(&first).zip(0..))
            .filter_map(|((own, first), index)| own.then_some((*first, index)))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, index)| Symbol(index)).collect()
    }

    fn write(&mut self, step: Step, count: usize) -> Option<Element> {
        let (to, count) = (self.next, u32::try_from(count).ok()?);
        self.next = to.checked_add(count).filter(|next| *next < CONSTANT)?;
        self.instructions.push(Instruction { step, to, count });
        Some(to)
    }

    fn element(&mut self, symbol: Symbol) -> Option<Element> {
        match self.of(symbol)? {
            Node::Constant(value) => Some(CONSTANT | *value),
            Node::Input(index) => Some(*index),
            Node::Entry(table, index) => {
                let (table, index) = (*table, *index);
                // An element behind a table would be another one, or none.
                ((index as usize) < self.length(table)).then_some(self.table(table)? + index)
            }
            _ => self.elements.get(&symbol).copied(),
        }
    }

    fn listed(&mut self, list: &[Symbol]) -> Option<Vec<Element>> {
        list.iter().map(|own| self.element(*own)).collect()
    }

    /// The first element of a table, which is written where it is needed first.
    fn table(&mut self, table: u32) -> Option<Element> {
        if let Some(to) = self.tables.get(&table) {
            return Some(*to);
        }
        let length = self.length(table);
        if let Table::Product(a, b) = self.record.tables.get(table as usize)? {
            let (a, b) = (self.table(*a)?, self.table(*b)?);
            let to = self.write(Step::Multiply(a, b, u32::try_from(length).ok()?), length)?;
            self.tables.insert(table, to);
            return Some(to);
        }
        let to = match self.record.tables.get(table as usize)? {
            Table::Product(..) | Table::Rows(..) => None,
            Table::Eq(point) => {
                let point = (point.len() <= TABLE_LOG).then(|| self.listed(point))??;
                self.write(Step::Table(point), length)
            }
            Table::Prefix(list) => {
                let list = self.listed(list)?;
                self.write(Step::Prefix(list), length)
            }
            Table::List(list) => {
                let list = self.listed(list)?;
                self.write(Step::Copy(list), length)
            }
        }?;
        self.tables.insert(table, to);
        Some(to)
    }

    fn length(&self, table: u32) -> usize {
        match self.record.tables.get(table as usize) {
            Some(Table::Eq(point)) => 1 << point.len().min(TABLE_LOG + 1),
            Some(Table::Prefix(list)) => list.len() + 1,
            Some(Table::List(list)) => list.len(),
            Some(Table::Product(a, _)) => self.length(*a),
            Some(Table::Rows(..)) | None => 0,
        }
    }

    /// Writes an expression that has an element.
    fn node(&mut self, symbol: Symbol) -> Option<()> {
        let to = match self.of(symbol)?.clone() {
            Node::Constant(_) | Node::Input(_) => return Some(()),
            Node::Entry(table, _) => {
                self.table(table)?;
                return Some(());
            }
            Node::Bit(source, shift) => {
                // Of 0 and 1, which lie side by side.
                let place = Place {
                    source,
                    shift,
                    mask: 1,
                    offset: 0,
                };
                self.write(Step::Select(CONSTANT, 2, place), 1)?
            }
            Node::Select(table, place) => {
                let (base, length) = (self.table(table)?, u32::try_from(self.length(table)).ok()?);
                self.write(Step::Select(base, length, place), 1)?
            }
            Node::Row(Row {
                table,
                total: (total, factor),
                groups,
            }) => {
                let (from, total) = (self.table(table)?, self.element(total)?);
                self.write(Step::Row(from, (total, factor), groups), 1)?
            }
            Node::Curve(own) => self.curve(&own)?,
            Node::Below(table, _) => {
                if !self.elements.contains_key(&symbol) {
                    self.below(table)?;
                }
                return Some(());
            }
            Node::Eq(a, b) => {
                let pairs: Vec<Symbol> = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]).collect();
                let pairs = self.listed(&pairs)?;
                self.write(Step::Eq(pairs), 1)?
            }
            Node::Add(..) | Node::Scale(..) | Node::Mul(..) => {
                let mut terms = Terms::default();
                self.terms(symbol, 1, true, &mut terms)?;
                self.sum(terms)?
            }
        };
        self.elements.insert(symbol, to);
        Some(())
    }

    /// Of all numbers that the rows of a table are asked for, what they are asked for.
    fn below(&mut self, table: u32) -> Option<()> {
        let asked = self
            .record
            .nodes
            .iter()
            .zip(0..)
            .filter_map(|(node, index)| match node {
                Node::Below(own, source) if *own == table => Some((Symbol(index), *source)),
                _ => None,
            });
        let (symbols, sources): (Vec<Symbol>, Vec<Source>) = asked.unzip();
        let Table::Rows(low, log, factors) = self.record.tables.get(table as usize)?.clone() else {
            return None;
        };
        let (from, length) = (self.table(low)?, 1usize << log);
        let most = (ROWS / (1 + length / 2)).max(1);
        let mut parts = Vec::new();
        for (i, own) in factors.chunks(most * length).enumerate() {
            let rows = Rows {
                from,
                log,
                first: (i * most) as u32,
                factors: own.to_vec(),
            };
            parts.push(self.write(Step::Below(rows, sources.clone()), sources.len())?);
        }
        for (symbol, i) in symbols.into_iter().zip(0..) {
            // A number has a row in one of them: the others leave 0.
            let own = self.added(parts.iter().map(|part| part + i).collect())?;
            self.elements.insert(symbol, own);
        }
        Some(())
    }

    /// The sum of some elements.
    fn added(&mut self, parts: Vec<Element>) -> Option<Element> {
        match parts.as_slice() {
            [one] => Some(*one),
            _ => self.write(
                Step::Sum(Terms {
                    multiples: parts.into_iter().map(|part| (part, 1)).collect(),
                    ..Terms::default()
                }),
                1,
            ),
        }
    }

    /// The extension of a function, by instructions that fit pages.
    fn curve(&mut self, own: &Curve) -> Option<Element> {
        let (high, low) = (self.table(own.high)?, self.table(own.low)?);
        let (mut parts, mut rest, mut before) = (Vec::new(), own.rows.as_slice(), 0);
        while !rest.is_empty() {
            let lengths = rest.iter().scan(0, |length, row| {
                *length += row_bytes(row);
                Some(*length)
            });
            let (rows, others) = rest.split_at(lengths.take_while(|length| *length <= ROWS).count().max(1));
            parts.push(self.write(Step::Curve(high + before, low, rows.to_vec()), 1)?);
            (rest, before) = (others, before + rows.len() as u32);
        }
        self.added(parts)
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
                terms.multiples.push((self.element(symbol)?, factor));
                continue;
            }
            match node {
                Node::Add(a, b) => pending.extend([(b, factor, false), (a, factor, false)]),
                Node::Scale(a, own) => pending.push((a, scaled(own), false)),
                Node::Mul(a, b) if factor == 1 => terms.products.push((self.element(a)?, self.element(b)?)),
                _ => return None,
            }
        }
        Some(())
    }

    fn sum(&mut self, mut terms: Terms) -> Option<Element> {
        if terms.constant != 0 {
            terms.multiples.push((CONSTANT | 1, terms.constant as u32));
            terms.constant = 0;
        }
        if terms.multiples.len() + terms.products.len() <= TERMS {
            return self.write(Step::Sum(terms), 1);
        }
        let mut parts = Terms::default();
        let multiples = terms.multiples.chunks(TERMS).map(|own| Terms {
            multiples: own.to_vec(),
            ..Terms::default()
        });
        let products = terms.products.chunks(TERMS).map(|own| Terms {
            products: own.to_vec(),
            ..Terms::default()
        });
        for part in multiples.chain(products) {
            parts.multiples.push((self.sum(part)?, 1));
        }
        self.sum(parts)
    }
}
