//! Batched product sumcheck of degree 2, the twin of the verifier's `sumcheck` (see there for the
//! statement). The tables it runs on come from [`crate::bind`].
//!
//! Tables are bound in place, 16 entries at a time as [`Packed`] until they are shorter than
//! that. Binding the variable of one round and summing the message of the next is one pass.

use std::ops::{Add, Mul, Sub};

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::sumcheck::{instance_scale, open_batch, rounds_of, SumcheckProof};
use tessera_verifier::transcript::Transcript;

use super::gkr::field::{Packed, SIMD_LANES};

/// Largest number of (packed) entries of a quarter table that one thread takes.
const GRAIN: usize = 1 << 9;

/// One instance of a batch: `sum_z sum_pairs A(z) B(z)` over `2^variables` entries.
#[derive(Clone, Debug)]
pub struct Instance<T = Vec<SecureField>> {
    /// The tables `(A, B)`, each of `2^variables` entries.
    pub pairs: Vec<(T, T)>,
    pub variables: usize,
}

/// An instance in two stages: as it is over its first variables, and, once these are bound, over the others.
pub struct Staged<'a> {
    /// Products of functions of the first variables that add up to those of all, summed over the others.
    pub first: Instance<Table>,
    /// Of both stages.
    pub variables: usize,
    pub second: Second<'a>,
}

/// The pairs of the second stage, from the evaluations of those of the first, and the point where they are.
pub type Second<'a> =
    Box<dyn FnOnce(&[(SecureField, SecureField)], &[SecureField]) -> Vec<(Table, Table)> + Send + Sync + 'a>;

/// A table as it was made.
#[derive(Clone, Debug)]
pub enum Table {
    Entries(Vec<SecureField>),
    /// Sixteen entries each.
    Packs(Vec<Packed>),
}

impl From<Vec<SecureField>> for Table {
    fn from(entries: Vec<SecureField>) -> Self {
        Self::Entries(entries)
    }
}

impl Table {
    /// Number of entries.
    fn len(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Packs(packs) => packs.len() * SIMD_LANES,
        }
    }

    /// `sum_z A(z) B(z)`.
    pub fn inner(&self, other: &Self) -> SecureField {
        match (self, other) {
            (Self::Packs(a), Self::Packs(b)) => inner_product(a, b).total(),
            (Self::Entries(a), Self::Entries(b)) => inner_product(a, b).total(),
            (Self::Packs(a), Self::Entries(b)) | (Self::Entries(b), Self::Packs(a)) => {
                inner_product(&unpack(a), b).total()
            }
        }
    }

    fn entries(self) -> Vec<SecureField> {
        match self {
            Self::Entries(entries) => entries,
            Self::Packs(packs) => unpack(&packs),
        }
    }

    fn packs(self) -> Vec<Packed> {
        match self {
            Self::Entries(entries) => pack(&entries),
            Self::Packs(packs) => packs,
        }
    }
}

/// A proved batch.
#[derive(Clone, Debug)]
pub struct Proved {
    pub proof: SumcheckProof,
    /// The challenges; an instance is bound at its last ones.
    pub point: Vec<SecureField>,
    /// Per instance and pair the evaluations `(A~, B~)`.
    pub finals: Vec<Vec<(SecureField, SecureField)>>,
}

/// Proves that the values of the instances add up to `claim`. A false claim gives a proof whose final
/// claim does not hold.
///
/// # Panics
/// If a table does not have `2^variables` entries.
pub fn prove<T: Into<Table> + Send>(
    label: &'static str,
    claim: SecureField,
    instances: Vec<Instance<T>>,
    transcript: &mut Transcript,
) -> Proved {
    let variables = instances.iter().map(|i| i.variables).max().unwrap_or(0);
    let states = instances.into_par_iter().map(|i| {
        let own = i.variables;
        State::new(i, own, None, variables)
    });
    run(label, claim, states.collect(), variables, transcript)
}

/// Proves that the values of the instances add up to `claim`: what [`prove`] sends for instances in one stage.
///
/// # Panics
/// As [`prove`].
pub fn prove_staged(
    label: &'static str,
    claim: SecureField,
    instances: Vec<Staged<'_>>,
    transcript: &mut Transcript,
) -> Proved {
    let variables = instances.iter().map(|i| i.variables).max().unwrap_or(0);
    let states = instances
        .into_par_iter()
        .map(|i| State::new(i.first, i.variables, Some(i.second), variables));
    run(label, claim, states.collect(), variables, transcript)
}

fn run(
    label: &'static str,
    claim: SecureField,
    mut states: Vec<State<'_>>,
    variables: usize,
    transcript: &mut Transcript,
) -> Proved {
    open_batch(label, claim, variables, transcript);
    let mut point = Vec::with_capacity(variables);
    let mut rounds = Vec::with_capacity(variables);
    for round in 0..variables {
        let message = states
            .iter()
            .map(|s| s.round_message(round))
            .fold([SecureField::zero(); 2], add);
        let r = rounds_of(label).send(&message, transcript);
        states.par_iter_mut().for_each(|s| s.bind(round, r));
        rounds.push(message);
        point.push(r);
    }
    Proved {
        proof: SumcheckProof { rounds },
        point,
        finals: states.iter().map(State::finals).collect(),
    }
}

