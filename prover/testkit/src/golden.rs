//! The statements whose proofs do not change from one build to another, and from one device to another.

use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::statement::{HiddenIds, HiddenPrompt, Statement};
use tessera_circuits::table_tree::TableArgument;
use tessera_prover::hiding::{Kept, Secrets, TapeKey};
use tessera_prover::reveal::reveal_with_secrets;
use tessera_verifier::context::Context;
use tessera_verifier::proof::Proof;
use tessera_verifier::reveal::{Reveal, Revealing};
use tessera_verifier::suite::Suite;

use crate::{banded_config, odd_config, random_ids, random_model, reranker_config, TestModel};

/// The file with the digests of keys and proofs.
pub const GOLDEN_PROOFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden-proofs.json");

/// For how many reveals the golden proof leaves room that hides ids.
const GOLDEN_REVEALS: usize = 2;

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
            Parts::HiddenTexts => self.prove_revealing().0,
        }
    }

    /// Proves the statement with all ids but the first one hidden, with room for reveals.
    fn prove_revealing(&self) -> (Proof, Option<Kept>, Statement) {
        let prompt = random_ids(&self.model.key.config, 4, 3);
        let ids = HiddenIds {
            prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
            output: true,
        };
        let hidden = (&TapeKey::of_test(8), &ids);
        self.model.prove_revealing(hidden, None, &prompt, 3, GOLDEN_REVEALS)
    }

    /// A reveal of an id of the prompt and of all ids of the output, if the statement hides ids.
    pub fn reveal(&self) -> Option<(Proof, Reveal)> {
        let Parts::HiddenTexts = self.parts else { return None };
        let (key, (proof, kept, witness)) = (&self.model.key, self.prove_revealing());
        let (kept, bytes) = (kept?, proof.to_bytes().ok()?);
        let output = witness.prompt.len()..witness.tokens().count();
        let ids: Vec<(usize, u32)> = witness.tokens().enumerate().collect();
        let positions = std::iter::once(2).chain(output);
        let ids = positions.map(|at| ids[at]).collect();
        let revealing = Revealing::of(key, &proof, &bytes, ids).expect("ids that are hidden");
        let secrets = Secrets::draw(revealing.mask.clone(), &TapeKey::of_test(9));
        let reveal = reveal_with_secrets(key, &revealing, &kept, &secrets).expect("an honest reveal");
        drop(revealing);
        Some((proof, reveal))
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
