//! Linear claims on the committed columns (docs/protocol.md, sections 7 and 16): everything that crosses rows.
//! A claim says `sum of <W, column> = value` where each `W` is a sum of tensor products of one weight vector per
//! axis of the part's row index. Both sides derive the same list; the prover proves it with one batched
//! sumcheck, the verifier evaluates the `W` itself.

mod lazy;
mod operands;
mod said;
mod values;

use std::collections::BTreeMap;
use std::ops::{Add, Mul, Range};

use stwo::core::fields::qm31::SecureField;

use crate::band::Band;
use crate::mle::{eq_eval, eq_table, index_eq};
use crate::scalar::{Corner, Scalar, Word};
use crate::shape::{Cut, Part, Shape};
use crate::text::{products, TextEnd};

use self::lazy::Products;
pub use self::lazy::{Factor, Lazy, Residual, Scaled};
pub use self::operands::{Operands, PLACES};
pub use self::said::{Heard, Said};
pub use self::values::Values;

/// Weights along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Weight<K = SecureField> {
    /// `eq(point, .)`
    Eq(Vec<K>),
    /// `eq(point, .)` on the rows of the text, zero behind it, over `2^k` token rows that have its last one.
    Text(Vec<K>, TextEnd),
    /// An explicit vector, of power-of-two length.
    Dense(Values<K>),
    /// A vector that a list of the key makes of another one.
    Lazy(Lazy<K>),
    /// All ones, over `2^log` entries.
    Ones(u32),
    /// These entries of `2^log`, ascending, zero elsewhere. Lanes without an entry have no group.
    Sparse(u32, Vec<(usize, K)>),
    /// `eq(row, i) eq(key, j)` on the pairs of a band, zero elsewhere, over the queries `i` and the keys `j` of a pair of blocks of tokens, which
    /// are two axes of equal length. With the end of the text, the block of the queries is its last one, and the weight is zero where `i` is
    /// behind the text.
    Open(Vec<K>, Vec<K>, Band, Option<TextEnd>),
}

impl<K: Scalar> Weight<K> {
    /// An explicit vector, of power-of-two length.
    pub fn dense(values: Vec<K>) -> Self {
        Self::Dense(values.into())
    }

    /// A vector that a list of the key makes of another one. Symbols have all of it, as a plan is what is calculated once.
    pub fn made(lazy: Lazy<K>) -> Self {
        match K::SYMBOLIC {
            true => Self::dense(lazy.table()),
            false => Self::Lazy(lazy),
        }
    }

    /// `eq(point, .)` on the rows of the text.
    pub fn text(point: &[K], end: TextEnd) -> Self {
        match end.is_whole::<K>(point.len()) {
            true => Self::Eq(point.to_vec()),
            false => Self::Text(point.to_vec(), end),
        }
    }

    /// `eq(word, .)` over `2^log` entries.
    pub fn one_at(log: u32, word: Word) -> Self {
        match K::corner(log, word) {
            Corner::Index(index) => Self::Sparse(log, vec![(index, K::one())]),
            Corner::Point(point) => Self::Eq(point),
        }
    }

    /// log2 of the length.
    pub fn log_len(&self) -> u32 {
        match self {
            Self::Eq(point) | Self::Text(point, _) => point.len() as u32,
            Self::Dense(values) => values.len().next_power_of_two().trailing_zeros(),
            Self::Lazy(lazy) => lazy.weights().len().next_power_of_two().trailing_zeros(),
            Self::Ones(log) | Self::Sparse(log, _) => *log,
            Self::Open(row, key, ..) => (row.len() + key.len()) as u32,
        }
    }

    /// All weights.
    pub fn table(&self) -> Vec<K> {
        match self {
            Self::Eq(point) => eq_table(point),
            Self::Text(point, end) => end.cut(eq_table(point)),
            Self::Dense(values) => values.to_vec(),
            Self::Lazy(lazy) => lazy.table(),
            Self::Ones(log) => vec![K::one(); 1 << log],
            Self::Sparse(log, entries) => {
                let mut table = vec![K::zero(); 1 << log];
                for (i, value) in entries {
                    if let Some(own) = table.get_mut(*i) {
                        *own = *value;
                    }
                }
                table
            }
            Self::Open(row, key, band, end) => {
                let keys = eq_table(key);
                let rows = eq_table(row);
                let rows = end.map_or(rows.clone(), |end| end.cut(rows)).into_iter().enumerate();
                let of_row = |(i, w): (usize, K)| {
                    let open = move |j: usize, v: K| if band.has(i, j) { w * v } else { K::zero() };
                    keys.iter()
                        .enumerate()
                        .map(move |(j, v)| open(j, *v))
                        .collect::<Vec<_>>()
                };
                rows.flat_map(of_row).collect()
            }
        }
    }

