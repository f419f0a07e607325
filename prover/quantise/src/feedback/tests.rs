use super::*;
use tessera_support::random::SplitMix;

/// Inputs of 40 channels that all follow a few common ones, so that errors of one can be made up for by others.
fn inputs(rows: usize) -> Vec<f32> {
    let mut rng = SplitMix(9);
    let mut random = || rng.below(2001) as f32 / 1000.0 - 1.0;
    let mixed: Vec<f32> = (0..4 * 40).map(|_| random()).collect();
    let mut row = || {
        let common: [f32; 4] = std::array::from_fn(|_| random());
        let noise: Vec<f32> = (0..40).map(|_| 0.1 * random()).collect();
        let of = |c: usize| -> f32 { (0..4).map(|i| common[i] * mixed[i * 40 + c]).sum() };
        noise
            .into_iter()
            .enumerate()
            .map(|(c, n)| n + of(c))
            .collect::<Vec<f32>>()
    };
    (0..rows).flat_map(|_| row()).collect()
}

/// Squared error of the outputs on these inputs.
fn error(rows: &[f32], weights: &[[f32; TILE]], integers: &[[i16; TILE]]) -> f64 {
    let outputs = rows.chunks_exact(40).flat_map(|row| {
        (0..TILE).map(move |y| {
            let terms = row.iter().enumerate();
            terms
                .map(|(x, v)| f64::from(v * (weights[x][y] - f32::from(integers[x][y]))))
                .sum::<f64>()
        })
    });
    outputs.map(|e| e * e).sum()
}

#[test]
fn the_factor_is_that_of_the_gram_matrix() {
    let rows = inputs(300);
    let factor = Factor::new(0..40, &rows);
    let stride = factor.stride;
    let squares = |c: usize| rows.chunks_exact(40).map(|row| f64::from(row[c] * row[c])).sum::<f64>();
    let damping = f64::from(DAMPING) * (0..40).map(squares).sum::<f64>() / 40.0;
    // With D the squared diagonal, which the factor does not keep, G = R^T D R: row by row, D follows from G.
    let mut diagonal = [0.0; 40];
    for i in 0..40 {
        for j in i..40 {
            let (a, b) = (factor.order[i], factor.order[j]);
            let product = rows.chunks_exact(40).map(|row| f64::from(row[a]) * f64::from(row[b]));
            let gram = product.sum::<f64>() + if i == j { damping } else { 0.0 };
            let r = |k: usize, c: usize| f64::from(factor.rows[k * stride + c]);
            let known: f64 = (0..i).map(|k| diagonal[k] * r(k, i) * r(k, j)).sum();
            if i == j {
                diagonal[i] = gram - known;
            }
            assert!((gram - known - diagonal[i] * r(i, j)).abs() < 1e-3 * damping, "{i} {j}");
        }
    }
}

/// On inputs that are alike, most of the error of rounding to the nearest is made up for.
#[test]
fn fed_back_errors_are_a_fraction_of_those_of_rounding() {
    let rows = inputs(300);
    let mut rng = SplitMix(4);
    let weights: Vec<[f32; TILE]> = (0..40)
        .map(|_| std::array::from_fn(|_| rng.below(10_001) as f32 / 1000.0 - 5.0))
        .collect();
    let bits = [0; TILE];
    let nearest: Vec<[i16; TILE]> = weights.iter().map(|row| row.map(|w| w.round() as i16)).collect();
    let whole = round(&[Factor::new(0..40, &rows)], weights.clone(), &bits, 127);
    let halves = [0..20, 20..40].map(|channels| {
        let own = rows.chunks_exact(40).flat_map(|row| row[channels.clone()].to_vec());
        Factor::new(channels.clone(), &own.collect::<Vec<f32>>())
    });
    let halves = round(&halves, weights.clone(), &bits, 127);
    let error = |integers: &[[i16; TILE]]| error(&rows, &weights, integers);
    let (nearest, whole, halves) = (error(&nearest), error(&whole), error(&halves));
    assert!(
        whole < 0.2 * nearest && halves < 0.5 * nearest,
        "{nearest} {whole} {halves}"
    );
}

/// A value counts as often as it is attended to, a key as much as it can move the attention, and each text has rows
/// of its own.
#[test]
fn rows_count_as_much_as_what_attends_to_them() {
    let config = tessera_samples::odd_config();
    let normed = vec![vec![]; config.states()];
    let mut inputs = Inputs {
        config: &config,
        normed: &normed,
        widths: SEEN.map(|input| (input, 1)).into(),
        hidden: 1,
        rows: BTreeMap::new(),
        attended: Attended {
            heads: 2,
            texts: vec![7, 2, 1],
            ..Attended::default()
        },
        products: &[],
    };
    inputs.sequences(1..3);
    inputs.observe(Site::NormAttn(0), &[1.0, 1.0, 10.0]);
    let rows: [&[f32]; 3] = [&[0.5], &[3.0, 3.0], &[7.0]];
    for scores in rows {
        (0..2).for_each(|_| inputs.observe(Site::Scores(0), scores));
    }
    inputs.observe(Site::Q(0), &[]);
    let squares = SEEN.map(|input| inputs.rows[&input].iter().map(|v| v * v).collect::<Vec<f32>>());
    let expected = [[0.0, 0.25, 0.0], [0.125, 0.125, 0.0], [2.5, 0.5, 200.0]];
    for (got, expected) in squares.iter().flatten().zip(expected.iter().flatten()) {
        assert!((got - expected).abs() < 1e-4, "{squares:?}");
    }
}

/// No integer is beyond the limit, however large the error that is fed back.
#[test]
fn fed_back_weights_stay_within_their_bits() {
    let weights = vec![[4.0; TILE]; 40];
    let out = round(&[Factor::new(0..40, &inputs(50))], weights, &[0; TILE], 3);
    assert!(out.iter().flatten().all(|w| w.abs() <= 3));
    assert!(out.iter().flatten().any(|w| *w == 3));
}

/// What is fed back comes from the integers that Down reads: a channel with exponent `k` has units `2^k` times as large.
#[test]
fn products_count_in_the_units_of_their_channels() {
    let products = [vec![], vec![0, 3]];
    let config = tessera_samples::odd_config();
    let normed = vec![vec![]; config.states()];
    let mut inputs = Inputs {
        config: &config,
        normed: &normed,
        widths: [(Input::Product, 2)].into(),
        hidden: 1,
        rows: BTreeMap::new(),
        attended: Attended::default(),
        products: &products,
    };
    inputs.observe(Site::Product(0), &[1.0, 8.0]);
    inputs.observe(Site::Product(1), &[1.0, 8.0, 2.0, -4.0]);
    assert_eq!(inputs.rows[&Input::Product], [1.0, 8.0, 1.0, 1.0, 2.0, -0.5]);
}
