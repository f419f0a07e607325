//! Every kernel against the scalar one, on random and on extreme input.

use super::*;
use crate::testing::TestRng;

fn fast() -> impl Iterator<Item = Isa> {
    [Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.available())
}

/// Ways to fill bytes: random ones, and the extremes.
fn bytes(n: usize, fill: usize, rng: &mut TestRng) -> Vec<u8> {
    const EXTREMES: [u8; 4] = [0x80, 0x7f, 0xff, 0];
    let byte = |rng: &mut TestRng| match EXTREMES.get(fill) {
        Some(byte) => *byte,
        None if fill == 4 => [0x80, 0x7f][rng.below(2) as usize],
        None => rng.next_u64() as u8,
    };
    (0..n).map(|_| byte(rng)).collect()
}
const FILLS: usize = 8;

fn blocks(n: usize, fill: usize, rng: &mut TestRng) -> Vec<[u8; BLOCK]> {
    bytes(n * BLOCK, fill, rng).as_chunks().0.to_vec()
}

fn term(kind: usize, rng: &mut TestRng) -> [u32; 4] {
    std::array::from_fn(|_| match kind {
        0 => P - 1,
        1 => [0, P - 1][rng.below(2) as usize],
        2 => 0x7f7f_7f7f,
        _ => rng.below(u64::from(P)) as u32,
    })
}

fn elements(rng: &mut TestRng) -> Elements {
    std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| rng.below(u64::from(P)) as u32)))
}

#[test]
fn combinations_are_exact() {
    let mut rng = TestRng(1);
    for n in [1, 2, 16, 31, 32, 100] {
        for fill in 0..FILLS {
            for kind in 0..5 {
                let blocks = blocks(n, fill, &mut rng);
                let terms: Vec<[[u32; 4]; TERMS]> =
                    (0..n).map(|_| std::array::from_fn(|_| term(kind, &mut rng))).collect();
                let coefficients: Vec<Coefficients> = terms.iter().map(coefficients).collect();
                let start = match kind {
                    0 => [[[P - 1; 16]; 4]; 4],
                    _ => elements(&mut rng),
                };
                let mut expected = start;
                for (lane, c) in (0..LANES).flat_map(|lane| (0..4).map(move |c| (lane, c))) {
                    let products = blocks.iter().zip(&terms).flat_map(|(block, terms)| {
                        (0..TERMS).map(|j| i128::from(block[TERMS * lane + j] as i8) * i128::from(terms[j][c]))
                    });
                    let sum = i128::from(start[lane / 16][c][lane % 16]) + products.sum::<i128>();
                    expected[lane / 16][c][lane % 16] = sum.rem_euclid(i128::from(P)) as u32;
                }
                for isa in fast().chain([Isa::Scalar]) {
                    let mut sums = start;
                    combine(isa, &blocks, &coefficients, &mut sums);
                    assert!(
                        sums == expected,
                        "{isa:?}, {n} blocks, fill {fill}, coefficients {kind}"
                    );
                }
            }
        }
    }
}

fn no_columns() -> Box<Columns> {
    Box::new([[[1; BLOCK]; COLUMNS / TERMS + 1]; ROWS])
}

