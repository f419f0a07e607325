use serde_json::{json, Value};
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_testkit::{odd_config, random_model, TestModel};
use tessera_verifier::context::Context;

use super::*;
use crate::Key;

/// Every element and attribute that a page may have.
const TAGS: [&str; 31] = [
    "!doctype", "html", "meta", "title", "style", "main", "section", "h1", "h2", "h3", "p", "div", "span", "dl", "dt",
    "dd", "pre", "table", "tr", "th", "td", "svg", "line", "text", "circle", "footer", "/", "lang", "charset", "name",
    "content",
];
const ATTRIBUTES: [&str; 23] = [
    "html",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
    "class",
    "dir",
    "role",
    "aria-label",
    "width",
    "height",
    "x",
    "y",
    "x1",
    "x2",
    "y1",
    "y2",
    "cx",
    "cy",
    "r",
    "text-anchor",
    "title",
];
/// What a terminal, a browser or a reader might take for something else.
const HOSTILE: &str = "</div></section></main><script>alert(1)</script><img src=http://e.vil/x onerror=\"go()\"><style>*{}</style>\
    <h1>Accepted</h1>&lt;b&gt;'\"`\u{1b}[2J\u{202e}evil\u{2066}\u{200b}\u{feff}\u{0}\r\n\u{85}\u{2028}Z\u{301}\u{301}\u{301}\u{301}\u{301}-->]]>";

/// A byte-level tokenizer without merges: byte b has the id 3 + b. Three special tokens come before.
fn tokenizer(special: &str) -> Value {
    let token = |id: u32, content: &str| json!({"id": id, "content": content, "special": true});
    let bytes = (0..=255u32).map(|b| (format!("<0x{b:02X}>"), json!(3 + b)));
    let names = [(0, "<|a|>"), (1, "<|b|>"), (2, special)];
    let mut vocab: serde_json::Map<String, Value> = bytes.collect();
    vocab.extend(names.map(|(id, name)| (name.to_owned(), json!(id))));
    json!({"added_tokens": names.map(|(id, name)| token(id, name)), "model": {"type": "BPE", "vocab": vocab},
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}})
}

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(|byte| 3 + u32::from(byte)).collect()
}

struct Files {
    key: Vec<u8>,
    proof: Vec<u8>,
}

/// A proof of this prompt, of a model with a hostile token, in chunks of so many layers.
fn files(prompt: &[u32], layers: &[usize], context: Option<Context>) -> Files {
    let config = ModelConfig {
        layers: layers.iter().sum(),
        context: 512,
        ..odd_config()
    };
    let mut model = TestModel::new(random_model(config, WeightFormat::Int8, 7));
    model.key.tokenizer = tokenizer(HOSTILE).to_string().into_bytes();
    let proof = model.prove_chunks_in(context, prompt, 3, layers);
    Files {
        key: model.key.to_bytes().expect("a key"),
        proof: proof.to_bytes().expect("a proof"),
    }
}

/// The page about a proof, and the verdict.
fn page(files: &Files, names: [&str; 2], turns: Option<&[Turn]>) -> (String, Verdict) {
    let key = Key::from_bytes(&files.key).expect("a key");
    let verdict = key.verify(&files.proof);
    let costs = Rows::default().row("verification", "5 ms");
    let html = Page {
        verdict: &verdict,
        key: (key.model_key(), key.recipe()),
        key_file: File {
            name: names[0],
            bytes: &files.key,
        },
        proof_file: File {
            name: names[1],
            bytes: &files.proof,
        },
        turns,
        costs: &costs,
        made_by: names[1],
    }
    .html();
    (html, verdict)
}

/// The tags of a page, opened and closed in turn; and its text. Fails on what is no markup of ours.
fn checked(html: &str) -> (Vec<String>, String) {
    let (mut tags, mut text, mut open) = (Vec::new(), String::new(), Vec::new());
    let mut rest = html;
    while let Some((before, behind)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, behind) = behind.split_once('>').expect("an end");
        rest = behind;
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let bare = name.trim_matches('/');
        assert!(TAGS.contains(&bare), "<{tag}>");
        // Values stand between quotation marks, so that names are at even places.
        for name in attributes.split('"').step_by(2) {
            let name = name.trim().trim_end_matches(['=', '/']);
            assert!(name.is_empty() || ATTRIBUTES.contains(&name), "{name:?} in <{tag}>");
        }
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "</{name}>"),
            None if ["!doctype", "meta"].contains(&name) || tag.ends_with('/') => {}
            None => open.push(name.to_owned()),
        }
        if bare == "style" && !tag.starts_with('/') {
            let (style, behind) = rest.split_once("</style>").expect("an end");
            assert_eq!(style, STYLE);
            rest = behind;
            open.pop();
        }
        tags.push(tag.to_owned());
    }
    assert!(open.is_empty(), "{open:?}");
    text.push_str(rest);
    for c in html.chars() {
        assert!(
            c.is_ascii_graphic() || c.is_alphanumeric() || " \n\u{301}".contains(c),
            "{c:?}"
        );
    }
    (tags, text)
}

