//! Logits and arg max of the generated positions (docs/protocol.md, section 16.8), Part Logits has one
//! row per (output token, vocabulary entry), part Tops one per output token.

use stwo::core::fields::qm31::SecureField;

use crate::air::gadgets::Remainder;
use crate::air::lookups::{Linear, Lookup};
use crate::air::{base, Air};
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::eq_table;
use crate::model::{Limbs, MatmulKind, MatrixId};
use crate::rounding::Rounded;
use crate::scalar::{Scalar, Source, Word};
use crate::shape::{Along, Instance, Part, Product, Rows, Shape, Shifts};
use crate::sizes::{Extent, Sizes};
use crate::statement::HIDDEN;
use crate::wiring::{claim, eq, felt, padded, Claims, Public, Rounding};

use super::operator::{Finals, Operator};

/// Index of the largest logit, the lowest index on a tie.
pub fn arg_max(logits: &[i16]) -> usize {
    let first = (0, i16::MIN);
    let best = logits
        .iter()
        .enumerate()
        .fold(first, |best, (i, &v)| if v > best.1 { (i, v) } else { best });
    best.0
}

/// The choice of the output tokens.
pub struct Choice;

impl Part {
    /// (output token, vocabulary entry)
    pub const LOGITS: Self = Self::new(9, "Logits");
    /// (output token)
    pub const TOPS: Self = Self::new(12, "Tops");
}

impl Product {
    /// The last normed state of the generated positions times head; variables (feature).
    pub const HEAD: Self = Self::new(6, "Head");
}

impl Rounded {
    /// Logits.
    pub const LOGIT: Self = Self::of(Part::LOGITS, 0);
}

/// By how much the logit is below that of the output token, less one below its id: at least 0.
pub const MARGIN: usize = 0;

/// Whether the entry is the output token, which is a bit: the column that a part has behind all others if ids of output tokens are hidden.
pub const fn chosen(limbs: Limbs) -> usize {
    1 + Remainder::columns(limbs)
}

/// The column of part Tops: the logit of an output token. It is an int16, and not the smallest one.
pub const TOP: usize = 0;

/// The least shift whose differences are narrow: a logit may be as far as -98,304 without being listed.
const NARROW: u8 = 6;

/// Of the logit.
pub const fn remainder(limbs: Limbs) -> Remainder {
    Remainder {
        at: 1,
        limbs,
        narrow: Some(NARROW),
    }
}

/// The columns of logits and their distance from the output token's. If ids of output tokens are hidden, they are among the columns: a margin
/// of which `65,535` more are in Range16, too, is 0.
fn columns(limbs: Limbs, hidden: bool) -> Air {
    let remainder = remainder(limbs);
    let mut lookups = vec![Lookup::range16(Linear::column(MARGIN))];
    lookups.extend(remainder.lookups());
    let chosen = chosen(limbs);
    if hidden {
        let most = Linear::column(chosen) * base(0xffff);
        lookups.push(Lookup::below(1, Linear::column(chosen)));
        lookups.push(Lookup::range16(Linear::column(MARGIN) + most));
    }
    Air {
        columns: chosen + usize::from(hidden),
        powers: vec![(remainder.pow(), Rounded::LOGIT.tensor)],
        lookups,
    }
}

/// The column of the output tokens' logits. Each is in `-2^15 .. 2^15` and in `1 - 2^15 ..= 2^15`: with one of the two lookups a prover could
/// choose `2^15` or `-2^15`, and prove a false arg max with either.
fn tops() -> Air {
    let from = |least: i64| Lookup::range16(Linear::column(TOP) + Linear::constant(-least));
    Air {
        columns: 1,
        powers: Vec::new(),
        lookups: vec![from(-(1 << 15)), from(1 - (1 << 15))],
    }
}

