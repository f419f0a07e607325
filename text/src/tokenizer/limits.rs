//! What a `tokenizer.json` may do with a text. A normalizer, pre-tokenizer, post-processor or decoder is a chain of parts,
//! and a file of a few kB can hold a chain that doubles a text with every part. The most that every part can grow a text is
//! known from its description; chains that could grow it further than any tokenizer in use are refused before the
//! library reads the file.

use serde_json::Value;

/// The most that a decoder may grow a text. Those in use shrink it, or replace bytes that are no UTF-8.
const DECODER_GROWTH: u64 = 16;
/// The most that normalizer and pre-tokenizer together may grow a text.
const ENCODER_GROWTH: u64 = 1024;
/// The most parts of a tokenizer.
const PARTS: usize = 64;
/// The most bytes that a part may add to a text, however short that is.
const ADDED_BYTES: usize = 64;
/// The longest regular expression.
const REGEX_BYTES: usize = 8192;
/// The most regular expressions: every one takes time to compile.
const REGEXES: usize = 16;
/// The most tokens that are added around a text.
const AROUND: usize = 64;
/// The most bytes of a text inside of the library, which needs 20 bytes of memory for each.
const INSIDE_BYTES: u64 = 1 << 26;
/// The most bytes of a decoded text.
pub const TEXT_BYTES: usize = 1 << 20;

/// What a tokenizer was found to do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Factor of normalizer and pre-tokenizer.
    pub encoder: u64,
    /// Factor of the decoder.
    pub decoder: u64,
}

impl Growth {
    /// Checks the description of a tokenizer.
    pub fn of(tokenizer: &Value) -> Result<Self, String> {
        let mut parts = Parts::default();
        let part = |name: &str| tokenizer.get(name).unwrap_or(&Value::Null);
        let decoder = parts.growth(part("decoder"), Kind::Decoder)?;
        let encoder = parts
            .growth(part("normalizer"), Kind::Normalizer)?
            .saturating_mul(parts.growth(part("pre_tokenizer"), Kind::PreTokenizer)?);
        parts.around(part("post_processor"))?;
        for (name, growth, limit) in [
            ("decoder", decoder, DECODER_GROWTH),
            ("normalizer", encoder, ENCODER_GROWTH),
        ] {
            if growth > limit {
                return Err(format!(
                    "its {name} could grow a text by a factor of {growth}, more than {limit}"
                ));
            }
        }
        let growth = Self { encoder, decoder };
        let added = part("added_tokens").as_array().into_iter().flatten();
        let added = added.filter_map(|t| t.get("content")?.as_str()).map(str::len).sum();
        growth.check_text(added)?;
        Ok(growth)
    }

    /// Refuses texts that could grow too large.
    pub fn check_text(&self, bytes: usize) -> Result<(), String> {
        let inside = (bytes as u64 + (PARTS * ADDED_BYTES) as u64).saturating_mul(self.encoder);
        match inside > INSIDE_BYTES {
            true => Err(format!(
                "a text of {bytes} bytes could grow to {inside} bytes in its normalizer, more than {INSIDE_BYTES}"
            )),
            false => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normalizer,
    PreTokenizer,
    Decoder,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Normalizer => "normalizer",
            Self::PreTokenizer => "pre-tokenizer",
            Self::Decoder => "decoder",
        }
    }

    /// The factor of a part by its type; `None` for types that are not known here. Factors of text to replace come on
    /// top.
    fn factor(self, part: &str) -> Option<u64> {
        match (self, part) {
            (Self::Normalizer, "NFKC" | "NFKD") => Some(12),
            (Self::Normalizer, "Precompiled") => Some(16),
            (Self::Normalizer, "BertNormalizer") => Some(4),
            (Self::Normalizer, "NFC" | "NFD") => Some(3),
            (Self::Normalizer, "Lowercase" | "ByteLevel") => Some(2),
            (Self::Normalizer, "Sequence" | "Strip" | "StripAccents" | "Nmt" | "Replace" | "Prepend") => Some(1),
            (Self::PreTokenizer, "Metaspace") => Some(4),
            (Self::PreTokenizer, "ByteLevel") => Some(2),
            (
                Self::PreTokenizer,
                "Sequence" | "BertPreTokenizer" | "Delimiter" | "CharDelimiterSplit" | "Whitespace" | "Split"
                | "Punctuation" | "WhitespaceSplit" | "Digits" | "UnicodeScripts" | "FixedLength",
            ) => Some(1),
            (Self::Decoder, "ByteLevel" | "WordPiece") => Some(2),
            (
                Self::Decoder,
                "Sequence" | "BPEDecoder" | "Metaspace" | "CTC" | "Replace" | "Fuse" | "Strip" | "ByteFallback",
            ) => Some(1),
            _ => None,
        }
    }
}

