//! Every rounded value of a trace has one remainder: whatever else has the same claims is in no table.

use std::collections::BTreeSet;

use stwo::core::fields::m31::{BaseField, P as ORDER};
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::{base, requant};
use tessera_circuits::model::Limbs;
use tessera_circuits::ops::{ff, logits, softmax, stream};
use tessera_circuits::semantics::{INT15, INT16, PROB_SHIFT, ROPE_BITS};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::check::check_row;
use tessera_testkit::SplitMix;

use crate::setup::{cases, Case, Coverage};

/// Entries tried of every kind of rounded values.
const ENTRIES: usize = 4;

/// What a value is rounded with: the columns of a lane, each with its factor.
pub type Terms = Vec<(usize, i64)>;

/// A kind of rounded values.
pub struct Kind {
    pub part: Part,
    claim: &'static str,
    /// The output, and the least and largest value that its lookups allow.
    pub out: Terms,
    pub range: [i64; 2],
    /// The remainder, with its bound.
    pub rest: Terms,
    /// log2 of the bound of the remainder, where it is a constant.
    bits: Option<u32>,
    /// Column of the bound, where it is none.
    pow: Option<usize>,
    /// In two limbs: the difference, its offset and what it stays below with it.
    delta: Option<(Terms, i64, i64)>,
    /// Where all of these are, but for the output.
    pub remainder: Option<Remainder>,
    /// log2 of what a high limb counts.
    limb: u32,
}

fn limbs(at: usize) -> Terms {
    vec![(at, 256), (at + 1, 1)]
}

fn normed(limbs_of: Limbs, at: usize) -> Terms {
    match limbs_of {
        Limbs::One => vec![(at, 1)],
        Limbs::Two => limbs(at),
    }
}

/// Values that are rounded from accumulators.
fn accumulated(part: Part, out: Terms, remainder: Remainder) -> Kind {
    let two = remainder.limbs == Limbs::Two;
    let difference = vec![(remainder.d_hi(), 128), (remainder.d_lo(), 1)];
    Kind {
        part,
        claim: "accumulators",
        out,
        range: INT16,
        rest: match two {
            true => vec![(remainder.r_hi(), 256), (remainder.r_lo(), 1)],
            false => vec![(remainder.rest(), 1)],
        },
        bits: None,
        pow: Some(remainder.pow()),
        delta: two.then_some((
            difference,
            Remainder::OFFSET,
            Remainder::OFFSET + Remainder::LARGEST + 1,
        )),
        remainder: Some(remainder),
        limb: 8,
    }
}

/// All kinds of a shape.
pub fn kinds(shape: &Shape) -> Vec<Kind> {
    let mut list = vec![
        accumulated(Part::STREAM, limbs(stream::X_HI), stream::UPDATE),
        accumulated(Part::STREAM, normed(shape.normed(), stream::Y), stream::NORM),
        Kind {
            range: INT15,
            ..accumulated(Part::V, vec![(requant::OUT, 1)], requant::remainder(shape.limbs.v))
        },
        accumulated(Part::ATT, limbs(requant::OUT_HI), requant::OUTPUT),
        accumulated(Part::FF, vec![(ff::GATE, 1)], shape.ff().gate_remainder()),
        accumulated(Part::FF, vec![(ff::UP, 1)], shape.ff().up_remainder()),
        accumulated(Part::FF, limbs(ff::H_HI), ff::PRODUCT),
    ];
    for part in shape.kinds().into_iter().map(|kind| kind.part) {
        list.push(accumulated(part, vec![(softmax::S, 1)], softmax::SCORE));
        list.push(Kind {
            part,
            claim: "accumulators",
            out: vec![(softmax::P, 1)],
            range: [0, (1 << 16) - 1],
            rest: vec![(softmax::P_HI, 256), (softmax::P_LO, 1)],
            bits: Some(8 + u32::from(PROB_SHIFT)),
            pow: None,
            delta: Some((vec![(softmax::P_DELTA, 1)], softmax::P_OFFSET, 1 << 16)),
            remainder: None,
            limb: softmax::LIMB_BITS,
        });
    }
    for (part, half) in [Part::Q, Part::K].into_iter().flat_map(|part| [(part, 0), (part, 1)]) {
        let rope = shape.rope(part);
        let projected = normed(rope.projected(), rope.before(half));
        list.push(accumulated(part, projected, rope.remainder(half)));
        if rope.normed {
            list.push(accumulated(part, vec![(rope.source(half), 1)], rope.norm(half)));
        }
        list.push(Kind {
            part,
            claim: "rotations",
            out: normed(rope.out, rope.after(half)),
            range: INT16,
            rest: vec![(rope.rest(half), 1)],
            bits: Some(ROPE_BITS),
            pow: None,
            delta: None,
            remainder: None,
            limb: 8,
        });
    }
    if shape.chunk.is_last() {
        // A margin is what a logit is below, one less for the ids before the output.
        let margin = vec![(logits::MARGIN, -1)];
        list.push(Kind {
            range: [1 - (1 << 16), 0],
            ..accumulated(Part::LOGITS, margin, logits::remainder(shape.limbs.head))
        });
    }
    list
}

