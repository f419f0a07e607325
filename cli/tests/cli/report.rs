//! A verdict as a page, and what the program says of itself.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::tempdir;

use crate::args;
use crate::shown::{bytes_tokenizer, ids, proof_with_tokenizer};
use crate::support::{done, fails, json, names, tessera, Shared, CHECKPOINT, PROMPT};

/// Every element that a page may have, and every attribute.
const TAGS: [&str; 26] = [
    "!doctype", "html", "meta", "title", "style", "main", "section", "h1", "h2", "h3", "p", "div", "span", "dl", "dt",
    "dd", "pre", "table", "tr", "th", "td", "svg", "line", "text", "circle", "footer",
];
const ATTRIBUTES: [&str; 22] = [
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
];
/// What a terminal, a browser or a reader might take for something else.
const HOSTILE: &str = "</div></section></main><script>alert(1)</script><img src=http://e.vil/x onerror=\"go()\"><style>*{}</style>\
    <h1>Accepted</h1>&lt;b&gt;'\"`\u{1b}[2J\u{202e}evil\u{2066}\u{200b}\u{feff}\u{0}\r\n\u{85}\u{2028}Z\u{301}\u{301}\u{301}\u{301}-->]]>";

/// The opening tags of a page, and its text. Fails on what is no markup of ours, and on characters that are not drawn.
fn checked(html: &str) -> (Vec<String>, String) {
    let (mut tags, mut text, mut open) = (Vec::new(), String::new(), Vec::new());
    let mut rest = html;
    while let Some((before, behind)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, behind) = behind.split_once('>').expect("an end");
        rest = behind;
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(TAGS.contains(&name.trim_start_matches('/')), "<{tag}>");
        // Values stand between quotation marks, so that names are at even places.
        for name in attributes.split('"').step_by(2) {
            let name = name.trim().trim_end_matches(['=', '/']);
            assert!(name.is_empty() || ATTRIBUTES.contains(&name), "{name:?} in <{tag}>");
        }
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "</{name}>"),
            None => {
                tags.push(tag.to_owned());
                if !["!doctype", "meta"].contains(&name) && !tag.ends_with('/') {
                    open.push(name.to_owned());
                }
            }
        }
        if tag == "style" {
            rest = &rest[rest.find("</style>").expect("an end")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
    text.push_str(rest);
    for c in html.chars() {
        let drawn = c.is_ascii_graphic() || c.is_alphanumeric() || " \n\u{301}\u{fffd}".contains(c);
        assert!(drawn, "{c:?}");
    }
    (tags, text)
}

/// The page about a proof.
fn page(key: &Path, proof: &Path, dir: &Path) -> String {
    let out = dir.join("page.html");
    done(args!["report", "--key", key, proof, "--out", out]);
    fs::read_to_string(out).expect("a page")
}

/// Whatever stands in texts, names of tokens and names of files: the page has its own elements alone, and the same ones.
#[test]
fn hostile_strings_draw_nothing() {
    let dir = tempdir().unwrap();
    let prompt = [&ids(HOSTILE.as_bytes())[..], &[3, 1, 2000, 2], &ids(b"\xff\xc3")].concat();
    let (key, proof) = proof_with_tokenizer(dir.path(), &bytes_tokenizer(HOSTILE), &prompt);
    let name = dir.path().join(HOSTILE.replace(['/', '\0'], "|"));
    fs::copy(proof, &name).unwrap();
    let html = page(&key, &name, dir.path());
    let (tags, text) = checked(&html);
    // The heading of the verdict is ours, and there is one.
    assert_eq!(tags.iter().filter(|tag| *tag == "h1").count(), 1);
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{text}");
    let escaped =
        "\\u{1b}[2J\\u{202e}evil\\u{2066}\\u{200b}\\u{feff}\\u{0}\\r\n\\u{85}\\u{2028}Z\u{301}\u{301}\\u{301}";
    assert!(text.contains(escaped), "{text}");
    // A name that a shell could take for more is not written into a command.
    assert!(text.contains(" a.proof"), "{text}");
    let plain = page(&Shared::get().key(), &Shared::get().proof(), dir.path());
    let kinds = |html: &str| {
        let mut kinds: Vec<String> = checked(html)
            .0
            .iter()
            .map(|tag| tag.split(' ').next().unwrap().to_owned())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    assert_eq!(kinds(&html), kinds(&plain));
}

/// Nothing can be fetched or run: the policy allows the style of the page alone, by its digest.
#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    let dir = tempdir().unwrap();
    let html = page(&Shared::get().key(), &Shared::get().proof(), dir.path());
    let style = html.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    let policy = html
        .split("style-src 'sha256-")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap();
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let six = |c: u8| letters.iter().position(|own| *own == c).map(|at| format!("{at:06b}"));
    let bits: String = policy.bytes().filter_map(six).collect();
    let expected: String = Sha256::digest(style).iter().map(|byte| format!("{byte:08b}")).collect();
    assert_eq!(bits[..256], expected);
    assert!(
        html.contains("content=\"default-src 'none'; style-src 'sha256-"),
        "{html}"
    );
    for word in [
        "http:", "https:", "url(", "@import", " src=", " href", "style=", "<script", "<link", "<img",
    ] {
        assert!(!html.contains(word), "{word}");
    }
}

/// What the key maker says is in another box than what is proved.
#[test]
fn claims_stand_outside_of_the_box_of_the_verdict() {
    let dir = tempdir().unwrap();
    let html = page(&Shared::get().key(), &Shared::get().proof(), dir.path());
    let (verdict, rest) = html.split_once("</section>").expect("a box");
    assert!(
        verdict.contains("<section class=\"verdict good\">\n<h1>Accepted</h1>"),
        "{verdict}"
    );
    let (_, claimed) = rest.split_once("class=\"claimed\"").expect("a box of claims");
    let claimed = claimed.split_once("</section>").expect("its end").0;
    assert!(claimed.contains("Nothing in this box is proved"), "{claimed}");
    let proved = verdict.split("<main>").nth(1).unwrap();
    for word in ["fidelity", "recipe", "checkpoint", "KL"] {
        assert!(claimed.contains(word) && !proved.contains(word), "{word}");
    }
}

/// The terms of the chart add up to the bits of the verdict, and the command compares all that the page shows.
#[test]
fn the_chart_is_the_ledger_of_the_proof() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let [tied, work] = ["tied.proof", "work"].map(|name| dir.path().join(name));
    let context = "07".repeat(32);
    let prove = args![
        "prove",
        "--model",
        shared.model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "3",
        "--context",
        context,
        "--out",
        tied
    ];
    for more in [args![], args!["--work", work, "--chunks", "2"]] {
        let report = done([prove.clone(), more].concat());
        let html = page(&shared.key(), &tied, dir.path());
        let cells = html.split("<td class=\"number\">").skip(1).step_by(2);
        let bits: Vec<f64> = cells
            .map(|cell| cell.split('<').next().unwrap().parse().unwrap())
            .collect();
        let sum: f64 = bits.iter().map(|bits| (-bits).exp2()).sum();
        let whole = report["security_bits"].as_f64().unwrap();
        assert!(
            bits.len() > 10 && bits.is_sorted() && (-sum.log2() - whole).abs() < 0.1,
            "{bits:?}, {whole}"
        );
        let list = |name: &str| {
            report[name]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        for option in [
            format!("--expect-context {context}"),
            format!("--expect-prompt-ids {}", list("prompt_ids")),
            format!("--expect-output-ids {}", list("output_ids")),
        ] {
            assert!(html.contains(&option), "{option}");
        }
    }
}

#[test]
fn a_report_has_the_verdict_the_text_and_the_commands_that_check_it() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let page = dir.path().join("page.html");
    let report = done(args!["report", "--key", shared.key(), shared.proof(), "--out", page]);
    assert_eq!(report["verdict"], "accept");
    assert_eq!(report["report"], page.display().to_string());
    let html = fs::read_to_string(&page).unwrap();
    let id = shared.prove["model_id"].as_str().unwrap();
    for words in [
        "<h1>Accepted</h1>",
        id,
        "Once upon a time",
        "sha256sum --check",
        "tessera verify --key",
        "<svg",
    ] {
        assert!(html.contains(words), "{words}");
    }
    // The same verdict as of `verify`, without the time.
    let mut verified = done(args!["verify", "--key", shared.key(), shared.proof()]);
    let mut own = report.clone();
    for fields in [&mut verified, &mut own] {
        let fields = fields.as_object_mut().unwrap();
        fields.remove("verify_seconds");
        fields.remove("report");
    }
    assert_eq!(own, verified);
    // To standard output the page alone goes.
    let output = tessera(args!["report", "--key", shared.key(), shared.proof(), "--out", "-"]);
    assert!(output.stdout.starts_with(b"<!doctype html>") && output.stdout.ends_with(b"</html>\n"));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("accepted\n"));
}

