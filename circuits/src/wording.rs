//! Numbers in words, as messages and reports of all crates show them.

use std::fmt::Display;

/// `1 token` or `2 tokens`.
pub fn count(n: impl Display, noun: &str) -> String {
    let n = n.to_string();
    let plural = if n == "1" { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// `1.23 MB`, decimal units.
pub fn bytes(n: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, unit)| n as f64 >= *unit) {
        Some((name, unit)) => format!("{} {name}", three_digits(n as f64 / unit)),
        None => format!("{n} B"),
    }
}

/// `1.23 s` or `12.3 ms`.
pub fn seconds(s: f64) -> String {
    if s >= 1.0 {
        format!("{} s", three_digits(s))
    } else {
        format!("{} ms", three_digits(s * 1e3))
    }
}

fn three_digits(v: f64) -> String {
    let decimals = if v >= 100.0 {
        0
    } else if v >= 10.0 {
        1
    } else {
        2
    };
    format!("{v:.decimals$}")
}
