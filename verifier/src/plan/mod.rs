//! Plans: what a verifier calculates from the challenges of a proof and from its statement, as data. A machine that knows nothing of
//! models can follow one: a contract does (docs/chain.md).

mod compile;
mod encode;
mod header;
mod program;
mod segments;
mod symbol;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::ModelConfig;
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;

use self::compile::compile;
pub use self::program::{run, Words};
use self::segments::cut;
pub use self::segments::{Budget, Segment};
use self::symbol::{recorded, Symbol};
use crate::key::ModelKey;
use crate::public::{calculate, Inputs};

/// A model, for statements of so many token rows and output tokens.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is calculated, piece by piece. Each piece is given what the one before it leaves.
    pub program: Vec<Segment>,
    /// Numbers of inputs and outputs.
    pub inputs: usize,
    /// Of outputs.
    pub outputs: usize,
    /// The row spaces.
    pub shape: Shape,
}

impl Plan {
    /// Of a valid key, for statements with `2^token_log` padded rows and so many output tokens. `None` of an encoder, of a model whose
    /// scores are capped, which has one table more, and where a program does not fit the machine.
    pub fn new(key: &ModelKey, token_log: u32, outputs: usize) -> Option<Self> {
        Self::within(key, token_log, outputs, Budget::TRANSACTION)
    }

    /// The same with segments of another size: it is another plan, whose facts nobody asks for. For tests.
    pub fn within(key: &ModelKey, token_log: u32, outputs: usize, budget: Budget) -> Option<Self> {
        let rows = 1usize.checked_shl(token_log)?;
        let prompt = (rows + 1)
            .checked_sub(outputs)
            .filter(|prompt| *prompt > 0 && outputs > 0)?;
        let by_token = key.params.leading.token.is_some();
        if key.config.is_encoder()
            || key.config.score_cap().is_some()
            || by_token
            || rows > key.config.context.next_power_of_two()
        {
            return None;
        }
        let statement = Statement {
            prompt: vec![0; prompt],
            output: vec![0; outputs],
        };
        let whole = Chunk::whole(key.config.layers);
        let shape = key.shape(&whole, statement.lengths());
        let ((inputs, results), record) = recorded(|| {
            let (count, inputs) = symbols(&shape);
            let tops = vec![0; outputs];
            (count, calculate(key, &shape, (&statement, &tops), &inputs).in_order())
        });
        let (instructions, left) = compile(&record, inputs, &results)?;
        let program = cut(&instructions, inputs, &left, budget)?;
        Some(Self {
            program,
            inputs,
            outputs: results.len(),
            shape,
        })
    }

    /// Follows the program. `None` if it reads beyond the statement.
    pub fn run(&self, inputs: &[SecureField], words: &Words) -> Option<Vec<SecureField>> {
        let mut given = inputs.to_vec();
        for segment in &self.program {
            given = run(&segment.code, &given, words)?;
        }
        Some(given)
    }

    /// The numbers of a statement that its program reads.
    pub fn words(&self, key: &ModelKey, statement: &Statement, tops: &[i16]) -> Words {
        let first = statement.generated().next().map_or(0, |(row, _)| row as u32);
        let leading = statement.leading(&key.params.leading, self.shape.token) as u32;
        Words([
            statement.row_ids(self.shape.token),
            statement.output.clone(),
            vec![first],
            tops.iter().map(|top| i32::from(*top) as u32).collect(),
            vec![leading],
        ])
    }
}

/// Symbols of all inputs, and their number.
fn symbols(shape: &Shape) -> (usize, Inputs<Symbol>) {
    let mut count = 0;
    let inputs = Inputs::of(shape, || {
        count += 1;
        Symbol::input(count - 1)
    });
    (count, inputs)
}

/// log2 of the padded token rows of a statement.
pub fn token_log(statement: &Statement) -> u32 {
    ModelConfig::token_log(statement.rows())
}
