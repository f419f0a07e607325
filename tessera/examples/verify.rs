//! Verifies a proof without the model: `verify KEY PROOF`.

use tessera::{Key, Outcome};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, key, proof] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: verify KEY PROOF".into());
    };
    let verdict = Key::from_bytes(&std::fs::read(key)?)?.verify(&std::fs::read(proof)?);
    println!("{}", verdict.text(proof, key, None));
    match verdict.outcome {
        Outcome::Accepted(_) => Ok(()),
        _ => Err("the proof does not hold".into()),
    }
}
