//! Attention outputs: probabilities times values (docs/protocol.md, section 16.6).

use crate::bind::eq_table;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::requant;
use tessera_circuits::model::Limbs;
use tessera_circuits::ops::softmax;
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use super::softmax::QUERIES;
use crate::column::Column;
use crate::device::DeviceError;
use crate::factors::{entries, Factors, K};
use crate::trace::{get, Source};

/// The prover's side of [`tessera_circuits::ops::attention`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::ATT, |source, _| source.attention())],
    makes: &[
        (Product::ATT, |own| {
            own.weighted(Product::ATT, Part::ATT, &own.limbs(requant::OUT_HI, requant::OUT_LO))
        }),
        (Product::VALUE, |own| own.weighted_values().map(entries)),
    ],
};

impl Source<'_> {
    fn attention(&self) -> (Vec<Column>, Vec<Clip>) {
        self.requant(
            Rounded::ATTENTION,
            (self.shape.config.heads, Limbs::Two, requant::OUTPUT),
            |l, at| self.witness.layers.get(l).map_or([0, 0], |w| [0, get(&w.att_acc, at)]),
            |l, _, _| 1 << self.params.layers[l].attention.att,
        )
    }
}

impl Factors<'_> {
    /// Probabilities, each times its weight among the accumulators, and values.
    fn weighted_values(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let tokens = 1usize << shape.token;
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let one = K::from(BaseField::from_u32_unchecked(1));
        let probabilities = self.pairs((softmax::P, one), QUERIES, &points.token)?;
        let values = self.bound(Part::V, &[(requant::OUT, one)], 3, points.out(p.head_dim()))?;
        // (layer, token, kv head) to (layer, kv head, token).
        let kv_heads = 1usize << p.kv_heads;
        let turned: Vec<K> = values
            .chunks(tokens * kv_heads)
            .flat_map(|layer| (0..kv_heads).flat_map(move |g| (0..tokens).map(move |j| layer[j * kv_heads + g])))
            .collect();
        let kv = |h: usize| shape.config.kv_head(h);
        Ok((
            self.spread(&probabilities, p.heads, tokens, |h| h, Some((&layers, &heads)), one),
            self.spread(&turned, p.kv_heads, tokens, kv, None, points.att_weight()),
        ))
    }
}
