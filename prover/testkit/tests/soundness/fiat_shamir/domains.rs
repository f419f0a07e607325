//! Transcripts of another domain.

use stwo::core::channel::Channel;
use tessera_circuits::statement::Statement;
use tessera_verifier::key::ModelId;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::parameter_words;
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{VerifyError, PROTOCOL};

use crate::cheat::{Hooks, HONEST};
use crate::{assert_rejected, Scene};

/// What a transcript of a whole model begins with.
struct Domain {
    suite: Suite,
    protocol: &'static str,
    parameters: Vec<u32>,
    model: ModelId,
    prompt: Vec<u32>,
    output: Vec<u32>,
    layers: u32,
}

impl Domain {
    /// That of the verifier.
    fn own(scene: &Scene, model: &ModelId, activations: &CommitmentParams, statement: &Statement) -> Self {
        Self {
            suite: Suite::Blake2s,
            protocol: PROTOCOL,
            parameters: parameter_words(activations.words()).to_vec(),
            model: *model,
            prompt: statement.prompt.clone(),
            output: statement.output.clone(),
            layers: scene.model.key.config.layers as u32,
        }
    }

    fn open(&self) -> Transcript {
        let mut transcript = Transcript::of(self.suite, self.protocol);
        transcript.words("parameters", &self.parameters);
        transcript.bytes("model", &self.model.0);
        transcript.words("prompt", &self.prompt);
        transcript.words("output", &self.output);
        transcript.words("chunk", &[0, self.layers, self.layers]);
        transcript.words("chunk input", &[]);
        transcript.words("chunk output", &[]);
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
        channel.mix_u32s(&self.prompt);
        channel.mix_u32s(&self.output);
        channel.mix_u32s(&[0; 8]);
        transcript
    }
}

/// Other domains, as changes of the verifier's own.
const OTHERS: [fn(&mut Domain); 10] = [
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
    |d| d.prompt.clear(),
    |d| d.output.clear(),
    // The same tokens, another border between prompt and output.
    |d| {
        let last = d.prompt.pop().expect("a prompt");
        d.output.insert(0, last);
    },
];

/// A proof of the same model and statement, made for another protocol version, other parameters, or with something
/// of the statement not absorbed. Gains: proofs of weaker versions pass as ones of this, statements chosen last.
#[test]
fn proofs_of_another_domain_are_rejected() {
    let scene = Scene::honest();
    let attempt = |open: &dyn Fn(Domain) -> Transcript| {
        let hooks = Hooks {
            transcript: &|m, a, s, _, _| open(Domain::own(&scene, m, a, s)),
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
