//! Trees of fractions of lookups. The trees of a group are built from their leaves to their roots, then proved from their roots to their
//! leaves, layer by layer in place, each in an arena that it shares with a tree of every other group. Leaves are made from the columns,
//! and the fractions of two and of four leaves from these; none of them are kept.

use std::ops::Range;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::shape::Part;
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::{groups, LookupTree};
use tessera_verifier::gkr::weights;

use super::leaves::{top, Leaves};
use super::rounds::{add_terms, Eq, Form, Fractions, Shifted, Tables, BLOCK};
use crate::column::Column;
use crate::device::{DeviceError, Entries, Layers, Rounds};
use crate::field::{pack, Factor, Packed, Sum, LOG_LANES};

type K = SecureField;

/// Numerators and denominators.
type Layer<T> = [T; 2];

/// Vectors of the arena of a tree: of all layers that are kept, where the largest has `2^top` nodes, and then of the tables of each
/// layer that is made again, which take as much or half of that.
fn arena_size(top: u32) -> usize {
    1 << (top - 2)
}

/// The sizes of all arenas: the first trees of groups share one, the second ones another. Of every tree these are log2 of its leaves, and of
/// the nodes of the largest layer that is kept.
fn arenas(trees: &[[u32; 2]]) -> Vec<usize> {
    let logs: Vec<u32> = trees.iter().map(|[log, _]| *log).collect();
    let mut sizes = Vec::new();
    for group in groups(&logs) {
        sizes.resize(sizes.len().max(group.len()), 0);
        for (size, [_, top]) in sizes.iter_mut().zip(&trees[group]) {
            *size = arena_size(*top).max(*size);
        }
    }
    sizes
}

/// Bytes that the proof of trees takes beside the columns.
pub fn arena_bytes(trees: &[LookupTree], tables: Option<&TableTree>) -> u64 {
    let own = trees.iter().map(LookupTree::log_leaves).map(|log| [log, top(log)]);
    // All layers of the tables are kept, and their leaves once more.
    let tables = tables.map(TableTree::log_leaves);
    let leaves = tables.map_or(0, |log| 2 << (log - LOG_LANES));
    let sizes = arenas(&own.chain(tables.map(|log| [log, log])).collect::<Vec<_>>());
    ((sizes.iter().sum::<usize>() + leaves) * size_of::<Packed>()) as u64
}

/// The trees of some columns. A layer of `2^k` nodes is in vectors if `k` is at least [`LOG_LANES`].
pub struct Trees<'a> {
    leaves: Vec<Source<'a>>,
    /// The first of the trees that are built.
    first: usize,
    /// These, and room for as many as the largest group has.
    built: Vec<Built>,
}

/// What the leaves of a tree are.
enum Source<'a> {
    /// Lookups, made from the columns where they are needed.
    Lookups(Leaves<'a>),
    /// Entries of the tables: numerators and denominators, in vectors.
    Entries(Layer<Vec<Packed>>),
}

impl<'a> Source<'a> {
    fn of_tables(entries: &Entries<'_>, columns: &[Vec<Column>], relations: &Relations) -> Self {
        let counts: Vec<_> = columns[Part::COUNTS.index()].iter().map(Column::cells).collect();
        let leaves = entries.leaves(relations, |column, row| counts[column].get(row));
        let size = 1 << (entries.tree.log_leaves() - LOG_LANES);
        let mut paddings = [K::zero(), K::one()].into_iter();
        Self::Entries(leaves.map(|own| {
            let mut packed = pack(&own);
            packed.resize(size, Packed::broadcast(paddings.next().unwrap_or_default()));
            packed
        }))
    }

    /// log2 of the leaves.
    fn log(&self) -> u32 {
        match self {
            Self::Lookups(leaves) => leaves.log,
            Self::Entries([numerators, _]) => numerators.len().trailing_zeros() + LOG_LANES,
        }
    }

    /// log2 of the nodes of the largest layer that is kept.
    fn top(&self) -> u32 {
        match self {
            Self::Lookups(leaves) => leaves.top(),
            Self::Entries(_) => self.log(),
        }
    }

