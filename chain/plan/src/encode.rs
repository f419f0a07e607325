//! From instructions to bytes, and what they cost a contract.

use tessera_circuits::scalar::Source;

use crate::compile::{Element, Instruction, Rows, Step, Terms};
use crate::program::{op, word_of};
use crate::symbol::CurveRow;

/// Gas of what a machine does. Measured with `chain/test/run.mjs`, rounded up.
mod gas {
    pub const INSTRUCTION: u64 = 320;
    pub const PRODUCT: u64 = 480;
    pub const SUMMED_PRODUCT: u64 = 350;
    pub const MULTIPLE: u64 = 500;
    pub const SUMMED_MULTIPLE: u64 = 175;
    pub const RUN: u64 = 240;
    pub const COPY: u64 = 170;
    pub const SUM: u64 = 500;
    pub const TABLE_ENTRY: u64 = 600;
    pub const EQ: u64 = 1220;
    pub const ROW: u64 = 500;
    pub const GROUP: u64 = 220;
    pub const ROW_ENTRY: u64 = 35;
    pub const EXPONENT: u64 = 46;
    pub const CURVE: u64 = 425_000;
    pub const CURVE_ROW: u64 = 500;
    pub const WITH_PLANES: u64 = 800;
    pub const PLANE: u64 = 1_900;
}

/// An instruction that the next one may be a part of.
#[derive(Clone, Copy)]
struct Last {
    start: usize,
    count: u8,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scale { from: u32, factors: u8 },
    Multiply { a: u32, b: u32, step: Option<u8> },
}

/// Writes instructions.
#[derive(Default)]
pub struct Encoder {
    /// The bytes.
    pub code: Vec<u8>,
    /// Where instructions begin.
    pub starts: Vec<usize>,
    /// What following them takes.
    pub gas: u64,
    last: Option<Last>,
}

/// Which kind of factors one belongs to, and its byte there.
fn kind_of(factor: u32) -> (u8, u8) {
    let negative = stwo::core::fields::m31::P - factor;
    match (factor, factor.is_power_of_two(), negative.is_power_of_two()) {
        (1, ..) => (op::PLAIN, 0),
        (_, true, _) => (op::SHIFTS, factor.trailing_zeros() as u8),
        (_, _, true) => (op::NEGATIVE, negative.trailing_zeros() as u8),
        _ => (op::CONSTANTS_OF_RUN, 0),
    }
}

/// Runs of multiples whose registers are side by side and whose factors are of one kind. A factor of 1 is a shift among shifts.
fn runs_of(multiples: &[(u32, u32)]) -> Vec<(u8, &[(u32, u32)])> {
    let mut runs = Vec::new();
    let mut rest = multiples;
    while let Some((&(first, factor), _)) = rest.split_first() {
        let beside = |(own, i): (&(u32, u32), u32)| own.0.checked_sub(i) == Some(first);
        let length = rest
            .iter()
            .zip(0..op::RUN as u32)
            .take_while(|own| beside(*own))
            .count();
        let kinds = rest.iter().take(length).map(|(_, factor)| kind_of(*factor).0);
        let of = |wanted: &[u8]| kinds.clone().take_while(|kind| wanted.contains(kind)).count();
        let own = kind_of(factor).0;
        let (plain, shifts) = (of(&[op::PLAIN]), of(&[op::PLAIN, op::SHIFTS]));
        let (kind, length) = match own {
            op::PLAIN if plain == shifts || plain >= 8 => (own, plain),
            op::PLAIN | op::SHIFTS => (op::SHIFTS, shifts),
            _ => (own, of(&[own])),
        };
        let (run, others) = rest.split_at(length.clamp(1, rest.len()));
        runs.push((kind, run));
        rest = others;
    }
    runs
}

impl Encoder {
    fn number(&mut self, value: u32) {
        self.code.extend((value as u16).to_be_bytes());
    }

    fn begin(&mut self, op: u8) {
        self.last = None;
        self.gas += gas::INSTRUCTION;
        self.starts.push(self.code.len());
        self.code.push(op);
    }

