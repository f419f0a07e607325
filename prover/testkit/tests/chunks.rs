//! Proofs in chunks of layers: honest ones verify, and no chain can be put together from anything else. What a cheating
//! prover can do within a chunk is tested in `soundness/chunks.rs`.

use std::sync::OnceLock;

use tessera_circuits::chunk::{ends, Boundary, BoundaryError, Chunk, ChunkError, Ends, PublicBoundary};
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::semantics::arg_max;
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Input, Witness};
use tessera_model::generate::GenerateOptions;
use tessera_prover::{prove, prove_chunk};
use tessera_support::progress::Silent;
use tessera_testkit::{banded_config, clear, odd_config, random_ids, random_model, refusals, reworked, TestModel};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::{verify, verify_bytes, verify_chunk, ChunkStatement, VerifyError};

/// Two middle chunks of the same size.
const LAYERS: [usize; 4] = [1, 2, 2, 2];

/// Seven layers, so that chunks have padded layers.
fn make(seed: u64) -> TestModel {
    let config = ModelConfig {
        layers: 7,
        ..odd_config()
    };
    TestModel::new(random_model(config, WeightFormat::Int16, seed))
}

fn model() -> &'static TestModel {
    static MODEL: OnceLock<TestModel> = OnceLock::new();
    MODEL.get_or_init(|| make(7))
}

fn prompt(seed: u64) -> Vec<u32> {
    random_ids(&model().key.config, 4, seed)
}

fn honest() -> &'static Proof {
    static PROOF: OnceLock<Proof> = OnceLock::new();
    PROOF.get_or_init(|| model().prove_chunks(&prompt(3), 3, &LAYERS))
}

/// Asserts that exactly these chunks of an altered honest proof refuse, because their challenges are others.
fn assert_refused_by(chunks: &[usize], what: &str, alter: impl FnOnce(&mut Proof)) {
    let mut proof = honest().clone();
    alter(&mut proof);
    tessera_testkit::assert_refused_by(&model().key, chunks, what, proof);
}

/// The values of a boundary in clear.
fn values(boundary: &PublicBoundary) -> Vec<i16> {
    clear(&mut boundary.clone()).clone()
}

/// The verifier's answer to an altered honest proof.
fn answer(alter: impl FnOnce(&mut Proof)) -> VerifyError {
    let mut proof = honest().clone();
    alter(&mut proof);
    let key = &model().key;
    verify(key, &reworked(key, proof)).expect_err("no proof")
}

#[test]
fn any_partition_is_proved() {
    let model = model();
    for layers in [&[7][..], &[3, 4], &[1, 5, 1], &[1; 7]] {
        let proof = model.prove_chunks(&prompt(3), 3, layers);
        let bytes = proof.to_bytes().expect("it encodes");
        let verified = verify_bytes(&model.key, &bytes).expect("the proof verifies");
        assert_eq!((verified.chunks, verified.statement), (layers.len(), proof.statement));
        println!("{layers:?}: {} bytes, {:.1} bits", bytes.len(), verified.security_bits);
    }
    assert!(refusals(&model.key, honest()).is_empty());
}

/// Whoever verifies a chunk alone must show both boundaries, where there are any.
#[test]
fn a_chunk_alone_is_refused_without_its_boundaries() {
    let (key, proof) = (&model().key, honest());
    let id = key.id().expect("the key encodes");
    let chunks = Chunk::partition(LAYERS, 7).expect("a partition");
    let all = ends(&proof.boundaries, chunks.len()).expect("boundaries");
    let mut short = proof.boundaries[0].clone();
    clear(&mut short).pop();
    for (i, (chunk, own)) in chunks.iter().zip(all).enumerate() {
        let refusal = |ends: Ends<&PublicBoundary>| {
            let claim = ChunkStatement {
                key,
                model: &id,
                statement: &proof.statement,
                chunk,
                ends,
                context: None,
            };
            verify_chunk(&claim, &proof.chunks[i]).err()
        };
        assert!(refusal(own).is_none());
        // What is there is taken away, what is not there is given, and what is there is cut.
        let other = |end: Option<&PublicBoundary>| end.is_none().then_some(&proof.boundaries[0]);
        let input = Ends {
            input: other(own.input),
            ..own
        };
        let output = Ends {
            output: other(own.output),
            ..own
        };
        for ends in [input, output] {
            let refused = matches!(refusal(ends), Some(VerifyError::Boundaries(BoundaryError::Ends { .. })));
            assert!(refused, "chunk {i}");
        }
        let input = own.input.map(|_| &short);
        let output = own.output.map(|_| &short);
        let refused = matches!(
            refusal(Ends { input, output }),
            Some(VerifyError::Boundaries(BoundaryError::Length { .. }))
        );
        assert!(refused, "chunk {i}");
    }
}