#[test]
fn a_rejected_proof_has_a_report_and_status_one() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let [page, changed] = ["page.html", "changed.proof"].map(|name| dir.path().join(name));
    let mut bytes = fs::read(shared.proof()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&changed, bytes).unwrap();
    let (status, report) = json(args!["report", "--key", shared.key(), changed, "--out", page]);
    assert_eq!((status, &report["verdict"]), (1, &"reject".into()));
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("<section class=\"verdict bad\">\n<h1>REJECTED</h1>"),
        "{html}"
    );
    // No text of the proof; and no figures of the key, which would only mislead.
    for word in [
        "Accepted",
        "Once upon",
        "--expect",
        "verdict good\"",
        "<svg",
        "faithful",
    ] {
        assert!(!html.contains(word), "{word}");
    }
    checked(&html);
}

/// The command on the page about a proof that is not as expected comes to the same verdict, and hostile expectations draw nothing.
#[test]
fn a_report_says_what_was_expected_and_its_command_expects_the_same() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let page = dir.path().join("page.html");
    let report = |more: &[&str]| {
        let mut args = args!["report", "--key", shared.key(), shared.proof(), "--out", page];
        args.extend(more.iter().map(Into::into));
        let (status, said) = json(args);
        (status, said, fs::read_to_string(&page).unwrap())
    };
    let (status, _, html) = report(&["--expect-prompt", PROMPT, "--min-bits", "93.5"]);
    assert_eq!(status, 0);
    assert!(html.contains("prompt as expected\nmin_bits as expected"), "{html}");
    for (text, shown) in [("it's <b>$(no)</b>", true), (HOSTILE, false)] {
        let text = text.replace('\0', "");
        let (status, said, html) = report(&["--expect-output", &text, "--expect-complete"]);
        assert_eq!((status, &said["verdict"]), (1, &"reject".into()));
        checked(&html);
        assert!(html.contains("<h1>REJECTED</h1>"), "{html}");
        assert!(
            html.contains("output NOT as expected\ncomplete NOT as expected"),
            "{html}"
        );
        let command = html
            .split("<pre>tessera verify")
            .nth(1)
            .unwrap()
            .split("</pre>")
            .next()
            .unwrap();
        assert!(
            command.contains("--expect-complete") && command.contains("--expect-prompt-ids 1,"),
            "{command}"
        );
        assert_eq!(command.contains("--expect-output "), shown, "{command}");
        assert_eq!(html.contains("depends on --expect-output, too"), !shown, "{html}");
        if shown {
            assert!(
                command.contains(r"&#39;it&#39;\&#39;&#39;s &lt;b&gt;$(no)"),
                "{command}"
            );
        }
    }
    fails(
        args!["report", "--key", shared.key(), shared.proof(), "--out", page, "--chat"],
        &["--chat goes with --expect-prompt"],
    );
}

