//! The MLP between its matmuls (docs/protocol.md, section 16.7): `h = act(gate) * up` where it is gated, `h = act(up)` where it is
//! not. One row per (layer, token, feature).

use crate::air::gadgets::{int16, Remainder};
use crate::air::lookups::{Linear, Lookup, Relation};
use crate::air::{base, Air};
use crate::claims::{LinearClaim, Weight};
use crate::mle::eq_table;
use crate::model::{ChannelShift, Limbs, MatmulKind};
use crate::rounding::Rounded;
use crate::scalar::Scalar;
use crate::shape::{Along, Entry, Instance, Part, Product, Rows, Shape, Shifts};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::statement::class_of;
use crate::wiring::{claim, eq, felt, padded, times, Claims, Points, Public, Rounding};

use super::operator::{Finals, Operator};

/// The MLP.
pub struct Mlp;

/// The number of the products among the accumulators.
const PRODUCTS: usize = 11;

impl Part {
    /// (layer, token, feature)
    pub const FF: Self = Self::new(8, "Ff");
}

impl Product {
    /// MLP product times down; variables (layer, feature).
    pub const FF: Self = Self::new(2, "Ff");
    /// The activation of the gate times up projection, entry by entry, in gated MLPs; variables (layer, token, feature).
    pub const ACT: Self = Self::new(8, "Act");
}

impl Rounded {
    /// Gates.
    pub const GATE: Self = Self::of(Part::FF, 0);
    /// The other factor of the MLP.
    pub const UP: Self = Self::of(Part::FF, 1);
    /// Their product.
    pub const PRODUCT: Self = Self::of(Part::FF, 2);
}

/// The gate (range-checked by its lookup in the table).
pub const GATE: usize = 0;
/// What the table has for the gate.
pub const SILU: usize = 1;
/// The up projection of a gated MLP.
pub const UP: usize = 2;
/// The product of a gated MLP, in limbs.
pub const H_HI: usize = 3;
/// Low byte of the product.
pub const H_LO: usize = 4;
/// Its remainder, in one limb: `2^(8 + s)` and the rest.
pub const PRODUCT: Remainder = Remainder {
    at: 5,
    limbs: Limbs::One,
    narrow: None,
};
const OTHERS: usize = 7;
/// Without gates: the up projection (range-checked by its lookup in the table), and what the table has for it, in limbs.
const PLAIN: [usize; 3] = [0, 1, 2];

/// The MLP: gate, activation, product.
#[derive(Clone, Copy, Debug)]
pub struct Ff {
    /// Whether there are gates.
    pub gated: bool,
    /// Of the accumulators of gate and up projection.
    pub gate: Limbs,
    /// Of the up projection.
    pub up: Limbs,
}

impl Ff {
    /// The up projection.
    pub const fn up(&self) -> usize {
        match self.gated {
            true => UP,
            false => PLAIN[0],
        }
    }

    /// The limbs of what Down reads.
    pub const fn product(&self) -> [usize; 2] {
        match self.gated {
            true => [H_HI, H_LO],
            false => [PLAIN[1], PLAIN[2]],
        }
    }

    /// Of the gate, if there are gates.
    pub const fn gate_remainder(&self) -> Remainder {
        Remainder {
            at: OTHERS,
            limbs: self.gate,
            narrow: Remainder::NARROW,
        }
    }

    /// Of the up projection.
    pub const fn up_remainder(&self) -> Remainder {
        Remainder {
            at: match self.gated {
                true => OTHERS + Remainder::columns(self.gate),
                false => PLAIN.len(),
            },
            limbs: self.up,
            narrow: Remainder::NARROW,
        }
    }
}

impl Ff {
    /// All columns of a row.
    pub fn air(&self) -> Air {
        let up = (self.up_remainder().pow(), 1);
        let powers = match self.gated {
            true => vec![(PRODUCT.pow(), 2), (self.gate_remainder().pow(), 0), up],
            false => vec![up],
        };
        let entry = |input: usize, output: Linear| {
            let index = Linear::column(input) + Linear::constant(1 << 15);
            Lookup::new(Relation::Silu, [index, output])
        };
        let [high, low] = self.product();
        let mut list = match self.gated {
            true => vec![entry(GATE, Linear::column(SILU))],
            false => vec![entry(self.up(), Linear::column(high) * base(256) + Linear::column(low))],
        };
        if self.gated {
            list.push(int16(UP, Limbs::One));
        }
        list.push(int16(high, Limbs::Two));
        if self.gated {
            list.extend(PRODUCT.lookups());
            list.extend(self.gate_remainder().lookups());
        }
        list.extend(self.up_remainder().lookups());
        Air {
            columns: self.up_remainder().at + Remainder::columns(self.up),
            powers,
            lookups: list,
        }
    }
}

impl Sizes {
    /// The columns of the MLP.
    pub const fn ff(&self) -> Ff {
        Ff {
            gated: self.config.gated,
            gate: self.limbs.gate,
            up: self.limbs.up,
        }
    }
}