/// A field element as the integer next to zero.
fn integer(v: BaseField) -> i64 {
    let v = i64::from(v.0);
    if v > i64::from(ORDER) / 2 {
        v - i64::from(ORDER)
    } else {
        v
    }
}

/// One entry of a kind.
struct Entry<'a> {
    case: &'a Case,
    coverage: &'a Coverage,
    kind: &'a Kind,
    /// First column of its lane.
    first: usize,
    row: usize,
}

impl Entry<'_> {
    fn cell(&self, column: usize) -> i64 {
        integer(self.case.columns[self.kind.part.index()][self.first + column][self.row])
    }

    fn value(&self, terms: &Terms) -> i64 {
        terms.iter().map(|(c, k)| k * self.cell(*c)).sum()
    }

    /// log2 of what the output is multiplied with in one limb, or in the high limb of two; and of the bound of the remainder.
    fn bits(&self) -> [u32; 2] {
        let two = self.kind.delta.is_some();
        let shown = |pow: usize| {
            let bits = self.cell(pow).trailing_zeros();
            if two {
                bits + 8
            } else {
                bits
            }
        };
        let rest = self.kind.bits.or(self.kind.pow.map(shown)).expect("a bound");
        [if two { rest - self.kind.limb } else { rest }, rest]
    }

    /// Whether the claim holds of an output, remainder and difference that are larger by these.
    fn claimed(&self, out: i64, rest: i64, delta: i64) -> bool {
        // The change is in the column with factor 1, whatever its range.
        let change = |terms: &Terms, by: i64| {
            let (column, factor) = terms.iter().find(|(_, k)| k.abs() == 1).expect("a unit");
            (self.first + column, base(factor * by))
        };
        let mut changes = vec![change(&self.kind.out, out), change(&self.kind.rest, rest)];
        changes.extend(self.kind.delta.iter().map(|(terms, ..)| change(terms, delta)));
        !self.coverage.breaks_named(self.kind.claim, self.row, &changes)
    }

    /// The remainder and difference that an output needs modulo p if it is larger by this.
    fn needed(&self, more: i64) -> [i64; 2] {
        let [power, _] = self.bits();
        let delta = if self.kind.delta.is_some() { -(more << power) } else { 0 };
        let rest = match self.kind.delta {
            Some(_) => delta << self.kind.limb,
            None => -(more << power),
        };
        [rest, delta]
    }

    /// Whether remainder and difference that are larger by these are in their tables.
    fn in_tables(&self, rest: i64, delta: i64) -> bool {
        let [_, bits] = self.bits();
        let p = i64::from(ORDER);
        let rest = (self.value(&self.kind.rest) + rest).rem_euclid(p);
        let delta = self.kind.delta.as_ref().is_none_or(|(terms, offset, bound)| {
            let own = (self.value(terms) - offset + delta).rem_euclid(p);
            (own + offset).rem_euclid(p) < *bound
        });
        rest < 1 << bits && delta
    }
}

