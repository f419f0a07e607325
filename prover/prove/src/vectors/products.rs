//! Sums of products of tables, bound variable by variable. Tables are bound in place, 16 entries at a time as [`Packed`] until they
//! are shorter than that. Binding the variable of one round and summing the message of the next is one pass.

use std::ops::{Add, Mul, Sub};

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;

use crate::device::{DeviceError, Products, Rounds, Table};
use crate::field::{unpack, Packed, SIMD_LANES};

/// Largest number of (packed) entries of a quarter table that one thread takes.
const GRAIN: usize = 1 << 9;

/// The tables of a sum of products.
pub struct Pairs(Vec<Pair>);

impl Pairs {
    /// Takes pairs of tables of equal length.
    pub fn new(pairs: Vec<(Table, Table)>) -> Self {
        Self(pairs.into_par_iter().map(|(a, b)| Pair::new(a, b)).collect())
    }
}

/// Slices of tables, of which only the beginnings are held.
#[derive(Clone, Copy)]
struct Slices {
    /// Variables of the slices that are not bound.
    lead: u32,
    /// Packs of a whole slice.
    slice: usize,
}

impl Rounds for Pairs {
    fn message(&self) -> Result<[SecureField; 2], DeviceError> {
        Ok(self.0.par_iter().map(Pair::message).reduce(zero, add))
    }

    fn bind(&mut self, challenge: SecureField) -> Result<[SecureField; 2], DeviceError> {
        let messages = self.0.par_iter_mut().map(|pair| pair.bind(challenge));
        Ok(messages.reduce(zero, add))
    }

    fn finish(&self) -> Result<Vec<SecureField>, DeviceError> {
        Ok(self.0.iter().flat_map(Pair::evaluations).collect())
    }
}

impl Products for Pairs {
    fn value(&self) -> Result<SecureField, DeviceError> {
        Ok(self.0.par_iter().map(Pair::value).sum())
    }
}

/// Two tables of equal length.
enum Pair {
    Packed(Vec<Packed>, Vec<Packed>),
    /// Slice by slice; the sums over what is behind the beginnings are zero, whichever variables of slices are bound.
    Beginnings(Vec<Packed>, Vec<Packed>, Slices),
    Scalar(Vec<SecureField>, Vec<SecureField>),
}

impl Pair {
    /// Packs tables of at least four packs, the shortest that [`bind_table`] sums in the same pass.
    fn new(a: Table, b: Table) -> Self {
        let (a, b) = match (a, b) {
            (
                Table::Beginnings { packs: a, lead, slice },
                Table::Beginnings {
                    packs: b,
                    lead: own,
                    slice: same,
                },
            ) if (lead, slice, a.len()) == (own, same, b.len()) && lead > 0 => {
                return Self::Beginnings(a, b, Slices { lead, slice });
            }
            other => other,
        };
        if a.entry_count() < 4 * SIMD_LANES {
            Self::Scalar(a.into_entries(), b.into_entries())
        } else {
            let (a, b) = rayon::join(|| a.into_packs(), || b.into_packs());
            Self::Packed(a, b)
        }
    }

    /// `sum_z A(z) B(z)`.
    fn value(&self) -> SecureField {
        match self {
            Self::Packed(a, b) | Self::Beginnings(a, b, _) => inner_product(a, b).total(),
            Self::Scalar(a, b) => inner_product(a, b).total(),
        }
    }

    /// `[s(0), s(2)]` of the first variable; zero if there is none.
    fn message(&self) -> [SecureField; 2] {
        match self {
            Self::Packed(a, b) | Self::Beginnings(a, b, _) => message(halves(a), halves(b)).map(Lane::total),
            Self::Scalar(a, b) => message(halves(a), halves(b)).map(Lane::total),
        }
    }

    /// Binds the first variable and returns the message of the next.
    fn bind(&mut self, r: SecureField) -> [SecureField; 2] {
        if let Self::Packed(a, b) = self {
            if a.len() < 4 {
                *self = Self::Scalar(unpack(a), unpack(b));
            }
        }
        if let Self::Beginnings(a, b, Slices { lead: 1, slice }) = self {
            // The next variable is one of the slice: it gets its zeros.
            let (mut a, mut b) = (std::mem::take(a), std::mem::take(b));
            for table in [&mut a, &mut b] {
                bind_half(table, r.into());
                table.resize(*slice, Packed::zero());
            }
            *self = Self::new(Table::Packs(a), Table::Packs(b));
            return self.message();
        }
        match self {
            Self::Packed(a, b) => bind_table(a, b, r.into()).map(Lane::total),
            Self::Beginnings(a, b, slices) => {
                slices.lead -= 1;
                bind_table(a, b, r.into()).map(Lane::total)
            }
            Self::Scalar(a, b) => bind_table(a, b, r).map(Lane::total),
        }
    }

    /// The evaluations that are left when all variables are bound.
    fn evaluations(&self) -> [SecureField; 2] {
        match self {
            Self::Scalar(a, b) => [a[0], b[0]],
            Self::Packed(..) | Self::Beginnings(..) => unreachable!("fully bound tables have one entry"),
        }
    }
}

