//! Plans: what a verifier calculates from the challenges of a proof and from its statement, as data. A machine that knows nothing of
//! models can follow one: a contract does (docs/chain.md).

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::mle::eval_padded;
use tessera_circuits::model::ModelConfig;
use tessera_circuits::shape::{LeafLimits, Shape};
use tessera_circuits::statement::{Lengths, Statement};
use tessera_circuits::trees::Forest;
use tessera_verifier::key::ModelKey;
use tessera_verifier::public::Inputs;
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::Conversation;
use thiserror::Error;

use crate::calculate::{calculate, inputs, opened, Results};
use crate::compile::compile;
use crate::program::{run, Words};
use crate::segments::{cut, Budget, Segment};
use crate::symbol::{recorded, Symbol};

/// A model, for statements of so many blocks of token rows and so many output tokens.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is calculated, piece by piece. Each piece is given what the one before it leaves.
    pub program: Vec<Segment>,
    /// Number of inputs.
    pub inputs: usize,
    /// The row spaces.
    pub shape: Shape,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoPlan {
    /// The model [has no plans](has_plans).
    #[error("there is no plan of such a model: contracts verify no encoders, no sliding windows, no capped scores and no norms of sums")]
    Model,
    /// The key is of another suite than Keccak-256.
    #[error("there is no plan of such a key: contracts verify proofs under keys of Keccak-256 (setup --hash keccak)")]
    Suite,
    /// The model treats rows of one token as leading rows, which contracts do not check.
    #[error("contracts verify no such model, because it treats rows of one token as leading rows")]
    LeadingToken,
    /// The prompt or the output has no token, or the model's context is shorter.
    #[error("there is no plan of such lengths: prompt and output have at least a token each, and the context has room for both")]
    Lengths,
    /// The statement has several balance groups, which contracts do not weigh: far more lookups than a block has gas for.
    #[error(
        "there is no plan of such a statement: contracts verify fewer than 2^{} lookups; fewer tokens may fit",
        LeafLimits::OF_STATEMENTS.balance.ilog2()
    )]
    Lookups,
    /// The program does not fit the machine, or no transaction takes one of its segments.
    #[error("there is no plan of such a statement: its program is too large for contracts; fewer tokens may fit")]
    Program,
}

/// The most output tokens of a plan: an instruction counts them in a byte.
pub const MOST_OUTPUTS: usize = 255;

/// The relations whose tables the machine knows.
const KNOWN: [Relation; 5] = [
    Relation::Range16,
    Relation::Bits,
    Relation::Bytes,
    Relation::Exp,
    Relation::Silu,
];

/// Whether the machine knows all that a model needs: it generates tokens from pre-normed states, without windows, and looks up in the tables
/// that the machine knows. Capped scores have one more.
pub fn has_plans(config: &ModelConfig) -> bool {
    config.generates()
        && config.windows().is_none()
        && config.is_causal()
        && !config.sums_first()
        && config.relations() == KNOWN
}

impl Plan {
    /// The plan of a valid key, for statements with as many blocks of token rows as `rows` have, and so many output tokens.
    ///
    /// # Errors
    /// If the model [has no plans](has_plans), and where a program does not fit the machine.
    pub fn new(key: &ModelKey, rows: usize, outputs: usize) -> Result<Self, NoPlan> {
        Self::within(key, rows, outputs, Budget::TRANSACTION)
    }

    /// Refuses a key that has no plans, whatever the lengths of a statement are.
    ///
    /// # Errors
    /// If the model [has no plans](has_plans), or the key is of another suite than Keccak-256.
    pub fn check_key(key: &ModelKey) -> Result<(), NoPlan> {
        if !has_plans(&key.config) {
            return Err(NoPlan::Model);
        }
        // Under which no STARK proves the tables.
        if key.header.hash_suite != Suite::Keccak {
            return Err(NoPlan::Suite);
        }
        match key.params.leading.token {
            Some(_) => Err(NoPlan::LeadingToken),
            None => Ok(()),
        }
    }

    /// A plan with segments of another size than [`Plan::new`] gives it: another plan, whose facts nobody asks for. For tests.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn within(key: &ModelKey, rows: usize, outputs: usize, budget: Budget) -> Result<Self, NoPlan> {
        Self::check_key(key)?;
        if rows == 0 || rows > key.config.context || outputs == 0 || outputs > rows {
            return Err(NoPlan::Lengths);
        }
        let whole = Chunk::whole(key.config.layers);
        // The longest statement, whether the context has room for it or not: its last block is full.
        let rows = key.shape(&whole, Lengths::new(rows, outputs)).text_rows();
        let prompt = rows + 1 - outputs;
        let statement = Statement {
            prompt: vec![0; prompt],
            output: vec![0; outputs],
        };
        let shape = key.shape(&whole, statement.lengths());
        if Forest::of(&shape).is_weighted() {
            return Err(NoPlan::Lookups);
        }
        let ((inputs, results), record) = recorded(key.config.layers, || {
            let (count, inputs, ends) = symbols(key, &shape);
            let results = calculate(key, &shape, &statement, &inputs, &ends);
            (count, results.in_order())
        });
        let (instructions, left) = compile(&record, inputs, &results).ok_or(NoPlan::Program)?;
        // Tokens of rows, those of the output, and one word of every other kind.
        let words = rows + outputs + 3;
        let program = cut(&instructions, inputs, &left, (budget, words)).ok_or(NoPlan::Program)?;
        Ok(Self { program, inputs, shape })
    }

    /// Follows the program. `None` if it reads beyond the statement.
    pub fn run(&self, inputs: &[SecureField], words: &Words) -> Option<Vec<SecureField>> {
        let mut given = inputs.to_vec();
        for segment in &self.program {
            given = run(&segment.pages, &given, words)?;
        }
        Some(given)
    }

    /// The numbers of a statement that its program reads.
    pub fn words(&self, key: &ModelKey, statement: &Statement) -> Words {
        let first = statement.generated().next().map_or(0, |(row, _)| row as u32);
        let leading = statement.leading(&key.params.leading) as u32;
        let mut ids = statement.row_ids();
        let last = ids.len().saturating_sub(1) as u32;
        ids.resize(self.shape.text_rows(), 0);
        Words([ids, statement.output.clone(), vec![first], vec![leading], vec![last]])
    }
}

/// Symbols of all inputs, and their number.
fn symbols(key: &ModelKey, shape: &Shape) -> (usize, Inputs<Symbol>, [Vec<Symbol>; 2]) {
    let mut count = 0;
    let mut next = || {
        count += 1;
        Symbol::input(count - 1)
    };
    let inputs = inputs(shape, &mut next);
    let ends = opened(key, shape).map(|columns| (0..columns.log_bands()).map(|_| next()).collect());
    (count, inputs, ends)
}

/// What a program has to calculate where a verifier calculates all coefficients.
pub fn expected(said: &Conversation, ends: &[Vec<SecureField>; 2]) -> Results {
    let (outputs, [bands, units]) = (&said.outputs, ends);
    Results {
        entries: outputs.entries.unwrap_or_default(),
        embedding: outputs.embedding,
        value: outputs.value,
        coefficients: [eval_padded(&outputs.bands, bands), eval_padded(&outputs.units, units)],
    }
}
