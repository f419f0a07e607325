//! Proofs that hide activations: honest ones are accepted, and whoever lies under a pad is refused (docs/protocol.md, section 17).

mod coverage;
mod equivocation;

use std::sync::OnceLock;

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, Pooling, WeightFormat};
use tessera_circuits::shape::LeafLimits;
use tessera_circuits::statement::Statement;
use tessera_circuits::table_tree::TableArgument;
use tessera_model::generate::GenerateOptions;
use tessera_prover::column::Column;
use tessera_prover::device::Device;
use tessera_prover::hiding::{Rehearsal, Secrets, TapeKey};
use tessera_prover::opening::{params_for, OpeningProverError};
use tessera_prover::scalar::Scalar;
use tessera_prover::{
    boundaries, generate_statement, prove_statement, prove_with_secrets, ProofOptions, ProveError, ProveReport,
};
use tessera_support::progress::Silent;
use tessera_testkit::{
    banded_config, capped_config, encoder_config, hidden_changes, odd_config, plain_config, random_ids, random_model,
    reranker_config, reworked, windowed_config, SplitMix, TestModel,
};
use tessera_verifier::codec::FileKind;
use tessera_verifier::context::Context;
use tessera_verifier::gkr::GkrError;
use tessera_verifier::hiding::{HiddenCode, HiddenProof, Tape};
use tessera_verifier::ledger::hidden_security_bits;
use tessera_verifier::length::{most_bytes, most_hidden_bytes};
use tessera_verifier::listen::TapeError;
use tessera_verifier::opening::parts::parts_of;
use tessera_verifier::opening::{CommitmentParams, OpeningError};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::Suite;
use tessera_verifier::tables::TablesError;
use tessera_verifier::verify::{hidden_code, verify_bytes, verify_hidden, ChunkStatement, VerifyError};

type K = SecureField;

const HIDING: ProofOptions<'_> = ProofOptions {
    context: None,
    hide_activations: true,
    without_clips: false,
    admits: None,
};

/// A proof with what it has for hiding, and what a verifier says to it.
type Attempt = (ChunkProof, HiddenProof, Result<(), VerifyError>);

/// A model whose key has tables as a tree, and a statement of it.
struct Scene {
    model: TestModel,
    statement: Statement,
    chunk: Chunk,
}

impl Scene {
    fn new(suite: Suite, config: ModelConfig) -> Self {
        let model = random_model(config.clone(), WeightFormat::Int8, 7);
        Self::of(
            TestModel::of_suite(suite, model).with_tables(TableArgument::Gkr),
            config,
        )
    }

    /// A scene in which mask and tape are lifted, because messages of weights are much longer than messages of activations.
    fn lifted() -> &'static Self {
        static SCENE: OnceLock<Scene> = OnceLock::new();
        SCENE.get_or_init(|| {
            let model = random_model(odd_config(), WeightFormat::Int8, 7);
            let weights = CommitmentParams {
                log_message: 18,
                ..params_for(model.config.total_tiles())
            };
            let model = TestModel::committed(model, weights).with_tables(TableArgument::Gkr);
            let scene = Self::of(model, odd_config());
            assert!(scene.code().params.log_message + 1 < 18);
            scene
        })
    }

    fn of(model: TestModel, config: ModelConfig) -> Self {
        let prompt = random_ids(&config, 4, 3);
        let options = GenerateOptions::exactly(3);
        let statement = generate_statement(&model.prover(), &prompt, &options, &Silent).expect("a text");
        Self {
            chunk: Chunk::whole(config.layers),
            model,
            statement,
        }
    }

    /// The scene of most tests.
    fn small() -> &'static Self {
        static SCENE: OnceLock<Scene> = OnceLock::new();
        SCENE.get_or_init(|| Self::new(Suite::default(), odd_config()))
    }

    fn prove(&self, asked: ProofOptions<'_>) -> Result<ProveReport, ProveError> {
        prove_statement(&self.model.prover(), self.statement.clone(), asked, &Silent)
    }

    fn verdict(&self, proof: &Proof) -> Result<(), VerifyError> {
        verify_bytes(&self.model.key, &proof.to_bytes().expect("it encodes")).map(|_| ())
    }

    fn claimed<T>(&self, then: impl FnOnce(&ChunkStatement<'_>) -> T) -> T {
        let prover = self.model.prover();
        then(&ChunkStatement::whole(
            &self.model.key,
            &prover.id,
            &self.statement,
            &self.chunk,
            None,
        ))
    }

    fn code(&self) -> HiddenCode {
        self.claimed(|claim| hidden_code(claim, LeafLimits::OF_STATEMENTS).expect("a code"))
    }

    /// A proof with these secrets, on a device, and what a verifier says to it.
    fn attempt(&self, device: &'static dyn Device, secrets: Secrets) -> Attempt {
        let prover = tessera_prover::ProverModel {
            device,
            ..self.model.prover()
        };
        self.claimed(|claim| {
            let (proof, hidden) = prove_with_secrets(&prover, claim, secrets, &|_, _| ()).expect("a proof");
            let verdict = verify_hidden(claim, LeafLimits::OF_STATEMENTS, &proof, &hidden);
            (proof, hidden, verdict)
        })
    }

    fn secrets(&self, seed: u8) -> Secrets {
        Secrets::draw(self.code(), &TapeKey::of_test(seed))
    }
}

