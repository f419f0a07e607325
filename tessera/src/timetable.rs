//! How long the phases of a proof take, as far as that is known before and while they run.

use std::time::Duration;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::TILE;
use tessera_circuits::shape::Shape;

use crate::answer::COMPARE;
use crate::request::ProofRequest;
use crate::Model;

/// A phase, and what it takes relative to the others: so much at least, for each token row that passes through the weights one by one, for each weight, and
/// for each committed cell. Units are nanoseconds on two cores of 2.5 GHz, but only ratios count.
struct Cost {
    phase: &'static str,
    fixed: f64,
    weight: f64,
    cell: f64,
}

const fn cost(phase: &'static str, fixed: f64, weight: f64, cell: f64) -> Cost {
    Cost {
        phase,
        fixed,
        weight,
        cell,
    }
}

/// Phases after the output is known.
const COSTS: [Cost; 10] = [
    cost("forward pass", 0.3e6, 0.3, 0.3),
    cost("trace", 1e6, 0.0, 1.0),
    cost("commit activations", 5e6, 0.0, 12.0),
    cost("count lookups", 60e6, 0.0, 4.0),
    cost("lookups", 5e6, 0.0, 12.0),
    cost("matmuls", 1e6, 1.0, 0.5),
    cost("claims", 2e6, 0.0, 3.0),
    cost("open", 35e6, 4.0, 5.0),
    cost("stark", 100e6, 0.0, 0.0),
    cost("check", 5e6, 0.0, 0.0),
];

/// The phases of a proof in one piece, in order, with predicted times. Only ratios count: once a phase is measured, the others are
/// predicted by how much faster or slower it was.
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
            (false, _) => ("embed", weights * lengths.rows as f64 * ROW),
            (_, true) => (COMPARE, weights * (PASS + lengths.rows as f64 * ROW)),
            (_, false) => {
                let prompt = request.prompt.ids.len() as f64 * ROW;
                ("generate", weights * (lengths.outputs as f64 * PASS + prompt))
            }
        };
        let other = COSTS.map(|own| (own.phase, own.fixed + own.weight * weights + own.cell * cells));
        let phases = [first].into_iter().chain(other);
        Self {
            phases: phases.map(|(name, nanoseconds)| (name, nanoseconds / 1e9)).collect(),
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
        let scale = (self.predicted > 0.0).then(|| self.measured / self.predicted)?;
        Duration::try_from_secs_f64(seconds * scale).ok()
    }

    /// How long the proof takes from now on, if the phase that runs began so long ago; nothing before a phase is over.
    pub fn left(&self, elapsed: Duration) -> Option<Duration> {
        let at = self.at?;
        if self.predicted <= 0.0 {
            return None;
        }
        let scale = self.measured / self.predicted;
        let own = (self.phases[at].1 * scale - elapsed.as_secs_f64()).max(0.0);
        let rest: f64 = self.phases[at + 1..].iter().map(|(_, seconds)| seconds * scale).sum();
        Duration::try_from_secs_f64(own + rest).ok()
    }

    /// How much of the proof is done, from 0 to 1.
    pub fn share(&self, elapsed: Duration) -> f64 {
        let all: f64 = self.phases.iter().map(|(_, seconds)| seconds).sum();
        let left = self.left(elapsed).map_or(all, |left| left.as_secs_f64());
        let done = self.measured + elapsed.as_secs_f64();
        match self.predicted > 0.0 {
            true => done / (done + left).max(f64::MIN_POSITIVE),
            false => 0.0,
        }
    }
}

/// Nanoseconds for each weight of a pass over the weights, and of each row that it carries.
const PASS: f64 = 0.5;
const ROW: f64 = 0.05;
