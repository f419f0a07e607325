//! Attacks on the reader of a verdict.

use super::*;
use crate::rows::Rows;

/// What of a text is neither ASCII nor a letter, digit or sign.
fn hidden(text: &str) -> Vec<char> {
    let graphic = |c: &char| !(c.is_ascii_graphic() || *c == ' ' || is_graphic(*c) || is_mark(*c));
    text.chars().filter(graphic).collect()
}

/// The lines of a report in which a hostile text stands beside honest rows.
fn report(pieces_of: &[Piece], width: usize) -> Vec<String> {
    let rows = Rows::default()
        .ids("prompt", &[1, 2, 3])
        .row("", pieces(pieces_of))
        .ids("output", &[4])
        .row("security", "96.2 bits");
    let text = rows.render(width);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Only the labels begin a line.
    let labels: Vec<&str> = lines
        .iter()
        .filter(|l| !l.starts_with(' '))
        .map(String::as_str)
        .collect();
    assert_eq!(
        labels,
        ["prompt    3 ids: 1 2 3", "output    1 id: 4", "security  96.2 bits"],
        "{text}"
    );
    // What goes on is marked, and no line reaches the last column, where the terminal would go on by itself.
    for line in lines.iter().filter(|l| l.starts_with(' ')).skip(1) {
        assert!(line.starts_with("          | "), "{line:?}");
    }
    for line in &lines {
        let columns: usize = line.chars().map(|c| c.width().unwrap_or(9)).sum();
        assert!(columns < width, "{columns} columns: {line:?}");
        assert_eq!(hidden(line), Vec::<char>::new(), "{line:?}");
    }
    lines
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn special(name: &str) -> Piece {
    let name = Some(name.to_owned());
    Piece::Special {
        position: 0,
        id: 9,
        name,
    }
}

#[test]
fn no_padding_forges_a_row() {
    let row = "output    \"a text that the model did not write\"";
    for pad in [
        "\u{a0}", " ", "\u{3000}", "\u{2003}", "\u{2800}", "\u{3164}", "\u{ad}", "\u{200b}", "\t",
    ] {
        for n in [1, 40, 60, 62, 64, 66, 68, 70, 72, 150] {
            for width in [40, 80, 200] {
                report(&[text(&format!("Hi{}{row}", pad.repeat(n)))], width);
            }
        }
    }
}

#[test]
fn line_ends_and_escape_sequences_are_spelled() {
    let attack = "\r\noutput    \"x\"\u{1b}[2J\u{1b}[1;1Haccepted\u{9b}1A\u{85}\u{2028}\u{2029}\u{b}\u{c}\0\u{7f}";
    let lines = report(&[text(attack)], 200);
    let expected =
        "\"\\r\\noutput    \\\"x\\\"\\u{1b}[2J\\u{1b}[1;1Haccepted\\u{9b}1A\\u{85}\\u{2028}\\u{2029}\\u{b}\\u{c}\
        \\u{0}\\u{7f}\"";
    assert_eq!(lines[1].trim_start(), expected);
}

#[test]
fn directions_and_what_has_no_width_are_spelled() {
    for c in "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}".chars() {
        assert_eq!(quoted(&format!("a{c}b")), format!("\"a{}b\"", c.escape_unicode()));
    }
    for c in "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}\u{fe0f}\u{e0041}\u{e0100}\u{180e}\u{17b4}".chars() {
        assert_eq!(quoted(&format!("a{c}b")), format!("\"a{}b\"", c.escape_unicode()));
    }
    // Neither private nor unassigned characters, nor noncharacters.
    for c in "\u{e000}\u{f8ff}\u{378}\u{ffff}\u{fdd0}\u{10ffff}".chars() {
        assert_eq!(quoted(&format!("a{c}b")), format!("\"a{}b\"", c.escape_unicode()));
    }
}

#[test]
fn a_flood_of_marks_stays_on_its_line() {
    let flood = format!("e{}", "\u{301}".repeat(1000));
    let shown = quoted(&flood);
    assert_eq!(shown.chars().filter(|c| *c == '\u{301}').count(), MARKS);
    assert_eq!(shown.matches("\\u{301}").count(), 1000 - MARKS);
    report(&[text(&flood)], 80);
    // A mark has nothing to be drawn on at the beginning, after a space or an escape.
    assert_eq!(quoted("\u{338}a \u{338}\n\u{338}"), "\"\\u{338}a \\u{338}\\n\\u{338}\"");
}

#[test]
fn quotation_marks_do_not_end_the_text() {
    assert_eq!(quoted("a\" <|im_end|> \"b\\"), "\"a\\\" <|im_end|> \\\"b\\\\\"");
    let lines = report(&[special("<|im_end|>"), text("<|im_end|>"), special("<|im_end|>")], 80);
    assert_eq!(lines[1].trim_start(), "<|im_end|> \"<|im_end|>\" <|im_end|>");
}

#[test]
fn names_of_tokens_are_one_word_each() {
    assert_eq!(pieces(&[special("\" output \"")]), "\\\"\\u{20}output\\u{20}\\\"");
    assert_eq!(pieces(&[special("a\nb\u{202e}\u{a0}")]), "a\\nb\\u{202e}\\u{a0}");
    let long = pieces(&[special(&"x".repeat(5000))]);
    assert_eq!(long, format!("{}...(5000 bytes)", "x".repeat(64)));
    let unknown = Piece::Special {
        position: 1,
        id: 50_000,
        name: None,
    };
    assert_eq!(pieces(&[unknown]), "(id 50000: no token)");
}

#[test]
fn letters_of_all_scripts_can_be_read() {
    for text in [
        "naïve café",
        "猫が好き",
        "Привет",
        "שלום",
        "مرحبا",
        "हिन्दी",
        "สวัสดี",
        "🦀 ok",
        "«½ €»",
        "e\u{301}",
    ] {
        assert_eq!(quoted(text), format!("\"{text}\""));
    }
    assert_eq!(quoted("\u{fffd}"), "\"\u{fffd}\"");
}

#[test]
fn long_lines_are_wrapped_before_the_terminal_does_it() {
    for long in [
        "x".repeat(200),
        "猫".repeat(200),
        "\u{202e}".repeat(100),
        "ab cd ".repeat(60),
        "α".repeat(200),
    ] {
        for width in [40, 80] {
            let lines = report(&[text(&long)], width);
            let own = lines[1..lines.len() - 2].iter().map(|l| &l[10..]);
            assert!(own.clone().all(|l| !l.ends_with(' ')), "{lines:?}");
            let joined: String = own.map(|l| l.trim_start_matches("| ")).collect();
            let words = |text: &str| text.replace(' ', "");
            assert_eq!(
                words(&joined),
                words(&quoted(&long)),
                "nothing but spaces where a line ends is lost"
            );
        }
    }
    // An escape is not torn.
    let lines = wrapped(&quoted(&"\u{202e}".repeat(9)), 20, CONTINUED);
    assert!(
        lines
            .iter()
            .all(|l| l.matches("\\u{").count() == l.matches('}').count()),
        "{lines:?}"
    );
}

#[test]
fn names_of_files_are_hostile_too() {
    let shown = path(Path::new("a\naccepted\u{1b}[A \"b\""));
    assert_eq!(shown, "a\\naccepted\\u{1b}[A \\\"b\\\"");
    assert_eq!(
        message("cannot read a\naccepted\u{1b}[A", usize::MAX),
        "cannot read a\n  | accepted\\u{1b}[A"
    );
}

/// The lines of a report stay whole in a pipe only if no terminal that breaks them can make a line of ours out of a name.
#[test]
fn a_name_of_words_is_plain_unless_it_can_look_like_a_line() {
    for name in ["a.proof", "my story.proof", "a b c.proof", "\u{e4} \u{f6}.proof"] {
        assert!(is_plain(Path::new(name)), "{name}");
    }
    for name in [
        " a.proof",
        "a.proof ",
        "a  accepted  b.proof",
        "a  b.proof",
        "x accepted b.proof",
        "x Accepted: b.proof",
        "xundecided b.proof",
        "error: b.proof",
        "a\nb.proof",
        "a\u{a0}b.proof",
        "a\\b.proof",
        "a name of several words that is too long.proof",
    ] {
        assert!(!is_plain(Path::new(name)), "{name:?}");
    }
}

/// Names that Unicode would show alike, and what one could be made of to look like another.
#[test]
fn no_two_names_of_files_are_shown_or_spelled_alike() {
    use std::collections::HashSet;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 12] = [
        b"a\xff",
        b"a\xfe",
        b"a\\xff",
        b"a\\\\xff",
        b"a\xef\xbf\xbd",
        b"a\xc3",
        b"a\xc3\xbf",
        b"a\n",
        b"a\\n",
        b"a\\\\n",
        b"a\"",
        b"a\\\"",
    ];
    for write in [path, spelled] {
        let own: HashSet<String> = names
            .iter()
            .map(|name| write(Path::new(OsStr::from_bytes(name))))
            .collect();
        assert_eq!(own.len(), names.len(), "{own:?}");
    }
    assert_eq!(path(Path::new(OsStr::from_bytes(b"a\xff\n\\"))), "a\\xff\\n\\\\");
    assert_eq!(spelled(Path::new(OsStr::from_bytes(b"a\xff\n\\"))), "a\\xff\n\\\\");
}

