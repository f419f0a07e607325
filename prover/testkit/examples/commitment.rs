//! Time to commit to random weights, per weight and core:
//! `cargo run --release -p tessera-testkit --example commitment [TILES]`.

use std::io::sink;
use std::time::Instant;

use tessera_circuits::model::WeightFormat;
use tessera_model::weights::PackedWeights;
use tessera_prover::opening::{commit, params_for, Split, TILE_AREA};
use tessera_support::progress::Silent;
use tessera_testkit::SplitMix;
use tessera_verifier::suite::Suite;

/// Random int8 weights.
fn random(tiles: usize) -> PackedWeights {
    let mut bytes = vec![0; tiles * TILE_AREA];
    let mut rng = SplitMix(1);
    for eight in bytes.as_chunks_mut::<8>().0 {
        *eight = rng.next_u64().to_le_bytes();
    }
    PackedWeights::in_memory(WeightFormat::Int8, bytes)
}

fn main() {
    let tiles = std::env::args()
        .nth(1)
        .map_or(8000, |t| t.parse().expect("a number of tiles"));
    let params = params_for(tiles);
    let weights = (tiles * TILE_AREA) as f64;
    println!("{params:?}, {} columns, {weights} weights", params.columns());
    let source = random(tiles);
    let threads = rayon::current_num_threads() as f64;
    for (name, data) in [("tree", false), ("tree and codeword", true)] {
        let clock = Instant::now();
        let mut sink = sink();
        let data: Option<&mut (dyn std::io::Write + Send)> = if data { Some(&mut sink) } else { None };
        let tree = commit(Suite::default(), &source, &params, Split::default(), data, &Silent).expect("a commitment");
        let seconds = clock.elapsed().as_secs_f64();
        let each = seconds * threads / weights * 1e9;
        println!(
            "{name}: {seconds:.2} s, {each:.1} ns per weight and core, root {}",
            hex::encode(tree.root())
        );
    }
}
