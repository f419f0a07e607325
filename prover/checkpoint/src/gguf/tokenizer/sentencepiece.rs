//! `llama`: SentencePiece BPE. There are no merges in the file; any two pieces that make a third may be merged, and the
//! score of the third says in which order.

use serde_json::{json, Value as Json};

use super::{Kind, Metadata, Parts, Problem, Vocabulary, MAX_BYTES, MAX_MERGES, MAX_TOKENS, SCORES, SPACE_PREFIX};

/// What stands for a space.
const SPACE: &str = "\u{2581}";
/// Longer pieces are not searched for pairs that make them: the search is quadratic.
const MAX_PIECE: usize = 512;
const REMOVE_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";

pub(super) fn parts<'a>(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>) -> Result<Parts<'a>, Problem> {
    if metadata.flag(REMOVE_SPACES)?.unwrap_or(false) {
        return Err(format!("{REMOVE_SPACES} is not supported"));
    }
    let prefix = metadata.flag(SPACE_PREFIX)?.unwrap_or(true);
    let mut normalizers = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let scores = metadata.numbers(SCORES, MAX_TOKENS)?;
    if scores.len() != vocabulary.tokens.len() {
        let (scores, tokens) = (scores.len(), vocabulary.tokens.len());
        return Err(format!("{SCORES} has {scores} elements, but there are {tokens} tokens"));
    }
    Ok(Parts {
        normalizer: json!({"type": "Sequence", "normalizers": normalizers}),
        pre_tokenizer: Json::Null,
        decoder: json!({"type": "Sequence", "decoders": decoders}),
        merges: merges(vocabulary, &scores)?,
        ignore_merges: false,
        byte_fallback: true,
        adds_bos: true,
    })
}

/// All pairs of pieces that make a piece: those of the highest score first; of one piece, those with the longest left
/// part first.
fn merges<'a>(vocabulary: &Vocabulary<'a>, scores: &[f64]) -> Result<Vec<(&'a str, &'a str)>, Problem> {
    let piece = |id: usize| matches!(vocabulary.kinds[id], Kind::Normal | Kind::Unused);
    let known = |text: &str| vocabulary.ids.get(text).is_some_and(|id| piece(*id));
    let mut order: Vec<usize> = (0..vocabulary.tokens.len()).filter(|id| piece(*id)).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for id in order {
        let token = vocabulary.tokens[id];
        if token.len() > MAX_PIECE {
            return Err(format!(
                "token {id} is {} bytes long, more than {MAX_PIECE}",
                token.len()
            ));
        }
        let cuts = token.char_indices().rev().filter(|(at, _)| *at > 0);
        let pairs = cuts
            .map(|(at, _)| token.split_at(at))
            .filter(|(left, right)| known(left) && known(right));
        let before = merges.len();
        merges.extend(pairs);
        bytes += (merges.len() - before) * token.len();
        if merges.len() > MAX_MERGES || bytes > MAX_BYTES {
            return Err(format!(
                "more than {MAX_MERGES} pairs of tokens, or {MAX_BYTES} bytes of them, can be merged"
            ));
        }
    }
    Ok(merges)
}
