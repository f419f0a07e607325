//! The statements whose proofs do not change from one build to another, and from one device to another.

use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::statement::{HiddenIds, HiddenPrompt};
use tessera_circuits::table_tree::TableArgument;
use tessera_prover::hiding::TapeKey;
use tessera_verifier::context::Context;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;

use crate::{banded_config, odd_config, random_ids, random_model, reranker_config, TestModel};

/// The file with the digests of keys and proofs.
pub const GOLDEN_PROOFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden-proofs.json");

/// A statement whose key and proof have digests in [`GOLDEN_PROOFS`].
pub struct GoldenStatement {
    pub model: TestModel,
    parts: Parts,
}

/// The parts that a golden statement is proved in.
enum Parts {
    /// Chunks of so many layers.
    Chunks(&'static [usize]),
    /// One chunk, whose activations are hidden by pads that a test may know, in a context.
    Hidden,
    /// The same without a context, and the ids of all tokens but the first one are hidden, too.
    HiddenTexts,
}

impl GoldenStatement {
    /// Proves the statement on the device of its model.
    pub fn prove(&self) -> Proof {
        let prompt = random_ids(&self.model.key.config, 4, 3);
        match self.parts {
            Parts::Chunks(layers) => self.model.prove_chunks(&prompt, 3, layers),
            Parts::Hidden => {
                let context = Context::try_from([9; Context::BYTES]).expect("a context");
                let none = HiddenIds::default();
                self.model
                    .prove_hidden((&TapeKey::of_test(7), &none), Some(context), &prompt, 3)
            }
            Parts::HiddenTexts => {
                let ids = HiddenIds {
                    prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
                    output: true,
                };
                self.model.prove_hidden((&TapeKey::of_test(8), &ids), None, &prompt, 3)
            }
        }
    }
}

/// All golden statements. A proof in one piece of a model of 8 bits that has three layers, matrices of several tiles and as many keys as
/// queries, one in two chunks of a model of 12 bits that has half as many keys, and one in one piece of a model that is opened in bands.
/// One is of the suite Keccak, in two chunks, and one is of a reranker, whose second text begins with the third token. The last two hide their
/// activations, one of them under a key whose other proofs have a STARK of the tables, and with its ids.
pub fn golden_statements() -> Vec<GoldenStatement> {
    let odd = |hidden, heads, kv_heads| ModelConfig {
        hidden,
        heads,
        kv_heads,
        ..odd_config()
    };
    let separator = random_ids(&reranker_config(None), 4, 3)[1];
    let reranker = reranker_config(Some(separator));
    let cases = [
        (Suite::Blake2s, WeightFormat::Int8, odd(72, 3, 3), &[3][..]),
        (Suite::Blake2s, WeightFormat::Int16, odd(20, 4, 2), &[1, 1]),
        (Suite::Blake2s, WeightFormat::Int8, banded_config(2), &[2]),
        (Suite::Keccak, WeightFormat::Int8, odd(20, 2, 2), &[1, 1]),
        (Suite::Blake2s, WeightFormat::Int16, reranker, &[2]),
    ];
    let statement = |(suite, format, config, chunks): (Suite, WeightFormat, ModelConfig, &'static [usize])| {
        let config = ModelConfig {
            layers: chunks.iter().sum(),
            ..config
        };
        // The attention outputs are clipped here and there.
        let mut model = random_model(config, format, 7);
        model.params.layers.iter_mut().for_each(|layer| layer.attention.att = 2);
        GoldenStatement {
            model: TestModel::of_suite(suite, model),
            parts: Parts::Chunks(chunks),
        }
    };
    let hidden = |parts: Parts, tables: TableArgument| GoldenStatement {
        model: TestModel::new(random_model(odd_config(), WeightFormat::Int8, 7)).with_tables(tables),
        parts,
    };
    let hidden = [
        hidden(Parts::Hidden, TableArgument::Gkr),
        hidden(Parts::HiddenTexts, TableArgument::Stark),
    ];
    cases.map(statement).into_iter().chain(hidden).collect()
}
