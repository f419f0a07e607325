use super::*;
use tessera_samples::{golden, FIXTURE};

fn file(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(FIXTURE).join(name)).unwrap()
}

#[test]
fn golden_texts_round_trip() {
    let tokenizer = Tokenizer::from_bytes(&file("tokenizer.json"), Some(&file("tokenizer_config.json"))).unwrap();
    assert_eq!(tokenizer.vocab_size(), 2048);
    for sample in golden() {
        // The sampler that made the texts put a space between special tokens.
        let text = sample.text.replace("> <", "><");
        assert_eq!(tokenizer.decode(&sample.ids, false).unwrap(), text);
    }
    let ids = tokenizer.encode("Once upon a time").unwrap();
    assert_eq!(ids[0], 1);
    assert_eq!(ids.iter().filter(|id| **id == 1).count(), 1);
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "Once upon a time");
}

/// Where `tokenizer.json` is there, transformers 5 takes what goes around a text from it alone.
#[test]
fn bos_is_added_by_the_post_processor_and_by_nothing_else() {
    let mut json: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    json["post_processor"] = Value::Null;
    let bare = json.to_string();
    let config = file("tokenizer_config.json");
    let with = Tokenizer::from_bytes(bare.as_bytes(), Some(&config)).unwrap();
    assert_ne!(with.encode("hello").unwrap()[0], 1);
    assert_eq!(bundled().encode("hello").unwrap()[0], 1);
}

