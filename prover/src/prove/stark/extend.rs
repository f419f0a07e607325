//! Columns extended: from rows to the codeword, one column after the other, while it is in the caches. Of what a column is
//! made from nothing is kept longer than that.

use std::borrow::Borrow;

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::MaybeOwned;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::circle::CircleEvaluation;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::vcs_lifted::prover::MerkleProverLifted;
use stwo::prover::{CommitmentSchemeProver, CommitmentTreeProver, Poly};

/// The commitment scheme of the trees.
pub type Scheme<'a> = CommitmentSchemeProver<'a, SimdBackend, Blake2sMerkleChannel>;
/// A column, extended.
pub type Extended = Poly<SimdBackend>;

/// log2 of the side of the squares that reversing bits goes by.
const SQUARE_LOG: u32 = 4;
const SQUARE: usize = 1 << SQUARE_LOG;

/// Extends columns.
pub fn extend<C: Borrow<Vec<BaseField>>>(
    scheme: &Scheme<'_>,
    columns: impl IntoParallelIterator<Item = C, Iter: IndexedParallelIterator>,
) -> Vec<Extended> {
    let blowup = scheme.config.fri_config.log_blowup_factor;
    let keep = scheme.store_polynomials_coefficients;
    // Coefficients that are not kept leave their memory to those of the thread's next column.
    let extended = columns.into_par_iter().map_init(Vec::new, |memory, column| {
        let rows = evaluation(column.borrow(), std::mem::take(memory));
        drop(column);
        let domain = CanonicCoset::new(rows.domain.log_size() + blowup).circle_domain();
        let coefficients = rows.interpolate_with_twiddles(scheme.twiddles);
        let values = coefficients.evaluate_with_twiddles(domain, scheme.twiddles);
        if keep {
            return Poly::new(Some(coefficients), values);
        }
        *memory = coefficients.coeffs.data;
        Poly::new(None, values)
    });
    extended.collect()
}

/// Commits extended columns as the next tree.
pub fn commit_extended(scheme: &mut Scheme<'_>, polynomials: Vec<Extended>, channel: &mut Blake2sChannel) {
    let values: Vec<&BaseColumn> = polynomials.iter().map(|p| &p.evals.values).collect();
    let tallest = values.iter().map(|v| v.length.ilog2()).max().unwrap_or_default();
    let commitment = MerkleProverLifted::commit(values, tallest, 0);
    let tree = CommitmentTreeProver {
        polynomials,
        commitment,
    };
    scheme.commit_tree(MaybeOwned::Owned(tree), channel);
}

/// A column in stwo's order. Row `z` of `n` is entry `z / 2` of the circle domain if it is even, and entry
/// `n - (z + 1) / 2` if it is odd, and entries are in bit-reversed order: so places `2 p` and `2 p + 1` have the rows `2 i`
/// and `n - 1 - 2 i`, `i` being `p` with its bits reversed.
fn evaluation(
    rows: &[BaseField],
    mut memory: Vec<PackedBaseField>,
) -> CircleEvaluation<SimdBackend, BaseField, BitReversedOrder> {
    let log_size = rows.len().ilog2();
    memory.resize(rows.len().div_ceil(N_LANES), PackedBaseField::zero());
    let mut values = BaseColumn::from_simd(memory);
    let (places, _) = values.as_mut_slice().as_chunks_mut::<2>();
    let bits = log_size - 1;
    let reversed = |value: usize, bits: u32| value.reverse_bits() >> (usize::BITS - bits);
    let pair = |i: usize| [rows[2 * i], rows[rows.len() - 1 - 2 * i]];
    match bits.checked_sub(2 * SQUARE_LOG).filter(|middle| *middle > 0) {
        // Squares, so that whole lines are read and written: the first and last bits of `i` are those of the place in a line
        // of the square and of the line, reversed.
        Some(middle_bits) => {
            let mut square = [[[BaseField::default(); 2]; SQUARE]; SQUARE];
            for middle in 0..1 << middle_bits {
                let from = reversed(middle, middle_bits) << SQUARE_LOG;
                for at in 0..SQUARE {
                    let first = reversed(at, SQUARE_LOG) << (bits - SQUARE_LOG) | from;
                    for (line, entries) in square.iter_mut().enumerate() {
                        entries[at] = pair(first + reversed(line, SQUARE_LOG));
                    }
                }
                for (line, entries) in square.iter().enumerate() {
                    let first = line << (bits - SQUARE_LOG) | middle << SQUARE_LOG;
                    places[first..][..SQUARE].copy_from_slice(entries);
                }
            }
        }
        None => {
            for (p, place) in places.iter_mut().enumerate() {
                *place = pair(reversed(p, bits));
            }
        }
    }
    CircleEvaluation::new(CanonicCoset::new(log_size).circle_domain(), values)
}

#[cfg(test)]
mod tests {
    use stwo::core::utils::{bit_reverse_index, coset_index_to_circle_domain_index};

    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_library() {
        for log_size in 4..=13 {
            let rows: Vec<BaseField> = (0..1 << log_size).map(BaseField::from_u32_unchecked).collect();
            let mut expected = rows.clone();
            for (z, row) in rows.iter().enumerate() {
                let entry = coset_index_to_circle_domain_index(z, log_size);
                expected[bit_reverse_index(entry, log_size)] = *row;
            }
            assert_eq!(evaluation(&rows, Vec::new()).values.as_slice(), expected);
        }
    }
}