/// One token row, and a context that is full.
#[test]
fn any_number_of_rows_is_proved() {
    let model = model();
    for (prompt, tokens) in [(1, 1), (9, 8), (20, 6)] {
        let prompt = random_ids(&model.key.config, prompt, 5);
        let proof = model.prove_chunks(&prompt, tokens, &[2, 4, 1]);
        verify(&model.key, &proof).expect("the proof verifies");
    }
}

/// Bands of two and four tiles: columns that begin and end within other chunks, and columns that are shorter than the bands
/// that the architecture would allow.
#[test]
fn chunks_in_bands_are_proved() {
    for (longest, format, log_message, log_band) in [
        (1, WeightFormat::Int16, 15, 1),
        (2, WeightFormat::Int8, 17, 2),
        (2, WeightFormat::Int16, 13, 1),
        (2, WeightFormat::Int8, 12, 0),
    ] {
        let config = ModelConfig {
            layers: 3,
            ..banded_config(longest)
        };
        let weights = CommitmentParams {
            tiles: config.total_tiles(),
            log_message,
            log_blowup: 2,
        };
        let model = TestModel::committed(random_model(config.clone(), format, 7), weights);
        let chunks = Chunk::partition([1, 1, 1], 3).expect("a partition");
        let opened: Vec<_> = chunks.iter().map(|chunk| model.key.opened(chunk)).collect();
        assert!(opened.iter().all(|columns| columns.log_band() == log_band));
        let shared = opened
            .windows(2)
            .any(|pair| pair[0].bands().end > pair[1].bands().start);
        assert_eq!(shared, log_message > 13, "{opened:?}");
        let proof = model.prove_chunks(&random_ids(&config, 3, 5), 2, &[1, 1, 1]);
        verify(&model.key, &proof).expect("the proof verifies");
    }
}

#[test]
fn a_whole_model_is_one_chunk() {
    let model = model();
    let report = prove(&model.prover(), &prompt(3), &GenerateOptions::exactly(3), &Silent).expect("an honest proof");
    let one = model.prove_chunks(&prompt(3), 3, &[7]);
    assert_eq!(report.bytes, one.to_bytes().expect("it encodes"));
}

/// The proof of a chunk says nothing of the others: where two partitions agree, so do the proofs.
#[test]
fn a_chunk_is_the_same_in_every_partition() {
    let other = model().prove_chunks(&prompt(3), 3, &[3, 2, 2]);
    let mut proof = honest().clone();
    proof.chunks.splice(2.., other.chunks[1..].to_vec());
    assert_eq!(proof.to_bytes().expect("bytes"), honest().to_bytes().expect("bytes"));
}

/// Columns of the commitment are shared by neighbouring chunks, which both open them, where a chunk does not end with a
/// column: the chunks of the other tests do both.
#[test]
fn neighbours_share_a_column() {
    let key = &model().key;
    let chunks = Chunk::partition(LAYERS, 7).expect("a partition");
    let shared: Vec<bool> = chunks
        .windows(2)
        .map(|pair| {
            let [before, after] = [&pair[0], &pair[1]].map(|chunk| chunk.tiles(&key.config));
            assert_eq!(before.end, after.start);
            let [before, after] = [&pair[0], &pair[1]].map(|chunk| key.opened(chunk).tiles());
            before.end > after.start
        })
        .collect();
    assert_eq!(shared, [false, true, false]);
}

