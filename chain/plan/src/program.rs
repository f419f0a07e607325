//! The machine that follows a plan. Its memory is registers of elements; nothing jumps, so what it does is as long as the program.

use num_traits::{One, Zero};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::eq_table;
use tessera_circuits::scalar::Source;

use crate::symbol::{CURVE, PLANES};

/// Registers are numbered by 16 bits; a table may reach beyond the last number.
const REGISTERS: usize = 1 << 17;
/// log2 of the longest table of `eq`.
pub(super) const TABLE_LOG: usize = 16;

/// The first byte of an instruction. Numbers after it have two bytes, big-endian, unless it is said otherwise. What is written goes to the
/// registers after all that are written already.
pub(super) mod op {
    /// A number n, n constants of four bytes.
    pub const CONSTANTS: u8 = 1;
    /// A number n of one byte, n registers: a point. Writes `eq` of it, `2^n` entries.
    pub const TABLE: u8 = 2;
    /// A number n, n registers. Writes the sums of those before each, and of all.
    pub const PREFIX: u8 = 3;
    /// A number n, n registers. Writes them.
    pub const COPY: u8 = 4;
    /// The first register of a table, its length, a kind (a byte) and number of a word, what it is shifted by (a byte), a mask, what
    /// is added. Writes the entry.
    pub const SELECT: u8 = 5;
    /// The first ones of two lists of registers, a number of rows. A row is two constants of four bytes, a number of planes (a byte) of at
    /// most 20, and as many planes of 32 bytes, which are bits of 256 places. The second list has 256 registers, and both are written. The value of a row is its
    /// first constant, and its second one times the sum of all of these; and of each plane the sum of those whose bit is set, twice what
    /// the planes before it come to added. Writes the sum of all values, each times the register of its row in the first list.
    pub const CURVE: u8 = 6;
    /// A number n of one byte, n pairs of registers. Writes `eq` of both points.
    pub const EQ: u8 = 7;
    /// Numbers of runs of multiples, of products and of runs of products, a byte each. A run of multiples is the first of its registers
    /// and [factors](RUN), a product two registers, a run of products the first ones of two lists and a number of one byte. Writes the
    /// sum.
    pub const SUM: u8 = 8;
    /// The first one of registers and [factors](RUN). Writes multiples.
    pub const SCALE: u8 = 9;
    /// The first ones of two lists, a number of one byte. Writes products.
    pub const MULTIPLY: u8 = 10;
    /// The same of a list and one register.
    pub const MULTIPLY_BY: u8 = 11;
    /// A sum whose numbers have two bytes.
    pub const LONG_SUM: u8 = 12;
    /// The first one of registers, one register and a constant of four bytes, a number of groups of one byte. A group is a constant of
    /// four bytes, a number of one byte, and as many places, each of one byte: of the first one from the first register on, of the others
    /// from the one before. Writes the constant times the one register, and the constants of the groups times the sums of the registers
    /// at their places.
    pub const ROW: u8 = 13;
    /// The end of a segment: a number of runs, and of each the first one of its registers and their number. They are what it leaves.
    pub const LEAVE: u8 = 14;
    /// The first one of registers and log2 of their number (a byte), of 1 to 11; the number of the first row, that of rows; a number n of
    /// one byte, n kinds (a byte) and numbers of words. A row is a byte, below 32, and a number below 16 for each register, two in a byte,
    /// the first one in its high half. Low bits of a word say of how many registers, high ones of which row. Writes of every word the sum
    /// of so many registers times two to the number and the byte of its row, or 0 where the row is not here.
    pub const BELOW: u8 = 15;
    /// How many factors there are at most. Their first byte is their number less one, and one of the kinds below in its highest bits.
    pub const RUN: u8 = 64;
    /// Factors of 1, without bytes.
    pub const PLAIN: u8 = 0;
    /// Exponents of two below 32, a byte each.
    pub const SHIFTS: u8 = 0x40;
    /// The same of factors below 0.
    pub const NEGATIVE: u8 = 0x80;
    /// Constants of four bytes.
    pub const CONSTANTS_OF_RUN: u8 = 0xc0;
}

/// Kinds of words, and their number.
pub(super) const fn word_of(source: Source) -> (u8, u16) {
    match source {
        Source::RowId(i) => (0, i as u16),
        Source::OutputId(i) => (1, i as u16),
        Source::FirstRow => (2, 0),
        Source::Leading => (3, 0),
        Source::LastRow => (4, 0),
    }
}

