//! The forward pass against `fixtures/reference.py`, bit for bit. Needs `python3` with numpy, so these run
//! on request: `cargo test --release -p tessera-testkit --test reference -- --ignored`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tessera_circuits::model::{Matmul, ModelConfig, WeightFormat, LAYER_KINDS, TILE};
use tessera_circuits::semantics::{arg_max, cap_table, exp_table, mlp_table, rope_angle};
use tessera_model::forward::ForwardState;
use tessera_model::QuantisedModel;
use tessera_testkit::{
    capped_config, extreme_model, fixture_size_config, normed_config, odd_config, post_normed_config, random_ids,
    random_model, rotations_config, windowed_config,
};

/// The values of one tile, `[y / 4][x][y % 4]`, zero where the padded matrix has no real channel.
fn tile(model: &QuantisedModel, m: &Matmul, b: usize, c: usize) -> Vec<i16> {
    let config = &model.config;
    let mut values = vec![0; TILE * TILE];
    for x in (0..m.in_dim)
        .map(|x| (x, config.pad_in(m.id.kind(), x)))
        .filter(|(_, at)| at / TILE == b)
    {
        for y in (0..m.out_dim)
            .map(|y| (y, config.pad_out(m.id.kind(), y)))
            .filter(|(_, at)| at / TILE == c)
        {
            let (inner, outer) = (x.1 % TILE, y.1 % TILE);
            values[outer / 4 * 4 * TILE + inner * 4 + outer % 4] = model.weight(m.id, x.0, y.0);
        }
    }
    values
}

fn write_model(model: &QuantisedModel, dir: &Path) {
    let mut weights = Vec::new();
    for m in model.config.matmuls() {
        for (b, c) in (0..m.in_blocks).flat_map(|b| (0..m.out_blocks).map(move |c| (b, c))) {
            let values = tile(model, &m, b, c);
            weights.extend(values.iter().map(|&w| w as u8));
            if model.params.format == WeightFormat::Int16 {
                weights.extend(values.iter().map(|&w| ((w - i16::from(w as i8)) >> 8) as u8));
            }
        }
    }
    fs::write(dir.join("weights.bin"), weights).unwrap();
    fs::write(dir.join("tables.bin"), tables(model)).unwrap();
    let json = serde_json::json!({ "config": model.config, "params": model.params });
    fs::write(dir.join("model.json"), json.to_string()).unwrap();
}

fn tables(model: &QuantisedModel) -> Vec<u8> {
    let (config, params) = (&model.config, &model.params);
    let pairs = || (0..config.context).flat_map(|pos| (0..config.head_dim / 2).map(move |x| (pos, x)));
    let of = |rotation| pairs().map(move |(pos, x)| rope_angle(config, rotation, pos, x));
    let angles = || (0..config.rotations.len()).flat_map(of);
    let mut words: Vec<u16> = angles().map(|(cos, _)| cos as u16).collect();
    words.extend(angles().map(|(_, sin)| sin as u16));
    words.extend(exp_table(params.score_bits).iter().map(|&v| v as u16));
    words.extend(mlp_table(params).iter().map(|&v| v as u16));
    let capped = config.blocks.score_cap.map(|cap| cap_table(cap, params.score_bits));
    words.extend(capped.iter().flatten().map(|&v| v as u16));
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn reference(dir: &Path, ids: &[u32], more: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reference.py");
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let mut command = Command::new("python3");
    command.arg(script).arg(dir).arg("--ids").arg(ids.join(",")).args(more);
    command.output().expect("python3 runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn check(model: &QuantisedModel, rows: usize, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    write_model(model, dir.path());
    let ids = random_ids(&model.config, rows, seed);
    let logits = ForwardState::new(model).run(&ids, None).unwrap();
    let out = dir.path().join("logits");
    let text = stdout(&reference(dir.path(), &ids, &["--logits-out", out.to_str().unwrap()]));

    let bytes: Vec<u8> = logits.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert!(fs::read(&out).unwrap() == bytes, "the logits differ");
    let best: Vec<String> = logits
        .chunks(model.config.vocab)
        .map(|row| arg_max(row).to_string())
        .collect();
    assert_eq!(text.lines().next(), Some(format!("argmax {}", best.join(",")).as_str()));

    let digest = text
        .lines()
        .find_map(|line| line.strip_prefix("sha256 "))
        .unwrap()
        .to_string();
    assert!(reference(dir.path(), &ids, &["--expect-digest", &digest])
        .status
        .success());
    let other = format!("{}{}", if digest.starts_with('0') { '1' } else { '0' }, &digest[1..]);
    assert_eq!(
        reference(dir.path(), &ids, &["--expect-digest", &other]).status.code(),
        Some(1)
    );
}

/// Head halves of 3 are padded to 4, and several tiles in every direction.
fn many_tiles_config() -> ModelConfig {
    ModelConfig {
        hidden: 150,
        heads: 26,
        kv_heads: 13,
        ff: 130,
        context: 40,
        ..odd_config()
    }
}

// `.ci/run` installs numpy and runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3 with numpy, which CI has: cargo test -- --ignored"]
fn python_reproduces_the_logits_bit_for_bit() {
    for (format, seed) in [(WeightFormat::Int8, 21), (WeightFormat::Int16, 22)] {
        check(&random_model(odd_config(), format, seed), 25, seed);
        check(&extreme_model(odd_config(), format, seed), 25, seed);
        check(&random_model(rotations_config(), format, seed), 25, seed);
        check(&random_model(normed_config(), format, seed), 25, seed);
        check(&random_model(post_normed_config(), format, seed), 25, seed);
        check(&random_model(capped_config(), format, seed), 25, seed);
        // Three windows long, in some layers and in all.
        for (keys, layers) in [(1, vec![1]), (9, vec![0, 2]), (16, vec![0, 1, 2]), (17, vec![1])] {
            let config = windowed_config(keys, layers);
            check(&random_model(config.clone(), format, seed), 3 * keys as usize, seed);
            check(&extreme_model(config, format, seed), 3 * keys as usize, seed);
        }
        // As large as gains of a valid key are.
        let mut extreme = extreme_model(post_normed_config(), format, seed);
        let first = LAYER_KINDS.len() * extreme.config.layers + 1;
        let gains = extreme.params.biases[first..].iter_mut().flatten();
        gains.for_each(|gain| *gain = (*gain).clamp(-(1 << 21) + 256, (1 << 21) - 256));
        check(&extreme, 25, seed);
        check(&random_model(many_tiles_config(), format, seed), 40, seed);
        check(&random_model(fixture_size_config(), format, seed), 64, seed);
    }
}

// `.ci/run` installs numpy and runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3 with numpy, which CI has: cargo test -- --ignored"]
fn python_names_unusable_input() {
    let model = random_model(odd_config(), WeightFormat::Int8, 23);
    let dir = tempfile::tempdir().unwrap();
    write_model(&model, dir.path());
    let complaint = |ids: &[u32]| {
        let output = reference(dir.path(), ids, &[]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(complaint(&[300]).contains("token id 300"));
    assert!(complaint(&[0; 26]).contains("26 tokens"));

    let path = dir.path().join("tables.bin");
    let mut bytes = fs::read(&path).unwrap();
    let exp = 4 * model.config.context * model.config.head_dim / 2;
    bytes[exp + 2] ^= 2;
    fs::write(&path, &bytes).unwrap();
    assert!(complaint(&[1]).contains("exp is off by"));
    fs::write(&path, &bytes[2..]).unwrap();
    assert!(complaint(&[1]).contains("tables.bin has"));
}
