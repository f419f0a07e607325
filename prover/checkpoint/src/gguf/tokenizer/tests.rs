use std::collections::HashMap;

use serde_json::{json, Value as Json};

use crate::{Checkpoint, CheckpointError};
use tessera_samples::gguf::{tiny, Gguf, Value, F32};
use tessera_samples::{golden, FIXTURE};
use tessera_text::tokenizer::Tokenizer;
use tessera_text::tokenizer::TokenizerFiles;

fn opened(gguf: &Gguf) -> Result<Checkpoint, CheckpointError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, gguf.to_bytes()).unwrap();
    Checkpoint::open(&path)
}

fn files(gguf: &Gguf) -> TokenizerFiles {
    opened(gguf).unwrap().id_files().unwrap().files
}

fn tokenizer(gguf: &Gguf) -> Tokenizer {
    let files = files(gguf);
    Tokenizer::from_bytes(&files.tokenizer.unwrap(), files.config.as_deref()).unwrap()
}

/// A text in pieces by the definition of SentencePiece: the neighbours that make the piece of the highest score become
/// one, the leftmost first, until there are none. Every character must be a piece.
fn by_definition(pieces: &HashMap<&str, (u32, f32)>, text: &str) -> Vec<u32> {
    let escaped = format!(" {text}").replace(' ', "\u{2581}");
    let mut symbols: Vec<String> = escaped.chars().map(String::from).collect();
    loop {
        let scored = symbols.windows(2).enumerate().filter_map(|(i, pair)| {
            let (_, score) = pieces.get(pair.concat().as_str())?;
            Some((i, *score))
        });
        let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
        let Some((i, _)) = best else { break };
        let right = symbols.remove(i + 1);
        symbols[i].push_str(&right);
    }
    symbols.iter().map(|symbol| pieces[symbol.as_str()].0).collect()
}

#[test]
fn pieces_are_those_of_the_definition() {
    let gguf = Gguf::of_checkpoint(FIXTURE.as_ref(), F32);
    let value = |key: &str| gguf.metadata.iter().find(|(own, _)| own == key).unwrap().1.clone();
    let (Value::Texts(tokens), Value::F32s(scores)) = (value("tokenizer.ggml.tokens"), value("tokenizer.ggml.scores"))
    else {
        panic!("tokens and scores");
    };
    let pieces: HashMap<&str, (u32, f32)> = tokens
        .iter()
        .zip(&scores)
        .enumerate()
        .skip(3)
        .map(|(id, (token, score))| (token.as_str(), (id as u32, *score)))
        .collect();
    let own = tokenizer(&gguf);
    let stories = golden().into_iter().map(|sample| sample.text);
    let texts = [
        "Once upon a time",
        "a\n\n b  c",
        " leading",
        "",
        "hello,  Tim's dog. Yes!",
    ];
    for text in stories.chain(texts.map(String::from)) {
        let text = text.replace("<|start_story|>", "").replace("<|end_story|>", "");
        let ids = own.encode(&text).unwrap();
        let expected = if text.is_empty() {
            Vec::new()
        } else {
            by_definition(&pieces, &text)
        };
        assert_eq!((ids[0], &ids[1..]), (1, expected.as_slice()), "{text:?}");
        assert_eq!(own.decode(&ids, true).unwrap(), text);
    }
    // A character that is no piece becomes its bytes.
    assert_eq!(tokenizer(&tiny(F32, false)).encode("thAn").unwrap(), [1, 4, 9, 3, 8]);
    // A special token within a text is one, and the text after it begins anew.
    let ids = own.encode("Tim<|end_story|>Tim").unwrap();
    let tim = by_definition(&pieces, "Tim");
    assert_eq!(ids, [&[1], tim.as_slice(), &[2], tim.as_slice()].concat());
}

/// The letters of byte-level tokens.
fn letter(byte: u8) -> char {
    let printed = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..);
    match printed(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|b| !printed(*b)).count();
            char::from_u32(256 + before as u32).unwrap()
        }
    }
}

const MERGES: [&str; 8] = ["1 2", "12 3", "123 4", "Ġ t", "h e", "Ġt he", "! \u{10a}", "' S"];

