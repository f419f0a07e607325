//! Multilinear extensions (MLEs). One convention everywhere, MSB-first: a table `f` of length `2^k` is
//! indexed by `z`, and coordinate `r_0` of a point belongs to the most significant bit of `z`.
//!
//! Every function is total. Where lengths must agree, a mismatch is an error; indicator functions are
//! defined for every index and bound.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use thiserror::Error;

use crate::scalar::{eq_factor, Scalar};

/// Lengths that do not fit together.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum MleError {
    /// Two points of one evaluation have different lengths.
    #[error("points of {left} and {right} variables, expected equal numbers")]
    PointLengths { left: usize, right: usize },
    /// A table does not have `2^variables` entries.
    #[error("a table of {entries} entries cannot be evaluated at a point of {variables} variables")]
    TableLength { entries: usize, variables: usize },
}

fn check_points<K>(a: &[K], b: &[K]) -> Result<(), MleError> {
    if a.len() != b.len() {
        return Err(MleError::PointLengths {
            left: a.len(),
            right: b.len(),
        });
    }
    Ok(())
}

fn check_table(entries: usize, variables: usize) -> Result<(), MleError> {
    let expected = u32::try_from(variables).ok().and_then(|k| 1usize.checked_shl(k));
    if expected != Some(entries) {
        return Err(MleError::TableLength { entries, variables });
    }
    Ok(())
}

/// Bit of `index` that belongs to coordinate `i` of a point of `variables` coordinates.
fn bit(index: usize, variables: usize, i: usize) -> bool {
    variables
        .checked_sub(i + 1)
        .and_then(|shift| u32::try_from(shift).ok())
        .and_then(|shift| index.checked_shr(shift))
        .is_some_and(|v| v & 1 == 1)
}

/// Whether `index < 2^variables`.
fn in_table(index: usize, variables: usize) -> bool {
    u32::try_from(variables)
        .ok()
        .and_then(|shift| index.checked_shr(shift))
        .is_none_or(|high| high == 0)
}

/// All `2^k` values `eq(point, z)`, `z` in order. The caller bounds `k`: the table is allocated.
pub fn eq_table<K: Scalar>(point: &[K]) -> Vec<K> {
    K::eq_table(point)
}

/// `eq(a, b)`, the MLE of `[a = b]`.
pub fn eq_eval<K: Scalar>(a: &[K], b: &[K]) -> Result<K, MleError> {
    check_points(a, b)?;
    Ok(K::eq_eval(a, b))
}

/// The MLE of `[v = index]` at `point`; zero when `index >= 2^k`.
pub fn index_eq<K: Scalar>(index: usize, point: &[K]) -> K {
    if !in_table(index, point.len()) {
        return K::zero();
    }
    K::index_eq(index, point)
}

/// The MLE of `[v < bound]` at `point`, in O(k); one when `bound >= 2^k`.
pub fn less_than_eval<K: Scalar>(bound: usize, point: &[K]) -> K {
    if !in_table(bound, point.len()) {
        return K::one();
    }
    let (mut less, mut equal) = (K::zero(), K::one());
    for (i, &r) in point.iter().enumerate() {
        let high = equal * r;
        if bit(bound, point.len(), i) {
            less += equal - high;
            equal = high;
        } else {
            equal -= high;
        }
    }
    less
}

/// The MLE of `[j <= i]` at `(ri, rj)`, in O(k): the causal mask.
pub fn causal_eval<K: Scalar>(ri: &[K], rj: &[K]) -> Result<K, MleError> {
    check_points(ri, rj)?;
    let (mut less, mut equal) = (K::zero(), K::one());
    for (&i, &j) in ri.iter().zip(rj) {
        less += equal * (i - i * j);
        equal *= eq_factor(i, j);
    }
    Ok(less + equal)
}

/// Binds the most significant variable to `r` and halves the table. Entries pair up as
/// `(z, z + len / 2)`; a table of length 1 has no variable and is left alone, the last entry of a table of
/// odd length is dropped.
pub fn fold_msb_in_place(values: &mut Vec<SecureField>, r: SecureField) {
    let half = values.len() / 2;
    if half == 0 {
        return;
    }
    let (low, high) = values.split_at_mut(half);
    for (l, &h) in low.iter_mut().zip(high.iter()) {
        *l += r * (h - *l);
    }
    values.truncate(half);
}

/// The entries of `eq(point, .)`, as products of those of two tables: of the first coordinates, and of the last ones.
pub struct Corners<K> {
    high: Vec<K>,
    low: Vec<K>,
}

