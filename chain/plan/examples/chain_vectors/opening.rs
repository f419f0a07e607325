//! Trees, rows, folds, oracles and last messages: the steps of an opening.

use stwo::core::fields::m31::{BaseField, P};
use tessera_verifier::opening::parts::{
    evaluate_line, fold_leaf, hash_base_leaf, hash_secure_leaf, line_coordinate, line_fibre, verify_batch,
    CommittedTree,
};
use tessera_verifier::opening::{CommitmentName, TreeName};
use tessera_verifier::suite::{Digest, Suite};

use super::{bytes_of, case, cases, elements, Random, K};

/// A batch of leaves of a tree, as the contracts read it.
fn opened(input: &[u8]) -> Option<Vec<u8>> {
    let (root, rest) = input.split_first_chunk()?;
    let (&[depth, a, b, c, d], rest) = rest.split_first_chunk()?;
    let (size, count) = (
        4 * usize::from(u16::from_be_bytes([a, b])),
        usize::from(u16::from_be_bytes([c, d])),
    );
    let (positions, rest) = rest.split_at_checked(4 * count)?;
    let (leaves, path) = rest.split_at_checked(size * count)?;
    let positions: Vec<usize> = positions
        .as_chunks()
        .0
        .iter()
        .map(|p| u32::from_be_bytes(*p) as usize)
        .collect();
    let ascending = positions.is_sorted_by(|a, b| a < b) && positions.iter().all(|p| *p < 1 << depth);
    let digest = |leaf: &[u8]| {
        let mut hasher = Suite::Keccak.leaf_hasher();
        hasher.update(leaf);
        hasher.finalize()
    };
    let leaves = positions
        .into_iter()
        .zip(leaves.chunks_exact(size).map(digest))
        .collect();
    let tree = CommittedTree {
        name: TreeName::Committed(CommitmentName::Weights),
        suite: Suite::Keccak,
        root,
        depth: depth.into(),
    };
    let (path, []) = path.as_chunks() else { return None };
    (ascending && verify_batch(&tree, leaves, path).is_ok()).then(|| vec![1])
}

pub fn trees(random: &mut Random) {
    for (depth, words, count) in [(1, 2, 1), (3, 5, 8), (6, 16, 9), (9, 64, 97), (10, 32, 1)] {
        let leaves: Vec<Vec<BaseField>> = (0..1 << depth)
            .map(|_| random.words(words).iter().map(|w| BaseField::from(w % P)).collect())
            .collect();
        let mut levels = vec![leaves
            .iter()
            .map(|leaf| hash_base_leaf(Suite::Keccak, leaf))
            .collect::<Vec<Digest>>()];
        for level in 0..depth {
            let pairs = levels[level].as_chunks::<2>().0.iter();
            levels.push(pairs.map(|[left, right]| Suite::Keccak.node(left, right)).collect());
        }
        let mut positions: Vec<usize> = (0..count).map(|_| random.below(1 << depth)).collect();
        positions.sort_unstable();
        positions.dedup();
        let mut input = levels[depth][0].to_vec();
        input.push(depth as u8);
        input.extend((words as u16).to_be_bytes());
        input.extend((positions.len() as u16).to_be_bytes());
        input.extend(positions.iter().flat_map(|p| (*p as u32).to_be_bytes()));
        input.extend(
            positions
                .iter()
                .flat_map(|p| &leaves[*p])
                .flat_map(|w| w.0.to_be_bytes()),
        );
        let mut nodes = positions.clone();
        for level in &levels[..depth] {
            for node in &nodes {
                if nodes.binary_search(&(node ^ 1)).is_err() {
                    input.extend(level[node ^ 1]);
                }
            }
            nodes.iter_mut().for_each(|node| *node >>= 1);
            nodes.dedup();
        }
        let about = format!("{} leaves of {words} words, depth {depth}", positions.len());
        // Depth and numbers are the verifier's own: the header stays.
        cases("merkle", &about, (&input, 37), 24, random, opened);
        case(
            "merkle",
            &format!("{about}, a node too many"),
            &[&input[..], &[0; 32]].concat(),
            None,
        );
        let root = [&random.digest(), &input[32..]].concat();
        case("merkle", &format!("{about}, another root"), &root, None);
    }
}