#[test]
fn a_story_keeps_its_lines_and_nothing_else() {
    assert_eq!(
        story("One.\nTwo \"three\".\u{1b}[2J\r", 80),
        "\"One.\nTwo \"three\".\\u{1b}[2J\\r\""
    );
}

/// A model id is whole in every report and message, wherever a line has room for it: it will be copied and compared.
#[test]
fn ids_are_not_torn() {
    let id = "4a66d7a75015761f89a6b53343f89191a6b3c9f9489548b07b9c95eb38146b1e";
    let whole = |text: &str| text.lines().any(|line| line.contains(id));
    let about = format!("sky.proof is about model {id}, model.key is the key of another model");
    assert!(whole(&message(&about, 80)), "{}", message(&about, 80));
    let rows = Rows::default().row("weights root", format!("the digest\n{id}"));
    assert!(whole(&rows.render(80)), "{}", rows.render(80));
    let words = wrapped(&"ab cde ".repeat(40), 20, CONTINUED);
    assert!(words.iter().all(|l| !l.contains("|  ")), "{words:?}");
    // What no line has room for is torn, and begins where it is.
    let lines = wrapped(&format!("a {id}"), 40, CONTINUED);
    assert_eq!(lines[0], format!("a {}", &id[..38]));
    assert_eq!(lines[1], format!("| {}", &id[38..]));
}

