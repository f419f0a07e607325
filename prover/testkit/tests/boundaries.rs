//! Committed boundaries between chunks: what a proof has of them, that both neighbours hold them, and what they cost. What a cheating
//! prover can do within a chunk is tested in `soundness/boundaries.rs`.

use std::sync::OnceLock;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::boundary::{BoundaryUnits, COMMITTED_VALUES};
use tessera_circuits::chunk::{ends, Boundary, BoundaryError, Chunk, PublicBoundary};
use tessera_circuits::mle::eval_padded;
use tessera_circuits::model::{WeightFormat, MIN_ROWS_LOG};
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Input};
use tessera_prover::column::Column;
use tessera_prover::opening::{open, CommittedUnits, ProverClaim};
use tessera_prover::{prove_chunk, public_boundary};
use tessera_support::progress::Silent;
use tessera_support::random::SplitMix;
use tessera_testkit::{random_ids, random_model, refusals, reworked, wide_config, TestModel};
use tessera_verifier::opening::parts::parts_of;
use tessera_verifier::opening::{CommitmentName, CommitmentParams};
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{verify, verify_bytes, VerifyError};

/// One layer each.
const LAYERS: [usize; 3] = [1; 3];
/// The fewest rows whose boundaries are committed to.
const ROWS: usize = 128;

fn make(seed: u64) -> TestModel {
    TestModel::new(random_model(
        wide_config(COMMITTED_VALUES / ROWS, ROWS + 2),
        WeightFormat::Int8,
        seed,
    ))
}

fn model() -> &'static TestModel {
    static MODEL: OnceLock<TestModel> = OnceLock::new();
    MODEL.get_or_init(|| make(7))
}

fn prompt(rows: usize, seed: u64) -> Vec<u32> {
    random_ids(&model().key.config, rows, seed)
}

fn honest() -> &'static Proof {
    static PROOF: OnceLock<Proof> = OnceLock::new();
    PROOF.get_or_init(|| model().prove_chunks(&prompt(ROWS, 3), 1, &LAYERS))
}

/// Asserts that exactly these chunks of an altered honest proof refuse, because their challenges are others.
fn assert_refused_by(chunks: &[usize], what: &str, alter: impl FnOnce(&mut Proof)) {
    let mut proof = honest().clone();
    alter(&mut proof);
    tessera_testkit::assert_refused_by(&model().key, chunks, what, proof);
}