/// Of all outputs that their lookups allow, the honest one alone has a remainder (and a difference) in range: `OUT + 1` with
/// `REM - 2^S` is none, nor is any that wraps modulo p.
#[test]
fn no_other_output_has_the_same_claim() {
    let (mut rng, mut tried) = (SplitMix(41), BTreeSet::new());
    for case in &cases() {
        for kind in &kinds(&case.shape) {
            let part = kind.part;
            let (coverage, width) = (case.coverage(part), case.shape.lane_columns(part));
            let mut found = 0;
            while found < ENTRIES {
                let row = rng.below(1 << case.shape.log_rows(part)) as usize;
                let lane = rng.below(case.shape.lanes(part) as u64) as usize;
                // A state is a residual, too, unless it is the last one.
                let residual = kind.claim == "accumulators" && part == Part::STREAM;
                let last = case.unpack(part, lane, row)[0] + 1 == case.shape.states();
                if !case.is_owned(part, lane, row) || residual && !last {
                    continue;
                }
                found += 1;
                let entry = Entry {
                    case,
                    coverage: &coverage,
                    kind,
                    first: lane * width,
                    row,
                };
                let out = entry.value(&kind.out);
                assert!(kind.range[0] <= out && out <= kind.range[1], "{part:?}: {out}");
                assert!(entry.in_tables(0, 0), "{part:?} {}", kind.claim);
                // That the claim says what is enumerated below: it holds of what is needed, and of nothing next to it.
                for more in [1, -1, 77, 1 << 14] {
                    let [rest, delta] = entry.needed(more);
                    assert!(entry.claimed(more, rest, delta), "{part:?} {}", kind.claim);
                    let others = [
                        (more + 1, rest, delta),
                        (more, rest + 1, delta),
                        (more, rest, delta + 1),
                    ];
                    let others = &others[..if kind.delta.is_some() { 3 } else { 2 }];
                    assert!(others.iter().all(|(o, r, d)| !entry.claimed(*o, *r, *d)));
                }
                let fitting = (kind.range[0]..=kind.range[1]).filter(|other| {
                    let [rest, delta] = entry.needed(other - out);
                    entry.in_tables(rest, delta)
                });
                assert_eq!(fitting.collect::<Vec<_>>(), [out], "{part:?} {}", kind.claim);
                tried.insert((part, kind.claim, kind.delta.is_some(), kind.out[0].0));
            }
        }
    }
    // Every kind, those of either number of limbs in both.
    assert!(tried.len() >= 22, "{}: {tried:?}", tried.len());
}

/// The range of every column of a value: of one column that of the value, of two the low one has what the factor of the high
/// one leaves.
fn ranges(terms: &Terms, [least, most]: [i64; 2]) -> Vec<(usize, [i64; 2])> {
    match terms[..] {
        [(column, 1)] => vec![(column, [least, most])],
        [(column, -1)] => vec![(column, [-most, -least])],
        [(high, factor), (low, 1)] => vec![
            (high, [least.div_euclid(factor), most.div_euclid(factor)]),
            (low, [0, factor - 1]),
        ],
        _ => panic!("{terms:?}"),
    }
}

/// The tables are what the enumeration above takes for granted: the ends of every range are in them, what is next to the ends is
/// not. The ends of a gate are without its SiLU.
#[test]
fn ranges_of_outputs_and_remainders_are_looked_up() {
    let mut tried = BTreeSet::new();
    for case in &cases() {
        for kind in &kinds(&case.shape) {
            let part = kind.part;
            let (air, coverage) = (case.shape.air(part), case.coverage(part));
            let mut own = case.columns[part.index()].clone();
            let entry = Entry {
                case,
                coverage: &coverage,
                kind,
                first: 0,
                row: 0,
            };
            let [_, bits] = entry.bits();
            let mut all = ranges(&kind.out, kind.range);
            all.extend(ranges(&kind.rest, [0, (1 << bits) - 1]));
            match &kind.delta {
                // The low limb has all values of a byte.
                Some((terms, ..)) if terms.len() == 2 => {
                    all.extend([(terms[0].0, [0, (1 << 16) - 1]), (terms[1].0, [0, (1 << 8) - 1])]);
                }
                Some((terms, _, bound)) => all.extend(ranges(terms, [0, bound - 1])),
                None => {}
            }
            for (column, [least, most]) in all {
                let old = own[column][0];
                let mut missing = |value: i64| {
                    own[column][0] = base(value);
                    !check_row(&air, &own, &case.tables, 0).is_empty()
                };
                assert!(
                    [least - 1, most + 1].into_iter().all(&mut missing),
                    "{part:?}, column {column}"
                );
                // In range another value is in the table, too, but not next to the function of the old one.
                let capped = [Part::SCORES, Part::WINDOWED].contains(&part)
                    && case.shape.scores().capped
                    && column == softmax::S;
                let argument = capped || part == Part::FF && column == ff::GATE;
                assert!(
                    argument || ![least, most].into_iter().any(&mut missing),
                    "{part:?}, column {column}"
                );
                own[column][0] = old;
                tried.insert((part, column, case.shape.lane_columns(part)));
            }
        }
    }
    assert!(tried.len() > 80, "{} columns", tried.len());
}
