//! Every kernel against the scalar one, on random and on extreme input.

use num_traits::Zero;

use super::*;
use crate::table::Table;
use tessera_support::random::SplitMix;

fn fast() -> impl Iterator<Item = Isa> {
    [Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.available())
}

/// Ways to fill bytes: random ones, and the extremes.
fn bytes(n: usize, fill: usize, rng: &mut SplitMix) -> Vec<u8> {
    const EXTREMES: [u8; 4] = [0x80, 0x7f, 0xff, 0];
    let byte = |rng: &mut SplitMix| match EXTREMES.get(fill) {
        Some(byte) => *byte,
        None if fill == 4 => [0x80, 0x7f][rng.below(2) as usize],
        None => rng.next_u64() as u8,
    };
    (0..n).map(|_| byte(rng)).collect()
}
const FILLS: usize = 8;

fn blocks(n: usize, fill: usize, rng: &mut SplitMix) -> Vec<[u8; BLOCK]> {
    bytes(n * BLOCK, fill, rng).as_chunks().0.to_vec()
}

fn term(kind: usize, rng: &mut SplitMix) -> [u32; 4] {
    std::array::from_fn(|_| match kind {
        0 => P - 1,
        1 => [0, P - 1][rng.below(2) as usize],
        2 => 0x7f7f_7f7f,
        _ => rng.below(u64::from(P)) as u32,
    })
}

fn elements(rng: &mut SplitMix) -> Elements {
    std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| rng.below(u64::from(P)) as u32)))
}

#[test]
fn combinations_are_exact() {
    let mut rng = SplitMix(1);
    for n in [1, 2, 16, 31, 32, 100] {
        for fill in 0..FILLS {
            for kind in 0..5 {
                let blocks = blocks(n, fill, &mut rng);
                let terms: Vec<[[u32; 4]; TERMS]> =
                    (0..n).map(|_| std::array::from_fn(|_| term(kind, &mut rng))).collect();
                let coefficients: Vec<Coefficients> = terms.iter().map(coefficients).collect();
                let mut expected = [[[0; 16]; 4]; 4];
                for (lane, c) in (0..SIMD_LANES).flat_map(|lane| (0..4).map(move |c| (lane, c))) {
                    let products = blocks.iter().zip(&terms).flat_map(|(block, terms)| {
                        (0..TERMS).map(|j| i128::from(block[TERMS * lane + j] as i8) * i128::from(terms[j][c]))
                    });
                    expected[lane / 16][c][lane % 16] = products.sum::<i128>().rem_euclid(i128::from(P)) as u32;
                }
                // Two tiles, to places that are aligned to lines and to others.
                let two = [&blocks[..], &blocks[..]].concat();
                for isa in fast().chain([Isa::Scalar]) {
                    let mut table = Table::new(2);
                    let mut unaligned = vec![0u32; 1 + 2 * 256];
                    combine(isa, &two, &coefficients, &mut table);
                    let skipped = usize::from(unaligned.as_ptr().addr().is_multiple_of(64));
                    let sums = &mut unaligned[skipped..][..2 * 256];
                    let sums = sums.as_chunks_mut().0.as_chunks_mut().0.as_chunks_mut().0;
                    combine(isa, &two, &coefficients, sums);
                    assert!(
                        table[..] == [expected; 2] && *sums == [expected; 2],
                        "{isa:?}, {n} blocks, fill {fill}, coefficients {kind}"
                    );
                }
            }
        }
    }
}

fn no_columns() -> Box<Runs> {
    Box::new([[[1; BLOCK]; COLUMNS / BLOCK_COLUMNS + 1]; ROWS])
}

