//! All that is said before the opening.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::claims::Operands;
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;
use tessera_circuits::trees::{groups, Forest};
use tessera_circuits::wiring::Points;
use tessera_verifier::context::Context;
use tessera_verifier::gkr::{self, GroupProof, LayerProof};
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{ACTIVATIONS, CLAIMS, CLAIMS_WORK, LOOKUP_WORK, MATMULS, OPERANDS, POINTS, POINTS_WORK};
use tessera_verifier::listen::evaluate;
use tessera_verifier::message::Unread;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::sumcheck::{self, SumcheckProof};
use tessera_verifier::tables::draw_relations;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{
    linear_variables, open_transcript, products_form, weight_claim, weight_families, ChunkStatement,
};

use super::calldata::{Calldata, Reader};
use super::whole::relation_elements;
use super::{bytes_of, case, cases, Random, K};

/// What follows from key and statement.
pub struct Before<'a> {
    pub key: &'a ModelKey,
    pub proof: &'a Proof,
    pub shape: &'a Shape,
    pub params: &'a CommitmentParams,
    /// The value of the linear claims, which the contract takes on trust.
    pub claimed: K,
}

/// The end point of the products, the challenge of the families, and what the claim on the weights is made of.
type Products = (Vec<K>, K, K);

/// No product.
const NONE: u8 = 255;

