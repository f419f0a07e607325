//! Attempts on single gaps of the protocol: a trace that no honest prover has, proved as if it were honest.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::{base, scores};
use tessera_circuits::claims::batch;
use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_circuits::semantics::{probability, reciprocal, requantise};
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::statement::{Statement, Statistics};
use tessera_circuits::wiring::{Points, Public};
use tessera_prover::forward::{ForwardState, Witness};
use tessera_prover::generate::{generate, GenerateOptions};
use tessera_prover::prove::{prove_linear, ProverModel};
use tessera_prover::stark::trace::{statistics, Columns, Source};
use tessera_prover::stark::{twiddles, ProveStarkError, Trace};
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel};
use tessera_prover::{matmul, opening};
use tessera_verifier::proof::Proof;
use tessera_verifier::security::opening_policy;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{absorb_statistics, open_transcript, verify, weight_families, VerifyError};

/// The forward pass of a true statement.
fn honest(model: &TestModel, prompt: usize, tokens: usize) -> (Statement, Shape, Witness) {
    let prompt = random_ids(&model.key.config, prompt, 3);
    let options = GenerateOptions {
        tokens,
        stop_at_eos: false,
    };
    let output = generate(&model.quantised, &prompt, &options, |_| ())
        .expect("a generation")
        .ids;
    let statement = Statement { prompt, output };
    let shape = Shape::new(&model.key.config, statement.rows());
    let mut witness = Witness::default();
    ForwardState::new(&model.quantised)
        .run(&statement.row_ids(shape.token), Some(&mut witness))
        .expect("a forward pass");
    (statement, shape, witness)
}

/// The trace of a witness.
fn columns(model: &TestModel, statement: &Statement, shape: &Shape, witness: &Witness) -> Vec<Columns> {
    let source = Source {
        shape,
        params: &model.key.params,
        statement,
        witness,
    };
    PARTS.iter().map(|p| source.columns(*p)).collect()
}

/// All phases of an honest prover on a given trace.
fn prove_trace(
    model: &ProverModel<'_>,
    statement: &Statement,
    shape: &Shape,
    columns: Vec<Columns>,
    statistics: Statistics,
) -> Result<Proof, ProveStarkError> {
    let key = model.key;
    let mut transcript = open_transcript(&model.id, statement);
    let twiddles = twiddles(shape);
    let trace = Trace::commit(shape, &key.params, columns, &twiddles, &mut transcript);
    absorb_statistics(&statistics, &mut transcript);
    let points = Points::new(shape, transcript.challenges("points", Points::count(shape)));
    let public = Public {
        shape,
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
    let (claimed_sums, stark) = trace.prove(&batch, &linear.point, &mut transcript)?;
    Ok(Proof {
        model: model.id,
        statement: statement.clone(),
        statistics,
        matmuls: matmuls.proof,
        linear: linear.proof,
        evaluations,
        opening,
        claimed_sums,
        stark,
    })
}

/// A model of three layers (padded to four) whose last attention does not reach the residual, so that a
/// change of its softmax needs no new forward pass.
fn three_layers() -> TestModel {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    let mut model = random_model(config, Strategy::W12, 7);
    if let Some(last) = model.layers.last_mut() {
        last.o.fill(0);
    }
    TestModel::new(model)
}

/// In the last layer, in one row, the key with the largest score is dropped from the softmax: the maximum is
/// claimed to be another key's score, `D` of the dropped key is negative and its exponential zero. Returns the
/// trace and the negative `D`.
fn dropped_key(
    model: &TestModel,
    statement: &Statement,
    shape: &Shape,
    mut witness: Witness,
) -> (Vec<Columns>, Statistics, BaseField) {
    let config = &model.key.config;
    let (tokens, query, head) = (1usize << shape.token, statement.rows() - 1, 0);
    let (layer, line) = (config.layers - 1, query);
    let cells = line * tokens..line * tokens + query + 1;
    let w = &mut witness.layers[layer];
    let dropped = w.arg[line] as usize;
    let (kept, max) = w.score[cells.clone()]
        .iter()
        .copied()
        .enumerate()
        .filter(|(j, s)| *j != dropped && *s < w.max[line])
        .max_by_key(|(_, s)| *s)
        .expect("two different scores");
    let excess = base(i64::from(max) - i64::from(w.max[line]));
    let exps = tessera_circuits::semantics::exp_table(model.key.params.score_bits);
    (w.max[line], w.arg[line]) = (max, kept as u32);
    for cell in cells.clone() {
        let d = i64::from(max) - i64::from(w.score[cell]);
        w.exp[cell] = usize::try_from(d).map_or(0, |d| exps[d]);
    }
    w.sum[line] = w.exp[cells.clone()].iter().sum();
    w.recip[line] = reciprocal(w.sum[line]);
    for cell in cells.clone() {
        w.prob[cell] = probability(w.exp[cell], w.recip[line]);
    }
    let group = config.kv_head(head);
    for x in 0..config.head_dim {
        let mut acc = [0i64; 2];
        for j in 0..=query {
            let p = i64::from(w.prob[cells.start + j]);
            let v = i64::from(w.v[(j * config.kv_heads + group) * config.head_dim + x]);
            acc[0] += p * (v >> 8);
            acc[1] += p * (v & 0xff);
        }
        let at = (query * config.heads + head) * config.head_dim + x;
        w.att_acc_hi[at] = acc[0] as i32;
        w.att_acc_lo[at] = acc[1] as i32;
        w.att[at] = requantise(256 * acc[0] + acc[1], model.key.params.layers[layer].att);
    }
    let statistics = statistics(&witness);
    let columns = columns(model, statement, shape, &witness);
    (columns, statistics, excess)
}

/// Rows of padded layers are under no claim, so their mask is free. With a mask of -1 such a row *gives* a
/// pair to the table of exponentials instead of using one: the pair (negative `D`, 0) that a real row then
/// uses. What it would gain: the softmax may ignore any keys.
#[test]
fn rows_of_padded_layers_give_nothing_to_the_tables() {
    let model = three_layers();
    let (statement, shape, witness) = honest(&model, 9, 4);
    let (mut columns, statistics, excess) = dropped_key(&model, &statement, &shape, witness);
    let own = &mut columns[Part::Scores.index()];
    let row = 3 << (shape.log_rows(Part::Scores) - 2);
    assert_eq!(own[scores::EXP][row], BaseField::zero(), "a row of a padded layer");
    own[scores::MASK][row] = -BaseField::one();
    own[scores::MAX][row] = excess;
    own[scores::D][row] = excess;
    let proof = prove_trace(&model.prover(), &statement, &shape, columns, statistics);
    let accepted = proof.as_ref().is_ok_and(|p| verify(&model.key, p).is_ok());
    assert!(!accepted, "a softmax without its largest score was accepted");
    assert!(matches!(proof, Err(ProveStarkError::Constraints(_))));
}

/// The same without the gift: the lookup of the negative `D` is in no table.
#[test]
fn dropping_a_key_is_rejected() {
    let model = three_layers();
    let (statement, shape, witness) = honest(&model, 9, 4);
    let (columns, statistics, _) = dropped_key(&model, &statement, &shape, witness);
    let proof = prove_trace(&model.prover(), &statement, &shape, columns, statistics).expect("the constraints hold");
    assert!(matches!(
        verify(&model.key, &proof),
        Err(VerifyError::Stark(StarkError::Unbalanced))
    ));
}