impl<K: Scalar> Operator<K> for Choice {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        if !sizes.has_logits() {
            return Vec::new();
        }
        let logits = Rows {
            part: Part::LOGITS,
            axes: vec![sizes.output(), sizes.padded.vocab],
            extents: vec![Extent::of(0, sizes.outputs), Extent::of(1, sizes.config.vocab)],
            of_text: |_, _| true,
            air: columns(sizes.limbs.head, sizes.hidden.outputs),
            shifts: vec![Shifts {
                tensor: Rounded::LOGIT.tensor,
                limbs: sizes.limbs.head,
                along: Along::Second,
                of: |entry| Some(entry.params.head.at(entry.place[1])),
            }],
        };
        let tops = Rows {
            part: Part::TOPS,
            axes: vec![sizes.output()],
            extents: vec![Extent::of(0, sizes.outputs)],
            of_text: |_, _| true,
            air: tops(),
            shifts: Vec::new(),
        };
        vec![logits, tops]
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        vec![Instance {
            product: Product::HEAD,
            variables: shape.has_logits().then_some(shape.padded.hidden),
            weights: Some(|_, id| (id == MatrixId::HEAD).then_some(0)),
        }]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![MatmulKind::Head as usize]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        if public.shape.has_logits() {
            public.logits(claims);
        }
    }

    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        finals.claims(Product::HEAD, |at| [public.head_operand(at)])
    }
}

impl Shape {
    /// The cell that is 1 if an output token, of which ids are hidden, is this entry of the vocabulary.
    pub(crate) fn chosen_cell(&self, output: usize, id: u32) -> Group {
        let weights = vec![
            Weight::single(self.lead(Part::LOGITS), output),
            Weight::single(self.padded.vocab, id as usize),
        ];
        let column = (chosen(self.limbs.head), SecureField::from(1));
        Group::new(Part::LOGITS, weights, vec![column])
    }
}