/// The numbers of a statement, by kind: the tokens of its rows and 0 for those behind it, the generated tokens, the row of the first one of
/// them, the number of leading rows, the last row.
#[derive(Clone, Debug, Default)]
pub struct Words(pub [Vec<u32>; 5]);

impl Words {
    fn get(&self, kind: usize, index: usize) -> Option<u32> {
        self.0.get(kind)?.get(index).copied()
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((*first).into())
    }

    fn number(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*first).into())
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(own)
    }

    fn constant(&mut self) -> Option<BaseField> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        let value = u32::from_be_bytes(*first);
        (value < P).then(|| BaseField::from_u32_unchecked(value))
    }

    fn factors(&mut self) -> Option<Vec<BaseField>> {
        let first = self.byte()? as u8;
        let mut shift = || {
            let bits = self.byte().filter(|bits| *bits < 32)?;
            Some(power(bits as u32))
        };
        let count = 0..first % op::RUN + 1;
        match first & !(op::RUN - 1) {
            op::PLAIN => Some(count.map(|_| BaseField::one()).collect()),
            op::SHIFTS => count.map(|_| shift()).collect(),
            op::NEGATIVE => count.map(|_| shift().map(|own| -own)).collect(),
            _ => count.map(|_| self.constant()).collect(),
        }
    }
}

/// Two to a number.
fn power(bits: u32) -> BaseField {
    BaseField::from_u32_unchecked(((1u64 << bits) % u64::from(P)) as u32)
}

struct Machine(Vec<SecureField>);

impl Machine {
    fn get(&self, register: usize) -> SecureField {
        self.0.get(register).copied().unwrap_or_default()
    }

    fn push(&mut self, value: SecureField) -> Option<()> {
        let fits = self.0.len() < REGISTERS;
        fits.then(|| self.0.push(value))
    }

    fn step(&mut self, code: &mut Reader<'_>, words: &Words) -> Option<()> {
        let op = code.byte()? as u8;
        match op {
            op::CONSTANTS => {
                for _ in 0..code.number()? {
                    self.push(code.constant()?.into())?;
                }
            }
            op::TABLE => {
                let length = code.byte()?;
                let point = (0..length).map(|_| Some(self.get(code.number()?)));
                let point: Vec<SecureField> = point.collect::<Option<_>>()?;
                let table = (length <= TABLE_LOG).then(|| eq_table(&point))?;
                table.into_iter().try_for_each(|own| self.push(own))?;
            }
            op::PREFIX => {
                let mut sum = SecureField::zero();
                for _ in 0..code.number()? {
                    let next = sum + self.get(code.number()?);
                    self.push(sum)?;
                    sum = next;
                }
                self.push(sum)?;
            }
            op::COPY => {
                for _ in 0..code.number()? {
                    self.push(self.get(code.number()?))?;
                }
            }
            op::SELECT => {
                let (base, length) = (code.number()?, code.number()?);
                let word = words.get(code.byte()?, code.number()?)?;
                let (shift, mask, offset) = (code.byte()?, code.number()?, code.number()?);
                let index = (word.checked_shr(shift as u32)? as usize & mask) + offset;
                self.push((index < length).then(|| self.get(base + index))?)?;
            }
            op::EQ => {
                let mut product = SecureField::one();
                for _ in 0..code.byte()? {
                    let (a, b) = (self.get(code.number()?), self.get(code.number()?));
                    let both = a * b;
                    product *= both + both + SecureField::one() - a - b;
                }
                self.push(product)?;
            }
            op::SUM => {
                let counts = [code.byte()?, code.byte()?, code.byte()?];
                self.sum(counts, code)?;
            }
            op::LONG_SUM => {
                let counts = [code.number()?, code.number()?, code.number()?];
                self.sum(counts, code)?;
            }
            op::SCALE => {
                let from = code.number()?;
                for (i, factor) in code.factors()?.into_iter().enumerate() {
                    self.push(self.get(from + i) * factor)?;
                }
            }
            op::MULTIPLY | op::MULTIPLY_BY => {
                let (a, b) = (code.number()?, code.number()?);
                let step = usize::from(op == op::MULTIPLY);
                for i in 0..code.byte()? {
                    self.push(self.get(a + i) * self.get(b + i * step))?;
                }
            }
            op::ROW => self.row(code)?,
            op::BELOW => self.below(code, words)?,
            op::CURVE => self.curve(code)?,
            _ => return None,
        }
        Some(())
    }

