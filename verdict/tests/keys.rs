//! Keys whose recipe is damaged: a front end shows what a key says, so it refuses them, though no proof depends on it.

use tessera_circuits::model::WeightFormat;
use tessera_recipe::{Fidelity, Figures, Recipe, RecipeError};
use tessera_testkit::{odd_config, random_ids, random_model, TestModel};
use tessera_verdict::{Key, KeyFileError};
use tessera_verifier::codec::{encode_part, CodecError, FileKind};
use tessera_verifier::key::ModelKey;
use tessera_verifier::verify::verify;

/// A recipe that no program writes, and what is said of the key that has it.
type Damage = (&'static str, Vec<u8>, &'static str);

fn damages(honest: &[u8]) -> Vec<Damage> {
    let of = |recipe: Recipe| encode_part(&recipe).expect("bytes");
    let text = |text: &str| Recipe {
        tool: text.to_owned(),
        ..Recipe::default()
    };
    let kl = Figures {
        kl: f64::NAN,
        ..Figures::default()
    };
    let figures = Recipe {
        fidelity: Some(Fidelity::Measured(kl)),
        ..Recipe::default()
    };
    let last = honest.len() - 1;
    vec![
        ("none", vec![], "model key file ends early"),
        ("half of one", honest[..last].to_vec(), "model key file ends early"),
        (
            "bytes behind it",
            [honest, &[0; 3]].concat(),
            "model key file has 3 bytes after its end",
        ),
        (
            "an option of 2",
            [&honest[..last], &[2]].concat(),
            "malformed model key file: ",
        ),
        (
            "a line more",
            of(text("two\nlines")),
            "model key: the recipe's tool holds a control character",
        ),
        (
            "an escape",
            of(text("\u{1b}[2J")),
            "model key: the recipe's tool holds a control character",
        ),
        (
            "a text without end",
            of(text(&"a".repeat(4097))),
            "model key: the recipe's tool has 4097 entries or bytes, at most 4096 are allowed",
        ),
        (
            "a figure that is no number",
            of(figures),
            "model key: the recipe's fidelity figure kl is not a number that can be",
        ),
    ]
}

#[test]
fn a_key_with_a_damaged_recipe_is_refused_where_its_recipe_is_shown() {
    let model = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 7));
    let proof = model.prove_chunks(&random_ids(&odd_config(), 4, 3), 3, &[odd_config().layers]);
    let honest = model.key;
    Key::from_bytes(&honest.to_bytes().expect("a key")).expect("a key");
    for (what, recipe, words) in damages(&honest.recipe) {
        let damaged = ModelKey {
            recipe,
            ..honest.clone()
        };
        let bytes = damaged.to_bytes().expect("a key");
        let error = Key::from_bytes(&bytes).expect_err(what);
        assert!(matches!(error, KeyFileError::Recipe(_)), "{what}: {error}");
        assert!(error.to_string().starts_with(words), "{what}: {error}");
        assert!(
            error.advice().contains("the file is damaged"),
            "{what}: {}",
            error.advice()
        );
        // To a verifier it is the same model.
        let read = ModelKey::from_bytes(&bytes).expect(what);
        assert_eq!(read, damaged, "{what}");
        assert_eq!(read.id().expect("an id"), honest.id().expect("an id"), "{what}");
        verify(&read, &proof).expect(what);
    }
}

/// Errors of the fields before the recipe come first, and are the verifier's own.
#[test]
fn what_a_verifier_refuses_is_refused_with_its_reason() {
    let model = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 7));
    let mut key = model.key;
    key.recipe.clear();
    key.header.leaf_points = 4;
    let bytes = key.to_bytes().expect("a key");
    let (own, read) = (Key::from_bytes(&bytes), ModelKey::from_bytes(&bytes));
    let (own, read) = (own.expect_err("a header"), read.expect_err("a header"));
    assert!(matches!(own, KeyFileError::Key(_)), "{own}");
    assert_eq!(own.to_string(), read.to_string());
    assert_eq!(own.advice(), read.advice());
    let kind = FileKind::Key;
    let early = RecipeError::Codec(CodecError::Truncated { kind });
    assert_eq!(Recipe::of(&key), Err(early));
}
