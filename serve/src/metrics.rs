//! Counters of a server, and their text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A number that only grows, or a gauge that is set.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the number.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes away from the number.
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets the gauge.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Tokens of prompts that were answered.
    pub prompt_tokens: Count,
    /// Generated tokens.
    pub tokens: Count,
    /// Passes over the weights, each of which the texts of that moment shared.
    pub passes: Count,
    /// Microseconds of these passes.
    pub pass_micros: Count,
    /// Texts that are being generated.
    pub generating: Count,
    /// Connections that are open.
    pub connections: Count,
    /// Connections that were refused because there were too many.
    pub refused_connections: Count,
    /// Proofs that were finished.
    pub proofs_done: Count,
    /// Proofs that failed.
    pub proofs_failed: Count,
    /// Milliseconds of all proofs that were finished.
    pub proof_millis: Count,
}

/// A value that is known when the text is written.
pub struct Gauge {
    /// The name of the metric, without the prefix.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// The value at this moment.
    pub value: u64,
}

impl Metrics {
    /// Counts a request.
    pub fn request(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
    }

    /// The text for Prometheus.
    pub fn text(&self, gauges: &[Gauge]) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        line("# HELP tessera_requests_total Requests by route and status.".to_owned());
        line("# TYPE tessera_requests_total counter".to_owned());
        for ((route, status), n) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            line(format!(
                "tessera_requests_total{{route=\"{route}\",status=\"{status}\"}} {n}"
            ));
        }
        let seconds = |count: &Count, unit: f64| format!("{}", count.get() as f64 / unit);
        for (name, kind, help, value) in [
            (
                "prompt_tokens_total",
                "counter",
                "Tokens of prompts that were answered.",
                self.prompt_tokens.get().to_string(),
            ),
            (
                "tokens_total",
                "counter",
                "Generated tokens.",
                self.tokens.get().to_string(),
            ),
            (
                "passes_total",
                "counter",
                "Passes over the weights.",
                self.passes.get().to_string(),
            ),
            (
                "pass_seconds_total",
                "counter",
                "Seconds of passes over the weights.",
                seconds(&self.pass_micros, 1e6),
            ),
            (
                "generating",
                "gauge",
                "Texts that are being generated.",
                self.generating.get().to_string(),
            ),
            (
                "connections",
                "gauge",
                "Open connections.",
                self.connections.get().to_string(),
            ),
            (
                "refused_connections_total",
                "counter",
                "Connections beyond the limit.",
                self.refused_connections.get().to_string(),
            ),
            (
                "proofs_done_total",
                "counter",
                "Proofs that were finished.",
                self.proofs_done.get().to_string(),
            ),
            (
                "proofs_failed_total",
                "counter",
                "Proofs that failed.",
                self.proofs_failed.get().to_string(),
            ),
            (
                "proof_seconds_total",
                "counter",
                "Seconds of finished proofs.",
                seconds(&self.proof_millis, 1e3),
            ),
        ] {
            line(format!(
                "# HELP tessera_{name} {help}\n# TYPE tessera_{name} {kind}\ntessera_{name} {value}"
            ));
        }
        for Gauge { name, help, value } in gauges {
            line(format!(
                "# HELP tessera_{name} {help}\n# TYPE tessera_{name} gauge\ntessera_{name} {value}"
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_counter_with_its_type() {
        let metrics = Metrics::default();
        metrics.request("/v1/models", 200);
        metrics.request("/v1/models", 200);
        metrics.tokens.add(5);
        let text = metrics.text(&[Gauge {
            name: "queue",
            help: "Proofs that wait.",
            value: 3,
        }]);
        for line in [
            "tessera_requests_total{route=\"/v1/models\",status=\"200\"} 2",
            "tessera_tokens_total 5",
            "tessera_queue 3",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}");
        }
        let types = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(types, 12);
    }
}
