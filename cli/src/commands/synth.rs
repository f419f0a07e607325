//! `tessera synth`.

use std::time::Instant;

use serde_json::json;
use tessera::checkpoint::families::Description;
use tessera::support::progress::Progress;
use tessera::synthetic::{write_shape, PublicShape};
use tessera_verdict::describe::dimensions;
use tessera_verdict::rows::{seconds, Rows};

use crate::args::SynthArgs;
use crate::printer::{Failure, Report};

pub fn run(args: &SynthArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let hub = PublicShape::from(args.shape).hub(args.layers.map(usize::from));
    let clock = Instant::now();
    let (parameters, Description { config, tied, .. }) = write_shape(&args.out, &hub, args.seed, progress)?;
    let time = clock.elapsed().as_secs_f64();
    let json = json!({
        "checkpoint": args.out.display().to_string(),
        "parameters": parameters,
        "config": config,
        "tied_embeddings": tied,
        "seed": args.seed,
        "synth_seconds": time,
    });
    let text = Rows::default()
        .path("checkpoint", &args.out)
        .prose("dimensions", dimensions(&config))
        .row("parameters", parameters)
        .row("weights", format!("random, seed {}", args.seed))
        .row("time", seconds(time));
    Ok(Report::done(text.to_string(), json))
}
