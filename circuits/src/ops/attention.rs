//! Attention output (docs/protocol.md, section 16.6): probabilities times values. One row per (layer, token, head, index in head).

use crate::air::requant;
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::MatmulKind;
use crate::rounding::Rounded;
use crate::scalar::Scalar;
use crate::shape::{Along, Instance, Part, Product, Rows, Shape, Shifts};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::wiring::{claim, eq, felt, padded, times, Claims, Points, Public, Rounding};

use super::operator::{Finals, Operator};
use super::softmax::{Keys, P};

/// What attention gives to the matmul O.
pub struct Attention;

/// The number of the outputs among the accumulators.
const OUTPUT: usize = 10;

impl Part {
    /// (layer, token, head, index in head)
    pub const ATT: Self = Self::new(7, "Att");
}

impl Product {
    /// Attention output times o; variables (layer, head, index).
    pub const ATT: Self = Self::new(1, "Att");
    /// Probabilities times values; variables (layer, head, key).
    pub const VALUE: Self = Self::new(5, "Value");
}

impl Rounded {
    /// Attention outputs.
    pub const ATTENTION: Self = Self::of(Part::ATT, 0);
}

impl<K: Scalar> Operator<K> for Attention {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (p, config) = (&sizes.padded, &sizes.config);
        vec![Rows {
            part: Part::ATT,
            axes: vec![p.layers, sizes.token, p.heads, p.head_dim()],
            extents: vec![
                Extent::of(0, config.layers),
                sizes.tokens(1),
                Extent::of(2, config.heads),
            ],
            of_text: of_second_axis,
            air: requant::output(),
            shifts: vec![Shifts {
                tensor: Rounded::ATTENTION.tensor,
                limbs: requant::OUTPUT.limbs,
                along: Along::First,
                of: |entry| entry.params.layers.get(entry.place[0]).map(|layer| layer.attention.att),
            }],
        }]
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        let p = &shape.padded;
        let output = Instance {
            product: Product::ATT,
            variables: Some(shape.lead(Part::ATT) + p.q()),
            weights: Some(|_, id| (id.kind() == MatmulKind::O).then_some(id.layer())),
        };
        let values = Instance {
            product: Product::VALUE,
            variables: Some(p.layers + p.heads + shape.token),
            weights: None,
        };
        vec![output, values]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![OUTPUT]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.attention(claims);
    }

    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        let mut claims = finals.claims(Product::ATT, |at| [public.attention_operand(at)]);
        claims.extend(finals.claims(Product::VALUE, |at| public.value_operands(at)));
        claims
    }
}

impl<K: Scalar> Points<K> {
    /// Weight of the attention output among the batched accumulators.
    pub fn att_weight(&self) -> K {
        self.weight(OUTPUT)
    }
}

impl<K: Scalar> Public<'_, K> {
    fn attention(&self, claims: &mut Claims<K>) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::ATT);
        let rest = [self.rows(), eq(&points.head), eq(points.out(p.head_dim()))];
        let with = |layers: Weight<K>| vec![std::iter::once(layers).chain(rest.clone()).collect::<Tensor<K>>()];
        let rounding = Rounding {
            rounded: Rounded::ATTENTION,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: with(self.plain_layers(part)),
            narrow: Vec::new(),
            powered: with(self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.attention.att))),
            factor: points.att_weight(),
        };
        self.accumulated(claims, &rounding, requant::OUTPUT);
    }

    fn attention_operand(&self, at: &[K]) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::ATT) as usize);
        let (head, index) = rest.split_at(self.shape.padded.heads as usize);
        let columns = vec![(requant::OUT_HI, K::one()), (requant::OUT_LO, self.points.limb)];
        let weights = vec![eq(lead), self.rows(), eq(head), eq(index)];
        claim("attention output", Part::ATT, weights, columns)
    }

    /// Probabilities and values.
    fn value_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let (p, points) = (&self.shape.padded, self.points);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, key) = rest.split_at(p.heads as usize);
        let (layer, head) = (eq_table(layer), eq_table(head));
        let layers = times(&points.layer_weights(self.layers()), &layer);
        let heads = padded(times(&eq_table(&points.head), &head), p.heads);
        let probabilities = self.shape.kinds().into_iter().map(|kind| {
            let front = [self.layers_of(&kind, &layers), heads.clone()];
            let weights = self.score_tensors(&kind, front, Keys::At(key));
            Group::new_sum(kind.part, weights, vec![(P, K::one())])
        });
        let probabilities = probabilities.collect();
        let values = vec![
            self.real_layers(Part::V, &layer),
            eq(key),
            padded(self.grouped(&head), p.kv_heads),
            eq(points.out(p.head_dim())),
        ];
        let out = vec![(requant::OUT, points.att_weight())];
        [
            LinearClaim::of("probabilities", probabilities),
            claim("values", Part::V, values, out),
        ]
    }
}
