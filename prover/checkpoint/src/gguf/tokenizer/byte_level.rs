//! `gpt2`: byte-level BPE, with merges in the file and a named way to split texts into words.

use serde_json::{json, Value as Json};

use super::{Metadata, Parts, Problem, Vocabulary, MAX_BYTES, MAX_MERGES, MERGES, PRE, SPACE_PREFIX};

/// Words of GPT-2, without the runs of spaces that are left over.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
/// Words of Llama 3.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Words of Qwen 2: every digit is one.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Words of Mistral's Tekken.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How texts are split into words.
struct Split {
    /// One after the other, each within the words of those before.
    patterns: &'static [&'static str],
    ignore_merges: bool,
    adds_bos: bool,
}

const fn split(patterns: &'static [&'static str]) -> Split {
    Split {
        patterns,
        ignore_merges: false,
        adds_bos: false,
    }
}

/// The ways that models of this architecture use, by the names that llama.cpp gives them.
fn splits(name: &str) -> Option<Split> {
    let whole_words = |patterns| Split {
        ignore_merges: true,
        adds_bos: true,
        ..split(patterns)
    };
    Some(match name {
        "default" => split(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
        "gpt-2" | "phi-2" => split(&[GPT2]),
        "smollm" | "starcoder" | "refact" | "codeshell" | "minerva-7b" => split(&[r"\p{N}", GPT2]),
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" => whole_words(&[LLAMA3]),
        "smaug-bpe" => split(&[LLAMA3]),
        "qwen2" | "stablelm2" => split(&[QWEN2]),
        "tekken" => whole_words(&[TEKKEN]),
        _ => return None,
    })
}

pub(super) fn parts<'a>(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>) -> Result<Parts<'a>, Problem> {
    let name = metadata.text(PRE)?;
    let name = name.ok_or_else(|| format!("{PRE} is missing: how texts are split into words is not known"))?;
    let split = splits(name).ok_or_else(|| format!("{PRE} is {name:?}, which is not supported"))?;
    if metadata.flag(SPACE_PREFIX)?.unwrap_or(false) {
        return Err(format!("{SPACE_PREFIX} is not supported with \"gpt2\""));
    }
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let patterns = split.patterns.iter().map(
        |pattern| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false}),
    );
    let steps: Vec<Json> = patterns.chain([byte_level.clone()]).collect();
    Ok(Parts {
        normalizer: Json::Null,
        pre_tokenizer: json!({"type": "Sequence", "pretokenizers": steps}),
        decoder: byte_level,
        merges: merges(metadata, vocabulary)?,
        ignore_merges: split.ignore_merges,
        byte_fallback: false,
        adds_bos: split.adds_bos,
    })
}

/// The merges of the file: two tokens with a space between them, which make a third.
fn merges<'a>(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>) -> Result<Vec<(&'a str, &'a str)>, Problem> {
    let lines = metadata.strings(MERGES, MAX_MERGES)?;
    if lines.iter().map(|line| line.len()).sum::<usize>() > MAX_BYTES {
        return Err(format!("{MERGES} are longer than {MAX_BYTES} bytes"));
    }
    let mut whole = String::new();
    let mut pair = |line: &'a str| {
        let (left, right) = line.split_once(' ')?;
        whole.clear();
        whole.extend([left, right]);
        let known = [left, right, whole.as_str()]
            .iter()
            .all(|t| vocabulary.ids.contains_key(t));
        known.then_some((left, right))
    };
    let merges = lines.into_iter().enumerate();
    let merges = merges.map(|(i, line)| {
        pair(line).ok_or_else(|| format!("{MERGES}: element {i}, {line:?}, is not two tokens that make a third"))
    });
    merges.collect()
}
