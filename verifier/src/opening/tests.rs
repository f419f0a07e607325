use std::ops::Range;

use super::*;
use crate::policy::OpeningPolicy;

fn params(tiles: usize, log_message: u32, log_blowup: u32) -> CommitmentParams {
    CommitmentParams {
        tiles,
        log_message,
        log_blowup,
    }
}

/// Oracles are three folds apart, and the final message is what the last one leaves.
#[test]
fn oracles_are_three_folds_apart() {
    for (log_message, oracles, last) in [
        (12, &[11][..], 8),
        (13, &[12, 9], 6),
        (14, &[13, 10], 7),
        (15, &[14, 11], 8),
        (24, &[23, 20, 17, 14, 11], 8),
    ] {
        let own = params(1, log_message, 2);
        assert!(own.oracles().eq(oracles.iter().copied()), "{log_message}");
        assert_eq!(own.log_final(), last, "{log_message}");
    }
}

/// Columns, leaves and rounds of a commitment of 65 columns of 8 tiles, the last one not full.
#[test]
fn tiles_lie_in_columns() {
    let own = params(64 * 8 + 3, 15, 2);
    assert_eq!((own.log_column_tiles(), own.columns(), own.log_columns()), (3, 65, 7));
    assert_eq!((own.log_tiles(), own.log_codeword(), own.log_leaves()), (10, 17, 16));
    let of = |tiles: Range<usize>| {
        let opened = own.columns_of(&tiles, 0);
        (opened.first, opened.params.tiles, opened.tiles())
    };
    assert_eq!(of(0..1), (0, 8, 0..8));
    assert_eq!(of(7..9), (0, 16, 0..16));
    assert_eq!(of(8..16), (1, 8, 8..16));
    assert_eq!(of(500..515), (62, 19, 496..515));
    // Total, whatever the range.
    assert_eq!(of(600..600), (64, 3, 512..515));
}

/// Bands are not longer than a column, and columns and what is opened of them are made of whole ones.
#[test]
fn columns_are_made_of_bands() {
    let own = params(64 * 8 + 4, 15, 2);
    for (log_band, bands, rounds) in [(0, 496..516, 5), (1, 248..258, 4), (2, 124..129, 3)] {
        let opened = own.columns_of(&(500..516), log_band);
        assert_eq!((opened.check(), opened.log_band), (Ok(()), log_band));
        assert_eq!((opened.bands(), opened.log_bands()), (bands, rounds));
        assert_eq!(opened.log_area(), 12 + log_band);
    }
    for (log_message, expected) in [(12, 0), (13, 1), (14, 2), (15, 2)] {
        let opened = params(8, log_message, 2).columns_of(&(0..8), 2);
        assert_eq!((opened.check(), opened.log_band), (Ok(()), expected));
    }
    let opened = own.columns_of(&(0..8), 2);
    let long = OpenedColumns { log_band: 4, ..opened };
    let mut cut = opened;
    cut.params.tiles = 7;
    for (own, what, value, max) in [
        (long, "log2 of the tiles of a band", 4, 3),
        (cut, "number of tiles beyond the last band", 3, 0),
    ] {
        let min = 0;
        assert_eq!(own.check(), Err(OpeningError::OutOfRange { what, value, min, max }));
    }
}

/// The limits themselves are accepted, and nothing beyond them.
#[test]
fn commitments_and_policies_have_limits() {
    assert_eq!(params(1, 12, 1).check(), Ok(()));
    assert_eq!(params(1 << 24, 24, 4).check(), Ok(()));
    for (own, what, value, min, max) in [
        (params(0, 12, 1), "number of tiles", 0, 1, 1 << 24),
        (
            params((1 << 24) + 1, 12, 1),
            "number of tiles",
            (1 << 24) + 1,
            1,
            1 << 24,
        ),
        (params(1, 11, 1), "log2 of the message length", 11, 12, 24),
        (params(1, 25, 1), "log2 of the message length", 25, 12, 24),
        (params(1, 12, 0), "log2 of the blowup", 0, 1, 4),
        (params(1, 12, 5), "log2 of the blowup", 5, 1, 4),
    ] {
        assert_eq!(own.check(), Err(OpeningError::OutOfRange { what, value, min, max }));
    }
    let policy = |queries, grind_bits| OpeningPolicy { queries, grind_bits }.check();
    assert_eq!((policy(1, 0), policy(4096, 32)), (Ok(()), Ok(())));
    for (queries, grind_bits) in [(0, 20), (4097, 20), (118, 33)] {
        assert_eq!(
            policy(queries, grind_bits),
            Err(OpeningError::Policy { queries, grind_bits })
        );
    }
}
