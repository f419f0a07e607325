//! Arguments of `tessera serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tessera::plan::Budget;
use tessera_serve::Proofs;

/// Names of the choices of which answers are proved.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProofsArg {
    /// every answer, unless a request says "proof": false
    Always,
    /// answers whose request says "proof": true
    Asked,
}

impl From<ProofsArg> for Proofs {
    fn from(arg: ProofsArg) -> Self {
        match arg {
            ProofsArg::Always => Self::Always,
            ProofsArg::Asked => Self::Asked,
        }
    }
}

/// Answers requests of OpenAI's interface over HTTP, and proves the answers in the background.
///
/// Addresses: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /v1/proofs/ID (with /proof and /report), /v1/key,
/// /healthz, /metrics. SIGTERM or Ctrl-C stops the server in order; proofs that are not made yet are made after the next start.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Name of the model in requests, beside its id [default: the name of the directory]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Address to listen at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Directory for requests and proofs, which nobody else should read [default: DIR.serve beside the model]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Which answers are proved
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProofsArg::Always)]
    pub proofs: ProofsArg,
    /// Proofs made at the same time, each on its share of the cores and of the memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub devices: u16,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: a fourth of it for answers, the rest for proofs
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
    /// File with API keys, a line NAME KEY for each; without it nobody needs a key
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Listen where other machines reach the server although nobody needs a key
    #[arg(long, conflicts_with = "keys")]
    pub without_keys: bool,
    /// How long finished proofs are kept, such as 12h or 30d [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub retain: Option<Duration>,
    /// The most bytes of finished proofs, such as 10GiB: the oldest ones make room [default: no limit]
    #[arg(long, value_name = "BYTES")]
    pub quota: Option<Budget>,
    /// The most tokens of an answer, and of a chat that asks for no number
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_tokens: u32,
    /// The most proofs that wait: then requests for answers with proofs are refused for a while
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_queue: u32,
    /// The most answers made at the same time, which share each pass over the weights
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_together: u16,
    /// The most requests that wait for an answer or get one
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_requests: u32,
    /// The most connections
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// The most bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "1MiB")]
    pub max_body: Budget,
    /// Seconds that a client may take to send a request, and as many for its body
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub receive_seconds: u32,
    /// Seconds for which a client may take no byte of its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub send_seconds: u32,
    /// Seconds that a stopping server waits for answers that are being made
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub stop_seconds: u32,
    /// Write prompts and answers into the log, which has none otherwise
    #[arg(long)]
    pub log_texts: bool,
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "not a number with s, m, h or d behind it, such as 12h".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86400,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2d"), Ok(Duration::from_secs(172_800)));
        for wrong in ["", "5", "d", "-1d", "1.5h", "18446744073709551615d", "1dd"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
