//! `cargo bench -p tessera-testkit --bench tables`: binding of columns, sumchecks, and sums of lookups.

use divan::counter::ItemsCount;
use divan::Bencher;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air;
use tessera_circuits::air::lookups::{Linear, Lookup, Relation};
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{LookupTree, Plane};
use tessera_prover::bind::{bind_middle, eval_base};
use tessera_prover::column::of_elements;
use tessera_prover::device::Device;
use tessera_prover::gkr;
use tessera_prover::sumcheck::{prove, Instance};
use tessera_prover::vectors::Vectors;
use tessera_testkit::SplitMix;
use tessera_verifier::transcript::Transcript;

fn main() {
    divan::main();
}

fn base(n: usize) -> Vec<BaseField> {
    let mut rng = SplitMix(1);
    (0..n).map(|_| BaseField::reduce(rng.next_u64() >> 3)).collect()
}

fn secure(n: usize) -> Vec<SecureField> {
    base(4 * n)
        .as_chunks()
        .0
        .iter()
        .map(|c| SecureField::from_m31_array(*c))
        .collect()
}

/// Tables `[outer][middle][inner]`, bound in the middle.
#[divan::bench(args = [(1, 256, 1 << 14), (1 << 14, 256, 1), (64, 64, 1 << 10), (1 << 14, 16, 16), (1, 1 << 16, 64)])]
fn bind(bencher: Bencher, (outer, middle, inner): (usize, usize, usize)) {
    let (table, weights) = (base(outer * middle * inner), secure(middle));
    bencher.bench_local(|| bind_middle(table.as_slice().into(), outer, &weights, inner));
}

#[divan::bench]
fn eq_table_of_20_variables(bencher: Bencher) {
    let point = secure(20);
    bencher.bench_local(|| tessera_prover::bind::eq_table(&point));
}

#[divan::bench]
fn evaluation_of_20_variables(bencher: Bencher) {
    let (table, point) = (base(1 << 20), secure(20));
    bencher.bench_local(|| eval_base(table.as_slice().into(), &point));
}

/// Sumchecks of `pairs` products of tables of so many variables.
#[divan::bench(args = [(20, 1), (16, 16), (12, 256)])]
fn sumcheck(bencher: Bencher, (variables, pairs): (usize, usize)) {
    let table = secure(1 << variables);
    let instance = || Instance {
        pairs: (0..pairs).map(|_| (table.clone(), table.clone())).collect(),
        variables,
    };
    let square = table.iter().fold(SecureField::default(), |sum, v| sum + *v * *v);
    let claim = square * SecureField::from(pairs as u32);
    bencher
        .with_inputs(|| vec![instance()])
        .bench_local_values(|instances| prove(&Vectors, "batch", claim, instances, &mut Transcript::new("bench")));
}

/// Sums of `2^log` lookups, a mixture as the activations have.
#[divan::bench(args = [18, 22])]
fn lookups(bencher: Bencher, log: u32) {
    const HEIGHT: u32 = 16;
    let planes = 1 << (log - HEIGHT);
    let mut rng = SplitMix(2);
    let mut column = || (0..1 << HEIGHT).map(|_| air::base(rng.below(1 << 16) as i64)).collect();
    let columns: Vec<Vec<BaseField>> = (0..planes + 1).map(|_| column()).collect();
    let columns = Vectors.columns(of_elements(&[columns])).expect("columns");
    let plane = |i: usize| {
        let [a, b] = [i, i + 1].map(Linear::column);
        let lookup = match i % 4 {
            0 => Lookup::range16(a),
            1 => Lookup::bits(b, a),
            _ => Lookup::bits(Linear::constant(256), a),
        };
        Plane {
            part: Part::STREAM,
            log_rows: HEIGHT,
            lookup,
        }
    };
    let trees = [LookupTree {
        planes: (0..planes).map(plane).collect(),
    }];
    let relations = air::Relations::dummy(&[Relation::Range16]);
    bencher
        .counter(ItemsCount::new(1usize << log))
        .bench_local(|| gkr::prove((&trees, None), &*columns, &relations, &mut Transcript::new("bench")));
}
