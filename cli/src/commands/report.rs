//! What the reports of several commands say in the same way.

use serde_json::{json, Map, Value};
use tessera::plan::Plan;
use tessera::quantise::explain;
use tessera::quantised::forward::Saturations;
use tessera::quantised::passes::Traffic;
use tessera::quantised::weights::Residency;

use tessera_verdict::rows::{bytes, seconds, Rows};

use crate::printer::peak_rss_bytes;

/// Warnings that are written out.
const WARNINGS: usize = 8;

/// Measured peak of resident memory beside the predicted one.
pub(super) fn memory(predicted: u64) -> String {
    format!("{}, predicted {}", bytes(peak_rss_bytes()), bytes(predicted))
}

/// What was chosen to stay within the budget.
pub(super) fn choices_json(plan: &Plan) -> Value {
    let streamed = match plan.choices.residency {
        Residency::Keep => None,
        Residency::Window { bytes } => Some(bytes),
    };
    json!({
        "streamed_window_bytes": streamed,
        "codeword_split": 1 << plan.choices.split.log(),
        "predicted_phases": predicted_phases(plan),
    })
}

/// `{"name": bytes}`.
pub(super) fn predicted_phases(plan: &Plan) -> Value {
    let phases = plan.phases.iter().map(|p| (p.name.to_owned(), json!(p.bytes)));
    Value::Object(phases.collect())
}

/// What every pass read of the weights.
pub(super) fn traffic_json(passes: &[(String, Traffic)]) -> Value {
    let pass = |(name, t): &(String, Traffic)| {
        let value = json!({"bytes": t.bytes, "seconds": t.seconds, "stall_seconds": t.stall_seconds});
        (name.clone(), value)
    };
    Value::Object(passes.iter().map(pass).collect())
}

/// `matmuls 0.52 s for 1.12 GB, 0.10 s of it waiting`, a line per pass.
pub(super) fn traffic_text(passes: &[(String, Traffic)]) -> String {
    let line = |(name, t): &(String, Traffic)| {
        let (all, stall) = (seconds(t.seconds), seconds(t.stall_seconds));
        format!("{name} {all} for {}, {stall} of it waiting", bytes(t.bytes))
    };
    passes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `{"name": seconds}`.
pub(super) fn phases_json(phases: &[(String, f64)]) -> Value {
    let mut map = Map::new();
    for (name, seconds) in phases {
        map.insert(name.clone(), json!(seconds));
    }
    Value::Object(map)
}

/// `forward pass 12.3 ms, stark 1.02 s`, without what takes no time.
pub(super) fn phases_text(phases: &[(String, f64)]) -> String {
    let shown = phases.iter().filter(|(_, s)| *s >= 5e-5);
    shown
        .map(|(name, s)| format!("{name} {}", seconds(*s)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What harmful saturation means, a sentence for each tensor; programs get the same.
pub(super) fn warnings(saturated: &Saturations) -> Vec<String> {
    let harmful = explain(saturated).into_iter().filter(|e| e.harmful);
    harmful.map(|e| e.sentence).collect()
}

/// The tensors whose values were clamped, and a warning for each where that does harm.
pub(super) fn saturated_rows(rows: Rows, saturated: &Saturations) -> Rows {
    let shown = explain(saturated).into_iter().map(|e| {
        let count = &saturated[&e.tensor];
        let judgement = if e.harmful { "harmful" } else { "harmless" };
        format!("{} {} of {}, {judgement}", e.tensor, count.total(), count.of)
    });
    let list = shown.collect::<Vec<_>>().join("\n");
    let mut rows = rows.row("saturated", if list.is_empty() { "none" } else { &list });
    let warnings = warnings(saturated);
    for sentence in warnings.iter().take(WARNINGS) {
        rows = rows.row("WARNING", sentence);
    }
    match warnings.len().saturating_sub(WARNINGS) {
        0 => rows,
        more => rows.row("WARNING", format!("harmful in {more} more tensors, see above")),
    }
}

/// What clipped values mean for the text: whether the float model gives the same one. A proof does not run it, so nobody knows that here.
pub(super) fn float_rows(rows: Rows, saturated: &Saturations, expected: bool) -> Rows {
    let text = match (saturated.is_empty(), expected) {
        (true, _) => return rows,
        (_, false) => {
            "not compared: values were clipped, and whether the float model gives the same text is not known. If you have its \
             answer, prove --answer finds out"
        }
        (_, true) => "not compared: values were clipped, but the text is the answer that you gave",
    };
    rows.prose("float model", text)
}

#[cfg(test)]
mod tests {
    use tessera::quantised::forward::Saturation;

    use super::*;

    /// A text that the integers spoiled does not look like the model's.
    #[test]
    fn harmful_saturation_is_a_warning_that_names_its_place_and_harmless_one_is_listed() {
        let count = |low, high| Saturation { low, high, of: 576 };
        let mut saturated = Saturations::from([
            ("layers.18.score".to_owned(), count(7, 0)),
            ("layers.3.residual_attn".to_owned(), count(0, 2)),
        ]);
        let text = saturated_rows(Rows::default(), &saturated).render(1000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "saturated  layers.3.residual_attn 2 of 576, harmful");
        assert_eq!(lines[1], "           layers.18.score 7 of 576, harmless");
        assert!(lines[2].starts_with("WARNING    2 of 576 values of the residual stream after attention of layer 3"));
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(warnings(&saturated).len(), 1);

        saturated.extend((0..WARNINGS).map(|layer| (format!("layers.{layer}.act"), count(1, 1))));
        let text = saturated_rows(Rows::default(), &saturated).render(1000);
        assert_eq!(text.matches("WARNING").count(), WARNINGS + 1, "{text}");
        assert!(text.ends_with("harmful in 1 more tensors, see above\n"), "{text}");
        let none = saturated_rows(Rows::default(), &Saturations::new()).to_string();
        assert_eq!(none, "saturated  none\n");
    }
}
