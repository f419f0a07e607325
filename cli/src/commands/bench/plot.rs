//! The proofs of a bench as a picture: a bar for each statement, cut into the phases of the proof.

use serde_json::Value;
use tessera_verdict::rows::{bytes, count, seconds};

/// Phases with a colour of their own, in the order of a proof. All others are one part.
const PHASES: [(&str, &str); 11] = [
    ("generate", "#4e79a7"),
    ("forward pass", "#a0cbe8"),
    ("trace", "#f28e2b"),
    ("commit activations", "#ffbe7d"),
    ("count lookups", "#86bcb6"),
    ("lookups", "#59a14f"),
    ("matmuls", "#8cd17d"),
    ("claims", "#b6992d"),
    ("open", "#b07aa1"),
    ("stark", "#e15759"),
    ("check", "#79706e"),
];
const OTHER: (&str, &str) = ("other", "#9d9d9d");
/// Pixels of the picture, of its parts from left to right, and of a bar.
const WIDTH: f64 = 960.0;
const NAMES: f64 = 250.0;
const NUMBERS: f64 = 190.0;
const BAR: f64 = 20.0;
const STEP: f64 = 30.0;
const TOP: f64 = 64.0;
const MOST_TICKS: f64 = 6.0;

/// A bar: its name, seconds by phase, and the text behind it.
struct Bar {
    name: String,
    parts: Vec<(&'static str, f64)>,
    text: String,
}

/// The picture of a report of `bench`.
pub fn svg(json: &Value) -> String {
    let bars = bars(json);
    let longest = bars.iter().map(Bar::seconds).fold(0.0, f64::max).max(1e-3);
    let scale = (WIDTH - NAMES - NUMBERS) / longest;
    let bottom = TOP + STEP * bars.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        bottom + 34.0
    );
    let load = json["load_average"].as_f64();
    let load = load.map_or_else(String::new, |load| format!(", load average {load:.1}"));
    let title = format!("Seconds of a proof by phase, {} threads{load}", json["threads"]);
    text(&mut out, [10.0, 20.0], "start", &title);
    legend(&mut out, &bars);
    let step = step(longest);
    for i in 0..=(longest / step).floor() as usize {
        let (value, x) = (i as f64 * step, NAMES + i as f64 * step * scale);
        rect(&mut out, [x, TOP - 6.0], [1.0, bottom - TOP + 8.0], "#ddd");
        let shown = if i == 0 { "0".to_owned() } else { seconds(value) };
        text(&mut out, [x, bottom + 18.0], "middle", &shown);
    }
    for (i, bar) in bars.iter().enumerate() {
        let (mut x, y) = (NAMES, TOP + STEP * i as f64);
        for (name, seconds) in &bar.parts {
            let colour = PHASES.iter().find(|(own, _)| own == name).unwrap_or(&OTHER).1;
            rect(&mut out, [x, y], [seconds * scale, BAR], colour);
            x += seconds * scale;
        }
        text(&mut out, [NAMES - 10.0, y + BAR - 5.0], "end", &bar.name);
        text(&mut out, [x + 8.0, y + BAR - 5.0], "start", &bar.text);
    }
    out + "</svg>\n"
}

/// The phases that there are, each with its colour.
fn legend(out: &mut String, bars: &[Bar]) {
    let used = |name: &str| {
        bars.iter()
            .any(|bar| bar.parts.iter().any(|(own, s)| *own == name && *s > 0.0))
    };
    let mut x = 10.0;
    for (name, colour) in PHASES.iter().chain([&OTHER]).filter(|(name, _)| used(name)) {
        rect(out, [x, 34.0], [10.0, 10.0], colour);
        text(out, [x + 14.0, 44.0], "start", name);
        x += 24.0 + 7.0 * name.len() as f64;
    }
}

fn text(out: &mut String, [x, y]: [f64; 2], anchor: &str, text: &str) {
    *out += &format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(text)
    );
}

fn rect(out: &mut String, [x, y]: [f64; 2], [width, height]: [f64; 2], colour: &str) {
    *out +=
        &format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n");
}

impl Bar {
    fn seconds(&self) -> f64 {
        self.parts.iter().map(|(_, seconds)| seconds).sum()
    }
}

fn bars(json: &Value) -> Vec<Bar> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut bars = Vec::new();
    for model in list(&json["models"]) {
        for statement in list(&model["statements"]) {
            let phases = statement["phases"].as_object().cloned().unwrap_or_default();
            let of = |name: &str| phases.get(name).and_then(Value::as_f64).unwrap_or(0.0);
            let mut parts: Vec<(&'static str, f64)> = PHASES.iter().map(|(name, _)| (*name, of(name))).collect();
            let total = statement["prove_seconds"].as_f64().unwrap_or(0.0);
            let known: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
            parts.push((OTHER.0, (total - known).max(0.0)));
            let [proof, memory] =
                ["proof_bytes", "peak_rss_bytes"].map(|name| bytes(statement[name].as_u64().unwrap_or(0)));
            bars.push(Bar {
                name: format!(
                    "{}, {}, {} rows",
                    model["shape"].as_str().unwrap_or_default(),
                    count(model["layers"].as_u64().unwrap_or(0), "layer"),
                    statement["tokens"]
                ),
                text: format!("{}, {proof}, {memory}", seconds(total.max(known))),
                parts,
            });
        }
    }
    bars
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, so that there are few.
fn step(longest: f64) -> f64 {
    let least = longest / MOST_TICKS;
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(least)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A bar is as long as the proof took, and no phase is left out.
    #[test]
    fn bars_are_as_long_as_proofs_took() {
        let statement = |total: f64| {
            json!({"tokens": 64, "prove_seconds": total, "proof_bytes": 400_000, "peak_rss_bytes": 1_000_000,
                "phases": {"generate": 0.5, "lookups": 1.0, "something new": 0.25}})
        };
        let json = json!({"threads": 2, "load_average": 0.5, "models": [
            {"shape": "a<b", "layers": 1, "statements": [statement(2.0), statement(4.0)]}]});
        let lengths: Vec<f64> = bars(&json).iter().map(Bar::seconds).collect();
        assert_eq!(lengths, [2.0, 4.0]);
        let svg = svg(&json);
        assert!(
            svg.contains("a&lt;b, 1 layer, 64 rows") && svg.contains(">other<") && !svg.contains(">trace<"),
            "{svg}"
        );
        for (longest, expected) in [(4.0, 1.0), (0.07, 0.02), (13.0, 5.0)] {
            assert!((step(longest) / expected - 1.0).abs() < 1e-9, "{longest}");
        }
    }
}
