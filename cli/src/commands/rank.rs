//! `tessera rank`.

use tessera_support::progress::Progress;

use super::embed;
use super::prompt::{Prompt, NO_RERANKER, NO_TOKENIZER};
use crate::args::RankArgs;
use crate::printer::{Failure, Report};

pub fn run(args: &RankArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    embed::report(&args.model, args.memory, "rank", progress, |key, tokenizer| {
        if key.config.reranker().is_none() {
            return Err(Failure(format!("{NO_RERANKER} (tessera embed or generate)")));
        }
        if let Some(ids) = &args.source.ids {
            return Ok(Prompt::of_ids(ids));
        }
        let tokenizer = tokenizer.ok_or_else(|| Failure(format!("{NO_TOKENIZER} (--ids)")))?;
        let [query, document] = [&args.source.query, &args.source.document].map(|t| t.as_deref().unwrap_or_default());
        Prompt::of_pair(query, document, &key.config, tokenizer)
    })
}
