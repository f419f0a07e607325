//! The two passes over the weights, beside a plain read of the same bytes with the same threads.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::{json, Value};
use stwo::core::fields::qm31::SecureField;
use tessera::circuits::chunk::Chunk;
use tessera::circuits::model::TILE_LOG;
use tessera::model::{read_key, Model};
use tessera::plan::{Budget, Subject, Task};
use tessera::prover::opening::{memory::message_bytes, weight_pass};
use tessera::prover::vectors::bands::bind_bands;
use tessera::quantised::directory::KEY_FILE;
use tessera::quantised::passes::Traffic;
use tessera::quantised::tiles::{planes, TileSource};
use tessera::quantised::weights::{PackedWeights, Residency};

use crate::printer::Failure;
use tessera::{mapped, Allowance};

/// Measurements of which the median is taken.
const RUNS: usize = 3;
/// Bytes of a plain read between two looks at the clock.
const WINDOW: usize = 64 << 20;
const WORD: usize = 8;

/// Measures the passes over the weights of a model directory, resident as a proof within `memory` has them.
pub fn measure(dir: &Path, memory: Option<Budget>) -> Result<Value, Failure> {
    let key = read_key(&dir.join(KEY_FILE))?;
    let whole = Chunk::whole(key.config.layers);
    let task = Task::prove(1.into(), whole);
    let allowance = Allowance::new(memory, mapped(dir));
    let plan = Subject::of_dir(&key, dir).plan(task, allowance.budget);
    let plan = plan.map_err(|e| allowance.refusal(e))?;
    let model = Model::open(dir)?.with_choices(plan.choices);
    let weights = &model.quantised.weights;
    let element = |i: u32| SecureField::from_u32_unchecked(1 << 30 | i, (1 << 31) - 2 - i, 77 * i, 1 << 29);
    let opened = key.opened(&whole);
    let point: Vec<SecureField> = (0..TILE_LOG + opened.log_band()).map(element).collect();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut processor = times.clone();
    let mut stalls = times.clone();
    // In turns, so that other load meets all of them.
    for _ in 0..=RUNS {
        let plain = timed(|| plain_read(weights));
        // As in a proof, the second pass has the memory of the first.
        let (first, (table, read_first)) = timed(|| bind_bands(weights, &point, message_bytes(&opened)));
        let (second, read_second) = timed(|| weight_pass(weights, &key.weights, table));
        let measured = [plain, (first, read_first), (second, read_second)];
        for (i, ([seconds, busy], traffic)) in measured.into_iter().enumerate() {
            times[i].push(seconds);
            processor[i].push(busy);
            stalls[i].push(traffic.stall_seconds);
        }
    }
    // The first round only brings the weights into memory.
    let [plain, first, second] = times.map(median);
    let [plain_busy, first_busy, second_busy] = processor.map(median);
    let [plain_stall, first_stall, second_stall] = stalls.map(median);
    let bytes = weights.all().len() as f64;
    let count = bytes / planes(weights.format()) as f64;
    let entry = |seconds: f64, busy: f64, stall: f64| {
        json!({
            "seconds": seconds,
            "processor_seconds": busy,
            "stall_seconds": stall,
            "ns_per_weight": seconds * 1e9 / count,
            "gigabytes_per_second": bytes / seconds / 1e9,
        })
    };
    Ok(json!({
        "bytes": bytes as u64,
        "weights": count as u64,
        "streamed": plan.choices.residency != Residency::Keep,
        "plain_read": entry(plain, plain_busy, plain_stall),
        "first_pass": entry(first, first_busy, first_stall),
        "second_pass": entry(second, second_busy, second_stall),
        "passes_to_plain_read": (first + second) / plain,
        // What other programs do counts for wall time only; nothing is known where the system does not tell.
        "passes_to_plain_read_by_processor_time": (plain_busy > 0.0).then(|| (first_busy + second_busy) / plain_busy),
    }))
}

/// Wall time and processor time.
fn timed<T>(work: impl FnOnce() -> T) -> ([f64; 2], T) {
    let (start, busy) = (Instant::now(), processor_seconds());
    let result = black_box(work());
    ([start.elapsed().as_secs_f64(), processor_seconds() - busy], result)
}

/// Processor seconds of all threads so far, 0 where the system does not tell.
fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() * 1e-9
}

/// Reads all bytes and adds them up, with all threads.
fn plain_read(weights: &PackedWeights) -> Traffic {
    let start = Instant::now();
    let all = weights.all();
    let tile = all.len() / weights.tiles();
    let mut total = 0u64;
    for (i, window) in all.chunks(WINDOW).enumerate() {
        let words = window.as_chunks::<WORD>().0;
        let sums = words.par_chunks(1 << 13).map(|words| {
            let words = words.iter().map(|w| u64::from_le_bytes(*w));
            words.fold(0u64, u64::wrapping_add)
        });
        total = total.wrapping_add(sums.reduce(|| 0, u64::wrapping_add));
        weights.release(i * WINDOW / tile..(i * WINDOW + window.len()) / tile);
    }
    black_box(total);
    Traffic {
        bytes: all.len() as u64,
        seconds: start.elapsed().as_secs_f64(),
        stall_seconds: 0.0,
    }
}

/// The median of all but the first.
fn median(mut values: Vec<f64>) -> f64 {
    let rest = &mut values[1..];
    rest.sort_unstable_by(f64::total_cmp);
    rest[rest.len() / 2]
}