/// Proofs of both suites, with a context and without one, are accepted, and their files say that they hide.
#[test]
fn honest_proofs_are_accepted() {
    let keccak = Scene::new(Suite::Keccak, odd_config());
    for scene in [Scene::small(), Scene::lifted(), &keccak] {
        for context in [None, Some(Context::try_from([5; 32]).expect("a context"))] {
            let report = scene.prove(ProofOptions { context, ..HIDING }).expect("a proof");
            let verified = verify_bytes(&scene.model.key, &report.bytes).expect("an honest proof");
            assert!(verified.hides_activations);
            assert_eq!(verified.statement, scene.statement);
            assert_eq!(verified.context, context);
            assert_eq!(verified.security_bits, report.security_bits);
            assert_eq!(report.proof.file_kind(), FileKind::proof(context.is_some(), true));
            let read = Proof::from_bytes(&report.bytes).expect("a proof");
            assert_eq!(read.to_bytes().expect("it encodes"), report.bytes);
            assert_eq!(Proof::model_of(&report.bytes).expect("a model"), verified.model);
        }
    }
}

/// A key whose other proofs have a STARK of the tables has proofs that hide, in which the tables are a tree; they have no STARK, and other proofs have one.
#[test]
fn keys_of_a_stark_have_proofs_that_hide() {
    let model = random_model(odd_config(), WeightFormat::Int8, 7);
    let scene = Scene::of(TestModel::new(model), odd_config());
    let key = &scene.model.key;
    assert_eq!(key.table_argument(), TableArgument::Stark);
    let (hiding, clear) = (scene.prove(HIDING), scene.prove(ProofOptions::default()));
    let [hiding, clear] = [hiding, clear].map(|own| own.expect("a proof"));
    let hidden_bits = hidden_security_bits(key, scene.statement.lengths());
    assert_eq!(hidden_bits, Some(hiding.security_bits));
    // As many as under a key of trees, and more than a STARK leaves.
    let tree = Scene::small();
    assert_eq!(tree.statement.lengths(), scene.statement.lengths());
    assert_eq!(
        hidden_bits,
        hidden_security_bits(&tree.model.key, tree.statement.lengths())
    );
    assert!(hiding.security_bits > clear.security_bits + 1.0);
    for own in [&hiding, &clear] {
        let verified = verify_bytes(key, &own.bytes).expect("an honest proof");
        assert_eq!(verified.security_bits, own.security_bits);
        assert_eq!(verified.model, key.id().expect("an id"));
    }
    // Each with the tables of the other.
    for (proof, other) in [(&hiding, &clear), (&clear, &hiding)] {
        let mut proof = proof.proof.clone();
        proof.chunks[0].tables = other.proof.chunks[0].tables.clone();
        let error = scene.verdict(&proof).expect_err("tables of another kind of proof");
        assert!(
            matches!(error, VerifyError::Tables(TablesError::Argument { .. })),
            "{error}"
        );
    }
    let longest = most_hidden_bytes(key);
    assert!(hiding.bytes.len() <= longest && longest <= most_bytes(key));
}

