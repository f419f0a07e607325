//! Writes test vectors for the contracts in `chain/`: calls of their parts with the answers that the verifier gives, one case a line.
//! `cargo run --release -p tessera-plan --example chain_vectors -- KEY PROOF`, both of the suite Keccak.

mod before;
mod calldata;
mod forests;
mod opening;
mod plans;
mod whole;

use std::process::ExitCode;

use stwo::core::channel::Channel;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::mle::{eq_eval, eval_padded};
use tessera_circuits::trees;
use tessera_plan::packing::{Packed, Part};
use tessera_plan::Segment;
use tessera_verifier::gkr::{self, GroupProof};
use tessera_verifier::key::ModelKey;
use tessera_verifier::message::Unread;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::{Digest, Suite, SuiteChannel};
use tessera_verifier::sumcheck::{self, SumcheckProof};
use tessera_verifier::transcript::{Transcript, Work};
use tessera_verifier::verify::verify;

use calldata::Reader;

type K = SecureField;

/// Numbers that look random and are the same every time.
struct Random(SuiteChannel);

impl Random {
    fn element(&mut self) -> K {
        self.0.draw_secure_felt()
    }

    fn elements(&mut self, count: usize) -> Vec<K> {
        (0..count).map(|_| self.element()).collect()
    }

    fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.0.draw_u32s()[0]).collect()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.words(1)[0] as usize % bound
    }

    fn digest(&mut self) -> Digest {
        let words = self.0.draw_u32s();
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

/// Prints a case that is refused, and why: what the contract's reason has to contain, or alternatives of it. An input as long as the one that was printed
/// before is printed as what is changed of it.
fn refused(name: &str, about: &str, before: &[u8], input: &[u8], why: &str) {
    let same = |(a, b): &(&u8, &u8)| a == b;
    let given = match input.len() == before.len() {
        true => {
            let start = input.iter().zip(before).take_while(same).count();
            let end = input.len() - input.iter().rev().zip(before.iter().rev()).take_while(same).count();
            let bytes = hex::encode(input.get(start..end).unwrap_or_default());
            format!(r#""at":{start},"bytes":"{bytes}""#)
        }
        false => format!(r#""input":"{}""#, hex::encode(input)),
    };
    println!(r#"{{"name":"{name}","about":"{about}",{given},"expected":null,"why":"{why}"}}"#);
}

/// Prints a case: what a function of the contracts is given, and what it has to answer, or that it has to refuse.
fn case(name: &str, about: &str, input: &[u8], expected: Option<Vec<u8>>) {
    let expected = expected.map_or("null".to_owned(), |bytes| format!("\"{}\"", hex::encode(bytes)));
    let input = hex::encode(input);
    println!(r#"{{"name":"{name}","about":"{about}","input":"{input}","expected":{expected}}}"#);
}

fn bytes_of(values: &[K]) -> Vec<u8> {
    let words = values.iter().flat_map(|v| v.to_m31_array());
    words.flat_map(|v| v.0.to_be_bytes()).collect()
}

/// An element from sixteen bytes, if its coordinates are reduced.
fn element(bytes: &[u8]) -> Option<K> {
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|w| u32::from_be_bytes(*w)).collect();
    let words: [u32; 4] = words.try_into().ok()?;
    let reduced = words.iter().all(|word| *word < P);
    reduced.then(|| K::from_m31_array(words.map(BaseField::from_u32_unchecked)))
}

fn elements(bytes: &[u8]) -> Option<Vec<K>> {
    bytes.chunks(16).map(element).collect()
}

/// An input as it is, and with changed bits from a place on; `answer` is what this verifier makes of either.
fn cases(
    name: &str,
    about: &str,
    (input, from): (&[u8], usize),
    changes: usize,
    random: &mut Random,
    answer: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    assert!(answer(input).is_some(), "{name}: what is honest is accepted");
    case(name, &format!("{about}, gas"), input, answer(input));
    for _ in 0..changes {
        let (place, bit) = (from + random.below(input.len() - from), random.below(8));
        let mut other = input.to_vec();
        other[place] ^= 1 << bit;
        case(
            name,
            &format!("{about}, bit {bit} of byte {place} changed"),
            &other,
            answer(&other),
        );
    }
}

fn field(random: &mut Random) {
    let edge = [0, 1, 2, P - 1, P - 2, (P - 1) / 2, 1 << 30];
    let mut pairs: Vec<[K; 2]> = (0..64).map(|_| [random.element(), random.element()]).collect();
    for _ in 0..64 {
        let mut pick = || K::from_m31_array(std::array::from_fn(|_| BaseField::from(edge[random.below(edge.len())])));
        pairs.push([pick(), pick()]);
    }
    pairs.push([K::from_m31_array([BaseField::from(P - 1); 4]); 2]);
    for (i, [x, y]) in pairs.into_iter().enumerate() {
        let half = BaseField::from(1 << 30);
        let answer = (x != K::default()).then(|| bytes_of(&[x + y, x - y, x * y, x * half, x.inverse()]));
        case("field", &format!("pair {i}"), &bytes_of(&[x, y]), answer);
    }
    for (word, place) in [P, P + 1, u32::MAX]
        .into_iter()
        .flat_map(|word| (0..8).map(move |place| (word, place)))
    {
        let mut bytes = bytes_of(&random.elements(2));
        bytes[4 * place..][..4].copy_from_slice(&word.to_be_bytes());
        case("field", &format!("coordinate {place} is {word}"), &bytes, None);
    }
    let (x, y) = (random.element(), random.element());
    let product = (0..1000).fold(y, |y, _| x * y);
    case(
        "product",
        "gas of a product",
        &bytes_of(&[x, y]),
        Some(bytes_of(&[product])),
    );
}

/// Words that are drawn, around the numbers that matter.
fn draws(random: &mut Random) {
    let edge = [0, 1, P - 1, P, P + 1, 2 * P - 1, 2 * P - 1, 1 << 31];
    for i in 0..60 {
        let mut words = random.words(8);
        for word in &mut words {
            if random.below(2) == 0 {
                *word = edge[random.below(edge.len())];
            }
        }
        if i % 3 == 0 {
            words[random.below(8)] = [2 * P, u32::MAX][random.below(2)];
        }
        let elements = || {
            words
                .as_chunks()
                .0
                .iter()
                .map(|w: &[u32; 4]| w.map(|w| BaseField::reduce(w.into())))
        };
        let answer = match words.iter().all(|word| *word < 2 * P) {
            true => bytes_of(&elements().map(K::from_m31_array).collect::<Vec<_>>()),
            false => Vec::new(),
        };
        let input: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        case("draws", &format!("words {i}"), &input, Some(answer));
    }
}

/// Conversations of every verb.
fn transcripts(random: &mut Random) {
    for conversation in 0..60 {
        let mut t = Transcript::of(Suite::Keccak, "vectors");
        t.bytes("begin", &random.digest());
        let (mut input, mut answer) = (t.channel().digest().to_vec(), Vec::new());
        for _ in 0..6 {
            let step = random.below(8) as u8;
            let name = &"a label of the protocol, so long!"[..1 + random.below(32)];
            let (count, bits, digest) = (random.below(20), random.below(31), random.digest());
            let nonce = random.below(1 << 30) as u64 * 0x1_0000_0001;
            let said = match step {
                0 => {
                    let words = random.words(count);
                    t.words(name, &words);
                    words.iter().flat_map(|w| w.to_be_bytes()).collect()
                }
                1 => {
                    let values = random.elements(count);
                    t.message(name, &values);
                    bytes_of(&values)
                }
                2 => {
                    t.bytes(name, &digest);
                    digest.to_vec()
                }
                3 => {
                    t.root(&digest);
                    digest.to_vec()
                }
                4 => {
                    answer.extend(bytes_of(&t.challenges(name, count)));
                    Vec::new()
                }
                5 => {
                    let positions = t.positions(name, count, bits as u32);
                    answer.extend(positions.iter().flat_map(|p| (*p as u32).to_be_bytes()));
                    vec![bits as u8]
                }
                6 => {
                    answer.extend(bytes_of(&t.channel().draw_secure_felts(2)));
                    Vec::new()
                }
                _ => {
                    answer.push(
                        t.clone()
                            .work(
                                Work {
                                    label: "",
                                    bits: count as u32,
                                },
                                nonce,
                            )
                            .into(),
                    );
                    nonce.to_be_bytes().to_vec()
                }
            };
            input.extend([step, name.len() as u8]);
            input.extend(padded(name));
            input.extend((count as u16).to_be_bytes());
            input.extend(said);
            answer.extend(t.channel().digest());
        }
        case(
            "transcript",
            &format!("conversation {conversation}"),
            &input,
            Some(answer),
        );
    }
}

/// A label in 32 bytes.
fn padded(name: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn evaluations(random: &mut Random) {
    for variables in [0, 1, 3, 6, 8] {
        let (table, point) = (random.elements(1 << variables), random.elements(variables));
        let input = [&[variables as u8][..], &bytes_of(&table), &bytes_of(&point)].concat();
        let answer = |input: &[u8]| {
            let values = elements(&input[1..])?;
            let (table, point) = values.split_at(1 << variables);
            Some(bytes_of(&[eval_padded(table, point)]))
        };
        cases(
            "evaluate",
            &format!("{variables} variables"),
            (&input, 1),
            6,
            random,
            answer,
        );
        let other = random.elements(variables);
        let input = [&[variables as u8][..], &bytes_of(&point), &bytes_of(&other)].concat();
        case(
            "eq",
            &format!("{variables} variables, gas"),
            &input,
            Some(bytes_of(&[eq_eval(&point, &other).expect("points of one length")])),
        );
    }
}

/// A sumcheck from a state of the transcript on.
fn sumchecks(
    about: &str,
    name: &'static str,
    claim: K,
    proof: &SumcheckProof,
    start: &Transcript,
    random: &mut Random,
) {
    let mut input = start.clone().channel().digest().to_vec();
    input.push(name.len() as u8);
    input.extend(padded(name));
    input.push(proof.rounds.len() as u8);
    input.extend(bytes_of(&[claim]));
    input.extend(bytes_of(proof.rounds.as_flattened()));
    cases("sumcheck", about, (&input, 66), 40, random, |input| {
        let (claim, rounds) = elements(&input[66..])?
            .split_first()
            .map(|(claim, rest)| (*claim, rest.to_vec()))?;
        let rounds = rounds.as_chunks().0.to_vec();
        let mut t = start.clone();
        let end = sumcheck::verify(
            name,
            claim,
            rounds.len(),
            Unread::of(&SumcheckProof { rounds }),
            None,
            &mut t,
        )
        .ok()?;
        Some(
            [
                bytes_of(&end.point),
                bytes_of(&[end.value]),
                t.channel().digest().to_vec(),
            ]
            .concat(),
        )
    });
}

/// Trees of lookups from a state of the transcript on.
fn lookups(about: &str, logs: &[u32], proofs: &[GroupProof], start: &Transcript, random: &mut Random) {
    let mut input = start.clone().channel().digest().to_vec();
    input.push(logs.len() as u8);
    input.extend(logs.iter().map(|log| *log as u8));
    let from = input.len();
    for group in proofs {
        input.extend(bytes_of(group.roots.as_flattened()));
        for layer in &group.layers {
            input.extend(bytes_of(layer.rounds.as_flattened()));
            input.extend(bytes_of(layer.children.as_flattened()));
        }
    }
    cases("lookups", about, (&input, from), 60, random, |input| {
        let mut data = Reader(&input[from..]);
        let groups = trees::groups(logs)
            .into_iter()
            .map(|own| before::group(&mut data, &logs[own]));
        let groups = groups.collect::<Option<Vec<GroupProof>>>()?;
        if !data.0.is_empty() {
            return None;
        }
        let mut t = start.clone();
        let (leaves, sums) = gkr::verify(logs, Unread::of(&groups), &mut t).ok()?;
        let ends = leaves.iter().flat_map(|leaf| {
            let end = bytes_of(&[leaf.numerator, leaf.denominator]);
            [bytes_of(&leaf.point), end].concat()
        });
        Some(
            ends.chain(bytes_of(&[sums.into_iter().sum()]))
                .chain(t.channel().digest().iter().copied())
                .collect(),
        )
    });
}

fn quoted(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.map(|own| format!("\"{own}\"")).collect();
    all.join(",")
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [key, proof] = paths.as_slice() else {
        return Err("usage: chain_vectors KEY PROOF".into());
    };
    let key = ModelKey::from_bytes(&std::fs::read(key)?)?;
    let proof = Proof::from_bytes(&std::fs::read(proof)?)?;
    if key.header.hash_suite != Suite::Keccak {
        return Err("the contracts verify keys of Keccak-256: tessera setup --hash keccak".into());
    }
    verify(&key, &proof)?;
    let mut random = Random(SuiteChannel::new(Suite::Keccak));
    field(&mut random);
    draws(&mut random);
    transcripts(&mut random);
    opening::trees(&mut random);
    forests::forests(&mut random);
    evaluations(&mut random);
    opening::rows(&mut random);
    opening::oracles(&mut random);
    plans::functions(&mut random);
    plans::programs(&mut random);
    let plans = plans::plans(&key, &proof, &mut random)?;
    for (plan, name) in plans.iter().zip(["plan", "cut plan"]) {
        let pages = |own: &Segment| format!("[{}]", quoted(own.pages.iter().map(hex::encode)));
        println!(
            r#"{{"name":"{name}","header":"{}","program":[{}],"gas":{:?},"behind":[{}],"id":"{}"}}"#,
            hex::encode(plan.header(&key)?),
            plan.program.iter().map(pages).collect::<Vec<_>>().join(","),
            plan.program.iter().map(|own| own.gas).collect::<Vec<_>>(),
            quoted(plan.program_digests().iter().map(hex::encode)),
            hex::encode(plan.id(&key)?)
        );
    }
    let packed = Packed::new(&key, &proof)?;
    let part = |own: &Part| {
        let stages = quoted(own.stages.iter().map(hex::encode));
        format!(
            r#"{{"conversation":"{}","stages":[{stages}],"trees":{}}}"#,
            hex::encode(&own.conversation),
            own.trees
        )
    };
    println!(
        r#"{{"name":"packed","plan":"{}","said":"{}","opening":{}}}"#,
        hex::encode(packed.id),
        hex::encode(&packed.said),
        part(&packed.opening)
    );
    whole::parts(&key, &proof, &mut random)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
