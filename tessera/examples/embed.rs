//! Compares two texts by the vectors that an encoder makes of them: `embed MODEL TEXT TEXT`.

use tessera::{Model, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, dir, first, second] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: embed MODEL TEXT TEXT".into());
    };
    let model = Model::open(dir)?;
    let first = model.embed(first.as_str(), &Silent)?.vector;
    let second = model.embed(second.as_str(), &Silent)?.vector;
    println!("{:.4}", first.cosine(&second));
    Ok(())
}
