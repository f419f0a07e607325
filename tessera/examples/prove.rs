//! Sets a checkpoint up, proves an answer, and writes the proof: `prove CHECKPOINT MODEL PROMPT PROOF`.

use tessera::{Model, Options, SetupOptions, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, checkpoint, dir, prompt, out] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: prove CHECKPOINT MODEL PROMPT PROOF".into());
    };
    let model = Model::setup(checkpoint, dir, &SetupOptions::default(), &Silent)?;
    let proof = model.prove(prompt.as_str(), &Options::at_most(32), &Silent)?;
    proof.write(out)?;
    println!("{prompt}{}", proof.text.unwrap_or_default());
    Ok(())
}
