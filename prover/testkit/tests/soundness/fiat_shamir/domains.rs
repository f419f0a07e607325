//! Transcripts of another domain.

use stwo::core::channel::Channel;
use tessera_circuits::chunk::{Chunk, PublicBoundary};
use tessera_circuits::statement::Statement;
use tessera_verifier::key::ModelId;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::parameter_words;
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{open_transcript, ChunkStatement, VerifyError, PROTOCOL};

use crate::cheat::{Hooks, HONEST};
use crate::{assert_rejected, Scene};

/// The public input that a transcript absorbs before the first message.
struct Domain {
    suite: Suite,
    protocol: &'static str,
    parameters: Vec<u32>,
    model: ModelId,
    lengths: [u32; 3],
    hiding: [u32; 8],
    prompt: Vec<u32>,
    output: Vec<u32>,
    layers: [u32; 3],
}

impl Domain {
    /// Returns the public input that the verifier absorbs for a whole model.
    fn own(scene: &Scene, model: &ModelId, activations: &CommitmentParams, statement: &Statement) -> Self {
        let (prompt, output) = (&statement.prompt, &statement.output);
        let leading = statement.leading(&scene.model.key.params.leading);
        let layers = scene.model.key.config.layers as u32;
        Self {
            suite: Suite::Blake2s,
            protocol: PROTOCOL,
            parameters: parameter_words(scene.model.key.table_argument(), activations.words()),
            model: *model,
            lengths: [prompt.len(), output.len(), leading].map(|n| n as u32),
            hiding: [0; 8],
            prompt: prompt.clone(),
            output: output.clone(),
            layers: [0, layers, layers],
        }
    }

    /// Opens a transcript of a whole model: nothing enters or leaves it.
    fn open(&self) -> Transcript {
        self.open_between(|transcript| {
            transcript.words("chunk input", &[]);
            transcript.words("chunk output", &[]);
        })
    }

    /// Opens a transcript of a chunk; `ends` absorbs what enters the chunk and what leaves it.
    fn open_between(&self, ends: impl Fn(&mut Transcript)) -> Transcript {
        let mut transcript = Transcript::of(self.suite, self.protocol);
        transcript.words("parameters", &self.parameters);
        transcript.bytes("model", &self.model.0);
        transcript.words("lengths", &self.lengths);
        transcript.words("hiding", &self.hiding);
        transcript.words("prompt", &self.prompt);
        transcript.words("output", &self.output);
        transcript.words("chunk", &self.layers);
        ends(&mut transcript);
        transcript.bytes("context", &[0; 32]);
        transcript
    }

    /// The same words under no labels.
    fn open_without_labels(&self) -> Transcript {
        let mut transcript = Transcript::of(self.suite, self.protocol);
        let channel = transcript.channel();
        channel.mix_u32s(&self.parameters);
        let model = self.model.0.as_chunks::<4>().0.iter();
        channel.mix_u32s(&model.map(|c| u32::from_le_bytes(*c)).collect::<Vec<_>>());
        channel.mix_u32s(&self.lengths);
        channel.mix_u32s(&self.hiding);
        channel.mix_u32s(&self.prompt);
        channel.mix_u32s(&self.output);
        channel.mix_u32s(&[0; 8]);
        transcript
    }
}

/// Other domains, as changes of the verifier's own.
const OTHERS: [fn(&mut Domain); 14] = [
    |d| d.protocol = "tessera/0",
    // Of another suite than the key's.
    |d| d.suite = Suite::Keccak,
    // A longer code of the activations, and one of another rate.
    |d| d.parameters[7] += 1,
    |d| d.parameters[8] -= 1,
    // One query of the STARK, and one of the opening.
    |d| [1, 5].into_iter().for_each(|at| d.parameters[at] = 1),
    // No work before the lookups.
    |d| d.parameters[10] = 0,
    |d| d.model = ModelId([7; 32]),
    // A token more in the output, and a leading row less.
    |d| d.lengths[1] += 1,
    |d| d.lengths[2] -= 1,
    // As if something were hidden, and as if a later version said something.
    |d| d.hiding[0] = 1,
    |d| d.hiding[7] = 1,
    |d| d.prompt.clear(),
    |d| d.output.clear(),
    // The same tokens, another border between prompt and output.
    |d| {
        let last = d.prompt.pop().expect("a prompt");
        d.output.insert(0, last);
    },
];

