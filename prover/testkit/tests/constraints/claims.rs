//! The list of claims: every committed column is under a claim.

use std::collections::BTreeSet;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::base;
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::requant;
use tessera_circuits::claims::{batch, Batch, Tensor};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::ops::{ff, logits, norms, softmax, stream};
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::wiring::MAX_CLAIMS;
use tessera_prover::check::{check_row, claim_holds};
use tessera_testkit::{fixture_size_config, odd_config, ragged_config, random_model, SplitMix};

use crate::setup::{cases, random, three_layers, Case};

/// The claims on a remainder of accumulators.
fn of_remainder(remainder: Remainder, column: usize) -> Option<&'static str> {
    let own = remainder.at..remainder.at + Remainder::columns(remainder.limbs);
    own.contains(&column).then_some("accumulators")
}

/// The claims that hold a cell of an entry of the model: a change of the cell alone breaks these, and no others.
fn expected(case: &Case, part: Part, column: usize, at: &[usize]) -> Vec<&'static str> {
    match part {
        Part::STREAM => of_stream(case, column, at),
        Part::NORMS => of_norms(column),
        Part::Q | Part::K => of_rotation(case, part, column, at),
        Part::V | Part::ATT => of_requantised(case, part, column, at),
        Part::SCORES | Part::WINDOWED => of_scores(case, part, column, at),
        Part::SOFTMAX => of_softmax(case, column, at),
        Part::FF => of_ff(&case.shape, column),
        Part::LOGITS => of_logits(case, column, at),
        Part::TOPS => vec!["accumulators"],
        Part::Q_NORMS | Part::K_NORMS => of_head_norms(case, part, column, at),
        _ => panic!("what holds the cells of {part:?}?"),
    }
}

fn of_stream(case: &Case, column: usize, at: &[usize]) -> Vec<&'static str> {
    use stream::*;
    let (shape, config) = (&case.shape, &case.shape.config);
    let last = shape.chunk.is_last();
    let state = at[0] + 1 == shape.states();
    let generated = case.statement.generated().any(|(row, _)| row == at[1]);
    match column {
        X_HI | X_LO => {
            let mut own = vec!["accumulators", "states, sums of squares and roots", "states"];
            // The squares of padding are not summed.
            own.extend((at[2] < config.hidden).then_some("weighted states"));
            own.extend((state && !last).then_some("what leaves the chunk"));
            own
        }
        _ if column >= Y && state && last && generated => {
            vec!["accumulators", "generated positions", "normed state"]
        }
        _ if column >= Y => vec!["accumulators", "normed state"],
        _ => [UPDATE, NORM]
            .into_iter()
            .filter_map(|own| of_remainder(own, column))
            .collect(),
    }
}

fn of_norms(column: usize) -> Vec<&'static str> {
    use norms::*;
    match column {
        GAP..ROOT | ROOM_HI => vec![],
        SUM..CROSS_HI => vec!["accumulators", "states, sums of squares and roots"],
        QUOTIENT..LEFT => vec!["accumulators", "reciprocal roots"],
        ROOT..REST => vec!["reciprocal roots", "states, sums of squares and roots"],
        _ => vec!["accumulators"],
    }
}

fn of_head_norms(case: &Case, part: Part, column: usize, at: &[usize]) -> Vec<&'static str> {
    use norms::*;
    let config = &case.shape.config;
    let heads = if part == Part::Q_NORMS {
        config.heads
    } else {
        config.kv_heads
    };
    // Products of padded heads have the weight 0.
    let real = at[2] < heads;
    match column {
        _ if !real => vec![],
        SUM..CROSS_HI => vec!["accumulators", "heads, sums of squares and roots"],
        QUOTIENT..LEFT => vec!["accumulators", "reciprocal roots of heads"],
        ROOT..REST => vec!["reciprocal roots of heads", "heads, sums of squares and roots"],
        _ => of_norms(column),
    }
}

fn of_rotation(case: &Case, part: Part, column: usize, at: &[usize]) -> Vec<&'static str> {
    let (shape, config) = (&case.shape, &case.shape.config);
    let rope = shape.rope(part);
    let half = usize::from(column >= rope.before(1));
    let operand = match part {
        Part::Q => Some("queries"),
        // No query reads a padded head, and there are such if others have more tiles.
        _ => (at[2] < config.kv_heads).then_some("keys"),
    };
    match column {
        _ if rope.normed && column < rope.source(half) => {
            let heads = if part == Part::Q { config.heads } else { config.kv_heads };
            let mut own = vec!["accumulators", "heads"];
            if at[2] < heads {
                own.extend(["weighted heads", "heads, sums of squares and roots"]);
            }
            own
        }
        _ if rope.normed && of_remainder(rope.norm(half), column).is_some() => vec!["accumulators"],
        // A padded pair is rotated by no angle.
        _ if column == rope.source(half) && at[3] < config.head_dim / 2 => vec!["accumulators", "rotations"],
        _ if column == rope.source(half) => vec!["accumulators"],
        _ if column == rope.rest(half) => vec!["rotations"],
        _ => match of_remainder(rope.remainder(half), column) {
            Some(name) => vec![name],
            None => operand.into_iter().chain(["rotations"]).collect(),
        },
    }
}