/// Marks that some terminals draw beside the letter, halves of flags, and what only begins like an escape: no line is wider than its
/// terminal, however these are drawn.
#[test]
fn what_terminals_draw_wider_is_wrapped_in_time() {
    for (letter, each) in [
        ("a\u{9be}\u{9be}", 3),
        ("a\u{302e}\u{302e}", 5),
        ("a\u{16ff0}", 3),
        ("\u{1f1e6}", 2),
        ("\u{1f1e6}\u{1f1e7}", 4),
        ("e\u{301}", 2),
    ] {
        for lead in 0..80 {
            let text = format!("{}{}accepted   b.proof", "x".repeat(lead), letter.repeat(90));
            for own in wrapped(&line(&text), 79, CONTINUED) {
                let wide: usize = own.matches(letter).count() * each;
                let others = own.replace(letter, "").chars().count();
                assert!(wide + others <= 79, "{own:?}");
            }
        }
    }
    for start in ["\\u{", "\\u{}", "\\u{123456789}", "\\u{xyz}", "\\"] {
        let text = format!("{start}{}accepted{}.", "x".repeat(73), " ".repeat(70));
        for own in wrapped(&line(&text), 79, CONTINUED) {
            assert!(own.chars().count() <= 79, "{own:?}");
        }
    }
    assert_eq!(wrapped("abc\\u{1f1e6}", 5, CONTINUED).len(), 2, "an escape stays whole");
}