/// Proofs of decoders, encoders and rerankers hide, also where blocks have windows, norms of heads, caps or bands.
#[test]
fn every_kind_of_model_hides() {
    for config in [
        ModelConfig {
            hidden: 72,
            kv_heads: 3,
            heads: 3,
            ..odd_config()
        },
        plain_config(),
        capped_config(),
        windowed_config(3, [0, 2]),
        banded_config(1),
        encoder_config(Pooling::Mean),
        reranker_config(None),
    ] {
        let scene = Scene::new(Suite::default(), config);
        let report = scene.prove(HIDING);
        let report = report.unwrap_or_else(|error| panic!("{:?}: {error}", scene.model.key.config));
        let verified = verify_bytes(&scene.model.key, &report.bytes).expect("an honest proof");
        assert!(verified.hides_activations);
        assert_eq!(verified.statement, scene.statement);
    }
}

/// Two proofs of one statement have no message and no answer in common, place by place.
#[test]
fn two_proofs_of_a_statement_have_no_element_in_common() {
    let scene = Scene::small();
    let [first, second] = [0, 1].map(|_| scene.prove(HIDING).expect("a proof").proof);
    let elements = |proof: &Proof| {
        let chunk = &proof.chunks[0];
        let hidden = proof.hidden.clone().expect("a hidden proof");
        let mut all: Vec<K> = [hidden.answers, hidden.tape_values.to_vec()].concat();
        for group in &chunk.lookups {
            all.extend(group.roots.as_flattened());
            for layer in &group.layers {
                all.extend(layer.rounds.as_flattened());
                all.extend(layer.children.as_flattened());
            }
        }
        all.push(chunk.matmuls.claim);
        all.extend(chunk.matmuls.sumcheck.rounds.as_flattened());
        all.extend(chunk.matmuls.operands.as_flattened());
        all.extend(chunk.linear.rounds.as_flattened());
        let opening = parts_of(&chunk.opening);
        for code in &opening.codes {
            all.extend(code.band_rounds.as_flattened());
            all.push(code.band_value);
        }
        all.extend(&opening.cross_values);
        all.extend(opening.fold_rounds.as_flattened());
        all.extend(&opening.final_message);
        all
    };
    let [first, second] = [first, second].map(|proof| elements(&proof));
    assert_eq!(first.len(), second.len());
    assert!(first.iter().zip(&second).all(|(a, b)| a != b));
}

/// With the same secrets all devices make the same proof.
#[test]
fn devices_agree() {
    let scene = Scene::small();
    let (proof, hidden, verdict) = scene.attempt(scene.model.device, scene.secrets(1));
    verdict.expect("an honest proof");
    let (other, other_hidden, verdict) = scene.attempt(&Scalar, scene.secrets(1));
    verdict.expect("an honest proof");
    assert_eq!(hidden, other_hidden);
    assert_eq!(
        proof.to_bytes().expect("it encodes"),
        other.to_bytes().expect("it encodes")
    );
}

/// Asserts that a proof with these secrets is refused by the folding, in which all equations are proved.
fn assert_refused(scene: &Scene, secrets: Secrets, what: &str) {
    let (.., verdict) = scene.attempt(scene.model.device, secrets);
    let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
    assert!(folded, "{what}: {verdict:?}");
}

/// A prover that says another message than the true one, under the true pad of one of these entries, is refused: each message is bound by an equation.
fn lie(scene: &Scene, entries: impl Iterator<Item = usize>) {
    for entry in entries {
        let lies = Rehearsal {
            lies: vec![(entry, K::from(1))],
            ..Rehearsal::default()
        };
        assert_refused(
            scene,
            scene.secrets(2).rehearsing(lies),
            &format!("a lie under pad {entry}"),
        );
    }
}

/// Scalars of products that do not fit pads and masks are refused.
fn falsify(scene: &Scene, scalars: impl Iterator<Item = usize>) {
    for entry in scalars {
        let secrets = scene.secrets(3);
        let value = secrets.tape()[entry] + K::from(1);
        assert_refused(scene, secrets.with_entry(entry, value), &format!("scalar {entry}"));
    }
}