fn of_requantised(case: &Case, part: Part, column: usize, at: &[usize]) -> Vec<&'static str> {
    let (shape, config) = (&case.shape, &case.shape.config);
    let (remainder, operand) = match part {
        Part::ATT => (requant::OUTPUT, Some("attention output")),
        _ => (
            requant::remainder(shape.limbs.v),
            (at[2] < config.kv_heads).then_some("values"),
        ),
    };
    match of_remainder(remainder, column) {
        Some(name) => vec![name],
        None => ["accumulators"].into_iter().chain(operand).collect(),
    }
}

fn of_scores(case: &Case, part: Part, column: usize, at: &[usize]) -> Vec<&'static str> {
    use softmax::*;
    let config = &case.shape.config;
    // Padded heads have no softmax.
    let open = case.is_open(part, at);
    let real = at[1] < config.heads;
    let capped = case.shape.scores().capped;
    match column {
        CAPPED if real && open => vec!["differences"],
        CAPPED => vec![],
        S if !capped && real && open => vec!["accumulators", "differences"],
        S => vec!["accumulators"],
        D if real && open => vec!["differences"],
        EXP if real && open => vec!["softmax sums", "sums and exponentials"],
        EXP if real => vec!["masked pairs", "softmax sums", "sums and exponentials"],
        // Multiplied by nothing.
        EXP => vec!["sums and exponentials"],
        ZERO if real => vec!["a maximum is attained"],
        // By a lookup alone.
        D | ZERO => vec![],
        P => vec!["accumulators", "probabilities"],
        P_HI | P_LO | P_DELTA => vec!["accumulators"],
        _ => of_remainder(SCORE, column).into_iter().collect(),
    }
}

fn of_ff(shape: &Shape, column: usize) -> Vec<&'static str> {
    use ff::*;
    let air = shape.ff();
    match column {
        GATE => vec!["accumulators"],
        SILU => vec!["gates"],
        UP => vec!["accumulators", "up projections"],
        H_HI | H_LO => vec!["accumulators", "mlp product"],
        _ => [PRODUCT, air.gate_remainder(), air.up_remainder()]
            .into_iter()
            .filter_map(|remainder| of_remainder(remainder, column))
            .collect(),
    }
}

fn of_logits(case: &Case, column: usize, at: &[usize]) -> Vec<&'static str> {
    let shape = &case.shape;
    match column {
        logits::MARGIN if case.statement.output[at[0]] as usize == at[1] => vec!["accumulators", "chosen logits"],
        logits::MARGIN => vec!["accumulators"],
        _ => of_remainder(logits::remainder(shape.limbs.head), column)
            .into_iter()
            .collect(),
    }
}

fn of_softmax(case: &Case, column: usize, at: &[usize]) -> Vec<&'static str> {
    use softmax::*;
    let config = &case.shape.config;
    match column {
        SUM_HI | SUM_LO if at[1] >= config.heads => vec!["sums and exponentials"],
        _ if at[1] >= config.heads => vec![],
        MAX => vec!["differences"],
        TIES => vec!["a maximum is attained"],
        SUM_HI | SUM_LO => vec!["softmax sums", "sums and exponentials"],
        RECIP_HI | RECIP_LO => vec!["reciprocals"],
        HIGH | CARRY | LEFT_HI | LEFT_LO => vec!["accumulators"],
        // By a lookup alone.
        _ => vec![],
    }
}

/// The columns of a part that claims are made of, ascending: all that are committed to but those that stand in lookups alone.
fn claimed(shape: &Shape, part: Part) -> Vec<usize> {
    let alone = |column: usize| match (part, column % shape.lane_columns(part)) {
        (Part::SOFTMAX, own) => own == softmax::GAP_HI,
        (Part::NORMS | Part::Q_NORMS | Part::K_NORMS, own) => {
            (norms::GAP..norms::ROOT).contains(&own) || own == norms::ROOM_HI
        }
        _ => false,
    };
    let mut columns = shape.committed(part);
    columns.retain(|column| !alone(*column));
    columns
}

