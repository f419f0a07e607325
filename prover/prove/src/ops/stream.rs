//! The residual stream: how its states are filled, and the embedding as a product (docs/protocol.md, sections 16.1 and 16.2).

use crate::bind::eq_table;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::gains::Gains;
use tessera_circuits::model::RowClass;
use tessera_circuits::ops::stream;
use tessera_circuits::ops::stream::Update;
use tessera_circuits::rounding::PADDED_EXPONENT;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statement::{norm_of, HIDDEN};
use tessera_circuits::statistics::Clip;
use tessera_model::forward::Stream;

use super::operator::Operator;
use crate::column::Column;
use crate::factors::{entries, Factors, K};
use crate::field::zeros;
use crate::trace::{build, get, limbs, write, Accumulator, Source};

/// The prover's side of [`tessera_circuits::ops::stream`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::STREAM, |source, _| source.stream())],
    makes: &[(Product::EMBED, |own| {
        Ok(entries((own.one_hot(), own.weights(Product::EMBED)?)))
    })],
};

impl Source<'_> {
    fn stream(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, w) = (self.shape, self.witness);
        let (states, hidden) = (shape.states(), shape.config.hidden);
        let leading = self.statement.leading(&self.params.leading);
        let updates: Vec<[Update<'_>; 2]> = (0..states)
            .map(|n| [RowClass::Body, RowClass::Lead].map(|c| Update::of(self.params, n, c).expect("the state exists")))
            .collect();
        let normed = self.normed_residuals(&updates, leading);
        build(self, Part::STREAM, (|[_, i, _]| i, &[]), |[n, i, x], row| {
            let state = w.streams.get(n);
            let at = (x < hidden).then_some(i * hidden + x);
            let [hi, lo] = state.map_or([0, 0], |s| [get(&s.acc_hi, at), get(&s.acc_lo, at)]);
            let exponents = updates.get(n).filter(|_| x < hidden);
            let [shift, skip] = exponents.map_or([PADDED_EXPONENT; 2], |u| u[usize::from(i < leading)].exponents(x));
            let back = |by: Option<usize>| n.checked_sub(by?);
            let [added, from] = exponents.map_or([None; 2], |u| [u[0].added, u[0].normed].map(back));
            let added = match (state, n) {
                (None, _) => 0,
                (_, 0) => self.input.map_or(0, |boundary| get(&boundary.0, at)) << skip,
                _ => added.map_or(0, |n| get(&w.streams[n].x, at) << skip),
            };
            let residuals = state.and(from).and_then(|n| normed[n].as_ref());
            let [high, low] = residuals.map_or([0; 2], |residuals| at.map_or([0; 2], |at| residuals[at]));
            let acc = Accumulator {
                hi,
                lo: lo + low,
                residual: added + high,
            };
            let value = acc.rounded(shift.into());
            debug_assert!(state.is_none_or(|s| get(&s.x, at) == value.out));
            acc.write(row, stream::UPDATE, shift.into(), value);
            [row[stream::X_HI], row[stream::X_LO]] = limbs(value.out);
            let r = state.map_or(0, |s| s.rsqrt[i]);
            let shift = match state {
                Some(_) if x < hidden => norm_of(self.params, n).shift.at(x),
                _ => PADDED_EXPONENT,
            };
            let acc = Accumulator::product(value.out * i64::from(r));
            let normed = acc.rounded(shift.into());
            debug_assert!(state.is_none_or(|s| get(&s.y, at) == normed.out));
            acc.write(row, stream::NORM, shift.into(), normed);
            write(row, stream::Y, shape.normed(), normed.out);
            [value.excess, normed.excess, 0, 0, 0, 0]
        })
    }

    /// Of every state whose normed rows are added to the accumulators of the next one what they add; `None` of others.
    fn normed_residuals(&self, updates: &[[Update<'_>; 2]], leading: usize) -> Vec<Option<Vec<[i64; 2]>>> {
        let hidden = self.shape.config.hidden;
        let states = self.witness.streams.iter().zip(updates.iter().skip(1)).enumerate();
        let of = |(n, (state, next)): (usize, (&Stream, &[Update<'_>; 2]))| {
            let gains = Gains::of(self.params, n)?;
            let row = |(i, y): (usize, &[i16])| {
                let update = &next[usize::from(i < leading)];
                gains.residual(y, (0..hidden).map(|c| update.normed_exponent(c)))
            };
            Some(
                state
                    .y
                    .par_chunks_exact(hidden)
                    .enumerate()
                    .flat_map_iter(row)
                    .collect(),
            )
        };
        states.map(of).collect()
    }
}

impl Factors<'_> {
    /// The one-hot matrix of the row tokens and their positions, bound at the token point.
    fn one_hot(&self) -> Vec<K> {
        let shape = self.public.shape;
        let mut out = zeros(1 << Product::EMBED.variables(shape));
        let scale = BaseField::from_u32_unchecked(1 << self.public.params.embed_exponent);
        let tokens = eq_table(&self.public.points.token);
        let ids = self.public.statement.row_ids();
        let types = shape.config.types_of(&ids);
        let mut hidden = self.digits.ids(shape.config.vocab);
        for (i, (weight, (id, token_type))) in tokens.into_iter().zip(ids.into_iter().zip(types)).enumerate() {
            let own = match id {
                HIDDEN => hidden.next().unwrap_or_default(),
                id => vec![(id as usize, BaseField::from(1))],
            };
            for (id, factor) in own {
                out[id] += weight * scale * factor;
            }
            if let Some(row) = shape.config.position_row(i, token_type) {
                out[row] += weight * scale;
            }
        }
        out
    }
}
