//! The table of a bench: a column per statement.

use serde_json::Value;
use tessera_verdict::rows::{bytes, seconds};

/// Names of lines, and what they show of a model and a statement.
type Line = (&'static str, fn(&Value, &Value) -> Option<String>);

fn time(value: &Value) -> Option<String> {
    value.as_f64().map(seconds)
}

fn size(value: &Value) -> Option<String> {
    value.as_u64().map(bytes)
}

fn number(value: &Value, decimals: usize) -> Option<String> {
    value.as_f64().map(|v| format!("{v:.decimals$}"))
}

/// A pass: nanoseconds per weight, speed and waiting time.
fn pass(value: &Value) -> Option<String> {
    let per_weight = number(&value["ns_per_weight"], 2)?;
    let speed = number(&value["gigabytes_per_second"], 2)?;
    Some(format!("{per_weight} ns, {speed} GB/s"))
}

const LINES: [Line; 33] = [
    ("layers", |m, _| number(&m["layers"], 0)),
    ("token rows", |_, s| number(&s["tokens"], 0)),
    ("weights", |m, _| number(&m["passes"]["weights"], 0)),
    ("set-up", |m, _| time(&m["setup"]["setup_seconds"])),
    ("  ns per weight and core", |m, _| {
        number(&m["setup_ns_per_weight_and_core"], 1)
    }),
    ("  peak memory", |m, _| size(&m["setup"]["peak_rss_bytes"])),
    ("  predicted", |m, _| size(&m["setup"]["predicted_bytes"])),
    ("inference: prompt", |_, s| time(&s["prefill_seconds"])),
    ("  per generated token", |_, s| time(&s["seconds_per_token"])),
    ("plain read of weights", |m, _| pass(&m["passes"]["plain_read"])),
    ("first pass", |m, _| pass(&m["passes"]["first_pass"])),
    ("  stall", |m, _| time(&m["passes"]["first_pass"]["stall_seconds"])),
    ("second pass", |m, _| pass(&m["passes"]["second_pass"])),
    ("  stall", |m, _| time(&m["passes"]["second_pass"]["stall_seconds"])),
    ("both passes / plain read", |m, _| {
        number(&m["passes"]["passes_to_plain_read"], 2)
    }),
    ("  by processor time", |m, _| {
        number(&m["passes"]["passes_to_plain_read_by_processor_time"], 2)
    }),
    ("prove: generate", |_, s| time(&s["phases"]["generate"])),
    ("  forward pass", |_, s| time(&s["phases"]["forward pass"])),
    ("  trace", |_, s| time(&s["phases"]["trace"])),
    ("  commit activations", |_, s| time(&s["phases"]["commit activations"])),
    ("  count lookups", |_, s| time(&s["phases"]["count lookups"])),
    ("  lookups", |_, s| time(&s["phases"]["lookups"])),
    ("  matmuls", |_, s| time(&s["phases"]["matmuls"])),
    ("  claims", |_, s| time(&s["phases"]["claims"])),
    ("  open", |_, s| time(&s["phases"]["open"])),
    ("  stark", |_, s| time(&s["phases"]["stark"])),
    ("prove, total", |_, s| time(&s["prove_seconds"])),
    ("proof / inference", |_, s| number(&s["proof_to_inference"], 1)),
    ("verify", |_, s| time(&s["verify_seconds"])),
    ("proof", |_, s| size(&s["proof_bytes"])),
    ("peak memory", |_, s| size(&s["peak_rss_bytes"])),
    ("  predicted", |_, s| size(&s["predicted_bytes"])),
    ("security", |_, s| number(&s["security_bits"], 1)),
];

/// All models, each with a column per statement.
pub fn text(json: &Value) -> String {
    let none = Vec::new();
    let mut text = String::new();
    let models = json["models"].as_array().unwrap_or(&none);
    let mut shapes: Vec<&Value> = models.iter().map(|m| &m["shape"]).collect();
    shapes.dedup();
    for shape in shapes {
        let columns = models.iter().filter(|m| m["shape"] == *shape).flat_map(|model| {
            let statements = model["statements"].as_array().unwrap_or(&none);
            statements.iter().map(move |statement| (model, statement))
        });
        let columns: Vec<(&Value, &Value)> = columns.collect();
        let (threads, load) = (&json["threads"], number(&json["load_average"], 1));
        let load = load.map_or(String::new(), |load| format!(", load average {load}"));
        text += &format!("{}: {threads} threads{load}\n", shape.as_str().unwrap_or_default());
        for (name, show) in LINES {
            let cells: Vec<_> = columns.iter().map(|(m, s)| show(m, s)).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells = cells
                .into_iter()
                .map(|cell| format!("{:>22}", cell.unwrap_or_default()));
            text += &format!("{name:<25}{}\n", cells.collect::<String>());
        }
        text.push('\n');
    }
    text
}
