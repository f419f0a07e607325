//! One reading: whatever residues accumulators have, the lookups, the list of clipped values and the claim leave one rounded value.

use std::collections::BTreeSet;

use stwo::core::fields::m31::P;

use super::*;
use crate::bounds::most_shift;
use crate::model::MatmulKind;

const ORDER: i64 = P as i64;

/// The values that may stand in a proof without an entry in the list: of int16, and of logits.
const UNLISTED: [(MatmulKind, i64, i64); 2] = [
    (MatmulKind::Up, -(1 << 15), (1 << 15) - 1),
    (MatmulKind::Head, -98_304, (1 << 15) - 1),
];

/// All values that explain the residue of an accumulator in one limb.
fn one_limb(residue: i64, total: u32, (least, most): (i64, i64)) -> BTreeSet<i64> {
    let half = 1 << (total - 1);
    let mut found = BTreeSet::new();
    for lift in -2..=2 {
        let sum = residue + half + lift * ORDER;
        let value = sum >> total;
        // The remainder is what is left, which is in range.
        if (least..=most).contains(&value) || value.abs() < 1 << (30 - total) {
            found.insert(value);
        }
    }
    found
}

/// All values that explain the residues of both limbs.
fn two_limbs([high, low]: [i64; 2], shift: u32, (least, most): (i64, i64), narrow: Option<u8>) -> BTreeSet<i64> {
    let remainder = Remainder {
        at: 0,
        limbs: Limbs::Two,
        narrow,
    };
    let total = 8 + shift;
    let mut found = BTreeSet::new();
    for lift in -2..=2 {
        // REM - 256 DELTA is one of these integers.
        let sum = low + (1 << (total - 1)) + lift * ORDER;
        for part in 0..1i64 << shift {
            let rest = 256 * part + sum.rem_euclid(256);
            let delta = (rest - sum) / 256;
            for lift in -2..=2 {
                let product = high - delta + lift * ORDER;
                let value = product >> shift;
                let unlisted = (least..=most).contains(&value);
                if product != value << shift || !unlisted && value.abs() >= 1 << (30 - shift) {
                    continue;
                }
                let is_narrow = remainder.is_narrow(shift, (!unlisted).then_some(value));
                let [hi, lo] = Remainder::difference(delta, is_narrow);
                if (0..1 << 16).contains(&hi) && (0..1 << 8).contains(&lo) {
                    found.insert(value);
                }
            }
        }
    }
    found
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 20) % most as u64) as i64
    }
}

/// Residues without pattern, and those where the ends of ranges meet modulo `p`.
fn residues(numbers: &mut Numbers, shift: u32) -> Vec<[i64; 2]> {
    let total = 8 + shift;
    let mut list: Vec<[i64; 2]> = (0..40).map(|_| [0; 2].map(|_| numbers.below(ORDER))).collect();
    for end in [1i64 << 22, (1 << 22) - (1 << 15), (1 << 22) - (1 << shift)] {
        for step in [-300, -2, -1, 0, 1, 2, 300] {
            for rest in [0, 1, 255, (1 << total) - 1, 1 << (total - 1)] {
                for value in [
                    0,
                    -(1 << 15),
                    (1 << 15) - 1,
                    -98_304,
                    numbers.below(1 << 17) - (1 << 16),
                ] {
                    for sign in [1, -1] {
                        let delta = sign * end + step;
                        let (high, low) = ((value << shift) + delta, rest - (1 << (total - 1)) - 256 * delta);
                        list.push([high, low].map(|limb| limb.rem_euclid(ORDER)));
                    }
                }
            }
        }
    }
    list
}

#[test]
fn residues_of_one_limb_have_one_reading() {
    let mut numbers = Numbers(11);
    for (kind, least, most) in UNLISTED {
        for total in 9..=most_shift(kind) as u32 {
            let ends = [least, most, -(1 << (30 - total)), 1 << (30 - total), 0];
            let near = ends
                .into_iter()
                .flat_map(|end| (-3..=3).map(move |step| ((end + step / 2) << total) + step));
            let random: Vec<i64> = (0..2000).map(|_| numbers.below(ORDER)).collect();
            for residue in near.chain(random) {
                let found = one_limb(residue.rem_euclid(ORDER), total, (least, most));
                assert!(found.len() <= 1, "{kind:?}, {residue} by {total}: {found:?}");
            }
        }
        // With one more there are two: this is what the limit is for.
        let total = most_shift(kind) as u32 + 1;
        let second = |value: i64| one_limb((value << total).rem_euclid(ORDER), total, (least, most)).len() > 1;
        assert!(
            (least - 3..=most + (1 << 16)).any(|value| (-1..=1).any(|step| second(value)
                || one_limb(
                    ((value << total) - (1 << (total - 1)) + step).rem_euclid(ORDER),
                    total,
                    (least, most)
                )
                .len()
                    > 1)),
            "{kind:?}"
        );
    }
}

#[test]
fn residues_of_two_limbs_have_one_reading() {
    let mut numbers = Numbers(5);
    let mut second = 0;
    for ((kind, least, most), narrow) in UNLISTED.into_iter().zip([7, 6]) {
        for shift in 1..=13u32 {
            for own in residues(&mut numbers, shift)
                .into_iter()
                .step_by(if shift > 9 { 7 } else { 1 })
            {
                let found = two_limbs(own, shift, (least, most), Some(narrow));
                assert!(found.len() <= 1, "{kind:?}, {own:?} by {shift}: {found:?}");
                second += usize::from(two_limbs(own, shift, (least, most), None).len() > 1);
            }
        }
    }
    // Without narrow differences some of these residues have two.
    assert!(second > 10, "{second}");
}
