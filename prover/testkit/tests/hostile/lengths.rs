//! How long a proof can be: nobody reads more of a file.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, Pooling, WeightFormat};
use tessera_circuits::statement::Lengths;
use tessera_testkit::{
    capped_config, encoder_config, odd_config, post_normed_config, ragged_config, random_ids, random_model,
    reranker_config, rotations_config, unrooted_key, TestModel,
};
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::length::most_bytes;
use tessera_verifier::verify::{verify_bytes, VerifyError};

use crate::beside;
use crate::targets::honest;

fn model(layers: usize) -> TestModel {
    let config = ModelConfig { layers, ..odd_config() };
    TestModel::new(random_model(config, WeightFormat::Int16, 7))
}

/// The bound is that of its parts: it holds for the longest prompt, the longest output, and for all chunks.
#[test]
fn no_honest_proof_is_longer_than_its_key_allows() {
    let _beside = beside();
    let own = model(2);
    let (config, most) = (&own.key.config, most_bytes(&own.key));
    for (prompt, output) in [(1, 1), (4, 3), (config.context, 1), (1, config.context)] {
        let prompt = random_ids(config, prompt, 3);
        for chunks in [&[2][..], &[1, 1]] {
            let bytes = own.prove_chunks(&prompt, output, chunks).to_bytes().expect("a proof");
            verify_bytes(&own.key, &bytes).expect("it is accepted");
            assert!(bytes.len() <= most, "{} bytes, not {most}", bytes.len());
            // Of the rest, most are clipped values, of which a proof of each chunk may list 65,536.
            let clips = config.layers * (14 << 16);
            println!("{} bytes of {most}, {clips} of them clipped values", bytes.len());
            assert!(most < 4 * bytes.len() + clips || chunks.len() == 1 || prompt.len() < config.context);
        }
    }
}

/// The argument of the bound: whatever chunk and whatever statement, its parts cost no more than the whole model at its context.
#[test]
fn no_chunk_of_a_statement_costs_more_than_the_whole_model() {
    let _beside = beside();
    let configs = [
        odd_config(),
        rotations_config(),
        ragged_config(),
        post_normed_config(),
        capped_config(),
        encoder_config(Pooling::Mean),
        encoder_config(Pooling::First),
        reranker_config(Some(3)),
    ];
    for config in configs {
        let config = ModelConfig {
            layers: 5,
            rotation_of: config
                .rotation_of
                .iter()
                .cycle()
                .take(if config.rotation_of.is_empty() { 0 } else { 5 })
                .copied()
                .collect(),
            ..config
        };
        let key = unrooted_key(&random_model(config.clone(), WeightFormat::Int16, 7));
        let of = |chunk: &Chunk, lengths: Lengths| key.shape(chunk, lengths);
        let whole = of(&Chunk::whole(5), config.context.into());
        for (start, end) in (0..5).flat_map(|start| (start + 1..=5).map(move |end| (start, end))) {
            let chunk = Chunk { start, end, of: 5 };
            for rows in 1..=config.context {
                for outputs in [1, rows.div_ceil(2), rows] {
                    let own = of(&chunk, Lengths::new(rows, outputs));
                    assert!(own.cost() <= whole.cost(), "{chunk:?}, {rows} rows, {outputs} outputs");
                    assert!(own.product_variables() <= whole.product_variables());
                    assert!(own.cells() <= own.cost() && own.fractions() <= own.cost());
                    assert!(1 << own.max_log_rows() <= own.cost());
                }
            }
        }
    }
}

/// It is refused before it is decoded; but a proof of another model is not said to be false, however long it is.
#[test]
fn a_file_that_is_longer_is_not_decoded() {
    let _beside = beside();
    let own = honest();
    let refused = |key: &ModelKey, bytes: &[u8]| verify_bytes(key, bytes).expect_err("no proof");
    let most = most_bytes(&own.key);
    let mut bytes = own.encoded[0].clone();
    bytes.resize(most, 0);
    let error = refused(&own.key, &bytes);
    assert!(
        matches!(error, VerifyError::Malformed(CodecError::TrailingBytes { .. })),
        "{error}"
    );
    bytes.push(0);
    let error = refused(&own.key, &bytes);
    assert!(
        matches!(error, VerifyError::Malformed(CodecError::TooLong { most: own }) if own == most),
        "{error}"
    );
    bytes[12] ^= 1;
    assert!(matches!(refused(&own.key, &bytes), VerifyError::OtherModel { .. }));
    bytes[0] ^= 1;
    assert!(matches!(
        refused(&own.key, &bytes),
        VerifyError::Malformed(CodecError::Magic { .. })
    ));
}
