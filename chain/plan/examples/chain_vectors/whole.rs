//! The parts of a proof from its beginning, as the verifier takes them, and its opening as a whole.

use stwo::core::channel::Channel as _;
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::claims::{batch, Heard, LinearClaim, Operands};
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::rounding::Powers;
use tessera_circuits::shape::Product;
use tessera_circuits::trees::{lookup_trees, Forest, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_verifier::gkr;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{
    ACTIVATIONS, CLAIMS, CLAIMS_WORK, LOOKUP_WORK, MATMULS, OPERANDS, POINTS, POINTS_WORK, QUERY_WORK,
};
use tessera_verifier::message::{NoWork, Unread};
use tessera_verifier::opening::parts::{
    longest, parts_of, proof_of, CodeOpening, Layout, LeafOpening, OpeningPolicy, OracleOpening, ProofParts, FIBRE,
};
use tessera_verifier::opening::{self, Claim, Commitment, CommitmentName, CommitmentParams, OpeningError, TreeName};
use tessera_verifier::policy::WORKED_FOLDS;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::{Digest, Suite, SuiteChannel};
use tessera_verifier::sumcheck;
use tessera_verifier::tables::draw_relations;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{
    absorb_statistics, linear_variables, open_transcript, unit_coefficients, weight_claim, weight_families,
    ChunkStatement,
};

use super::before::Before;
use super::calldata::{Calldata, Reader};
use super::{case, lookups, refused, sumchecks, Random, K};

type Failure = Box<dyn std::error::Error>;

/// The ends of the trees: the claims on all leaves, the denominators of the trees of lookups, and the numerator of the tree of the tables.
type Leaves = (Vec<LinearClaim>, Vec<K>, Option<K>);

/// The parts of a proof that are verified as such, from its beginning.
pub fn parts(key: &ModelKey, proof: &Proof, random: &mut Random) -> Result<(), Failure> {
    let [own] = proof.chunks.as_slice() else {
        return Err("a proof in one piece is needed".into());
    };
    let whole = Chunk::whole(key.config.layers);
    let shape = key.shape(&whole, proof.statement.lengths());
    let params = CommitmentParams::of_activations(&shape, &key.weights);
    let ends = Ends::default();
    let mut t = beginning(key, proof, own, &whole, &params)?;
    assert!(t.work(LOOKUP_WORK, own.lookup_work));
    let relations = draw_relations(&mut t, &key.config.relations());
    let trees = lookup_trees(&shape);
    let chunk_params = whole.params(&key.params);
    let powers = Powers {
        shape: &shape,
        params: &chunk_params,
        leading: proof.statement.leading(&chunk_params.leading),
    };
    let lookups = leaves(&powers, &trees, &relations, own, (&mut t, random))?;
    assert!(t.work(POINTS_WORK, own.points_work));
    let points = Points::new(&shape, t.challenges(POINTS, Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &chunk_params,
        statement: &proof.statement,
        ends,
        statistics: &own.statistics,
        points: &points,
    };
    let variables = shape.product_variables();
    let about = format!("matrix products in {variables} variables");
    sumchecks(&about, MATMULS, own.matmuls.claim, &own.matmuls.sumcheck, &t, random);
    let products = sumcheck::verify(
        MATMULS,
        own.matmuls.claim,
        variables as usize,
        Unread::of(&own.matmuls.sumcheck),
        None,
        &mut t,
    )?;
    t.send(OPERANDS, own.matmuls.operands.as_slice());
    let families = weight_families(public.shape, &mut t);
    opening_of(
        key,
        (proof, own),
        &public,
        (&products.point, &families),
        lookups,
        (&mut t, random),
    )?;
    Ok(())
}

/// The linear claims, and the opening that their end and the claim on the weights lead to.
fn opening_of(
    key: &ModelKey,
    (whole_proof, own): (&Proof, &ChunkProof),
    public: &Public<'_>,
    (products, families): (&[K], &[(Product, K)]),
    (lookup_claims, denominators, counts): Leaves,
    (t, random): (&mut Transcript, &mut Random),
) -> Result<(), Failure> {
    let (shape, whole) = (public.shape, Chunk::whole(key.config.layers));
    let params = CommitmentParams::of_activations(shape, &key.weights);
    let heard = Heard {
        accumulators: own.matmuls.claim,
        operands: Operands::of(shape, &own.matmuls.operands),
        denominators,
        counts,
        digits: None,
        boundaries: Default::default(),
    };
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(products));
    claims.extend(lookup_claims);
    let batch = batch(claims, t.challenge(CLAIMS));
    let claimed = batch.total(&heard).ok_or("a value that nobody says")?;
    let before = Before {
        key,
        proof: whole_proof,
        shape,
        params: &params,
        claimed,
    };
    println!(r#"{{"name":"said","data":"{}"}}"#, hex::encode(before.said(own)));
    before.cases(own, random);
    let about = format!("linear claims in {} variables", own.linear.rounds.len());
    sumchecks(&about, CLAIMS, claimed, &own.linear, t, random);
    let (variables, last) = (linear_variables(shape), (CLAIMS_WORK, Unread::of(&own.linear_work)));
    let end = sumcheck::verify(CLAIMS, claimed, variables, Unread::of(&own.linear), Some(last), t)?;

    let columns = key.opened(&whole);
    let weights = Claim {
        commitment: key.commitment(),
        columns,
        gamma: &public.band_coefficients(products, families, columns.bands(), columns.log_band()),
        point: &public.local_point(products, columns.log_band()),
        value: weight_claim(&heard.operands, families),
    };
    let activations = Claim {
        commitment: Commitment {
            name: CommitmentName::Activations,
            params,
            root: own.activations,
        },
        columns: params.all(),
        gamma: &unit_coefficients(shape, &batch, &end.point),
        point: suffix(&end.point, MIN_ROWS_LOG),
        value: end.value,
    };
    let claims = [weights, activations];
    Opened {
        claims: &claims,
        start: t.clone(),
    }
    .cases(parts_of(&own.opening), random);
    opening::verify(&claims, Unread::of(&own.opening), t)?;
    Ok(())
}

/// The transcript up to the work before the lookups.
fn beginning(
    key: &ModelKey,
    proof: &Proof,
    own: &ChunkProof,
    whole: &Chunk,
    activations: &CommitmentParams,
) -> Result<Transcript, Failure> {
    let claim = ChunkStatement::whole(key, &proof.model, &proof.statement, whole, proof.context);
    let mut t = open_transcript(&claim, activations, None);
    t.send(ACTIVATIONS, &own.activations);
    absorb_statistics(&own.statistics, &mut t);
    Ok(t)
}

/// `z` and `alpha` of each relation.
pub fn relation_elements(mut t: Transcript) -> Vec<K> {
    t.words("lookups", &[]);
    (0..5).flat_map(|_| t.channel().draw_secure_felts(2)).collect()
}

/// Verifies the trees of lookups and the tree of the tables, and returns what they end in.
fn leaves(
    powers: &Powers<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    proof: &ChunkProof,
    (t, random): (&mut Transcript, &mut Random),
) -> Result<Leaves, Failure> {
    let tables = powers.shape.table_tree();
    let logs = Forest::of(powers.shape).logs_with(tables.as_ref());
    lookups(
        &format!("{} trees of lookups", logs.len()),
        &logs,
        &proof.lookups,
        t,
        random,
    );
    let (leaves, _) = gkr::verify(&logs, Unread::of(&proof.lookups), t)?;
    let claims = trees.iter().zip(&leaves).enumerate();
    let claims = claims.map(|(number, (tree, leaf))| tree.claim(powers, relations, number, leaf));
    let mut claims: Vec<LinearClaim> = claims.collect::<Option<_>>().ok_or("numerators")?;
    let (own, entries) = leaves.split_at(trees.len());
    let entries = entries.first();
    claims.extend(tables.zip(entries).map(|(tree, leaf)| tree.claim(None, &leaf.point)));
    let denominators = own.iter().map(|leaf| leaf.denominator).collect();
    Ok((claims, denominators, entries.map(|leaf| leaf.numerator)))
}

/// What an opening is about.
struct Opened<'a> {
    claims: &'a [Claim<'a>; 2],
    start: Transcript,
}

