//! One answer: whatever weights a key commits to, and whatever norms of columns it claims, no rounded value of a trace has a second reading
//! modulo `p` (docs/security.md, lemma 25).

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{catch_unwind, AssertUnwindSafe};

use stwo::core::fields::m31::P;
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::model::{ChannelShift, ColumnNorms, Limbs, MatmulKind, ModelConfig, WeightFormat};
use tessera_circuits::rounding::ends;
use tessera_circuits::semantics::INT16;
use tessera_circuits::shape::Part;
use tessera_model::QuantisedModel;
use tessera_testkit::{
    capped_config, edit, extreme_model, normed_config, odd_config, post_normed_config, random_model, unrooted_key,
    SplitMix,
};

use crate::roundings::{kinds, Kind};
use crate::setup::Case;

const ORDER: i64 = P as i64;
/// Keys that are tried.
const KEYS: u64 = 300;
/// Entries of every kind of rounded values and key.
const ENTRIES: usize = 40;

/// One shift for all channels, or one for each.
fn shifts(rng: &mut SplitMix, channels: usize, most: u64) -> ChannelShift {
    let count = if rng.below(2) == 0 { 1 } else { channels };
    ChannelShift((0..count).map(|_| 1 + rng.below(most) as u8).collect())
}

/// Norms that integers of these bits could have, and that have nothing to do with the weights.
fn false_norms(rng: &mut SplitMix, inputs: u64, most: u64) -> ColumnNorms {
    let l1 = 1 + rng.below(inputs * most);
    let (least, largest) = (l1.max((l1 * l1).div_ceil(inputs)), l1 * most);
    let square = if rng.below(2) == 0 {
        least
    } else {
        least + rng.below(largest - least + 1)
    };
    ColumnNorms { l1, square }
}

/// A key with weights of all sizes, shifts at random and norms that are false.
fn hostile(seed: u64) -> QuantisedModel {
    let mut rng = SplitMix(seed);
    let configs = [odd_config(), normed_config(), post_normed_config(), capped_config()];
    let config = ModelConfig {
        layers: 1,
        ..configs[seed as usize % configs.len()].clone()
    };
    let format = [WeightFormat::Int8, WeightFormat::Int16][rng.below(2) as usize];
    let mut model = match rng.below(3) {
        0 => extreme_model(config, format, seed),
        _ => random_model(config, format, seed),
    };
    for m in model.config.matmuls() {
        let most = model.params.max_weight(m.id.kind()) as i16;
        let small = rng.below(10) as u32;
        edit(&mut model, m.id, |matrix| {
            for column in matrix.chunks_exact_mut(m.in_dim) {
                match rng.below(4) {
                    0 => column.fill(most),
                    1 => column.iter_mut().for_each(|w| *w >>= small),
                    _ => {}
                }
            }
        });
    }
    let dims: BTreeMap<MatmulKind, (usize, usize)> = model
        .config
        .matmuls()
        .iter()
        .map(|m| (m.id.kind(), (m.in_dim, m.out_dim)))
        .collect();
    let out = |kind| dims.get(&kind).map_or(1, |(_, out)| *out);
    let params = &mut model.params;
    let most = [6, 13][rng.below(2) as usize];
    params.head = shifts(&mut rng, out(MatmulKind::Head), most);
    for layer in &mut params.layers {
        for (own, kind) in [
            (&mut layer.attention.q, MatmulKind::Q),
            (&mut layer.attention.k, MatmulKind::K),
            (&mut layer.attention.v, MatmulKind::V),
            (&mut layer.mlp.gate, MatmulKind::Gate),
            (&mut layer.mlp.up, MatmulKind::Up),
        ] {
            *own = shifts(&mut rng, out(kind), most);
        }
        if rng.below(2) == 0 {
            layer.attention.o.body = shifts(&mut rng, out(MatmulKind::O), 13);
            layer.mlp.down.body = shifts(&mut rng, out(MatmulKind::Down), 13);
        }
    }
    let kinds = model.config.matmuls();
    let kinds = kinds.iter().filter(|m| m.id.kind() != MatmulKind::Embed);
    model.params.columns = kinds
        .map(|m| false_norms(&mut rng, m.in_dim as u64, model.params.max_weight(m.id.kind()) as u64))
        .collect();
    model
}