#[test]
fn columns_are_combined_place_by_place() {
    let mut rng = SplitMix(2);
    let most = COLUMNS / BLOCK_COLUMNS;
    for (n, fill, kind) in [
        (1, 0, 3),
        (2, 4, 3),
        (5, 7, 3),
        (most, 7, 3),
        (most, 0, 0),
        (most, 1, 0),
    ] {
        let data = bytes(BLOCK_COLUMNS * n * size_of::<Run>(), fill, &mut rng);
        let runs: Vec<&Run> = data.as_chunks().0.iter().collect();
        let terms: Vec<[[u32; 4]; TERMS]> = (0..n).map(|_| std::array::from_fn(|_| term(kind, &mut rng))).collect();
        let coefficients: Vec<Coefficients> = terms.iter().map(coefficients).collect();
        let start: Box<[Elements; ROWS]> = Box::new(std::array::from_fn(|_| elements(&mut rng)));
        let (mut columns, mut expected) = (no_columns(), start.clone());
        combine_columns(
            Isa::Scalar,
            &no_columns(),
            &[],
            &mut expected,
            true,
            (&runs, &mut columns),
        );
        assert!(expected == start);
        let mut set = start.clone();
        combine_columns(
            Isa::Scalar,
            &columns,
            &coefficients,
            &mut set,
            false,
            (&[], &mut no_columns()),
        );
        combine_columns(
            Isa::Scalar,
            &columns,
            &coefficients,
            &mut expected,
            true,
            (&[], &mut no_columns()),
        );
        for i in 0..ROWS {
            for (z, c) in (0..SIMD_LANES).flat_map(|z| (0..4).map(move |c| (z, c))) {
                let products = runs
                    .iter()
                    .zip(terms.as_flattened().as_chunks::<2>().0)
                    .flat_map(|(run, terms)| {
                        let pair = [0, 1].map(|j| i64::from(run[pair(i, z) + j] as i8) * i64::from(terms[j][c]));
                        pair.into_iter()
                    });
                let lane = interleaved_lane(z);
                let sum = i64::from(start[i][lane / 16][c][lane % 16]) + products.sum::<i64>();
                let before = i64::from(start[i][lane / 16][c][lane % 16]);
                for (got, sum) in [(&expected, sum), (&set, sum - before)] {
                    let got = got[i][lane / 16][c][lane % 16];
                    assert_eq!(i64::from(got), sum.rem_euclid(i64::from(P)));
                }
            }
        }
        for isa in fast() {
            let (mut sums, mut next) = (start.clone(), no_columns());
            combine_columns(isa, &columns, &coefficients, &mut sums, true, (&runs, &mut next));
            assert!(sums == expected && next == columns, "{isa:?}, {n} blocks");
            combine_columns(isa, &columns, &coefficients, &mut sums, false, (&[], &mut next));
            assert!(sums == set, "{isa:?}, {n} blocks, sums set");
        }
    }
}

#[test]
fn sums_are_scattered_to_their_lines() {
    let mut rng = SplitMix(4);
    let sums: Box<[Elements; ROWS]> = Box::new(std::array::from_fn(|_| elements(&mut rng)));
    let lines = Lines {
        starts: std::array::from_fn(|i| 3 + ROWS - i),
        stride: 20,
    };
    let before = SecureField::from_u32_unchecked(P - 1, 0, 1, P - 2);
    let len = LINE * (3 + ROWS + 1 + 15 * 20);
    for (isa, add) in fast().chain([Isa::Scalar]).flat_map(|isa| [(isa, false), (isa, true)]) {
        let mut expected = vec![before; len];
        for (i, z) in (0..ROWS).flat_map(|i| (0..SIMD_LANES).map(move |z| (i, z))) {
            let lane = interleaved_lane(z);
            let [a, b, c, d] = std::array::from_fn(|c| sums[i][lane / 16][c][lane % 16]);
            let place = &mut expected[LINE * (lines.starts[i] + z / 4 * lines.stride) + z % 4];
            *place = SecureField::from_u32_unchecked(a, b, c, d) + if add { before } else { SecureField::zero() };
        }
        let mut table = Table::from(&vec![before; len][..]);
        scatter(isa, &sums, &lines, add, &mut table);
        assert!(table[..] == expected, "{isa:?}, added: {add}");
        let mut unaligned = vec![before; len + 1];
        let skipped = usize::from(unaligned.as_ptr().addr().is_multiple_of(64));
        scatter(isa, &sums, &lines, add, &mut unaligned[skipped..][..len]);
        assert!(
            unaligned[skipped..][..len] == expected,
            "{isa:?}, added: {add}, not aligned"
        );
    }
}

