//! Ids and texts of the official library (`fixtures/tokenizer_goldens.py`), and the small decoder of the front ends beside the large one.

use std::path::Path;

use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use tessera_samples::{SplitMix, FIXTURE};
use tessera_text::shown::{Decode, Texts};
use tessera_verdict::vocabulary::{Vocabulary, VocabularyError};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use tessera_text::tokenizer::Tokenizer;

/// The first text whose ids are there as numbers.
const WHOLE: usize = 14;

fn digest(text: &str) -> Value {
    hex::encode(&Sha256::digest(text)[..8]).into()
}

/// Since 0.23, the official library decodes a normalized added token to its normalized text, and we to the text that the
/// file has: these texts are not compared.
fn normalized(tokenizer: &Value, ids: &[u32]) -> bool {
    let added = tokenizer["added_tokens"].as_array().unwrap();
    let mut normalized = added.iter().filter(|token| token["normalized"] == true);
    normalized.any(|token| ids.iter().any(|id| token["id"] == *id)) && !tokenizer["normalizer"].is_null()
}

#[test]
fn ids_and_texts_of_hostile_texts_are_the_official_librarys() {
    let goldens: Value = serde_json::from_str(include_str!("../../fixtures/tokenizers.json")).unwrap();
    let texts = goldens["texts"].as_array().unwrap();
    assert_eq!(texts.len(), 200);
    let tokenizers = goldens["tokenizers"].as_array().unwrap();
    assert!(tokenizers.len() >= 12);
    for golden in tokenizers {
        let (name, parts) = (&golden["name"], &golden["tokenizer"]);
        let file = parts.to_string();
        let tokenizer = Tokenizer::from_bytes(file.as_bytes(), None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let vocabulary = match Vocabulary::from_bytes(file.as_bytes()) {
            Ok(vocabulary) => Some(vocabulary),
            Err(VocabularyError::Unknown { .. }) => None,
            Err(error) => panic!("{name}: {error}"),
        };
        let mut compared = 0;
        for (i, text) in texts.iter().enumerate() {
            let ids = tokenizer.encode(text.as_str().unwrap()).unwrap();
            let decoded = tokenizer.decode(&ids, true).unwrap();
            let whole = i.wrapping_sub(WHOLE);
            if let Some(whole) = golden["ids"].get(whole) {
                assert_eq!(&Value::from(ids.clone()), whole, "{name}: {text}");
            }
            let words: Vec<String> = ids.iter().map(u32::to_string).collect();
            assert_eq!(digest(&words.join(" ")), golden["id_digests"][i], "{name}: {text}");
            if let Some(vocabulary) = &vocabulary {
                assert_eq!(vocabulary.decode(&ids).unwrap(), decoded, "{name}: {text}");
            }
            if normalized(parts, &ids) {
                continue;
            }
            compared += 1;
            if let Some(whole) = golden["texts"].get(whole) {
                assert_eq!(decoded, *whole, "{name}: {text}");
            }
            assert_eq!(digest(&decoded), golden["text_digests"][i], "{name}: {text}");
        }
        assert!(compared > 150, "{name}");
    }
}

/// Tokens and a decoder; the last two tokens are special.
fn made(tokens: &[String], decoder: Value) -> Vec<u8> {
    let vocab: serde_json::Map<String, Value> = tokens.iter().zip(0u32..).map(|(t, i)| (t.clone(), i.into())).collect();
    let n = tokens.len();
    let added = [("<|end|>", n), ("é<s>", n + 1)]
        .map(|(content, id)| serde_json::json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}));
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": null}
    });
    json.to_string().into_bytes()
}

/// Small programs show text without the library that encodes it. Whatever the ids are, they show the same.
#[test]
fn the_small_decoder_shows_what_the_library_shows() {
    let mut alphabet: Vec<String> = ByteLevel::alphabet().into_iter().map(String::from).collect();
    alphabet.sort();
    assert_eq!(alphabet.len(), 256);
    alphabet.extend(["Ġthe", "Ã©", "ðŁ", "plain text", "猫"].map(str::to_owned));
    let pieces = [
        "▁the", "a▁", "▁", "<0x0A>", "<0xE7>", "<0x8C>", "<0xAB>", "<0xFF>", "<0x+A>", "<0x1>", "猫", " ", "b",
    ];
    let pieces = pieces.map(str::to_owned);
    let sequence = |decoders: Value| json!({"type": "Sequence", "decoders": decoders});
    let spaces = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    // The library panics where there is nothing to strip at the end.
    let strip = |start| json!({"type": "Strip", "content": " ", "start": start, "stop": 0});
    let metaspace =
        |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let (fallback, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let files = [
        (std::fs::read(Path::new(FIXTURE).join("tokenizer.json")).unwrap(), 2050),
        (made(&alphabet, byte_level), 264),
        (made(&pieces, Value::Null), 16),
        (made(&pieces, sequence(json!([spaces, fallback, fuse, strip(1)]))), 16),
        (made(&pieces, sequence(json!([fallback, spaces, strip(2), fuse]))), 16),
        (made(&pieces, metaspace("always")), 16),
        (made(&pieces, metaspace("never")), 16),
    ];
    let mut rng = SplitMix(16);
    for (at, (bytes, vocab)) in files.iter().enumerate() {
        let library = Tokenizer::from_bytes(bytes, None).unwrap();
        let small = Vocabulary::from_bytes(bytes).unwrap();
        for id in 0..*vocab {
            assert_eq!(
                (small.token(id), small.special(id)),
                (library.token(id), library.special(id)),
                "{at}: {id}"
            );
        }
        for _ in 0..300 {
            let mut ids = |most: u64| -> Vec<u32> {
                let n = 1 + rng.below(most);
                (0..n).map(|_| rng.below(u64::from(*vocab)) as u32).collect()
            };
            let (prompt, output) = (ids(6), ids(12));
            let texts = Texts::of(&small, &prompt, &output).unwrap();
            assert_eq!(
                texts,
                library.texts(&prompt, &output).unwrap(),
                "{at}: {prompt:?} {output:?}"
            );
        }
    }
}
