//! Hidden ids in the embedding (docs/protocol.md, section 17.6), the twin of the verifier's `verifier/src/verify/digits.rs`.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::ops::ids::Digits;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::wiring::Public;
use tessera_verifier::hiding::DigitsProof;
use tessera_verifier::labels::{DIGITS, DIGIT_FACTORS};

use crate::column::Column;
use crate::device::{Device, DeviceError};
use crate::speak::Speaker;
use crate::sumcheck::{self, Instance};

type K = SecureField;

/// The values of a digit whose cells are not zero, with their cells: one value of cell 1 in an honest trace.
type Digit = Vec<(usize, BaseField)>;

/// The digits of the ids of hidden rows, high and low, as they are committed to.
#[derive(Default)]
pub struct HiddenDigits(Vec<[Digit; 2]>);

impl HiddenDigits {
    /// Reads them from the columns of all parts.
    pub fn of(shape: &Shape, columns: &[Vec<Column>]) -> Self {
        let mut own = vec![[Digit::new(), Digit::new()]; shape.hidden.rows];
        let log = Digits::of(shape.config.vocab).log;
        for (lane, column) in columns.get(Part::IDS.index()).into_iter().flatten().enumerate() {
            let start = shape.lane_start(Part::IDS, lane);
            let first = start.first().map_or(0, |(_, first)| *first);
            let cells = column.cells();
            for row in (0..cells.len()).filter(|row| !cells.get(*row).is_zero()) {
                let (digit, value) = ((row >> log) & 1, row & ((1 << log) - 1));
                if let Some(digits) = own.get_mut(first + (row >> (log + 1))) {
                    digits[digit].push((value, cells.get(row)));
                }
            }
        }
        Self(own)
    }

    /// The ids of every row, each with a factor: one id with factor 1 in an honest trace.
    pub fn ids(&self, vocab: usize) -> impl Iterator<Item = Vec<(usize, BaseField)>> + '_ {
        let digits = Digits::of(vocab);
        self.0.iter().map(move |[high, low]| {
            let high = high.iter().filter(move |(value, _)| *value <= digits.last[0]);
            let ids = high.flat_map(move |(high, a)| {
                let id = move |(low, b): &(usize, BaseField)| ((high << digits.log) + low, *a * *b);
                low.iter().map(id)
            });
            ids.collect()
        })
    }

    /// Of every row the sum of the weights of the values of a digit.
    fn weighed<'a>(&'a self, digit: usize, weights: &'a [K]) -> impl Iterator<Item = K> + 'a {
        let weight = |(value, cell): &(usize, BaseField)| Some(*weights.get(*value)? * *cell);
        let own = self.0.iter().map(move |digits| &digits[digit]);
        own.map(move |digit| digit.iter().filter_map(weight).sum())
    }
}

/// The product of the digits of hidden ids, proved.
#[derive(Default)]
pub struct ProvedDigits {
    pub proof: DigitsProof,
    /// The last evaluations of both factors; `None` if no ids of rows are hidden.
    pub factors: Option<[K; 2]>,
    /// End point of the sumcheck.
    pub point: Vec<K>,
}

/// Proves which part of the embedding's operand hidden ids make, where the product sumcheck ends at `products`.
pub fn prove(
    public: &Public<'_>,
    device: &dyn Device,
    digits: &HiddenDigits,
    products: &[K],
    speaker: &mut dyn Speaker,
) -> Result<ProvedDigits, DeviceError> {
    let Some(variables) = public.shape.digit_variables() else {
        return Ok(ProvedDigits::default());
    };
    let [high, low] = public.digit_values(products);
    let weighed = digits.weighed(0, &high).zip(public.digit_rows());
    let mut first: Vec<K> = weighed.map(|(value, weight)| value * weight).collect();
    let mut second: Vec<K> = digits.weighed(1, &low).collect();
    let claim = first.iter().zip(&second).map(|(a, b)| *a * *b).sum();
    for table in [&mut first, &mut second] {
        table.resize(1 << variables, K::zero());
    }
    let instance = Instance {
        pairs: vec![(first, second)],
        variables,
    };
    let proved = sumcheck::prove(device, DIGITS, claim, vec![instance], speaker)?;
    let (a, b) = proved.finals[0][0];
    let factors = speaker.say(DIGIT_FACTORS, [[a, b]].as_slice());
    Ok(ProvedDigits {
        proof: DigitsProof {
            rounds: proved.proof,
            factors,
        },
        factors: Some([a, b]),
        point: proved.point,
    })
}
