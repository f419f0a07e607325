//! Proves in chunks that survive interruptions; run it again to go on: `resume MODEL WORK PROMPT PROOF`.

use tessera::{Model, Options, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, dir, work, prompt, out] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: resume MODEL WORK PROMPT PROOF".into());
    };
    let model = Model::open(dir)?;
    let (_driver, job) = model.prepare(work, prompt.as_str(), &Options::at_most(32), out, &Silent)?;
    for chunk in job.open_chunks() {
        job.prove_chunk(&model, chunk, &Silent)?;
    }
    let (proof, verified) = job.compose(&model)?;
    std::fs::write(out, proof.to_bytes()?)?;
    println!("{} chunks, {:.1} bits", verified.chunks, verified.security_bits);
    Ok(())
}
