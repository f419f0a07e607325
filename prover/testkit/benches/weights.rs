//! `cargo bench -p tessera-testkit --bench weights [GIGABYTES]`: passes over packed weights in memory, against plain
//! reading of the same bytes with the same threads. Figures of one run only can be compared; the processor time
//! column does not depend on what else runs.

use std::time::Instant;
use tessera_prover::opening::params_for;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::{MatrixId, ModelConfig, WeightFormat, TILE_LOG};
use tessera_kernels::weights::Isa;
use tessera_model::forward::ForwardState;
use tessera_model::tiles::{planes, tile_bytes, TileSource};
use tessera_model::weights::PackedWeights;
use tessera_model::QuantisedModel;
use tessera_prover::opening::memory::message_bytes;
use tessera_prover::opening::parts::combine_columns;
use tessera_prover::vectors::bands::bind_bands;
use tessera_testkit::{fixture_size_config, processor_time, random_ids, random_model};

const RUNS: usize = 5;

/// Dimensions of which `bytes` is about the size, as of a model of several billion weights.
fn config(bytes: usize, format: WeightFormat) -> ModelConfig {
    let config = |layers| ModelConfig {
        hidden: 2048,
        layers,
        heads: 16,
        kv_heads: 4,
        head_dim: 128,
        ff: 5632,
        vocab: 32_000,
        context: 512,
        ..fixture_size_config()
    };
    let size = |layers| config(layers).total_tiles() * tile_bytes(format);
    let per_layer = size(2) - size(1);
    config((bytes.saturating_sub(size(1)) / per_layer).max(1))
}

/// A model of random bytes, each a weight or a plane of one.
fn model(bytes: usize, format: WeightFormat) -> QuantisedModel {
    let config = config(bytes, format);
    let small = ModelConfig {
        layers: config.layers,
        vocab: 300,
        hidden: 64,
        ff: 64,
        heads: 1,
        kv_heads: 1,
        head_dim: 64,
        ..config.clone()
    };
    let mut params = random_model(small, format, 7).params;
    for layer in &mut params.layers {
        for shift in [
            &mut layer.attention.q,
            &mut layer.attention.k,
            &mut layer.attention.v,
            &mut layer.attention.o.body,
        ] {
            shift.0.truncate(1);
        }
        for shift in [&mut layer.mlp.gate, &mut layer.mlp.up, &mut layer.mlp.down.body] {
            shift.0.truncate(1);
        }
    }
    params.embed.body.0.truncate(1);
    params.exponents.clear();
    params.head.0.truncate(1);
    let mut bytes = vec![0u8; config.total_tiles() * tile_bytes(format)];
    bytes.par_chunks_mut(1 << 16).enumerate().for_each(|(i, chunk)| {
        let mut state = i as u64;
        for word in chunk.chunks_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes()[..word.len()]);
        }
    });
    QuantisedModel::new(config, params, PackedWeights::in_memory(format, bytes))
}

/// Runs `work`; returns its wall time and processor time beside its result.
fn timed<T>(work: impl FnOnce() -> T) -> (T, [f64; 2]) {
    let (start, before) = (Instant::now(), processor_time());
    let result = work();
    let busy = processor_time().saturating_sub(before);
    (result, [start.elapsed(), busy].map(|time| time.as_secs_f64()))
}

/// The lesser times.
fn least(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].min(b[0]), a[1].min(b[1])]
}

/// Best wall time and processor time.
fn measure(mut work: impl FnMut()) -> [f64; 2] {
    (0..RUNS).fold([f64::MAX; 2], |best, _| least(best, timed(&mut work).1))
}

fn report(name: &str, bytes: usize, weights: usize, times: [f64; 2], plain: [f64; 2]) {
    let [wall, cpu] = times;
    println!(
        "{name:<18} {:>7.3} ns/weight {:>7.2} GB/s {:>6.2} x plain | cpu {:>7.2} GB/s per core {:>6.2} x plain",
        wall * 1e9 / weights as f64,
        bytes as f64 / wall / 1e9,
        wall / plain[0],
        bytes as f64 / cpu / 1e9,
        cpu / plain[1],
    );
}

fn bench(format: WeightFormat, bytes: usize) {
    let model = model(bytes, format);
    let weights = &model.weights;
    let (size, count) = (weights.all().len(), weights.all().len() / planes(format));
    println!(
        "{format:?}: {:.2} GB, {} threads, {:?}",
        size as f64 / 1e9,
        rayon::current_num_threads(),
        Isa::best()
    );
    let words = weights.all().as_chunks::<8>().0;
    let plain = measure(|| {
        let sum = words.par_chunks(1 << 16).map(|words| {
            let words = words.iter().map(|w| u64::from_le_bytes(*w));
            words.fold(0u64, u64::wrapping_add)
        });
        std::hint::black_box(sum.reduce(|| 0, u64::wrapping_add));
    });
    report("plain read", size, count, plain, plain);
    let element = |i: u32| SecureField::from_u32_unchecked(1 << 30 | i, (1 << 31) - 2 - i, 77 * i, 1 << 29);
    let params = params_for(weights.tiles());
    let point: Vec<SecureField> = (0..TILE_LOG + model.config.band_log()).map(element).collect();
    let coefficients: Vec<SecureField> = (0..params.columns() as u32).map(element).collect();
    let (mut pass_1, mut pass_2) = ([f64::MAX; 2], [f64::MAX; 2]);
    for _ in 0..RUNS {
        // As in a proof, the second pass has the memory of the first.
        let ((table, _), first) = timed(|| bind_bands(weights, &point, message_bytes(&params.all())));
        let (message, second) = timed(|| combine_columns(weights, &params, &coefficients, element(9), table));
        std::hint::black_box(message);
        (pass_1, pass_2) = (least(pass_1, first), least(pass_2, second));
    }
    report("pass 1", size, count, pass_1, plain);
    report("pass 2", size, count, pass_2, plain);
    let both = [pass_1[0] + pass_2[0], pass_1[1] + pass_2[1]];
    report("both passes", size, count, both, plain);

    let embedding = model.matmul(MatrixId::EMBED).tiles() * tile_bytes(format);
    let read = size - embedding;
    let scaled = plain.map(|t| t * read as f64 / size as f64);
    for tokens in [1, 2, 4, 16, 64] {
        let ids = random_ids(&model.config, tokens, 3);
        let forward = measure(|| {
            std::hint::black_box(ForwardState::new(&model).run(&ids, None)).expect("a forward pass");
        });
        let name = format!("forward, {tokens} rows");
        report(&name, read, read / planes(format), forward, scaled);
    }
}

fn main() {
    let gigabytes = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(1.1f64);
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        bench(format, (gigabytes * 1e9) as usize);
    }
}
