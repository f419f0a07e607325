use super::*;

fn figures(kl: f64, top1: f64) -> Figures {
    Figures {
        kl,
        top1,
        ..Figures::default()
    }
}

fn with(change: impl FnOnce(&mut Recipe)) -> Result<(), RecipeError> {
    let file = |name: &str| SourceFile {
        name: name.to_owned(),
        bytes: 1,
        sha256: [7; 32],
    };
    let mut recipe = Recipe {
        tool: "a program".to_owned(),
        settings: vec![Setting {
            name: "bits".to_owned(),
            value: "8".to_owned(),
        }],
        files: Some(vec![file("config.json"), file("model.safetensors")]),
        ..Recipe::default()
    };
    change(&mut recipe);
    recipe.check()
}

/// Puts a text in its place.
type Put = fn(&mut Recipe, String);

/// A recipe is shown in terminals: no text of it holds what moves a cursor, or is longer than is read.
#[test]
fn every_text_of_a_recipe_can_be_shown() {
    let places: [(&str, Put); 7] = [
        ("tool", |r, t| r.tool = t),
        ("setting", |r, t| r.settings[0].name = t),
        ("setting", |r, t| r.settings[0].value = t),
        ("calibration text", |r, t| r.calibration.text = t),
        ("file name", |r, t| r.files.as_mut().expect("files")[1].name = t),
        ("reason", |r, t| r.fidelity = Some(Fidelity::NotMeasured(t))),
        ("fidelity text", |r, t| {
            let text = t;
            r.fidelity = Some(Fidelity::Measured(Figures {
                text,
                ..Figures::default()
            }));
        }),
    ];
    for (what, put) in places {
        let of = |text: String| with(|recipe| put(recipe, text));
        assert_eq!(of("é".repeat(MAX_TEXT / 2)), Ok(()), "{what}");
        let (got, limit) = (MAX_TEXT + 1, MAX_TEXT);
        assert_eq!(of("a".repeat(got)), Err(RecipeError::TooLong { what, got, limit }));
        for control in ["\n", "a\u{1b}[2J", "\u{9b}2J", "\0"] {
            assert_eq!(of(control.to_owned()), Err(RecipeError::Control { what }));
        }
    }
    let vectors = |text: &str| {
        let text = text.to_owned();
        let figures = VectorFigures {
            text,
            ..VectorFigures::default()
        };
        with(|recipe| recipe.fidelity = Some(Fidelity::Vectors(figures)))
    };
    assert_eq!(vectors("bundled"), Ok(()));
    assert_eq!(vectors("\r"), Err(RecipeError::Control { what: "fidelity text" }));
}

#[test]
fn a_recipe_has_so_many_entries_and_no_more() {
    let (limit, got) = (MAX_ENTRIES, MAX_ENTRIES + 1);
    for (count, verdict) in [
        (limit, [Ok(()), Ok(())]),
        (
            got,
            ["settings", "files"].map(|what| Err(RecipeError::TooLong { what, got, limit })),
        ),
    ] {
        let settings = with(|r| r.settings = vec![r.settings[0].clone(); count]);
        let files = with(|r| r.files = r.files.as_ref().map(|list| vec![list[0].clone(); count]));
        assert_eq!([settings, files], verdict);
    }
}

/// A recipe with something of every kind.
fn full() -> Recipe {
    Recipe {
        tool: "tessera".to_owned(),
        settings: vec![Setting {
            name: "strategy".to_owned(),
            value: "w8".to_owned(),
        }],
        calibration: Calibration {
            text: "file".to_owned(),
            sha256: Some([4; 32]),
            tokens: 7,
        },
        files: Some(vec![SourceFile {
            name: "config.json".to_owned(),
            bytes: 5,
            sha256: [5; 32],
        }]),
        fidelity: Some(Fidelity::Measured(figures(0.5, 0.5))),
    }
}

