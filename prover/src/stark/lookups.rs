//! Multiplicities, counted from the lists of lookups, and LogUp columns, derived by running the constraints themselves over
//! the trace with a recording evaluator: a lookup is written once, in `tessera_circuits::air`.

use std::ops::Range;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::fields::FieldExpOps;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX};
use tessera_circuits::air::lookups::{Linear, Lookup, Uses};
use tessera_circuits::air::{tables, Air, Bound, Lanes};

use super::packed::{Base, Secure, SecureFraction};
use super::trace::Columns;

/// Rows that a thread takes at a time, at most.
const TASK: usize = 1 << 10;
/// Vectors of rows that are read and written together, so that whole runs of a column are.
const VECTORS: usize = 8;

/// Columns that lookups are made of.
#[derive(Clone, Copy)]
struct Source<'a> {
    trace: &'a Columns,
    tables: &'a [Vec<BaseField>],
    /// Coordinates of the `eq` column.
    eq: &'a [Vec<BaseField>],
}

/// Reads sixteen rows and hands on what the constraints look up, in their order.
struct Recorder<'a, S> {
    source: Source<'a>,
    /// The rows of the trace that are next.
    trace: std::slice::Iter<'a, Base>,
    first_row: usize,
    next_eq: usize,
    sink: S,
}

/// Sixteen rows of a column.
fn load(column: &[BaseField], first_row: usize) -> Base {
    let rows = column[first_row..][..N_LANES].try_into();
    Base(PackedBaseField::from_array(rows.expect("sixteen rows")))
}

impl<S: FnMut(SecureFraction)> EvalAtRow for Recorder<'_, S> {
    type F = Base;
    type EF = Secure;

    fn next_interaction_mask<const N: usize>(&mut self, interaction: usize, _offsets: [isize; N]) -> [Base; N] {
        let value = match interaction {
            ORIGINAL_TRACE_IDX => self.trace.next().copied(),
            // The eq column comes first; nothing else of the interaction is looked up.
            INTERACTION_TRACE_IDX => {
                self.next_eq += 1;
                let column = self.source.eq.get(self.next_eq - 1);
                column.map(|column| load(column, self.first_row))
            }
            _ => None,
        };
        std::array::from_fn(|i| value.filter(|_| i == 0).unwrap_or_else(Base::zero))
    }

    fn get_preprocessed_column(&mut self, column: PreProcessedColumnId) -> Base {
        let at = tables::PREPROCESSED
            .iter()
            .position(|id| *id == column.id)
            .expect("a known table column");
        load(&self.source.tables[at], self.first_row)
    }

    fn add_constraint<G>(&mut self, _constraint: G) {}

    fn combine_ef(values: [Base; SECURE_EXTENSION_DEGREE]) -> Secure {
        Secure::Full(PackedSecureField::from_packed_m31s(values.map(|v| v.0)))
    }

    fn write_logup_frac(&mut self, fraction: SecureFraction) {
        (self.sink)(fraction);
    }

    fn finalize_logup_in_pairs(&mut self) {}
}

/// Hands the fractions of some rows, not more than [`VECTORS`] vectors, to `sink`, vector by vector and in the order of the
/// constraints. After every vector `done` is called with its number.
fn fractions<T>(
    bound: &Bound,
    source: Source<'_>,
    rows: Range<usize>,
    buffer: &mut Vec<Base>,
    state: &mut T,
    sink: impl Fn(&mut T, SecureFraction),
    done: impl Fn(&mut T, usize),
) {
    let vectors = rows.len() / N_LANES;
    let width = source.trace.len();
    buffer.resize(vectors * width, Base::zero());
    for (i, column) in source.trace.iter().enumerate() {
        for vector in 0..vectors {
            buffer[vector * width + i] = load(column, rows.start + vector * N_LANES);
        }
    }
    for vector in 0..vectors {
        bound.evaluate(Recorder {
            source,
            trace: buffer[vector * width..][..width].iter(),
            first_row: rows.start + vector * N_LANES,
            next_eq: 0,
            sink: |fraction| sink(state, fraction),
        });
        done(state, vector);
    }
}