/// The verifier's answer about altered boundaries of an honest proof.
fn answer(alter: impl FnOnce(&mut Vec<PublicBoundary>)) -> BoundaryError {
    let mut proof = honest().clone();
    alter(&mut proof.boundaries);
    match verify(&model().key, &proof).expect_err("no proof") {
        VerifyError::Boundaries(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_chain_with_committed_boundaries_is_proved() {
    let proof = honest();
    let committed = |own: &PublicBoundary| matches!(own, PublicBoundary::Committed(_));
    assert!(proof.boundaries.iter().all(committed));
    let bytes = proof.to_bytes().expect("it encodes");
    assert_eq!(Proof::from_bytes(&bytes).expect("a proof").boundaries, proof.boundaries);
    let verified = verify_bytes(&model().key, &bytes).expect("the proof verifies");
    println!("{} bytes, {:.1} bits", bytes.len(), verified.security_bits);
    assert!(refusals(&model().key, proof).is_empty());
}

/// Whether a boundary is committed to follows from its size: verifiers refuse a root of a small one, and values of a large one.
#[test]
fn small_boundaries_are_in_clear() {
    let model = model();
    let small = model.prove_chunks(&prompt(ROWS - 1, 3), 1, &[2, 1]);
    verify(&model.key, &small).expect("the proof verifies");
    assert!(matches!(small.boundaries[..], [PublicBoundary::Clear(_)]));
    let mut rooted = small.clone();
    rooted.boundaries[0] = PublicBoundary::Committed([0; 32]);
    let refused = verify(&model.key, &rooted).expect_err("a root of a small boundary");
    assert!(matches!(
        refused,
        VerifyError::Boundaries(BoundaryError::Committed { index: 0 })
    ));
    for (index, values) in [(0, COMMITTED_VALUES), (1, COMMITTED_VALUES), (1, 1)] {
        let clear = PublicBoundary::Clear(Boundary(vec![0; values]));
        assert_eq!(answer(|own| own[index] = clear), BoundaryError::Clear { index });
    }
    let number = |got| BoundaryError::Number { got, chunks: 3 };
    assert_eq!(answer(|own| drop(own.pop())), number(1));
    assert_eq!(answer(|own| own.push(own[0].clone())), number(3));
}

/// No values are followed by a root, so that a file of no values ends early, or has what follows as its root.
#[test]
fn a_boundary_without_values_is_none() {
    let mut proof = honest().clone();
    proof.boundaries[0] = PublicBoundary::Clear(Boundary(Vec::new()));
    let bytes = proof.to_bytes().expect("it encodes");
    assert!(verify_bytes(&model().key, &bytes).is_err());
}

#[test]
fn both_neighbours_hold_a_root() {
    for boundary in 0..LAYERS.len() - 1 {
        assert_refused_by(&[boundary, boundary + 1], "another root", |p| {
            if let PublicBoundary::Committed(root) = &mut p.boundaries[boundary] {
                root[31] ^= 1;
            }
        });
    }
    assert_refused_by(&[0, 1, 2], "two boundaries swapped", |p| p.boundaries.swap(0, 1));
}

/// Chunks of honest proofs of something else, alone and with what enters and leaves them: of another text of as many rows, and of one more.
#[test]
fn chunks_of_other_proofs_do_not_fit() {
    for (what, other) in [
        ("another prompt", model().prove_chunks(&prompt(ROWS, 4), 1, &LAYERS)),
        (
            "another number of rows",
            model().prove_chunks(&prompt(ROWS + 1, 3), 1, &LAYERS),
        ),
    ] {
        for at in 0..LAYERS.len() {
            let around: Vec<usize> = (at.saturating_sub(1)..(at + 2).min(LAYERS.len())).collect();
            let spliced = |p: &mut Proof| {
                p.chunks[at] = other.chunks[at].clone();
                for boundary in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                    if let Some(own) = p.boundaries.get_mut(boundary) {
                        own.clone_from(&other.boundaries[boundary]);
                    }
                }
            };
            // Layouts of other numbers of rows have other numbers of messages.
            let mut proof = honest().clone();
            spliced(&mut proof);
            let refusals = refusals(&model().key, &reworked(&model().key, proof));
            assert!(refusals.iter().map(|(i, _)| i).eq(&around), "{what}: {refusals:?}");
            if what == "another prompt" {
                assert_refused_by(&[at], what, |p| p.chunks[at] = other.chunks[at].clone());
            }
        }
    }
}

/// The proof of a chunk says nothing of the others: where two partitions agree, so do the proofs.
#[test]
fn a_chunk_is_the_same_in_every_partition() {
    let other = model().prove_chunks(&prompt(ROWS, 3), 1, &[1, 2]);
    let bytes = |proof: &Proof| proof.chunks[0].to_bytes().expect("it encodes");
    assert!(bytes(&other) == bytes(honest()));
    assert_eq!(other.boundaries[0], honest().boundaries[0]);
}

/// A lie between two chunks: everything is proved honestly on either side of it. One root cannot be both what the first chunk gives and
/// what the second one takes.
#[test]
fn a_chain_with_a_lie_is_broken_at_the_lie() {
    let model = model();
    let prover = model.prover();
    let statement: &Statement = &honest().statement;
    let leading = statement.leading(&model.key.params.leading);
    let chunks = Chunk::partition(LAYERS, 3).expect("a partition");
    let run = |chunk: &Chunk, input: Input<'_>| {
        let run = ForwardState::run_chunk(&model.quantised, chunk, input, 1, None);
        run.expect("a forward pass").output
    };
    let truth = run(&chunks[0], Input::Tokens(&statement.row_ids()));
    let public = |boundary: &Boundary| public_boundary(&model.key, ROWS, boundary);
    assert_eq!(public(&truth), honest().boundaries[0]);
    let mut lie = truth.clone();
    lie.0.swap(0, 1);
    assert_ne!(lie, truth);
    let after = run(&chunks[1], Input::Stream(&lie, leading));
    let boundaries = [lie.clone(), after];
    let ends = ends(&boundaries, 3).expect("boundaries");
    let lying = prove_chunk(&prover, statement, &chunks[1], ends[1], None, &Silent);
    let lying = lying.expect("a proof of the chunk alone").proof;
    for (first, refusing) in [(&lie, [0, 2]), (&truth, [1, 2])] {
        assert_refused_by(&refusing, "a lie", |p| {
            p.chunks[1] = lying.clone();
            p.boundaries = vec![public(first), public(&boundaries[1])];
        });
    }
}

/// The cost of a boundary of 1,024 rows of a model of 4,096 features whose code has rate 1/2: what the opening has of it alone, the root, and
/// what is said of it.
#[test]
fn a_boundary_of_8_mb_costs_less_than_110_kb() {
    let weights = CommitmentParams {
        tiles: 1 << 21,
        log_message: 24,
        log_blowup: 1,
    };
    let mut random = SplitMix(5);
    let boundary = Boundary((0..1 << 22).map(|_| random.next_u64() as i16).collect());
    let units = BoundaryUnits::of(1024, 4096).expect("many values");
    let params = CommitmentParams::of_boundary(&units, &weights);
    assert_eq!((params.tiles, params.log_message, params.columns()), (1024, 18, 16));
    let column = Column::of_integers(units.values(&boundary.0));
    let cells: Vec<_> = column.cells().chunks(1 << MIN_ROWS_LOG).collect();
    let mut transcript = Transcript::new("size");
    let mut committed = CommittedUnits::commit(Suite::Blake2s, CommitmentName::Output, cells.clone(), params);
    let [token, feature] = [10, 12].map(|n| transcript.challenges("point", n));
    let (gamma, point) = (
        units.coefficients(&token, &feature),
        units.local_point(&token, &feature),
    );
    let value = |unit: usize| {
        eval_padded(
            &column.elements()[unit << MIN_ROWS_LOG..][..1 << MIN_ROWS_LOG]
                .iter()
                .map(|v| SecureField::from(*v))
                .collect::<Vec<_>>(),
            &point,
        )
    };
    // What a unit is there is of no account to the size, and the first of them says that it is right.
    let values = tessera_prover::bind::bind_trailing(&cells, &point);
    assert_eq!(values[0], value(0));
    let claim = ProverClaim::new(&mut committed, params.all(), &point, &gamma, &values);
    let proof = open(&mut [claim], None, &mut transcript).expect("an opening");
    let [code] = &parts_of(&proof).codes[..] else {
        panic!("one claim")
    };
    let (list, rows) = (8, &code.rows);
    let own = list + 32 * code.band_rounds.len() + list + 8 * code.column_work.len() + 16;
    let opened = list + 4 * rows.values.len() + list + 32 * rows.path.len();
    // Up to ten cross values more for both boundaries of a chunk, and their pair of values.
    let (cross, root) = (5 * 16, list + 32);
    let bytes = own + opened + cross + 16 + root;
    println!(
        "{bytes} bytes: {opened} of opened leaves, {} of values in clear",
        2 << 22
    );
    assert!(bytes < 110_000, "{bytes}");
}