/// Every committed cell of every part: outputs, remainders, differences, maxima, margins, probabilities. What is overwritten is
/// caught by the claims that are named here.
#[test]
fn every_cell_is_held_by_its_claims() {
    let (mut seen, cases) = (BTreeSet::new(), cases());
    for (i, case) in cases.iter().enumerate() {
        for &part in case.shape.parts() {
            let coverage = case.coverage(part);
            let columns: BTreeSet<usize> = coverage.claims.iter().flat_map(|(_, c)| c.keys().copied()).collect();
            assert_eq!(columns, claimed(&case.shape, part).into_iter().collect(), "{part:?}");
            for row in 0..1usize << case.shape.log_rows(part) {
                for column in case.shape.committed(part) {
                    let (lane, own) = case.lane(part, column);
                    if !case.is_owned(part, lane, row) {
                        continue;
                    }
                    let at = case.unpack(part, lane, row);
                    let mut names = coverage.names(column, row);
                    names.remove("clipped values");
                    assert_eq!(
                        names,
                        expected(case, part, own, &at).into_iter().collect(),
                        "case {i}, {part:?}, column {own} at {at:?}"
                    );
                    seen.extend(names);
                }
            }
        }
    }
    // All claims there are, but for that on clipped values, which weighs them alone.
    let names = cases
        .iter()
        .flat_map(|case| case.claims.iter().map(|c| c.name).collect::<Vec<_>>());
    seen.insert("clipped values");
    assert_eq!(seen, names.collect());
}

/// The claim on clipped values holds their outputs, the logits that clipped ones are measured from, and nothing else.
#[test]
fn clipped_outputs_are_held_by_a_claim_of_their_own() {
    let case = &cases()[3];
    let claim = case.claims.iter().find(|c| c.name == "clipped values").expect("it");
    assert_eq!(claim.groups.is_empty(), case.statistics.clips.is_empty());
    let mut kinds = BTreeSet::new();
    let mut cells = 0;
    for &part in case.shape.parts() {
        let coverage = case.coverage(part);
        let Some((_, weights)) = coverage.claims.iter().find(|(name, _)| *name == "clipped values") else {
            continue;
        };
        let width = case.shape.lane_columns(part);
        let axes = case.shape.full_axes(part);
        let own = case
            .statistics
            .clips
            .iter()
            .filter(|c| usize::from(c.part) == part.index());
        let mut places: BTreeSet<(Vec<usize>, u8)> = own.map(|c| (c.place(&axes), c.tensor)).collect();
        if part == Part::TOPS {
            // A clipped logit is measured from that of its output token.
            let logits = case.shape.full_axes(Part::LOGITS);
            let clips = case.statistics.clips(Rounded::LOGIT);
            places.extend(clips.map(|c| (vec![c.place(&logits)[0]], 0)));
            places.retain(|(at, _)| at[0] < case.shape.outputs);
        }
        kinds.extend(places.iter().map(|(_, tensor)| (part, *tensor)));
        // Every clipped value has one or two columns of its tensor, and no other cell has any weight.
        let mut found = BTreeSet::new();
        for (column, weights) in weights {
            for (row, weight) in weights.iter().enumerate().filter(|(_, w)| !w.is_zero()) {
                let at = case.unpack(part, column / width, row);
                let tensors: Vec<u8> = (0..6).filter(|t| places.contains(&(at.clone(), *t))).collect();
                assert!(
                    !tensors.is_empty(),
                    "{part:?}, column {column} at {at:?} weighs {weight}"
                );
                found.insert(at);
                cells += 1;
            }
        }
        places.retain(|(at, _)| !found.contains(at));
        assert_eq!(places, BTreeSet::new(), "{part:?}: no clipped value is left out");
    }
    assert!(
        kinds.len() >= 8 && cells > case.statistics.clips.len() / 2,
        "{kinds:?}, {cells} cells"
    );
}

/// A whole row copied over another one satisfies every lookup if the bounds of their remainders are the same, so only claims can
/// tell. If they are not, a remainder may be in range for the one alone.
#[test]
fn rows_cannot_be_exchanged() {
    let mut rng = SplitMix(29);
    for case in &cases() {
        for &part in case.shape.parts() {
            let coverage = case.coverage(part);
            let mut own = case.columns[part.index()].clone();
            let air = case.shape.air(part);
            let committed: BTreeSet<usize> = case.shape.committed(part).into_iter().collect();
            let rows = 1u64 << case.shape.log_rows(part);
            let mut tried = 0;
            let width = case.shape.lane_columns(part);
            while tried < 400 {
                let [from, to] = [rng.below(rows) as usize, rng.below(rows) as usize];
                let lane = rng.below(case.shape.lanes(part) as u64) as usize;
                let head = case.padded_head(part, &case.unpack(part, lane, to));
                if head || !case.is_owned(part, lane, to) {
                    continue;
                }
                tried += 1;
                let columns = lane * width..(lane + 1) * width;
                let old: Vec<_> = own[columns.clone()].iter().map(|c| c[to]).collect();
                // The public columns stay.
                let moved = || columns.clone().filter(|c| committed.contains(c));
                let changes: Vec<_> = moved().map(|c| (c, own[c][from] - own[c][to])).collect();
                moved().for_each(|c| own[c][to] = own[c][from]);
                let alike = columns
                    .clone()
                    .all(|c| committed.contains(&c) || own[c][from] == own[c][to]);
                let missing = !check_row(&air, &own, &case.tables, to).is_empty();
                assert!(!(alike && missing), "{part:?}, row {from} over row {to}");
                own[columns].iter_mut().zip(&old).for_each(|(c, v)| c[to] = *v);
                let same = changes.iter().all(|(_, by)| by.is_zero());
                let told = coverage.breaks(to, &changes) || missing;
                let changed: Vec<_> = changes.iter().filter(|(_, by)| !by.is_zero()).collect();
                // A narrow difference has two forms, of which honest provers write one: `127 D_HI + D_LO`, where `D_LO` is 127 or 0.
                let other_form = match changed[..] {
                    [(high, by), (low, less)] => low - high == 1 && (*by * base(127) + *less).is_zero(),
                    _ => false,
                };
                let right = if same { !told } else { told || other_form };
                assert!(right, "{part:?}, row {from} over row {to}: {changed:?}");
            }
        }
    }
}