/// A recipe is written back byte for byte as it was read, and other bytes are refused.
#[test]
fn a_recipe_has_one_encoding() {
    let kind = FileKind::Key;
    let bytes = full().to_bytes().unwrap();
    assert_eq!(Recipe::from_bytes(&bytes), Ok(full()));
    for length in 0..bytes.len() {
        let error = RecipeError::Codec(CodecError::Truncated { kind });
        assert_eq!(Recipe::from_bytes(&bytes[..length]), Err(error), "{length} bytes");
    }
    let longer = [&bytes[..], &[0; 3]].concat();
    let error = RecipeError::Codec(CodecError::TrailingBytes { kind, count: 3 });
    assert_eq!(error.to_string(), "model key file has 3 bytes after its end");
    assert_eq!(Recipe::from_bytes(&longer), Err(error));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            if let Ok(read) = Recipe::from_bytes(&other) {
                assert_eq!(read.to_bytes(), Ok(other), "bit {bit} of byte {at}");
            }
        }
    }
    // An option is 0 or 1, a text is UTF-8, and a length that is claimed is there.
    let changed = |at: usize, byte: u8| {
        let mut other = bytes.clone();
        other[at] = byte;
        Recipe::from_bytes(&other)
    };
    let (text, option) = (8, bytes.len() - full_fidelity());
    for (at, byte) in [(option, 2), (text, 0xff)] {
        let error = changed(at, byte).unwrap_err();
        assert!(
            matches!(error, RecipeError::Codec(CodecError::Malformed { .. })),
            "{error}"
        );
    }
    let error = changed(3, 1).unwrap_err();
    assert_eq!(error, RecipeError::Codec(CodecError::Truncated { kind }));
    // A host of 32 bits cannot hold so long a text.
    let claimed = match usize::BITS {
        64 => CodecError::ClaimTooLarge {
            kind,
            limit: kind.limit(),
        },
        _ => CodecError::Truncated { kind },
    };
    assert_eq!(changed(7, 1), Err(RecipeError::Codec(claimed)));
}

/// Bytes that the option of the fidelity has in [`full`].
fn full_fidelity() -> usize {
    encode_part(&full().fidelity).unwrap().len()
}

#[test]
fn what_cannot_be_shown_is_neither_written_nor_read() {
    let other = Recipe {
        tool: "two\nlines".to_owned(),
        ..full()
    };
    let error = RecipeError::Control { what: "tool" };
    assert_eq!(
        error.to_string(),
        "model key: the recipe's tool holds a control character"
    );
    assert_eq!(other.to_bytes(), Err(error.clone()));
    assert_eq!(Recipe::from_bytes(&encode_part(&other).unwrap()), Err(error));
}

#[test]
fn a_class_needs_both_divergence_and_agreement() {
    for (kl, top1, class) in [
        (1e-3, 0.98, Class::Faithful),
        (1.01e-3, 1.0, Class::Close),
        (0.0, 0.979, Class::Close),
        (1e-2, 0.95, Class::Close),
        (1.01e-2, 1.0, Class::Unfaithful),
        (0.0, 0.949, Class::Unfaithful),
        (f64::NAN, 1.0, Class::Unfaithful),
    ] {
        assert_eq!(figures(kl, top1).class(), class, "{kl} {top1}");
    }
}

#[test]
fn what_no_program_writes_is_refused_by_name() {
    let measured = |figures| Recipe {
        fidelity: Some(Fidelity::Measured(figures)),
        ..Recipe::default()
    };
    assert_eq!(measured(figures(0.5, 0.5)).check(), Ok(()));
    for (kl, top1, what) in [
        (f64::NAN, 0.5, "kl"),
        (-1.0, 0.5, "kl"),
        (f64::INFINITY, 0.5, "kl"),
        (0.5, 1.5, "top1"),
    ] {
        let error = measured(figures(kl, top1)).check().unwrap_err();
        assert_eq!(error, RecipeError::Figure { what }, "{kl} {top1}");
    }
    let escape = Recipe {
        tool: "\u{1b}[2J".to_owned(),
        ..Recipe::default()
    };
    assert_eq!(escape.check(), Err(RecipeError::Control { what: "tool" }));
    let long = Recipe {
        fidelity: Some(Fidelity::NotMeasured("x".repeat(MAX_TEXT + 1))),
        ..Recipe::default()
    };
    assert!(matches!(long.check(), Err(RecipeError::TooLong { what: "reason", .. })));
}