    /// Makes the largest layer that is kept.
    fn add(&self, layer: Layer<&mut [Packed]>) {
        match self {
            Self::Lookups(leaves) => add_leaves(leaves, layer),
            Self::Entries(own) => {
                let pairs = layer.into_iter().zip(own);
                pairs.for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
    }
}

/// The layers of a tree.
struct Built {
    /// In vectors, the largest first, numerators before denominators; when these are proved, the tables of a layer that is made again.
    arena: Box<[Packed]>,
    /// Below one vector, from the root on, and the first one in vectors.
    small: Vec<Layer<Vec<K>>>,
}

/// Splits a layer.
fn halves<T>(table: &mut [T]) -> [&mut [T]; 2] {
    table.split_at_mut(table.len() / 2).into()
}

impl<'a> Trees<'a> {
    /// Makes room for the largest group of some trees in these columns.
    ///
    /// # Panics
    /// If a plane has less than `2^6` rows.
    pub fn new(
        trees: &[LookupTree],
        entries: Option<&Entries<'_>>,
        columns: &'a [Vec<Column>],
        relations: &Relations,
    ) -> Self {
        let leaves = trees.iter().map(|tree| Leaves::new(tree, columns, relations));
        let entries = entries.map(|own| Source::of_tables(own, columns, relations));
        let leaves: Vec<Source<'_>> = leaves.map(Source::Lookups).chain(entries).collect();
        let sizes = arenas(&leaves.iter().map(|own| [own.log(), own.top()]).collect::<Vec<_>>());
        let built = sizes.into_iter().map(|size| Built {
            arena: Packed::zeros(size),
            small: Vec::new(),
        });
        Self {
            leaves,
            first: 0,
            built: built.collect(),
        }
    }
}

impl Built {
    /// Builds the tree of some leaves; returns numerator and denominator of its root.
    fn root(&mut self, leaves: &Source<'_>) -> [K; 2] {
        let top = leaves.top();
        let mut rest = &mut self.arena[..arena_size(top)];
        let mut below: Option<Layer<&[Packed]>> = None;
        for k in (LOG_LANES..=top).rev() {
            let (own, next) = rest.split_at_mut(1 << (k + 1 - LOG_LANES));
            let [numerators, denominators] = halves(own);
            match below {
                Some(below) => add(below, [&mut *numerators, &mut *denominators]),
                None => leaves.add([&mut *numerators, &mut *denominators]),
            }
            below = Some([numerators, denominators]);
            rest = next;
        }
        let unpack = |layer: &[Packed]| layer.iter().flat_map(|v| v.to_array()).collect();
        let mut small: Vec<Layer<Vec<K>>> = vec![below.unwrap_or_default().map(unpack)];
        while let Some([n, d]) = small.last().filter(|[n, _]| n.len() > 1) {
            let half = n.len() / 2;
            let numerators = (0..half).map(|x| n[x] * d[x + half] + n[x + half] * d[x]);
            let denominators = (0..half).map(|x| d[x] * d[x + half]);
            let parent = [numerators.collect(), denominators.collect()];
            small.push(parent);
        }
        small.reverse();
        let root = [small[0][0][0], small[0][1][0]];
        self.small = small;
        root
    }

    /// The rounds of a layer of this tree.
    fn layer<'a>(&'a mut self, leaves: &'a Source<'a>, point: &'a [K], lambda: K) -> Box<dyn Rounds + 'a> {
        let (arena, k) = (&mut self.arena, point.len() as u32);
        if let Some([n, d]) = self.small.get_mut(point.len() + 1) {
            return single([n, d].map(std::mem::take), point, lambda);
        }
        if k < leaves.top() {
            let start = (1 << (leaves.top() - 2)) - (1 << (k - 1));
            let [n, d] = halves(&mut arena[start..][..1 << (k + 2 - LOG_LANES)]);
            let ([n0, n1], [d0, d1]) = (halves(n), halves(d));
            return Box::new(Tables::packed(Fractions::new(lambda), point, 0, [n0, d0, n1, d1]));
        }
        let Source::Lookups(leaves) = leaves else {
            unreachable!("all layers of the tables are kept");
        };
        match leaves.log - k {
            1 => Box::new(Late::new(leaves, Shifted::new(lambda), point, arena)),
            2 => Box::new(Late::new(leaves, Fractions::new(lambda), point, arena)),
            _ => Box::new(Fours::new(leaves, Fractions::new(lambda), point, arena)),
        }
    }
}

impl Layers for Trees<'_> {
    fn roots(&mut self, trees: Range<usize>) -> Result<Vec<[K; 2]>, DeviceError> {
        self.first = trees.start;
        let own = self.leaves[trees].iter().zip(&mut self.built);
        Ok(own.map(|(leaves, built)| built.root(leaves)).collect())
    }

    fn layer<'a>(
        &'a mut self,
        trees: &[usize],
        point: &'a [K],
        lambda: K,
    ) -> Result<Box<dyn Rounds + 'a>, DeviceError> {
        let own = self.leaves[self.first..].iter().zip(&mut self.built).enumerate();
        let own = own.filter(|(i, _)| trees.contains(&(self.first + i)));
        let rounds = own.map(|(_, (leaves, built))| built.layer(leaves, point, lambda));
        Ok(Box::new(Group {
            rounds: weights(lambda).zip(rounds).collect(),
        }))
    }
}