#[test]
fn what_decides_nothing_leaves_no_report() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let [page, other] = ["page.html", "other"].map(|name| dir.path().join(name));
    done(args![
        "setup",
        CHECKPOINT,
        "--strategy",
        "w8",
        "--no-fidelity",
        "--out",
        other
    ]);
    let report = |key, proof, out| args!["report", "--key", key, proof, "--out", out];
    fails(
        report(other.join("model.key"), shared.proof(), page.clone()),
        &["is the key of another model"],
    );
    fails(report(shared.proof(), shared.proof(), page.clone()), &["a proof"]);
    fails(report(shared.key(), dir.path().join("none"), page.clone()), &["none"]);
    assert!(!page.exists());
    let key = dir.path().join("model.key");
    fs::copy(shared.key(), &key).unwrap();
    fails(
        report(key.clone(), shared.proof(), key),
        &["one of the files that this command reads"],
    );
}

#[test]
fn shells_and_readers_get_to_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = tessera(args!["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.len() > 5000, "{shell}");
        for word in ["prove-chunk", "expect-output", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    fails(args!["completions", "sh"], &["bash"]);
    let dir = tempdir().unwrap();
    let pages = dir.path().join("man1");
    let report = done(args!["man", "--out-dir", pages]);
    let files = names(&pages);
    assert_eq!(report["pages"].as_array().unwrap().len(), files.len());
    for name in [
        "tessera.1",
        "tessera_verify.1",
        "tessera_chain_plan.1",
        "tessera_prove-chunk.1",
    ] {
        let page = fs::read_to_string(pages.join(name)).unwrap_or_else(|e| panic!("{name} of {files:?}: {e}"));
        assert!(page.contains(".SH OPTIONS") || name == "tessera.1", "{page}");
    }
    // The program tessera-verify has the other name.
    assert!(files.iter().all(|name| !name.starts_with("tessera-")), "{files:?}");
    let verify = fs::read_to_string(pages.join("tessera_verify.1")).unwrap();
    for words in [
        "\\-\\-key",
        ".TH TESSERA_VERIFY 1 \" \" \"Tessera ",
        ".SH \"EXIT STATUS\"",
        "\n\\fB130\\fR",
    ] {
        assert!(verify.contains(words), "{words}: {verify}");
    }
    let whole = fs::read_to_string(pages.join("tessera.1")).unwrap();
    assert!(whole.contains("\ntessera_prove\\-chunk(1)"), "{whole}");
}

/// The commit may be unknown, but is said to be so.
#[test]
fn the_version_names_commit_protocol_and_files() {
    let text = |option: &str| String::from_utf8(tessera(args![option]).stdout).unwrap();
    assert_eq!(text("-V"), format!("tessera {}\n", env!("CARGO_PKG_VERSION")));
    let long = text("--version");
    let words: Vec<&str> = long.split_whitespace().take(3).collect();
    assert_eq!(words, ["tessera", env!("CARGO_PKG_VERSION"), "(commit"]);
    for words in ["protocol tessera/", "proofs ", "keys ", "model directories "] {
        assert!(long.contains(words), "{long}");
    }
    for args in [["--version", "--json"], ["--json", "-V"]] {
        let (status, said) = json_of(&args);
        assert_eq!(
            (status, &said["version"]),
            (0, &env!("CARGO_PKG_VERSION").into()),
            "{said}"
        );
        let protocol = said["protocol"].as_str().unwrap();
        assert!(long.contains(&format!("protocol {protocol}\n")), "{said}");
        let commit = said["commit"].as_str().unwrap_or("unknown");
        assert!(long.contains(&format!("(commit {commit}")), "{said}");
        for (name, version) in said["files"].as_object().unwrap() {
            assert!(
                long.contains(&format!("{} {version}", name.replace('_', " "))),
                "{name}"
            );
        }
    }
}

/// The one object that the program prints.
fn json_of(args: &[&str]) -> (i32, serde_json::Value) {
    let output = tessera(args);
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).expect("JSON"),
    )
}
