//! Linear claims on the committed columns (docs/protocol.md, sections 7 and 16): everything that crosses rows.
//! A claim says `sum of <W, column> = value` where each `W` is a sum of tensor products of one weight vector per
//! axis of the part's row index. Both sides derive the same list; the prover proves it with one batched
//! sumcheck, the verifier evaluates the `W` itself.

mod end;
mod lazy;
mod operands;
mod said;
mod values;
mod weight;

use std::collections::BTreeMap;
use std::ops::{Add, Mul, Range};

use stwo::core::fields::qm31::SecureField;

use crate::mle::index_eq;
use crate::scalar::Scalar;
use crate::shape::{Cut, Part, Shape};

use self::end::End;
pub use self::lazy::{Factor, Lazy, Residual, Scaled};
pub use self::operands::{Operands, PLACES};
pub use self::said::{Heard, Said};
pub use self::values::Values;
pub use self::weight::{Tensor, Weight};

/// Linear combination of columns of one part under one `W`.
#[derive(Clone, Debug)]
pub struct Group<K = SecureField> {
    /// The part whose columns they are.
    pub part: Part,
    /// `W` is the sum of these.
    pub weights: Vec<Tensor<K>>,
    /// (column, coefficient)
    pub columns: Vec<(usize, K)>,
}

impl<K: Scalar> Group<K> {
    /// Columns under one tensor product.
    pub fn new(part: Part, weights: Tensor<K>, columns: Vec<(usize, K)>) -> Self {
        let weights = vec![weights];
        Self { part, weights, columns }
    }

    /// Columns under a sum of tensor products.
    pub const fn new_sum(part: Part, weights: Vec<Tensor<K>>, columns: Vec<(usize, K)>) -> Self {
        Self { part, weights, columns }
    }

    /// `W`, row by row.
    pub fn table(&self) -> Vec<K> {
        let length = |tensor: &Tensor<K>| tensor.iter().map(Weight::log_len).sum::<u32>();
        let mut sum = vec![K::zero(); self.weights.first().map_or(0, |t| 1 << length(t))];
        for tensor in &self.weights {
            add_tensor(&mut sum, tensor, K::one());
        }
        sum
    }
}

/// Adds a multiple of a tensor product to a table that is as long; most tensors of a long sum have few entries.
pub fn add_tensor<K: Scalar>(sum: &mut [K], tensor: &[Weight<K>], scale: K) {
    let Some((first, rest)) = tensor.split_first() else {
        sum.iter_mut().for_each(|s| *s += scale);
        return;
    };
    let size = sum.len() >> first.log_len();
    match first {
        Weight::Sparse(_, entries) => {
            for (i, value) in entries {
                if let Some(slice) = sum.get_mut(i * size..(i + 1) * size) {
                    add_tensor(slice, rest, scale * *value);
                }
            }
        }
        _ if rest.is_empty() => {
            let table = first.table();
            sum.iter_mut().zip(&table).for_each(|(s, v)| *s += scale * *v);
        }
        _ => {
            for (slice, value) in sum.chunks_mut(size.max(1)).zip(first.table()) {
                add_tensor(slice, rest, scale * value);
            }
        }
    }
}

impl<K: Scalar> Group<K> {
    fn in_lanes(self, shape: &Shape) -> Vec<Self> {
        let width = shape.lane_columns(self.part);
        let cuts = shape.cuts(self.part);
        let axes = shape.full_axes(self.part);
        let Self { part, weights, columns } = self;
        let mut terms: Vec<Term<K>> = weights.into_iter().map(|tensor| (tensor, columns.clone())).collect();
        for (i, cut) in cuts.iter().enumerate() {
            // How many columns further the next lane along this axis is.
            let later = cuts.iter().skip(i + 1).map(|cut| cut.lanes);
            let step = width * later.product::<usize>();
            terms = terms
                .into_iter()
                .flat_map(|term| cut_term(term, &axes, *cut, step))
                .collect();
        }
        let mut groups: Vec<Self> = Vec::new();
        // By the first column, the groups that may have the same columns: parts have thousands of lanes, and each lane has its own.
        let mut known: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (tensor, columns) in terms {
            let first = columns.first().map(|(column, k)| (*column, k.words()));
            let alike = known.entry(first).or_default();
            let mut same = alike.iter().copied();
            let same = same.find(|at| groups.get(*at).is_some_and(|group| group.columns == columns));
            match same.and_then(|at| groups.get_mut(at)) {
                Some(same) => same.weights.push(tensor),
                None => {
                    alike.push(groups.len());
                    groups.push(Self::new(part, tensor, columns));
                }
            }
        }
        groups
    }
}

/// A tensor product and the columns under it.
type Term<K> = (Tensor<K>, Vec<(usize, K)>);