/// The entries with pads of messages, and those with scalars.
fn entries(tape: &Tape) -> [Vec<usize>; 2] {
    let messages = (tape.unused..tape.messages).chain(tape.cross..tape.entries);
    let scalars = tape.products.iter().flat_map(|own| {
        let forms = 0..own.forms.len();
        forms.flat_map(|form| own.scalars(form))
    });
    [messages.collect(), scalars.collect()]
}

/// An entry of every kind: sum and denominator of a root, a child, a round of lookups, claim, round and operands of the matmuls, a round of the linear
/// claims, round and evaluation of both commitments, all cross values; and the scalars of a layer and of the matmuls.
fn kinds(scene: &Scene) -> [Vec<usize>; 2] {
    let (tape, columns) = (scene.code().tape, scene.code().columns);
    let (first, matmuls) = (&tape.products[0], tape.products.last().expect("the matmuls"));
    let [child, .., sum, denominator] = first.operands[..] else {
        panic!("operands of a first layer");
    };
    let operands = matmuls.operands[0];
    let claims = matmuls.operands.last().expect("operands") + 1;
    let evaluation = tape.messages - 1;
    let weights = evaluation - 2 * columns.log_bands() as usize - 1;
    let mut messages = vec![sum, denominator, child];
    // The rounds of the second layer come after the children of the first one.
    messages.push(child + 4);
    // Before the operands of the matmuls their last round, and so many rounds before it the claim.
    let shape = scene.model.key.hidden_shape(scene.statement.lengths());
    messages.extend([operands - 1, operands - 1 - 2 * shape.product_variables() as usize]);
    messages.extend([
        operands,
        operands + 1,
        claims,
        weights - 1,
        weights,
        evaluation - 1,
        evaluation,
    ]);
    messages.extend(tape.cross..tape.entries);
    let scalars = [first, matmuls].map(|own| own.scalars(0));
    [messages, scalars.concat()]
}

#[test]
fn messages_and_scalars_are_not_free() {
    for scene in [Scene::small(), Scene::lifted()] {
        for seed in [2, 3] {
            let (.., verdict) = scene.attempt(scene.model.device, scene.secrets(seed));
            verdict.expect("an honest proof");
        }
        let [messages, scalars] = kinds(scene);
        let all = entries(&scene.code().tape);
        assert!(messages.iter().all(|own| all[0].contains(own)));
        assert!(scalars.iter().all(|own| all[1].contains(own)));
        lie(scene, messages.into_iter());
        falsify(scene, scalars.into_iter());
    }
}

/// Answers are bound to masks and pads, not by their products alone: of two factors one is doubled and the other one halved.
#[test]
fn answers_with_the_same_products_are_refused() {
    fn change(answers: &mut [K]) {
        let [.., a, b] = answers else {
            panic!("answers about the last matmul");
        };
        let two = K::from(2);
        assert!(!a.is_zero() && !b.is_zero());
        *a *= two;
        *b *= two.inverse();
    }
    let scene = Scene::small();
    let changed = Rehearsal {
        change_answers: Some(change),
        ..Rehearsal::default()
    };
    assert_refused(
        scene,
        scene.secrets(5).rehearsing(changed),
        "answers with the same products",
    );
}

/// A prover that says an entry of the tables is used once more than it is: lookups that do not balance the tables are refused under pads, too.
#[test]
fn lookups_that_do_not_balance_are_refused() {
    fn change(counts: &mut [Column]) {
        match &mut counts[0] {
            Column::Small { cells, .. } => cells[0] += 1,
            Column::Elements(cells) => cells[0] += BaseField::from(1),
        }
    }
    let scene = Scene::small();
    let changed = Rehearsal {
        change_counts: Some(change),
        ..Rehearsal::default()
    };
    assert_refused(
        scene,
        scene.secrets(7).rehearsing(changed),
        "a count that is one too large",
    );
}

