//! Plans: programs for the machine, and what a whole proof is sent with.

use tessera_circuits::chunk::Chunk;
use tessera_plan::calculate::in_order;
use tessera_plan::{band_ends, expected, run, Budget, Plan, Segment, Words};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::{verify_conversation, ChunkStatement};

use super::{bytes_of, case, quoted, Random, K};

type Failure = Box<dyn std::error::Error>;

/// What a machine is given, in bytes.
fn input(given: &[K], words: &Words, segment: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let counts = std::iter::once(given.len()).chain(words.0.iter().map(Vec::len));
    bytes.extend(counts.flat_map(|count| (count as u16).to_be_bytes()));
    bytes.extend(bytes_of(given));
    bytes.extend(words.0.iter().flatten().flat_map(|word| word.to_be_bytes()));
    bytes.extend(segment);
    bytes
}

/// A segment of one page.
fn machine(about: &str, given: &[K], words: &Words, page: &[u8]) {
    let answer = run(&[page.to_vec()], given, words);
    case(
        "machine",
        about,
        &input(given, words, page),
        answer.map(|results| bytes_of(&results)),
    );
}

/// A segment whose pages are stored first: what it leaves, and its digest.
fn stored(about: &str, given: &[K], words: &Words, segment: &Segment) -> Option<Vec<K>> {
    let results = run(&segment.pages, given, words)?;
    println!(
        r#"{{"name":"segment","about":"{about}","pages":[{}],"input":"{}","expected":"{}"}}"#,
        quoted(segment.pages.iter().map(hex::encode)),
        hex::encode(input(given, words, &[])),
        hex::encode([bytes_of(&results), segment.digest().to_vec()].concat()),
    );
    Some(results)
}

/// Instructions made at random, some of which are none.
fn instruction(random: &mut Random, next: &mut usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let op = if random.below(60) == 0 {
        random.below(256)
    } else {
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15][random.below(14)]
    } as u8;
    bytes.push(op);
    // Of those that are written: what a point that lies in its own table is, nothing says.
    let written = *next;
    let register = |random: &mut Random| (random.below(written) as u16).to_be_bytes();
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
        let (count, kind) = (1 + random.below(11), random.below(4) as u8);
        bytes.push((kind << 6) | (count - 1) as u8);
        for _ in 0..count {
            match kind {
                0 => {}
                3 => bytes.extend(constant(random)),
                _ => bytes.push((random.below(32) + random.below(80) / 79) as u8),
            }
        }
        count
    };
    let count = random.below(6);
    *next += match op {
        1 => {
            bytes.extend((count as u16).to_be_bytes());
            (0..count).for_each(|_| bytes.extend(constant(random)));
            count
        }
        2 => {
            bytes.push(count as u8);
            (0..count).for_each(|_| bytes.extend(register(random)));
            1 << count
        }
        3 | 4 => {
            bytes.extend((count as u16).to_be_bytes());
            (0..count).for_each(|_| bytes.extend(register(random)));
            count + usize::from(op == 3)
        }
        5 => {
            bytes.extend(register(random));
            bytes.extend((1 + random.below(16) as u16).to_be_bytes());
            bytes.push(random.below(5) as u8);
            bytes.extend(((random.below(20) / 19) as u16).to_be_bytes());
            bytes.push(random.below(8) as u8);
            bytes.extend((random.below(8) as u16).to_be_bytes());
            bytes.extend((random.below(3) as u16).to_be_bytes());
            1
        }
        6 => {
            // A table of 256 entries before it, and now and then a register beside it.
            bytes.clear();
            bytes.extend([2, 8]);
            (0..8).for_each(|_| bytes.extend(register(random)));
            let low = written + random.below(10) / 9;
            bytes.push(op);
            bytes.extend([register(random), (low as u16).to_be_bytes()].concat());
            bytes.extend((count as u16).to_be_bytes());
            for _ in 0..count {
                let planes = random.below(4) + 17 * (random.below(20) / 18);
                bytes.extend([constant(random), constant(random)].concat());
                bytes.push(planes as u8);
                bytes.extend((0..planes).flat_map(|_| random.digest()));
            }
            257
        }
        7 => {
            bytes.push(count as u8);
            (0..2 * count).for_each(|_| bytes.extend(register(random)));
            1
        }
        8 | 12 => {
            let counts = [random.below(3), random.below(4), random.below(3)];
            for own in counts {
                match op {
                    8 => bytes.push(own as u8),
                    _ => bytes.extend((own as u16).to_be_bytes()),
                }
            }
            for _ in 0..counts[0] {
                bytes.extend(register(random));
                factors(random, &mut bytes);
            }
            (0..2 * counts[1]).for_each(|_| bytes.extend(register(random)));
            for _ in 0..counts[2] {
                bytes.extend([register(random), register(random)].concat());
                bytes.push(random.below(5) as u8);
            }
            1
        }
        9 => {
            bytes.extend(register(random));
            factors(random, &mut bytes)
        }
        10 | 11 => {
            bytes.extend([register(random), register(random)].concat());
            bytes.push(count as u8);
            count
        }
        13 => {
            bytes.extend([register(random), register(random)].concat());
            bytes.extend(constant(random));
            bytes.push(count as u8);
            for _ in 0..count {
                bytes.extend(constant(random));
                let places = random.below(20);
                bytes.push(places as u8);
                bytes.extend(random.words(places).iter().map(|word| (word % 3) as u8));
            }
            1
        }
        15 => {
            let (log, rows) = (1 + random.below(4), random.below(4));
            bytes.extend(register(random));
            bytes.push((log + 11 * (random.below(80) / 79)) as u8);
            bytes.extend((random.below(3) as u16).to_be_bytes());
            bytes.extend((rows as u16).to_be_bytes());
            bytes.push(count as u8);
            (0..count).for_each(|_| bytes.extend([random.below(5) as u8, 0, 0]));
            for _ in 0..rows {
                bytes.push((random.below(32) + random.below(80) / 79) as u8);
                bytes.extend(random.words(1 << (log - 1)).iter().map(|word| *word as u8));
            }
            count
        }
        _ => 0,
    };
    bytes
}