/// Cuts a term along one of the axes; the columns of the next lane are `step` further.
fn cut_term<K: Scalar>((mut tensor, own): Term<K>, axes: &[u32], cut: Cut, step: usize) -> Vec<Term<K>> {
    // Taken out, not copied: it is long, and every lane has another one in its place.
    let Some(weight) = tensor
        .get_mut(cut.axis)
        .map(|own| std::mem::replace(own, Weight::Ones(0)))
    else {
        return vec![(tensor, own)];
    };
    // A lane of the weight's own axis and whole axes after it.
    let within = weight.log_len() - axes.get(cut.axis).copied().unwrap_or(0).min(weight.log_len());
    let log_lane = cut.log_lane + within;
    // The columns of a lane, times a factor.
    let columns = |lane: usize, factor: K| {
        let own = own.iter();
        own.map(move |(c, k)| (lane * step + c, *k * factor))
    };
    let with = |weight: Weight<K>, columns: Vec<(usize, K)>| {
        let mut tensor = tensor.clone();
        if let Some(own) = tensor.get_mut(cut.axis) {
            *own = weight;
        }
        (tensor, columns)
    };
    let one = K::one();
    match weight {
        Weight::Eq(point) => {
            let at = point.len().saturating_sub(log_lane as usize);
            let (lane_point, rest) = point.split_at(at);
            let lanes = (0..cut.lanes).flat_map(|lane| columns(lane, index_eq(lane, lane_point)));
            vec![with(Weight::Eq(rest.to_vec()), lanes.collect())]
        }
        Weight::Text(point, end) => {
            let at = point.len().saturating_sub(log_lane as usize);
            let (lane_point, rest) = point.split_at(at);
            // The text fills every lane before the one in which it ends.
            let own = Weight::text(rest, end);
            let last = end.lane_among(point.len(), log_lane);
            let whole = last + usize::from(matches!(own, Weight::Eq(_)));
            let in_lanes = |lanes: Range<usize>| {
                lanes
                    .flat_map(|lane| columns(lane, index_eq(lane, lane_point)))
                    .collect()
            };
            let mut terms = Vec::new();
            if whole > 0 {
                terms.push(with(Weight::Eq(rest.to_vec()), in_lanes(0..whole)));
            }
            if whole == last {
                terms.push(with(own, in_lanes(last..last + 1)));
            }
            terms
        }
        Weight::Ones(_) => {
            let lanes = (0..cut.lanes).flat_map(|lane| columns(lane, one));
            vec![with(Weight::Ones(log_lane), lanes.collect())]
        }
        Weight::Sparse(_, entries) => {
            let with_entries = entries.chunk_by(|(i, _), (j, _)| i >> log_lane == j >> log_lane);
            let lane = |own: &[(usize, K)]| {
                let lane = own.first().map_or(0, |(i, _)| i >> log_lane);
                let within = own.iter().map(|(i, value)| (i - (lane << log_lane), *value));
                (lane, Weight::Sparse(log_lane, within.collect()))
            };
            let lanes = with_entries.map(lane).filter(|(lane, _)| *lane < cut.lanes);
            lanes
                .map(|(lane, weight)| with(weight, columns(lane, one).collect()))
                .collect()
        }
        // Tokens of a block are never cut.
        Weight::Open(..) => vec![with(weight, columns(0, one).collect())],
        Weight::Lazy(lazy) => {
            let lanes = lazy.chunks_of(1 << log_lane).into_iter().take(cut.lanes).enumerate();
            lanes
                .map(|(lane, own)| with(Weight::Lazy(own), columns(lane, one).collect()))
                .collect()
        }
        Weight::Dense(values) => {
            let lanes = values.chunks_of(1 << log_lane).take(cut.lanes).enumerate();
            lanes
                .map(|(lane, own)| with(Weight::Dense(own), columns(lane, one).collect()))
                .collect()
        }
    }
}

/// `sum over groups of <W, sum of coefficient * column> = value + said`. Made by [`crate::wiring`] alone and
/// consumed by [`batch`].
#[must_use = "a claim that is not batched is not proved"]
#[derive(Debug)]
pub struct LinearClaim<K = SecureField> {
    /// What is claimed, for messages.
    pub name: &'static str,
    /// What is summed, part by part.
    pub groups: Vec<Group<K>>,
    /// The claimed sum, less what the prover says of it: public.
    pub value: K,
    /// The value that the prover has to say, if the claimed sum is not public as a whole.
    pub said: Option<Said>,
}

impl<K: Scalar> LinearClaim<K> {
    /// Claims that the groups add up to zero.
    pub fn of(name: &'static str, groups: Vec<Group<K>>) -> Self {
        Self {
            name,
            groups,
            value: K::zero(),
            said: None,
        }
    }

    /// Claims that the groups add up to a public value.
    pub fn of_value(self, value: K) -> Self {
        Self { value, ..self }
    }

    /// Adds a value that the prover says to the claimed sum. An operator calls this once at most, because a claim names one value; no key
    /// and no proof decides how often it is called, so the assertion below is for whoever writes an operator, and releases are without it.
    pub fn and(self, said: Said) -> Self {
        debug_assert!(self.said.is_none(), "{}: two values", self.name);
        Self {
            said: Some(said),
            ..self
        }
    }

    /// Puts the value that the prover said in the place of its name, for tests that look at one claim at a time.
    pub fn settled(self, heard: &Heard<K>) -> Self {
        let said = self.said.and_then(|said| heard.get(said));
        Self {
            value: self.value + said.unwrap_or_default(),
            said: None,
            ..self
        }
    }

