//! How the kernels take weights, coefficients, activations and sums, and which instructions they may use.

use rayon::prelude::*;

use crate::table::Item;

/// `2^31 - 1`, the order of the field.
pub const P: u32 = (1 << 31) - 1;
/// Lanes of a block.
pub const SIMD_LANES: usize = 64;
/// Terms of a lane in a block.
pub const TERMS: usize = 4;
/// Bytes of a block.
pub const BLOCK: usize = SIMD_LANES * TERMS;
/// Blocks of a plane of a tile.
pub const PLANE_BLOCKS: usize = 16;
/// A plane of a tile.
pub type Plane = [u8; PLANE_BLOCKS * BLOCK];
/// Most terms that a 32-bit sum of unsigned times signed bytes can have without overflow.
pub const MAX_TERMS: usize = (i32::MAX / (255 * 128)) as usize;
/// Most columns of one combination.
pub const COLUMNS: usize = 256;
/// Runs of a block of a combination, with a pair of bytes each.
pub const BLOCK_COLUMNS: usize = TERMS / 2;
/// Rows of 64 pairs of bytes of a column that are combined together.
pub const ROWS: usize = 8;
/// The bytes of a column that are combined together. Few columns are read at a time, so runs are long: at the
/// distance of two columns, which is a large power of two, cached lines displace each other.
pub type Run = [u8; 2 * ROWS * SIMD_LANES];
/// Runs of up to [`COLUMNS`] columns: terms `2 j` and `2 j + 1` of lane `interleaved_lane(z)` of `[i][k]` are the pair at
/// `pair(i, z)` of column `2 k + j`. The last `k` is never used: it keeps the rows from displacing each other.
pub type Runs = [[[u8; BLOCK]; COLUMNS / BLOCK_COLUMNS + 1]; ROWS];

/// Instructions to compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Portable code.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F and BW with the byte dot products of VNNI.
    Avx512,
}

impl Isa {
    /// Whether this processor has the instructions.
    pub fn available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        let (avx2, avx512) = (
            is_x86_feature_detected!("avx2"),
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni"),
        );
        #[cfg(not(target_arch = "x86_64"))]
        let (avx2, avx512) = (false, false);
        match self {
            Self::Scalar => true,
            Self::Avx2 => avx2,
            Self::Avx512 => avx512,
        }
    }

    /// The fastest instructions of this processor.
    pub fn best() -> Self {
        let fast = [Self::Avx512, Self::Avx2].into_iter().find(|isa| isa.available());
        fast.unwrap_or(Self::Scalar)
    }
}

/// Elements of the extension field, one per lane: `[lane / 16][coordinate][lane % 16]`.
pub type Elements = [[[u32; 16]; 4]; 4];

// SAFETY: these are arrays of integers.
unsafe impl Item for Elements {}

/// Coefficients of a block: for each of four coordinates and each of four bytes, lowest first, that byte of
/// the coefficients of the four terms.
pub type Coefficients = [u32; 16];

/// The coefficients of four terms, each four coordinates below `2^31`.
pub fn coefficients(terms: &[[u32; 4]; TERMS]) -> Coefficients {
    std::array::from_fn(|plane| {
        let (coordinate, shift) = (plane / 4, 8 * (plane % 4));
        u32::from_le_bytes(terms.map(|term| (term[coordinate] >> shift) as u8))
    })
}

/// Where pair `z` of row `row` begins in a run. A run is in pieces of 256 bytes; four pairs `4 x ..` are four bytes of a piece
/// and those at the same place of the next one.
pub const fn pair(row: usize, z: usize) -> usize {
    let (pieces, line) = (row / 4, row % 4);
    let piece = 2 * pieces + z % 4 / 2;
    BLOCK * piece + SIMD_LANES * line + z / 4 * 4 + z % 2 * 2
}

/// Lane of pair `z` of 64 pairs in the combinations of [`super::combine_columns`].
pub const fn interleaved_lane(z: usize) -> usize {
    let (row, column, rest) = (z / 16, z / 4 % 4, z % 4);
    16 * column + 4 * row + rest
}

/// Where the sums of [`super::combine_columns`] go: four pairs after the other, to lines of a table.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// First line of the 64 pairs of every row.
    pub starts: [usize; ROWS],
    /// From the line of four pairs to that of the next four.
    pub stride: usize,
}

