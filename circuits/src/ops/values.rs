//! Values (docs/protocol.md, section 16.3): requantised accumulators of 15 bits, operands of the attention output. One row per
//! (layer, token, key/value head, index in head).

use crate::air::requant;
use crate::mle::eq_table;
use crate::model::{ChannelShift, MatmulKind};
use crate::rounding::{shift_of_head, Rounded};
use crate::scalar::Scalar;
use crate::shape::{Along, Entry, Part, Rows, Shifts};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::wiring::{eq, Claims, Public, Rounding};

use super::operator::Operator;

/// The values of attention.
pub struct Values;

impl Part {
    /// (layer, token, key/value head, index in head)
    pub const V: Self = Self::new(4, "V");
}

impl Rounded {
    /// Values.
    pub const VALUE: Self = Self::of(Part::V, 0);
}

/// The shift of an element of a head.
fn shift(entry: &Entry<'_>) -> Option<u8> {
    let (x, half) = (entry.place[3], entry.sizes.padded.half);
    let (side, within) = (x >> half, x & ((1 << half) - 1));
    shift_of_head(entry, MatmulKind::V, entry.sizes.config.kv_heads, side, within)
}

impl<K: Scalar> Operator<K> for Values {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (p, config) = (&sizes.padded, &sizes.config);
        vec![Rows {
            part: Part::V,
            axes: vec![p.layers, sizes.token, p.kv_heads, p.head_dim()],
            extents: vec![
                Extent::of(0, config.layers),
                sizes.tokens(1),
                Extent::of(2, config.kv_heads),
            ],
            of_text: of_second_axis,
            air: requant::values(sizes.limbs.v),
            shifts: vec![Shifts {
                tensor: Rounded::VALUE.tensor,
                limbs: sizes.limbs.v,
                along: Along::Tokens {
                    classes: false,
                    channels: true,
                },
                of: shift,
            }],
        }]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![MatmulKind::V as usize]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.values(claims);
    }
}

impl<K: Scalar> Public<'_, K> {
    fn values(&self, claims: &mut Claims<K>) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::V);
        let (head, ..) = self.head_point(p.kv_heads);
        let plain = vec![
            self.plain_layers(part),
            self.rows(),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let weights = eq_table(points.out(p.kv())).into();
        let channels = |shifts: &ChannelShift, factor| self.channel_weights(MatmulKind::V, shifts, &weights, factor);
        let remainder = requant::remainder(self.shape.limbs.v);
        let [powered, narrow] = self.by_layer(part, MatmulKind::V, remainder, &channels);
        let rounding = Rounding {
            rounded: Rounded::VALUE,
            out: vec![(requant::OUT, K::one())],
            plain: vec![plain],
            powered,
            narrow,
            factor: points.kind_weight(MatmulKind::V),
        };
        self.accumulated(claims, &rounding, remainder);
    }
}