impl<K: Scalar> Operator<K> for Mlp {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (p, config, limbs) = (&sizes.padded, &sizes.config, sizes.limbs);
        let kind = |rounded: Rounded, limbs, [classes, channels]: [bool; 2], of| Shifts {
            tensor: rounded.tensor,
            limbs,
            along: Along::Tokens { classes, channels },
            of,
        };
        let gate = |entry: &Entry<'_>| {
            let layer = entry.params.layers.get(entry.place[0]);
            layer.map(|layer| layer.mlp.gate.at(entry.place[2]))
        };
        let up = |entry: &Entry<'_>| {
            let layer = entry.params.layers.get(entry.place[0]);
            layer.map(|layer| layer.mlp.up.at(entry.place[2]))
        };
        let product = |entry: &Entry<'_>| {
            let layer = entry.params.layers.get(entry.place[0]);
            layer.map(|layer| layer.mlp.act.of(class_of(entry.place[1], entry.leading)))
        };
        // Without gates, the MLP rounds its up projection alone.
        let mut shifts = vec![kind(Rounded::UP, limbs.up, [false, true], up)];
        if config.gated {
            shifts.push(kind(Rounded::GATE, limbs.gate, [false, true], gate));
            shifts.push(kind(Rounded::PRODUCT, Limbs::One, [true, false], product));
        }
        vec![Rows {
            part: Part::FF,
            axes: vec![p.layers, sizes.token, p.ff],
            extents: vec![Extent::of(0, config.layers), sizes.tokens(1), Extent::of(2, config.ff)],
            of_text: of_second_axis,
            air: sizes.ff().air(),
            shifts,
        }]
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        let (lead, ff) = (shape.lead(Part::FF), shape.padded.ff);
        let product = Instance {
            product: Product::FF,
            variables: Some(lead + ff),
            weights: Some(|_, id| (id.kind() == MatmulKind::Down).then_some(id.layer())),
        };
        let factors = Instance {
            product: Product::ACT,
            variables: shape.config.gated.then_some(lead + shape.token + ff),
            weights: None,
        };
        vec![product, factors]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![MatmulKind::Gate as usize, MatmulKind::Up as usize, PRODUCTS]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.mlp(claims);
    }

    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        let mut claims = finals.claims(Product::FF, |at| [public.mlp_operand(at)]);
        claims.extend(finals.claims(Product::ACT, |at| public.act_operands(at)));
        claims
    }
}

impl<K: Scalar> Points<K> {
    /// Weight of the products of the MLP among the batched accumulators.
    pub fn act_weight(&self) -> K {
        self.weight(PRODUCTS)
    }
}

impl<K: Scalar> Public<'_, K> {
    fn mlp(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::FF);
        let at = points.out(self.shape.padded.ff);
        let air = self.shape.ff();
        let plain = vec![self.plain_layers(part), self.rows(), eq(at)];
        let weights = eq_table(at).into();
        let matmuls = [
            (Rounded::GATE, MatmulKind::Gate, GATE, air.gate_remainder()),
            (Rounded::UP, MatmulKind::Up, air.up(), air.up_remainder()),
        ];
        // Without gates, the table gives the product.
        let gated = self.shape.config.gated;
        for (rounded, kind, column, remainder) in matmuls.into_iter().skip(usize::from(!gated)) {
            let channels = |shifts: &ChannelShift, factor| self.channel_weights(kind, shifts, &weights, factor);
            let [powered, narrow] = self.by_layer(part, kind, remainder, &channels);
            let rounding = Rounding {
                rounded,
                out: vec![(column, K::one())],
                plain: vec![plain.clone()],
                powered,
                narrow,
                factor: points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, remainder);
        }
        if !gated {
            return;
        }
        let powered = self.classes().into_iter().map(|(class, rows)| {
            let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.mlp.act.of(class)));
            vec![powers, rows, eq(at)]
        });
        let rounding = Rounding {
            rounded: Rounded::PRODUCT,
            out: vec![(H_HI, felt(256)), (H_LO, K::one())],
            plain: vec![plain],
            powered: powered.collect(),
            narrow: Vec::new(),
            factor: points.act_weight(),
        };
        self.accumulated(claims, &rounding, PRODUCT);
    }

    fn mlp_operand(&self, at: &[K]) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::FF) as usize);
        let [high, low] = self.shape.ff().product();
        let columns = vec![(high, K::one()), (low, self.points.limb)];
        let weights = vec![eq(lead), self.rows(), eq(rest)];
        claim("mlp product", Part::FF, weights, columns)
    }

    /// SiLU of the gate times up projection: the first factor is a table of products, entry by entry.
    fn act_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let points = self.points;
        let (layer, rest) = at.split_at(self.lead(Part::FF) as usize);
        let (token, feature) = rest.split_at(self.shape.token as usize);
        let own_layers = times(&points.layer_weights(self.layers()), &eq_table(layer));
        let gates = vec![
            padded(own_layers, self.lead(Part::FF)),
            self.rows_times(&eq_table(token)),
            Weight::dense(times(&eq_table(points.out(self.shape.padded.ff)), &eq_table(feature))),
        ];
        let weight = points.act_weight();
        let ups = vec![eq(layer), eq(token), eq(feature)];
        [
            claim("gates", Part::FF, gates, vec![(SILU, weight)]),
            claim("up projections", Part::FF, ups, vec![(UP, K::one())]),
        ]
    }
}
