//! Answers a question in a chat, and can be ended by a line on standard input: `chat MODEL QUESTION`.

use tessera::{Cancel, Model, Options, Prompt, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, question] = &args[..] else {
        return Err("usage: chat MODEL QUESTION".into());
    };
    let (model, cancel) = (Model::open(dir)?, Cancel::default());
    let switch = cancel.clone();
    std::thread::spawn(move || {
        std::io::stdin()
            .read_line(&mut String::new())
            .is_ok_and(|n| n > 0)
            .then(|| switch.cancel())
    });
    let prompt = Prompt::question(Some("Answer briefly."), question);
    let answer = cancel.run(&Silent, |progress| {
        model.generate(prompt, &Options::at_most(64), progress)
    })?;
    println!("{}", answer.text.unwrap_or_default());
    Ok(())
}