impl<K: Scalar> Corners<K> {
    /// How many coordinates the second table has, if there are so many.
    const LOW: usize = 6;
    /// The first one has no more than these.
    const HIGH: usize = 11;

    /// Of a point.
    pub fn new(point: &[K]) -> Self {
        let low = Self::LOW.max(point.len().saturating_sub(Self::HIGH)).min(point.len());
        let (high, low) = point.split_at(point.len() - low);
        Self {
            high: eq_table(high),
            low: eq_table(low),
        }
    }

    /// `sum_i values[i] eq(point, start + i)`: entries beyond the table are zero.
    pub fn dot(&self, values: &[K], start: usize) -> K {
        let terms = values.iter().enumerate().map(|(i, value)| (start + i, *value));
        self.sum(terms)
    }

    /// The sum of values times the entries at their places, which ascend: a product each, and one for each entry of the first table.
    pub fn sum(&self, terms: impl IntoIterator<Item = (usize, K)>) -> K {
        let (width, mut sum) = (self.low.len(), K::zero());
        let mut own: Option<(usize, K)> = None;
        let mut close = |own: Option<(usize, K)>| {
            let high = own.and_then(|(at, inner)| Some(*self.high.get(at)? * inner));
            sum += high.unwrap_or_default();
        };
        for (place, value) in terms {
            let low = self.low.get(place % width).copied().unwrap_or_default();
            let before = own.filter(|(at, _)| *at == place / width);
            if before.is_none() {
                close(own);
            }
            own = Some((
                place / width,
                before.map_or(K::zero(), |(_, inner)| inner) + value * low,
            ));
        }
        close(own);
        sum
    }
}

/// The MLE of a table at `point`; `values` has `2^k` entries.
pub fn eval_dense(values: &[SecureField], point: &[SecureField]) -> Result<SecureField, MleError> {
    check_table(values.len(), point.len())?;
    let Some((&r, rest)) = point.split_first() else {
        return Ok(values.first().copied().unwrap_or_else(SecureField::zero));
    };
    let (low, high) = values.split_at(values.len() / 2);
    let folded = low.iter().zip(high).map(|(&l, &h)| l + r * (h - l)).collect();
    Ok(eval_folded(folded, rest))
}

/// The MLE of a table of base field elements at `point`; `values` has `2^k` entries.
pub fn eval_base(values: &[BaseField], point: &[SecureField]) -> Result<SecureField, MleError> {
    check_table(values.len(), point.len())?;
    let Some((&r, rest)) = point.split_first() else {
        return Ok(values.first().copied().unwrap_or_else(BaseField::zero).into());
    };
    let (low, high) = values.split_at(values.len() / 2);
    let folded = low.iter().zip(high).map(|(&l, &h)| r * (h - l) + l).collect();
    Ok(eval_folded(folded, rest))
}

/// Binds all variables of a table whose length was checked.
fn eval_folded(mut values: Vec<SecureField>, point: &[SecureField]) -> SecureField {
    for &r in point {
        fold_msb_in_place(&mut values, r);
    }
    values.first().copied().unwrap_or_else(SecureField::zero)
}

#[cfg(test)]
mod tests {
    use num_traits::One;
    use stwo::core::fields::m31::P;

    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn dots_of_the_largest_elements_do_not_overflow() {
        let largest = SecureField::from_m31_array([BaseField::from_u32_unchecked(P - 1); 4]);
        let all = vec![largest; 100_000];
        let expected = largest * largest * BaseField::from_u32_unchecked(100_000);
        assert_eq!(SecureField::dot(&all, &all), expected);
    }

    fn base() -> impl Strategy<Value = BaseField> {
        prop_oneof![8 => 0..P, 1 => 0u32..2, 1 => P - 2..P].prop_map(BaseField::from_u32_unchecked)
    }

    fn secure() -> impl Strategy<Value = SecureField> {
        [base(), base(), base(), base()].prop_map(SecureField::from_m31_array)
    }

    fn point(max: usize) -> impl Strategy<Value = Vec<SecureField>> {
        vec(secure(), 0..=max)
    }

    /// The definition: sum over z of f(z) times the product of the factors of eq.
    fn reference(f: impl Fn(usize) -> SecureField, r: &[SecureField]) -> SecureField {
        (0..1usize << r.len())
            .map(|z| {
                r.iter().enumerate().fold(f(z), |acc, (i, &ri)| {
                    acc * if (z >> (r.len() - 1 - i)) & 1 == 1 {
                        ri
                    } else {
                        SecureField::one() - ri
                    }
                })
            })
            .fold(SecureField::zero(), |a, b| a + b)
    }