/// The rounds of several trees, each with its weight.
struct Group<'a> {
    rounds: Vec<(K, Box<dyn Rounds + 'a>)>,
}

/// The sum of messages with their weights.
fn add_messages(messages: impl Iterator<Item = Result<(K, [K; 2]), DeviceError>>) -> Result<[K; 2], DeviceError> {
    let mut sum = [K::default(); 2];
    for own in messages {
        let (weight, message) = own?;
        sum = [sum[0] + weight * message[0], sum[1] + weight * message[1]];
    }
    Ok(sum)
}

impl Rounds for Group<'_> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        add_messages(self.rounds.iter().map(|(weight, own)| Ok((*weight, own.message()?))))
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        let bound = self.rounds.iter_mut();
        add_messages(bound.map(|(weight, own)| Ok((*weight, own.bind(challenge)?))))
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        let left: Result<Vec<Vec<K>>, DeviceError> = self.rounds.iter().map(|(_, own)| own.finish()).collect();
        Ok(left?.concat())
    }
}

/// The rounds to a layer of elements.
fn single([mut n, mut d]: Layer<Vec<K>>, point: &[K], lambda: K) -> Box<dyn Rounds + '_> {
    let half = n.len() / 2;
    let (n1, d1) = (n.split_off(half), d.split_off(half));
    let m1 = n1.iter().zip(&d1).map(|(n, d)| *n + lambda * *d).collect();
    Box::new(Tables::single(Fractions::new(lambda), point, 0, [n, d, m1, d1]))
}

impl<F: Form<T>, const T: usize> Rounds for Tables<'_, F, T> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        Ok(Tables::message(self))
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        Ok(Tables::bind(self, challenge))
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        Ok(self.children().into())
    }
}

/// The rounds over tables of fractions of four leaves, which are made with the first message.
struct Fours<'a> {
    tables: Tables<'a, Fractions, 4>,
    first: [K; 2],
}

impl<'a> Fours<'a> {
    fn new(leaves: &Leaves<'_>, form: Fractions, point: &'a [K], arena: &'a mut [Packed]) -> Self {
        let (tables, first) = make(leaves, form, &point[1..], arena, |leaves: &[&[Packed]; 16], at| {
            // By the two bits that a fraction sums over, the half, and the first variable.
            let mut tables = [[Packed::ZERO; 4]; 2];
            for (variable, [n0, d0, n1, d1]) in tables.iter_mut().enumerate() {
                [*n0, *d0] = four(leaves, variable, at);
                [*n1, *d1] = four(leaves, 2 + variable, at);
            }
            tables
        });
        Self {
            tables: Tables::begun(form, point, 0, tables),
            first,
        }
    }
}

impl Rounds for Fours<'_> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        Ok(self.first)
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        Ok(self.tables.bind(challenge))
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        self.tables.finish()
    }
}

/// A form whose tables are made of leaves where they are needed.
trait OfLeaves<const T: usize>: Form<T> {
    /// The message of the first variable; `rest` are the coordinates behind it.
    fn first(self, leaves: &Leaves<'_>, rest: &[K]) -> [K; 2];

    /// The tables with the first variable bound, and the message of the second; `rest` are the coordinates behind it.
    fn bound<'a>(self, leaves: &Leaves<'_>, c: K, rest: &[K], arena: &'a mut [Packed]) -> Begun<'a, T>;
}

/// Tables, and the message of their first variable.
type Begun<'a, const T: usize> = ([&'a mut [Packed]; T], [K; 2]);

