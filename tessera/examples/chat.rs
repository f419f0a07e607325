//! Answers a question in a chat; a line on standard input ends the task: `chat MODEL QUESTION`.

use tessera::{Cancel, Model, Options, Prompt, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, dir, question] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: chat MODEL QUESTION".into());
    };
    let (model, cancel) = (Model::open(dir)?, Cancel::default());
    let (switch, input) = (cancel.clone(), std::io::stdin());
    std::thread::spawn(move || input.lines().next().map(|_| switch.cancel()));
    let prompt = Prompt::question(Some("Answer briefly."), question);
    let answer = cancel.run(&Silent, |progress| {
        model.generate(prompt, &Options::at_most(64), progress)
    })?;
    println!("{}", answer.text.unwrap_or_default());
    Ok(())
}