/// Two equations are violated by as much, one by more and one by less: each has a weight of its own, so the violations do not cancel.
#[test]
fn violations_of_two_equations_do_not_cancel() {
    let scene = Scene::small();
    let tape = scene.code().tape;
    // The scalar of the masks is in one equation only.
    let [[.., a], [.., b]] = [0, 1].map(|form| tape.products[0].scalars(form));
    let secrets = scene.secrets(6);
    let [more, less] = [secrets.tape()[a] + K::from(1), secrets.tape()[b] - K::from(1)];
    let secrets = secrets.with_entry(a, more).with_entry(b, less);
    assert_refused(scene, secrets, "two scalars");
}

#[test]
#[ignore = "takes some minutes: all entries, of which the test above takes one of every kind; run by .ci/nightly"]
fn no_message_and_no_scalar_is_free() {
    for scene in [Scene::small(), Scene::lifted()] {
        let [messages, scalars] = entries(&scene.code().tape);
        lie(scene, messages.into_iter());
        falsify(scene, scalars.into_iter());
    }
}

/// The longest proof that hides is no longer than its key allows, and not much shorter.
#[test]
fn no_hidden_proof_is_longer_than_its_key_allows() {
    let scene = Scene::small();
    let context = scene.model.key.config.context;
    let most = most_hidden_bytes(&scene.model.key);
    assert!(most <= most_bytes(&scene.model.key));
    let mut longest = 0;
    for (prompt, output) in [(1, 1), (context, 1), (1, context)] {
        let prompt = random_ids(&scene.model.key.config, prompt, 5);
        let options = GenerateOptions::exactly(output);
        let statement = generate_statement(&scene.model.prover(), &prompt, &options, &Silent).expect("a text");
        let report = prove_statement(&scene.model.prover(), statement, HIDING, &Silent).expect("a proof");
        longest = longest.max(report.bytes.len());
    }
    assert!(longest <= most && 3 * longest > 2 * most, "{longest} bytes of {most}");
}

/// Every entry of the tape has one use: a pad, a mask or a scalar.
#[test]
fn every_entry_of_the_tape_is_used_once() {
    let scene = Scene::small();
    let tape = scene.code().tape;
    let mut uses = vec![0; tape.entries];
    (0..tape.unused).for_each(|entry| uses[entry] += 1);
    (tape.unused..tape.messages).for_each(|entry| uses[entry] += 1);
    (tape.cross..tape.entries).for_each(|entry| uses[entry] += 1);
    for own in &tape.products {
        own.masks().for_each(|entry| uses[entry] += 1);
        (0..own.forms.len())
            .flat_map(|form| own.scalars(form))
            .for_each(|entry| uses[entry] += 1);
        assert!(own
            .operands
            .iter()
            .all(|pad| (tape.unused..tape.messages).contains(pad)));
    }
    assert!(uses.iter().all(|uses| *uses == 1), "{uses:?}");
}

/// Every answer, every kind of message and every byte of the proof counts.
#[test]
fn nothing_of_a_hidden_proof_can_be_changed() {
    let scene = Scene::small();
    let honest = scene.prove(HIDING).expect("a proof").proof;
    scene.verdict(&honest).expect("an honest proof");
    let hidden = honest.hidden.clone().expect("a hidden proof");
    let with = |hidden| Proof {
        hidden: Some(hidden),
        ..honest.clone()
    };
    for at in 0..hidden.answers.len() {
        let mut other = hidden.clone();
        other.answers[at] += K::from(1);
        assert!(scene.verdict(&with(other)).is_err(), "answer {at}");
    }
    for (name, changed) in hidden_changes(&honest) {
        // Work that is done again does not help either.
        let own = reworked(&scene.model.key, changed.clone());
        match (name, scene.verdict(&own).expect_err(name)) {
            ("Empty of hidden", VerifyError::Gkr(GkrError::Layer { .. })) => (),
            ("Truncate of hidden.answers" | "Extend of hidden.answers", VerifyError::Opening(error)) => {
                let (got, expected) = (own.hidden.map_or(0, |own| own.answers.len()), hidden.answers.len());
                assert_eq!(
                    error,
                    OpeningError::Tape(TapeError::Answers { got, expected }),
                    "{name}"
                );
            }
            (place, VerifyError::Opening(OpeningError::Root { .. })) => assert!(place.contains("rows"), "{place}"),
            (place, VerifyError::Opening(OpeningError::FoldClaim)) => assert!(!place.contains("rows"), "{place}"),
            (place, error) => panic!("{place}: {error}"),
        }
    }
    let bytes = honest.to_bytes().expect("it encodes");
    let mut random = SplitMix(8);
    for _ in 0..600 {
        let mut other = bytes.clone();
        let at = random.below(other.len() as u64) as usize;
        other[at] ^= 1 << random.below(8);
        assert!(verify_bytes(&scene.model.key, &other).is_err(), "byte {at}");
    }
}

