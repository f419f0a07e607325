//! The digits of hidden ids (docs/protocol.md, section 17.6).

use tessera_circuits::ops::ids::{self, Digits};
use tessera_circuits::shape::Part;
use tessera_circuits::statement::Decided;
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use crate::column::Column;
use crate::trace::{build, Source};

/// The prover's side of [`tessera_circuits::ops::ids`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::IDS, |source, _| source.digits())],
    makes: &[],
};

impl Source<'_> {
    fn digits(&self) -> (Vec<Column>, Vec<Clip>) {
        let (digits, ids) = (Digits::of(self.shape.config.vocab), self.statement.row_ids());
        let hidden: Vec<usize> = self.said.hidden_rows().map(|row| ids[row] as usize).collect();
        let no_digit_of_the_first = match self.said.leading_decided(&self.params.leading) {
            Some(Decided::Ends { row, first }) => {
                let [own, first] = [ids[row], first].map(|id| digits.split(id as usize));
                own[0] != first[0] && own[1] != first[1]
            }
            _ => false,
        };
        build(self, Part::IDS, (|_| 0, &[]), |[at, digit, value], row| {
            row[ids::IS_DIGIT] = u32::from(match hidden.get(at) {
                Some(id) => digits.bit(*id, digit, value),
                None => no_digit_of_the_first && (at, digit, value) == (hidden.len(), 0, 0),
            });
            [0; 6]
        })
    }
}
