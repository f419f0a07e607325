//! What fits int16, and the fields of parameters.

use tessera_circuits::model::{ByClass, RowClass};

use crate::calibrate::Classes;
use crate::options::MIN_SHIFT;
use crate::QuantiseError;

/// No tensor gets more fractional bits than this, whatever its range.
const MAX_BITS: i32 = 24;
/// Room of gates in leading rows, which have units with all other rows: other rows see massive values through norms only, so that
/// one that is clipped a little does no harm, and a bit less for all gates does.
const LEADING_GATE_HEADROOM: f64 = 1.1;

/// Both classes of token rows.
pub(super) const CLASSES: [RowClass; 2] = [RowClass::Body, RowClass::Lead];

/// Largest number of fractional bits with which `max` fits int16.
pub(super) fn fit(max: f64) -> i32 {
    ((f64::from(i16::MAX) / max).log2().floor()).min(f64::from(MAX_BITS)) as i32
}

/// Largest number of fractional bits with which gates, or their SiLU, fit in both classes of rows.
pub(crate) fn gate_bits(range: Classes<f32>, headroom: f64) -> i32 {
    let leading = headroom.min(LEADING_GATE_HEADROOM);
    fit(f64::from(range.body) * headroom).min(fit(f64::from(range.lead) * leading))
}

/// Lowers the bits of a state before and after an update until some shift serves both classes of rows. `accumulator` are
/// the bits of the channel with the fewest in the body, less the base shift, and `lead` is what leading rows have more; a
/// channel with more of them can give up bits of its weights, so that what counts is: the bits `a` of an accumulator must
/// be those of the state after it plus `1..=limit`, and those of the state before it plus `0..=limit`.
pub(super) fn lower([before, after]: [&mut ByClass<i32>; 2], accumulator: i32, lead: i32, limit: i32) {
    let offset = |class| match class {
        RowClass::Body => 0,
        RowClass::Lead => lead,
    };
    // The most bits of an accumulator of the body with which both classes are within the limit.
    let most = CLASSES.map(|class| before.of(class).min(after.of(class)) + limit - offset(class));
    let most = most[0].min(most[1]).min(accumulator);
    let lowered = |x: &ByClass<i32>, less: i32| ByClass {
        body: x.body.min(most - less),
        lead: x.lead.min(most + lead - less),
    };
    (*before, *after) = (lowered(before, 0), lowered(after, MIN_SHIFT));
}

/// A shift or scale as a byte. All have been brought into range, so an error means that a tensor has a
/// range that no choice of scales can represent.
pub(super) fn small(value: i32, tensor: impl FnOnce() -> String) -> Result<u8, QuantiseError> {
    u8::try_from(value).map_err(|_| QuantiseError::Scales {
        tensor: tensor(),
        value,
    })
}

/// A difference of shifts as a byte with a sign, like [`small`].
pub(super) fn signed(value: i32, tensor: impl FnOnce() -> String) -> Result<i8, QuantiseError> {
    i8::try_from(value).map_err(|_| QuantiseError::Scales {
        tensor: tensor(),
        value,
    })
}
