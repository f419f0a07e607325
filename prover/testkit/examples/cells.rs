//! What the values of a forward pass cost in committed cells and lookups, by kind, and how both grow with rows, layers and width.
//! The tables of docs/performance.md: `cargo run --release -p tessera-testkit --example cells KEY [ROWS]`

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::ModelConfig;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Lengths;
use tessera_verifier::key::ModelKey;

/// Values of int16 that the forward pass has in a part, for real tokens, heads and channels.
fn values(shape: &Shape, rows: u128, part: Part) -> u128 {
    let c = &shape.config;
    let [layers, heads, kv_heads, head_dim] = [c.layers, c.heads, c.kv_heads, c.head_dim].map(|n| n as u128);
    match part {
        // The state and the normed state.
        Part::STREAM => 2 * shape.states() as u128 * rows * c.hidden as u128,
        // Before and after the rotation.
        Part::Q => 2 * layers * rows * heads * head_dim,
        Part::K => 2 * layers * rows * kv_heads * head_dim,
        Part::V => layers * rows * kv_heads * head_dim,
        // Scores and probabilities of open pairs.
        Part::SCORES => layers * heads * rows * (rows + 1),
        Part::ATT => layers * rows * heads * head_dim,
        // Gate, its activation, up projection, product; or up projection and its activation.
        Part::FF => (if c.gated { 4 } else { 2 }) * layers * rows * c.ff as u128,
        Part::LOGITS => shape.outputs as u128 * c.vocab as u128,
        // What the rows of scores have: no value of its own.
        _ => 0,
    }
}

/// Cells, lookups and values of a statement.
fn counts(shape: &Shape, rows: u128, part: Part) -> [u128; 3] {
    let height = shape.log_rows(part);
    let cells = (shape.committed(part).len() as u128) << height;
    let lookups = shape.air(part).lookups.len() as u128;
    [cells, lookups << height, values(shape, rows, part)]
}

fn million(n: u128) -> String {
    format!("{:.1}", n as f64 / 1e6)
}

fn per(n: u128, values: u128) -> String {
    if values == 0 {
        "-".to_owned()
    } else {
        format!("{:.2}", n as f64 / values as f64)
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("the file of a key");
    let rows = args.next().map_or(64, |rows| rows.parse().expect("a number of rows"));
    let key = ModelKey::from_bytes(&std::fs::read(path).expect("the key can be read")).expect("a model key");
    let limbs = key.params.limb_set(&key.config);
    let shape = |config: &ModelConfig, rows: usize| {
        let lengths = Lengths::new(rows, rows.div_ceil(2));
        Shape::with_limbs(config, limbs, &Chunk::whole(config.layers), lengths)
    };
    println!(
        "| kind | values, million | cells | lookups | cells per value | lookups per value |\n|---|---|---|---|---|---|"
    );
    let own = shape(&key.config, rows);
    let line = |name: &str, [cells, lookups, values]: [u128; 3]| {
        let [c, l, v] = [cells, lookups, values].map(million);
        println!(
            "| {name} | {v} | {c} | {l} | {} | {} |",
            per(cells, values),
            per(lookups, values)
        );
    };
    let total = |shape: &Shape, rows: usize| {
        let parts = shape.parts().iter().map(|part| counts(shape, rows as u128, *part));
        parts.fold([0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f])
    };
    for part in own.parts() {
        line(&format!("{part:?}"), counts(&own, rows as u128, *part));
    }
    line("all", total(&own, rows));
    println!();
    let config = &key.config;
    let grown = |config: &ModelConfig, name: &str, rows: usize| line(name, total(&shape(config, rows), rows));
    println!("| statement | values, million | cells | lookups | cells per value | lookups per value |\n|---|---|---|---|---|---|");
    for rows in [1, 16, 64, 128, 256, 512] {
        grown(config, &format!("{rows} rows"), rows);
    }
    let deeper = |layers: usize| ModelConfig {
        layers,
        ..config.clone()
    };
    for factor in [2, 4] {
        let layers = config.layers * factor;
        grown(&deeper(layers), &format!("{rows} rows, {layers} layers"), rows);
    }
    for factor in [2, 4] {
        let wide = ModelConfig {
            hidden: config.hidden * factor,
            heads: config.heads * factor,
            kv_heads: config.kv_heads * factor,
            ff: config.ff * factor,
            ..config.clone()
        };
        grown(&wide, &format!("{rows} rows, width {}", wide.hidden), rows);
    }
    // Between two numbers of layers that are powers of two: the stream has a state per layer and one more, padded.
    let [fewer, more] = [2, 4].map(|layers| total(&shape(&deeper(layers), rows), rows)[0]);
    println!(
        "\nOne token takes {} cells in one layer.",
        (more - fewer) / (2 * rows as u128)
    );
}