impl<K: Scalar> Public<'_, K> {
    /// The logits of the generated positions, which are those of the output tokens less the margins, and that the margins of
    /// the output tokens are 0.
    fn logits(&self, claims: &mut Claims<K>) {
        let (points, config, part) = (self.points, &self.shape.config, Part::LOGITS);
        let log = self.shape.padded.vocab;
        let outputs: Vec<K> = eq_table(&points.output).into_iter().take(self.shape.outputs).collect();
        let real = |mut values: Vec<K>| {
            values.truncate(config.vocab);
            values
        };
        let plain = eq_table(points.out(log));
        let shared = plain.clone().into();
        let powered = real(
            self.channel_powers(MatmulKind::Head, &self.params.head, &shared)
                .table(),
        );
        let remainder = remainder(self.shape.limbs.head);
        let narrow = self.narrow_channels(MatmulKind::Head, &self.params.head, &shared, remainder);
        let narrow = narrow.map(|weight| real(weight.table()));
        let plain = real(plain);
        let tensor = |rest: Vec<K>| vec![vec![padded(outputs.clone(), self.lead(part)), padded(rest, log)]];
        // A logit is TOP less one below the output token, less the margin.
        let all = K::sum_of(&powered);
        let factor = points.kind_weight(MatmulKind::Head);
        let scaled = factor * base(remainder.scale());
        match self.shape.hidden.outputs {
            true => {
                let below = powered.iter().scan(K::zero(), |sum, weight| {
                    let own = *sum;
                    *sum += *weight;
                    Some(own)
                });
                let group = Group::new_sum(
                    part,
                    tensor(below.collect()),
                    vec![(chosen(self.shape.limbs.head), -scaled)],
                );
                claims.accumulators.groups.push(group);
            }
            false => {
                let (mut ones, ids) = (K::zero(), self.output_ids().collect::<Vec<Word>>());
                for (below, weight) in K::sums_below(&powered, &ids).zip(&outputs) {
                    ones += *weight * below;
                }
                claims.accumulators.value += scaled * ones;
            }
        }
        let rounding = Rounding {
            rounded: Rounded::LOGIT,
            out: vec![(MARGIN, -K::one())],
            plain: tensor(plain),
            powered: tensor(powered),
            narrow: narrow.map(&tensor).unwrap_or_default(),
            factor,
        };
        claims.accumulators.groups.push(Group::new(
            Part::TOPS,
            vec![padded(outputs.clone(), self.lead(Part::TOPS))],
            vec![(TOP, scaled * all)],
        ));
        self.add(&mut claims.accumulators, &rounding, remainder);
        self.clipped_tops(claims);
        self.clipped(claims, &rounding, |place, clip| {
            clip.value() + i64::from(self.is_before_output(place))
        });

        if self.shape.hidden.outputs {
            claims.own.extend(self.hidden_choice(&outputs));
            return;
        }
        let entry = |(o, (id, weight)): (usize, (Word, &K))| {
            vec![
                Weight::Sparse(self.lead(part), vec![(o, *weight)]),
                Weight::one_at(log, id),
            ]
        };
        let chosen = self.output_ids().zip(&outputs).enumerate().map(entry);
        claims.own.push(LinearClaim::of(
            "chosen logits",
            vec![Group::new_sum(part, chosen.collect(), vec![(MARGIN, K::one())])],
        ));
    }

    /// Two claims on hidden outputs. For every output token one entry of the vocabulary is chosen; and the chosen entry is the id that the statement shows, or the
    /// hidden id of the next row. The last token has no next row, so a hidden last id is whichever entry is chosen.
    fn hidden_choice(&self, outputs: &[K]) -> [LinearClaim<K>; 2] {
        let (part, log) = (Part::LOGITS, self.shape.padded.vocab);
        let column = vec![(chosen(self.shape.limbs.head), K::one())];
        let group = |outputs: Vec<K>, entries: Vec<K>| {
            let weights = vec![padded(outputs, self.lead(part)), padded(entries, log)];
            Group::new(part, weights, column.clone())
        };
        let vocab = self.shape.config.vocab;
        let one = LinearClaim::of("one output token", vec![group(outputs.to_vec(), vec![K::one(); vocab])]);
        let (mut own, mut next, mut value) = (outputs.to_vec(), Vec::new(), K::zero());
        let rows: Vec<usize> = self.statement.hidden_rows().collect();
        for (weight, (row, id)) in own.iter_mut().zip(self.statement.generated()) {
            match (id, rows.binary_search(&(row + 1))) {
                (HIDDEN, Ok(hidden)) => next.push((hidden, *weight)),
                (HIDDEN, Err(_)) => *weight = K::zero(),
                (id, _) => value += *weight * base(id.into()),
            }
        }
        let mut groups = vec![group(own, (0..vocab).map(|id| felt(id as i64)).collect())];
        if !next.is_empty() {
            groups.push(self.hidden_ids(next, -K::one()));
        }
        [
            one.of_value(K::sum_of(outputs)),
            LinearClaim::of("ids of output tokens", groups).of_value(value),
        ]
    }

    /// The generated tokens.
    fn output_ids(&self) -> impl Iterator<Item = Word> + '_ {
        let ids = self.statement.generated().enumerate();
        ids.map(|(o, (_, id))| Word::new(id as usize, Source::OutputId(o)))
    }

    /// Whether an entry of the vocabulary stands before the output token.
    fn is_before_output(&self, place: &[usize]) -> bool {
        let [output, entry] = place else { return false };
        *entry < self.statement.output.get(*output).copied().unwrap_or_default() as usize
    }

    /// Adds `TOP` to the claim on clipped values, because a clipped logit is `TOP` less its margin: each clipped logit adds the `TOP` of its
    /// output token, with the weight that the logit has. Call it before [`Self::clipped`], which moves on to the weights that follow.
    fn clipped_tops(&self, claims: &mut Claims<K>) {
        let axes = self.shape.full_axes(Part::LOGITS);
        let (mut weights, mut power) = (vec![K::zero(); self.shape.outputs], claims.power);
        for clip in self.statistics.clips(Rounded::LOGIT) {
            let output = clip.place(&axes).first().copied();
            if let Some(weight) = output.and_then(|output| weights.get_mut(output)) {
                *weight += power;
            }
            power *= self.points.clip;
        }
        if weights.iter().any(|weight| *weight != K::zero()) {
            let weights = vec![padded(weights, self.lead(Part::TOPS))];
            claims
                .clipped
                .groups
                .push(Group::new(Part::TOPS, weights, vec![(TOP, K::one())]));
        }
    }

    /// The last state at the generated positions.
    fn head_operand(&self, at: &[K]) -> LinearClaim<K> {
        let shape = self.shape;
        let last = Weight::single(self.lead(Part::STREAM), shape.states() - 1);
        let weights = vec![last, Weight::dense(self.generated_rows()), eq(at)];
        let columns = self.normed_columns(shape.limbs.head);
        claim("generated positions", Part::STREAM, weights, columns)
    }

    /// Weights of the token rows of the last state in the product of the head: of the generated positions.
    pub fn generated_rows(&self) -> Vec<K> {
        let first = self.statement.generated().next().map_or(0, |(row, _)| row);
        let count = self.statement.generated_ids().len();
        let weights: Vec<K> = eq_table(&self.points.output).into_iter().take(count).collect();
        K::placed(&weights, Word::new(first, Source::FirstRow), 1 << self.shape.token)
    }
}