#[test]
fn columns_are_combined_place_by_place() {
    let mut rng = TestRng(2);
    let most = COLUMNS / TERMS;
    for (n, fill, kind) in [
        (1, 0, 3),
        (2, 4, 3),
        (5, 7, 3),
        (most, 7, 3),
        (most, 0, 0),
        (most, 1, 0),
    ] {
        let data = bytes(TERMS * n * size_of::<Run>(), fill, &mut rng);
        let runs: Vec<&Run> = data.as_chunks().0.iter().collect();
        let terms: Vec<[[u32; 4]; TERMS]> = (0..n).map(|_| std::array::from_fn(|_| term(kind, &mut rng))).collect();
        let coefficients: Vec<Coefficients> = terms.iter().map(coefficients).collect();
        let start: Box<[Elements; ROWS]> = Box::new(std::array::from_fn(|_| elements(&mut rng)));
        let (mut columns, mut expected) = (no_columns(), start.clone());
        combine_columns(Isa::Scalar, &no_columns(), &[], &mut expected, (&runs, &mut columns));
        assert!(expected == start);
        combine_columns(
            Isa::Scalar,
            &columns,
            &coefficients,
            &mut expected,
            (&[], &mut no_columns()),
        );
        let natural = |isa, sums: &Elements| {
            let mut places = [[SecureField::from_u32_unchecked(9, 9, 9, 9); TERMS]; LANES / TERMS];
            super::natural(isa, sums, &mut places);
            places
        };
        for i in 0..ROWS {
            let places = natural(Isa::Scalar, &expected[i]);
            for (z, c) in (0..LANES).flat_map(|z| (0..4).map(move |c| (z, c))) {
                let products = runs.iter().zip(terms.as_flattened());
                let products = products.map(|(run, term)| i64::from(run[64 * i + z] as i8) * i64::from(term[c]));
                let lane = interleaved_lane(z);
                let sum = i64::from(start[i][lane / 16][c][lane % 16]) + products.sum::<i64>();
                let place = places[z / 4][z % 4].to_m31_array()[c];
                assert_eq!(i64::from(place.0), sum.rem_euclid(i64::from(P)));
            }
        }
        for isa in fast() {
            let (mut sums, mut next) = (start.clone(), no_columns());
            combine_columns(isa, &columns, &coefficients, &mut sums, (&runs, &mut next));
            assert!(sums == expected && next == columns, "{isa:?}, {n} blocks");
            assert_eq!(natural(isa, &sums[3]), natural(Isa::Scalar, &sums[3]));
        }
    }
}

#[test]
fn products_are_exact() {
    let mut rng = TestRng(3);
    for (tokens, planes, first) in [(1, 1, 0), (1, 4, 2), (2, 3, 1), (5, 4, 0), (8, 7, 0)] {
        for fill in 0..FILLS {
            let in_blocks = first + planes;
            // One input in every block of 64 has no place.
            let inputs = 63 * in_blocks;
            let a: Vec<i16> = (0..tokens * inputs)
                .map(|_| match fill % 4 {
                    0 => i16::MIN,
                    1 => i16::MAX,
                    2 => [i16::MIN, i16::MAX, -1, 255][rng.below(4) as usize],
                    _ => rng.next_u64() as i16,
                })
                .collect();
            let place = |x: usize| x / 63 * 64 + x % 63 + 1;
            let activations = Activations::new(&a, inputs, in_blocks, place);
            let data = blocks(planes * PLANE_BLOCKS, fill, &mut rng);
            let tiles: Vec<&Plane> = data.as_flattened().as_chunks().0.iter().collect();
            for shift in [0, 8] {
                let start = vec![[[i32::MAX - 5; LANES], [7; LANES]]; tokens];
                let mut expected = start.clone();
                multiply(Isa::Scalar, &tiles, &activations, first, shift, &mut expected);
                for (t, y) in [(0, 0), (tokens - 1, 63), (tokens / 2, 17)] {
                    for (limb, of) in [|v: i16| i64::from(v >> 8), |v: i16| i64::from(v & 255)]
                        .iter()
                        .enumerate()
                    {
                        let products = (0..inputs).filter(|x| x / 63 >= first).map(|x| {
                            let tile = tiles[x / 63 - first];
                            let w = tile[y / 4 * BLOCK + 4 * (place(x) % 64) + y % 4] as i8;
                            i64::from(w) * of(a[t * inputs + x])
                        });
                        let sum = i64::from(start[t][limb][y]) + (products.sum::<i64>() << shift);
                        assert_eq!(expected[t][limb][y], sum as i32);
                    }
                }
                for isa in fast() {
                    let mut sums = start.clone();
                    multiply(isa, &tiles, &activations, first, shift, &mut sums);
                    assert!(sums == expected, "{isa:?}, {tokens} tokens, fill {fill}, shift {shift}");
                }
            }
        }
    }
}