#[test]
fn products_are_exact() {
    let mut rng = SplitMix(3);
    for (tokens, number, first) in [
        (1, 1, 0),
        (1, 4, 2),
        (2, 3, 1),
        (3, 2, 0),
        (4, 1, 1),
        (5, 4, 0),
        (7, 2, 0),
        (8, 4, 0),
    ] {
        for fill in 0..FILLS {
            let in_blocks = first + number;
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
            let activations = |isa| Activations::new(isa, &a, inputs, in_blocks, Some(place));
            for planes in [1, 2] {
                let mut data = blocks(number * planes * PLANE_BLOCKS, fill, &mut rng);
                if planes == 2 {
                    // Both bytes together fit 16 bits.
                    let high = data.as_chunks_mut::<{ 2 * PLANE_BLOCKS }>().0;
                    let high = high.iter_mut().flat_map(|tile| &mut tile[PLANE_BLOCKS..]).flatten();
                    high.filter(|byte| **byte == 128).for_each(|byte| *byte = 127);
                }
                let data: &[Plane] = data.as_flattened().as_chunks().0;
                let tiles: Vec<&[Plane]> = data.chunks_exact(planes).collect();
                let start = vec![[[i32::MAX - 5; SIMD_LANES], [7; SIMD_LANES]]; tokens];
                let mut expected = start.clone();
                let ahead = planes * size_of::<Plane>();
                multiply(
                    Isa::Scalar,
                    &tiles,
                    ahead,
                    &activations(Isa::Scalar),
                    first,
                    &mut expected,
                );
                for (t, y) in [(0, 0), (tokens - 1, 63), (tokens / 2, 17)] {
                    for (limb, of) in [|v: i16| i64::from(v >> 8), |v: i16| i64::from(v & 255)]
                        .iter()
                        .enumerate()
                    {
                        let products = (0..inputs).filter(|x| x / 63 >= first).map(|x| {
                            let tile = tiles[x / 63 - first];
                            let byte = |plane: &Plane| plane[y / 4 * BLOCK + 4 * (place(x) % 64) + y % 4] as i8;
                            let bytes = tile.iter().enumerate();
                            let w: i64 = bytes.map(|(at, plane)| i64::from(byte(plane)) << (8 * at)).sum();
                            w * of(a[t * inputs + x])
                        });
                        let sum = i64::from(start[t][limb][y]) + products.sum::<i64>();
                        assert_eq!(expected[t][limb][y], sum as i32);
                    }
                }
                for isa in fast() {
                    let mut sums = start.clone();
                    multiply(isa, &tiles, ahead, &activations(isa), first, &mut sums);
                    assert!(
                        sums == expected,
                        "{isa:?}, {tokens} tokens, fill {fill}, {planes} planes"
                    );
                }
            }
        }
    }
}

/// Tiles in the order of the file, several to a row of outputs, are multiplied as they are one by one.
#[test]
fn products_of_a_row_are_those_of_its_tiles() {
    fn check<const PLANES: usize>(fill: usize, rng: &mut SplitMix) {
        let (tiles, in_blocks) = (5, 3);
        let a: Vec<i16> = match fill % 3 {
            0 => vec![i16::MIN; SIMD_LANES * in_blocks],
            _ => (0..SIMD_LANES * in_blocks).map(|_| rng.next_u64() as i16).collect(),
        };
        let mut data = bytes(tiles * PLANES * size_of::<Plane>(), fill, rng);
        for high in data
            .chunks_exact_mut(size_of::<Plane>())
            .skip(1)
            .step_by(2)
            .take(PLANES / 2 * tiles)
        {
            // Both bytes together fit 16 bits.
            high.iter_mut()
                .filter(|byte| **byte == 128)
                .for_each(|byte| *byte = 127);
        }
        let tiles: &[[Plane; PLANES]] = data.as_chunks().0.as_chunks().0;
        let start: Vec<LimbSums> = tiles.iter().map(|_| [[rng.next_u64() as i32; SIMD_LANES]; 2]).collect();
        for block in 0..in_blocks {
            let activations = |isa| Activations::new(isa, &a, a.len(), in_blocks, None::<fn(usize) -> usize>);
            let mut expected = start.clone();
            for (tile, sums) in tiles.iter().zip(&mut expected) {
                let (isa, sums) = (Isa::Scalar, std::slice::from_mut(sums));
                multiply(isa, &[tile], 0, &activations(isa), block, sums);
            }
            for isa in fast().chain([Isa::Scalar]) {
                let mut sums = start.clone();
                multiply_row(isa, tiles, &tiles[0], &activations(isa), block, &mut sums);
                assert!(sums == expected, "{isa:?}, block {block}, fill {fill}, {PLANES} planes");
            }
        }
    }
    let mut rng = SplitMix(6);
    for fill in 0..FILLS {
        check::<1>(fill, &mut rng);
        check::<2>(fill, &mut rng);
    }
}
