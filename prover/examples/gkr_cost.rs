use std::time::Instant;
use stwo::core::channel::Blake2sChannel;
use tessera_circuits::air::lookups::{Linear, Lookup};
use tessera_circuits::air::{base, Relations};
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{LookupTree, Plane};
use tessera_prover::gkr::prove;
use tessera_prover::testing::TestRng;
use tessera_verifier::transcript::Transcript;
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}
fn main() {
    let log: u32 = std::env::args().nth(1).and_then(|v| v.parse().ok()).unwrap_or(22);
    let mut rng = TestRng(1);
    let h = 16;
    let n = 1usize << (log - h);
    let cols: Vec<Vec<_>> = (0..n + 2)
        .map(|_| (0..1 << h).map(|_| base(rng.below(1 << 16) as i64)).collect())
        .collect();
    let planes = (0..n)
        .map(|i| {
            let [a, b, c] = [0, 1, 2].map(|k| Linear::column(i + k));
            let lookup = match i % 8 {
                0 | 1 => Lookup::range16(a),
                2 | 3 => Lookup::bits(b, a),
                4 => Lookup::bits(Linear::constant(128), (a - b) * base(77) - c * base(99)),
                _ => Lookup::bits(Linear::constant(256), a),
            };
            Plane {
                part: Part::Stream,
                log_rows: h,
                lookup,
            }
        })
        .collect();
    let trees = vec![LookupTree { counted: false, planes }; 2];
    let columns = vec![cols];
    let relations = Relations::draw(&mut Blake2sChannel::default());
    for _ in 0..2 {
        let (t, c) = (Instant::now(), cpu());
        let p = prove(&trees[..], &columns, &relations, &mut Transcript::new("x")).unwrap();
        let per = 1e9 / (2 << log) as f64;
        println!(
            "wall {:.1} ns, cpu {:.1} ns per lookup, {}",
            t.elapsed().as_secs_f64() * per,
            (cpu() - c) * per,
            p.proofs.len()
        );
    }
}