/// The shortcut of the other tests, a claim broken by its weight, against the claims themselves.
#[test]
fn coverage_is_what_the_claims_say() {
    let [whole, .., middle, _] = cases();
    let mut rng = SplitMix(31);
    for mut case in [whole, middle] {
        for &part in case.shape.clone().parts() {
            let coverage = case.coverage(part);
            let rows = 1u64 << case.shape.log_rows(part);
            for column in case.shape.committed(part) {
                let row = rng.below(rows) as usize;
                let old = case.columns[part.index()][column][row];
                case.columns[part.index()][column][row] += random(&mut rng);
                let broken = case.claims.iter().any(|c| {
                    let touched = c.groups.iter().any(|g| g.part == part);
                    touched && !claim_holds(c, &case.columns)
                });
                assert_eq!(
                    broken,
                    coverage.covers(column, row),
                    "{part:?}, column {column}, row {row}"
                );
                case.columns[part.index()][column][row] = old;
            }
        }
    }
}

#[test]
fn claims_hold_and_are_few_in_every_shape() {
    let shapes = [
        (three_layers(), 6, 5),
        // One token row.
        (odd_config(), 1, 1),
        (ragged_config(), 9, 4),
        (fixture_size_config(), 30, 4),
    ];
    let whole =
        shapes.map(|(config, prompt, tokens)| Case::new(random_model(config, WeightFormat::Int16, 37), prompt, tokens));
    let [.., first, middle, last] = cases();
    for case in whole.into_iter().chain([first, middle, last]) {
        assert!(case.claims.len() <= MAX_CLAIMS, "{} claims", case.claims.len());
        for claim in &case.claims {
            assert!(claim_holds(claim, &case.columns), "{}", claim.name);
        }
        let count = case.claims.len();
        let (shape, columns) = (case.shape, case.columns);
        let mut batched = batch(case.claims, SecureField::from_u32_unchecked(3, 1, 4, 1));
        assert!(well_formed(&batched, &shape));
        assert!(batched.groups.len() <= 12 * count, "{} groups", batched.groups.len());
        for &part in shape.parts() {
            let columns = &columns[part.index()];
            assert_eq!(batched.columns(part), claimed(&shape, part), "{part:?}");
            assert_eq!(columns.len(), shape.columns(part));
            assert!(columns.iter().all(|c| c.len() == 1 << shape.log_rows(part)));
        }
        // And it can tell: a column or an axis that the part does not have.
        let group = &mut batched.groups[0];
        group.columns.push((shape.columns(group.part), SecureField::one()));
        assert!(!well_formed(&batched, &shape));
        batched.groups[0].columns.pop();
        batched.groups[0].weights[0].pop();
        assert!(!well_formed(&batched, &shape));
    }
}

/// Whether every group fits its part: weight vectors of the lengths of its axes, each of one axis or of several together. It
/// holds by construction.
fn well_formed(batch: &Batch, shape: &Shape) -> bool {
    batch.groups.iter().all(|g| {
        let fits = |tensor: &Tensor| {
            let axes = shape.axes(g.part);
            let mut rest = axes.iter();
            let each = tensor.iter().all(|weight| {
                let mut own = *rest.next().unwrap_or(&u32::MAX);
                while own < weight.log_len() {
                    own = own.saturating_add(*rest.next().unwrap_or(&u32::MAX));
                }
                own == weight.log_len()
            });
            // Axes of one entry need no weight of their own.
            each && rest.all(|log| *log == 0)
        };
        g.weights.iter().all(fits) && g.columns.iter().all(|(c, _)| *c < shape.columns(g.part))
    })
}
