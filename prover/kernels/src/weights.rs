//! The inner loops over stored weights: exact integers, the same on every processor.
//!
//! Weights come as signed bytes in the order of `tiles`: a *block* is 256 bytes, four for each of 64 lanes.
//! All loops are byte dot products of four terms, unsigned times signed, added to 32-bit lanes.
//!
//! | function | used by | a block is | lanes |
//! |---|---|---|---|
//! | [`combine`] | first pass of the prover | outputs `4k..4k + 4` of a tile | its inputs |
//! | [`combine_columns`], [`scatter`] | second pass | 64 pairs of neighbours of two columns | the pairs |
//! | [`multiply`], [`multiply_row`] | forward pass | outputs `4k..4k + 4` of a tile | its inputs, summed over |
//!
//! `scalar` says what they compute; `x86` does it with AVX2 or AVX-512 VNNI. The processor is asked at run
//! time ([`Isa::best`]).

use stwo::core::fields::qm31::SecureField;

mod layout;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use self::layout::{
    coefficients, interleaved_lane, pair, Activations, Coefficients, Elements, Isa, LimbSums, Lines, Plane, Run, Runs,
    BLOCK, BLOCK_COLUMNS, COLUMNS, LINE, MAX_TERMS, P, PLANE_BLOCKS, ROWS, SIMD_LANES, TERMS,
};

/// Sums of tiles of as many blocks as there are coefficients: sets each lane to the sum over its terms in all blocks of the
/// tile, signed byte times coefficient. They are written past the caches where they are aligned to a line.
///
/// # Panics
/// If a tile has more than [`MAX_TERMS`] terms, the blocks are not those of as many tiles as there are sums, or `isa` is not
/// available.
pub fn combine(isa: Isa, blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut [Elements]) {
    combine_to(isa, blocks, coefficients, sums, true);
}

/// As [`combine`], of one tile whose sums are wanted at once.
///
/// # Panics
/// As [`combine`].
pub fn combine_cached(isa: Isa, blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut Elements) {
    combine_to(isa, blocks, coefficients, std::slice::from_mut(sums), false);
}

fn combine_to(isa: Isa, blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut [Elements], stream: bool) {
    assert!(
        blocks.len() == sums.len() * coefficients.len() && TERMS * coefficients.len() <= MAX_TERMS,
        "blocks of a combination"
    );
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => x86::combine(isa, blocks, coefficients, sums, stream),
        _ => scalar::combine(blocks, coefficients, sums),
    }
}

/// Sums the products of the pairs of bytes at `pair(i, z)` of all columns and their coefficients, two for each column, in the
/// `i`-th sums, lane `interleaved_lane(z)`: sets the sums, or adds to them, which must be reduced then. Meanwhile, makes
/// [`Runs`] of the runs `next`, one for each column.
///
/// # Panics
/// If there are more than [`COLUMNS`] columns or next ones, or the latter are not even, or `isa` is not available.
pub fn combine_columns(
    isa: Isa,
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    next: (&[&Run], &mut Runs),
) {
    assert!(
        BLOCK_COLUMNS * coefficients.len() <= COLUMNS
            && next.0.len() <= COLUMNS
            && next.0.len().is_multiple_of(BLOCK_COLUMNS),
        "columns of a combination"
    );
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => x86::combine_columns(isa, columns, coefficients, sums, add, next),
        _ => scalar::combine_columns(columns, coefficients, sums, add, next),
    }
}

/// Writes sums of [`combine_columns`] to the table `out`, or adds them to it: pair `z` of row `i` is element `z % 4` of
/// line `starts[i] + z / 4 * stride`. Sums and table must be reduced. Lines that are set are written past the caches where
/// they are aligned.
///
/// # Panics
/// If a line is beyond the table or `isa` is not available.
pub fn scatter(isa: Isa, sums: &[Elements; ROWS], lines: &Lines, add: bool, out: &mut [SecureField]) {
    let last = lines
        .starts
        .iter()
        .max()
        .map_or(0, |start| start + (SIMD_LANES / LINE - 1) * lines.stride);
    assert!((last + 1) * LINE <= out.len(), "lines of a table");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::scatter(isa, sums, lines, add, out),
        _ => scalar::scatter(sums, lines, add, out),
    }
}

/// The most tiles that are multiplied together.
pub const STRIP: usize = 4;

/// Adds to `sums`, one entry per token, the products of the weights in `tiles` and the activations. The tiles have the same outputs; the
/// first one has the inputs of in-block `first`, and so on. A tile is one plane, or two, of which the second has the high bytes: all
/// bytes are signed, and both together fit 16 bits. Sums wrap. What is `ahead` bytes behind each tile, and as much behind that, is likely to be next.
///
/// # Panics
/// If there are not as many sums as tokens, no tiles or more than [`STRIP`], fewer in-blocks than tiles, or tiles of other planes, if
/// `isa` is not available, or if the activations are for other instructions.
pub fn multiply(isa: Isa, tiles: &[&[Plane]], ahead: usize, a: &Activations, first: usize, sums: &mut [LimbSums]) {
    let planes = tiles.first().map_or(0, |tile| tile.len());
    assert!(
        sums.len() == a.tokens && (first + tiles.len()) * a.tokens <= a.hi.len() && tiles.len() <= STRIP,
        "sums and activations of a matmul"
    );
    assert!(
        (1..=2).contains(&planes) && tiles.iter().all(|tile| tile.len() == planes),
        "planes of a matmul"
    );
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx2 {
        return x86::multiply_wide(tiles, ahead, a, first, sums);
    }
    for plane in (0..planes).rev() {
        let of: [&Plane; STRIP] = std::array::from_fn(|i| &tiles[i.min(tiles.len() - 1)][plane]);
        let (of, shift) = (&of[..tiles.len()], 8 * plane as u32);
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::multiply((of, ahead), a, first, shift, sums),
            _ => scalar::multiply(of, a, first, shift, sums),
        }
    }
}

/// Adds to `sums` the products of tiles, which have the inputs of in-block `block` and the outputs of one sum after the other, and the only
/// row of activations. Planes, bytes and wrapping sums are as in [`multiply`]. The caller reads tile `next` after these, so it is fetched meanwhile.
///
/// # Panics
/// If the activations are not a single row, if they have no such block, if there are not as many tiles as sums, if `isa` is not available,
/// or if the activations are for other instructions.
pub fn multiply_row<const PLANES: usize>(
    isa: Isa,
    tiles: &[[Plane; PLANES]],
    next: &[Plane; PLANES],
    a: &Activations,
    block: usize,
    sums: &mut [LimbSums],
) {
    assert!(
        a.tokens == 1 && block < a.hi.len() && tiles.len() == sums.len(),
        "tiles, sums and activations of a row"
    );
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        return x86::multiply_row(tiles, next, a, block, sums);
    }
    for (tile, sums) in tiles.iter().zip(sums) {
        let sums = std::slice::from_mut(sums);
        multiply(isa, &[tile], size_of_val(tile), a, block, sums);
    }
}
