//! Decoders against the library that defines them: `text/src/tokenizer/tests.rs` compares whole files.

use serde_json::json;

use super::*;

fn vocabulary(vocab: Value, added: Value, decoder: Value) -> Result<Vocabulary, VocabularyError> {
    let file = json!({"model": {"type": "BPE", "vocab": vocab}, "added_tokens": added, "decoder": decoder});
    Vocabulary::from_bytes(file.to_string().as_bytes())
}

#[test]
fn what_is_not_known_is_named_and_not_guessed() {
    for (decoder, name) in [
        (json!({"type": "WordPiece", "prefix": "##"}), "WordPiece"),
        (
            json!({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}),
            "Replace",
        ),
        (
            json!({"type": "Replace", "pattern": {"String": ""}, "content": "a"}),
            "Replace",
        ),
        (
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "New"}]}),
            "New",
        ),
    ] {
        let error = vocabulary(json!({"a": 0}), json!([]), decoder).unwrap_err();
        let expected = VocabularyError::Unknown {
            what: "decoder",
            name: name.to_owned(),
        };
        assert_eq!(error, expected);
    }
    let file = json!({"model": {"type": "WordPiece", "vocab": {"a": 0}}});
    let error = Vocabulary::from_bytes(file.to_string().as_bytes()).unwrap_err();
    assert!(
        error.to_string().contains("does not know the model \"WordPiece\""),
        "{error}"
    );
}

/// Nothing but the merges of the model is left out, and the last of two fields counts, as for the library.
#[test]
fn a_file_is_read_without_its_merges_alone() {
    let file = br#"{"a": [1, -2, 0.5, null, true, "x", {"merges": [0]}], "merges": [1], "model": {"merges": [["a", "b"]], "type": "BPE",
        "vocab": {"merges": 0}, "vocab": {"b": 1, "merges": 2}, "merges": 7, "unk": null}, "b": {"model": {"merges": []}}}"#;
    let mut expected: Value = serde_json::from_slice(file).unwrap();
    expected["model"].as_object_mut().unwrap().remove("merges");
    assert_eq!(without_merges(file), Ok(expected));
    for other in [
        "[1, 2]",
        "7",
        "null",
        "\"model\"",
        "{\"model\": [1]}",
        "{\"model\": null}",
    ] {
        assert_eq!(
            without_merges(other.as_bytes()),
            Ok(serde_json::from_str(other).unwrap()),
            "{other}"
        );
    }
    for broken in [
        "",
        "{",
        "{\"model\": {\"merges\": [}}",
        "{} {}",
        "{\"model\": {\"merges\": [1}}",
    ] {
        assert!(without_merges(broken.as_bytes()).is_err(), "{broken}");
    }
}

/// Whoever made the key may have written anything.
#[test]
fn a_file_whose_ids_do_not_agree_shows_no_text() {
    let twice = vocabulary(json!({"a": 0, "b": 0}), json!([]), Value::Null).unwrap_err();
    assert!(twice.to_string().contains("two tokens have the same id"), "{twice}");
    for id in [json!(0), json!(2), json!("1"), Value::Null] {
        let added = json!([{"content": "<end>", "id": id, "special": true}]);
        let error = vocabulary(json!({"a": 0}), added, Value::Null).unwrap_err();
        assert!(error.to_string().contains("another id than its place"), "{id}: {error}");
    }
    let added = json!([{"content": "<end>", "id": 1, "special": true}]);
    let good = vocabulary(json!({"a": 0}), added, Value::Null).unwrap();
    assert_eq!((good.special(1), good.special(0)), (Some("<end>"), None));
    assert_eq!(good.decode(&[0, 1, 7, 0]).unwrap(), "a a");
    for file in [
        &b""[..],
        b"{}",
        b"[]",
        br#"{"model": {"vocab": {"a": -1}}}"#,
        br#"{"model": {"vocab": 1}}"#,
    ] {
        assert!(matches!(Vocabulary::from_bytes(file), Err(VocabularyError::Format(_))));
    }
}

/// A few kB of steps that double a text would make 2^60 bytes of one token.
#[test]
fn no_chain_of_steps_makes_a_text_of_gigabytes() {
    let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let chain = json!({"type": "Sequence", "decoders": vec![double; 60]});
    let vocabulary = vocabulary(json!({"a": 0}), json!([]), chain).unwrap();
    assert_eq!(vocabulary.decode(&[0]), Err(VocabularyError::TooLong));
    let long = json!({"type": "Sequence", "decoders": vec![json!({"type": "Fuse"}); 65]});
    let error = super::tests::vocabulary(json!({"a": 0}), json!([]), long).unwrap_err();
    assert!(error.to_string().contains("more than 64 steps"), "{error}");
    let word = "a".repeat(TEXT_BYTES / 2);
    let words = super::tests::vocabulary(json!({"b": 0, word: 1}), json!([]), Value::Null).unwrap();
    assert_eq!(words.decode(&[1, 0]).unwrap().len(), TEXT_BYTES / 2 + 2);
    assert_eq!(words.decode(&[1; 3]), Err(VocabularyError::TooLong));
}