/// An instance during the proof.
struct State<'a> {
    /// Rounds before the first variable of this instance.
    start: usize,
    /// What the embedding multiplies the instance with.
    scale: SecureField,
    /// Value of the instance; needed as long as it waits.
    value: SecureField,
    /// `[s(0), s(2)]` of the next round, without `scale`.
    message: [SecureField; 2],
    pairs: Vec<Pair>,
    /// Variables that are bound before the second stage, and what it is.
    second: Option<(usize, Second<'a>)>,
    /// The variables that are bound.
    point: Vec<SecureField>,
}

impl<'a> State<'a> {
    /// `own` is the number of variables of all stages of the instance, `variables` that of the batch.
    fn new<T: Into<Table> + Send>(
        instance: Instance<T>,
        own: usize,
        second: Option<Second<'a>>,
        variables: usize,
    ) -> Self {
        let entries = 1 << instance.variables;
        let pairs: Vec<Pair> = instance
            .pairs
            .into_par_iter()
            .map(|(a, b)| {
                let (a, b): (Table, Table) = (a.into(), b.into());
                assert_eq!((a.len(), b.len()), (entries, entries), "tables of an instance");
                Pair::new(a, b)
            })
            .collect();
        let start = variables - own;
        let value = match start {
            0 => SecureField::zero(),
            _ => pairs.par_iter().map(Pair::value).sum(),
        };
        let mut state = Self {
            start,
            scale: instance_scale(variables, own),
            value,
            message: pairs.par_iter().map(Pair::message).reduce(zero, add),
            pairs,
            second: second.map(|second| (instance.variables, second)),
            point: Vec::new(),
        };
        state.advance();
        state
    }

    /// Begins the second stage when the variables of the first are bound.
    fn advance(&mut self) {
        let bound = self.point.len();
        if let Some((_, second)) = self.second.take_if(|(first, _)| *first == bound) {
            let tables = second(&self.finals(), &self.point);
            self.pairs = tables.into_par_iter().map(|(a, b)| Pair::new(a, b)).collect();
            self.message = self.pairs.par_iter().map(Pair::message).reduce(zero, add);
        }
    }

    /// Contribution to the message of `round`: constant as long as the instance waits.
    fn round_message(&self, round: usize) -> [SecureField; 2] {
        if round < self.start {
            [self.value * instance_scale(round + 1, 0); 2]
        } else {
            self.message.map(|s| s * self.scale)
        }
    }

    /// Binds the variable of `round`.
    fn bind(&mut self, round: usize, r: SecureField) {
        if round >= self.start {
            self.message = self.pairs.par_iter_mut().map(|pair| pair.bind(r)).reduce(zero, add);
            self.point.push(r);
            self.advance();
        }
    }

    fn finals(&self) -> Vec<(SecureField, SecureField)> {
        self.pairs.iter().map(Pair::evaluations).collect()
    }
}

/// Two tables of equal length.
enum Pair {
    Packed(Vec<Packed>, Vec<Packed>),
    Scalar(Vec<SecureField>, Vec<SecureField>),
}

impl Pair {
    /// Packs tables of at least four packs, the shortest that [`bind_table`] sums in the same pass.
    fn new(a: Table, b: Table) -> Self {
        if a.len() < 4 * SIMD_LANES {
            Self::Scalar(a.entries(), b.entries())
        } else {
            let (a, b) = rayon::join(|| a.packs(), || b.packs());
            Self::Packed(a, b)
        }
    }

    /// `sum_z A(z) B(z)`.
    fn value(&self) -> SecureField {
        match self {
            Self::Packed(a, b) => inner_product(a, b).total(),
            Self::Scalar(a, b) => inner_product(a, b).total(),
        }
    }

    /// `[s(0), s(2)]` of the first variable; zero if there is none.
    fn message(&self) -> [SecureField; 2] {
        match self {
            Self::Packed(a, b) => message(halves(a), halves(b)).map(Lane::total),
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
        match self {
            Self::Packed(a, b) => bind_table(a, b, r.into()).map(Lane::total),
            Self::Scalar(a, b) => bind_table(a, b, r).map(Lane::total),
        }
    }

    /// The evaluations that are left when all variables are bound.
    fn evaluations(&self) -> (SecureField, SecureField) {
        match self {
            Self::Scalar(a, b) => (a[0], b[0]),
            Self::Packed(..) => unreachable!("fully bound tables have one entry"),
        }
    }
}

/// Entries in packs, as many as fill them.
pub(super) fn pack(values: &[SecureField]) -> Vec<Packed> {
    let (chunks, _) = values.as_chunks::<SIMD_LANES>();
    chunks.par_iter().with_min_len(GRAIN).map(Packed::from_array).collect()
}

fn unpack(values: &[Packed]) -> Vec<SecureField> {
    values.iter().flat_map(|pack| pack.to_array()).collect()
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
        for table in [&mut *a, &mut *b] {
            table[0] = table[0] + r * (table[1] - table[0]);
        }
        zero()
    } else {
        bind_quarters(Quarters::new(a), Quarters::new(b), r)
    };
    a.truncate(half);
    b.truncate(half);
    message
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

#[cfg(test)]
mod tests;