/// A rounded value of a trace, with the rules for the values that a proof may claim in its place.
struct Site<'a> {
    remainder: Remainder,
    /// log2 of the bound of the remainder.
    total: u32,
    /// Whether a value needs no entry in the list of clipped ones.
    unlisted: &'a dyn Fn(i64) -> bool,
    /// The ends that a listed value lies beyond.
    ends: [i64; 2],
}

impl Site<'_> {
    /// The log of the factor of a value in its claim.
    fn bits(&self) -> u32 {
        match self.remainder.limbs {
            Limbs::One => self.total,
            Limbs::Two => self.total - 8,
        }
    }

    /// Whether a value may be claimed, and with a difference of which range.
    fn ranges(&self, value: i64) -> Vec<[i64; 2]> {
        let mut all = Vec::new();
        let [least, most] = self.ends;
        let listed = !(least..=most).contains(&value) && value.abs() < 1 << (30 - self.bits());
        for (may, entry) in [((self.unlisted)(value), None), (listed, Some(value))] {
            if may {
                let narrow = self.remainder.is_narrow(self.bits(), entry);
                all.push(match narrow {
                    true => [-(1 << 22) + (1 << 15), 127 * 0xffff + 255 - (1 << 22) + (1 << 15)],
                    false => [-(1 << 22), Remainder::LARGEST],
                });
            }
        }
        all
    }

    /// Other values that explain the same residues as this one with its remainder and difference, of both limbs.
    fn others_in_two(&self, value: i64, rest: i64, difference: i64) -> BTreeSet<i64> {
        let (bits, bound) = (self.bits(), 1i64 << self.total);
        let mut found = BTreeSet::new();
        // 2^s a + b = m p, and 256 b - c = n p.
        for n in -1..=1 {
            for b in (n * ORDER - bound).div_euclid(256)..=(n * ORDER + bound).div_euclid(256) {
                let c = 256 * b - n * ORDER;
                for m in (-2..=2).filter(|m| (m * ORDER - b) % (1 << bits) == 0) {
                    let a = (m * ORDER - b) >> bits;
                    let fits = |[least, most]: &[i64; 2]| (*least..=*most).contains(&(difference + b));
                    if a != 0 && (0..bound).contains(&(rest + c)) && self.ranges(value + a).iter().any(fits) {
                        found.insert(value + a);
                    }
                }
            }
        }
        found
    }

    /// Other values that explain the same residue in one limb.
    fn others_in_one(&self, value: i64, rest: i64) -> BTreeSet<i64> {
        let bound = 1i64 << self.total;
        let near = (-2..=2).flat_map(|m| {
            let middle = (m * ORDER).div_euclid(bound);
            (middle - 1..=middle + 1).map(move |a| (a, m * ORDER - (a << self.total)))
        });
        let fits =
            |(a, c): &(i64, i64)| *a != 0 && (0..bound).contains(&(rest + c)) && !self.ranges(value + a).is_empty();
        near.filter(fits).map(|(a, _)| value + a).collect()
    }
}

