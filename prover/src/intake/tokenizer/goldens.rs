//! Ids and texts of the official library (`fixtures/tokenizer_goldens.py`).

use serde_json::Value;
use sha2::{Digest, Sha256};
use tessera_verdict::text::Decode;
use tessera_verdict::vocabulary::{Vocabulary, VocabularyError};

use super::Tokenizer;

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
    let goldens: Value = serde_json::from_str(include_str!("../../../../fixtures/tokenizers.json")).unwrap();
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