/// Both were found by the fuzzer.
#[test]
fn tokenizers_that_the_library_gives_up_on_are_errors() {
    let empty = r#""version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":null,"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}"#;
    let bad_escape = format!(r#"{{{empty},"post_processor":null,"decoder":{{"type":"\ud800\u0041"}}}}"#);
    let error = Tokenizer::from_bytes(bad_escape.as_bytes(), None).unwrap_err();
    assert!(matches!(error, TokenizerError::Format(_)), "{error}");
    let template = r#"{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"k","type_id":0}}],"pair":[],
        "special_tokens":{}}"#;
    let unknown = format!(r#"{{{empty},"post_processor":{template},"decoder":null}}"#);
    let tokenizer = Tokenizer::from_bytes(unknown.as_bytes(), None);
    let error = tokenizer.and_then(|t| t.encode("a")).unwrap_err();
    assert!(
        matches!(error, TokenizerError::Guard(GuardError::Panicked(_))),
        "{error}"
    );
}

#[test]
fn errors_name_the_file() {
    assert!(matches!(
        Tokenizer::from_bytes(b"{}", None),
        Err(TokenizerError::Format(_))
    ));
    let good = file("tokenizer.json");
    for config in [&b"x"[..], b"[1]", br#"{"tokenizer_class": "BertTokenizer"}"#] {
        assert!(matches!(
            Tokenizer::from_bytes(&good, Some(config)),
            Err(TokenizerError::Config(_))
        ));
    }
}

fn bundled() -> Tokenizer {
    Tokenizer::from_bytes(&file("tokenizer.json"), Some(&file("tokenizer_config.json"))).unwrap()
}

#[test]
fn a_text_that_spells_its_beginning_gets_it_twice_as_elsewhere_and_is_told() {
    let tokenizer = bundled();
    let plain = tokenizer.encode_text("Once upon a time").unwrap();
    assert!(plain.notes.is_empty());
    let spelled = tokenizer.encode_text("<|start_story|>Once upon a time").unwrap();
    assert_eq!(spelled.ids[..2], [1, 1]);
    assert!(
        spelled.notes[0].contains("\"<|start_story|>\" twice"),
        "{:?}",
        spelled.notes
    );
}

/// Each of these is a file that another program writes; the word is what the error or the note must have.
#[test]
fn files_that_contradict_each_other_are_refused_or_noted() {
    let tokenizer = String::from_utf8(file("tokenizer.json")).unwrap();
    let read = |files: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        IdFiles::read(dir.path())
    };
    let with = |config: &str| read(&[("tokenizer.json", &tokenizer), ("tokenizer_config.json", config)]);
    for (config, word) in [
        (
            r#"{"add_eos_token": true, "eos_token": "<|end_story|>"}"#,
            "add_eos_token is true",
        ),
        (r#"{"tokenizer_class": "T5Tokenizer"}"#, "T5Tokenizer by rules"),
        (r#"{"auto_map": {"AutoTokenizer": ["a.B", null]}}"#, "auto_map"),
        (r#"{"add_prefix_space": true}"#, "add_prefix_space is true"),
        (r#"{"surprise": 1}"#, "surprise"),
    ] {
        let notes = with(config).unwrap().notes.join("\n");
        assert!(notes.contains(word), "{config}: {notes}");
    }
    for (config, word) in [
        (r#"{"split_special_tokens": true}"#, "split_special_tokens"),
        (r#"{"fix_mistral_regex": true}"#, "fix_mistral_regex"),
        (r#"{"tokenizer_class": "BertTokenizer"}"#, "WordPiece"),
        (
            r#"{"added_tokens_decoder": {"9": {"content": "<unk>"}}}"#,
            "\"<unk>\" the id 9",
        ),
        (
            r#"{"added_tokens_decoder": {"x": {"content": "<unk>"}}}"#,
            "no token with an id",
        ),
        ("[]", "no JSON object"),
    ] {
        let error = with(config).unwrap_err().to_string();
        assert!(error.contains(word), "{config}: {error}");
    }
    let model = read(&[("tokenizer.model", "x")]).unwrap();
    assert!(model.files.tokenizer.is_none() && model.notes[0].contains("tokenizer.model is not read"));
    let hub = r#"{"model_type": "llama", "bos_token_id": 7}"#;
    let config = r#"{"bos_token": "<|start_story|>"}"#;
    let files = [
        ("config.json", hub),
        ("tokenizer.json", &tokenizer),
        ("tokenizer_config.json", config),
    ];
    assert!(read(&files).unwrap().notes[0].contains("bos_token_id is [7]"));
}

/// An encoder in a folder with these files beside its tokenizer of the words `a` to `h`, which knows lower case alone.
fn encoder(files: &[(&str, &str)]) -> Result<Tokenizer, TokenizerError> {
    let words = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "f", "g", "h", ":",
    ];
    let vocab: Map<String, Value> = words
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), id.into()))
        .collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": null, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab},
    });
    let dir = tempfile::tempdir().unwrap();
    let hub = r#"{"model_type": "bert", "max_position_embeddings": 12}"#;
    let config = r#"{"tokenizer_class": "BertTokenizer", "do_lower_case": false}"#;
    let own = [
        ("config.json", hub),
        ("tokenizer_config.json", config),
        ("tokenizer.json", &tokenizer.to_string()),
    ];
    for (name, content) in own.iter().chain(files) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    Ok(IdFiles::read(dir.path())?.files.parse()?.unwrap())
}

#[test]
fn texts_of_encoders_are_cut_lowered_and_prompted_as_sentence_transformers_does() {
    let module = |content| [("sentence_bert_config.json", content)];
    let plain = encoder(&[]).unwrap();
    assert_eq!(plain.encode_text("a B").unwrap().ids, [2, 5, 1, 3]);
    let lower = encoder(&module(r#"{"do_lower_case": true}"#)).unwrap();
    assert_eq!(lower.encode_text("a B").unwrap().ids, [2, 5, 6, 3]);
    let short = encoder(&module(r#"{"max_seq_length": 4}"#)).unwrap();
    let cut = short.encode_text("a b c d").unwrap();
    assert_eq!(cut.ids, [2, 5, 6, 3]);
    assert!(cut.notes[0].contains("the 4 tokens"), "{:?}", cut.notes);
    assert!(short.encode_text("a b").unwrap().notes.is_empty());
    let sided = |side: &str| {
        let config = format!(r#"{{"tokenizer_class": "BertTokenizer", "truncation_side": "{side}"}}"#);
        encoder(&[
            module(r#"{"max_seq_length": 4}"#)[0],
            ("tokenizer_config.json", &config),
        ])
    };
    let left = sided("left").unwrap().encode_text("a b c d").unwrap();
    assert_eq!(left.ids, [2, 7, 8, 3]);
    assert!(left.notes[0].contains("truncation_side is left"), "{:?}", left.notes);
    // Without a length of its own, the tokenizer's counts, where it is less than the positions.
    let own = r#"{"tokenizer_class": "BertTokenizer", "model_max_length": 5}"#;
    let own = encoder(&[("tokenizer_config.json", own)]).unwrap();
    assert_eq!(own.encode_text("a b c d").unwrap().ids, [2, 5, 6, 7, 3]);
    let prompts =
        |default: &str| format!(r#"{{"prompts": {{"query": "a: ", "other": "b"}}, "default_prompt_name": {default}}}"#);
    let prompted = |default: &str| encoder(&[("config_sentence_transformers.json", &prompts(default))]);
    assert_eq!(
        prompted("\"query\"").unwrap().encode_text("b").unwrap().ids,
        [2, 5, 13, 6, 3]
    );
    assert_eq!(prompted("null").unwrap().encode_text("b").unwrap().ids, [2, 6, 3]);
    let pooling = ("1_Pooling/config.json", r#"{"include_prompt": false}"#);
    let unpooled = [("config_sentence_transformers.json", &*prompts("\"query\"")), pooling];
    for (refused, word) in [
        (prompted("\"missing\""), "\"missing\""),
        (encoder(&unpooled), "include_prompt"),
        (sided("both"), "truncation_side"),
        // Three tokens go around a pair: the library would count below zero.
        (encoder(&module(r#"{"max_seq_length": 3}"#)), "no text has room"),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// Settings in files of their own are brought into the two files of a key, and every file is recorded.
#[test]
fn all_files_come_into_the_two_of_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    write("tokenizer.json", &file("tokenizer.json"));
    write(
        "tokenizer_config.json",
        br#"{"bos_token":   "<|start_story|>", "chat_template": "old"}"#,
    );
    let read = || IdFiles::read(dir.path()).unwrap();
    let plain = read();
    assert_eq!(
        plain.files,
        TokenizerFiles::stored(dir.path()).unwrap(),
        "nothing else counts: the bytes stay"
    );
    write("chat_template.jinja", b"{{ new }}\r\n");
    let one: Value = serde_json::from_slice(&read().files.config.unwrap()).unwrap();
    assert_eq!(
        (&one["chat_template"], &one["bos_token"]),
        (&"{{ new }}\n".into(), &"<|start_story|>".into())
    );
    write("additional_chat_templates/rag.jinja", b"rag");
    let many: Value = serde_json::from_slice(&read().files.config.unwrap()).unwrap();
    assert_eq!(
        many["chat_template"][1],
        serde_json::json!({"name": "rag", "template": "rag"})
    );
    write("special_tokens_map.json", br#"{"pad_token": "<|pad|>"}"#);
    let all = read();
    let document: Value = serde_json::from_slice(&all.files.tokenizer.unwrap()).unwrap();
    assert_eq!(document["added_tokens"][3]["content"], "<|pad|>");
    let names: Vec<&str> = all.record.iter().map(|file| file.name.as_str()).collect();
    let expected = [
        "tokenizer_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "chat_template.jinja",
        "additional_chat_templates/rag.jinja",
    ];
    assert_eq!(names, expected);
    assert!(all.record.iter().all(|file| file.sha256.as_ref().unwrap().len() == 64));
}

fn special(position: usize, id: u32, name: &str) -> Piece {
    let name = (!name.is_empty()).then(|| name.to_owned());
    Piece::Special { position, id, name }
}

#[test]
fn texts_name_special_tokens_where_they_are() {
    let tokenizer = bundled();
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let story = &tokenizer.encode(", a girl").unwrap()[1..];
    let output = [story, &[2, 5000, 1], story].concat();
    let texts = tokenizer.texts(&prompt, &output).unwrap();
    assert_eq!(texts.prompt.text, "Once upon a time");
    let text = Piece::Text("Once upon a time".to_owned());
    assert_eq!(texts.prompt.pieces, [special(0, 1, "<|start_story|>"), text]);
    let [Piece::Text(first), end, unknown, start, Piece::Text(again)] = texts.output.pieces.as_slice() else {
        panic!("{:?}", texts.output.pieces);
    };
    // The output goes on with the prompt: its first space is shown. After a special token it begins anew.
    assert!(
        first.ends_with(", a girl") && again.ends_with(", a girl"),
        "{first:?} {again:?}"
    );
    let n = story.len();
    assert_eq!(
        [end, unknown, start],
        [
            &special(n, 2, "<|end_story|>"),
            &special(n + 1, 5000, ""),
            &special(n + 2, 1, "<|start_story|>")
        ]
    );
    let whole = tokenizer.decode(&[prompt.as_slice(), &output].concat(), true).unwrap();
    assert_eq!(texts.whole(), whole);
}

/// Five kB of decoders that double a text would make 2^60 bytes of one token.
#[test]
fn a_small_file_that_explodes_is_refused_before_it_is_used() {
    let mut json: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
    let double = serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    json["decoder"] = serde_json::json!({"type": "Sequence", "decoders": vec![double; 60]});
    let error = Tokenizer::from_bytes(json.to_string().as_bytes(), None).unwrap_err();
    assert!(matches!(&error, TokenizerError::Limit(_)), "{error}");
}

#[test]
fn tokens_of_a_megabyte_are_not_shown() {
    let word = "a".repeat(TEXT_BYTES / 2);
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"b": 0, word: 1}, "unk_token": "b"}
    });
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes(), None).unwrap();
    assert_eq!(tokenizer.decode(&[1, 0], true).unwrap().len(), TEXT_BYTES / 2 + 2);
    for ids in [vec![1; 3], vec![1; 8000]] {
        let error = tokenizer.decode(&ids, true).unwrap_err();
        assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
        assert!(tokenizer.texts(&ids, &[0]).is_err());
    }
}

/// Whatever the model does with them, a text has the ids of another one.
#[test]
fn text_that_no_token_stands_for_is_named() {
    let file = |model: serde_json::Value| {
        let file = serde_json::json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null, "model": model});
        Tokenizer::from_bytes(file.to_string().as_bytes(), None).unwrap()
    };
    let vocab = serde_json::json!({"[UNK]": 0, "a": 1, "b": 2, "cat": 3, "##s": 4});
    let words = file(serde_json::json!({"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}));
    let pieces = file(
        serde_json::json!({"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100}),
    );
    let pairs = file(serde_json::json!({"type": "BPE", "vocab": vocab, "merges": [], "unk_token": null}));
    let scores =
        file(serde_json::json!({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -1.0]]}));
    let parts = |tokenizer: &Tokenizer, text: &str| tokenizer.unknown_parts(text).unwrap();
    assert_eq!(
        (words.unknown(), pairs.unknown(), scores.unknown()),
        (Some(0), None, Some(0))
    );
    assert_eq!(parts(&words, "a dog, a cat"), [",", "dog"]);
    assert_eq!(parts(&pieces, "cats 猫 a"), ["猫"]);
    assert_eq!(parts(&scores, "a猫b"), ["猫"]);
    // It becomes nothing.
    assert_eq!(pairs.encode("a猫b").unwrap(), pairs.encode("ab").unwrap());
    assert_eq!(parts(&pairs, "a猫b"), ["猫"]);
    for tokenizer in [&words, &pieces, &pairs, &scores] {
        assert!(parts(tokenizer, "a b").is_empty());
    }
}

/// Also where a character takes several tokens, and where bytes are no character at all.
#[test]
fn pieces_of_an_output_are_whole_characters_and_make_its_text() {
    let tokenizer = bundled();
    let mut state = 9u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut outputs: Vec<Vec<u32>> = vec![tokenizer.encode("A café for 🐈 and 日本 — naïve").unwrap()];
    outputs.extend((0..20).map(|_| (0..30).map(|_| random(2048) as u32).collect()));
    for output in outputs {
        for prompt in [&[1][..], &output[..3]] {
            let mut streamed = Streamed::new(&tokenizer, prompt).unwrap();
            let mut text = String::new();
            for id in &output {
                let piece = streamed.push(*id).unwrap();
                assert!(!piece.ends_with('\u{fffd}'), "{piece:?}");
                text.push_str(&piece);
            }
            text.push_str(&streamed.finish().unwrap());
            assert_eq!(text, tokenizer.texts(prompt, &output).unwrap().output.text);
            assert_eq!(streamed.output(), output);
        }
    }
}
