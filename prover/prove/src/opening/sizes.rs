//! How long the columns of a commitment are. Whoever sets a model up chooses; a verifier takes what the key says.

use tessera_verifier::opening::parts::{Layout, OpeningPolicy, FIBRE, FOLD_LOG, MAX_MESSAGE_LOG, TILE_AREA_LOG};
use tessera_verifier::opening::CommitmentParams;

/// Number of weights of a tile.
pub const TILE_AREA: usize = 1 << TILE_AREA_LOG;

/// Messages that are no longer than this are as long as is best for the proof.
const LONG_MESSAGE_LOG: u32 = 20;
/// Up to this many tiles, rate 1/8 is taken.
const TINY_TILES: usize = 1 << 10;
/// Up to this many tiles, rate 1/4 is taken.
const SMALL_TILES: usize = 1 << 13;

/// The parameters of a model of `tiles` tiles. The lower the rate, the fewer queries and the longer the codewords, those of
/// the activations too: rate 1/8 for tiny models, whose proofs are mostly what queries open, 1/4 for small ones, and 1/2 for
/// large ones.
pub fn params_for(tiles: usize) -> CommitmentParams {
    let log_blowup = match tiles {
        n if n <= TINY_TILES => 3,
        n if n <= SMALL_TILES => 2,
        _ => 1,
    };
    params_at_rate(tiles, log_blowup)
}

/// The parameters for `tiles` tiles at rate `2^-log_blowup`: those with the smallest proof under the verifier's policy, or
/// a shorter message as long as the proof is at most an eighth larger. The prover's time and memory for an opening grow
/// with the message, which matters beyond `2^20` weights.
pub fn params_at_rate(tiles: usize, log_blowup: u32) -> CommitmentParams {
    let of = |log_message| CommitmentParams {
        tiles,
        log_message,
        log_blowup,
    };
    let queries = OpeningPolicy::at_rate(log_blowup).queries;
    let bytes = |log_message: u32| proof_bytes(&of(log_message), queries);
    let mut log_message = TILE_AREA_LOG;
    for next in TILE_AREA_LOG + 1..=MAX_MESSAGE_LOG {
        if bytes(next) < bytes(log_message) {
            log_message = next;
        }
    }
    let most = bytes(log_message) / 8 * 9;
    while log_message > LONG_MESSAGE_LOG && bytes(log_message - 1) <= most {
        log_message -= 1;
    }
    of(log_message)
}

/// About how many bytes an opening with so many queries has, but for the rows of the activations, which nobody knows yet.
pub fn proof_bytes(params: &CommitmentParams, queries: usize) -> usize {
    let path = |depth: u32| {
        let opened = queries.min(1 << depth).max(1);
        32 * opened * depth.saturating_sub(opened.ilog2()) as usize
    };
    let rows = queries * params.columns() * FIBRE * 4 + path(params.log_leaves());
    let folded: usize = params
        .oracles()
        .map(|variables| queries * ((1 << FOLD_LOG) - 1) * 16 + path(variables + params.log_blowup - FOLD_LOG))
        .sum();
    rows + folded + (16 << params.log_final())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(tiles: usize, log_message: u32, log_blowup: u32) -> CommitmentParams {
        CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        }
    }

    /// The estimate, worked out by hand: leaves and paths of the weight tree and of an oracle, and the final message. Of a path, the levels that
    /// all queries share are left out.
    #[test]
    fn sizes_are_estimated() {
        let path = |queries: usize, levels: usize| 32 * queries * levels;
        let rows = 118 * 2 * 4 + path(118, 13 - 6);
        let oracles = 118 * 7 * 16 + path(118, 10 - 6) + 16 * 256;
        assert_eq!(proof_bytes(&params(1, 12, 2), 118), rows + oracles);
        // Nine columns; a tree of 2^7 leaves is opened as a whole.
        let rows = 1000 * 9 * 2 * 4 + path(1000, 13 - 9);
        let oracles = 1000 * 7 * 16 + path(1000, 10 - 9) + 16 * 256;
        assert_eq!(proof_bytes(&params(9, 12, 2), 1000), rows + oracles);
    }

    /// A commitment has the message length with the smallest proof, or beyond 2^20 the shortest one whose proof is at most an
    /// eighth larger; rate 1/4 from 2^10 tiles on, and rate 1/2 from 2^13.
    #[test]
    fn commitments_have_small_proofs_and_short_messages() {
        for tiles in [
            1,
            24,
            224,
            1 << 10,
            (1 << 10) + 1,
            1 << 13,
            (1 << 13) + 1,
            39_744,
            108_000,
            268_600,
            1 << 24,
        ] {
            let own = params_for(tiles);
            let log_blowup = 1 + u32::from(tiles <= 1 << 13) + u32::from(tiles <= 1 << 10);
            assert_eq!(own.log_blowup, log_blowup);
            assert_eq!((own.tiles, own.check()), (tiles, Ok(())));
            let queries = OpeningPolicy::at_rate(own.log_blowup).queries;
            let bytes = |log| proof_bytes(&params(tiles, log, own.log_blowup), queries);
            let smallest = (12..=24).min_by_key(|log| bytes(*log)).unwrap();
            let short = |log: &u32| bytes(*log) <= bytes(smallest) / 8 * 9;
            let expected = match smallest {
                0..=20 => smallest,
                _ => (20..=smallest).find(short).unwrap(),
            };
            assert_eq!(own.log_message, expected, "{tiles}");
        }
        let long = [39_744, 50_000, 108_000, 134_000, 268_600, 1_700_000];
        let long = long.map(|tiles| params_for(tiles).log_message);
        assert_eq!(long, [21, 21, 22, 23, 23, 24]);
        assert_eq!(params_for(224).log_message, 15);
    }
}