#[test]
fn both_neighbours_hold_a_boundary() {
    let last = values(&honest().boundaries[0]).len() - 1;
    for boundary in 0..LAYERS.len() - 1 {
        // The last value is one of the last token row.
        for at in [0, 7, last] {
            assert_refused_by(&[boundary, boundary + 1], "a value", |p| {
                clear(&mut p.boundaries[boundary])[at] ^= 1
            });
        }
        assert_refused_by(&[boundary, boundary + 1], "signs", |p| {
            let values = clear(&mut p.boundaries[boundary]);
            values.iter_mut().for_each(|v| *v = v.saturating_neg());
        });
    }
    assert_refused_by(&[0, 1, 2], "two boundaries swapped", |p| p.boundaries.swap(0, 1));
}

/// The statement is that of every chunk, also of those that neither read a token nor write one.
#[test]
fn every_chunk_holds_the_statement() {
    assert_refused_by(&[0, 1, 2, 3], "an output id", |p| p.statement.output[2] ^= 1);
    assert_refused_by(&[0, 1, 2, 3], "a prompt id", |p| p.statement.prompt[0] ^= 1);
    assert_refused_by(&[0, 1, 2, 3], "a prompt id as output", |p| {
        let id = p.statement.prompt.pop().expect("a prompt");
        p.statement.output.insert(0, id);
    });
}

#[test]
fn chunks_cannot_be_moved() {
    assert_refused_by(&[1, 2], "swapped", |p| p.chunks.swap(1, 2));
    assert_refused_by(&[0, 1, 2, 3], "swapped with what is around them", |p| {
        p.chunks.swap(1, 2);
        p.boundaries.swap(0, 2);
    });
    assert_refused_by(&[2], "twice, for the next one", |p| p.chunks[2] = p.chunks[1].clone());
    assert_refused_by(&[2, 3], "twice, with what enters and leaves", |p| {
        p.chunks[2] = p.chunks[1].clone();
        p.boundaries[2] = p.boundaries[1].clone();
    });
    assert_refused_by(&[1], "twice, for the one before", |p| p.chunks[1] = p.chunks[2].clone());
}

/// A chain that leaves out a chunk, or has one twice, is not one of all layers; if numbers of layers are changed so that
/// it is, a chunk is not one of so many layers.
#[test]
fn chunks_cannot_be_left_out_or_repeated() {
    let layers = |error: VerifyError| match error {
        VerifyError::Chunks(ChunkError::Layers { got, expected: 7 }) => got,
        other => panic!("{other:?}"),
    };
    let without = |p: &mut Proof, at: usize| {
        p.chunks.remove(at);
        p.boundaries.remove(at.min(2));
    };
    for (at, count) in LAYERS.into_iter().enumerate() {
        assert_eq!(layers(answer(|p| without(p, at))), 7 - count);
        let twice = |p: &mut Proof| {
            p.chunks.insert(at, p.chunks[at].clone());
            p.boundaries.insert(at.min(2), p.boundaries[at.min(2)].clone());
        };
        assert_eq!(layers(answer(twice)), 7 + count);
        let neighbour = usize::from(at == 0);
        let stretched = answer(|p| {
            p.chunks[neighbour].layers += count as u32;
            without(p, at);
        });
        assert!(matches!(stretched, VerifyError::Gkr(_)), "{at}: {stretched:?}");
    }
    assert_eq!(layers(answer(|p| p.chunks.clear())), 0);
    let nothing = answer(|p| {
        p.chunks.clear();
        p.boundaries.clear();
    });
    assert_eq!(layers(nothing), 0);
}

