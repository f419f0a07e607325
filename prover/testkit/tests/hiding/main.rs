//! Proofs that hide activations: honest ones are accepted, and whoever lies under a pad is refused (docs/protocol.md, section 17).

mod coverage;
mod distribution;
mod equivocation;
mod lies;
mod reveals;
mod texts;

use std::sync::OnceLock;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, Pooling, WeightFormat};
use tessera_circuits::shape::LeafLimits;
use tessera_circuits::statement::{HiddenIds, HiddenPrompt, Statement};
use tessera_circuits::table_tree::TableArgument;
use tessera_model::generate::GenerateOptions;
use tessera_prover::device::Device;
use tessera_prover::hiding::{Secrets, TapeKey};
use tessera_prover::opening::params_for;
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
use tessera_verifier::hiding::{HiddenCode, HiddenProof};
use tessera_verifier::ledger::hidden_security_bits;
use tessera_verifier::length::{most_bytes, most_hidden_bytes};
use tessera_verifier::listen::TapeError;
use tessera_verifier::opening::parts::parts_of;
use tessera_verifier::opening::{CommitmentParams, OpeningError, OpeningProof};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::Suite;
use tessera_verifier::tables::TablesError;
use tessera_verifier::verify::{hidden_code, verify_bytes, verify_hidden, ChunkStatement, VerifyError};

type K = SecureField;

const HIDING: ProofOptions<'_> = ProofOptions {
    context: None,
    hide_activations: true,
    hidden_ids: HiddenIds {
        prompt: None,
        output: false,
    },
    reveals: 0,
    without_clips: false,
    admits: None,
};

/// A proof with what it has for hiding, and what a verifier says to it.
type Attempt = (ChunkProof, HiddenProof, Result<(), VerifyError>);

/// A model whose key has tables as a tree, and a statement of it.
struct Scene {
    model: TestModel,
    /// As the proof says it.
    statement: Statement,
    /// With the ids that the statement hides.
    witness: Statement,
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
            witness: statement.clone(),
            statement,
        }
    }

    /// The scene of most tests.
    fn small() -> &'static Self {
        static SCENE: OnceLock<Scene> = OnceLock::new();
        SCENE.get_or_init(|| Self::new(Suite::default(), odd_config()))
    }

    fn prove(&self, asked: ProofOptions<'_>) -> Result<ProveReport, ProveError> {
        prove_statement(&self.model.prover(), self.witness.clone(), asked, &Silent)
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
        self.claimed(|claim| hidden_code(claim, LeafLimits::OF_STATEMENTS, 0).expect("a code"))
    }

    /// A proof with these secrets, on a device, and what a verifier says to it.
    fn attempt(&self, device: &'static dyn Device, secrets: Secrets) -> Attempt {
        let prover = tessera_prover::ProverModel {
            device,
            ..self.model.prover()
        };
        self.claimed(|claim| {
            let made = prove_with_secrets(&prover, claim, &self.witness, secrets, &|_, _| ());
            let (proof, hidden, _) = made.expect("a proof");
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
    let hidden_bits = hidden_security_bits(key, scene.statement.lengths(), 0);
    assert_eq!(hidden_bits, Some(hiding.security_bits));
    // As many as under a key of trees, and more than a STARK leaves.
    let tree = Scene::small();
    assert_eq!(tree.statement.lengths(), scene.statement.lengths());
    assert_eq!(
        hidden_bits,
        hidden_security_bits(&tree.model.key, tree.statement.lengths(), 0)
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

/// The messages of an opening that are elements, and no rows.
fn opening_elements(opening: &OpeningProof) -> Vec<K> {
    let opening = parts_of(opening);
    let mut all = Vec::new();
    for code in &opening.codes {
        all.extend(code.band_rounds.as_flattened());
        all.push(code.band_value);
    }
    all.extend(&opening.cross_values);
    all.extend(opening.fold_rounds.as_flattened());
    all.extend(&opening.final_message);
    all
}

/// Two proofs of one statement have no message and no answer in common, place by place.
#[test]
fn two_proofs_of_a_statement_have_no_element_in_common() {
    let scene = Scene::small();
    let [first, second] = [0, 1].map(|_| scene.prove(HIDING).expect("a proof").proof);
    let elements = |proof: &Proof| {
        let chunk = &proof.chunks[0];
        let hidden = proof.hidden.clone().expect("a hidden proof");
        let mut all: Vec<K> = [hidden.tape.answers, hidden.tape.values.to_vec()].concat();
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
        all.extend(opening_elements(&chunk.opening));
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

/// The longest proof that hides is no longer than its key allows, and not much shorter.
#[test]
fn no_hidden_proof_is_longer_than_its_key_allows() {
    let scene = Scene::small();
    let context = scene.model.key.config.context;
    let most = most_hidden_bytes(&scene.model.key);
    assert!(most <= most_bytes(&scene.model.key));
    let mut longest = 0;
    let hidden = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: true,
    };
    for (prompt, output, hidden_ids) in [
        (1, 1, HiddenIds::default()),
        (context, 1, HiddenIds::default()),
        (1, context, HiddenIds::default()),
        (context, 1, hidden),
        (2, context - 1, hidden),
    ] {
        let asked = ProofOptions { hidden_ids, ..HIDING };
        let prompt = random_ids(&scene.model.key.config, prompt, 5);
        let options = GenerateOptions::exactly(output);
        let statement = generate_statement(&scene.model.prover(), &prompt, &options, &Silent).expect("a text");
        let report = prove_statement(&scene.model.prover(), statement, asked, &Silent).expect("a proof");
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
    for at in 0..hidden.tape.answers.len() {
        let mut other = hidden.clone();
        other.tape.answers[at] += K::from(1);
        assert!(scene.verdict(&with(other)).is_err(), "answer {at}");
    }
    for (name, changed) in hidden_changes(&honest) {
        // Work that is done again does not help either.
        let own = reworked(&scene.model.key, changed.clone());
        match (name, scene.verdict(&own).expect_err(name)) {
            ("Empty of hidden", VerifyError::Gkr(GkrError::Layer { .. })) => (),
            ("Truncate of hidden.tape.answers" | "Extend of hidden.tape.answers", VerifyError::Opening(error)) => {
                let (got, expected) = (
                    own.hidden.map_or(0, |own| own.tape.answers.len()),
                    hidden.tape.answers.len(),
                );
                assert_eq!(
                    error,
                    OpeningError::Tape(TapeError::Answers { got, expected }),
                    "{name}"
                );
            }
            ("Extend of hidden.digits.factors", VerifyError::Digits { got: 1, expected: 0 })
            | ("Change of statement.prompt[1], hidden", _) => (),
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
        witness: statement.clone(),
        statement,
    };
    let proved = scene.claimed(|claim| {
        let secrets = scene.secrets(4);
        prove_with_secrets(&scene.model.prover(), claim, &scene.witness, secrets, &|_, _| ()).map(|_| ())
    });
    assert!(
        matches!(proved, Err(ProveError::Check(VerifyError::HiddenClips { got: 1.. }))),
        "{proved:?}"
    );
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
