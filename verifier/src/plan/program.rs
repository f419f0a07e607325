//! The machine that follows a plan. Its memory is registers of elements; nothing jumps, so what it does is as long as the program.

use num_traits::{One, Zero};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::eq_table;
use tessera_circuits::scalar::Source;

/// Registers are numbered by 16 bits; a table may reach beyond the last number.
const REGISTERS: usize = 1 << 17;
/// log2 of the longest table of `eq`.
pub(super) const TABLE_LOG: usize = 16;

/// The first byte of an instruction. Numbers after it have two bytes, big-endian, unless it is said otherwise.
pub(super) mod op {
    /// A register, a number n, n constants of four bytes.
    pub const CONSTANTS: u8 = 1;
    /// A register, a number n of one byte, n registers: a point. Writes `eq` of it, `2^n` entries.
    pub const TABLE: u8 = 2;
    /// A register, a number n, n registers. Writes the sums of those before each, and of all.
    pub const PREFIX: u8 = 3;
    /// A register, a number n, n registers. Writes them.
    pub const COPY: u8 = 4;
    /// A register, the first of a table, its length, a kind (a byte) and number of a word, what it is shifted by (a byte), a mask, what
    /// is added. Writes the entry.
    pub const SELECT: u8 = 5;
    /// A register, a kind (a byte) and number of a word, which has a sign.
    pub const WORD: u8 = 6;
    /// A register, a number n of one byte, n pairs of registers. Writes `eq` of both points.
    pub const EQ: u8 = 7;
    /// A register, numbers of runs of multiples, of products and of runs of products. A run of multiples is the first of its registers
    /// and [factors](SHIFTS), a product two registers, a run of products the first ones of two lists and a number. Writes the sum.
    pub const SUM: u8 = 8;
    /// A register, the first of others and [factors](SHIFTS). Writes multiples.
    pub const SCALE: u8 = 9;
    /// A register, the first ones of two lists, how far the second one goes on (a byte: 0 or 1), a number. Writes products.
    pub const MULTIPLY: u8 = 10;
    /// Factors are a number n, then n constants of four bytes; or, if n has this bit, n exponents of two, a byte each.
    pub const SHIFTS: u16 = 1 << 15;
}

/// Kinds of words, and their number.
pub(super) const fn word_of(source: Source) -> (u8, u16) {
    match source {
        Source::RowId(i) => (0, i as u16),
        Source::OutputId(i) => (1, i as u16),
        Source::FirstRow => (2, 0),
        Source::Top(i) => (3, i as u16),
        Source::Leading => (4, 0),
    }
}

/// The numbers of a statement, by kind: tokens of padded rows, generated tokens, the row of the first one of them, their logits in two's
/// complement, the number of leading rows.
#[derive(Clone, Debug, Default)]
pub struct Words(pub [Vec<u32>; 5]);

impl Words {
    fn get(&self, kind: usize, index: usize) -> Option<u32> {
        self.0.get(kind)?.get(index).copied()
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
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

    fn constant(&mut self) -> Option<BaseField> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        let value = u32::from_be_bytes(*first);
        (value < P).then(|| BaseField::from_u32_unchecked(value))
    }

    fn factors(&mut self) -> Option<Vec<BaseField>> {
        let count = self.number()?;
        let shifts = usize::from(op::SHIFTS);
        let mut factor = || match count & shifts {
            0 => self.constant(),
            _ => (self.byte()?)
                .try_into()
                .ok()
                .filter(|bits| *bits < 31)
                .map(|bits: u32| BaseField::from_u32_unchecked(1 << bits)),
        };
        (0..count % shifts).map(|_| factor()).collect()
    }
}

struct Machine(Vec<SecureField>);

impl Machine {
    fn get(&self, register: usize) -> SecureField {
        self.0.get(register).copied().unwrap_or_default()
    }

    fn set(&mut self, register: usize, value: SecureField) {
        if self.0.len() <= register {
            self.0.resize((register + 1).min(REGISTERS), SecureField::zero());
        }
        if let Some(own) = self.0.get_mut(register) {
            *own = value;
        }
    }

    fn step(&mut self, code: &mut Reader<'_>, words: &Words) -> Option<()> {
        let (op, to) = (code.byte()? as u8, code.number()?);
        match op {
            op::CONSTANTS => {
                for i in 0..code.number()? {
                    let value = code.constant()?;
                    self.set(to + i, value.into());
                }
            }
            op::TABLE => {
                let length = code.byte()?;
                let point = (0..length).map(|_| Some(self.get(code.number()?)));
                let point: Vec<SecureField> = point.collect::<Option<_>>()?;
                let table = (length <= TABLE_LOG).then(|| eq_table(&point))?;
                table.into_iter().enumerate().for_each(|(i, v)| self.set(to + i, v));
            }
            op::PREFIX => {
                let mut sum = SecureField::zero();
                let length = code.number()?;
                for i in 0..length {
                    self.set(to + i, sum);
                    sum += self.get(code.number()?);
                }
                self.set(to + length, sum);
            }
            op::COPY => {
                for i in 0..code.number()? {
                    let value = self.get(code.number()?);
                    self.set(to + i, value);
                }
            }
            op::SELECT => {
                let (base, length) = (code.number()?, code.number()?);
                let word = words.get(code.byte()?, code.number()?)?;
                let (shift, mask, offset) = (code.byte()?, code.number()?, code.number()?);
                let index = (word.checked_shr(shift as u32)? as usize & mask) + offset;
                let value = (index < length).then(|| self.get(base + index))?;
                self.set(to, value);
            }
            op::WORD => {
                let word = words.get(code.byte()?, code.number()?)? as i32;
                let value = i64::from(word).rem_euclid(i64::from(P));
                self.set(to, BaseField::from_u32_unchecked(value as u32).into());
            }
            op::EQ => {
                let mut product = SecureField::one();
                for _ in 0..code.byte()? {
                    let (a, b) = (self.get(code.number()?), self.get(code.number()?));
                    let both = a * b;
                    product *= both + both + SecureField::one() - a - b;
                }
                self.set(to, product);
            }
            op::SUM => self.sum(to, code)?,
            op::SCALE => {
                let from = code.number()?;
                for (i, factor) in code.factors()?.into_iter().enumerate() {
                    let value = self.get(from + i) * factor;
                    self.set(to + i, value);
                }
            }
            op::MULTIPLY => {
                let (a, b, step) = (code.number()?, code.number()?, code.byte()?);
                for i in 0..code.number()? {
                    let value = self.get(a + i) * self.get(b + i * step);
                    self.set(to + i, value);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn sum(&mut self, to: usize, code: &mut Reader<'_>) -> Option<()> {
        let (multiples, products, runs) = (code.number()?, code.number()?, code.number()?);
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
            for i in 0..code.number()? {
                sum += self.get(a + i) * self.get(b + i);
            }
        }
        self.set(to, sum);
        Some(())
    }
}

/// Follows a program: registers from 0 on have the inputs before it, and those of its outputs are returned after it. `None` if it is no
/// program, or reads beyond a table or the statement.
pub fn run(program: &[u8], inputs: &[SecureField], words: &Words, outputs: usize) -> Option<Vec<SecureField>> {
    let (mut machine, mut code) = (Machine(inputs.to_vec()), Reader(program));
    while !code.0.is_empty() {
        machine.step(&mut code, words)?;
    }
    Some((0..outputs).map(|i| machine.get(i)).collect())
}
