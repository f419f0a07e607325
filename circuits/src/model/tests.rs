use super::*;

/// What is computed from them would be no number, or no angle that other verifiers agree on.
#[test]
fn numbers_of_a_config_are_numbers_in_range() {
    let check = |theta, eps| {
        let config = ModelConfig {
            rotations: vec![Rotation::Base(theta)],
            rms_eps: eps,
            ..odd_config(1)
        };
        config.check()
    };
    for (theta, eps) in [(1.0, 0.0), (1e12, 1.0), (500.0, f64::MIN_POSITIVE)] {
        assert_eq!(check(theta, eps), Ok(()), "{theta} {eps}");
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300] {
        for (what, result) in [("rope_theta", check(bad, 1e-5)), ("rms_norm_eps", check(1e4, bad))] {
            let error = result.expect_err("not in range").to_string();
            assert!(error.contains(what) && error.contains(&bad.to_string()), "{error}");
        }
    }
    for (theta, eps) in [(0.0, 1e-5), (0.999, 1e-5), (1.001e12, 1e-5), (1e4, 1.001)] {
        assert!(check(theta, eps).is_err(), "{theta} {eps}");
    }
}

/// What is not a frequency of every pair, or not a rotation of every layer, is no rotation that verifiers agree on.
#[test]
fn rotations_are_those_of_all_pairs_and_layers() {
    let check = |rotations: Vec<Rotation>, rotation_of: &[u8]| {
        let config = ModelConfig {
            rotations,
            rotation_of: rotation_of.to_vec(),
            ..odd_config(3)
        };
        config.check().map_err(|e| e.to_string())
    };
    let some = |frequencies: &[f64]| Rotation::Frequencies(frequencies.to_vec());
    let (plain, none) = (Rotation::Base(1e4), some(&[0.0; 3]));
    assert_eq!(check(vec![some(&[1024.0, 0.5, 0.0])], &[]), Ok(()));
    assert_eq!(check(vec![plain.clone(), none.clone()], &[0, 1, 0]), Ok(()));
    for bad in [f64::NAN, f64::INFINITY, -1e-9, 1024.1] {
        let error = check(vec![some(&[1.0, bad, 0.0])], &[]).expect_err("not in range");
        assert!(error.contains("frequency of a rotation"), "{error}");
    }
    for (rotations, layers, words) in [
        (vec![], &[][..], "number of rotations"),
        (vec![plain.clone(); 9], &[0; 3], "number of rotations"),
        (
            vec![some(&[1.0; 2])],
            &[],
            "frequencies of a rotation: 2 entries, expected 3",
        ),
        (
            vec![some(&[1.0; 4])],
            &[],
            "frequencies of a rotation: 4 entries, expected 3",
        ),
        (
            vec![plain.clone()],
            &[0; 3],
            "rotations of layers: 3 entries, expected 0",
        ),
        (
            vec![plain.clone(), none.clone()],
            &[],
            "rotations of layers: 0 entries, expected 3",
        ),
        (
            vec![plain.clone(), none.clone()],
            &[0, 1],
            "rotations of layers: 2 entries, expected 3",
        ),
        (vec![plain, none], &[0, 1, 2], "rotation of a layer is 2"),
    ] {
        let error = check(rotations, layers).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

/// Bands follow from the row of tiles with the fewest factors 2, whichever it is, and are of four tiles at most.
#[test]
fn bands_leave_no_tile_over() {
    // Rows of 8, 16, 4, 24 and 40 tiles.
    let four = ModelConfig {
        hidden: 512,
        heads: 8,
        kv_heads: 2,
        head_dim: 128,
        ff: 1500,
        vocab: 2550,
        ..odd_config(3)
    };
    type Change = fn(&mut ModelConfig);
    let changes: [(Change, u32); 12] = [
        (|_| (), 2),
        (|c| c.hidden = 449, 2),
        (|c| c.hidden = 448, 0),
        (|c| c.hidden = 384, 1),
        (|c| c.kv_heads = 1, 1),
        (|c| c.kv_heads = 4, 2),
        (|c| c.head_dim = 6, 0),
        (|c| c.ff = 1408, 1),
        (|c| c.ff = 1400, 1),
        (|c| c.ff = 1344, 0),
        (|c| c.vocab = 2500, 2),
        (|c| c.vocab = 50_257, 1),
    ];
    for (i, (change, expected)) in changes.into_iter().enumerate() {
        let mut config = four.clone();
        change(&mut config);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.band_log(), expected, "change {i}");
        // Whatever the layers, so that chunks agree with their model.
        config.layers = 1;
        assert_eq!(config.band_log(), expected, "change {i}");
    }
}

/// Positions have the rows of the embedding after those of the vocabulary, and no row beyond the context has one.
#[test]
fn positions_have_rows_of_the_embedding() {
    let own = odd_config(2);
    assert_eq!(own.position_row(0, 0), None);
    let config = ModelConfig { positions: true, ..own };
    assert_eq!(
        config.dims(MatmulKind::Embed),
        (config.vocab + config.context, config.hidden)
    );
    let rows = [0, config.context - 1, config.context].map(|i| config.position_row(i, 0));
    assert_eq!(
        rows,
        [Some(config.vocab), Some(config.vocab + config.context - 1), None]
    );
    // They may need more coordinates than the vocabulary does.
    let wide = ModelConfig { vocab: 500, ..config };
    assert_eq!((wide.padded().vocab, wide.padded().embed), (9, 10));
}

/// A model without gates has six matrices a layer, and no parameters of gates.
#[test]
fn models_without_gates_have_nothing_of_them() {
    let config = ModelConfig {
        gated: false,
        ..odd_config(2)
    };
    assert_eq!(config.matmuls().len(), 2 * 6 + 2);
    let mut params = test_params(&config);
    params.layers.iter_mut().for_each(|l| {
        l.mlp.gate.0.clear();
        l.mlp.act = ByClass::both(0);
    });
    assert_eq!(params.check(&config), Ok(()));
    assert_eq!(params.norms(MatmulKind::Gate.at(1)), Some(ColumnNorms::default()));
    let limbs = params.limb_set(&config);
    assert_eq!(limbs.gate, limbs.up);
    let refused = |change: &dyn Fn(&mut ModelParams)| {
        let mut other = params.clone();
        change(&mut other);
        assert!(other.check(&config).is_err());
    };
    refused(&|p| p.layers[1].mlp.gate.0.push(3));
    refused(&|p| p.layers[0].mlp.act.lead = 1);
    refused(&|p| p.columns[4] = ColumnNorms { l1: 1, square: 1 });
    refused(&|p| {
        p.biases = vec![Vec::new(); p.columns.len()];
        p.biases[4] = vec![1; config.ff];
    });
    // Nor does a model with gates do without.
    let gated = ModelConfig {
        gated: true,
        ..config.clone()
    };
    assert!(params.clone().with_largest_norms(&gated).check(&gated).is_err());
}

/// Where heads are normed, their rotations have weights of their own in every layer: 1,000 layers of 32 pairs leave 2^23 / 32,000 rows,
/// which is 262, and rows are padded.
#[test]
fn normed_heads_bound_the_context() {
    let config = |layers, head_norms| ModelConfig {
        layers,
        head_dim: 64,
        head_norms,
        ..odd_config(1)
    };
    assert_eq!(config(1_000, true).max_context(), 256);
    assert_eq!(config(2_000, true).max_context(), 128);
    assert_eq!(config(1, true).max_context(), MAX_CONTEXT);
    assert_eq!(config(1_000, false).max_context(), MAX_CONTEXT);
}

/// Embedding and head have one name each, whichever layer is asked for; in layers every matrix has its own.
#[test]
fn every_matrix_has_one_name() {
    assert_eq!(MatmulKind::Embed.at(3), MatrixId::EMBED);
    assert_eq!(MatmulKind::Head.at(usize::MAX), MatrixId::HEAD);
    let matmuls = odd_config(3).matmuls();
    let names: std::collections::BTreeSet<MatrixId> = matmuls.iter().map(|m| m.id).collect();
    assert_eq!(names.len(), matmuls.len());
    assert!(names.iter().all(|id| id.kind().at(id.layer()) == *id));
}
