//! How long the phases of a proof take, as far as that is known before and while they run.

use std::time::Duration;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::TILE;
use tessera_circuits::shape::Shape;

use crate::answer::COMPARE;
use crate::request::ProofRequest;
use crate::Model;

/// Seconds that a phase takes on two idle cores of 2.5 GHz; only ratios count. The figures were fitted to proofs of three models, from a million to
/// 160 million weights.
struct Cost {
    phase: &'static str,
    fixed: f64,
    /// For a weight of the model.
    weight: f64,
    /// For a committed cell, and for a value of its code.
    cell: f64,
    coded: f64,
}

const fn cost(phase: &'static str, fixed: f64, weight: f64, cell: f64, coded: f64) -> Cost {
    Cost {
        phase,
        fixed,
        weight,
        cell,
        coded,
    }
}

/// The phases after the output is known.
const COSTS: [Cost; 10] = [
    cost("forward pass", 1e-3, 0.0, 0.9e-9, 0.0),
    cost("trace", 2e-3, 0.0, 4e-9, 0.0),
    cost("commit activations", 10e-3, 0.0, 2.3e-9, 2.6e-9),
    cost("count lookups", 68e-3, 0.0, 0.8e-9, 0.0),
    cost("lookups", 3e-3, 1.5e-9, 22e-9, 0.0),
    cost("matmuls", 2e-3, 0.7e-9, 2.2e-9, 0.0),
    cost("claims", 2e-3, 1e-9, 7.5e-9, 0.0),
    cost("open", 30e-3, 1.5e-9, 2.7e-9, 0.7e-9),
    cost("stark", 115e-3, 0.0, 0.0, 0.0),
    cost("check", 10e-3, 0.1e-9, 0.3e-9, 0.0),
];
/// Seconds of a token that passes alone, of a weight in its pass, and of a weight for each row that passes with others.
const TOKEN: f64 = 0.12e-3;
const PASS: f64 = 0.1e-9;
const ROW: f64 = 0.03e-9;
/// The share of a proof that must be over before it says how long the rest takes.
const ENOUGH: f64 = 0.03;

/// How the output becomes known.
#[derive(Clone, Copy, Debug)]
enum First {
    /// All rows pass at once.
    Rows(&'static str, usize),
    /// The rows of a prompt pass at once, and tokens one by one.
    Tokens(usize, usize),
}

impl First {
    fn seconds(self, weights: f64) -> (&'static str, f64) {
        match self {
            Self::Rows(name, rows) => (name, TOKEN + weights * (PASS + rows as f64 * ROW)),
            Self::Tokens(rows, tokens) => {
                let passes = tokens as f64 * (TOKEN + weights * PASS);
                ("generate", passes + weights * rows as f64 * ROW)
            }
        }
    }
}

/// The phases of a proof in one piece, in order, with predicted times. Only ratios count: once phases are measured, the others are
/// predicted by how much faster or slower those were.
#[derive(Clone, Debug)]
pub struct Timetable {
    /// Predicted seconds by phase.
    phases: Vec<(&'static str, f64)>,
    /// Measured and predicted seconds of the phases that are over.
    measured: f64,
    predicted: f64,
    /// The phase that runs.
    at: Option<usize>,
}

impl Timetable {
    /// The phases of a request's proof.
    pub fn new(model: &Model, request: &ProofRequest) -> Self {
        let (key, lengths) = (&model.key, request.lengths);
        let config = &key.config;
        let shape = Shape::with_limbs(
            config,
            key.params.limb_set(config),
            &Chunk::whole(config.layers),
            lengths,
        );
        let weights = (config.total_tiles() * TILE * TILE) as f64;
        let cells = shape.cells() as f64;
        let first = match (config.generates(), request.expects_answer()) {
            (false, _) => First::Rows("embed", lengths.rows),
            (_, true) => First::Rows(COMPARE, lengths.rows),
            (_, false) => First::Tokens(request.prompt.ids.len(), lengths.outputs),
        };
        Self::of(first, weights, cells, f64::from(key.weights.log_blowup).exp2())
    }

    /// The phases of a proof with so many weights, and so many committed cells in a code of this inverse rate.
    fn of(first: First, weights: f64, cells: f64, blowup: f64) -> Self {
        let cost = |own: Cost| {
            let cell = own.cell + own.coded * blowup;
            (own.phase, own.fixed + own.weight * weights + cell * cells)
        };
        let phases = [first.seconds(weights)].into_iter().chain(COSTS.map(cost));
        Self {
            phases: phases.collect(),
            measured: 0.0,
            predicted: 0.0,
            at: None,
        }
    }

    /// Begins a phase; `before` is how long the one before it took. Returns its number, from 1 on, and how many there are; nothing if
    /// it is no phase of the proof.
    pub fn begin(&mut self, phase: &str, before: Duration) -> Option<(usize, usize)> {
        if let Some(at) = self.at {
            self.measured += before.as_secs_f64();
            self.predicted += self.phases[at].1;
        }
        self.at = self.phases.iter().position(|(name, _)| *name == phase);
        self.at.map(|at| (at + 1, self.phases.len()))
    }

