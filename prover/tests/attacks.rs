//! Attempts on single gaps of the protocol: a trace that no honest prover has, proved as if it were honest.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::{base, scores};
use tessera_circuits::claims::{batch, well_formed};
use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_circuits::semantics::{probability, reciprocal, requantise};
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::statement::{Statement, Statistics};
use tessera_circuits::wiring::{product_variables, Points, Public};
use tessera_prover::forward::{ForwardState, Witness};
use tessera_prover::generate::{generate, GenerateOptions};
use tessera_prover::progress::Silent;
use tessera_prover::prove::{prove, prove_linear, ProverModel};
use tessera_prover::stark::trace::{statistics, Columns, Source};
use tessera_prover::stark::{twiddles, ProveStarkError, Trace};
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel, TestRng};
use tessera_prover::{matmul, opening};
use tessera_verifier::key::ModelId;
use tessera_verifier::proof::Proof;
use tessera_verifier::security::opening_policy;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{
    absorb_statistics, open_transcript, verify, verify_bytes, weight_families, VerifyError,
};

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

/// Changed bytes: every one is rejected, and never by the library's panic.
#[test]
fn changed_bytes_are_rejected_without_a_panic() {
    let model = TestModel::new(random_model(odd_config(), Strategy::W12, 7));
    let prompt = random_ids(&model.key.config, 3, 3);
    let honest = prove(&model.prover(), &prompt, 2, &Silent)
        .expect("an honest proof")
        .bytes;
    assert!(verify_bytes(&model.key, &honest).is_ok());
    let mut rng = TestRng(11);
    let mut below = |n: usize| rng.below(n as u64) as usize;
    for round in 0..300 {
        let mut bytes = honest.clone();
        let at = below(bytes.len());
        match round % 4 {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = bytes[at].wrapping_add(1 + below(255) as u8),
            // A small change of a word: lengths, ids, low digits of field elements.
            2 => bytes[at & !3] ^= 1 + below(3) as u8,
            _ => {
                let len = 1 + below(64);
                let from = below(bytes.len() - len);
                let to = below(bytes.len() - len);
                bytes.copy_within(from..from + len, to);
            }
        }
        if bytes == honest {
            continue;
        }
        match verify_bytes(&model.key, &bytes) {
            Ok(_) => panic!("round {round}: accepted with a change at {at}"),
            Err(VerifyError::Stark(StarkError::Panicked)) => panic!("round {round}: a panic from a change at {at}"),
            Err(_) => {}
        }
    }
}

/// Every weight vector of every claim has the length of its axis, for the shapes with the most padding.
#[test]
fn claims_fit_the_axes_of_their_parts() {
    let small = ModelConfig {
        hidden: 2,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        ff: 1,
        vocab: 2,
        ..odd_config()
    };
    let large_heads = ModelConfig {
        layers: 5,
        heads: 2,
        kv_heads: 2,
        head_dim: 128,
        ..odd_config()
    };
    for config in [small, large_heads, odd_config()] {
        let params = random_model(config.clone(), Strategy::W8, 1).params;
        for rows in [1, 2, 5, 25] {
            let statement = Statement {
                prompt: vec![0; rows],
                output: vec![1],
            };
            let shape = Shape::new(&config, rows);
            let tokens = 1usize << shape.token;
            let statistics = Statistics {
                norms: vec![[1, 0, 0]; shape.states() * tokens],
                sums: vec![1 << 15; config.layers * config.heads * tokens],
            };
            assert_eq!(statistics.check(&config, tokens), Ok(()));
            let mut transcript = open_transcript(&ModelId([0; 32]), &statement);
            let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
            let public = Public {
                shape: &shape,
                params: &params,
                statement: &statement,
                statistics: &statistics,
                points: &points,
            };
            let point = transcript.challenges("end", product_variables(&shape) as usize);
            let mut claims = public.trace_claims(points.kind);
            claims.extend(public.operand_claims(&point, &[[points.kind; 2]; 6]));
            assert!(claims.len() <= 64, "the ledger allows for 64 claims");
            let batch = batch(claims, points.limb);
            assert!(well_formed(&batch, &shape), "{shape:?}");
        }
    }
}
