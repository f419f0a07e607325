//! Plans (docs/chain.md): a program calculates what the wiring does, for models of every kind and statements of all lengths.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::mle::eval_padded;
use tessera_circuits::model::{Blocks, ByClass, ChannelShift, Limbs, ModelConfig, Pooling, WeightFormat};
use tessera_circuits::statement::Statement;
use tessera_circuits::table_tree::TableArgument;
use tessera_plan::calculate::{calculate, coefficients, in_order, inputs, opened};
use tessera_plan::packing::{Call, PackError, Packed};
use tessera_plan::{Budget, NoPlan, Plan};
use tessera_testkit::{
    capped_config, encoder_config, normed_config, odd_config, plain_config, post_normed_config, ragged_config,
    random_ids, random_model, rotations_config, unrooted_key_of, windowed_config, SplitMix, TestModel,
};
use tessera_verifier::key::ModelKey;
use tessera_verifier::suite::Suite;

fn element(random: &mut SplitMix) -> SecureField {
    let mut word = || (random.next_u64() >> 33) as u32 % 0x7fff_ffff;
    SecureField::from_u32_unchecked(word(), word(), word(), word())
}

/// A plan of a model, followed with statements of its lengths that are not the one it was made with.
fn agree(config: &ModelConfig, format: WeightFormat, prompt: usize, outputs: usize) {
    agree_on(
        &unrooted_key_of(Suite::Keccak, &random_model(config.clone(), format, 3)),
        prompt,
        outputs,
    );
}

/// Follows a plan of a key, whatever the key, with statements of its lengths.
fn agree_on(key: &ModelKey, prompt: usize, outputs: usize) {
    let config = &key.config;
    let mut random = SplitMix(prompt as u64);
    for seed in 0..3 {
        let mut ids = random_ids(config, prompt + outputs, seed);
        if seed == 0 {
            // All rows but the last ones are leading ones, if equal ids make them so.
            ids.fill(5);
        }
        let (prompt, output) = ids.split_at(prompt);
        let statement = Statement {
            prompt: prompt.to_vec(),
            output: output.to_vec(),
        };
        let plan = Plan::new(key, statement.rows(), outputs).expect("a plan");
        // The same in segments that are as short as they may be, of some eighths of its gas.
        let all: u64 = plan.program.iter().map(|own| own.gas).sum();
        let cut = (1..8).find_map(|eighths| {
            let gas = all * eighths / 8;
            let budget = Budget {
                gas,
                ..Budget::TRANSACTION
            };
            Plan::within(key, statement.rows(), outputs, budget).ok()
        });
        let cut = cut.expect("a plan in segments");
        assert!(cut.program.len() > plan.program.len());
        let inputs = inputs(&plan.shape, || element(&mut random));
        let ends = opened(key, &plan.shape).map(|columns| {
            let coordinates = (0..columns.log_bands()).map(|_| element(&mut random));
            coordinates.collect::<Vec<_>>()
        });
        let words = plan.words(key, &statement);
        let shape = key.shape(&Chunk::whole(config.layers), statement.lengths());
        let results = calculate(key, &shape, &statement, &inputs, &ends);
        // What is calculated row by row and group by group is what the tables of all coefficients say.
        let tables = coefficients(key, &shape, &statement, &inputs);
        for (i, table) in tables.iter().enumerate() {
            assert_eq!(results.coefficients[i], eval_padded(table, &ends[i]), "{config:?}, {i}");
        }
        let expected = results.in_order();
        let given = [in_order(&inputs), ends.concat()].concat();
        let got = [&plan, &cut].map(|plan| plan.run(&given, &words));
        assert!(
            got == [Some(expected.clone()), Some(expected)],
            "{config:?}, {} and {outputs} tokens",
            prompt.len()
        );
    }
}

#[test]
fn plans_of_models_of_every_kind_say_what_the_wiring_says() {
    let parallel = ModelConfig {
        blocks: Blocks {
            parallel: true,
            ..Blocks::DECODER
        },
        ..plain_config()
    };
    // A vocabulary that leaves rows of its padded table empty.
    let wide = ModelConfig {
        vocab: 1_100,
        ..odd_config()
    };
    for config in [
        odd_config(),
        rotations_config(),
        plain_config(),
        normed_config(),
        ragged_config(),
        post_normed_config(),
        wide,
        parallel,
    ] {
        agree(&config, WeightFormat::Int16, 4, 3);
        agree(&config, WeightFormat::Int8, 1, 1);
    }
}

