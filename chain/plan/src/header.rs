//! What a plan says beside its program, in bytes that a contract reads, and its digest.

use std::ops::RangeInclusive;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::claims::PLACES;
use tessera_circuits::statement::Lengths;
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::{lookup_trees, padding};
use tessera_circuits::wiring::Points;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::security_bits;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::public::linear_variables;
use tessera_verifier::suite::Digest;

use crate::hash::keccak;
use crate::plan::Plan;
use crate::segments::Segment;

/// The variables of a product that does not exist.
const NONE: u8 = 255;

impl Segment {
    /// That of the digests of its pages. These are what a chain says of the contracts that have them as their code, behind a byte 0.
    pub fn digest(&self) -> Digest {
        let page = |page: &Vec<u8>| keccak(&[&[0], page.as_slice()].concat());
        let pages: Vec<Digest> = self.pages.iter().map(page).collect();
        keccak(pages.as_flattened())
    }
}

impl Plan {
    /// The model's id, the root of the weights, numbers of four bytes, big-endian, then the variables of the products and log2
    /// of the leaves of the trees, a byte each: what `Plan.sol` reads. `key` is the one that the plan was made of.
    pub fn header(&self, key: &ModelKey) -> Result<Vec<u8>, CodecError> {
        let (shape, config) = (&self.shape, &key.config);
        let whole = Chunk::whole(config.layers);
        let trees = lookup_trees(shape);
        let activations = CommitmentParams::of_activations(shape, &key.weights);
        let [queries, _, log_blowup, log_message, units] = activations.words().map(|word| word as usize);
        let [first, tiles, log_band] = key.opened(&whole).words().map(|word| word as usize);
        let tables = shape.table_tree();
        let tables = tables.as_ref().map(TableTree::log_leaves);
        let logs: Vec<u32> = trees.iter().map(|tree| tree.log_leaves()).chain(tables).collect();
        let [padded, ..] = padding(&trees).to_m31_array();
        let numbers = [
            config.layers,
            log_blowup,
            queries,
            log_message,
            units,
            Points::count(shape),
            linear_variables(shape),
            shape.text_rows(),
            shape.outputs,
            config.vocab,
            config.context,
            key.params.leading.first.into(),
            key.params.leading.run.into(),
            key.weights.tiles,
            key.weights.log_message as usize,
            first,
            tiles,
            log_band,
            padded.0 as usize,
            self.tenths_of_bits(key) as usize,
            logs.len(),
        ];
        let mut bytes = [key.id()?.0, key.weights_root].concat();
        bytes.extend(numbers.iter().flat_map(|number| (*number as u32).to_be_bytes()));
        let mut variables = [NONE; PLACES];
        for own in shape.products() {
            let place = variables.get_mut(own.product.index());
            place
                .into_iter()
                .for_each(|place| *place = own.variables.map_or(NONE, |v| v as u8));
        }
        bytes.extend(variables);
        bytes.extend(logs.into_iter().map(|log| log as u8));
        Ok(bytes)
    }

    /// Tenths of the bits of the ledger, rounded down, of the longest statement of the plan.
    pub fn tenths_of_bits(&self, key: &ModelKey) -> u32 {
        let lengths = Lengths::new(*self.shape.same_rows().end(), self.shape.outputs);
        (security_bits(key, &[Chunk::whole(key.config.layers)], lengths) * 10.0) as u32
    }

    /// The fewest and the most tokens of prompts that the plan is for.
    pub fn prompt_tokens(&self, key: &ModelKey) -> RangeInclusive<usize> {
        let rows = |rows: usize| (rows + 1).saturating_sub(self.shape.outputs).max(1);
        let same = self.shape.same_rows();
        rows(*same.start())..=rows((*same.end()).min(key.config.context))
    }

    /// Digests of the segments of the program from each on; behind the last one there is nothing, which is 0. The first one is that of
    /// the program. Each is the digest of that of a segment and of what is behind it: so no segment can be left out, sent twice or taken
    /// from another program.
    pub fn program_digests(&self) -> Vec<Digest> {
        let mut digests = vec![[0; 32]];
        for segment in self.program.iter().rev() {
            let behind = digests.last().copied().unwrap_or_default();
            digests.push(keccak(&[segment.digest(), behind].concat()));
        }
        digests.reverse();
        digests
    }

    /// The digest of the program.
    pub fn program_digest(&self) -> Digest {
        self.program_digests().first().copied().unwrap_or_default()
    }

    /// The digest of the plan, which facts on a chain name: that of the digests of header and program.
    pub fn id(&self, key: &ModelKey) -> Result<Digest, CodecError> {
        Ok(keccak(&[keccak(&self.header(key)?), self.program_digest()].concat()))
    }
}
