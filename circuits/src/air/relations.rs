//! The challenges of the lookups, by what is looked up.

use num_traits::Zero;
use stwo::core::channel::Channel;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::logup::LookupElements;
use stwo_constraint_framework::relation;

use super::lookups::Relation;

relation!(Range16, 1);
relation!(Bits, 2);
relation!(Exp, 3);
relation!(Silu, 2);
relation!(Cap, 2);

/// Lookup challenges, one independent pair per relation.
#[derive(Clone, Debug)]
pub struct Relations {
    /// `(v)`, `0 <= v < 2^16`.
    pub range16: Range16,
    /// `(2^b, v)`, `0 <= v < 2^b`, `b <= 15`.
    pub bits: Bits,
    /// `(d, exp(d), [d = 0])`.
    pub exp: Exp,
    /// `(g + 2^15, silu(g))`.
    pub silu: Silu,
    /// `(s + 2^15, cap(s))`, where scores are capped.
    pub cap: Option<Cap>,
}

impl Relations {
    /// Draws the challenges of a model whose scores are capped or not; the trace must have been absorbed.
    pub fn draw(channel: &mut impl Channel, capped: bool) -> Self {
        Self {
            range16: Range16::draw(channel),
            bits: Bits::draw(channel),
            exp: Exp::draw(channel),
            silu: Silu::draw(channel),
            cap: capped.then(|| Cap::draw(channel)),
        }
    }

    /// `z` and `alpha` of a relation (`alpha` 0 where there is one value): a tuple stands for `first + alpha second + alpha^2
    /// third - z`.
    pub fn challenges(&self, relation: Relation) -> [SecureField; 2] {
        let [z, alpha] = self.drawn(relation);
        [
            z,
            if relation.values() == 1 {
                SecureField::zero()
            } else {
                alpha
            },
        ]
    }

    /// Both elements that are drawn for a relation.
    pub fn drawn(&self, relation: Relation) -> [SecureField; 2] {
        fn pair<const N: usize>(elements: &LookupElements<N>) -> [SecureField; 2] {
            [elements.z, elements.alpha]
        }
        match relation {
            Relation::Range16 => pair(&self.range16.0),
            Relation::Bits => pair(&self.bits.0),
            Relation::Exp => pair(&self.exp.0),
            Relation::Silu => pair(&self.silu.0),
            // No lookup and no table has it where scores are not capped.
            Relation::Cap => self.cap.as_ref().map_or([SecureField::zero(); 2], |cap| pair(&cap.0)),
        }
    }

    /// Fixed challenges, for counting columns and constraints before any exist.
    pub fn dummy(capped: bool) -> Self {
        Self {
            range16: Range16::dummy(),
            bits: Bits::dummy(),
            exp: Exp::dummy(),
            silu: Silu::dummy(),
            cap: capped.then(Cap::dummy),
        }
    }
}