    fn row(&mut self, code: &mut Reader<'_>) -> Option<()> {
        let (from, total) = (code.number()?, code.number()?);
        let mut sum = self.get(total) * code.constant()?;
        for _ in 0..code.byte()? {
            let (factor, mut place) = (code.constant()?, from);
            let mut group = SecureField::zero();
            for _ in 0..code.byte()? {
                place += code.byte()?;
                group += self.get(place);
            }
            sum += group * factor;
        }
        self.push(sum)
    }

    fn below(&mut self, code: &mut Reader<'_>, words: &Words) -> Option<()> {
        let (from, log) = (code.number()?, code.byte()?);
        let (first, count) = (code.number()?, code.number()?);
        let asked = (0..code.byte()?).map(|_| words.get(code.byte()?, code.number()?));
        let asked: Vec<u32> = asked.collect::<Option<_>>()?;
        let length = (1..=11).contains(&log).then(|| 1usize << log)?;
        let rows: Vec<&[u8]> = (0..count).map(|_| code.take(1 + length / 2)).collect::<Option<_>>()?;
        for word in asked {
            let row = (word as usize >> log).checked_sub(first).and_then(|row| rows.get(row));
            let sum = match row.and_then(|row| row.split_first()) {
                None => SecureField::zero(),
                Some((base, both)) => {
                    let base = Some(*base).filter(|bits| *bits < 32)?;
                    let exponents = both.iter().flat_map(|both| [both >> 4, both & 15]);
                    let own = exponents.take(word as usize & (length - 1)).enumerate();
                    own.map(|(i, bits)| self.get(from + i) * power(bits.into()))
                        .sum::<SecureField>()
                        * power(base.into())
                }
            };
            self.push(sum)?;
        }
        Some(())
    }

    fn curve(&mut self, code: &mut Reader<'_>) -> Option<()> {
        let (high, low, rows) = (code.number()?, code.number()?, code.number()?);
        // A contract has sums of subsets behind the last register.
        let written = self.0.len();
        (low + CURVE <= written && high + rows <= written).then_some(())?;
        let sums: Vec<SecureField> = (0..CURVE).map(|i| self.get(low + i)).collect();
        let all: SecureField = sums.iter().copied().sum();
        let mut sum = SecureField::zero();
        for row in 0..rows {
            let (last, slope) = (code.constant()?, code.constant()?);
            let planes = code.byte().filter(|count| *count <= PLANES)?;
            let mut more = SecureField::zero();
            for _ in 0..planes {
                let plane = code.take(CURVE / 8)?;
                let places = plane
                    .iter()
                    .flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1 == 1));
                let own = places.zip(&sums).filter_map(|(set, own)| set.then_some(*own));
                more = more + more + own.sum::<SecureField>();
            }
            sum += self.get(high + row) * (all * slope + last + more);
        }
        self.push(sum)
    }

    fn sum(&mut self, [multiples, products, runs]: [usize; 3], code: &mut Reader<'_>) -> Option<()> {
        let mut sum = SecureField::zero();
        for _ in 0..multiples {
            let from = code.number()?;
            for (i, factor) in code.factors()?.into_iter().enumerate() {
                sum += self.get(from + i) * factor;
            }
        }
        for _ in 0..products {
            sum += self.get(code.number()?) * self.get(code.number()?);
        }
        for _ in 0..runs {
            let (a, b) = (code.number()?, code.number()?);
            for i in 0..code.byte()? {
                sum += self.get(a + i) * self.get(b + i);
            }
        }
        self.push(sum)
    }
}

/// Follows a segment of a program, page by page: its first registers have what it is given. Returns what it leaves, or `None` if it is no
/// segment, or reads beyond a table or the statement. No instruction lies in two pages, and nothing is behind the end.
pub fn run(pages: &[Vec<u8>], given: &[SecureField], words: &Words) -> Option<Vec<SecureField>> {
    let mut machine = Machine(given.to_vec());
    let (last, before) = pages.split_last()?;
    for page in before {
        let mut code = Reader(page);
        while !code.0.is_empty() {
            machine.step(&mut code, words)?;
        }
    }
    let mut code = Reader(last);
    while code.0.first() != Some(&op::LEAVE) {
        machine.step(&mut code, words)?;
    }
    code.byte()?;
    let runs = (0..code.number()?).map(|_| Some((code.number()?, code.number()?)));
    let runs: Vec<(usize, usize)> = runs.collect::<Option<_>>()?;
    let left = runs.into_iter().flat_map(|(first, count)| first..first + count);
    code.0.is_empty().then(|| left.map(|own| machine.get(own)).collect())
}