    fn indicator(holds: bool) -> SecureField {
        SecureField::from(u32::from(holds))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn eq_functions_agree_with_the_definition(r in point(6), seed in any::<usize>()) {
            let table = eq_table(&r);
            prop_assert_eq!(table.len(), 1 << r.len());
            let index = seed % table.len();
            prop_assert_eq!(table[index], reference(|z| indicator(z == index), &r));
            prop_assert_eq!(table[index], index_eq(index, &r));
            prop_assert_eq!(index_eq(table.len() + seed % 9, &r), SecureField::zero());
            let bits: Vec<_> = (0..r.len()).map(|i| indicator((index >> (r.len() - 1 - i)) & 1 == 1)).collect();
            prop_assert_eq!(eq_eval(&r, &bits), Ok(table[index]));
        }

        #[test]
        fn corners_are_the_entries_of_the_table(r in point(9), values in vec(secure(), 0..200), start in 0usize..600) {
            let table = eq_table(&r);
            let entries = values.iter().zip(table.iter().skip(start.min(table.len())));
            let expected = entries.fold(SecureField::zero(), |sum, (a, b)| sum + *a * *b);
            prop_assert_eq!(Corners::new(&r).dot(&values, start), expected);
        }

        #[test]
        fn eq_is_the_extension_in_both_arguments(pairs in vec((secure(), secure()), 0..6)) {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let table = eq_table(&b);
            prop_assert_eq!(eq_eval(&a, &b), Ok(reference(|z| table[z], &a)));
        }

        #[test]
        fn evaluation_agrees_with_the_definition(
            (r, values) in point(6).prop_flat_map(|r| { let n = 1 << r.len(); (Just(r), vec(secure(), n)) })
        ) {
            prop_assert_eq!(eval_dense(&values, &r), Ok(reference(|z| values[z], &r)));
            let base: Vec<_> = values.iter().map(|v| v.0.0).collect();
            prop_assert_eq!(eval_base(&base, &r), Ok(reference(|z| base[z].into(), &r)));
            if let Some((&first, rest)) = r.split_first() {
                let mut folded = values.clone();
                fold_msb_in_place(&mut folded, first);
                prop_assert_eq!(eval_dense(&folded, rest), eval_dense(&values, &r));
            }
        }

        #[test]
        fn less_than_agrees_with_its_table(r in point(6), bound in 0usize..80) {
            prop_assert_eq!(less_than_eval(bound, &r), reference(|z| indicator(z < bound), &r));
            prop_assert_eq!(less_than_eval(usize::MAX, &r), SecureField::one());
        }

        #[test]
        fn causal_mask_agrees_with_its_table(pairs in vec((secure(), secure()), 0..5)) {
            let (ri, rj): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let k = ri.len();
            let both: Vec<_> = ri.iter().chain(&rj).copied().collect();
            let expected = reference(|z| indicator(z & ((1 << k) - 1) <= z >> k), &both);
            prop_assert_eq!(causal_eval(&ri, &rj), Ok(expected));
        }

        #[test]
        fn long_points_do_not_overflow(r in vec(secure(), 60..140), n in any::<usize>()) {
            let equal = index_eq(n, &r);
            prop_assert_eq!(less_than_eval(n.saturating_add(1), &r), if n == usize::MAX {
                less_than_eval(n, &r)
            } else {
                less_than_eval(n, &r) + equal
            });
            prop_assert_eq!(
                eval_dense(&[], &r),
                Err(MleError::TableLength { entries: 0, variables: r.len() })
            );
        }
    }

    #[test]
    fn mismatched_lengths_are_errors() {
        let one = [SecureField::one()];
        let lengths = MleError::PointLengths { left: 1, right: 0 };
        assert_eq!(eq_eval(&one, &[]), Err(lengths));
        assert_eq!(causal_eval(&one, &[]), Err(lengths));
        for entries in [0, 1, 3, 4] {
            let table = MleError::TableLength { entries, variables: 1 };
            assert_eq!(eval_dense(&vec![SecureField::one(); entries], &one), Err(table));
            assert_eq!(eval_base(&vec![BaseField::one(); entries], &one), Err(table));
        }
        assert_eq!(
            eval_dense(&[], &[]),
            Err(MleError::TableLength {
                entries: 0,
                variables: 0
            })
        );
    }
}