    /// How long the phase that runs takes, as predicted; nothing before another one is over.
    pub fn phase(&self) -> Option<Duration> {
        let (_, seconds) = self.phases.get(self.at?)?;
        Duration::try_from_secs_f64(seconds * self.scale()?).ok()
    }

    /// How long the proof takes from now on, if the phase that runs began so long ago; nothing before a phase is over.
    pub fn left(&self, elapsed: Duration) -> Option<Duration> {
        let at = self.at?;
        let scale = self.scale()?;
        let own = (self.phases[at].1 * scale - elapsed.as_secs_f64()).max(0.0);
        let rest: f64 = self.phases[at + 1..].iter().map(|(_, seconds)| seconds * scale).sum();
        Duration::try_from_secs_f64(own + rest).ok()
    }

    /// How much of the proof is done, from 0 to 1.
    pub fn share(&self, elapsed: Duration) -> f64 {
        let done = self.measured + elapsed.as_secs_f64();
        match self.left(elapsed) {
            Some(left) => done / (done + left.as_secs_f64()).max(f64::MIN_POSITIVE),
            None => 0.0,
        }
    }

    /// Seconds that a predicted second takes here, once enough is measured.
    fn scale(&self) -> Option<f64> {
        let all: f64 = self.phases.iter().map(|(_, seconds)| seconds).sum();
        (self.predicted >= ENOUGH * all).then(|| self.measured / self.predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proofs that were measured on two cores, with other work on them: milliseconds of the phases, in order.
    const MEASURED: [(First, [f64; 3], [u64; 11]); 7] = [
        (
            First::Tokens(6, 60),
            [0.92e6, 4.13e6, 8.0],
            [30, 28, 44, 263, 243, 340, 25, 75, 163, 418, 32],
        ),
        (
            First::Tokens(100, 200),
            [0.92e6, 35.0e6, 8.0],
            [107, 264, 421, 3894, 292, 3518, 137, 430, 1481, 486, 63],
        ),
        (
            First::Tokens(250, 6),
            [0.92e6, 11.7e6, 8.0],
            [69, 49, 123, 1167, 317, 1456, 56, 163, 520, 395, 39],
        ),
        (
            First::Tokens(32, 32),
            [SIX, 21.3e6, SIX_RATE],
            [736, 22, 312, 660, 335, 1796, 273, 653, 654, 433, 82],
        ),
        (
            First::Tokens(100, 100),
            [SIX, 92.0e6, SIX_RATE],
            [2738, 588, 1588, 2403, 719, 7548, 988, 2868, 1939, 424, 162],
        ),
        (
            First::Tokens(8, 8),
            [163e6, 17.5e6, 2.0],
            [513, 51, 297, 389, 353, 1522, 362, 848, 648, 289, 84],
        ),
        (
            First::Tokens(30, 40),
            [163e6, 154.4e6, 2.0],
            [1989, 896, 1665, 2841, 534, 9988, 1943, 4588, 3410, 425, 138],
        ),
    ];
    /// Weights of six layers of SmolLM2's dimensions, and the inverse rate of their code.
    const SIX: f64 = 78e6;
    const SIX_RATE: f64 = 2.0;

    #[test]
    fn the_time_left_is_right_within_a_factor_of_one_and_a_half() {
        for (first, [weights, cells, blowup], phases) in MEASURED {
            let mut table = Timetable::of(first, weights, cells, blowup);
            let names: Vec<&str> = table.phases.iter().map(|(name, _)| *name).collect();
            let mut before = Duration::ZERO;
            let mut said = 0;
            for (at, name) in names.iter().enumerate() {
                assert_eq!(table.begin(name, before), Some((at + 1, 11)));
                before = Duration::from_millis(phases[at]);
                let left: u64 = phases[at..].iter().sum();
                // Nobody minds what the last second is predicted to be.
                if let (Some(predicted), true) = (table.left(Duration::ZERO), left >= 1000) {
                    let ratio = predicted.as_secs_f64() / (left as f64 / 1e3);
                    assert!(
                        (1.0 / 1.5..1.5).contains(&ratio),
                        "{weights} {cells}: {ratio} before {name}"
                    );
                    said += 1;
                }
            }
            assert!(said > 0 && table.share(before) > 0.9);
        }
    }

    #[test]
    fn a_phase_that_takes_longer_than_predicted_leaves_the_others() {
        let mut table = Timetable::of(First::Tokens(8, 8), 163e6, 17.5e6, 2.0);
        assert_eq!(
            (table.begin("open model", Duration::ZERO), table.left(Duration::ZERO)),
            (None, None)
        );
        table.begin("generate", Duration::ZERO);
        assert_eq!((table.left(Duration::ZERO), table.share(Duration::ZERO)), (None, 0.0));
        table.begin("lookups", Duration::from_millis(200));
        let [now, late] = [0, 1000].map(|seconds| table.left(Duration::from_secs(seconds)).unwrap());
        assert!(late < now && late > Duration::from_millis(100));
        assert!(table.phase().unwrap() + late <= now + Duration::from_millis(1));
    }
}