/// The rows of a part in pieces of [`VECTORS`], or all if there are fewer.
fn pieces(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (step, end) = (VECTORS * N_LANES, rows.end);
    rows.step_by(step).map(move |start| start..end.min(start + step))
}

/// Rows of a lane.
struct Piece<'a> {
    lookups: &'a [Lookup],
    lane: &'a [Vec<BaseField>],
    rows: Range<usize>,
}

/// Multiplicity columns of the tables: how often each row is used by the given parts.
pub fn multiplicities<'a>(parts: impl Iterator<Item = (Lanes, &'a Columns)>) -> Columns {
    let size = 1usize << tables::LOG_ROWS;
    let empty = || vec![0u32; tables::COLUMNS * size];
    let parts: Vec<(Vec<Lookup>, Lanes, &Columns)> =
        parts.map(|(air, trace)| (air.air.lookups(), air, trace)).collect();
    let pieces = parts.iter().flat_map(|(lookups, air, trace)| {
        let rows = 1usize << air.log_rows();
        let lanes = trace.chunks(air.air.columns());
        lanes.flat_map(move |lane| {
            let starts = (0..rows).step_by(TASK);
            starts.map(move |start| Piece {
                lookups,
                lane,
                rows: start..rows.min(start + TASK),
            })
        })
    });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    let counts = pieces
        .par_iter()
        .fold(empty, |mut counts, piece| {
            piece
                .lookups
                .iter()
                .for_each(|lookup| count(&mut counts, lookup, piece));
            counts
        })
        .reduce(empty, |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    counts
        .chunks(size)
        .map(|c| c.iter().copied().map(BaseField::from_u32_unchecked).collect())
        .collect()
}

/// Adds a lookup of some rows.
fn count(counts: &mut [u32], lookup: &Lookup, piece: &Piece<'_>) {
    let counts = &mut counts[lookup.relation.index() << tables::LOG_ROWS..][..1 << tables::LOG_ROWS];
    for first_row in piece.rows.clone().step_by(N_LANES) {
        let column = |at: usize| load(&piece.lane[at], first_row);
        let value = |value: Option<&Linear>| value.map_or(Base::zero(), |v| v.eval(column)).0.to_array();
        let (first, second) = (value(lookup.tuple.first()), value(lookup.tuple.get(1)));
        let uses = match lookup.uses {
            Uses::Once => [BaseField::one(); N_LANES],
            Uses::Column(at) => column(at).0.to_array(),
        };
        for ((first, second), uses) in first.into_iter().zip(second).zip(uses) {
            // A value outside its table has no row; the proof would not balance. Honest traces have none.
            let row = lookup.relation.row(first, second);
            if let Some(count) = row.and_then(|row| counts.get_mut(row)) {
                *count += uses.0;
            }
        }
    }
}

/// The LogUp columns of a component (four coordinates per pair of fractions) and its claimed sum.
pub fn logup(
    bound: &Bound,
    trace: &Columns,
    tables: &[Vec<BaseField>],
    eq: &[Vec<BaseField>],
) -> (Columns, SecureField) {
    let rows = 1usize << bound.air.log_rows();
    let source = Source { trace, tables, eq };
    let mut lookups = 0usize;
    let count = |lookups: &mut usize, _| *lookups += 1;
    fractions(
        bound,
        source,
        0..N_LANES,
        &mut Vec::new(),
        &mut lookups,
        count,
        |_, _| (),
    );
    let pairs = lookups.div_ceil(2);
    let mut columns: Columns = (0..pairs * SECURE_EXTENSION_DEGREE)
        .into_par_iter()
        .map(|_| vec![BaseField::zero(); rows])
        .collect();
    // Task by task, the rows of all columns.
    let mut tasks: Vec<Vec<&mut [BaseField]>> = (0..rows.div_ceil(TASK)).map(|_| Vec::new()).collect();
    for column in &mut columns {
        for (task, rows) in tasks.iter_mut().zip(column.chunks_mut(TASK)) {
            task.push(rows);
        }
    }
    let tasks = tasks.into_par_iter().enumerate();
    tasks.for_each_init(
        || (Pairs::new(pairs), Vec::new()),
        |(pairs, buffer), (task, mut columns)| {
            for piece in pieces(0..rows.min(TASK)) {
                let absolute = task * TASK + piece.start..task * TASK + piece.end;
                fractions(bound, source, absolute, buffer, pairs, Pairs::push, Pairs::partial_sums);
                for (column, sums) in columns.iter_mut().zip(&pairs.sums) {
                    let rows = column[piece.clone()].as_chunks_mut::<N_LANES>().0;
                    rows.iter_mut()
                        .zip(sums)
                        .for_each(|(rows, sums)| *rows = sums.to_array());
                }
            }
        },
    );
    // The last pair becomes a running sum over the rows, shifted to end in zero.
    let first = columns.len() - SECURE_EXTENSION_DEGREE;
    let mut claimed = [BaseField::zero(); SECURE_EXTENSION_DEGREE];
    columns[first..]
        .par_iter_mut()
        .zip(&mut claimed)
        .for_each(|(column, total)| {
            *total = column.iter().fold(BaseField::zero(), |sum, v| sum + *v);
            let shift = *total * BaseField::from_u32_unchecked(rows as u32).inverse();
            let mut sum = BaseField::zero();
            for v in column.iter_mut() {
                sum += *v - shift;
                *v = sum;
            }
        });
    (columns, SecureField::from_m31_array(claimed))
}

/// A pair of fractions, added.
struct Pair {
    numerator: Secure,
    denominator: PackedSecureField,
    /// Product of the denominators of the pairs before.
    before: PackedSecureField,
}

/// The pairs of fractions of sixteen rows, and their partial sums in some vectors of rows.
struct Pairs {
    pairs: Vec<Pair>,
    /// The first fraction of a pair that is not complete.
    first: Option<SecureFraction>,
    /// Product of the denominators of all pairs.
    product: PackedSecureField,
    /// Coordinates of the sums of the first pair, the first two, and so on.
    sums: Vec<[PackedBaseField; VECTORS]>,
}

impl Pairs {
    fn new(pairs: usize) -> Self {
        Self {
            pairs: Vec::with_capacity(pairs),
            first: None,
            product: PackedSecureField::one(),
            sums: vec![[PackedBaseField::zero(); VECTORS]; pairs * SECURE_EXTENSION_DEGREE],
        }
    }

    fn push(&mut self, fraction: SecureFraction) {
        match self.first.take() {
            Some(first) => self.complete(first + fraction),
            None => self.first = Some(fraction),
        }
    }

    fn complete(&mut self, pair: SecureFraction) {
        let (denominator, before) = (pair.denominator.packed(), self.product);
        self.product = before * denominator;
        self.pairs.push(Pair {
            numerator: pair.numerator,
            denominator,
            before,
        });
    }

    /// The sums of the pairs so far, for vector `vector`; begins with the next one.
    fn partial_sums(&mut self, vector: usize) {
        if let Some(single) = self.first.take() {
            self.complete(single);
        }
        let mut inverse = self.product.inverse();
        let mut values = self.sums.as_chunks_mut::<SECURE_EXTENSION_DEGREE>().0.iter_mut().rev();
        for pair in self.pairs.iter().rev() {
            let value = Secure::Full(inverse * pair.before) * pair.numerator;
            inverse *= pair.denominator;
            let coordinates = values.next().into_iter().flatten();
            for (coordinate, value) in coordinates.zip(value.packed().into_packed_m31s()) {
                coordinate[vector] = value;
            }
        }
        let mut sum = [PackedBaseField::zero(); SECURE_EXTENSION_DEGREE];
        for coordinates in self.sums.as_chunks_mut::<SECURE_EXTENSION_DEGREE>().0 {
            for (sum, coordinate) in sum.iter_mut().zip(coordinates) {
                *sum += coordinate[vector];
                coordinate[vector] = *sum;
            }
        }
        self.pairs.clear();
        self.product = PackedSecureField::one();
    }
}