/// The parts that were seen.
#[derive(Default)]
struct Parts {
    parts: usize,
    regexes: usize,
}

impl Parts {
    /// The factor by which a part, with the parts inside, can grow a text. All fields count, whatever the type: the
    /// library tells some parts by their fields.
    fn growth(&mut self, part: &Value, kind: Kind) -> Result<u64, String> {
        if part.is_null() {
            return Ok(1);
        }
        let name = part.get("type").and_then(Value::as_str);
        let name = name.ok_or_else(|| format!("a {} without a type", kind.name()))?;
        let factor = kind.factor(name);
        let mut factor = factor.ok_or_else(|| format!("a {} of the unknown type {name:?}", kind.name()))?;
        self.count()?;
        for list in ["decoders", "normalizers", "pretokenizers"] {
            for inner in part.get(list).and_then(Value::as_array).into_iter().flatten() {
                factor = factor.saturating_mul(self.growth(inner, kind)?);
            }
        }
        if let Some(pattern) = part.get("pattern") {
            factor = factor.saturating_mul(self.replacement(pattern, part.get("content"), kind)?);
        }
        // An empty string is found between any two characters.
        for found in ["suffix", "word_delimiter_token", "pad_token"] {
            if kind == Kind::Decoder && part.get(found).and_then(Value::as_str) == Some("") {
                return Err(format!("a decoder with an empty {found}"));
            }
        }
        for added in ["prepend", "prefix"] {
            let added = part.get(added).and_then(Value::as_str).unwrap_or_default();
            if added.len() > ADDED_BYTES {
                let (kind, bytes) = (kind.name(), added.len());
                return Err(format!("a {kind} that adds {bytes} bytes, more than {ADDED_BYTES}"));
            }
        }
        Ok(factor)
    }

    fn count(&mut self) -> Result<(), String> {
        self.parts += 1;
        match self.parts > PARTS {
            true => Err(format!("it has more than {PARTS} parts")),
            false => Ok(()),
        }
    }

    /// The factor of a replacement; a part without content only looks for its pattern.
    fn replacement(&mut self, pattern: &Value, content: Option<&Value>, kind: Kind) -> Result<u64, String> {
        let content = content.and_then(Value::as_str).unwrap_or_default().len();
        if let Some(text) = pattern.get("String").and_then(Value::as_str) {
            return match text.len() {
                0 => Err(format!("a {} that looks for an empty text", kind.name())),
                n => Ok(content.div_ceil(n).max(1) as u64),
            };
        }
        let regex = pattern.get("Regex").and_then(Value::as_str);
        let regex = regex.ok_or_else(|| format!("a {} whose pattern is neither text nor Regex", kind.name()))?;
        if kind == Kind::Decoder {
            return Err("a decoder with a regular expression".to_owned());
        }
        self.regexes += 1;
        if regex.len() > REGEX_BYTES || self.regexes > REGEXES {
            return Err(format!(
                "regular expressions: more than {REGEXES}, or one of more than {REGEX_BYTES} bytes"
            ));
        }
        // It may match before every byte.
        Ok(content as u64 + 1)
    }

