//! Settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tessera::Budget;

/// Which answers are proved where a request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proofs {
    /// Every answer, unless the request says `"proof": false`.
    Always,
    /// Answers whose request says `"proof": true`.
    Asked,
}

/// Everything that a server is told when it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model directory.
    pub model: PathBuf,
    /// The name of the model beside its id; the name of the directory if there is none.
    pub name: Option<String>,
    /// Where the server listens.
    pub listen: SocketAddr,
    /// The directory for requests and proofs, which is created if there is none.
    pub store: PathBuf,
    /// Which answers are proved.
    pub proofs: Proofs,
    /// Proofs that are made at the same time, each on its share of the cores and of the memory.
    pub devices: usize,
    /// The most memory to use; `None` for four fifths of the memory that is available.
    pub memory: Option<Budget>,
    /// The file with API keys; `None` if nobody needs one.
    pub keys: Option<PathBuf>,
    /// Listen where other machines reach the server, too, although nobody needs a key.
    pub without_keys: bool,
    /// How long a finished proof is kept; `None` for ever.
    pub retain: Option<Duration>,
    /// The most bytes of finished proofs; the oldest ones make room. `None` for as many as the disk has room for.
    pub quota: Option<u64>,
    /// Write prompts and answers into the log.
    pub log_texts: bool,
    /// Limits of what clients may ask for.
    pub limits: Limits,
}

/// Limits of what clients may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most tokens of an answer, and as many as a chat has where it asks for no number.
    pub tokens: usize,
    /// The most proofs that wait.
    pub queue: usize,
    /// The most texts that are generated at the same time.
    pub together: usize,
    /// The most requests that wait for an answer or get one.
    pub requests: usize,
    /// The most connections.
    pub connections: usize,
    /// The most bytes of a request.
    pub body: usize,
    /// The most texts of a request for embeddings.
    pub inputs: usize,
    /// How long a client may take to send the head of a request, from the end of the one before on, and again for its body.
    pub receive: Duration,
    /// How long a client may take no byte of an answer that waits for it.
    pub send: Duration,
    /// How long a stopping server waits for answers that are being made, and then for proofs to let go.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tokens: 512,
            queue: 256,
            together: 32,
            requests: 128,
            connections: 1024,
            body: 1 << 20,
            inputs: 64,
            receive: Duration::from_secs(10),
            send: Duration::from_secs(30),
            stop: Duration::from_secs(30),
        }
    }
}