    /// One weight.
    pub fn at(&self, index: usize) -> K {
        match self {
            Self::Eq(point) => index_eq(index, point),
            Self::Text(point, end) => match end.has(index, point.len()) {
                true => index_eq(index, point),
                false => K::zero(),
            },
            Self::Dense(values) => values.get(index).copied().unwrap_or_default(),
            Self::Lazy(lazy) => lazy.at(index),
            Self::Ones(_) => K::one(),
            Self::Sparse(_, entries) => {
                let own = entries.binary_search_by_key(&index, |(i, _)| *i).ok();
                own.and_then(|at| entries.get(at))
                    .map_or(K::zero(), |(_, value)| *value)
            }
            Self::Open(row, key, band, end) => {
                let (i, j) = (index >> key.len(), index & ((1 << key.len()) - 1));
                match band.has(i, j) && end.is_none_or(|end| end.has(i, row.len())) {
                    true => index_eq(i, row) * index_eq(j, key),
                    false => K::zero(),
                }
            }
        }
    }
}

/// `sum_(j <= i) eq(a, i) eq(u, i) eq(b, j) eq(v, j)`, bit by bit from the first: with the bits of `i` and `j` equal so far, or `j`
/// below `i`.
fn causal<K: Scalar>(a: &[K], b: &[K], u: &[K], v: &[K]) -> K {
    let one = K::one();
    let (mut equal, mut below) = (one, K::zero());
    for ((a, u), (b, v)) in a.iter().zip(u).zip(b.iter().zip(v)) {
        let [i0, i1] = [(one - *a) * (one - *u), *a * *u];
        let [j0, j1] = [(one - *b) * (one - *v), *b * *v];
        below = below * (i0 + i1) * (j0 + j1) + equal * i1 * j0;
        equal *= i0 * j0 + i1 * j1;
    }
    equal + below
}

/// Whether so many entries of a table of `2^length` take fewer products one by one than all of them do.
const fn is_few(entries: usize, length: usize) -> bool {
    entries * length < 1 << length
}

/// A point at which many weights are evaluated: the tables of `eq` of its ranges are made once.
struct End<'a, K> {
    point: &'a [K],
    tables: BTreeMap<(usize, usize), Vec<K>>,
    products: Products<K>,
}

impl<'a, K: Scalar> End<'a, K> {
    const fn new(point: &'a [K]) -> Self {
        Self {
            point,
            tables: BTreeMap::new(),
            products: Products::new(),
        }
    }

    /// Multilinear extension of a weight at the coordinates from `start` on; zero where there are too few, which does not
    /// happen, as weights have the lengths of axes.
    fn eval(&mut self, weight: &Weight<K>, start: usize) -> K {
        let length = weight.log_len() as usize;
        let Some(own) = self.point.get(start..start + length) else {
            return K::zero();
        };
        let zero = K::zero();
        match weight {
            Weight::Eq(point) => eq_eval(point, own).unwrap_or_default(),
            Weight::Text(point, end) => end.eval(point, own),
            // Few entries are cheaper one by one than in a table of all.
            Weight::Dense(values) if is_few(values.iter().filter(|value| !value.is_zero()).count(), length) => {
                let set = values.iter().enumerate().filter(|(_, value)| !value.is_zero());
                set.map(|(i, value)| *value * index_eq(i, own)).sum()
            }
            Weight::Dense(values) => K::dot(values, self.table(start, own)),
            Weight::Lazy(lazy) => {
                let table = self.tables.entry((start, own.len()));
                let table = table.or_insert_with(|| eq_table(own));
                lazy.dot(table, start, &mut self.products)
            }
            Weight::Ones(_) => K::one(),
            Weight::Sparse(_, entries) if is_few(entries.len(), length) => {
                entries.iter().map(|(i, value)| *value * index_eq(*i, own)).sum()
            }
            Weight::Sparse(_, entries) => {
                let table = self.table(start, own);
                let terms = entries.iter().filter_map(|(i, value)| Some(*value * *table.get(*i)?));
                terms.fold(zero, |sum, term| sum + term)
            }
            Weight::Open(row, key, band, end) => {
                let (u, v) = own.split_at(row.len().min(own.len()));
                match (*band, end) {
                    (Band::CAUSAL, Some(end)) => end.causal([row, key], [u, v]),
                    (Band::CAUSAL, None) => causal(row, key, u, v),
                    _ => band.sum(&products(row, u), &products(key, v), *end),
                }
            }
        }
    }

    /// `eq(own, .)`, of the coordinates from `start` on.
    fn table(&mut self, start: usize, own: &[K]) -> &[K] {
        let table = self.tables.entry((start, own.len()));
        table.or_insert_with(|| eq_table(own))
    }

    /// `W~` of a sum of tensor products.
    fn eval_sum(&mut self, tensors: &[Tensor<K>]) -> K {
        let mut sum = K::zero();
        for tensor in tensors {
            let mut start = 0;
            let factors = tensor.iter().map(|weight| {
                let own = self.eval(weight, start);
                start += weight.log_len() as usize;
                own
            });
            sum += K::product(&factors.collect::<Vec<_>>());
        }
        sum
    }
}

/// A tensor product: one weight per axis of a part, or for an axis and those after it together.
pub type Tensor<K = SecureField> = Vec<Weight<K>>;

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
