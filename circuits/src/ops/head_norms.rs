//! Norms of heads (docs/protocol.md, section 16.11): of queries and keys, before they are rotated. One row per (layer, token, head).

use stwo::core::fields::qm31::SecureField;

use crate::air::base;
use crate::claims::{Group, LinearClaim};
use crate::mle::eq_table;
use crate::model::{HeadNorm, MatmulKind, NormParams};
use crate::rounding::{Rounded, PADDED_EXPONENT};
use crate::scalar::Scalar;
use crate::shape::{Instance, Part, Product, Rows, Shape};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::wiring::{claim, eq, felt, padded, times, Claims, Points, Public, Rounding};

use super::norms::{
    bound_value, columns, epsilon_value, quotient_columns, root_columns, square_columns, NormWeights, RootFactors,
    ROOT_FACTORS,
};
use super::operator::{Finals, Operator};

/// The norms of queries or of keys, where heads are normed.
pub struct HeadNorms(pub Part);

impl Part {
    /// (layer, token, head), where heads are normed
    pub const Q_NORMS: Self = Self::new(10, "QNorms");
    /// (layer, token, key/value head), where heads are normed
    pub const K_NORMS: Self = Self::new(11, "KNorms");
}

impl Product {
    /// Queries times themselves, entry by entry, where heads are normed; variables (layer, token, head, half, index).
    pub const QUERY_SQUARE: Self = Self::new(12, "QuerySquare");
    /// Of every head of queries that is normed what [`Self::ROOT`] has of a state; variables (layer, token, head, which of these).
    pub const QUERY_ROOT: Self = Self::new(13, "QueryRoot");
    /// As [`Self::QUERY_SQUARE`], of keys.
    pub const KEY_SQUARE: Self = Self::new(14, "KeySquare");
    /// As [`Self::QUERY_ROOT`], of keys.
    pub const KEY_ROOT: Self = Self::new(15, "KeyRoot");
}

/// The numbers of the products among the accumulators: squares, normed values, quotients, roots.
fn numbers(part: Part) -> [usize; 4] {
    match part {
        Part::Q => [18, 19, 20, 21],
        _ => [22, 23, 24, 25],
    }
}

impl<K: Scalar> Points<K> {
    /// Weights of the products of the norms of queries or of keys.
    pub(super) fn head_norms(&self, part: Part) -> NormWeights<K> {
        NormWeights::new(self, numbers(part))
    }
}

/// The products of the norms of queries or keys: squares and reciprocal roots.
fn products(part: Part) -> [Product; 2] {
    match part {
        Part::Q => [Product::QUERY_SQUARE, Product::QUERY_ROOT],
        _ => [Product::KEY_SQUARE, Product::KEY_ROOT],
    }
}

impl<K: Scalar> Operator<K> for HeadNorms {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (config, p) = (&sizes.config, &sizes.padded);
        let (part, heads, heads_log) = match self.0 {
            Part::Q => (Part::Q_NORMS, config.heads, p.heads),
            _ => (Part::K_NORMS, config.kv_heads, p.kv_heads),
        };
        let own = config.head_norms.then(|| Rows {
            part,
            axes: vec![p.layers, sizes.token, heads_log],
            extents: vec![Extent::of(0, config.layers), sizes.tokens(1), Extent::of(2, heads)],
            of_text: of_second_axis,
            air: columns(),
            shifts: Vec::new(),
        });
        own.into_iter().collect()
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        let (p, part) = (&shape.padded, self.0);
        let [square, root] = products(part);
        let (norms, width, heads) = match part {
            Part::Q => (Part::Q_NORMS, p.q(), p.heads),
            _ => (Part::K_NORMS, p.kv(), p.kv_heads),
        };
        let own = |product, variables| Instance {
            product,
            variables: shape.config.head_norms.then_some(variables),
            weights: None,
        };
        vec![
            own(square, shape.lead(part) + shape.token + width),
            own(root, shape.lead(norms) + shape.token + heads + ROOT_FACTORS),
        ]
    }

    fn numbers(&self, sizes: &Sizes) -> Vec<usize> {
        match sizes.config.head_norms {
            true => numbers(self.0).to_vec(),
            false => Vec::new(),
        }
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        if public.shape.config.head_norms {
            public.head_norms(claims, self.0);
        }
    }

    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        let own = public.normed_heads(self.0);
        let [square, root] = products(self.0);
        let mut claims = finals.claims(square, |at| public.head_squares(&own, at));
        claims.extend(finals.claims(root, |at| public.head_roots(&own, at)));
        claims
    }
}