/// Elements of a line of the cache.
pub const LINE: usize = 4;

/// Rows of a block that are not worth sharing between threads.
const MIN_ROWS: usize = 256;

/// Pairs of inputs of a block.
pub(super) const PAIRS: usize = SIMD_LANES / 2;

/// Activations of a token and a block in words, `[limb][pair]`: the first input of a pair in the low half.
pub(super) type Paired = [[i32; PAIRS]; 2];

/// Activations of a matmul, in limbs `256 hi + lo` and blocks of 64 inputs.
#[derive(Clone, Debug)]
pub struct Activations {
    pub(super) tokens: usize,
    /// `[in-block][token][input]`, signed.
    pub(super) hi: Vec<[u8; SIMD_LANES]>,
    /// `[in-block][token][input]`.
    pub(super) lo: Vec<[u8; SIMD_LANES]>,
    /// 128 times the sum of the high limbs, `[in-block][token]`.
    pub(super) bias: Vec<i32>,
    /// `[in-block][token]`, for AVX2 alone.
    pub(super) pairs: Vec<Paired>,
}

/// The words of a token and a block.
fn paired(hi: &[u8; SIMD_LANES], lo: &[u8; SIMD_LANES]) -> Paired {
    let pair = |a: i16, b: i16| i32::from(a) & 0xffff | i32::from(b) << 16;
    [
        std::array::from_fn(|p| pair(i16::from(hi[2 * p] as i8), i16::from(hi[2 * p + 1] as i8))),
        std::array::from_fn(|p| pair(i16::from(lo[2 * p]), i16::from(lo[2 * p + 1]))),
    ]
}

impl Activations {
    /// Activations `[token][input]` for products with these instructions, input `x` at place `position(x)` of `blocks` blocks of 64, or at
    /// place `x` if there is no `position`; other places are 0.
    ///
    /// # Panics
    /// If an input has no place.
    pub fn new(
        isa: Isa,
        a: &[i16],
        inputs: usize,
        blocks: usize,
        position: Option<impl Fn(usize) -> usize + Sync>,
    ) -> Self {
        let tokens = a.len() / inputs;
        assert!(inputs <= blocks * SIMD_LANES, "a place for every input");
        let sources = position.map(|position| {
            let mut sources = vec![None; blocks * SIMD_LANES];
            (0..inputs).for_each(|x| sources[position(x)] = Some(x));
            sources
        });
        let zeros = || vec![[0; SIMD_LANES]; blocks * tokens];
        let (mut hi, mut lo, mut bias) = (zeros(), zeros(), vec![0; blocks * tokens]);
        let limbs = hi
            .par_chunks_exact_mut(tokens.max(1))
            .zip(lo.par_chunks_exact_mut(tokens.max(1)));
        let of_blocks = bias.par_chunks_exact_mut(tokens.max(1)).zip(limbs).enumerate();
        let of_blocks = of_blocks.with_min_len(MIN_ROWS.div_ceil(tokens.max(1)));
        of_blocks.for_each(|(block, (bias, (hi, lo)))| {
            let own = block * SIMD_LANES..(block + 1) * SIMD_LANES;
            let limbs = hi.iter_mut().zip(lo).zip(bias);
            for (row, ((hi, lo), bias)) in a.chunks_exact(inputs).zip(limbs) {
                let mut put = |place: usize, v: i16| [lo[place], hi[place]] = v.to_le_bytes();
                match &sources {
                    None => {
                        let row = &row[own.start.min(inputs)..own.end.min(inputs)];
                        row.iter().enumerate().for_each(|(place, v)| put(place, *v));
                    }
                    Some(sources) => {
                        for (place, source) in sources[own.clone()].iter().enumerate() {
                            if let Some(x) = source {
                                put(place, row[*x]);
                            }
                        }
                    }
                }
                *bias = 128 * hi.iter().map(|&v| i32::from(v as i8)).sum::<i32>();
            }
        });
        let pairs = match isa {
            Isa::Avx2 => hi
                .par_iter()
                .zip(&lo)
                .with_min_len(MIN_ROWS)
                .map(|(hi, lo)| paired(hi, lo))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            tokens,
            bias,
            hi,
            lo,
            pairs,
        }
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

/// Sums of 64 outputs for the high and the low limb.
pub type LimbSums = [[i32; SIMD_LANES]; 2];