impl Before<'_> {
    fn trees(&self) -> Vec<u32> {
        let tables = self.shape.table_tree();
        Forest::of(self.shape).logs_with(tables.as_ref())
    }

    /// What is said before the opening, as contracts take it.
    pub fn said(&self, own: &ChunkProof) -> Vec<u8> {
        let (data, from) = self.calldata(own);
        data.bytes[from - 12..].to_vec()
    }

    fn calldata(&self, own: &ChunkProof) -> (Calldata, usize) {
        let (key, statement) = (self.key, &self.proof.statement);
        let mut data = Calldata::default();
        data.put("model", &self.proof.model.0);
        let [queries, _, log_blowup, log_message, units] = self.params.words();
        data.put("layers and rate", &[key.config.layers as u8, log_blowup as u8]);
        data.put("queries", &(queries as u16).to_be_bytes());
        data.put("length of messages", &[log_message as u8]);
        data.words("units", [units]);
        let trees: Vec<u8> = self.trees().iter().map(|log| *log as u8).collect();
        data.put("trees", &[&[trees.len() as u8], &trees[..]].concat());
        data.put("coordinates", &(Points::count(self.shape) as u16).to_be_bytes());
        let variables = self
            .shape
            .products()
            .iter()
            .map(|own| own.variables.map_or(NONE, |v| v as u8));
        data.put("variables", &variables.collect::<Vec<_>>());
        data.put("linear", &[linear_variables(self.shape) as u8]);
        let rule = &key.params.leading;
        data.put("leading rows", &[rule.first, rule.run.into()]);
        let clips = &own.statistics.clips;
        let counts = [statement.prompt.len(), statement.output.len(), clips.len()];
        data.words("numbers", counts.map(|n| n as u32));
        let from = data.bytes.len();
        data.put("context", &self.proof.context.map_or([0; 32], Into::into));
        data.words("prompt", statement.prompt.iter().copied());
        data.words("output", statement.output.iter().copied());
        let clip = |c: &tessera_circuits::statistics::Clip| {
            [
                c.part.into(),
                c.tensor.into(),
                c.at as u32,
                (c.at >> 32) as u32,
                c.excess as u32,
            ]
        };
        data.words("clipped values", clips.iter().flat_map(clip));
        data.put("activations", &own.activations);
        data.nonces("work", &[own.lookup_work]);
        for group in &own.lookups {
            data.elements("roots", group.roots.as_flattened());
            for layer in &group.layers {
                data.elements("rounds of a layer", layer.rounds.as_flattened());
                data.elements("children", layer.children.as_flattened());
            }
        }
        data.nonces("points work", &[own.points_work]);
        data.elements("sum of the products", &[own.matmuls.claim]);
        data.elements("rounds of the products", own.matmuls.sumcheck.rounds.as_flattened());
        data.elements("operands", own.matmuls.operands.as_flattened());
        data.elements("value of the linear claims", &[self.claimed]);
        data.elements("rounds of the linear claims", own.linear.rounds.as_flattened());
        data.nonces("claims work", &[own.linear_work]);
        (data, from)
    }

    /// The transcript before the work.
    fn begun(&self, data: &mut Reader<'_>) -> Option<Transcript> {
        let (prompt, output, clips) = (data.count()?, data.count()?, data.count()?);
        let context = Context::try_from(data.digest()?).ok();
        let statement = Statement {
            prompt: data.words(prompt)?,
            output: data.words(output)?,
        };
        let clips = data.words(5 * clips)?;
        let (model, whole) = (&self.proof.model, Chunk::whole(self.key.config.layers));
        let claim = ChunkStatement::whole(self.key, model, &statement, &whole, context);
        let mut t = open_transcript(&claim, self.params, None);
        t.send(ACTIVATIONS, &data.digest()?);
        t.words("clipped values", &clips);
        Some(t)
    }

    /// Does the work of changed calldata again: what is changed must not be found by that alone.
    fn rework(&self, input: &mut [u8], from: usize, place: usize) {
        let begun = self.begun(&mut Reader(&input[from - 12..]));
        let found = begun.and_then(|t| (0..).find(|nonce| t.clone().work(LOOKUP_WORK, *nonce)));
        if let Some(nonce) = found {
            let nonce: u64 = nonce;
            input[place..place + 8].copy_from_slice(&nonce.to_be_bytes());
        }
    }

    /// What this verifier makes of the same, statements of other lengths aside.
    fn answer(&self, input: &[u8], from: usize) -> Option<Vec<u8>> {
        let mut data = Reader(&input[from - 12..]);
        let mut t = self.begun(&mut data)?;
        if !t.work(LOOKUP_WORK, data.nonce()?) {
            return None;
        }
        let relations = relation_elements(t.clone());
        draw_relations(&mut t, &self.key.config.relations());
        let logs = self.trees();
        let groups = groups(&logs).into_iter().map(|own| group(&mut data, &logs[own]));
        let groups = groups.collect::<Option<Vec<GroupProof>>>()?;
        let (leaves, sums) = gkr::verify(&logs, Unread::of(&groups), &mut t).ok()?;
        if !t.work(POINTS_WORK, data.nonce()?) {
            return None;
        }
        let points = t.challenges(POINTS, Points::count(self.shape));
        let (end, families, weights) = self.products(&mut data, &mut t)?;
        let chi = t.challenge(CLAIMS);
        let (claimed, linear) = (
            data.element()?,
            rounds(&mut data, linear_variables(self.shape) as usize)?,
        );
        let (variables, nonce) = (linear.rounds.len(), data.nonce()?);
        let work = Some((CLAIMS_WORK, Unread::of(&nonce)));
        let last = sumcheck::verify(CLAIMS, claimed, variables, Unread::of(&linear), work, &mut t).ok()?;
        let mut answer = t.channel().digest().to_vec();
        answer.extend(bytes_of(&relations));
        for leaf in &leaves {
            answer.extend(bytes_of(&leaf.point));
            answer.extend(bytes_of(&[leaf.numerator, leaf.denominator]));
        }
        answer.extend(bytes_of(&[sums.into_iter().sum()]));
        answer.extend(bytes_of(&points));
        answer.extend(bytes_of(&end));
        answer.extend(bytes_of(&[families, weights, chi, claimed]));
        answer.extend(bytes_of(&last.point));
        answer.extend(bytes_of(&[last.value]));
        data.0.is_empty().then_some(answer)
    }

    /// As `verify_matmuls` does it, but for the embedding's operand.
    fn products(&self, data: &mut Reader<'_>, t: &mut Transcript) -> Option<Products> {
        let variables = self.shape.product_variables() as usize;
        let (claim, proof) = (data.element()?, rounds(data, variables)?);
        let values = data.elements(2 * self.shape.existing().count())?;
        let values: Vec<[K; 2]> = values.as_chunks().0.to_vec();
        let operands = Operands::of(self.shape, &values);
        let end = sumcheck::verify(MATMULS, claim, variables, Unread::of(&proof), None, t).ok()?;
        let product = evaluate(&products_form(self.shape), values.as_flattened());
        if product != end.value {
            return None;
        }
        t.send(OPERANDS, values.as_slice());
        let families = weight_families(self.shape, t);
        let (_, first) = *families.first()?;
        Some((end.point, first, weight_claim(&operands, &families)))
    }

    pub fn cases(&self, own: &ChunkProof, random: &mut Random) {
        let (data, from) = self.calldata(own);
        cases(
            "beforeOpening",
            "all before the opening",
            (&data.bytes, from),
            120,
            random,
            |input| self.answer(input, from),
        );
        let work = data.part("work").start;
        for _ in 0..40 {
            let (place, bit) = (from + random.below(work - from), random.below(8));
            let mut other = data.bytes.clone();
            other[place] ^= 1 << bit;
            self.rework(&mut other, from, work);
            let about = format!("all before the opening, bit {bit} of byte {place} changed, with the work done again");
            case("beforeOpening", &about, &other, self.answer(&other, from));
        }
    }
}

fn rounds(data: &mut Reader<'_>, count: usize) -> Option<SumcheckProof> {
    let rounds = data.elements(2 * count)?.as_chunks().0.to_vec();
    Some(SumcheckProof { rounds })
}

/// The proof of a group of trees of `2^log` leaves each.
pub fn group(data: &mut Reader<'_>, logs: &[u32]) -> Option<GroupProof> {
    let roots = data.elements(2 * logs.len())?.as_chunks().0.to_vec();
    let mut layer = |k: u32| {
        let active = logs.iter().filter(|log| **log > k).count();
        Some(LayerProof {
            rounds: data.elements(2 * k as usize)?.as_chunks().0.to_vec(),
            children: data.elements(4 * active)?.as_chunks().0.to_vec(),
        })
    };
    let depth = logs.iter().max().copied()?;
    let layers = (0..depth).map(&mut layer).collect::<Option<_>>()?;
    Some(GroupProof { roots, layers })
}
