//! The mean of every row of a state, as a LayerNorm with mean needs it. One row per (state, token).
//!
//! What it computes: `MEAN = floor(sum of the row / hidden)`. Bounds: a row has at most `2^14` channels of int16, so `|sum| < 2^29`;
//! `hidden MEAN + REST` is below `2^30` in absolute value for every MEAN and REST that their lookups allow, so that the claim is one
//! of integers.

use crate::air::lookups::{Linear, Lookup};
use crate::air::Air;
use crate::claims::{Group, LinearClaim};
use crate::model::log_ceil;
use crate::scalar::Scalar;
use crate::shape::{Part, Rows};
use crate::sizes::Sizes;
use crate::wiring::{eq, felt, padded, Claims, Public};

use super::operator::Operator;
use super::stream;

/// The mean of every row of a state.
pub struct Means;

impl Part {
    /// (state, token)
    pub const MEANS: Self = Self::new(12, "Means");
}

/// The mean, rounded down.
pub const MEAN: usize = 0;
/// What is left of the sum, below the number of channels.
pub const REST: usize = 1;

/// The columns of a row, of so many channels.
fn columns(hidden: usize) -> Air {
    let rest = Linear::column(REST);
    let room = Linear::constant(hidden as i64 - 1) - rest.clone();
    Air {
        columns: 2,
        powers: Vec::new(),
        lookups: vec![Lookup::int16(MEAN), Lookup::range16(rest), Lookup::range16(room)],
    }
}

impl<K: Scalar> Operator<K> for Means {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let states = sizes.states();
        vec![Rows {
            part: Part::MEANS,
            axes: vec![log_ceil(states, 0), sizes.token],
            extents: vec![(0, states)],
            air: columns(sizes.config.hidden),
            shifts: Vec::new(),
        }]
    }

    /// Nothing is rounded.
    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        Vec::new()
    }

    fn rounded(&self, _: &Public<'_, K>, _: &mut Claims<K>) {}

    /// The sum of a row over its real channels is `hidden MEAN + REST`, at the random point of states and tokens.
    fn across(&self, public: &Public<'_, K>) -> Vec<LinearClaim<K>> {
        let (points, shape) = (public.points, public.shape);
        let states = |part: Part| padded(points.state_weights(shape.states()), public.lead(part));
        let hidden = shape.config.hidden;
        let channels = padded(vec![K::one(); hidden], shape.padded.hidden);
        let sums = vec![states(Part::STREAM), eq(&points.token), channels];
        let means = vec![states(Part::MEANS), eq(&points.token)];
        vec![LinearClaim {
            name: "means",
            groups: vec![
                Group::new(
                    Part::STREAM,
                    sums,
                    vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())],
                ),
                Group::new(
                    Part::MEANS,
                    means,
                    vec![(MEAN, felt(-(hidden as i64))), (REST, -K::one())],
                ),
            ],
            value: K::zero(),
        }]
    }
}
