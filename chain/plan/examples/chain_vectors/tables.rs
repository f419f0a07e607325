//! The STARK of the tables as a whole.

use stwo::core::fields::m31::{BaseField, P};
use stwo::core::poly::line::LinePoly;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use tessera_circuits::air::Relations;
use tessera_verifier::message::Unread;
use tessera_verifier::stark::{self, Stark, StarkClaim, StarkError};
use tessera_verifier::suite::Digest;
use tessera_verifier::transcript::Transcript;

use super::calldata::{Calldata, Reader};
use super::{case, refused, Random, K};

/// What the STARK is about, and the transcript before it.
pub struct Aggregated<'a> {
    pub relations: &'a Relations,
    /// `z` and `alpha` of the five relations, as the contract takes them.
    pub drawn: Vec<K>,
    pub lookups: K,
    pub claimed_sum: K,
    pub proof: &'a Stark,
    pub start: Transcript,
}

/// Bytes before the messages: the digest, two roots, the relations, the sum of the lookups.
const CLAIM: usize = 3 * 32 + 11 * 16;

fn digests(path: &[Blake2sHash]) -> Vec<Digest> {
    path.iter().map(|node| node.0).collect()
}

impl Aggregated<'_> {
    /// What is claimed, then the conversation, then the queries, position by position.
    fn calldata(&self, proof: &Stark, claimed_sum: K) -> Calldata {
        let mut data = Calldata::default();
        data.put("digest", self.start.clone().channel().digest());
        for root in &proof.commitments[..2] {
            data.put("root that is known", &root.0);
        }
        data.elements("relations", &self.drawn);
        data.elements("sum of the lookups", &[self.lookups]);
        data.elements("claimed sum", &[claimed_sum]);
        data.put("root of tree 2", &proof.commitments[2].0);
        data.put("root of tree 3", &proof.commitments[3].0);
        for (tree, columns) in proof.sampled_values.iter().enumerate() {
            data.elements(&format!("samples of tree {tree}"), &columns.concat());
        }
        let fri = &proof.fri_proof;
        let layers = || std::iter::once(&fri.first_layer).chain(&fri.inner_layers).enumerate();
        for (i, layer) in layers() {
            data.put(&format!("root of layer {i}"), &layer.commitment.0);
        }
        data.elements("last layer", &fri.last_layer_poly);
        data.put("nonce", &proof.proof_of_work.to_be_bytes());
        for (tree, (columns, path)) in proof.queried_values.iter().zip(&proof.decommitments.0).enumerate() {
            let rows = columns.first().map_or(0, Vec::len);
            let words: Vec<u32> = (0..rows)
                .flat_map(|row| columns.iter().map(move |c| c[row].0))
                .collect();
            let counts = [words.len() as u32, path.hash_witness.len() as u32];
            data.words(&format!("numbers of tree {tree}"), counts);
            data.words(&format!("rows of tree {tree}"), words);
            data.digests(&format!("path of tree {tree}"), &digests(&path.hash_witness));
        }
        for (i, layer) in layers() {
            let path = digests(&layer.decommitment.hash_witness);
            data.words(
                &format!("numbers of layer {i}"),
                [layer.fri_witness.len() as u32, path.len() as u32],
            );
            data.elements(&format!("values of layer {i}"), &layer.fri_witness);
            data.digests(&format!("path of layer {i}"), &path);
        }
        data.elements("last layer once more", &fri.last_layer_poly);
        data
    }

    /// What `calldata` has written behind the claim; nothing if a number is not reduced.
    fn read(&self, input: &[u8]) -> Option<(Stark, K, bool)> {
        let mut proof = self.proof.clone();
        let mut data = Reader(input);
        data.take(CLAIM)?;
        let claimed_sum = data.element()?;
        for tree in [2, 3] {
            proof.0.commitments[tree] = Blake2sHash(data.digest()?);
        }
        for column in proof.0.sampled_values.iter_mut().flatten() {
            *column = data.elements(column.len())?;
        }
        let fri = &mut proof.0.fri_proof;
        for layer in std::iter::once(&mut fri.first_layer).chain(&mut fri.inner_layers) {
            layer.commitment = Blake2sHash(data.digest()?);
        }
        fri.last_layer_poly = LinePoly::new(data.elements(fri.last_layer_poly.len())?);
        proof.0.proof_of_work = u64::from_be_bytes(data.take(8)?.try_into().ok()?);
        let stark = &mut proof.0;
        for (columns, path) in stark.queried_values.iter_mut().zip(&mut stark.decommitments.0) {
            let (words, nodes) = (data.count()?, data.count()?);
            let words = data.words(words)?;
            if words.len() % columns.len() != 0 || words.iter().any(|word| *word >= P) {
                return None;
            }
            let width = columns.len();
            for (k, column) in columns.iter_mut().enumerate() {
                let own = words.iter().skip(k).step_by(width);
                *column = own.map(|word| BaseField::from_u32_unchecked(*word)).collect();
            }
            path.hash_witness = data.digests(nodes)?.into_iter().map(Blake2sHash).collect();
        }
        let fri = &mut stark.fri_proof;
        for layer in std::iter::once(&mut fri.first_layer).chain(&mut fri.inner_layers) {
            let (values, nodes) = (data.count()?, data.count()?);
            layer.fri_witness = data.elements(values)?;
            layer.decommitment.hash_witness = data.digests(nodes)?.into_iter().map(Blake2sHash).collect();
        }
        let again = data.raw_elements(fri.last_layer_poly.len())?;
        // Proofs have the last layer once.
        let same = again == fri.last_layer_poly[..];
        data.0.is_empty().then_some((proof, claimed_sum, same))
    }

    /// What this verifier says: the digest at the end, or why not. What was known before is taken from calldata as far as the roots
    /// that are absorbed already cannot differ.
    fn answer(&self, input: &[u8]) -> Result<Vec<u8>, String> {
        let (proof, claimed_sum, same) = self.read(input).ok_or_else(String::new)?;
        let claim = StarkClaim {
            weighted: false,
            relations: self.relations,
            lookups: self.lookups,
            claimed_sum: Unread::of(&claimed_sum),
        };
        let mut t = self.start.clone();
        match stark::verify(&claim, &proof, &mut t) {
            Ok(_) if !same => Err("last message".to_owned()),
            Ok(_) => Ok(t.channel().digest().to_vec()),
            Err(error) => Err(reason(&error).to_owned()),
        }
    }

    /// The STARK as it is, and changed in every one of its parts.
    pub fn cases(&self, random: &mut Random) {
        let data = self.calldata(self.proof, self.claimed_sum);
        assert_eq!(data.part("claimed sum").start, CLAIM);
        let digest = self.answer(&data.bytes).expect("the STARK is accepted");
        case("stark", "STARK as a whole, gas", &data.bytes, Some(digest.clone()));
        case(
            "starkConversation",
            "STARK without queries, gas",
            &data.bytes,
            Some(digest),
        );
        for (name, range) in data.parts.iter().filter(|(_, range)| range.start >= CLAIM) {
            for _ in 0..6 {
                let (place, bit) = (range.start + random.below(range.len()), random.below(8));
                let mut other = data.bytes.clone();
                other[place] ^= 1 << bit;
                self.changed(&format!("{name}, bit {bit} of byte {place}"), &data.bytes, &other);
            }
        }
        self.forged(&data, random);
    }

    fn forged(&self, data: &Calldata, random: &mut Random) {
        let whole = &data.bytes;
        self.changed("a word too many", whole, &[&whole[..], &[0; 32]].concat());
        self.changed("a word too few", whole, &whole[..whole.len() - 32]);
        for (about, word) in [("p", P), ("the largest number", u32::MAX)] {
            for name in [
                "claimed sum",
                "samples of tree 0",
                "last layer",
                "rows of tree 0",
                "rows of tree 3",
                "values of layer 0",
                "values of layer 2",
            ] {
                let place = data.part(name).start;
                let mut other = whole.clone();
                other[place..place + 4].copy_from_slice(&word.to_be_bytes());
                assert!(self.answer(&other).is_err(), "numbers are reduced");
                let why = if name.starts_with("rows") { "merkle" } else { "element" };
                refused("stark", &format!("{about} in {name}"), whole, &other, why);
            }
        }
        for at in 0..7 {
            let mut other = self.proof.clone();
            let stark = &mut other.0;
            match at {
                0 => stark.decommitments[0].hash_witness.push(Blake2sHash(random.digest())),
                1 => drop(stark.decommitments[3].hash_witness.pop()),
                2 => stark.fri_proof.first_layer.fri_witness.push(random.element()),
                3 => drop(stark.fri_proof.inner_layers[1].fri_witness.pop()),
                4 => stark.fri_proof.inner_layers[0].decommitment.hash_witness.clear(),
                5 => stark.queried_values[2].iter_mut().for_each(|column| column.truncate(1)),
                _ => stark.fri_proof.inner_layers[0].fri_witness.swap(0, 1),
            }
            self.changed(
                &format!("opened values and nodes, {at}"),
                whole,
                &self.calldata(&other, self.claimed_sum).bytes,
            );
        }
    }

    fn changed(&self, about: &str, honest: &[u8], input: &[u8]) {
        match self.answer(input) {
            Ok(digest) => case("stark", about, input, Some(digest)),
            Err(why) => refused("stark", about, honest, input, &why),
        }
    }
}

/// What the contract says where this verifier refuses.
fn reason(error: &StarkError) -> &'static str {
    let said = error.to_string();
    let reasons = [
        ("do not balance", "do not balance"),
        ("OODS", "constraints"),
        ("Proof of work", "work"),
        ("commitment in", "merkle"),
        ("evaluations in the last layer", "last message"),
        ("evaluations are invalid", "folding: values|element"),
        ("Witness is too", "merkle"),
        ("Root mismatch", "merkle"),
        // Who opens too few positions has said something else before: the contract looks at that first.
        ("answers of a column", "number of queried values|constraints|work"),
    ];
    let found = reasons.iter().find(|(own, _)| said.contains(own));
    found.map_or("", |(_, reason)| reason)
}
