//! The softmax: what holds a row of scores to its maximum, claim by claim.

use std::collections::BTreeSet;
use std::ops::Range;

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::MASKED;
use tessera_circuits::shape::Part;
use tessera_prover::check::check_row;

use crate::setup::{cases, Case};

/// One query of one head: the lanes and rows of its pairs, and of its maximum.
struct Query<'a> {
    case: &'a Case,
    /// The part of its pairs.
    part: Part,
    /// By key, of the committed blocks.
    pairs: Vec<(usize, usize)>,
    line: (usize, usize),
    /// The keys that it may look at, as numbers of pairs.
    open: Range<usize>,
}

/// The place of an entry in the lanes of a part: the first column of its lane, and its row.
fn place(case: &Case, part: Part, at: &[usize]) -> (usize, usize) {
    let width = case.shape.lane_columns(part);
    let lane = (0..case.shape.lanes(part)).find(|lane| {
        let start = case.shape.lane_start(part, *lane);
        let cuts = case.shape.cuts(part);
        let within = start.iter().zip(cuts);
        let mut within = within.map(|((axis, first), cut)| (*first..first + (1 << cut.log_lane)).contains(&at[*axis]));
        within.all(|within| within)
    });
    let lane = lane.expect("a lane");
    let mut own = at.to_vec();
    for (axis, first) in case.shape.lane_start(part, lane) {
        own[axis] -= first.min(own[axis]);
    }
    let axes = case.shape.axes(part);
    let row = axes.iter().zip(&own).fold(0, |row, (log, i)| (row << log) | i);
    assert_eq!(case.unpack(part, lane, row), at);
    (lane * width, row)
}

impl<'a> Query<'a> {
    fn of(case: &'a Case, layer: usize, head: usize, query: usize) -> Self {
        let kind = case.shape.kind_of(layer).expect("a kind");
        let index = kind.layers.iter().position(|own| *own == layer).expect("a layer");
        let committed = |key: &usize| kind.pairs.place(query, *key).is_some();
        let first = (0..=query).find(committed).expect("a committed key");
        let visible = case.shape.config.visible(layer, query, case.shape.rows);
        let keys = first..1 << case.shape.token;
        Self {
            case,
            part: kind.part,
            pairs: keys
                .map_while(|key| kind.pairs.place(query, key))
                .map(|pair| place(case, kind.part, &[vec![index, head], pair.to_vec()].concat()))
                .collect(),
            line: place(case, Part::SOFTMAX, &[layer, head, query]),
            open: visible.start - first..visible.end - first,
        }
    }

    /// Some queries of the real heads and layers of a case.
    fn some(case: &'a Case) -> Vec<Self> {
        let (layers, heads) = (case.shape.config.layers, case.shape.config.heads);
        let last = case.shape.rows - 1;
        let places = [
            (0, 0, 3),
            (layers - 1, heads - 1, 5),
            (layers - 1, 0, 0),
            (0, heads - 1, last),
        ];
        places.map(|(l, h, i)| Self::of(case, l, h, i)).into()
    }

    fn pair(&self, key: usize, column: usize) -> BaseField {
        let (first, row) = self.pairs[key];
        self.case.columns[self.part.index()][first + column][row]
    }

    fn of_line(&self, column: usize) -> BaseField {
        self.case.columns[Part::SOFTMAX.index()][self.line.0 + column][self.line.1]
    }

    /// What comes of other values in cells of the query: whether a lookup fails, and which claims do.
    fn altered(
        &self,
        pairs: &[(usize, usize, BaseField)],
        lines: &[(usize, BaseField)],
    ) -> (bool, BTreeSet<&'static str>) {
        let mut changes = Vec::new();
        let mut columns = self.case.columns.clone();
        for (key, column, new) in pairs {
            let (first, row) = self.pairs[*key];
            columns[self.part.index()][first + column][row] = *new;
            changes.push((self.part, first + column, row, *new - self.pair(*key, *column)));
        }
        for (column, new) in lines {
            let (first, row) = self.line;
            columns[Part::SOFTMAX.index()][first + column][row] = *new;
            changes.push((Part::SOFTMAX, first + column, row, *new - self.of_line(*column)));
        }
        let missing = changes.iter().any(|(part, _, row, _)| {
            let air = self.case.shape.air(*part);
            !check_row(&air, &columns[part.index()], &self.case.tables, *row).is_empty()
        });
        (missing, self.case.broken(&changes))
    }

    /// The exponential of a difference, as the table has it.
    fn exp(&self, difference: u32) -> BaseField {
        self.case.tables.of(Relation::Exp)[1][difference as usize]
    }

    /// A difference with its exponential and zero.
    fn triple(&self, key: usize, difference: u32) -> Vec<(usize, usize, BaseField)> {
        vec![
            (key, softmax::D, base(difference.into())),
            (key, softmax::EXP, self.exp(difference)),
            (key, softmax::ZERO, base(i64::from(difference == 0))),
        ]
    }
}

/// Honest rows: every key that attains the maximum is counted, and there are rows with more than one.
#[test]
fn ties_are_the_zeros_of_the_row_less_one() {
    let mut most = 0;
    for case in &cases() {
        for query in Query::some(case) {
            let zeros = (0..query.pairs.len()).filter(|key| query.pair(*key, softmax::ZERO).is_one());
            let zeros: Vec<usize> = zeros.collect();
            assert!(zeros.iter().all(|key| query.open.contains(key)));
            assert_eq!(base(zeros.len() as i64 - 1), query.of_line(softmax::TIES));
            most = most.max(zeros.len());
        }
    }
    assert!(most > 1, "no row has a tie");
}

