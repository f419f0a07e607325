//! Time to commit to random weights, per weight and core:
//! `cargo run --release -p tessera-prover --example commitment [TILES]`.

use std::io::sink;
use std::time::Instant;

use tessera_prover::opening::{commit, TileSource, TILE_AREA};
use tessera_prover::progress::Silent;
use tessera_prover::testing::TestRng;
use tessera_verifier::opening::CommitmentParams;

/// Weights that follow from the number of the tile.
struct Random(usize);

impl TileSource for Random {
    fn tiles(&self) -> usize {
        self.0
    }
    fn tile(&self, t: usize, out: &mut [i16; TILE_AREA]) {
        let mut rng = TestRng(t as u64);
        for four in out.as_chunks_mut::<4>().0 {
            let bits = rng.next_u64();
            *four = std::array::from_fn(|i| (bits >> (16 * i)) as i16 >> 4);
        }
    }
}

fn main() {
    let tiles = std::env::args()
        .nth(1)
        .map_or(8000, |t| t.parse().expect("a number of tiles"));
    let params = CommitmentParams::for_tiles(tiles);
    let weights = (tiles * TILE_AREA) as f64;
    println!("{params:?}, {} columns, {weights} weights", params.columns());
    let threads = rayon::current_num_threads() as f64;
    for (name, data) in [("tree", false), ("tree and codeword", true)] {
        let clock = Instant::now();
        let mut sink = sink();
        let data: Option<&mut dyn std::io::Write> = if data { Some(&mut sink) } else { None };
        let tree = commit(&Random(tiles), &params, data, &Silent).expect("a commitment");
        let seconds = clock.elapsed().as_secs_f64();
        let each = seconds * threads / weights * 1e9;
        println!(
            "{name}: {seconds:.2} s, {each:.1} ns per weight and core, root {}",
            hex::encode(tree.root())
        );
    }
}