/// A proof is what it says: one that hides has no use as one that does not, and the reverse.
#[test]
fn proofs_that_hide_and_proofs_that_do_not_are_different() {
    let scene = Scene::small();
    let hiding = scene.prove(HIDING).expect("a proof").proof;
    let clear = scene.prove(ProofOptions::default()).expect("a proof").proof;
    assert!(clear.hidden.is_none());
    let bare = Proof {
        hidden: None,
        ..hiding.clone()
    };
    let dressed = Proof {
        hidden: hiding.hidden.clone(),
        ..clear
    };
    for proof in [bare, dressed] {
        scene.verdict(&proof).expect_err("another kind of proof");
    }
}

/// Several chunks and clipped values cannot hide, and are refused by name.
#[test]
fn what_cannot_hide_is_refused_by_name() {
    let scene = Scene::small();
    let mut proof = scene.prove(HIDING).expect("a proof").proof;
    proof.chunks.push(proof.chunks[0].clone());
    proof.chunks[0].layers = 1;
    proof.chunks[1].layers = scene.model.key.config.layers as u32 - 1;
    let layers = proof.chunks.iter().map(|own| own.layers as usize);
    let chunks = Chunk::partition(layers, scene.model.key.config.layers).expect("two chunks");
    let between = boundaries(&scene.model.prover(), &scene.statement, &chunks, &Silent).expect("a forward pass");
    proof.boundaries = scene.model.public(&scene.statement, &between);
    let error = scene.verdict(&proof).expect_err("two chunks");
    assert!(matches!(error, VerifyError::HiddenChunks { got: 2 }), "{error}");

    let mut clipping = random_model(odd_config(), WeightFormat::Int16, 7);
    clipping
        .params
        .layers
        .iter_mut()
        .for_each(|layer| layer.attention.att = 2);
    let clipping = TestModel::new(clipping).with_tables(TableArgument::Gkr);
    let prompt = scene.statement.prompt.clone();
    let options = GenerateOptions::exactly(3);
    let statement = generate_statement(&clipping.prover(), &prompt, &options, &Silent).expect("a text");
    let refused = prove_statement(&clipping.prover(), statement.clone(), HIDING, &Silent);
    assert!(matches!(refused, Err(ProveError::HiddenClips { got: 1.. })));
    // A prover that lists the values, which are true, is refused by the verifier, whom it asks for the equations.
    let scene = Scene {
        chunk: Chunk::whole(clipping.key.config.layers),
        model: clipping,
        statement,
    };
    let proved = scene.claimed(|claim| {
        let secrets = scene.secrets(4);
        prove_with_secrets(&scene.model.prover(), claim, secrets, &|_, _| ()).map(|_| ())
    });
    let Err(ProveError::Opening(OpeningProverError::Equations(refused))) = proved else {
        panic!("{proved:?}");
    };
    assert!(matches!(*refused, VerifyError::HiddenClips { got: 1.. }), "{refused}");
    let Scene {
        model: clipping,
        statement,
        ..
    } = scene;

    // Contracts ask for these, whether activations are hidden or not.
    let without_clips = ProofOptions {
        without_clips: true,
        ..ProofOptions::default()
    };
    let refused = prove_statement(&clipping.prover(), statement.clone(), without_clips, &Silent);
    assert!(matches!(refused, Err(ProveError::Clips { got: 1.. })));
    let admits = |own: &Statement| Err(format!("{} tokens", own.output.len()));
    let admitting = ProofOptions {
        admits: Some(&admits),
        ..without_clips
    };
    let refused = prove_statement(&clipping.prover(), statement, admitting, &Silent);
    assert!(matches!(refused, Err(ProveError::NotAdmitted(why)) if why == "3 tokens"));
}