/// Second readings of entries of a kind: how many entries were tried, and what was found.
fn second(case: &Case, kind: &Kind, rng: &mut SplitMix) -> (usize, BTreeSet<i64>) {
    let (shape, part) = (&case.shape, kind.part);
    let Some(remainder) = kind.remainder else {
        return (0, BTreeSet::new());
    };
    let (width, mut tried, mut found) = (shape.lane_columns(part), 0, BTreeSet::new());
    let tensors = &shape.lane_air(part).powers;
    let tensor = tensors
        .iter()
        .find(|(column, _)| *column == remainder.pow())
        .map(|(_, tensor)| *tensor);
    let axes = shape.full_axes(part);
    let clips = case
        .statistics
        .clips
        .iter()
        .filter(|clip| usize::from(clip.part) == part.index());
    let clips: BTreeMap<Vec<usize>, i64> = clips
        .filter(|clip| Some(clip.tensor) == tensor)
        .map(|clip| (clip.place(&axes), i64::from(clip.excess)))
        .collect();
    for _ in 0..ENTRIES {
        let row = rng.below(1 << shape.log_rows(part)) as usize;
        let lane = rng.below(shape.lanes(part) as u64) as usize;
        let place = case.unpack(part, lane, row);
        if !case.is_owned(part, lane, row) {
            continue;
        }
        let cell = |column: usize| {
            let value = i64::from(case.columns[part.index()][lane * width + column][row].0);
            if value > ORDER / 2 {
                value - ORDER
            } else {
                value
            }
        };
        let sum = |terms: &[(usize, i64)]| terms.iter().map(|(column, factor)| factor * cell(*column)).sum::<i64>();
        // A logit is below that of the output token by its margin, less one of a lower id.
        let top = match part {
            Part::LOGITS => {
                let output = case.statement.output[place[0]] as usize;
                case.top(place[0]) - i64::from(place[1] < output)
            }
            _ => 0,
        };
        let excess = clips.get(&place).copied();
        let value = top + sum(&kind.out) + excess.unwrap_or(0);
        let [least, most] = kind.range.map(|end| end + top);
        let unlisted = |value: i64| (least..=most).contains(&value);
        let power = cell(remainder.pow()).trailing_zeros();
        let site = Site {
            remainder,
            total: if remainder.limbs == Limbs::Two {
                power + 8
            } else {
                power
            },
            unlisted: &unlisted,
            ends: ends(part.index()),
        };
        let rest = sum(&kind.rest);
        tried += 1;
        found.extend(match remainder.limbs {
            Limbs::One => site.others_in_one(value, rest),
            Limbs::Two => {
                let narrow = remainder.is_narrow(site.bits(), excess.map(|_| value));
                let (radix, offset) = match narrow {
                    true => (127, (1 << 22) - (1 << 15)),
                    false => (128, 1 << 22),
                };
                let difference = radix * cell(remainder.d_hi()) + cell(remainder.d_lo()) - offset;
                site.others_in_two(value, rest, difference)
            }
        });
    }
    (tried, found)
}

#[test]
fn no_rounding_of_a_hostile_key_has_a_second_reading() {
    let (mut rng, mut keys, mut tried) = (SplitMix(9), 0, BTreeMap::<_, usize>::new());
    for seed in 0..KEYS {
        let model = hostile(seed);
        if unrooted_key(&model).check().is_err() {
            continue;
        }
        // Of some there is no proof, because a value is too large for the list.
        let Ok(case) = catch_unwind(AssertUnwindSafe(|| Case::new(model, 5, 2))) else {
            continue;
        };
        keys += 1;
        for kind in &kinds(&case.shape) {
            let (entries, found) = second(&case, kind, &mut rng);
            assert!(found.is_empty(), "key {seed}, {:?}: {found:?}", kind.part);
            let limbs = kind.remainder.map(|own| own.limbs);
            *tried.entry((kind.part, kind.out[0].0, limbs)).or_default() += entries;
        }
    }
    println!("{keys} keys of {KEYS}: {tried:?}");
    assert!(keys > KEYS / 4, "only {keys} keys are valid and have a proof");
    assert!(tried.len() > 20, "{tried:?}");
}

/// The search finds second readings where there are some: with shifts that are larger by one, and with differences that are never narrow.
#[test]
fn second_readings_are_found_where_there_are_some() {
    let site = |limbs, total, narrow, unlisted| Site {
        remainder: Remainder { at: 0, limbs, narrow },
        total,
        unlisted,
        ends: INT16,
    };
    let int16 = |value: i64| (-(1 << 15)..1 << 15).contains(&value);
    let logit = |value: i64| (-98_304..1 << 15).contains(&value);
    // The attack on Head: 65,277 is listed, and -65,795 is a margin.
    assert_eq!(
        site(Limbs::One, 14, None, &logit).others_in_one(65_277, 9),
        [-65_795].into()
    );
    assert_eq!(site(Limbs::One, 13, None, &logit).others_in_one(65_277, 9), [].into());
    assert_eq!(
        site(Limbs::One, 15, None, &int16).others_in_one(-(1 << 15), 0),
        [(1 << 15) - 1].into()
    );
    let least = -(1 << 22);
    let wide = site(Limbs::Two, 16, None, &int16);
    let narrow = site(Limbs::Two, 16, Remainder::NARROW, &int16);
    assert_eq!(wide.others_in_two(5, 65_535, least), [-32_762].into());
    assert_eq!(narrow.others_in_two(5, 65_535, least + (1 << 15)), [].into());
}