/// Whatever stands in texts, names of tokens, files and the program: the page has its own elements alone.
#[test]
fn hostile_strings_draw_nothing() {
    let prompt = [&ids(HOSTILE)[..], &[2, 0, 290, 1]].concat();
    let files = files(&prompt, &[2], None);
    let turn = Turn {
        role: "user",
        content: HOSTILE.to_owned(),
    };
    for turns in [None, Some(&[turn][..])] {
        let (html, verdict) = page(&files, [HOSTILE, HOSTILE], turns);
        assert!(verdict.outcome.is_accepted());
        let (tags, text) = checked(&html);
        // The heading of the verdict is ours, and there is one.
        assert_eq!(tags.iter().filter(|tag| *tag == "h1").count(), 1);
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
        assert!(
            text.contains("\\u{1b}[2J\\u{202e}evil\\u{2066}\\u{200b}\\u{feff}\\u{0}\\r\n\\u{85}"),
            "{text}"
        );
        // A name that a shell could take for more is not written into a command.
        assert!(text.contains("tessera verify --key model.key a.proof"), "{text}");
    }
}

/// Nothing can be fetched or run: the policy allows the style of this page, by its digest.
#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    for (bytes, expected) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("\u{ff}>", "w78+"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), expected);
    }
    let (html, _) = page(&files(&[5, 6], &[1], None), ["k", "p"], None);
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'",
        base64(&Sha256::digest(STYLE))
    );
    assert!(html.contains(&policy), "{html}");
    for word in [
        "http:", "https:", "url(", "@import", " src", " href", "style=", "<script", "<link", "<img",
    ] {
        assert!(!html.contains(word), "{word}");
    }
}

/// What the key maker says is in another box than what is proved.
#[test]
fn claims_stand_outside_of_the_box_of_the_verdict() {
    let (html, _) = page(&files(&[5, 6], &[1], None), ["k", "p"], None);
    let (verdict, rest) = html.split_once("</section>").expect("a box");
    assert!(
        verdict.contains("verdict good") && verdict.contains("<h1>Accepted</h1>"),
        "{verdict}"
    );
    for word in ["fidelity", "recipe", "checkpoint"] {
        assert!(!verdict.contains(word), "{word}");
    }
    let (_, claimed) = rest.split_once("class=\"claimed\"").expect("a box of claims");
    let claimed = claimed.split_once("</section>").expect("its end").0;
    assert!(
        claimed.contains("fidelity") && claimed.contains("Nothing in this box is proved"),
        "{claimed}"
    );
}

/// The terms of the chart add up to the bits of the verdict, in one piece and in chunks.
#[test]
fn the_chart_is_the_ledger_of_the_proof() {
    for layers in [&[2][..], &[1, 1]] {
        let context = Some(Context::try_from([7; 32]).expect("a context"));
        let files = files(&[5, 6, 7], layers, context);
        let (html, verdict) = page(&files, ["model.key", "a.proof"], None);
        let key = Key::from_bytes(&files.key).expect("a key");
        let proved = verdict.proved().expect("a statement");
        let about = Page {
            verdict: &verdict,
            key: (key.model_key(), key.recipe()),
            key_file: File { name: "k", bytes: &[] },
            proof_file: File {
                name: "p",
                bytes: &files.proof,
            },
            turns: None,
            costs: &Rows::default(),
            made_by: "",
        };
        let terms = about.terms(proved);
        let sum: f64 = terms.iter().map(|term| (-term.bits).exp2()).sum();
        assert!((-sum.log2() - proved.security_bits()).abs() < 1e-9, "{layers:?}");
        assert!(terms.len() > 10 && terms.is_sorted_by(|a, b| a.bits <= b.bits));
        for term in &terms {
            assert!(html.contains(&term.name), "{}", term.name);
        }
        // The command compares all that the page shows.
        let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let statement = proved.statement();
        for option in [
            format!("--expect-context {}", "07".repeat(32)),
            format!("--expect-prompt-ids {}", list(&statement.prompt)),
            format!("--expect-output-ids {}", list(&statement.output)),
        ] {
            assert!(html.contains(&option), "{option}");
        }
        checked(&html);
    }
}

/// Of a proof that is not valid nothing is shown but that, and why.
#[test]
fn a_rejected_proof_has_a_page_that_says_so_and_shows_no_text_of_it() {
    let mut files = files(&ids("I admit it."), &[1], None);
    let middle = files.proof.len() / 2;
    files.proof[middle] ^= 1;
    let (html, verdict) = page(&files, ["model.key", "a.proof"], None);
    let reason = verdict.reason("a.proof", "model.key").expect("a reason");
    let (_, text) = checked(&html);
    assert!(
        html.contains("verdict bad") && html.contains("<h1>REJECTED</h1>"),
        "{html}"
    );
    assert!(text.contains(&reason.replace('\'', "&#39;")), "{reason}");
    for word in ["Accepted", "admit", "--expect", "verdict good", "<svg"] {
        assert!(!html.contains(word), "{word}");
    }
}