/// Makes tables of leaves in `N` pieces, for which the form has begun, and the message of their first variable; `rest` are the
/// coordinates behind it. `values` are the entries with this variable at 0 and at 1, without what the form begins with.
fn make<'a, const T: usize, const N: usize>(
    leaves: &Leaves<'_>,
    form: impl Form<T>,
    rest: &[K],
    arena: &'a mut [Packed],
    values: impl Fn(&[&[Packed]; N], usize) -> [[Packed; T]; 2] + Sync,
) -> Begun<'a, T> {
    let piece = (1usize << (leaves.log - LOG_LANES)) / N;
    let starts = std::array::from_fn(|i| i * piece);
    let mut places = arena.chunks_exact_mut(2 * piece);
    let mut tables: [&mut [Packed]; T] = std::array::from_fn(|_| places.next().expect("room for all tables"));
    let eq = Eq::new(rest);
    let mut blocks = tables.each_mut().map(|table| {
        let [low, high] = halves(table);
        low.chunks_mut(eq.width()).zip(high.chunks_mut(eq.width()))
    });
    let next = |_| {
        let next = |table: &mut _| Iterator::next(table).expect("a block of every table");
        blocks.each_mut().map(next)
    };
    let own = (0..piece.div_ceil(eq.width())).map(next).collect();
    let message = eq.message_of(own, |first, mut own: [(&mut [Packed], &mut [Packed]); T], weights| {
        let mut sums = [Sum::ZERO; 2];
        leaves.block(first, starts, weights.len(), |at, leaves| {
            for (i, weight) in weights[at..][..leaves[0].len()].iter().enumerate() {
                let [low, high] = values(&leaves, i);
                let (low, high) = (form.begin(low), form.begin(high));
                for t in 0..T {
                    (own[t].0[at + i], own[t].1[at + i]) = (low[t], high[t]);
                }
                add_terms(&mut sums, form, *weight, low, high);
            }
        });
        sums
    });
    (tables, message)
}

/// The rounds over tables that are made once the first variable is bound.
enum Late<'a, F, const T: usize> {
    Waiting {
        leaves: &'a Leaves<'a>,
        form: F,
        point: &'a [K],
        arena: &'a mut [Packed],
    },
    Made(Tables<'a, F, T>),
}

impl<'a, F: OfLeaves<T>, const T: usize> Late<'a, F, T> {
    fn new(leaves: &'a Leaves<'a>, form: F, point: &'a [K], arena: &'a mut [Packed]) -> Self {
        Self::Waiting {
            leaves,
            form,
            point,
            arena,
        }
    }
}

impl<F: OfLeaves<T>, const T: usize> Rounds for Late<'_, F, T> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        Ok(match self {
            Self::Waiting {
                leaves, form, point, ..
            } => form.message(form.first(leaves, &point[1..])),
            Self::Made(tables) => tables.message(),
        })
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        match self {
            Self::Waiting {
                leaves,
                form,
                point,
                arena,
            } => {
                let (tables, message) = form.bound(leaves, challenge, &point[2..], std::mem::take(arena));
                let message = form.message(message);
                *self = Self::Made(Tables::begun(*form, point, 1, tables));
                Ok(message)
            }
            Self::Made(tables) => Ok(tables.bind(challenge)),
        }
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        match self {
            Self::Made(tables) => tables.finish(),
            Self::Waiting { .. } => unreachable!("variables that are not bound"),
        }
    }
}

/// Makes tables of the fractions of two leaves.
impl OfLeaves<4> for Fractions {
    fn first(self, leaves: &Leaves<'_>, rest: &[K]) -> [K; 2] {
        let eighth = 1usize << (leaves.log - 3 - LOG_LANES);
        let starts = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| i * eighth);
        Eq::new(rest).message(|first, weights| {
            let mut sums = [Sum::ZERO; 2];
            leaves.block(first, starts, weights.len(), |at, leaves| {
                for (i, weight) in weights[at..][..leaves[0].len()].iter().enumerate() {
                    let [first, second] = fractions(&leaves, 0, i);
                    add_terms(&mut sums, self, *weight, self.begin(first), self.begin(second));
                }
            });
            sums
        })
    }

    fn bound<'a>(self, leaves: &Leaves<'_>, c: K, rest: &[K], arena: &'a mut [Packed]) -> Begun<'a, 4> {
        let c = Factor::new(c);
        make(leaves, self, rest, arena, |leaves: &[&[Packed]; 16], at| {
            let mut tables = [[Packed::ZERO; 4]; 2];
            for (second, tables) in tables.iter_mut().enumerate() {
                let [low, high] = fractions(leaves, second, at);
                for (t, table) in tables.iter_mut().enumerate() {
                    *table = low[t] + (high[t] - low[t]) * c;
                }
            }
            tables
        })
    }
}