/// Rows of a committed tree.
pub fn rows(random: &mut Random) {
    for columns in [1, 2, 3, 4, 5, 8, 28, 63] {
        let weights = random.elements(columns);
        let values = random.words(2 * columns).iter().map(|w| w % P).collect::<Vec<_>>();
        combination(&weights, &values, random);
        // The largest numbers that there are.
        let largest = K::from_m31_array([BaseField::from(P - 1); 4]);
        combination(&vec![largest; columns], &vec![P - 1; 2 * columns], random);
    }
}

/// Last messages at coordinates of positions, and oracles of codewords.
pub fn oracles(random: &mut Random) {
    for (log, count) in [
        (0, 2),
        (1, 3),
        (2, 9),
        (3, 20),
        (4, 20),
        (5, 1),
        (6, 40),
        (7, 40),
        (8, 93),
        (9, 93),
    ] {
        let message = random.elements(1 << log);
        // Most of them are near others, which share what is calculated first.
        let mut positions: Vec<u32> = (0..count)
            .map(|i| random.below(if i % 4 == 0 { 1 << 14 } else { 1 << 10 }) as u32)
            .collect();
        positions.sort_unstable();
        positions.dedup();
        let places = positions.iter().flat_map(|position| position.to_be_bytes());
        let input = [&[log as u8][..], &bytes_of(&message), &places.collect::<Vec<u8>>()].concat();
        let about = format!("2^{log} coefficients at {} positions", positions.len());
        cases("line", &about, (&input, 1), 4, random, |input| {
            let (message, places) = input[1..].split_at(16 << log);
            let message = elements(message)?;
            let positions = places.as_chunks().0.iter().map(|own| u32::from_be_bytes(*own) as usize);
            let positions: Vec<usize> = positions.collect();
            if !positions.is_sorted_by(|a, b| a < b) || positions.iter().any(|own| own >> 14 != 0) {
                return None;
            }
            let values = positions
                .into_iter()
                .map(|own| evaluate_line(&message, line_coordinate(14, own)));
            Some(bytes_of(&values.collect::<Option<Vec<K>>>()?))
        });
    }
    for (log, queries) in [(4, 3), (6, 20), (10, 97), (13, 1)] {
        oracle(log, queries, random);
    }
}

/// Numbers in the header of an oracle's input.
const HEADER: usize = 87;

fn oracle(log: u32, queries: usize, random: &mut Random) {
    let suite = Suite::Keccak;
    let codeword = random.elements(1 << log);
    let leaves: Vec<&[K]> = codeword.chunks(8).collect();
    let mut levels = vec![leaves
        .iter()
        .map(|leaf| hash_secure_leaf(suite, leaf))
        .collect::<Vec<Digest>>()];
    while levels.last().is_some_and(|level| level.len() > 1) {
        let pairs = levels[levels.len() - 1].as_chunks::<2>().0.iter();
        levels.push(pairs.map(|[left, right]| suite.node(left, right)).collect());
    }
    let mut positions: Vec<usize> = (0..queries).map(|_| random.below(1 << log)).collect();
    positions.sort_unstable();
    positions.dedup();
    let mut nodes: Vec<usize> = positions.iter().map(|p| p >> 3).collect();
    nodes.dedup();
    let of_leaves = nodes.iter().flat_map(|leaf| 8 * leaf..8 * leaf + 8);
    let sent: Vec<K> = of_leaves
        .filter(|p| positions.binary_search(p).is_err())
        .map(|p| codeword[p])
        .collect();
    let mut path = Vec::new();
    for level in &levels[..levels.len() - 1] {
        let missing = nodes.iter().filter(|node| nodes.binary_search(&(**node ^ 1)).is_err());
        path.extend(missing.map(|node| level[node ^ 1]));
        nodes.iter_mut().for_each(|node| *node >>= 1);
        nodes.dedup();
    }
    let mut input = levels[levels.len() - 1][0].to_vec();
    input.push(log as u8);
    input.extend(bytes_of(&random.elements(3)));
    for count in [positions.len(), sent.len(), path.len()] {
        input.extend((count as u16).to_be_bytes());
    }
    input.extend(positions.iter().flat_map(|p| (*p as u32).to_be_bytes()));
    input.extend(bytes_of(&positions.iter().map(|p| codeword[*p]).collect::<Vec<_>>()));
    input.extend(bytes_of(&sent));
    input.extend(path.as_flattened());
    let about = format!("{} positions of 2^{log}", positions.len());
    cases("oracle", &about, (&input, HEADER), 24, random, opened_oracle);
}