    /// The same claim on the columns of all lanes of each part. Groups are made as if a part had one lane that is as
    /// long as its axes.
    pub fn in_lanes(self, shape: &Shape) -> Self {
        let groups = self.groups.into_iter().flat_map(|g| g.in_lanes(shape)).collect();
        Self { groups, ..self }
    }
}

/// All claims as one: `sum over groups = total`, groups with equal weights merged.
#[derive(Debug)]
pub struct Batch<K = SecureField> {
    /// What is summed, part by part.
    pub groups: Vec<Group<K>>,
    /// The claimed sum, less what the prover says of it: public.
    pub value: K,
    /// The values that the prover has to say, each with the power of the challenge that weighs its claim.
    pub said: Vec<(K, Said)>,
}

impl<K: Scalar> Batch<K> {
    /// The claimed sum. `None` if a claim names a value that was not heard.
    pub fn total<V: Clone + From<K> + Add<Output = V> + Mul<K, Output = V>>(&self, heard: &Heard<V>) -> Option<V> {
        let mut said = self.said.iter();
        said.try_fold(V::from(self.value), |sum, (weight, said)| {
            Some(sum + heard.get(*said)? * *weight)
        })
    }

    /// Columns of a part that carry a claim, ascending.
    pub fn columns(&self, part: Part) -> Vec<usize> {
        let mut columns: Vec<usize> = self
            .groups
            .iter()
            .filter(|g| g.part == part)
            .flat_map(|g| g.columns.iter().map(|(c, _)| *c))
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Groups of one part.
    pub fn of(&self, part: Part) -> impl Iterator<Item = &Group<K>> {
        self.groups.iter().filter(move |g| g.part == part)
    }

    /// What weighs the evaluations of the columns of a part at `point` in the end claim of the batch: the sum over the part's
    /// groups of `W~(point)` times the coefficient, for every column that has a claim, ascending.
    pub fn coefficients(&self, part: Part, point: &[K]) -> BTreeMap<usize, K> {
        let mut end = End::new(point);
        let mut sums = BTreeMap::new();
        for group in self.of(part) {
            let weight = end.eval_sum(&group.weights);
            for (column, coefficient) in &group.columns {
                *sums.entry(*column).or_insert_with(K::zero) += weight * *coefficient;
            }
        }
        sums
    }
}

impl<K: Scalar> Batch<K> {
    /// The sum of [`Self::coefficients`] times something of each column, ascending in every group.
    pub fn combined(&self, part: Part, point: &[K], sum: impl Fn(&[(usize, K)]) -> K) -> K {
        let mut end = End::new(point);
        let groups = self.of(part).map(|group| {
            let mut columns = group.columns.clone();
            columns.sort_by_key(|(column, _)| *column);
            end.eval_sum(&group.weights) * sum(&columns)
        });
        groups.collect::<Vec<_>>().into_iter().sum()
    }
}

/// What most tensors differ in that differ at all: equal ones have equal sketches.
pub fn sketch<K: Scalar>(tensor: &[Weight<K>]) -> Vec<(usize, [u32; 4])> {
    let of = |weight: &Weight<K>| match weight {
        Weight::Eq(point) => point.first().map(|k| (0, *k)),
        Weight::Text(point, _) => point.first().map(|k| (4, *k)),
        Weight::Dense(values) => values.first().map(|k| (1, *k)),
        Weight::Lazy(lazy) => lazy.weights().first().map(|k| (3, *k)),
        Weight::Ones(_) => None,
        Weight::Sparse(_, entries) => entries.first().map(|(i, k)| (*i, *k)),
        Weight::Open(row, ..) => row.first().map(|k| (2, *k)),
    };
    let words = |(i, k): (usize, K)| (i, k.words());
    tensor.iter().filter_map(of).map(words).collect()
}

/// Batches claims with the powers of a challenge drawn after all of them are fixed.
pub fn batch<K: Scalar>(claims: Vec<LinearClaim<K>>, challenge: K) -> Batch<K> {
    let mut groups: Vec<Group<K>> = Vec::new();
    // Groups that may be alike: there are thousands, and weights are long.
    let mut known: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let mut value = K::zero();
    let mut said = Vec::new();
    let mut power = K::one();
    for claim in claims {
        value += power * claim.value;
        said.extend(claim.said.map(|said| (power, said)));
        for mut group in claim.groups {
            for (_, coefficient) in &mut group.columns {
                *coefficient *= power;
            }
            let first = group.weights.first().map(|tensor| sketch(tensor));
            let alike = known.entry((group.part, first)).or_default();
            let mut same = alike.iter().copied();
            let same = same.find(|at| groups.get(*at).is_some_and(|g| g.weights == group.weights));
            match same.and_then(|at| groups.get_mut(at)) {
                Some(same) => same.columns.append(&mut group.columns),
                None => {
                    alike.push(groups.len());
                    groups.push(group);
                }
            }
        }
        power *= challenge;
    }
    Batch { groups, value, said }
}