/// Makes tables of leaves with the numerator one.
impl OfLeaves<2> for Shifted {
    fn first(self, leaves: &Leaves<'_>, rest: &[K]) -> [K; 2] {
        let quarter = 1usize << (leaves.log - 2 - LOG_LANES);
        let (starts, shift) = ([0, 1, 2, 3].map(|i| i * quarter), self.shift());
        Eq::new(rest).message(|first, weights| {
            let mut sums = [Sum::ZERO; 2];
            leaves.block(first, starts, weights.len(), |at, [a0, a1, b0, b1]| {
                for (i, weight) in weights[at..][..a0.len()].iter().enumerate() {
                    sums[0].add(*weight, (a0[i] + shift) * (b0[i] + shift));
                    sums[1].add(*weight, (a1[i] - a0[i]) * (b1[i] - b0[i]));
                }
            });
            sums
        })
    }

    fn bound<'a>(self, leaves: &Leaves<'_>, c: K, rest: &[K], arena: &'a mut [Packed]) -> Begun<'a, 2> {
        let (c, shift) = (Factor::new(c), self.shift());
        make(leaves, self, rest, arena, |leaves: &[&[Packed]; 8], at| {
            let bound = |low: usize| leaves[low][at] + (leaves[low + 2][at] - leaves[low][at]) * c + shift;
            [[bound(0), bound(4)], [bound(1), bound(5)]]
        })
    }
}

/// The layer above one in vectors.
fn add([n, d]: Layer<&[Packed]>, [numerators, denominators]: Layer<&mut [Packed]>) {
    let half = numerators.len();
    let blocks = numerators.par_chunks_mut(BLOCK).zip(denominators.par_chunks_mut(BLOCK));
    blocks.enumerate().for_each(|(i, (numerators, denominators))| {
        let at = i * BLOCK;
        for (j, (numerator, denominator)) in numerators.iter_mut().zip(denominators).enumerate() {
            let (x, y) = (at + j, at + j + half);
            *numerator = Packed::dot([n[x], n[y]], [d[y], d[x]]);
            *denominator = d[x] * d[y];
        }
    });
}

/// The fraction that two leaves with the numerator one add up to.
#[inline(always)]
fn pair(low: Packed, high: Packed) -> [Packed; 2] {
    [low + high, low * high]
}

/// The fraction that four leaves with the numerator one add up to. The first two bits of a leaf's piece are those that are summed
/// over; the others are `own`.
#[inline(always)]
fn four<const N: usize>(leaves: &[&[Packed]; N], own: usize, at: usize) -> [Packed; 2] {
    let step = N / 4;
    let [n0, d0] = pair(leaves[own][at], leaves[own + 2 * step][at]);
    let [n1, d1] = pair(leaves[own + step][at], leaves[own + 3 * step][at]);
    [Packed::dot([n0, n1], [d1, d0]), d0 * d1]
}

/// Numerators and denominators of the low and of the high half of the fractions of two leaves, with the first variable at 0 and
/// at 1. The bits of a leaf's piece are the one that is summed over, the half, the variable, and then `own`.
// Loops, as closures here are not inlined.
#[inline(always)]
fn fractions<const N: usize>(leaves: &[&[Packed]; N], own: usize, at: usize) -> [[Packed; 4]; 2] {
    let mut tables = [[Packed::ZERO; 4]; 2];
    for (variable, tables) in tables.iter_mut().enumerate() {
        for half in 0..2 {
            let low = (2 * half + variable) * N / 8 + own;
            let fraction = pair(leaves[low][at], leaves[low + N / 2][at]);
            (tables[2 * half], tables[2 * half + 1]) = (fraction[0], fraction[1]);
        }
    }
    tables
}

/// The largest layer that is kept, from leaves with the numerator one: of a small tree these themselves, of another one the fractions
/// of eight.
fn add_leaves(leaves: &Leaves<'_>, [numerators, denominators]: Layer<&mut [Packed]>) {
    if leaves.top() == leaves.log {
        numerators.fill(Packed::broadcast(K::one()));
        leaves.block(0, [0], denominators.len(), |at, [own]| {
            denominators[at..][..own.len()].copy_from_slice(own)
        });
        return;
    }
    let starts = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| i * numerators.len());
    let blocks = numerators.par_chunks_mut(BLOCK).zip(denominators.par_chunks_mut(BLOCK));
    blocks.enumerate().for_each(|(i, (numerators, denominators))| {
        leaves.block(i * BLOCK, starts, numerators.len(), |at, leaves| {
            let nodes = numerators[at..][..leaves[0].len()]
                .iter_mut()
                .zip(&mut denominators[at..]);
            for (j, (numerator, denominator)) in nodes.enumerate() {
                let ([n0, d0], [n1, d1]) = (four(&leaves, 0, j), four(&leaves, 1, j));
                *numerator = Packed::dot([n0, n1], [d1, d0]);
                *denominator = d0 * d1;
            }
        });
    });
}
