//! Committed models for tests. The tests, benches and examples that need the whole prover are this package's own.

mod chains;
mod golden;
mod grind;
mod hidden;

use std::time::Duration;

use tessera_circuits::air::lookups::Relation;
use tessera_circuits::chunk::{ends, Boundary, Chunk, PublicBoundary};
use tessera_circuits::shape::{LeafLimits, Product, Shape};
use tessera_circuits::statement::{HiddenIds, Statement};
use tessera_circuits::table_tree::TableArgument;
use tessera_model::generate::GenerateOptions;
use tessera_model::tiles::TileSource;
use tessera_model::QuantisedModel;
use tessera_prover::device::Device;
use tessera_prover::hiding::{Kept, Secrets, TapeKey};
use tessera_prover::opening::{commit, params_for, Codeword, Split};
use tessera_prover::stark::tables_root;
use tessera_prover::vectors::Vectors;
use tessera_prover::{boundaries, generate_statement, prove_chunk, prove_with_secrets, public_boundary, ProverModel};
use tessera_recipe::Recipe;
use tessera_support::progress::Silent;
use tessera_verifier::context::Context;
use tessera_verifier::key::{KeyHeader, ModelKey};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::proof::StarkTables;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::{hidden_code, ChunkStatement};

pub use chains::{assert_refused_by, refusals};
pub use golden::{golden_statements, GoldenStatement, GOLDEN_PROOFS};
pub use grind::{rework, reworked};
pub use hidden::{hidden_changes, reveal_changes};
pub use tessera_model::sample::{edit, extreme_model, random_model, random_model_with};
pub use tessera_quantise::in_memory as quantised;
pub use tessera_samples::*;
pub use tessera_support::random::{random_ids, SplitMix};

/// Where the operands of a product are in the list of those that a chunk has.
pub fn place_of(shape: &Shape, product: Product) -> usize {
    shape
        .existing()
        .position(|own| own == product)
        .expect("a product of the chunk")
}

/// Processor time that all threads of this process have used so far; 0 where the system does not tell. Other programs do not count, so a
/// test may have a limit for it.
pub fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// The column of multiplicities of a relation, in models that have all relations before it.
pub const fn column_of(relation: Relation) -> usize {
    relation as usize
}

/// The key of a model, without the Merkle roots: what sizes and parameters follow from.
pub fn unrooted_key(model: &QuantisedModel) -> ModelKey {
    unrooted_key_of(Suite::default(), model)
}

/// The key of a model under a suite, without the Merkle roots.
pub fn unrooted_key_of(suite: Suite, model: &QuantisedModel) -> ModelKey {
    ModelKey {
        config: model.config.clone(),
        params: model.params.clone(),
        weights: params_for(model.config.total_tiles()),
        header: KeyHeader::of(suite, &model.config),
        weights_root: [0; 32],
        tables_root: [0; 32],
        tokenizer: Vec::new(),
        tokenizer_config: Vec::new(),
        recipe: Recipe::default().to_bytes().expect("a recipe of nothing"),
    }
}

/// A committed model in memory, with everything that proving and verifying need.
pub struct TestModel {
    pub quantised: QuantisedModel,
    pub key: ModelKey,
    pub codeword: Codeword,
    /// The device that proofs are made on.
    pub device: &'static dyn Device,
}

/// The values of a boundary that is in clear.
pub fn clear(boundary: &mut PublicBoundary) -> &mut Vec<i16> {
    match boundary {
        PublicBoundary::Clear(Boundary(values)) => values,
        PublicBoundary::Committed(_) => panic!("the boundary is committed to"),
    }
}

/// A proof of a chunk whose tables a STARK proves.
pub trait OfStark {
    /// The STARK.
    fn of_stark(&self) -> &StarkTables;

    /// What a proof has of a STARK, to be altered.
    fn of_stark_mut(&mut self) -> &mut StarkTables;
}

impl OfStark for ChunkProof {
    fn of_stark(&self) -> &StarkTables {
        self.tables.stark().expect("a STARK")
    }

    fn of_stark_mut(&mut self) -> &mut StarkTables {
        self.tables.stark_mut().expect("a STARK")
    }
}

impl TestModel {
    /// Commits a model.
    pub fn new(quantised: QuantisedModel) -> Self {
        let weights = params_for(quantised.weights.tiles());
        Self::committed(quantised, weights)
    }

    /// Commits a model with these parameters.
    pub fn committed(quantised: QuantisedModel, weights: CommitmentParams) -> Self {
        Self::hashed(Suite::default(), quantised, weights)
    }

    /// Commits a model with the hash of a suite.
    pub fn of_suite(suite: Suite, quantised: QuantisedModel) -> Self {
        let weights = params_for(quantised.weights.tiles());
        Self::hashed(suite, quantised, weights)
    }

