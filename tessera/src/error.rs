//! Why a task could not be done.

use tessera_circuits::statement::StatementError;
use tessera_model::forward::ForwardError;
use tessera_model::generate::GenerateError;
use tessera_prover::ProveError;
use tessera_quantise::comparison::FidelityError;
use tessera_quantise::texts::TextError;
use tessera_support::files::FileError;
use tessera_text::tokenizer::TokenizerError;
use tessera_verdict::prompt::PromptError;
use tessera_verifier::codec::CodecError;
use thiserror::Error as ThisError;

use crate::allowance::OutOfBudget;
use crate::expected::{AnswerError, Difference, Unfollowed};
use crate::given::Misplaced;
use crate::model::LoadError;
use crate::setup::SetupError;
use crate::work::WorkError;

/// Why a task could not be done. The text names the file, tensor or value that is wrong, and says how to go on.
///
/// New variants can be added, because tasks that a later version knows can fail in other ways.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A path holds something else than it was given for, for example a checkpoint in the place of a model directory.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// A model directory or key cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A checkpoint could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The prompt cannot be used with the model.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The expected answer cannot be compared with the model's.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Contracts verify no proof of the model, for which one was asked ([`crate::Options::for_chain`]).
    #[error(transparent)]
    NoPlan(#[from] tessera_plan::NoPlan),
    /// A proof was asked to hide activations and to be for contracts, which verify no proof that hides any.
    #[error(
        "contracts verify no proof that hides activations: ask for a proof that hides them, or for one for contracts"
    )]
    HiddenForChain,
    /// Room for reveals was asked for, but nothing is to be hidden that a reveal could be of.
    #[error(
        "a proof that hides no ids leaves nothing to reveal: hide the prompt or the output, or ask for no reveals"
    )]
    NothingToReveal,
    /// More reveals were asked for than a proof can leave room for.
    #[error("room for {got} reveals was asked for, but a proof of this model hides what it hides only if there are at most {most}")]
    Reveals {
        /// Reveals that were asked for.
        got: usize,
        /// The most that are possible.
        most: usize,
    },
    /// The model gives another answer than the expected one. Nothing was proved.
    #[error("{0}")]
    Differs(Box<Difference>),
    /// Ids have no text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A text file cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Nothing can be generated after the prompt.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The model cannot be run on the prompt.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The model's output is no statement of a proof.
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// The proof could not be made.
    #[error(transparent)]
    Prove(#[from] ProveError),
    /// The task needs more memory than it may take.
    #[error(transparent)]
    Memory(#[from] OutOfBudget),
    /// The model could not be compared with its checkpoint.
    #[error(transparent)]
    Fidelity(#[from] FidelityError),
    /// A work directory cannot be used, or one of its chunks could not be proved.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A proof could not be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A proof cannot be read.
    #[error("{name}: {source}")]
    Proof {
        /// The proof's file.
        name: String,
        /// The problem.
        source: CodecError,
    },
    /// The task was cancelled ([`Cancel`](crate::Cancel)).
    #[error("the task was cancelled")]
    Cancelled,
}

impl From<Unfollowed> for Error {
    fn from(error: Unfollowed) -> Self {
        match error {
            Unfollowed::Differs(difference) => Self::Differs(difference),
            Unfollowed::Answer(error) => error.into(),
            Unfollowed::Forward(error) => error.into(),
        }
    }
}