    /// What is left at the end: runs of registers.
    pub fn leave(&mut self, registers: &[u32]) -> Option<()> {
        let runs: Vec<&[u32]> = registers.chunk_by(|a, b| b.checked_sub(*a) == Some(1)).collect();
        self.begin(op::LEAVE);
        self.number(u16::try_from(runs.len()).ok()?.into());
        for run in runs {
            self.number(*run.first()?);
            self.number(u16::try_from(run.len()).ok()?.into());
        }
        Some(())
    }

    /// The bytes, cut at instructions into pages of at most so many. `None` if an instruction is longer.
    pub fn pages(&self, most: usize) -> Option<Vec<Vec<u8>>> {
        let (mut pages, mut from) = (Vec::new(), 0);
        let ends = self.starts.iter().skip(1).copied().chain([self.code.len()]);
        for (start, end) in self.starts.iter().zip(ends) {
            if end - from > most {
                pages.push(self.code.get(from..*start)?.to_vec());
                from = *start;
            }
            if end - from > most {
                return None;
            }
        }
        pages.push(self.code.get(from..)?.to_vec());
        Some(pages)
    }

    /// Constants, which are the first registers after those that are carried.
    pub fn constants(&mut self, values: &[u32]) {
        if !values.is_empty() {
            self.begin(op::CONSTANTS);
            self.number(values.len() as u32);
            self.code.extend(values.iter().flat_map(|own| own.to_be_bytes()));
            self.gas += gas::COPY * values.len() as u64;
        }
    }

    fn listed(&mut self, list: &[Element], place: &dyn Fn(Element) -> Option<u32>) -> Option<()> {
        for own in list {
            self.number(place(*own)?);
        }
        Some(())
    }

    /// Writes an instruction, with these places of elements. `None` if one has none.
    pub fn instruction(&mut self, own: &Instruction, place: &dyn Fn(Element) -> Option<u32>) -> Option<()> {
        match &own.step {
            Step::Table(point) => {
                self.begin(op::TABLE);
                self.code.push(u8::try_from(point.len()).ok()?);
                self.listed(point, place)?;
                self.gas += gas::TABLE_ENTRY * u64::from(own.count);
            }
            Step::Prefix(list) => {
                self.begin(op::PREFIX);
                self.number(list.len() as u32);
                self.listed(list, place)?;
                self.gas += gas::COPY * u64::from(own.count);
            }
            Step::Copy(list) => {
                self.begin(op::COPY);
                self.number(list.len() as u32);
                self.listed(list, place)?;
                self.gas += gas::COPY * u64::from(own.count);
            }
            Step::Select(base, length, at) => {
                self.begin(op::SELECT);
                self.number(place(*base)?);
                self.number(*length);
                let (kind, index) = word_of(at.source);
                self.code.push(kind);
                self.number(index.into());
                self.code.push(at.shift);
                self.number(at.mask.into());
                self.number(u32::from(u16::try_from(at.offset).ok()?));
                self.gas += 2 * gas::INSTRUCTION;
            }
            Step::Eq(pairs) => {
                self.begin(op::EQ);
                self.code.push(u8::try_from(pairs.len() / 2).ok()?);
                self.listed(pairs, place)?;
                self.gas += gas::EQ * pairs.len() as u64 / 2;
            }
            Step::Sum(terms) => self.sum(terms, place)?,
            Step::Row(from, (total, factor), groups) => self.row(place(*from)?, (place(*total)?, *factor), groups)?,
            Step::Below(rows, sources) => self.below(place(rows.from)?, rows, sources)?,
            Step::Curve(high, low, rows) => self.curve([place(*high)?, place(*low)?], rows)?,
            Step::Multiply(a, b, count) => {
                let (a, b) = (place(*a)?, place(*b)?);
                (0..*count).for_each(|i| self.multiply(a + i, b + i));
                self.last = None;
            }
        }
        Some(())
    }