/// A pair behind the query, or before its window, has no exponential: whatever its difference is said to be, as the table is satisfied.
#[test]
fn a_masked_pair_has_no_exponential() {
    for case in &cases() {
        for query in &Query::some(case) {
            let masked = (0..query.pairs.len()).filter(|key| !query.open.contains(key));
            let masked: Vec<usize> = masked.collect();
            // Before the window and behind the query.
            for key in masked.first().into_iter().chain(masked.last()).copied() {
                assert_eq!(query.pair(key, softmax::D), base(MASKED.into()));
                for difference in [1, 7, 200] {
                    let (missing, broken) = query.altered(&query.triple(key, difference), &[]);
                    assert!(!missing && !query.exp(difference).is_one());
                    assert!(broken.contains("masked pairs"), "{broken:?}");
                }
                // It does not attain the maximum, either: there is no zero without an exponential of one.
                let (missing, broken) = query.altered(
                    &query.triple(key, 0),
                    &[(softmax::TIES, query.of_line(softmax::TIES) + base(1))],
                );
                assert!(!missing && broken.contains("masked pairs"), "{broken:?}");
                assert!(!broken.contains("a maximum is attained"));
                let (missing, _) = query.altered(&[(key, softmax::ZERO, base(1))], &[]);
                assert!(missing);
                // Nor does it take an exponential from a pair that has one, for the same sum.
                let attains = query.open.clone().find(|key| query.pair(*key, softmax::ZERO).is_one());
                let largest = attains.expect("a maximum");
                let exp = query.pair(largest, softmax::EXP);
                let moved = [(key, softmax::EXP, exp), (largest, softmax::EXP, base(0))];
                let (_, broken) = query.altered(&moved, &[]);
                assert!(
                    broken.contains("masked pairs") && !broken.contains("softmax sums"),
                    "{broken:?}"
                );
            }
        }
    }
}

/// All differences of a row and its maximum are larger by as much: the tables have them, and no key attains the maximum, however
/// often it is said to be attained.
#[test]
fn a_maximum_above_all_scores_is_not_attained() {
    for case in &cases() {
        for query in Query::some(case) {
            for by in [1, 700] {
                let mut pairs = Vec::new();
                for key in query.open.clone() {
                    // Beyond the tables the pair is not the one that is altered.
                    let difference = query.pair(key, softmax::D).0 + by;
                    pairs.extend(query.triple(key, difference.min(MASKED)));
                }
                let fits = query
                    .open
                    .clone()
                    .all(|key| query.pair(key, softmax::D).0 + by <= MASKED);
                let max = (softmax::MAX, query.of_line(softmax::MAX) + base(by.into()));
                for ties in [0, 1, 0xffff] {
                    let (missing, broken) = query.altered(&pairs, &[max, (softmax::TIES, base(ties))]);
                    assert!(!missing);
                    assert!(broken.contains("a maximum is attained"), "{broken:?}");
                    assert_eq!(fits, !broken.contains("differences"));
                }
                // One less than none is none of 16 bits.
                let (missing, broken) = query.altered(&pairs, &[max, (softmax::TIES, base(-1))]);
                assert!(missing && !broken.contains("a maximum is attained"), "{broken:?}");
            }
        }
    }
}

/// A maximum below a score: its difference is negative, and in no table.
#[test]
fn a_maximum_below_a_score_has_no_difference() {
    for case in &cases() {
        for query in Query::some(case) {
            let mut open = query.open.clone();
            let zero = open
                .find(|key| query.pair(*key, softmax::ZERO).is_one())
                .expect("a maximum");
            let lower = [(softmax::MAX, query.of_line(softmax::MAX) - base(1))];
            let (missing, broken) = query.altered(&[(zero, softmax::D, base(-1))], &lower);
            assert!(missing);
            // With a difference that is in the table it is not that of the score.
            assert_eq!(query.open.len() > 1, broken.contains("differences"));
            let (missing, broken) = query.altered(&[], &lower);
            assert!(!missing && broken.contains("differences"), "{broken:?}");
        }
    }
}

/// A zero where the difference is none, or none where it is; and the number of ties off by one.
#[test]
fn zeros_are_those_of_the_differences() {
    for case in &cases() {
        for query in Query::some(case) {
            let ties = query.of_line(softmax::TIES);
            for key in query.open.clone() {
                let other = BaseField::one() - query.pair(key, softmax::ZERO);
                let more = if other.is_one() { base(1) } else { base(-1) };
                let (missing, broken) = query.altered(&[(key, softmax::ZERO, other)], &[(softmax::TIES, ties + more)]);
                assert!(missing && broken.is_empty(), "{broken:?}");
                // With the difference of zero it is the claim on differences.
                if other.is_one() {
                    let (missing, broken) = query.altered(&query.triple(key, 0), &[(softmax::TIES, ties + more)]);
                    assert!(!missing && broken.contains("differences"), "{broken:?}");
                }
            }
            for by in [1, -1] {
                let (missing, broken) = query.altered(&[], &[(softmax::TIES, ties + base(by))]);
                assert_eq!(broken.into_iter().collect::<Vec<_>>(), ["a maximum is attained"]);
                assert_eq!(missing, ties == base(0) && by < 0);
            }
        }
    }
}