/// Large shifts make differences narrow: of all channels, of some, of none, in leading rows and others.
#[test]
fn plans_of_narrow_differences_say_what_the_wiring_says() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 3);
    let mixed = |count: usize, least: u8| ChannelShift((0..count).map(|c| least + (c % 4) as u8).collect());
    let (hidden, kv) = (model.config.hidden, model.config.kv_heads * model.config.head_dim);
    model.params.head = mixed(model.config.vocab, 4);
    for (l, layer) in model.params.layers.iter_mut().enumerate() {
        (layer.attention.k, layer.attention.v) = (mixed(kv, 5), ChannelShift::one(9));
        (layer.attention.o.body, layer.attention.o.lead) = (mixed(hidden, 4 + l as u8), 2);
        (layer.mlp.down.body, layer.mlp.down.lead) = (ChannelShift::one(8), -3);
        (layer.attention.skip, layer.mlp.skip) = (ByClass::both(0), ByClass::both(0));
    }
    let key = unrooted_key_of(Suite::Keccak, &model);
    key.check().expect("a valid key");
    assert_eq!(key.shape(&Chunk::whole(key.config.layers), 4).limbs.head, Limbs::Two);
    agree_on(&key, 6, 3);
}

#[test]
fn plans_are_for_statements_of_all_lengths() {
    for (prompt, outputs) in [(1, 2), (2, 1), (9, 8), (16, 1), (17, 1), (20, 6), (1, 25)] {
        agree(&odd_config(), WeightFormat::Int16, prompt, outputs);
    }
}

/// So `tessera chain plan --check` finds a plan that is another function, whichever constant or instruction differs.
#[test]
fn a_plan_that_says_something_else_is_found_at_a_random_point() {
    let key = unrooted_key_of(Suite::Keccak, &random_model(odd_config(), WeightFormat::Int16, 3));
    let plan = Plan::new(&key, 3, 3).expect("a plan");
    for seed in 0..8 {
        assert_eq!(plan.check(&key, [seed; 4]), Ok(()));
    }
    let mut random = SplitMix(5);
    let mut other = 0;
    for _ in 0..200 {
        let mut changed = plan.clone();
        let segment = random.below(changed.program.len() as u64) as usize;
        let pages = &mut changed.program[segment].pages;
        let page = random.below(pages.len() as u64) as usize;
        let at = random.below(pages[page].len() as u64) as usize;
        pages[page][at] ^= 1 << random.below(8);
        other += usize::from(changed.check(&key, [7; 4]).is_err());
    }
    // A few bits are read by nobody: of results that are used no more, and of numbers of a statement that is not this one.
    assert!(other >= 180, "{other} of 200");
}

/// What nobody can state has no plan.
#[test]
fn there_are_no_plans_of_encoders_capped_scores_windows_leading_tokens_and_other_lengths() {
    let key = |config: ModelConfig| unrooted_key_of(Suite::Keccak, &random_model(config, WeightFormat::Int16, 3));
    // No proof under a key of Blake2s is one for contracts, in whichever way its tables are proved.
    for tables in TableArgument::ALL {
        let mut other = unrooted_key_of(Suite::Blake2s, &random_model(odd_config(), WeightFormat::Int16, 3));
        other.header = other.header.with_tables(tables);
        other.check().expect("a key");
        assert!(matches!(Plan::new(&other, 3, 2), Err(NoPlan::Suite)));
    }
    let refused = |key: &ModelKey, rows, outputs| Plan::new(key, rows, outputs).err();
    let encoder = key(encoder_config(Pooling::Mean));
    assert_eq!(refused(&encoder, 8, 1), Some(NoPlan::Model));
    // The contracts know five tables: the sixth relation would be one of zeros.
    assert_eq!(refused(&key(capped_config()), 8, 1), Some(NoPlan::Model));
    assert_eq!(refused(&key(windowed_config(5, [1])), 8, 1), Some(NoPlan::Model));
    // The header of a plan has no token with which leading rows begin.
    let mut token = key(odd_config());
    token.params.leading.token = Some(5);
    assert_eq!(refused(&token, 8, 1), Some(NoPlan::LeadingToken));
    let context = odd_config().context;
    for (rows, outputs) in [(0, 0), (8, 0), (8, 9), (context + 1, 1), (usize::MAX, 1)] {
        assert_eq!(
            refused(&key(odd_config()), rows, outputs),
            Some(NoPlan::Lengths),
            "{rows}, {outputs}"
        );
    }
    assert!(Plan::new(&key(odd_config()), 8, 8).is_ok());
}