#[test]
fn numbers_of_layers_are_those_of_the_model() {
    let change = |layers: [u32; 4]| {
        answer(|p| {
            for (chunk, layers) in p.chunks.iter_mut().zip(layers) {
                chunk.layers = layers;
            }
        })
    };
    for layers in [
        [1, 2, 2, 1],
        [1, 2, 2, 3],
        [u32::MAX, 2, 2, 2],
        [u32::MAX; 4],
        [7, 7, 7, 7],
    ] {
        let got = layers.iter().map(|l| *l as usize).sum::<usize>();
        let error = change(layers);
        assert!(
            matches!(error, VerifyError::Chunks(ChunkError::Layers { got: g, expected: 7 }) if g == got),
            "{layers:?}: {error:?}"
        );
    }
    for (index, layers) in [[0, 3, 2, 2], [3, 0, 2, 2], [3, 2, 0, 2], [3, 2, 2, 0]]
        .into_iter()
        .enumerate()
    {
        let error = change(layers);
        assert!(
            matches!(error, VerifyError::Chunks(ChunkError::Empty { index: i }) if i == index),
            "{layers:?}: {error:?}"
        );
    }
    // All layers, but others than were proved.
    for layers in [[2, 1, 2, 2], [1, 2, 1, 3], [4, 1, 1, 1]] {
        let error = change(layers);
        assert!(matches!(error, VerifyError::Gkr(_)), "{layers:?}: {error:?}");
    }
}

#[test]
fn boundaries_are_between_the_chunks() {
    let number = |error: VerifyError| match error {
        VerifyError::Boundaries(BoundaryError::Number { got, chunks }) => (got, chunks),
        other => panic!("{other:?}"),
    };
    assert_eq!(number(answer(|p| drop(p.boundaries.pop()))), (2, 4));
    assert_eq!(number(answer(|p| p.boundaries.push(p.boundaries[0].clone()))), (4, 4));
    assert_eq!(number(answer(|p| p.boundaries.clear())), (0, 4));
    let mut one = model().prove_chunks(&prompt(3), 3, &[7]);
    one.boundaries.push(honest().boundaries[0].clone());
    assert_eq!(
        number(verify(&model().key, &one).expect_err("a boundary too many")),
        (1, 1)
    );

    let expected = values(&honest().boundaries[0]).len();
    for (index, len) in [
        (0, expected - 1),
        (1, expected + 1),
        (2, 0),
        (0, 2 * expected),
        (1, expected / 2),
    ] {
        let error = answer(|p| clear(&mut p.boundaries[index]).resize(len, 0));
        let wanted = BoundaryError::Length {
            index,
            got: len,
            expected,
        };
        assert!(matches!(error, VerifyError::Boundaries(e) if e == wanted), "{error:?}");
    }
}

/// Chunks of honest proofs of something else, alone and with what enters and leaves them.
#[test]
fn chunks_of_other_proofs_do_not_fit() {
    let model = model();
    let others = [
        ("another prompt", model.prove_chunks(&prompt(4), 3, &LAYERS)),
        ("another output", model.prove_chunks(&prompt(3)[1..], 4, &LAYERS)),
        ("another model", make(8).prove_chunks(&prompt(3), 3, &LAYERS)),
    ];
    for (what, other) in &others {
        assert_eq!(
            values(&other.boundaries[0]).len(),
            values(&honest().boundaries[0]).len(),
            "{what}: as many rows"
        );
        for at in 0..LAYERS.len() {
            assert_refused_by(&[at], what, |p| p.chunks[at] = other.chunks[at].clone());
            let around = at.saturating_sub(1)..(at + 2).min(LAYERS.len());
            let around: Vec<usize> = around.collect();
            assert_refused_by(&around, what, |p| {
                p.chunks[at] = other.chunks[at].clone();
                for boundary in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                    if let Some(own) = p.boundaries.get_mut(boundary) {
                        own.clone_from(&other.boundaries[boundary]);
                    }
                }
            });
        }
        // All chunks of the other proof under this statement, and the other way round.
        assert_refused_by(&[0, 1, 2, 3], what, |p| {
            p.chunks.clone_from(&other.chunks);
            p.boundaries.clone_from(&other.boundaries);
        });
    }
    let relabelled = answer(|p| p.model = others[2].1.model);
    assert!(matches!(relabelled, VerifyError::OtherModel { .. }), "{relabelled:?}");
}

