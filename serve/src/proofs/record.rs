//! What is stored of a request whose answer is proved.

use serde::{Deserialize, Serialize};

use crate::log::now;

/// How far a proof is, as it is stored. A proof that is being made is `Queued` there, because it is made again after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The answer is being made, and its client knows the id already.
    Answering,
    /// The proof is to be made.
    Queued,
    /// The proof is there.
    Done,
    /// The proof cannot be made.
    Failed,
    /// The proof was deleted, by its client, or because it was old or the disk had no room.
    Gone,
}

impl State {
    /// Whether the proof is still to be made.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Answering | Self::Queued)
    }
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A chat.
    Chat,
    /// The continuation of a text.
    Completion,
    /// The vector of a text.
    Embedding,
}

/// The verdict on a finished proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Bits of security.
    pub security_bits: f64,
    /// Chunks of layers of the proof.
    pub chunks: usize,
}

/// A request whose answer is proved, and its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The number in the order of arrival.
    pub number: u64,
    /// The client that may see it; `None` where nobody needs a key.
    pub client: Option<String>,
    /// What the answer is.
    pub kind: Kind,
    /// Seconds since 1970, of the request and of the end of the proof.
    pub created: u64,
    /// The same, once the proof is done, has failed or is gone.
    pub ended: Option<u64>,
    /// Ids of the prompt; none once the proof is gone.
    pub prompt: Vec<u32>,
    /// The most tokens that are generated; 0 for a vector.
    pub tokens: usize,
    /// Ids of the answer, or a vector as a statement has it; `None` before it is known, or once the proof is gone.
    pub output: Option<Vec<u32>>,
    /// The context of the proof.
    pub context: Option<String>,
    /// Lower numbers are proved earlier.
    pub priority: i32,
    /// Seconds that the proof takes, as predicted.
    pub predicted: f64,
    /// How far it is.
    pub state: State,
    /// Why the proof failed.
    pub error: Option<String>,
    /// The verdict on the finished proof.
    pub verdict: Option<Accepted>,
    /// Bytes of the finished proof.
    pub bytes: u64,
    /// Seconds that the finished proof took.
    pub seconds: f64,
}

impl Record {
    /// A request of now, by whoever needs no key, in no context, with nothing known of its answer.
    pub fn new(kind: Kind, prompt: Vec<u32>, tokens: usize, state: State) -> Self {
        Self {
            number: 0,
            client: None,
            kind,
            created: now(),
            ended: None,
            prompt,
            tokens,
            output: None,
            context: None,
            priority: 0,
            predicted: 0.0,
            state,
            error: None,
            verdict: None,
            bytes: 0,
            seconds: 0.0,
        }
    }

    /// Forgets the texts.
    pub fn forget(&mut self, now: u64) {
        (self.prompt, self.output, self.context) = (Vec::new(), None, None);
        (self.state, self.bytes, self.verdict) = (State::Gone, 0, None);
        self.ended = Some(now);
    }
}
