use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::Regex;

fn found<'a>(pattern: &str, text: &'a str) -> Vec<&'a str> {
    let spans = Regex::new(pattern).unwrap().find_all(text).unwrap();
    spans.into_iter().map(|(start, end)| &text[start..end]).collect()
}

#[test]
fn patterns_mean_what_oniguruma_takes_them_for() {
    for (pattern, text, want) in [
        (r"\h+", "fade beef xyz", &["fade", "beef"][..]),
        ("^a+|b+$", "xb\naab\nb", &["b", "aa", "b", "b"]),
        (r"\p{Sc}+|\p{punct}", "$€+!", &["$€", "!"]),
        (r"\w+", "½x² ⅷy", &["½x²", "ⅷy"]),
        (r"[\w]+", "½x²", &["x"]),
        ("[[:alpha:]]+|[[:punct:]]+", "ñú漢，x", &["ñú漢", "，", "x"]),
        ("[a-z&&[^b]]+", "abc", &["a", "c"]),
        ("a(?i)b|c", "aBaCc", &["aB", "aC"]),
        ("(?m:.)+", "a\nb", &["a\nb"]),
        (r"a{2}+b|a{,2}c", "aaaabaac", &["aaaab", "aac"]),
        ("(?i:k)", "kK\u{212a}", &["k", "K", "\u{212a}"]),
        (r"a++b|a", "aab", &["aab"]),
        (r"(?<=ab|c)x", "abxcxx", &["x", "x"]),
        (r"\Ga", "aaba", &["a", "a"]),
        (r"\R", "\r\n\n\u{2028}", &["\r\n", "\n", "\u{2028}"]),
    ] {
        assert_eq!(found(pattern, text), want, "{pattern}");
    }
}

#[test]
fn patterns_that_could_mean_something_else_are_refused_by_name() {
    for pattern in [
        r"(a)\1",
        r"\Ka",
        r"\X",
        "(?~a)",
        r"\g<0>",
        "(?i)straße",
        "(?i)ss",
        "(?i)[ß]",
        "(?x) a",
        "(?<=a*)b",
        "(?<!(?<=a)b)",
        "{2}",
        "(?W)a",
        "[]a]",
        r"\p{InGreek}",
        r"\p{Age=6.0}",
        r"\q",
        "a)",
        "(a",
        "[a",
        r"\x80",
        "(*FAIL)",
        "[b-a]",
        "^*",
        "(?=a)+",
        "a{5,2}",
        "(?s).",
    ] {
        let error = Regex::new(pattern).unwrap_err();
        assert!(
            error.starts_with(&format!("the regular expression {pattern:?} ")),
            "{error}"
        );
    }
}

#[test]
fn a_search_that_takes_too_long_is_an_error() {
    let slow = Regex::new("(a*)*b|(?:a|a)*c").unwrap();
    let error = slow.find_all(&"a".repeat(60)).unwrap_err();
    assert!(error.contains("too many steps"), "{error}");
}

#[test]
fn patterns_that_are_too_large_are_refused() {
    assert!(Regex::new("((?:ab){900}){900}").unwrap_err().contains("too large"));
    let deep = format!("{}a{}", "(".repeat(3000), ")".repeat(3000));
    assert!(Regex::new(&deep).unwrap_err().contains("deep"));
    assert!(Regex::new(&"[".repeat(3000)).unwrap_err().contains("deep"));
}

/// `fixtures/regex_classes.py` has let the official library look for each pattern among all code points.
#[test]
fn classes_and_properties_have_the_characters_of_oniguruma() {
    let all: String = (0..=0x0010_ffff).filter_map(char::from_u32).collect();
    let goldens: BTreeMap<String, (usize, String)> =
        serde_json::from_str(include_str!("../../../../fixtures/regex-classes.json")).unwrap();
    assert!(goldens.len() > 130);
    for (pattern, (characters, digest)) in goldens {
        let regex = match Regex::new(&pattern) {
            Ok(regex) => regex,
            Err(error) => {
                assert!(pattern == r"\p{LC}" && error.contains("not supported"), "{error}");
                continue;
            }
        };
        let found = regex.find_all(&all).unwrap();
        let found: String = found.into_iter().map(|(start, end)| &all[start..end]).collect();
        assert_eq!(found.chars().count(), characters, "{pattern}");
        assert_eq!(hex::encode(&Sha256::digest(&found)[..8]), digest, "{pattern}");
    }
}