    fn sum(&mut self, terms: &Terms, place: &dyn Fn(Element) -> Option<u32>) -> Option<()> {
        let multiples = terms
            .multiples
            .iter()
            .map(|(own, factor)| Some((place(*own)?, *factor)));
        let mut multiples: Vec<(u32, u32)> = multiples.collect::<Option<_>>()?;
        let products = terms.products.iter().map(|(a, b)| Some((place(*a)?, place(*b)?)));
        let mut products: Vec<(u32, u32)> = products.collect::<Option<_>>()?;
        match (multiples.as_slice(), products.as_slice()) {
            ([(from, factor)], []) => {
                self.scale(*from, *factor);
                return Some(());
            }
            ([], [(a, b)]) => {
                self.multiply(*a, *b);
                return Some(());
            }
            _ => {}
        }
        products.iter_mut().for_each(|(a, b)| (*a, *b) = (*a.min(b), *a.max(b)));
        products.sort_unstable();
        let (mut single, mut runs) = (Vec::new(), Vec::new());
        let beside = |(a, b): &(u32, u32), (c, d): &(u32, u32)| {
            [(c, a), (d, b)].iter().all(|(c, a)| c.checked_sub(**a) == Some(1))
        };
        for run in products.chunk_by(beside) {
            for run in run.chunks(255) {
                match run {
                    [] => {}
                    [one] => single.push(*one),
                    [(a, b), ..] => runs.push((*a, *b, run.len() as u8)),
                }
            }
        }
        multiples.sort_unstable();
        let multiples = runs_of(&multiples);
        let counts = [multiples.len(), single.len(), runs.len()];
        let long = counts.iter().any(|count| *count > 255);
        self.begin(if long { op::LONG_SUM } else { op::SUM });
        for count in counts {
            match long {
                true => self.number(u32::from(u16::try_from(count).ok()?)),
                false => self.code.push(count as u8),
            }
        }
        self.gas += gas::SUM + gas::RUN * counts.iter().sum::<usize>() as u64;
        for (kind, run) in multiples {
            self.number(run.first()?.0);
            self.code.push(kind | (run.len() - 1) as u8);
            run.iter().for_each(|(_, factor)| self.factor(kind, *factor));
            self.gas += gas::SUMMED_MULTIPLE * run.len() as u64;
        }
        for (a, b) in &single {
            self.number(*a);
            self.number(*b);
        }
        for (a, b, count) in runs {
            self.number(a);
            self.number(b);
            self.code.push(count);
        }
        self.gas += gas::SUMMED_PRODUCT * terms.products.len() as u64;
        Some(())
    }

    fn factor(&mut self, kind: u8, factor: u32) {
        match kind {
            op::PLAIN => {}
            op::CONSTANTS_OF_RUN => self.code.extend(factor.to_be_bytes()),
            _ => self.code.push(kind_of(factor).1),
        }
    }

    fn count(&mut self, mut last: Last, at: usize, count: u8) {
        last.count += 1;
        if let Some(own) = self.code.get_mut(last.start + at) {
            *own = count;
        }
        self.last = Some(last);
    }

    fn scale(&mut self, from: u32, factor: u32) {
        self.gas += gas::MULTIPLE;
        let factors = match kind_of(factor).0 {
            op::PLAIN => op::SHIFTS,
            kind => kind,
        };
        let follows = |last: &Last| match last.kind {
            Kind::Scale {
                from: own,
                factors: kind,
            } => {
                kind == factors
                    && own.checked_add(last.count.into()) == Some(from)
                    && u32::from(last.count) < u32::from(op::RUN)
            }
            Kind::Multiply { .. } => false,
        };
        let last = self.last.filter(follows).unwrap_or_else(|| {
            let start = self.code.len();
            self.begin(op::SCALE);
            self.number(from);
            self.code.push(0);
            let kind = Kind::Scale { from, factors };
            Last { start, count: 0, kind }
        });
        self.factor(factors, factor);
        self.count(last, 3, factors | last.count);
    }