/// The instruction that ends a segment.
const LEAVE: u8 = 14;

/// Calls of the extension of a function: without rows, of rows without planes, and of rows with one and with three planes.
pub fn functions(random: &mut Random) {
    let given = random.elements(16);
    for (rows, planes) in [(0, 0), (256, 0), (256, 1), (128, 3), (1, 20), (1, 21)] {
        let number = |own: u16| own.to_be_bytes();
        // Tables of both halves of the point, and the sums before each entry of the second one.
        let mut code = Vec::new();
        for half in [0, 8] {
            code.extend([2, 8]);
            code.extend((half..half + 8).flat_map(number));
        }
        code.push(3);
        code.extend((0..1).map(|_| 256).chain(272..528).flat_map(number));
        code.push(6);
        code.extend([16, 528, rows].into_iter().flat_map(number));
        for _ in 0..rows {
            code.extend((0..2).flat_map(|_| (random.words(1)[0] >> 2).to_be_bytes()));
            code.push(planes);
            code.extend((0..planes).flat_map(|_| random.digest()));
        }
        code.push(LEAVE);
        code.extend([1, 785, 1].into_iter().flat_map(number));
        let about = format!("extension of a function of {rows} rows and {planes} planes, gas");
        machine(&about, &given, &Words::default(), &code);
    }
}

/// Programs made at random.
pub fn programs(random: &mut Random) {
    for number in 0..160 {
        let given = random.elements(24);
        let words = Words(std::array::from_fn(|_| {
            random.words(1).iter().map(|word| word >> random.below(31)).collect()
        }));
        let mut next = given.len();
        let length = 1 + random.below(12);
        let code: Vec<u8> = (0..length).flat_map(|_| instruction(random, &mut next)).collect();
        // All that it has, then some runs again.
        let runs = [
            [0, next],
            [random.below(next), random.below(4)],
            [random.below(next), 1],
        ];
        let end = std::iter::once(runs.len()).chain(runs.into_iter().flatten());
        let end = end.flat_map(|own| (own as u16).to_be_bytes());
        let mut segment: Vec<u8> = code.into_iter().chain([LEAVE]).chain(end).collect();
        match number % 10 {
            0 => drop(segment.pop()),
            5 => segment.push(0),
            _ => {}
        }
        machine(&format!("program {number}"), &given, &words, &segment);
    }
}

/// The plan of a proof, and the same cut into smaller segments: with its inputs, and with others.
pub fn plans(key: &ModelKey, proof: &Proof, random: &mut Random) -> Result<[Plan; 2], Failure> {
    let (rows, outputs) = (proof.statement.rows(), proof.statement.output.len());
    let whole = Plan::new(key, rows, outputs)?;
    let most = whole.program.iter().map(|own| own.gas).max().unwrap_or(0);
    let cut = (4..8).find_map(|eighths| {
        let gas = most * eighths / 8;
        let own = Plan::within(
            key,
            rows,
            outputs,
            Budget {
                gas,
                ..Budget::TRANSACTION
            },
        )
        .ok()?;
        (own.program.len() > whole.program.len()).then_some(own)
    });
    let cut = cut.ok_or("no plan of smaller segments")?;
    let [own] = proof.chunks.as_slice() else {
        return Err("a proof in one piece is needed".into());
    };
    let chunk = Chunk::whole(key.config.layers);
    let claim = ChunkStatement::whole(key, &proof.model, &proof.statement, &chunk, proof.context);
    let said = verify_conversation(&claim, own)?;
    let claims = said.claims(key, claim.chunk);
    let ends = band_ends(&claims, &own.opening, &mut said.transcript.clone());
    for plan in [&whole, &cut] {
        let words = plan.words(key, &proof.statement);
        let mut given = [in_order(&said.inputs), ends.concat()].concat();
        let count = plan.program.len();
        for (i, segment) in plan.program.iter().enumerate() {
            let other = random.elements(given.len());
            let about = format!("segment {i} of {count}, other elements");
            stored(&about, &other, &words, segment).ok_or("a segment is followed")?;
            let about = format!("segment {i} of {count} of the plan, about {} gas", segment.gas);
            given = stored(&about, &given, &words, segment).ok_or("a segment is followed")?;
        }
        assert_eq!(
            given,
            expected(&said, &ends).in_order(),
            "the plan says what the verifier says"
        );
    }
    Ok([whole, cut])
}