/// What contracts would refuse, or have no plan for, is not sent to them.
#[test]
fn only_accepted_proofs_in_one_piece_and_without_clipped_values_are_packed() {
    let model = |suite, config: ModelConfig, att| {
        let mut model = random_model(config, WeightFormat::Int16, 3);
        model
            .params
            .layers
            .iter_mut()
            .for_each(|layer| layer.attention.att = att);
        TestModel::of_suite(suite, model)
    };
    let calm = 7;
    let odd = model(Suite::Keccak, odd_config(), calm);
    let ids = random_ids(&odd.key.config, 4, 5);
    let layers = [odd.key.config.layers];
    let proof = odd.prove_chunks(&ids, 3, &layers);
    assert!(proof.chunks[0].statistics.clips.is_empty());
    let packed = Packed::new(&odd.key, &proof).expect("calls");
    assert_eq!(packed.id, packed.plan.id(&odd.key).expect("a digest"));

    let mut other = proof.clone();
    other.statement.output[1] ^= 1;
    assert!(matches!(Packed::new(&odd.key, &other), Err(PackError::Refused(_))));
    let default = model(Suite::Blake2s, odd_config(), calm);
    let blake = default.prove_chunks(&ids, 3, &layers);
    assert!(matches!(Packed::new(&default.key, &blake), Err(PackError::Suite)));
    let cut = odd.prove_chunks(&ids, 3, &[1, layers[0] - 1]);
    assert!(matches!(Packed::new(&odd.key, &cut), Err(PackError::Chunks(2))));
    let clipping = model(Suite::Keccak, odd_config(), 2);
    let clipped = clipping.prove_chunks(&ids, 3, &layers);
    let refused = Packed::new(&clipping.key, &clipped);
    assert!(matches!(refused, Err(PackError::Clipped(count)) if count == clipped.chunks[0].statistics.clips.len()));
    let capped = model(Suite::Keccak, capped_config(), calm);
    let capped_proof = capped.prove_chunks(&ids, 3, &[capped.key.config.layers]);
    assert!(matches!(
        Packed::new(&capped.key, &capped_proof),
        Err(PackError::NoPlan(NoPlan::Model))
    ));
}

/// The shape decides what the calls take, except that queries choose which leaves are opened: there the prediction is an average.
#[test]
fn calls_are_known_before_there_is_a_proof() {
    for (config, prompt, outputs) in [(odd_config(), 4, 3), (plain_config(), 9, 1), (ragged_config(), 1, 16)] {
        let mut model = random_model(config, WeightFormat::Int16, 3);
        // Without clipped values, which contracts do not take.
        let layers = model.params.layers.iter_mut();
        layers.for_each(|layer| layer.attention.att = 7);
        let model = TestModel::of_suite(Suite::Keccak, model);
        let config = &model.key.config;
        let ids = random_ids(config, prompt, 5);
        let proof = model.prove_chunks(&ids, outputs, &[config.layers]);
        let packed = Packed::new(&model.key, &proof).expect("calls");
        let plan = Plan::new(&model.key, proof.statement.rows(), outputs).expect("a plan");
        let expected = plan.expected_calls(&model.key, proof.statement.rows());
        let (expected, real) = (expected.expect("calls"), packed.calls());
        assert_eq!(expected.len(), real.len(), "{config:?}");
        for (expected, real) in expected.iter().zip(&real) {
            assert_eq!(expected.name, real.name);
            if expected.name.contains("stage") {
                let ratio = expected.bytes as f64 / real.bytes as f64;
                assert!((0.9..1.1).contains(&ratio), "{expected:?}, {real:?}");
            } else {
                assert_eq!(expected, real);
            }
        }
        let gas = |calls: &[Call]| calls.iter().map(|call| call.gas as f64).sum::<f64>();
        let ratio = gas(&expected) / gas(&real);
        assert!((0.98..1.02).contains(&ratio), "{config:?}: {ratio}");
    }
}