/// What the verifier makes of an oracle, as `opening::verify` does it.
fn opened_oracle(input: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = input.split_at_checked(HEADER)?;
    let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let (log, challenges) = (u32::from(header[32]), elements(&header[33..81])?);
    let (positions, rest) = rest.split_at_checked(4 * count(81))?;
    let (known, rest) = rest.split_at_checked(16 * count(81))?;
    let (sent, path) = rest.split_at_checked(16 * count(83))?;
    let positions: Vec<usize> = positions
        .as_chunks()
        .0
        .iter()
        .map(|p| u32::from_be_bytes(*p) as usize)
        .collect();
    if !positions.is_sorted_by(|a, b| a < b) || positions.iter().any(|p| p >> log != 0) {
        return None;
    }
    let (known, sent) = (elements(known)?, elements(sent)?);
    let (mut known, mut sent) = (positions.iter().zip(known).peekable(), sent.into_iter());
    let mut indices: Vec<usize> = positions.iter().map(|p| p >> 3).collect();
    indices.dedup();
    let (mut digests, mut answer) = (Vec::new(), Vec::new());
    for index in indices {
        let mut value = |position: usize| match known.next_if(|(own, _)| **own == position) {
            Some((_, value)) => Some(value),
            None => sent.next(),
        };
        let leaf: Vec<K> = (8 * index..8 * index + 8).map(&mut value).collect::<Option<_>>()?;
        digests.push((index, hash_secure_leaf(Suite::Keccak, &leaf)));
        let folded = fold_leaf(&leaf, &line_fibre(log, index, 3), &challenges)?;
        answer.extend((index as u32).to_be_bytes());
        answer.extend(bytes_of(&[folded]));
    }
    let tree = CommittedTree {
        name: TreeName::Oracle(0),
        suite: Suite::Keccak,
        root: header.first_chunk()?,
        depth: log - 3,
    };
    let fits = sent.next().is_none() && verify_batch(&tree, digests, path.as_chunks().0).is_ok();
    fits.then_some(answer)
}

fn combination(weights: &[K], values: &[u32], random: &mut Random) {
    let columns = weights.len();
    let mut input = (columns as u16).to_be_bytes().to_vec();
    input.extend(bytes_of(weights));
    input.extend(values.iter().flat_map(|v| v.to_be_bytes()));
    cases(
        "combine",
        &format!("{columns} columns"),
        (&input, 2),
        6,
        random,
        |input| {
            let (weights, values) = input[2..].split_at(16 * columns);
            let weights = elements(weights)?;
            let values: Vec<u32> = values.as_chunks().0.iter().map(|v| u32::from_be_bytes(*v)).collect();
            let sum = |side: usize| {
                let own = values.iter().skip(side).step_by(2).zip(&weights);
                own.fold(K::default(), |sum, (v, w)| sum + *w * BaseField::from(*v))
            };
            values.iter().all(|v| *v < P).then(|| bytes_of(&[sum(0), sum(1)]))
        },
    );
}
