use super::*;

/// The three sums that are claimed of the digits of an id, from its bits: those that say the digits' values, and the range.
fn sums(digits: &Digits, bit: impl Fn(usize, usize) -> u32) -> [u32; 3] {
    let [high, low] = digits.last;
    let values = 1usize << digits.log;
    let sum = |digit: usize, from: usize, to: usize| (from..to).map(|value| bit(digit, value)).sum::<u32>();
    [
        sum(0, 0, high + 1),
        sum(1, 0, values),
        bit(0, high) + bit(0, values - 1) + sum(1, low + 1, values),
    ]
}

/// Every id of a vocabulary has digits with which all three sums are 1, and their values are the id.
#[test]
fn every_id_of_a_vocabulary_has_digits() {
    for vocab in [2, 3, 6, 7, 12, 13, 56, 57, 255, 4096, 50_257] {
        let digits = Digits::of(vocab);
        for id in 0..vocab {
            let bit = |digit, value| u32::from(digits.bit(id, digit, value));
            assert_eq!(sums(&digits, bit), [1; 3], "{id} of {vocab}");
            let value = |digit: usize| (0..1 << digits.log).find(|value| digits.bit(id, digit, *value));
            let [high, low] = [value(0), value(1)].map(Option::unwrap);
            assert_eq!((high << digits.log) + low, id, "{id} of {vocab}");
        }
    }
}

/// No bits at all with which the three sums are 1 say an id beyond the vocabulary.
#[test]
fn no_bits_say_an_id_beyond_the_vocabulary() {
    for vocab in [2, 3, 5, 6, 7, 11, 12] {
        let digits = Digits::of(vocab);
        let values = 1usize << digits.log;
        let mut ids = std::collections::BTreeSet::new();
        for bits in 0..1u32 << (2 * values) {
            let bit = |digit: usize, value: usize| (bits >> (digit * values + value)) & 1;
            if sums(&digits, bit) != [1; 3] {
                continue;
            }
            let high: usize = (0..=digits.last[0]).map(|value| value * bit(0, value) as usize).sum();
            let low: usize = (0..values).map(|value| value * bit(1, value) as usize).sum();
            ids.insert((high << digits.log) + low);
        }
        assert_eq!(ids, (0..vocab).collect(), "{vocab}");
    }
}

/// The digits are as short as they can be with a spare value of the high one.
#[test]
fn digits_have_a_spare_value() {
    for (vocab, log) in [
        (2, 1),
        (3, 2),
        (12, 2),
        (13, 3),
        (50_257, 8),
        (65_280, 8),
        (65_281, 9),
        (262_144, 10),
    ] {
        let digits = Digits::of(vocab);
        assert_eq!(digits.log, log, "{vocab}");
        assert!(digits.last[0] < digits.spare(), "{vocab}");
    }
}
