//! `tessera serve`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tessera::given;
use tessera_serve::{serve, Limits, Settings};
use tessera_verdict::rows::count;

use crate::args::ServeArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};
use tessera::plan::Budget;

pub fn run(args: &ServeArgs) -> Result<Report, Failure> {
    given::model_dir(&args.model)?;
    let seconds = |n: u32| Duration::from_secs(n.into());
    let Budget(body) = args.max_body;
    let settings = Settings {
        model: args.model.clone(),
        name: args.name.clone(),
        listen: args.listen,
        store: args.store.clone().unwrap_or_else(|| beside(args)),
        proofs: args.proofs.into(),
        devices: args.devices.into(),
        memory: args.memory,
        keys: args.keys.clone(),
        without_keys: args.without_keys,
        retain: args.retain,
        quota: args.quota.map(|Budget(bytes)| bytes),
        log_texts: args.log_texts,
        limits: Limits {
            tokens: args.max_tokens as usize,
            queue: args.max_queue as usize,
            together: args.max_together.into(),
            requests: args.max_requests as usize,
            connections: args.max_connections as usize,
            body: usize::try_from(body)?,
            receive: seconds(args.receive_seconds),
            send: seconds(args.send_seconds),
            stop: seconds(args.stop_seconds),
            ..Limits::default()
        },
    };
    let left = serve(settings)?;
    let text = match left.open {
        0 => "stopped; all proofs are made".to_owned(),
        n => format!("stopped; {} will be made after the next start", count(n, "proof")),
    };
    let json = json!({"open_proofs": left.open, "peak_rss_bytes": peak_rss_bytes()});
    Ok(Report::done(text, json))
}

/// The store of a model that has no other.
fn beside(args: &ServeArgs) -> PathBuf {
    let whole = args.model.canonicalize().unwrap_or_else(|_| args.model.clone());
    let mut name = whole.into_os_string();
    name.push(".serve");
    name.into()
}