/// What has to be said of a changed input.
enum Answer {
    Accepted(Vec<u8>),
    Refused(String),
    /// This proof of work is missing.
    Unworked(NoWork),
}

/// Ends the name of a case in which the sender did the work again.
const REWORKED: &str = ", with the work done again";

const CODES: [&str; 2] = ["weights", "activations"];

impl Opened<'_> {
    fn long(&self) -> CommitmentParams {
        let codes = self.claims.iter().map(|own| &own.commitment.params);
        longest(codes).expect("two codes")
    }

    /// Policy and parameters, then what is claimed, then the proof.
    fn calldata(&self, proof: &ProofParts) -> Calldata {
        let mut data = Calldata::default();
        data.put("digest", self.start.clone().channel().digest());
        let log_blowup = self.claims[0].commitment.params.log_blowup;
        let policy = OpeningPolicy::at_rate(log_blowup);
        let policy = [
            log_blowup as u8,
            (policy.queries >> 8) as u8,
            policy.queries as u8,
            policy.grind_bits as u8,
        ];
        data.put("policy", &policy);
        for (own, name) in self.claims.iter().zip(CODES) {
            let params = &own.commitment.params;
            let [first, tiles, log_band] = own.columns.words();
            let words = [params.tiles as u32, params.log_message, first, tiles, log_band];
            data.words(&format!("parameters of the {name}"), words);
        }
        for (own, name) in self.claims.iter().zip(CODES) {
            data.put(&format!("root of the {name}"), &own.commitment.root);
            data.elements(&format!("coefficients of the {name}"), own.gamma);
            data.elements(&format!("point of the {name}"), own.point);
            data.elements(&format!("value of the {name}"), &[own.value]);
        }
        for (own, name) in proof.codes.iter().zip(CODES) {
            data.elements(&format!("band rounds of the {name}"), own.band_rounds.as_flattened());
            data.nonces(&format!("column work of the {name}"), &own.column_work);
            data.elements(&format!("band value of the {name}"), &[own.band_value]);
        }
        data.elements("cross values", &proof.cross_values);
        data.nonces("sum work", &[proof.sum_work]);
        for (i, round) in proof.fold_rounds.iter().enumerate() {
            if let (0, Some(root)) = (i % 3, proof.roots.get(i / 3)) {
                data.put(&format!("root of oracle {}", i / 3), root);
            }
            data.elements(&format!("fold round {i}"), round);
            data.nonces("fold work", proof.fold_work.get(i..=i).unwrap_or_default());
        }
        data.elements("last message", &proof.final_message);
        data.nonces("nonce", &[proof.nonce]);
        for ((own, name), claim) in proof.codes.iter().zip(CODES).zip(self.claims) {
            // In two parts, as a sender may send them.
            let row = FIBRE * claim.commitment.params.columns();
            let (first, second) = own.rows.values.split_at(own.rows.values.len() / row / 2 * row);
            for (part, values) in [("first", first), ("other", second)] {
                data.words(
                    &format!("number of the {part} rows of {name}"),
                    [(values.len() / row) as u32],
                );
                data.words(&format!("{part} rows of the {name}"), values.iter().map(|v| v.0));
            }
            data.words(&format!("nodes of the {name}"), [own.rows.path.len() as u32]);
            data.digests(&format!("path of the {name}"), &own.rows.path);
        }
        for (i, own) in proof.oracles.iter().enumerate() {
            let counts = [own.values.len() as u32, own.path.len() as u32];
            data.words(&format!("numbers of oracle {i}"), counts);
            data.elements(&format!("values of oracle {i}"), &own.values);
            data.digests(&format!("path of oracle {i}"), &own.path);
        }
        data.elements("last message once more", &proof.final_message);
        data
    }

    /// What this verifier says of calldata whose policy and parameters are as they were.
    fn answer(&self, input: &[u8]) -> Answer {
        let Some((claims, proof, again)) = self.read(input) else {
            return Answer::Refused(String::new());
        };
        let [weights, activations] = &claims;
        let claims = [with(&self.claims[0], weights), with(&self.claims[1], activations)];
        let mut t = self.start.clone();
        let same = again == proof.final_message;
        match opening::verify(&claims, Unread::of(&proof_of(proof)), &mut t) {
            // Proofs have the last message once.
            Ok(()) if !same => Answer::Refused("last message".to_owned()),
            Ok(()) => Answer::Accepted(t.channel().digest().to_vec()),
            Err(OpeningError::Work(missing)) => Answer::Unworked(missing),
            Err(error) => Answer::Refused(reason(&error).to_owned()),
        }
    }

    /// What `calldata` has written.
    fn read(&self, input: &[u8]) -> Option<([Said; 2], ProofParts, Vec<K>)> {
        let mut data = Reader(input);
        data.take(PARAMETERS)?;
        let mut claim = |claim: &Claim<'_>| {
            Some(Said {
                root: data.digest()?,
                gamma: data.elements(claim.gamma.len())?,
                point: data.elements(claim.point.len())?,
                value: data.element()?,
            })
        };
        let claims = [claim(&self.claims[0])?, claim(&self.claims[1])?];
        let mut codes = vec![CodeOpening::default(); 2];
        for (own, claim) in codes.iter_mut().zip(self.claims) {
            own.band_rounds = rounds(&mut data, claim.columns.log_bands())?;
            own.column_work = data.nonces(claim.columns.log_columns() as usize)?;
            own.band_value = *data.raw_elements(1)?.first()?;
        }
        let long = self.long();
        let cross_values = data.raw_elements(2)?;
        let sum_work = data.nonce()?;
        let (mut roots, mut fold_rounds, mut fold_work) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..long.log_folded() - long.log_final() {
            if i % 3 == 0 {
                roots.push(data.digest()?);
            }
            fold_rounds.extend(rounds(&mut data, 1)?);
            if fold_work.len() < WORKED_FOLDS {
                fold_work.push(data.nonce()?);
            }
        }
        let final_message = data.raw_elements(1 << long.log_final())?;
        let nonce = data.nonce()?;
        for (own, claim) in codes.iter_mut().zip(self.claims) {
            let row = FIBRE * claim.commitment.params.columns();
            let mut values = Vec::new();
            for _ in 0..2 {
                let count = data.count()?.checked_mul(row)?;
                values.extend(data.words(count)?.into_iter().map(BaseField::from_u32_unchecked));
            }
            let nodes = data.count()?;
            let path = data.digests(nodes)?;
            own.rows = LeafOpening { values, path };
        }
        let mut oracle = |_| {
            let (values, nodes) = (data.count()?, data.count()?);
            let values = data.raw_elements(values)?;
            let path = data.digests(nodes)?;
            Some(OracleOpening { values, path })
        };
        let oracles = roots.iter().map(&mut oracle).collect::<Option<_>>()?;
        let again = data.raw_elements(1 << long.log_final())?;
        let proof = ProofParts {
            codes,
            cross_values,
            sum_work,
            fold_rounds,
            fold_work,
            roots,
            final_message,
            nonce,
            oracles,
        };
        data.0.is_empty().then_some((claims, proof, again))
    }

    /// The opening as it is, and changed in every one of its parts.
    fn cases(&self, proof: &ProofParts, random: &mut Random) {
        let data = self.calldata(proof);
        assert_eq!(data.part("root of the weights").start, PARAMETERS);
        let Answer::Accepted(digest) = self.answer(&data.bytes) else {
            panic!("the opening is accepted");
        };
        case("opening", "opening as a whole, gas", &data.bytes, Some(digest.clone()));
        case(
            "conversation",
            "opening without queries, gas",
            &data.bytes,
            Some(digest),
        );
        for (name, range) in data
            .parts
            .iter()
            .filter(|(_, range)| range.start >= PARAMETERS && !range.is_empty())
        {
            let changes = if name.starts_with("fold round") { 2 } else { 5 };
            for _ in 0..changes {
                let (place, bit) = (range.start + random.below(range.len()), random.below(8));
                let mut other = data.bytes.clone();
                other[place] ^= 1 << bit;
                self.changed(&format!("{name}, bit {bit} of byte {place}"), &data.bytes, &other);
            }
        }
        self.forged(&data, proof, random);
    }

    /// What a prover might try that knows what the queries are.
    fn forged(&self, data: &Calldata, proof: &ProofParts, random: &mut Random) {
        let mut longer = data.bytes.clone();
        longer.extend(random.digest());
        self.changed("a word too many", &data.bytes, &longer);
        self.changed("a word too few", &data.bytes, &data.bytes[..data.bytes.len() - 32]);
        for at in 0..4 {
            let mut other = proof.clone();
            match at {
                0 => other.codes[0].rows.values.extend([BaseField::from_u32_unchecked(7); 2]),
                1 => other.codes[1].rows.path.push(random.digest()),
                2 => other.oracles[0].values.push(random.element()),
                _ => drop(other.oracles[0].path.pop()),
            }
            self.changed(
                &format!("opened values and nodes, {at}"),
                &data.bytes,
                &self.calldata(&other).bytes,
            );
        }
        for (about, word) in [("p", P), ("the largest number", u32::MAX)] {
            for name in [
                "first rows of the weights",
                "other rows of the activations",
                "values of oracle 0",
                "band value of the weights",
                "cross values",
                "last message",
            ] {
                let place = data.part(name).start;
                let mut other = data.bytes.clone();
                other[place..place + 4].copy_from_slice(&word.to_be_bytes());
                self.changed(&format!("{about} in {name}"), &data.bytes, &other);
            }
        }
        let mut swapped = proof.clone();
        swapped.cross_values.swap(0, 1);
        self.changed("cross values swapped", &data.bytes, &self.calldata(&swapped).bytes);
        let mut swapped = proof.clone();
        swapped.oracles[0].values.swap(0, 1);
        self.changed(
            "values of oracle 0 swapped",
            &data.bytes,
            &self.calldata(&swapped).bytes,
        );
    }

    fn changed(&self, about: &str, honest: &[u8], input: &[u8]) {
        match self.answer(input) {
            Answer::Accepted(digest) => case("opening", about, input, Some(digest)),
            Answer::Refused(why) => refused("opening", about, honest, input, &why),
            Answer::Unworked(missing) => {
                refused("opening", about, honest, input, "work");
                if let Some(reworked) = self.reworked(input, missing) {
                    let about = about.trim_end_matches(REWORKED);
                    self.changed(&format!("{about}{REWORKED}"), honest, &reworked);
                }
            }
        }
    }

    /// Changed calldata with a missing proof of work done again, but for the one before the queries, which takes long. Other nonces may have
    /// the same bytes: with one behind the right one changed, the same work is missing.
    fn reworked(&self, input: &[u8], missing: NoWork) -> Option<Vec<u8>> {
        if missing.work.label == QUERY_WORK {
            return None;
        }
        let channel = SuiteChannel::at(Suite::Keccak, missing.over);
        let nonce: u64 = (0..).find(|nonce| channel.verify_pow_nonce(missing.work.bits, *nonce))?;
        let old = missing.nonce.to_be_bytes();
        let places = (0..input.len()).rev().filter(|place| input[*place..].starts_with(&old));
        let mut tries = places.map(|place| {
            let mut other = input.to_vec();
            other[place..place + old.len()].copy_from_slice(&nonce.to_be_bytes());
            other
        });
        tries.find(|other| match self.answer(other) {
            Answer::Unworked(next) => next.over != missing.over,
            _ => true,
        })
    }
}

