//! The leaves of a tree of lookups, made from the columns where they are needed: kept, the denominators would take as much
//! memory as all layers above them.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Linear;
use tessera_circuits::air::Relations;
use tessera_circuits::trees::{LookupTree, Plane};

use crate::column::{Cells, Column};
use crate::field::{words, Packed, Words, LOG_LANES};

type K = SecureField;

/// Vectors of a piece that are shown at a time.
const SHOWN: usize = 8;
/// Trees with fewer leaves than two to this keep all layers, leaves too.
const LOG_SMALL: u32 = 10;
/// Layers that other trees make again: leaves and the fractions of two and of four of them.
const MADE_AGAIN: u32 = 3;

/// The largest layer that is kept of a tree of `2^log` leaves. The larger ones are made again when their turn comes: that takes less
/// time than to enter and to pass their memory, which is seven times as much.
pub(super) fn top(log: u32) -> u32 {
    match log < LOG_SMALL {
        true => log,
        false => log - MADE_AGAIN,
    }
}

/// A linear form in columns.
pub struct Form<'a> {
    constant: Words,
    terms: Vec<(Cells<'a>, Option<Words>)>,
}

impl<'a> Form<'a> {
    /// Of these columns.
    pub fn new(form: &Linear, columns: &'a [Column]) -> Self {
        let term = |(column, factor): &(usize, BaseField)| {
            let factor = Some(*factor).filter(|factor| !factor.is_one());
            (columns[*column].cells(), factor.map(words::splat))
        };
        Self {
            constant: words::splat(form.constant),
            terms: form.terms.iter().map(term).collect(),
        }
    }

    /// The values in the vector `at` of rows.
    #[inline(always)]
    pub fn at(&self, at: usize) -> Words {
        self.terms.iter().fold(self.constant, |sum, (cells, factor)| {
            let value = cells.vector(at);
            words::plus(sum, factor.map_or(value, |factor| words::times(value, factor)))
        })
    }
}

/// What the cells of a column are multiplied with.
enum Times {
    One,
    Base(Words),
    Full(Packed),
}

impl From<K> for Times {
    fn from(v: K) -> Self {
        match v.to_m31_array() {
            [one, b, c, d] if one.is_one() && b.is_zero() && c.is_zero() && d.is_zero() => Self::One,
            [base, b, c, d] if b.is_zero() && c.is_zero() && d.is_zero() => Self::Base(words::splat(base)),
            _ => Self::Full(Packed::broadcast(v)),
        }
    }
}

/// A plane: its denominators, which are linear in the columns.
struct Run<'a> {
    /// Vectors before it.
    start: usize,
    vectors: usize,
    constant: Packed,
    /// By column; those that are multiplied with elements of the extension stand first.
    terms: Vec<(Cells<'a>, Times)>,
}

impl<'a> Run<'a> {
    fn new(start: usize, plane: &Plane, columns: &'a [Vec<Column>], relations: &Relations) -> Self {
        let own = &columns[plane.part.index()];
        let [z, alpha] = relations.challenges(plane.lookup.relation);
        let (mut constant, mut terms, mut power) = (-z, Vec::<(usize, K)>::new(), K::one());
        for value in &plane.lookup.tuple {
            constant += power * value.constant;
            for (column, factor) in &value.terms {
                let factor = power * *factor;
                match terms.iter_mut().find(|(other, _)| other == column) {
                    Some((_, sum)) => *sum += factor,
                    None => terms.push((*column, factor)),
                }
            }
            power *= alpha;
        }
        let term = |(column, factor): (usize, K)| {
            let cells = own[column].cells();
            constant -= factor * BaseField::from_u32_unchecked(cells.offset());
            (cells, Times::from(factor))
        };
        let mut terms: Vec<_> = terms.into_iter().map(term).collect();
        terms.sort_by_key(|(_, times)| !matches!(times, Times::Full(_)));
        Self {
            start,
            vectors: 1 << (plane.log_rows - LOG_LANES),
            constant: Packed::broadcast(constant),
            terms,
        }
    }

    /// The denominators in vectors `from..` of the plane.
    fn denominators(&self, from: usize, out: &mut [Packed]) {
        let rest = match self.terms.split_first() {
            Some(((cells, Times::Full(factor)), rest)) => {
                let constant = self.constant;
                let short = |out: &mut Packed, words| *out = factor.mul_add_short(words, constant);
                cells.each(from, out, short, |out, words| *out = factor.mul_add(words, constant));
                rest
            }
            _ => {
                out.fill(self.constant);
                &self.terms
            }
        };
        for (cells, times) in rest {
            match times {
                Times::One => {
                    let add = |out: &mut Packed, words| *out = out.add_words(words);
                    cells.each(from, out, add, add);
                }
                Times::Base(factor) => {
                    let add = |out: &mut Packed, words| *out = out.add_words(words::times(words, *factor));
                    cells.each(from, out, add, add);
                }
                Times::Full(factor) => {
                    let short = |out: &mut Packed, words| *out = factor.mul_add_short(words, *out);
                    cells.each(from, out, short, |out, words| *out = factor.mul_add(words, *out));
                }
            }
        }
    }
}

/// The leaves of a tree.
pub struct Leaves<'a> {
    runs: Vec<Run<'a>>,
    pub log: u32,
}

impl<'a> Leaves<'a> {
    /// Of columns by part.
    pub fn new(tree: &LookupTree, columns: &'a [Vec<Column>], relations: &Relations) -> Self {
        let mut start = 0;
        let runs = tree.planes.iter().map(|plane| {
            let run = Run::new(start, plane, columns, relations);
            start += run.vectors;
            run
        });
        Self {
            runs: runs.collect(),
            log: tree.log_leaves(),
        }
    }

    /// log2 of the nodes of the largest layer that is kept.
    pub fn top(&self) -> u32 {
        top(self.log)
    }

    /// The run that has vector `first`, or the number of runs beyond the last.
    fn run_at(&self, first: usize) -> usize {
        self.runs.partition_point(|run| run.start + run.vectors <= first)
    }

    /// Denominators from vector `first` on, which is in run `at`; one beyond the planes.
    fn denominators(&self, mut at: usize, mut first: usize, mut out: &mut [Packed]) {
        while !out.is_empty() {
            let Some(run) = self.runs.get(at) else {
                out.fill(Packed::broadcast(K::one()));
                return;
            };
            let from = first - run.start;
            let (own, rest) = out.split_at_mut(out.len().min(run.vectors.saturating_sub(from)));
            if !own.is_empty() {
                run.denominators(from, own);
            }
            (first, out, at) = (first + own.len(), rest, at + 1);
        }
    }

    /// Shows `work` denominators, a few vectors at a time, which stay in the first-level cache: of `len` vectors from `at` on, in
    /// each of the pieces that begin at `starts`. `work` is told the number of the first one in the block.
    #[inline(always)]
    pub fn block<const N: usize>(
        &self,
        at: usize,
        starts: [usize; N],
        len: usize,
        mut work: impl FnMut(usize, [&[Packed]; N]),
    ) {
        let mut buffers = [[Packed::ZERO; SHOWN]; N];
        let runs = starts.map(|start| self.run_at(start + at));
        for first in (0..len).step_by(SHOWN) {
            let own = SHOWN.min(len - first);
            for ((buffer, start), run) in buffers.iter_mut().zip(starts).zip(runs) {
                self.denominators(run, start + at + first, &mut buffer[..own]);
            }
            work(first, std::array::from_fn(|i| &buffers[i][..own]));
        }
    }
}
