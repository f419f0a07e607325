//! That the lookup tables are those of the key's parameters (docs/protocol.md, section 9): a verifier makes them, and compares what
//! their polynomials are at the out-of-domain point. So a key whose root commits to other tables proves nothing.

use std::sync::{Arc, Mutex, PoisonError};

use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::circle::CanonicCoset;
use tessera_circuits::air::tables::{LookupTables, TableParams, LOG_ROWS};
use tessera_circuits::model::{ModelConfig, ModelParams};

use super::{Stark, StarkError};

/// The tables that were made last: a key has many proofs, and a proof many chunks.
static LAST: Mutex<Option<Arc<LookupTables>>> = Mutex::new(None);

fn tables(params: &ModelParams, config: &ModelConfig) -> Arc<LookupTables> {
    let own = TableParams::of(params, config);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tables) = last.as_ref().filter(|known| known.params == own) {
        return Arc::clone(tables);
    }
    let tables = Arc::new(LookupTables::from(own));
    *last = Some(Arc::clone(&tables));
    tables
}

/// Compares the samples of the first tree at `point` with the tables of a model. Their columns have a degree below `2^16` by the proof
/// of proximity, and the point was drawn after their root was absorbed.
pub fn check_tables(
    (params, config): (&ModelParams, &ModelConfig),
    proof: &Stark,
    point: CirclePoint<SecureField>,
) -> Result<(), StarkError> {
    let samples = proof.sampled_values.first().map_or(&[][..], Vec::as_slice);
    let values = at_point(&tables(params, config).columns, point);
    let same = samples.len() == values.len()
        && samples
            .iter()
            .zip(&values)
            .all(|(samples, value)| samples.as_slice() == [*value]);
    match same {
        true => Ok(()),
        false => Err(StarkError::OtherTables),
    }
}

/// The polynomials of columns, whose row `i` is the value at point `i` of the canonic coset, at a point: the column is folded in two
/// until it has one row. Rows `i` and `n - 1 - i` are at points that differ in the sign of a coordinate.
pub(crate) fn at_point(columns: &[Vec<BaseField>], point: CirclePoint<SecureField>) -> Vec<SecureField> {
    let coset = CanonicCoset::new(LOG_ROWS).coset();
    let half: Vec<_> = coset.iter().take(1 << (LOG_ROWS - 1)).collect();
    let mut rows: Vec<Vec<SecureField>> = columns
        .iter()
        .map(|column| column.iter().map(|value| (*value).into()).collect())
        .collect();
    let twice = |coordinates: Vec<BaseField>| -> Vec<BaseField> {
        let twice: Vec<BaseField> = coordinates.into_iter().map(|own| own + own).collect();
        BaseField::batch_inverse(&twice)
    };
    fold(&mut rows, &twice(half.iter().map(|p| p.y).collect()), point.y);
    let (mut xs, mut x) = (half.into_iter().map(|p| p.x).collect::<Vec<_>>(), point.x);
    while xs.len() > 1 {
        xs.truncate(xs.len() / 2);
        fold(&mut rows, &twice(xs.clone()), x);
        xs.iter_mut().for_each(|own| *own = CirclePoint::double_x(*own));
        x = CirclePoint::double_x(x);
    }
    rows.into_iter()
        .map(|rows| rows.first().copied().unwrap_or_default())
        .collect()
}

/// `(v + v') / 2 + at (v - v') / 2 t`, of rows from both ends, `t` the coordinate of the first one.
fn fold(rows: &mut [Vec<SecureField>], halves: &[BaseField], at: SecureField) {
    let half = BaseField::from_u32_unchecked(1 << 30);
    for rows in rows {
        let ends = rows.iter().zip(rows.iter().rev()).zip(halves);
        *rows = ends
            .map(|((a, b), inverse)| (*a + *b) * half + at * ((*a - *b) * *inverse))
            .collect();
    }
}