/// Bytes before the first claim: the digest, the policy and the parameters of both commitments.
const PARAMETERS: usize = 32 + 4 + 2 * 20;

/// The facts about a commitment that calldata states.
struct Said {
    root: Digest,
    gamma: Vec<K>,
    point: Vec<K>,
    value: K,
}

/// The same claim as another one, but for what is in calldata.
fn with<'a>(claim: &Claim<'_>, own: &'a Said) -> Claim<'a> {
    Claim {
        commitment: Commitment {
            root: own.root,
            ..claim.commitment
        },
        columns: claim.columns,
        gamma: &own.gamma,
        point: &own.point,
        value: own.value,
    }
}

fn rounds(data: &mut Reader<'_>, count: u32) -> Option<Vec<[K; 2]>> {
    Some(data.raw_elements(2 * count as usize)?.as_chunks().0.to_vec())
}

/// What the contract says where this verifier refuses. Rows are looked at before their path is.
fn reason(error: &OpeningError) -> &'static str {
    match error {
        // Who calls the contract looks at the ends of the band sumchecks, when all is said, and all work before that is looked at.
        OpeningError::BandClaim { .. } => "end of the band sumcheck|end of the folding sumcheck|work",
        OpeningError::FoldClaim => "end of the folding sumcheck",
        OpeningError::Work(_) => "work",
        OpeningError::OpenedValues {
            tree: TreeName::Committed(_),
            ..
        } => "number of row values|merkle",
        OpeningError::OpenedValues { .. } => "folding: values|element",
        OpeningError::NotCanonical(own) if own.what.contains("committed tree") => "a number of p or more",
        // Contracts absorb cross values and look at work before they read them.
        OpeningError::NotCanonical(_) => "element|work",
        OpeningError::PathTooShort { .. } | OpeningError::PathTooLong { .. } | OpeningError::Root { .. } => "merkle",
        OpeningError::FinalMessage { .. } => "last message",
        _ => "",
    }
}