/// A field element or a pack of them: what the loops below run on.
trait Lane:
    Copy + Send + Sync + Zero + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + From<SecureField>
{
    /// Sum of the lanes.
    fn total(self) -> SecureField;
}

impl Lane for SecureField {
    fn total(self) -> SecureField {
        self
    }
}

impl Lane for Packed {
    fn total(self) -> SecureField {
        Packed::total(self)
    }
}

fn zero<F: Lane>() -> [F; 2] {
    [F::zero(); 2]
}

fn add<F: Lane>([a0, a2]: [F; 2], [b0, b2]: [F; 2]) -> [F; 2] {
    [a0 + b0, a2 + b2]
}

fn halves<F>(table: &[F]) -> [&[F]; 2] {
    let (low, high) = table.split_at(table.len() / 2);
    [low, high]
}

fn inner_product<F: Lane>(a: &[F], b: &[F]) -> F {
    a.par_chunks(4 * GRAIN)
        .zip(b.par_chunks(4 * GRAIN))
        .map(|(a, b)| a.iter().zip(b).fold(F::zero(), |sum, (&x, &y)| sum + x * y))
        .reduce(F::zero, |x, y| x + y)
}

/// Adds what one pair of entries per table contributes to `[s(0), s(2)]`.
fn accumulate<F: Lane>([s0, s2]: [F; 2], [a0, a1]: [F; 2], [b0, b1]: [F; 2]) -> [F; 2] {
    [s0 + a0 * b0, s2 + (a1 + a1 - a0) * (b1 + b1 - b0)]
}

/// `[s(0), s(2)]` of tables given as halves.
fn message<F: Lane>(a: [&[F]; 2], b: [&[F]; 2]) -> [F; 2] {
    let [a0, a1] = a.map(|half| half.par_chunks(2 * GRAIN));
    let [b0, b1] = b.map(|half| half.par_chunks(2 * GRAIN));
    (a0, a1, b0, b1)
        .into_par_iter()
        .map(|(a0, a1, b0, b1)| {
            (0..a0.len().min(a1.len())).fold(zero(), |sum, i| accumulate(sum, [a0[i], a1[i]], [b0[i], b1[i]]))
        })
        .reduce(zero, add)
}

/// Binds the first variable of two tables of equal length to `r` and returns the message of the next
/// variable (zero if there is none).
fn bind_table<F: Lane>(a: &mut Vec<F>, b: &mut Vec<F>, r: F) -> [F; 2] {
    let half = a.len() / 2;
    let message = if half == 1 {
        bind_half(a, r);
        bind_half(b, r);
        zero()
    } else {
        bind_quarters(Quarters::new(a), Quarters::new(b), r)
    };
    a.truncate(half);
    b.truncate(half);
    message
}

/// Binds the first variable of a table to `r`.
fn bind_half<F: Lane>(table: &mut Vec<F>, r: F) {
    let half = table.len() / 2;
    let (low, high) = table.split_at_mut(half);
    low.iter_mut()
        .zip(high)
        .for_each(|(low, high)| *low = *low + r * (*high - *low));
    table.truncate(half);
}

/// A table in quarters by its first two variables; binding the first writes to `low`.
struct Quarters<'a, F> {
    low: [&'a mut [F]; 2],
    high: [&'a [F]; 2],
}

impl<'a, F: Lane> Quarters<'a, F> {
    fn new(table: &'a mut [F]) -> Self {
        let (low, high) = table.split_at_mut(table.len() / 2);
        let (low0, low1) = low.split_at_mut(low.len() / 2);
        Self {
            low: [low0, low1],
            high: halves(high),
        }
    }

    fn len(&self) -> usize {
        self.low[0].len()
    }

    fn split(self) -> (Self, Self) {
        let middle = self.len() / 2;
        let [low0, low1] = self.low.map(|q| q.split_at_mut(middle));
        let [high0, high1] = self.high.map(|q| q.split_at(middle));
        (
            Self {
                low: [low0.0, low1.0],
                high: [high0.0, high1.0],
            },
            Self {
                low: [low0.1, low1.1],
                high: [high0.1, high1.1],
            },
        )
    }

    /// Binds the first variable at position `i` of the quarters and returns both new entries.
    fn bind(&mut self, i: usize, r: F) -> [F; 2] {
        let Self {
            low: [low0, low1],
            high: [high0, high1],
        } = self;
        low0[i] = low0[i] + r * (high0[i] - low0[i]);
        low1[i] = low1[i] + r * (high1[i] - low1[i]);
        [low0[i], low1[i]]
    }
}

fn bind_quarters<F: Lane>(mut a: Quarters<F>, mut b: Quarters<F>, r: F) -> [F; 2] {
    if a.len() > GRAIN {
        let ((a0, a1), (b0, b1)) = (a.split(), b.split());
        let (s, t) = rayon::join(|| bind_quarters(a0, b0, r), || bind_quarters(a1, b1, r));
        return add(s, t);
    }
    (0..a.len()).fold(zero(), |sum, i| accumulate(sum, a.bind(i, r), b.bind(i, r)))
}
