//! A cheating prover: the phases of `prove.rs` with full control over every message.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::{Bound, BINDING_COLUMNS};
use tessera_circuits::claims::batch;
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::statement::Statement;
use tessera_circuits::wiring::{Points, Public};
use tessera_prover::forward::{ForwardState, Witness};
use tessera_prover::prove::{prove_linear, ProverModel};
use tessera_prover::stark::lookups::logup;
use tessera_prover::stark::trace::{statistics, Columns, Source};
use tessera_prover::stark::{twiddles, ProveStarkError, Trace};
use tessera_prover::{matmul, opening};
use tessera_verifier::proof::Proof;
use tessera_verifier::security::opening_policy;
use tessera_verifier::stark::{bindings, draw_relations};
use tessera_verifier::verify::{absorb_statistics, open_transcript, weight_families};

/// Proves a false output with the trace of the honest forward pass, in which the lookups of the arg max do not
/// balance. With `scale`, the `eq` column of the stream is multiplied by the constant that balances the claimed sums.
pub fn false_output(model: &ProverModel<'_>, statement: &Statement, scale: bool) -> Result<Proof, ProveStarkError> {
    let shape = Shape::new(&model.key.config, statement.rows());
    let mut witness = Witness::default();
    ForwardState::new(model.quantised)
        .run(&statement.row_ids(shape.token), Some(&mut witness))
        .expect("a forward pass");
    prove_witness(model, statement, witness, |_, _| (), scale)
}

/// Proves a statement with a given witness and altered columns.
pub fn prove_witness(
    model: &ProverModel<'_>,
    statement: &Statement,
    witness: Witness,
    alter: impl Fn(&Shape, &mut [Columns]),
    scale: bool,
) -> Result<Proof, ProveStarkError> {
    let key = model.key;
    let shape = Shape::new(&key.config, statement.rows());
    let source = Source {
        shape: &shape,
        params: &key.params,
        statement,
        witness: &witness,
    };
    let mut columns: Vec<Columns> = PARTS.iter().map(|p| source.columns(*p)).collect();
    alter(&shape, &mut columns);
    let statistics = statistics(&witness);
    let mut transcript = open_transcript(&model.id, statement);
    let twiddles = twiddles(&shape);
    let trace = Trace::commit(&shape, &key.params, columns, &twiddles, &mut transcript);
    absorb_statistics(&statistics, &mut transcript);

    let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &key.params,
        statement,
        statistics: &statistics,
        points: &points,
    };
    let matmuls = matmul::prove(&public, &trace.columns, model.tiles, &mut transcript);
    let families = weight_families(&mut transcript);

    let mut claims = public.trace_claims(matmuls.proof.claim);
    claims.extend(public.operand_claims(&matmuls.point, &matmuls.proof.operands));
    let batch = batch(claims, transcript.challenge("claims"));
    let (linear, evaluations) = prove_linear(&batch, &trace, &mut transcript);

    let opening = opening::open(
        model.tiles,
        model.codeword,
        &key.weights,
        &opening_policy(),
        &public.tile_coefficients(&matmuls.point, &families),
        &matmuls.tile_values,
        &public.local_point(&matmuls.point),
        &mut transcript,
    )
    .expect("an opening");

    let (relations, challenge) = draw_relations(&mut transcript);
    let bindings = bindings(&shape, &batch, &linear.point, challenge);
    let (mut interaction, mut sums) = trace
        .interaction(&relations, &bindings, &linear.point)
        .expect("no degenerate point");
    // What every part should add to the claimed sums, and what all of them lack.
    let share: Vec<SecureField> = bindings
        .iter()
        .zip(PARTS)
        .zip(&evaluations)
        .map(|((binding, part), values)| {
            let binding = binding.as_ref().expect("a part with claims");
            let columns = batch.columns(part).into_iter().zip(values);
            columns.fold(SecureField::default(), |sum, (c, v)| sum + binding.weights[c] * *v)
        })
        .collect();
    let missing = share.iter().copied().sum::<SecureField>() - sums.iter().copied().sum::<SecureField>();
    let victim = Part::Stream.index();
    let factor = match scale {
        true => SecureField::one() + missing * share[victim].inverse(),
        false => SecureField::one(),
    };
    let own = &mut interaction[victim];
    for z in 0..own[0].len() {
        let scaled = SecureField::from_m31_array([0, 1, 2, 3].map(|i| own[i][z])) * factor;
        let scaled: [BaseField; 4] = scaled.to_m31_array();
        (0..4).for_each(|i| own[i][z] = scaled[i]);
    }
    let bound = Bound {
        air: shape.air(Part::Stream),
        relations: relations.clone(),
        binding: bindings[victim].clone(),
    };
    let (columns, sum) = logup(&bound, &trace.columns[victim], &trace.tables, own);
    own.truncate(BINDING_COLUMNS);
    own.extend(columns);
    sums[victim] = sum;
    let stark = trace.finish(&relations, bindings, interaction, &sums, &mut transcript)?;
    Ok(Proof {
        model: model.id,
        statement: statement.clone(),
        statistics,
        matmuls: matmuls.proof,
        linear: linear.proof,
        evaluations,
        opening,
        claimed_sums: sums,
        stark,
    })
}