    /// Sets the model up anew, with its tables proved in this way.
    #[must_use]
    pub fn with_tables(mut self, tables: TableArgument) -> Self {
        self.key.header = self.key.header.with_tables(tables);
        self.key.tables_root = tables_root(tables, &self.key.params, &self.key.config);
        self.key.check().expect("the key is valid");
        self
    }

    fn hashed(suite: Suite, quantised: QuantisedModel, weights: CommitmentParams) -> Self {
        let tree = commit(suite, &quantised.weights, &weights, Split::default(), None, &Silent)
            .expect("the weights are committed");
        let weights_root = tree.root();
        let codeword = Codeword::new(weights, tree);
        let key = ModelKey {
            weights,
            header: KeyHeader::of(suite, &quantised.config),
            weights_root,
            tables_root: tables_root(suite.default_tables(), &quantised.params, &quantised.config),
            ..unrooted_key(&quantised)
        };
        key.check().expect("the key is valid");
        Self {
            quantised,
            key,
            codeword,
            device: &Vectors,
        }
    }

    /// As the prover takes it.
    pub fn prover(&self) -> ProverModel<'_> {
        ProverModel {
            key: &self.key,
            id: self.key.id().expect("the key encodes"),
            quantised: &self.quantised,
            codeword: &self.codeword,
            device: self.device,
        }
    }

    /// Boundaries as a proof of the statement has them.
    pub fn public(&self, statement: &Statement, boundaries: &[Boundary]) -> Vec<PublicBoundary> {
        let rows = statement.rows();
        let public = |boundary| public_boundary(&self.key, rows, boundary);
        boundaries.iter().map(public).collect()
    }

    /// An honest proof in chunks of these numbers of layers.
    pub fn prove_chunks(&self, prompt: &[u32], tokens: usize, layers: &[usize]) -> Proof {
        self.prove_chunks_in(None, prompt, tokens, layers)
    }

    /// An honest proof in chunks, as [`Self::prove_chunks`] makes it, tied to a context.
    pub fn prove_chunks_in(&self, context: Option<Context>, prompt: &[u32], tokens: usize, layers: &[usize]) -> Proof {
        let prover = self.prover();
        let statement =
            generate_statement(&prover, prompt, &GenerateOptions::exactly(tokens), &Silent).expect("a text");
        let partition = layers.iter().copied();
        let chunks = Chunk::partition(partition, self.key.config.layers).expect("chunks of all layers");
        let boundaries = boundaries(&prover, &statement, &chunks, &Silent).expect("a forward pass");
        let ends = ends(&boundaries, chunks.len()).expect("boundaries");
        let proofs = chunks.iter().zip(ends).map(|(chunk, ends)| {
            let proved = prove_chunk(&prover, &statement, chunk, ends, context, &Silent);
            proved.expect("an honest proof").proof
        });
        Proof {
            model: prover.id,
            chunks: proofs.collect(),
            boundaries: self.public(&statement, &boundaries),
            statement,
            context,
            hidden: None,
        }
    }

    /// An honest proof that hides its activations and some ids with what a key draws, tied to a context.
    pub fn prove_hidden(
        &self,
        hidden: (&TapeKey, &HiddenIds),
        context: Option<Context>,
        prompt: &[u32],
        tokens: usize,
    ) -> Proof {
        self.prove_revealing(hidden, context, prompt, tokens, 0).0
    }

    /// The same with room for so many reveals, what these take, and the statement with all of its ids.
    pub fn prove_revealing(
        &self,
        (key, ids): (&TapeKey, &HiddenIds),
        context: Option<Context>,
        prompt: &[u32],
        tokens: usize,
        reveals: usize,
    ) -> (Proof, Option<Kept>, Statement) {
        let prover = self.prover();
        let witness = generate_statement(&prover, prompt, &GenerateOptions::exactly(tokens), &Silent).expect("a text");
        let statement = witness.hiding(ids, &self.key.config, &self.key.params.leading);
        let statement = statement.expect("ids that can be hidden");
        let chunk = Chunk::whole(self.key.config.layers);
        let claim = ChunkStatement::whole(&self.key, &prover.id, &statement, &chunk, context);
        let code = hidden_code(&claim, LeafLimits::OF_STATEMENTS, reveals).expect("a model whose proofs can hide");
        let (proof, hidden, kept) = prove_with_secrets(&prover, &claim, &witness, Secrets::draw(code, key), &|_, _| ())
            .expect("an honest proof");
        let proof = Proof {
            model: prover.id,
            chunks: vec![proof],
            boundaries: Vec::new(),
            context,
            hidden: Some(hidden),
            statement,
        };
        (proof, kept, witness)
    }
}
