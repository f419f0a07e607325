//! Soundness: attempts to have a false statement accepted.

mod balances;
mod boundaries;
mod caps;
mod cells;
mod cheat;
mod chunks;
mod clips;
mod configuration;
mod division;
mod encoders;
mod fiat_shamir;
mod forward;
mod heads;
mod hidden;
mod lookups;
mod norms;
mod padding;
mod post_norms;
mod protocol;
mod readings;
mod rerankers;
mod semantics;
mod sumchecks;
mod table_tree;
mod values;
mod windows;
mod wires;

use std::cell::RefCell;

use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::model::{MatmulKind, ModelConfig, WeightFormat};
use tessera_circuits::shape::{LeafLimits, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_model::forward::{ForwardState, Input, Witness};
use tessera_model::generate::{generate, GenerateOptions};
use tessera_model::weights::PackedWeights;
use tessera_model::QuantisedModel;
use tessera_prover::boundary::{public_boundary, Boundaries};
use tessera_prover::check::check;
use tessera_prover::column::elements;
use tessera_prover::trace::{tops, Columns, Source};
use tessera_testkit::{banded_config, edit, odd_config, random_ids, random_model, rework, reworked, TestModel};
use tessera_verifier::opening::{CommitmentName, OpeningError};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify_bytes, verify_chunk_with, ChunkStatement, VerifyError};

use crate::cheat::{forge, BrokenClaims, Hooks, HONEST};

/// Asserts that a result is an error of this pattern.
macro_rules! assert_rejected {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {{
        let result = $result;
        assert!(matches!(result, Err($pattern) $(if $guard)?), "{result:?}");
    }};
}
pub(crate) use assert_rejected;

/// A witness of other weights is rejected whether the weights opened are those of the key or the other ones.
pub fn rejects_weights(scene: &Scene, other: &PackedWeights) {
    assert_claims_violated(scene.attempt(&HONEST));
    let hooks = Hooks {
        tiles: Some(other),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Opening(OpeningError::FoldClaim));
}

/// What an attempt has: a model, a statement, the chunk that is proved of it, and the witness that the trace is made
/// from.
pub struct Scene {
    pub model: TestModel,
    pub statement: Statement,
    pub chunk: Chunk,
    /// What enters and leaves the chunk.
    pub input: Option<Boundary>,
    pub output: Option<Boundary>,
    pub witness: Witness,
}

/// The forward pass of the rows of a statement.
pub fn witness_of(model: &QuantisedModel, statement: &Statement) -> Witness {
    let mut witness = Witness::default();
    ForwardState::new(model)
        .run(&statement.row_ids(), Some(&mut witness))
        .expect("a forward pass");
    witness
}

impl Scene {
    /// A true statement with its witness.
    pub fn of(quantised: QuantisedModel) -> Self {
        let model = TestModel::new(quantised);
        let prompt = random_ids(&model.key.config, 5, 3);
        let options = GenerateOptions {
            tokens: 4,
            ignore_eos: true,
        };
        let output = generate(&model.quantised, &prompt, &options, |_| ())
            .expect("a generation")
            .ids;
        let statement = Statement { prompt, output };
        let witness = witness_of(&model.quantised, &statement);
        Self::whole(model, statement, witness)
    }

    /// All layers.
    pub fn whole(model: TestModel, statement: Statement, witness: Witness) -> Self {
        Self {
            chunk: Chunk::whole(model.key.config.layers),
            model,
            statement,
            input: None,
            output: None,
            witness,
        }
    }

    /// Three layers (padded to four) in the middle of seven.
    pub fn middle() -> Self {
        Self::honest_chunk(2, 5)
    }

    /// Some of seven layers, with what really enters and leaves them.
    pub fn honest_chunk(start: usize, end: usize) -> Self {
        let config = ModelConfig {
            layers: 7,
            ..odd_config()
        };
        let scene = Self::of(random_model(config, WeightFormat::Int16, 7));
        scene.of_layers(start, end)
    }

    /// The chunk of some layers alone, with what really enters and leaves them.
    fn of_layers(mut self, start: usize, end: usize) -> Self {
        let of = self.model.key.config.layers;
        if start > 0 {
            self.chunk = Chunk {
                start: 0,
                end: start,
                of,
            };
            self.run();
            self.input = self.output.take();
        }
        self.chunk = Chunk { start, end, of };
        self.run();
        self
    }