    /// Checks what a post-processor puts around a text, which must not be repeated.
    fn around(&mut self, part: &Value) -> Result<(), String> {
        if part.is_null() {
            return Ok(());
        }
        self.count()?;
        for inner in part.get("processors").and_then(Value::as_array).into_iter().flatten() {
            self.around(inner)?;
        }
        for template in ["single", "pair"] {
            let pieces = part
                .get(template)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let texts = |id: &str| {
                let is = |p: &&Value| p.get("Sequence").and_then(|s| s.get("id")).and_then(Value::as_str) == Some(id);
                pieces.iter().filter(is).count()
            };
            let (a, b) = (texts("A"), texts("B"));
            if a > 1 || b > 1 {
                return Err("a post-processor that repeats the text".to_owned());
            }
            let ids = |p: &Value| {
                let token = p.get("SpecialToken")?.get("id")?.as_str()?;
                part.get("special_tokens")?
                    .get(token)?
                    .get("ids")?
                    .as_array()
                    .map(Vec::len)
            };
            let added: usize = pieces.iter().map(|p| ids(p).unwrap_or(1)).sum();
            if added > AROUND {
                return Err(format!("a post-processor that adds more than {AROUND} tokens"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(part: &str, value: Value, word: &str) {
        let error = Growth::of(&json!({ part: value })).unwrap_err();
        assert!(error.contains(word), "{error}");
    }

    fn doubling(kind: &str, n: usize) -> Value {
        let one = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        json!({"type": "Sequence", kind: vec![one; n]})
    }

    #[test]
    fn the_chains_in_use_are_accepted() {
        let llama = json!({
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        });
        assert_eq!(Growth::of(&llama), Ok(Growth { encoder: 3, decoder: 1 }));
        let albert = json!({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
            {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
            {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}});
        assert!(Growth::of(&albert).is_ok());
    }

    #[test]
    fn chains_that_double_a_text_are_refused() {
        refused("decoder", doubling("decoders", 5), "factor of 32");
        refused("decoder", doubling("decoders", 63), "factor of");
        refused("normalizer", doubling("normalizers", 11), "factor of 2048");
        let nested = (0..60).fold(
            json!({"type": "Fuse"}),
            |inner, _| json!({"type": "Sequence", "decoders": [inner, {"type": "Fuse"}]}),
        );
        refused("decoder", nested, "more than 64 parts");
        let spread = json!({"type": "BPEDecoder", "suffix": ""});
        refused("decoder", spread, "empty suffix");
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false});
        let chain = json!({"type": "Sequence", "pretokenizers": vec![bytes; 12]});
        refused("pre_tokenizer", chain, "factor of 4096");
    }

    #[test]
    fn parts_that_take_long_are_refused() {
        let slow = json!({"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""});
        refused("decoder", slow, "regular expression");
        let split = json!({"type": "Split", "pattern": {"Regex": "\\w{900}"}, "behavior": "Isolated", "invert": false});
        let many = json!({"type": "Sequence", "pretokenizers": vec![split; 17]});
        refused("pre_tokenizer", many, "more than 16");
    }

    #[test]
    fn parts_that_disguise_themselves_are_refused() {
        refused("decoder", json!({"type": "Magic"}), "unknown type");
        refused("decoder", json!({"suffix": "x"}), "without a type");
        // The library takes this for what its fields say.
        let disguised = json!({"type": "BertNormalizer", "pattern": {"String": "a"}, "content": "a".repeat(2000)});
        refused("normalizer", disguised, "factor of 8000");
    }

    #[test]
    fn post_processors_that_repeat_the_text_are_refused() {
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let twice = json!({"type": "TemplateProcessing", "single": [text, text], "pair": [], "special_tokens": {}});
        refused("post_processor", twice, "repeats the text");
        let token = json!({"SpecialToken": {"id": "x", "type_id": 0}});
        let ids = json!({"x": {"id": "x", "ids": vec![1; 30], "tokens": vec!["x"; 30]}});
        let around =
            json!({"type": "TemplateProcessing", "single": [text, token, token, token], "special_tokens": ids});
        refused("post_processor", around, "adds more than 64");
    }

    #[test]
    fn long_texts_are_refused_where_they_could_grow_too_large() {
        let growth = Growth {
            encoder: 1000,
            decoder: 1,
        };
        assert!(growth.check_text(10_000).is_ok());
        assert!(growth.check_text(100_000).unwrap_err().contains("100000 bytes"));
    }
}