/// A byte-level tokenizer with tokens for a few words.
fn byte_level(pre: &str) -> Gguf {
    let mut gguf = tiny(F32, true);
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>", "<|user|>"].map(String::from).to_vec();
    tokens.extend((0..=255).map(|byte| letter(byte).to_string()));
    tokens.extend(MERGES.map(|merge| merge.replace(' ', "")));
    let mut kinds = vec![1; tokens.len()];
    kinds[..4].copy_from_slice(&[2, 3, 3, 4]);
    let size = tokens.len();
    gguf.set("llama.vocab_size", Value::U32(size as u32));
    gguf.set("tokenizer.ggml.pre", pre.into());
    gguf.set("tokenizer.ggml.tokens", Value::Texts(tokens));
    gguf.set("tokenizer.ggml.token_type", Value::I32s(kinds));
    gguf.set("tokenizer.ggml.merges", Value::Texts(MERGES.map(String::from).to_vec()));
    let embedding = gguf.tensor("token_embd.weight");
    embedding.dimensions[1] = size as u64;
    embedding.bytes = vec![0; 4 * 4 * size];
    gguf
}

#[test]
fn words_are_those_of_the_named_splits() {
    let tokens = |gguf: &Gguf| {
        let json: Json = serde_json::from_slice(&files(gguf).tokenizer.unwrap()).unwrap();
        let vocab = json["model"]["vocab"].as_object().unwrap().clone();
        let names: HashMap<u64, String> = vocab
            .into_iter()
            .map(|(token, id)| (id.as_u64().unwrap(), token))
            .collect();
        names
    };
    for (pre, text, expected) in [
        ("gpt-2", "the 12345", "t he Ġ 1234 5"),
        ("smollm", "the 123", "t he Ġ 1 2 3"),
        ("starcoder", "1234", "1 2 3 4"),
        ("default", "1234!", "123 4 !"),
        ("qwen2", "1234", "1 2 3 4"),
        ("smaug-bpe", "1234", "123 4"),
        ("llama-bpe", "12345 the", "<s> 123 4 5 Ġthe"),
        ("falcon3", "!\n", "<s> !\u{10a}"),
        ("gpt-2", "!\n", "! \u{10a}"),
        ("llama-bpe", "'S", "<s> 'S"),
        ("tekken", "123<|user|>1", "<s> 1 2 3 <|user|> 1"),
    ] {
        let gguf = byte_level(pre);
        let names = tokens(&gguf);
        let ids = tokenizer(&gguf).encode(text).unwrap();
        let got: Vec<&str> = ids.iter().map(|id| names[&u64::from(*id)].as_str()).collect();
        assert_eq!(got.join(" "), expected, "{pre} {text:?}");
    }
    let text = "Hello,  World!\n\n\tint x = 42; // naïve 猫 🦀 \r\n   'S \u{a0}½ ٣٤ \u{0}";
    for pre in [
        "default",
        "gpt-2",
        "smollm",
        "llama-bpe",
        "smaug-bpe",
        "qwen2",
        "tekken",
    ] {
        let own = tokenizer(&byte_level(pre));
        assert_eq!(own.decode(&own.encode(text).unwrap(), true).unwrap(), text, "{pre}");
    }
}

#[test]
fn the_metadata_say_what_is_put_around_a_text() {
    let mut gguf = byte_level("smollm");
    let ids = |gguf: &Gguf| tokenizer(gguf).encode("t").unwrap();
    let bare = ids(&gguf);
    assert_eq!(bare.len(), 1);
    gguf.set("tokenizer.ggml.add_bos_token", Value::Flag(true));
    assert_eq!(ids(&gguf), [1, bare[0]]);
    gguf.set("tokenizer.ggml.add_eos_token", Value::Flag(true));
    assert_eq!(ids(&gguf), [1, bare[0], 2]);
    let mut gguf = byte_level("llama-bpe");
    assert_eq!(ids(&gguf), [1, bare[0]]);
    gguf.set("tokenizer.ggml.add_bos_token", Value::Flag(false));
    assert_eq!(ids(&gguf), bare);
    gguf.set("tokenizer.ggml.padding_token_id", Value::U32(0));
    let config: Json = serde_json::from_slice(&files(&gguf).config.unwrap()).unwrap();
    let expected = json!({
        "add_bos_token": false, "add_eos_token": false, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "pad_token": "<unk>", "chat_template": "{{ messages }}",
    });
    assert_eq!(config, expected);
}