/// As many layers from another place of the same model, on the same statement.
#[test]
fn chunks_of_another_partition_do_not_fit() {
    let other = model().prove_chunks(&prompt(3), 3, &[2, 2, 2, 1]);
    // Layers 2 and 3 for layers 1 and 2, and for 3 and 4.
    assert_refused_by(&[1], "an earlier chunk", |p| p.chunks[1] = other.chunks[1].clone());
    assert_refused_by(&[2], "a later chunk", |p| p.chunks[2] = other.chunks[1].clone());
    assert_refused_by(&[0, 1, 2], "with what enters and leaves", |p| {
        p.chunks[1] = other.chunks[1].clone();
        p.boundaries[..2].clone_from_slice(&other.boundaries[..2]);
    });
}

/// A chunk with head is none without, and the other way round, likewise with embedding.
#[test]
fn ends_of_the_model_are_ends_of_the_chain() {
    assert_refused_by(&[3], "without head", |p| p.chunks[3] = p.chunks[2].clone());
    assert_refused_by(&[2], "with head", |p| p.chunks[2] = p.chunks[3].clone());
    let other = model().prove_chunks(&prompt(3), 3, &[2, 2, 3]);
    assert_refused_by(&[1], "with embedding", |p| p.chunks[1] = other.chunks[0].clone());
    let ones = model().prove_chunks(&prompt(3), 3, &[1; 7]);
    let refused = answer(|p| p.chunks[0] = ones.chunks[1].clone());
    assert!(matches!(refused, VerifyError::Gkr(_)), "without embedding: {refused:?}");
}

/// A lie between two chunks: everything is proved honestly on either side of it, down to the output that follows from it.
/// One boundary cannot be both what the first chunk gives and what the second one takes.
#[test]
fn a_chain_with_a_lie_is_broken_at_the_lie() {
    let model = model();
    let prover = model.prover();
    let config = &model.key.config;
    let chunks = Chunk::partition([3, 2, 2], 7).expect("a partition");
    let truth = model.prove_chunks(&prompt(3), 1, &[3, 2, 2]);
    let leading = truth.statement.leading(&model.key.params.leading);
    let run = |chunk: &Chunk, input: &Boundary, witness: Option<&mut Witness>| {
        let run = ForwardState::run_chunk(
            &model.quantised,
            chunk,
            Input::Stream(input, leading),
            truth.statement.output.len(),
            witness,
        );
        run.expect("a forward pass").output
    };
    let true_input = Boundary(values(&truth.boundaries[0]));
    let lie = Boundary(true_input.0.iter().map(|v| v.wrapping_mul(3)).collect());
    let after = run(&chunks[1], &lie, None);
    let mut witness = Witness::default();
    run(&chunks[2], &after, Some(&mut witness));
    // The logits of the one generated position.
    assert_eq!(witness.logits.len(), config.vocab);
    let told = arg_max(&witness.logits) as u32;
    assert_ne!(told, truth.statement.output[0], "the lie changes the output");

    let statement = Statement {
        output: vec![told],
        ..truth.statement.clone()
    };
    let honest = [true_input.clone(), run(&chunks[1], &true_input, None)];
    let dishonest = [lie.clone(), after];
    let prove = |at: usize, boundaries: &[Boundary; 2]| {
        let ends = ends(boundaries, 3).expect("boundaries");
        let proved = prove_chunk(&prover, &statement, &chunks[at], ends[at], None, &Silent);
        proved.expect("a proof of the chunk alone").proof
    };
    let proof = Proof {
        chunks: vec![prove(0, &honest), prove(1, &dishonest), prove(2, &dishonest)],
        boundaries: model.public(&statement, &dishonest),
        model: prover.id,
        statement: statement.clone(),
        context: None,
        hidden: None,
    };
    for (first, refusing) in [(&dishonest[0], 0), (&honest[0], 1)] {
        let mut proof = proof.clone();
        proof.boundaries[0] = PublicBoundary::Clear(first.clone());
        let refusals = refusals(&model.key, &reworked(&model.key, proof));
        assert!(
            matches!(refusals[..], [(i, VerifyError::Gkr(_))] if i == refusing),
            "{refusals:?}"
        );
    }
}