    /// Runs the chunk from what enters it: sets witness and output.
    pub fn run(&mut self) {
        let ids = self.statement.row_ids();
        let leading = self.model.key.params.leading.count(&ids);
        let entering = |boundary| Input::Stream(boundary, leading);
        let input = self.input.as_ref().map_or(Input::Tokens(&ids), entering);
        let mut witness = Witness::default();
        let run = ForwardState::run_chunk(
            &self.model.quantised,
            &self.chunk,
            input,
            self.statement.lengths().outputs,
            Some(&mut witness),
        );
        let output = run.expect("a forward pass").output;
        self.output = (!self.chunk.is_last()).then_some(output);
        self.witness = witness;
    }

    /// A model whose tiles are opened in bands of four.
    pub fn banded() -> Self {
        Self::of(random_model(banded_config(2), WeightFormat::Int8, 7))
    }

    pub fn honest() -> Self {
        Self::of(random_model(odd_config(), WeightFormat::Int16, 7))
    }

    /// The statement with another last token; the witness is still that of its rows, the last token not being one.
    pub fn false_output() -> Self {
        let mut scene = Self::honest();
        let last = scene.statement.output.last_mut().expect("an output");
        *last = (*last + 1) % scene.model.key.config.vocab as u32;
        scene
    }

    /// A model of three layers (padded to four) whose last attention does not reach the residual, so that values in
    /// it may be changed without a new forward pass, and saturate.
    pub fn quiet() -> Self {
        Self::quiet_seeded(7)
    }

    /// The same of other weights.
    pub fn quiet_seeded(seed: u64) -> Self {
        let config = ModelConfig {
            layers: 3,
            ..odd_config()
        };
        Self::quiet_of(random_model(config, WeightFormat::Int16, seed))
    }

    /// The same of another model of three layers.
    pub fn quiet_of(model: QuantisedModel) -> Self {
        Self::quiet_with(model, 1)
    }

    /// The same with another shift of the last attention, with which it need not saturate.
    pub fn quiet_with(mut model: QuantisedModel, shift: u8) -> Self {
        // With biases its values are other ones than the attacks are about.
        model.params.biases.clear();
        edit(&mut model, MatmulKind::O.at(2), |o| o.fill(0));
        model.params.layers[2].attention.att = shift;
        Self::of(model)
    }

    /// The honest trace of the witness and its statistics.
    pub fn trace(&self) -> (Vec<Columns>, Statistics) {
        let (shape, params) = (self.shape(), self.chunk.params(&self.model.key.params));
        let tops = tops(&shape, &self.statement, &self.witness);
        let source = Source {
            shape: &shape,
            params: &params,
            statement: &self.statement,
            said: &self.statement,
            input: self.input.as_ref(),
            witness: &self.witness,
            tops: &tops,
        };
        let columns = shape.by_part(|part| source.columns(part)).into_iter();
        let columns = columns.map(|(columns, clips)| (elements(&columns), clips));
        let (columns, clips): (Vec<Columns>, Vec<Vec<Clip>>) = columns.unzip();
        let statistics = Statistics { clips: clips.concat() };
        (columns, statistics)
    }

    pub fn shape(&self) -> Shape {
        self.model.key.shape(&self.chunk, self.statement.lengths())
    }

    /// Forges a proof of all layers.
    pub fn forge(&self, hooks: &Hooks<'_>) -> Proof {
        let prover = self.model.prover();
        let claim = ChunkStatement::whole(&self.model.key, &prover.id, &self.statement, &self.chunk, None);
        Proof {
            model: prover.id,
            statement: self.statement.clone(),
            boundaries: Vec::new(),
            chunks: vec![forge(&prover, &claim, Boundaries::default(), &self.witness, hooks)],
            context: None,
            hidden: None,
        }
    }

