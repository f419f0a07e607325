//! `tessera rank`.

use tessera::prompt::check_reranker;
use tessera::{Progress, Prompt};

use super::embed;
use super::prompt::{encoded, instead};
use crate::args::RankArgs;
use crate::printer::{Failure, Report};

pub fn run(args: &RankArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    embed::report(&args.model, args.memory, "rank", progress, |key, tokenizer| {
        check_reranker(key).map_err(|error| instead(error, ["", " (tessera embed or generate)", ""]))?;
        let prompt = match &args.source.ids {
            Some(ids) => ids.0.clone().into(),
            None => {
                let texts = [&args.source.query, &args.source.document];
                let [query, document] = texts.map(|text| text.clone().unwrap_or_default());
                Prompt::Pair { query, document }
            }
        };
        encoded(&prompt, key, tokenizer, " (--ids)")
    })
}