/// No word of the lengths, and none of what is hidden, is free: with each of them the first challenge is another one.
#[test]
fn challenges_depend_on_every_word_of_the_public_input() {
    let scene = Scene::honest();
    let (key, statement) = (&scene.model.key, &scene.statement);
    let (model, whole) = (key.id().expect("an id"), Chunk::whole(key.config.layers));
    let activations = CommitmentParams::of_activations(&key.shape(&whole, statement.lengths()), &key.weights);
    let first = |mut transcript: Transcript| transcript.channel().draw_secure_felt();
    let claim = ChunkStatement::whole(key, &model, statement, &whole, None);
    let verifier = open_transcript(&claim, &activations, None);
    let own = || Domain::own(&scene, &model, &activations, statement);
    let mut drawn = vec![first(verifier)];
    assert_eq!(first(own().open()), drawn[0]);
    for at in 0..11 {
        let mut other = own();
        match at {
            0..3 => other.lengths[at] += 1,
            _ => other.hiding[at - 3] += 1,
        }
        let challenge = first(other.open());
        assert!(!drawn.contains(&challenge), "word {at}");
        drawn.push(challenge);
    }
}

/// A prover leaves out, or says otherwise, the number of units or the length of the code of a committed boundary. Gains: a root that stands for a boundary of
/// another length.
#[test]
fn lengths_of_committed_boundaries_are_absorbed_before_their_roots() {
    let scene = Scene::wide(1);
    let rows = scene.statement.rows();
    let (_, code) = scene.model.key.boundary(rows).expect("a boundary that is committed to");
    let attempt = |lengths: &[u32]| {
        let hooks = Hooks {
            transcript: &|claim, activations| {
                let mut own = Domain::own(&scene, claim.model, activations, claim.statement);
                own.layers = [claim.chunk.start, claim.chunk.end, claim.chunk.of].map(|n| n as u32);
                own.open_between(|transcript| {
                    for (label, end) in ["chunk input", "chunk output"].into_iter().zip(claim.ends.both()) {
                        let Some(PublicBoundary::Committed(root)) = end else {
                            panic!("no root: {end:?}")
                        };
                        transcript.words("boundary", lengths);
                        transcript.bytes(label, root);
                    }
                })
            },
            ..HONEST
        };
        scene.attempt(&hooks)
    };
    let lengths = [code.tiles as u32, code.log_message];
    attempt(&lengths).expect("the verifier's own transcript");
    for other in [
        vec![],
        vec![lengths[0] + 1, lengths[1]],
        vec![lengths[0], lengths[1] + 1],
    ] {
        assert_rejected!(attempt(&other), VerifyError::Gkr(_));
    }
}

/// A proof of the same model and statement, made for another protocol version, other parameters, or with something
/// of the statement not absorbed. Gains: proofs of weaker versions pass as ones of this, statements chosen last.
#[test]
fn proofs_of_another_domain_are_rejected() {
    let scene = Scene::honest();
    let attempt = |open: &dyn Fn(Domain) -> Transcript| {
        let hooks = Hooks {
            transcript: &|claim, activations| open(Domain::own(&scene, claim.model, activations, claim.statement)),
            ..HONEST
        };
        scene.attempt(&hooks)
    };
    attempt(&|own| own.open()).expect("the verifier's own transcript");
    for change in OTHERS {
        let other = attempt(&|mut own| {
            change(&mut own);
            own.open()
        });
        assert_rejected!(other, VerifyError::Gkr(_));
    }
    assert_rejected!(attempt(&|own| own.open_without_labels()), VerifyError::Gkr(_));
}