    /// Forges a proof, with all work that its challenges ask for, and gives it to the verifier, as bytes if it is one of all layers. Its trace is then
    /// proved once more by a prover that hides it.
    pub fn attempt(&self, hooks: &Hooks<'_>) -> Result<(), VerifyError> {
        if self.chunk == Chunk::whole(self.chunk.of) && hooks.limits == LeafLimits::OF_STATEMENTS {
            let seen = RefCell::new(Vec::new());
            let look = |shape: &Shape, columns: &mut [Columns]| {
                (hooks.columns)(shape, columns);
                *seen.borrow_mut() = columns.to_vec();
            };
            let hooks = Hooks {
                columns: &look,
                ..*hooks
            };
            let bytes = reworked(&self.model.key, self.forge(&hooks))
                .to_bytes()
                .expect("a proof");
            let verdict = verify_bytes(&self.model.key, &bytes).map(|_| ());
            // A trace with other limbs has other columns than a prover that hides it would commit to.
            let own = self.shape().limbs;
            if hooks.limbs.unwrap_or(own) == own {
                self.assert_same_when_hidden(&seen.borrow(), &verdict);
            }
            return verdict;
        }
        let prover = self.model.prover();
        let ends = Ends {
            input: self.input.as_ref(),
            output: self.output.as_ref(),
        };
        let (key, rows) = (&self.model.key, self.statement.rows());
        let held = hooks.held.unwrap_or(ends);
        Boundaries::with_units(key, rows, held, hooks.units, |boundaries, own| {
            let truth = hooks
                .held
                .map(|_| ends.both().map(|end| Some(public_boundary(key, rows, end?))));
            let ends = truth.as_ref().map_or(own, |[input, output]| Ends {
                input: input.as_ref(),
                output: output.as_ref(),
            });
            let claim = ChunkStatement {
                key: &self.model.key,
                model: &prover.id,
                statement: &self.statement,
                chunk: &self.chunk,
                ends,
                context: None,
            };
            let verdict = |chunks: &[ChunkProof]| verify_chunk_with(&claim, hooks.limits, &chunks[0]);
            let mut proof = [forge(&prover, &claim, boundaries, &self.witness, hooks)];
            rework(self.model.key.header.hash_suite, &mut proof, &verdict);
            verdict(&proof)
        })
    }

    /// As `attempt`, with the assertion that it fails for this reason and, row by row, for no other.
    pub fn assert_caught(&self, by: Caught, hooks: &Hooks<'_>) {
        let look = |shape: &Shape, columns: &mut [Columns]| {
            (hooks.columns)(shape, columns);
            let tables = LookupTables::new(&self.model.key.params, &shape.config);
            let mut missing = false;
            for part in shape.parts() {
                missing |= check(&shape.air(*part), &columns[part.index()], &tables).is_some();
            }
            assert_eq!(missing, by == Caught::Lookup, "lookups without an entry");
        };
        let claims = |broken: BrokenClaims<'_>| match by {
            Caught::Claim(name) => assert_eq!(broken(), [name], "violated claims"),
            Caught::Claims(names) => assert_eq!(broken(), names, "violated claims"),
            Caught::Lookup => {}
        };
        let result = self.attempt(&Hooks {
            columns: &look,
            broken_claims: &claims,
            ..*hooks
        });
        match by {
            Caught::Lookup => assert_rejected!(result, VerifyError::Stark(StarkError::Lookups)),
            Caught::Claim(_) | Caught::Claims(_) => assert_claims_violated(result),
        }
    }
}

/// What must catch an altered trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// A lookup: the sums of the lookups and that of the tables do not cancel.
    Lookup,
    /// The claim of this name, across rows: the linear sumcheck does not end in a value of the committed activations.
    Claim(&'static str),
    /// The claims of these names.
    Claims(&'static [&'static str]),
}

/// Asserts that the linear sumcheck does not end in a value of the activations.
pub fn assert_claims_violated(result: Result<(), VerifyError>) {
    assert_rejected!(
        result,
        VerifyError::Opening(OpeningError::BandClaim {
            commitment: CommitmentName::Activations
        })
    );
}

/// Asserts that the composition polynomial is not the one of the tables.
pub fn assert_constraints_violated(result: Result<(), VerifyError>) {
    let text = "The composition polynomial OODS value does not match the trace OODS values";
    assert_rejected!(result, VerifyError::Stark(StarkError::Invalid(ref m)) if m.starts_with(text));
}
