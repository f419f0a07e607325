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
    Box::new([[[1; BLOCK]; COLUMNS / TERMS]; LANES])
}

#[test]
fn columns_are_combined_place_by_place() {
    let mut rng = TestRng(2);
    for (n, fill) in [(1, 0), (2, 4), (5, 7), (COLUMNS / TERMS, 7)] {
        let data = blocks(TERMS * n * PLANE_BLOCKS, fill, &mut rng);
        let planes: Vec<&Plane> = data.as_flattened().as_chunks().0.iter().collect();
        let terms: Vec<[[u32; 4]; TERMS]> = (0..n).map(|_| std::array::from_fn(|_| term(3, &mut rng))).collect();
        let coefficients: Vec<Coefficients> = terms.iter().map(coefficients).collect();
        let start: Box<[PlaneSums; LANES]> = Box::new([[[1000; LANES]; 16]; LANES]);
        let (mut columns, mut expected) = (no_columns(), start.clone());
        combine_columns(Isa::Scalar, &no_columns(), &[], &mut expected, (&planes, &mut columns));
        assert!(expected == start);
        combine_columns(
            Isa::Scalar,
            &columns,
            &coefficients,
            &mut expected,
            (&[], &mut no_columns()),
        );
        for (i, z) in [(0, 0), (63, 63), (17, 5), (40, 18)] {
            let mut sums = [[[7; 16]; 4]; 4];
            reduce(Isa::Scalar, &expected[i], &mut sums);
            let lane = interleaved_lane(z);
            for c in 0..4 {
                let products = planes.iter().zip(terms.as_flattened());
                let products = products.map(|(plane, term)| i64::from(plane[64 * i + z] as i8) * i64::from(term[c]));
                let sum = 7 + 1000 * 0x0101_0101 + products.sum::<i64>();
                assert_eq!(i64::from(sums[lane / 16][c][lane % 16]), sum.rem_euclid(i64::from(P)));
            }
        }
        for isa in fast() {
            let (mut sums, mut next) = (start.clone(), no_columns());
            combine_columns(isa, &columns, &coefficients, &mut sums, (&planes, &mut next));
            assert!(sums == expected && next == columns, "{isa:?}, {n} blocks");
        }
    }
}

/// As many terms as a sum may have, of the largest magnitude.
#[test]
fn the_longest_sums_do_not_wrap() {
    let extreme = |w: i32, c: i32| MAX_TERMS as i32 * w * c;
    for (w, c) in [(-128, 255), (127, 255), (-128, 1), (0, 0)] {
        let columns: Box<Columns> = Box::new([[[w as u8; BLOCK]; COLUMNS / TERMS]; LANES]);
        let mut sums = Box::new([[[0; LANES]; 16]; LANES]);
        let isa = Isa::best();
        for first in (0..MAX_TERMS).step_by(COLUMNS) {
            let n = COLUMNS.min(MAX_TERMS - first);
            let byte = |at: usize| if at < n { c as u8 } else { 0 };
            let coefficients: Vec<Coefficients> = (0..n.div_ceil(TERMS))
                .map(|k| [u32::from_le_bytes(std::array::from_fn(|j| byte(TERMS * k + j))); 16])
                .collect();
            combine_columns(isa, &columns, &coefficients, &mut sums, (&[], &mut no_columns()));
        }
        assert!(sums
            .as_flattened()
            .as_flattened()
            .iter()
            .all(|sum| *sum == extreme(w, c)));
        for isa in fast().chain([Isa::Scalar]) {
            let mut elements = [[[P - 1; 16]; 4]; 4];
            reduce(isa, &sums[0], &mut elements);
            let exact = i64::from(P - 1) + i64::from(extreme(w, c)) * 0x0101_0101;
            let expected = exact.rem_euclid(i64::from(P)) as u32;
            assert!(elements == [[[expected; 16]; 4]; 4], "{isa:?}");
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
