//! Plans: programs for the machine, and what a whole proof is sent with.

use tessera_circuits::chunk::{Chunk, Ends};
use tessera_verifier::key::ModelKey;
use tessera_verifier::plan::{run, token_log, Plan, Words};
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::{verify_conversation, ChunkStatement};

use super::{bytes_of, case, Random, K};

type Failure = Box<dyn std::error::Error>;

/// What a machine is given, in bytes.
fn input(inputs: &[K], outputs: usize, words: &Words, program: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let counts = [inputs.len(), outputs].into_iter().chain(words.0.iter().map(Vec::len));
    bytes.extend(counts.flat_map(|count| (count as u16).to_be_bytes()));
    bytes.extend(bytes_of(inputs));
    bytes.extend(words.0.iter().flatten().flat_map(|word| word.to_be_bytes()));
    bytes.extend(program);
    bytes
}

fn machine(about: &str, inputs: &[K], outputs: usize, words: &Words, program: &[u8]) {
    let answer = run(program, inputs, words, outputs).map(|results| bytes_of(&results));
    case("machine", about, &input(inputs, outputs, words, program), answer);
}

/// Instructions made at random, some of which are none.
fn instruction(random: &mut Random, fresh: &mut u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let op = if random.below(40) == 0 {
        random.below(256)
    } else {
        1 + random.below(10)
    } as u8;
    bytes.push(op);
    // Tables are written where nothing else is: what a point that lies in its own table is, nothing says.
    let to = if op == 2 { *fresh } else { random.below(48) as u16 };
    bytes.extend(to.to_be_bytes());
    let register = |random: &mut Random| (random.below(48) as u16).to_be_bytes();
    let constant = |random: &mut Random| {
        let edge = [0, 1, (1 << 31) - 2, 1 << 30, (1 << 31) - 1];
        let word = match (random.below(4), random.below(33)) {
            (0, 32) => edge[4],
            (0, at) => edge[at % 4],
            _ => random.words(1)[0] >> 1,
        };
        word.to_be_bytes()
    };
    let factors = |random: &mut Random, bytes: &mut Vec<u8>| {
        let (count, shifts) = (random.below(7), random.below(2));
        bytes.extend(((count | shifts << 15) as u16).to_be_bytes());
        for _ in 0..count {
            match shifts {
                0 => bytes.extend(constant(random)),
                _ => bytes.push((random.below(31) + 31 * (random.below(40) / 39)) as u8),
            }
        }
    };
    let count = random.below(6);
    match op {
        1 => {
            bytes.extend((count as u16).to_be_bytes());
            (0..count).for_each(|_| bytes.extend(constant(random)));
        }
        2 => {
            *fresh += 1 << count;
            bytes.push(count as u8);
            (0..count).for_each(|_| bytes.extend(register(random)));
        }
        3 | 4 => {
            bytes.extend((count as u16).to_be_bytes());
            (0..count).for_each(|_| bytes.extend(register(random)));
        }
        5 => {
            bytes.extend(register(random));
            bytes.extend((1 + random.below(16) as u16).to_be_bytes());
            bytes.push(random.below(5) as u8);
            bytes.extend(((random.below(20) / 19) as u16).to_be_bytes());
            bytes.push(random.below(8) as u8);
            bytes.extend((random.below(8) as u16).to_be_bytes());
            bytes.extend((random.below(3) as u16).to_be_bytes());
        }
        6 => {
            bytes.push(random.below(5) as u8);
            bytes.extend([0, 0]);
        }
        7 => {
            bytes.push(count as u8);
            (0..2 * count).for_each(|_| bytes.extend(register(random)));
        }
        8 => {
            let counts = [random.below(3), random.below(4), random.below(3)];
            counts
                .iter()
                .for_each(|count| bytes.extend((*count as u16).to_be_bytes()));
            for _ in 0..counts[0] {
                bytes.extend(register(random));
                factors(random, &mut bytes);
            }
            (0..2 * counts[1]).for_each(|_| bytes.extend(register(random)));
            for _ in 0..counts[2] {
                bytes.extend([register(random), register(random)].concat());
                bytes.extend((random.below(5) as u16).to_be_bytes());
            }
        }
        9 => {
            bytes.extend(register(random));
            factors(random, &mut bytes);
        }
        10 => {
            bytes.extend([register(random), register(random)].concat());
            bytes.push(random.below(2) as u8);
            bytes.extend((count as u16).to_be_bytes());
        }
        _ => {}
    }
    bytes
}

/// Programs made at random.
pub fn programs(random: &mut Random) {
    for number in 0..120 {
        let inputs = random.elements(20);
        let words = Words(std::array::from_fn(|_| {
            random.words(1).iter().map(|word| word >> random.below(31)).collect()
        }));
        let mut fresh = 64;
        let length = 1 + random.below(12);
        let mut program: Vec<u8> = (0..length).flat_map(|_| instruction(random, &mut fresh)).collect();
        if number % 10 == 0 {
            program.pop();
        }
        machine(&format!("program {number}"), &inputs, 64, &words, &program);
    }
}

/// The plan of a proof: with its inputs, and with others.
pub fn plan(key: &ModelKey, proof: &Proof, random: &mut Random) -> Result<Plan, Failure> {
    let plan = Plan::new(key, token_log(&proof.statement), proof.statement.output.len()).ok_or("no plan")?;
    let [own] = proof.chunks.as_slice() else {
        return Err("a proof in one piece is needed".into());
    };
    let claim = ChunkStatement {
        key,
        model: &proof.model,
        statement: &proof.statement,
        chunk: &Chunk::whole(key.config.layers),
        ends: Ends::default(),
    };
    let said = verify_conversation(&claim, own)?;
    let (inputs, words) = (
        said.inputs.in_order(),
        plan.words(key, &proof.statement, &own.statistics.tops),
    );
    let results = run(&plan.program.code, &inputs, &words, plan.outputs);
    assert_eq!(
        results,
        Some(said.outputs.in_order()),
        "the plan says what the verifier says"
    );
    machine(
        "plan of the proof, gas",
        &inputs,
        plan.outputs,
        &words,
        &plan.program.code,
    );
    machine(
        "plan, other challenges",
        &random.elements(inputs.len()),
        plan.outputs,
        &words,
        &plan.program.code,
    );
    Ok(plan)
}
