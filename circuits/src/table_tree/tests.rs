//! The claims and denominators in which the tree of the tables ends are the extensions of its leaves.

use proptest::prelude::*;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::*;
use crate::air::tables::LookupTables;
use crate::air::Relations;
use crate::mle::eval_dense;
use crate::model::{odd_config, test_params};

type K = SecureField;

fn element() -> impl Strategy<Value = K> {
    any::<[u32; 4]>().prop_map(|words| K::from_m31_array(words.map(|word| BaseField::from((word >> 1) as usize))))
}

fn extended(column: &[BaseField]) -> Vec<K> {
    column.iter().map(|v| K::from(*v)).collect()
}

fn tables() -> (LookupTables, Relations) {
    let config = odd_config(2);
    let tables = LookupTables::new(&test_params(&config), &config);
    let relations = Relations::draw(&mut Blake2sChannel::default(), &tables.params.relations);
    (tables, relations)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Closed forms are the extensions of the columns, and only functions have none.
    #[test]
    fn closed_forms_are_those_of_the_columns(point in prop::collection::vec(element(), LOG_ROWS as usize)) {
        let (tables, _) = tables();
        let (mut closed, mut open) = (0, 0);
        for relation in &tables.params.relations {
            for column in relation.columns() {
                let values = tables.column(*column).expect("a column of the model");
                match column.closed_form(&point) {
                    Some(own) => {
                        prop_assert_eq!(eval_dense(&extended(values), &point), Ok(own), "{:?}", column);
                        closed += 1;
                    }
                    None => open += 1,
                }
            }
        }
        prop_assert!(closed > 0 && open == 2);
    }

    /// Numerators and denominators at a point of the leaves are what the tree says of counts, challenges and tables, with one balance group
    /// and with three.
    #[test]
    fn the_tree_ends_in_its_leaves(
        (rows, start) in (prop::collection::vec(element(), LOG_ROWS as usize), prop::collection::vec(element(), 3)),
        weight in element(),
        seed in 1u32..1000,
    ) {
        let (tables, drawn) = tables();
        let relations = tables.params.relations.clone();
        for balances in [1, 3] {
            let tree = TableTree { relations: relations.clone(), balances };
            let point = [start.clone(), rows.clone()].concat();
            prop_assert_eq!(tree.log_leaves() as usize, point.len());
            let weight = (balances > 1).then_some(weight);
            let count = |column: usize, row: u32| BaseField::from((seed * (column as u32 + 3) * (row + 7)) as usize);
            let counts: Vec<Vec<BaseField>> = (0..balances * relations.len())
                .map(|column| (0..1 << LOG_ROWS).map(|row| count(column, row)).collect())
                .collect();

            let powers: Vec<K> = successors(Some(K::from(1)), |own| Some(*own * weight.unwrap_or_default())).take(balances).collect();
            let (mut numerators, mut denominators) = (Vec::new(), Vec::new());
            for (plane, relation) in relations.iter().enumerate() {
                let columns = tables.of(*relation);
                for row in 0..1 << LOG_ROWS {
                    let own = (0..balances).map(|group| powers[group] * counts[group * relations.len() + plane][row]);
                    numerators.push(-own.sum::<K>());
                    let tuple: Vec<BaseField> = columns.iter().map(|column| column[row]).collect();
                    denominators.push(drawn.get(*relation).expect("drawn").combine::<BaseField, K>(&tuple));
                }
            }
            numerators.resize(1 << point.len(), K::from(0));
            denominators.resize(1 << point.len(), K::from(1));

            let value = |column: TableColumn, at: &[K]| {
                eval_dense(&extended(tables.column(column).expect("a column")), at).expect("a point")
            };
            let own = tree.denominator(|relation| drawn.challenges(relation), value, &point);
            prop_assert_eq!(eval_dense(&denominators, &point), Ok(own));
            let claim = tree.claim(weight, &point);
            prop_assert_eq!(claim.said, Some(Said::Counts));
            let [group] = claim.groups.as_slice() else { panic!("one group") };
            let columns: Vec<usize> = group.columns.iter().map(|(column, _)| *column).collect();
            prop_assert_eq!(columns, (0..counts.len()).collect::<Vec<_>>());
            let sum: K = group.columns.iter().map(|(column, factor)| {
                *factor * eval_dense(&extended(&counts[*column]), &rows).expect("a point")
            }).sum();
            prop_assert_eq!(eval_dense(&numerators, &point), Ok(sum - claim.value));
        }
    }
}

/// Counts are a part of their own, the last one, with a column for every relation of every balance group and without lookups; under a STARK
/// there are none.
#[test]
fn counts_follow_from_the_lookups() {
    let config = odd_config(2);
    let stark = Shape::new(&config, 4);
    assert!(stark.table_tree().is_none() && !stark.parts().contains(&Part::COUNTS));
    let relations = config.relations();
    for balance in [1 << 30, 300_000, 150_000] {
        let limits = LeafLimits { log_tree: 14, balance };
        let shape = stark.clone().with_tables(TableArgument::Gkr).with_leaf_limits(limits);
        let balances = Forest::of(&shape).balances().len();
        let tree = shape.table_tree().expect("a tree");
        assert_eq!((tree.balances, &tree.relations), (balances, &relations));
        assert_eq!(shape.parts().last(), Some(&Part::COUNTS));
        assert_eq!(shape.columns(Part::COUNTS), balances * relations.len());
        assert_eq!(shape.log_rows(Part::COUNTS), LOG_ROWS);
        assert_eq!(shape.fractions(), stark.fractions());
        let own = (balances * relations.len()) as u128;
        assert_eq!(shape.cells(), stark.cells() + (own << LOG_ROWS));
        assert_eq!(Forest::of(&shape), Forest::of(&stark.clone().with_leaf_limits(limits)));
        let none = shape.with_tables(TableArgument::Stark);
        assert_eq!((none.parts(), none.cells()), (stark.parts(), stark.cells()));
    }
}

/// Numbers of keys name both ways, and nothing else.
#[test]
fn numbers_name_the_ways() {
    assert_eq!(TableArgument::ALL.map(TableArgument::number), [0, 1]);
    assert_eq!(TableArgument::of_number(1), Some(TableArgument::Gkr));
    assert_eq!(TableArgument::of_number(2), None);
    assert_eq!(TableArgument::default().to_string(), "stark");
}