#[test]
fn without_a_space_in_front_texts_stay_as_they_are() {
    let mut gguf = tiny(F32, false);
    assert_eq!(tokenizer(&gguf).encode("then").unwrap(), [1, 4, 11]);
    gguf.set("tokenizer.ggml.add_space_prefix", Value::Flag(false));
    let own = tokenizer(&gguf);
    assert_eq!(own.encode("then").unwrap(), [1, 11]);
    assert_eq!(own.decode(&[1, 4, 11], true).unwrap(), " then");
}

#[test]
fn models_without_a_tokenizer_have_no_tokenizer_files() {
    let mut gguf = tiny(F32, false);
    gguf.set("tokenizer.ggml.model", "no_vocab".into());
    assert_eq!(files(&gguf), TokenizerFiles::default());
    gguf.unset("tokenizer.ggml.model");
    assert_eq!(files(&gguf), TokenizerFiles::default());
}

#[test]
fn tokenizers_that_are_not_supported_are_refused_by_name() {
    let refused = |byte_level: bool, edit: &dyn Fn(&mut Gguf), word: &str| {
        let mut gguf = tiny(F32, byte_level);
        edit(&mut gguf);
        match opened(&gguf) {
            Err(CheckpointError::Unsupported(list)) => {
                let found = list.iter().any(|u| u.feature == "tokenizer" && u.detail.contains(word));
                assert!(found, "{word}: {list:?}");
            }
            other => panic!("{word}: {other:?}"),
        }
    };
    let full = |key: &str| format!("tokenizer.ggml.{key}");
    let set = |key, value: Value| move |g: &mut Gguf| g.set(&full(key), value.clone());
    let unset = |key| move |g: &mut Gguf| g.unset(&full(key));
    refused(false, &set("model", "bert".into()), "\"bert\"");
    refused(true, &set("pre", "chameleon".into()), "\"chameleon\"");
    refused(true, &unset("pre"), "tokenizer.ggml.pre is missing");
    refused(true, &unset("merges"), "tokenizer.ggml.merges is missing");
    refused(false, &unset("scores"), "tokenizer.ggml.scores is missing");
    refused(false, &unset("tokens"), "tokenizer.ggml.tokens is missing");
    refused(false, &unset("token_type"), "tokenizer.ggml.token_type is missing");
    refused(false, &unset("bos_token_id"), "bos_token_id is missing");
    refused(false, &set("bos_token_id", Value::U32(12)), "12 is no token");
    refused(false, &set("scores", Value::F32s(vec![f32::NAN; 12])), "finite");
    refused(false, &set("scores", Value::F32s(vec![0.0; 11])), "11 elements");
    refused(false, &set("token_type", Value::I32s(vec![9; 12])), "no type");
    refused(
        false,
        &set("tokens", Value::Texts(vec!["a".into(); 12])),
        "the same token",
    );
    refused(
        false,
        &set("remove_extra_whitespaces", Value::Flag(true)),
        "whitespaces",
    );
    refused(true, &set("add_space_prefix", Value::Flag(true)), "add_space_prefix");
    let merges = |line: &str| Value::Texts(vec!["t h".into(), line.to_string()]);
    for line in ["th", "t x", "h t", "", " ", "t h e"] {
        refused(true, &set("merges", merges(line)), "element 1");
    }
    let bytes = [
        &8u32.to_le_bytes()[..],
        &12u64.to_le_bytes(),
        &[1, 0, 0, 0, 0, 0, 0, 0, 0xff].repeat(12),
    ]
    .concat();
    refused(false, &set("tokens", Value::Raw(9, bytes)), "UTF-8");
    let long = |g: &mut Gguf| match &mut g
        .metadata
        .iter_mut()
        .find(|(k, _)| k == "tokenizer.ggml.tokens")
        .unwrap()
        .1
    {
        Value::Texts(tokens) => tokens[5] = "x".repeat(1000),
        _ => panic!("tokens"),
    };
    refused(false, &long, "1000 bytes long");
}