    fn row(&mut self, from: u32, (total, factor): (u32, u32), groups: &[(u32, Vec<u8>)]) -> Option<()> {
        self.begin(op::ROW);
        self.number(from);
        self.number(total);
        self.code.extend(factor.to_be_bytes());
        self.code.push(u8::try_from(groups.len()).ok()?);
        self.gas += gas::ROW + gas::GROUP * groups.len() as u64;
        for (factor, places) in groups {
            self.code.extend(factor.to_be_bytes());
            self.code.push(u8::try_from(places.len()).ok()?);
            let mut before = 0;
            for place in places {
                self.code.push(place.checked_sub(before)?);
                before = *place;
            }
            self.gas += gas::ROW_ENTRY * places.len() as u64;
        }
        Some(())
    }

    fn below(&mut self, from: u32, rows: &Rows, sources: &[Source]) -> Option<()> {
        let length = 1usize << rows.log;
        self.begin(op::BELOW);
        self.number(from);
        self.code.push(rows.log);
        self.number(u16::try_from(rows.first).ok()?.into());
        self.number(u16::try_from(rows.factors.len().div_ceil(length)).ok()?.into());
        self.code.push(u8::try_from(sources.len()).ok()?);
        for source in sources {
            let (kind, index) = word_of(*source);
            self.code.push(kind);
            self.number(index.into());
            self.gas += gas::ROW + gas::EXPONENT * length as u64 / 2;
        }
        for own in rows.factors.chunks(length) {
            let least = own.iter().map(|factor| factor.trailing_zeros()).min()?;
            let mut exponents: Vec<u8> = own
                .iter()
                .map(|factor| (factor.trailing_zeros() - least) as u8)
                .collect();
            exponents.resize(length, 0);
            self.code.push(least as u8);
            self.code
                .extend(exponents.as_chunks().0.iter().map(|[high, low]| high << 4 | low));
        }
        Some(())
    }

    fn curve(&mut self, lists: [u32; 2], rows: &[CurveRow]) -> Option<()> {
        self.begin(op::CURVE);
        lists.into_iter().for_each(|first| self.number(first));
        self.number(u16::try_from(rows.len()).ok()?.into());
        self.gas += gas::CURVE;
        for row in rows {
            self.code
                .extend([row.last, row.slope].map(u32::to_be_bytes).as_flattened());
            self.code.push(u8::try_from(row.planes.len()).ok()?);
            self.code.extend(row.planes.as_flattened());
            let product = if row.planes.is_empty() { 0 } else { gas::WITH_PLANES };
            self.gas += gas::CURVE_ROW + product + gas::PLANE * row.planes.len() as u64;
        }
        Some(())
    }

    fn multiply(&mut self, a: u32, b: u32) {
        self.gas += gas::PRODUCT;
        let follows = |last: &Last, a: u32, b: u32| match last.kind {
            Kind::Multiply { a: c, b: d, step } if last.count < 255 && c.checked_add(last.count.into()) == Some(a) => {
                [0, 1].into_iter().find(|own| {
                    let further = u32::from(last.count) * u32::from(*own);
                    step.is_none_or(|step| step == *own) && d.checked_add(further) == Some(b)
                })
            }
            _ => None,
        };
        let before = self.last;
        let either = [(a, b), (b, a)]
            .into_iter()
            .find_map(|(a, b)| before.and_then(|last| Some((last, follows(&last, a, b)?, (a, b)))));
        if let Some((mut last, step, _)) = either {
            if let Kind::Multiply { step: own, .. } = &mut last.kind {
                *own = Some(step);
            }
            if let Some(own) = self.code.get_mut(last.start) {
                *own = if step == 0 { op::MULTIPLY_BY } else { op::MULTIPLY };
            }
            self.count(last, 5, last.count + 1);
            return;
        }
        let start = self.code.len();
        self.begin(op::MULTIPLY);
        self.number(a);
        self.number(b);
        self.code.push(0);
        let kind = Kind::Multiply { a, b, step: None };
        self.count(Last { start, count: 0, kind }, 5, 1);
    }
}