/// Queries or keys whose heads are normed, and the random point of their channels.
pub struct NormedHeads<'a, K = SecureField> {
    /// The heads.
    pub part: Part,
    /// Their norms.
    pub norms: Part,
    /// What makes them.
    pub kind: MatmulKind,
    /// Real heads.
    pub heads: usize,
    /// log2 of the padded number of heads.
    pub heads_log: u32,
    /// The point of the heads.
    pub head: &'a [K],
    /// Weights of both halves.
    pub halves: [K; 2],
    /// The point of the index in a half.
    pub index: &'a [K],
    /// What weighs the products.
    pub weights: NormWeights<K>,
}

impl<K: Scalar> NormedHeads<'_, K> {
    /// `eq(head, .)` on the real heads.
    pub fn real(&self) -> Vec<K> {
        let mut table = eq_table(self.head);
        table.truncate(self.heads);
        table
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Queries or keys.
    pub fn normed_heads(&self, part: Part) -> NormedHeads<'_, K> {
        let (config, p) = (&self.shape.config, &self.shape.padded);
        let (norms, kind, heads, heads_log) = match part {
            Part::Q => (Part::Q_NORMS, MatmulKind::Q, config.heads, p.heads),
            _ => (Part::K_NORMS, MatmulKind::K, config.kv_heads, p.kv_heads),
        };
        let (head, half, index) = self.head_point(heads_log);
        NormedHeads {
            part,
            norms,
            kind,
            heads,
            heads_log,
            head,
            halves: [K::one() - half, half],
            index,
            weights: self.points.head_norms(part),
        }
    }

    /// The limbs of both halves of projected heads, high and low ones with these factors.
    fn head_limbs(&self, part: Part, halves: [K; 2], [high, low]: [K; 2]) -> Vec<(usize, K)> {
        let rope = self.shape.rope(part);
        let of = |(side, half): (usize, K)| {
            let at = rope.before(side);
            [(at, half * high), (at + 1, half * low)]
        };
        halves.into_iter().enumerate().flat_map(of).collect()
    }

    /// Everything that the norms of queries or keys round or divide, as accumulators of products.
    fn head_norms(&self, claims: &mut Claims<K>, part: Part) {
        let own = self.normed_heads(part);
        let (limb, weights) = (self.points.limb, &own.weights);
        let width = self.shape.config.head_dim;
        let norms = |value: &dyn Fn(&NormParams) -> K| self.sum_of_norms(&own, value);
        let epsilons = norms(&|norm| epsilon_value(norm.eps.body, limb, weights.square));
        let bounds = norms(&|norm| bound_value(width, norm.scale, limb, weights.quotient));
        let rows = vec![
            self.plain_layers(own.norms),
            self.rows(),
            padded(own.real(), own.heads_log),
        ];
        let sides = &mut claims.accumulators;
        sides.value += epsilons - bounds;
        let columns = [
            square_columns(limb, weights.square),
            quotient_columns(limb, weights.quotient),
            root_columns(limb, weights.root),
        ];
        sides.groups.push(Group::new(own.norms, rows, columns.concat()));
        self.normed_values(claims, &own);
    }

    /// The sum of a value of the norm of every layer over all rows of the text, weighed.
    fn sum_of_norms(&self, own: &NormedHeads<'_, K>, value: &dyn Fn(&NormParams) -> K) -> K {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        let sum = layers.fold(K::zero(), |sum, (l, weight)| {
            let norm = self.params.head_norm(own.kind.at(l)).map(HeadNorm::norm);
            sum + weight * norm.map_or(K::zero(), |norm| value(&norm))
        });
        sum * self.text() * own.real().into_iter().fold(K::zero(), |sum, weight| sum + weight)
    }

    /// Values times the reciprocal root of their head, rounded.
    fn normed_values(&self, claims: &mut Claims<K>, own: &NormedHeads<'_, K>) {
        let (part, rope) = (own.part, self.shape.rope(own.part));
        let layers = self.points.layer_weights(self.layers());
        let power = |(l, weight): (usize, &K)| {
            let norm = self.params.head_norm(own.kind.at(l));
            *weight * base(1 << norm.map_or(PADDED_EXPONENT, |norm| norm.shift).min(30))
        };
        let powers = padded(layers.iter().enumerate().map(power).collect(), self.lead(part));
        let (token, head, index) = (self.rows(), eq(own.head), eq(own.index));
        for (side, half) in own.halves.into_iter().enumerate() {
            let rounding = Rounding {
                rounded: Rounded::normed(part, side),
                out: vec![(rope.source(side), num_traits::One::one())],
                plain: vec![vec![
                    self.plain_layers(part),
                    token.clone(),
                    head.clone(),
                    index.clone(),
                ]],
                narrow: Vec::new(),
                powered: vec![vec![powers.clone(), token.clone(), head.clone(), index.clone()]],
                factor: half * own.weights.normed,
            };
            self.accumulated(claims, &rounding, rope.norm(side));
        }
    }

    /// Heads times themselves: the first factor is a table of products, entry by entry.
    fn head_squares(&self, own: &NormedHeads<'_, K>, at: &[K]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, own.part);
        let (layer, rest) = at.split_at(self.lead(part) as usize);
        let (token, rest) = rest.split_at(self.shape.token as usize);
        let (head, rest) = rest.split_at(own.heads_log as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let weighted = vec![
            padded(
                times(&points.layer_weights(self.layers()), &eq_table(layer)),
                self.lead(part),
            ),
            self.rows_times(&eq_table(token)),
            padded(times(&own.real(), &eq_table(head)), own.heads_log),
            eq(index),
        ];
        let plain = vec![eq(layer), eq(token), eq(head), eq(index)];
        let weight = own.weights.square;
        let limbs = |weight: K| self.head_limbs(part, halves, [weight, weight * points.limb]);
        [
            claim("weighted heads", part, weighted, limbs(weight)),
            claim("heads", part, plain, limbs(K::one())),
        ]
    }

    /// What the rows of norms of heads multiply, as those of states: the first factor is a table of products, entry by entry.
    fn head_roots(&self, own: &NormedHeads<'_, K>, at: &[K]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, own.norms);
        let (layer, rest) = at.split_at(self.lead(part) as usize);
        let (token, rest) = rest.split_at(self.shape.token as usize);
        let (head, factor) = rest.split_at(own.heads_log as usize);
        let layers = eq_table(layer);
        let mut real = eq_table(head);
        real.truncate(own.heads);
        let real = padded(real, own.heads_log);
        let weighted = vec![
            padded(times(&points.layer_weights(self.layers()), &layers), self.lead(part)),
            self.rows_times(&eq_table(token)),
            padded(times(&own.real(), &eq_table(head)), own.heads_log),
        ];
        let factors = RootFactors::new(factor, points.limb, own.weights);
        let rows = vec![self.real_layers(part, &layers), eq(token), real.clone()];
        let heads = vec![self.real_layers(own.part, &layers), eq(token), real, eq(own.index)];
        let values = self.head_limbs(own.part, own.halves, [factors.values * felt::<K>(256), factors.values]);
        [
            claim("reciprocal roots of heads", part, weighted, factors.first),
            LinearClaim::of(
                "heads, sums of squares and roots",
                vec![
                    Group::new(part, rows, factors.second),
                    Group::new(own.part, heads, values),
                ],
            ),
        ]
    }
}
