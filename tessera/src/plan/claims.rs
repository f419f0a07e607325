//! Memory that the sumcheck over the linear claims takes, counted on the claims of a statement of the same shape.

use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::Ends;
use tessera_circuits::claims::batch;
use tessera_circuits::model::{
    AttentionParams, ChannelShift, LayerParams, MatmulKind, MlpParams, ModelConfig, ModelParams,
};
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::{LeafClaim, LookupTree};
use tessera_circuits::wiring::{Points, Public};

use tessera_prover::claims as split;

/// Makes parameters with the dimensions of `config`. Their values do not matter, except that the right channels have an
/// exponent, and that weights differ which do so in most models.
fn params(config: &ModelConfig, exponents: &[u8]) -> ModelParams {
    let shifts = |kind: MatmulKind, period: usize| {
        let (_, outputs) = config.dims(kind);
        ChannelShift((0..outputs).map(|c| 1 + (c % period) as u8).collect())
    };
    let sample = ModelParams::sample(config);
    let layer = |own: &LayerParams| LayerParams {
        attention: AttentionParams {
            q: shifts(MatmulKind::Q, 3),
            k: shifts(MatmulKind::K, 5),
            v: shifts(MatmulKind::V, 3),
            ..own.attention.clone()
        },
        mlp: MlpParams {
            gate: shifts(MatmulKind::Gate, 3),
            up: shifts(MatmulKind::Up, 5),
            ..own.mlp.clone()
        },
    };
    ModelParams {
        exponents: exponents.to_vec(),
        layers: sample.layers.iter().map(layer).collect(),
        head: shifts(MatmulKind::Head, 3),
        ..sample
    }
}

/// Bytes of the tables of all parts.
pub(super) fn bytes(shape: &Shape, trees: &[LookupTree], exponents: &[u8]) -> u64 {
    let config = &shape.config;
    let tokens = shape.rows;
    let params = params(config, exponents);
    let statement = Statement {
        prompt: vec![0; tokens + 1 - shape.outputs.min(tokens)],
        output: vec![0; shape.outputs],
    };
    let statistics = Statistics { clips: Vec::new() };
    // Distinct elements: weights are equal only where they always are.
    let element = |i: usize| SecureField::from_u32_unchecked(2 + i as u32, 3, 5, 7);
    let points = Points::new(shape, (0..Points::count(shape)).map(element).collect());
    let public = Public {
        shape,
        params: &params,
        statement: &statement,
        ends: Ends::default(),
        statistics: &statistics,
        points: &points,
    };
    let point: Vec<SecureField> = (0..shape.product_variables() as usize)
        .map(|i| element((1 << 20) + i))
        .collect();
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(&point));
    let relations = Relations::dummy(&shape.config.relations());
    for (t, tree) in trees.iter().enumerate() {
        let leaf = LeafClaim {
            point: (0..tree.log_leaves() as usize)
                .map(|i| element((2 + t) << 20 | i))
                .collect(),
            numerator: SecureField::one(),
            denominator: SecureField::one(),
        };
        claims.extend(tree.claim(&public.powers(), &relations, t, &leaf));
    }
    let batch = batch(claims, element(1 << 21));
    let parts = shape.parts().iter().map(|part| split::bytes(&batch, shape, *part));
    // All parts are in one stage or the other, and those of the first stage are made together.
    parts.map(|[first, second]| first + second).sum()
}
