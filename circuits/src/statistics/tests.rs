use super::*;
use crate::chunk::Chunk;
use crate::model::{odd_config, test_params, ChannelShift, Limbs};
use crate::shape::{Cut, Part};

/// A statement of four rows and two output tokens, under parameters of two layers.
fn setting() -> (Shape, ModelParams, Statement) {
    let own = Statement {
        prompt: vec![7, 8, 9],
        output: vec![10, 11],
    };
    let config = odd_config(2);
    (Shape::new(&config, own.lengths()), test_params(&config), own)
}

/// A clipped value of the shape of [`setting`].
fn clip(shape: &Shape, rounded: Rounded, place: &[usize], excess: i32) -> Clip {
    let axes = shape.full_axes(rounded.part);
    assert_eq!(axes.len(), place.len());
    let at = axes.iter().zip(place).fold(0, |at, (log, i)| (at << log) | *i as u64);
    let own = Clip {
        part: rounded.part.index() as u8,
        tensor: rounded.tensor,
        at,
        excess,
    };
    assert_eq!(own.place(&axes), place);
    own
}

/// The list of clipped values is one of entries that exist, each once and in order: there is one list for a trace.
#[test]
fn clipped_values_are_committed_entries_in_order() {
    let (shape, ..) = setting();
    // Five states of eight, and of two layers no third.
    let shape = shape.with_cuts(|_, mut cuts| {
        for first in cuts.iter_mut().take(1) {
            *first = Cut {
                log_lane: 0,
                lanes: [5, 2][usize::from(first.axis == 0 && first.lanes != 5)],
                ..*first
            };
        }
        cuts
    });
    let (_, mut params, statement) = setting();
    params.layers[0].attention.norm.shift = ChannelShift::one(3);
    let with = |clips: &[Clip]| {
        let clips = clips.to_vec();
        Statistics { clips }.check(&shape, &params, &statement)
    };
    let state = |place: [usize; 3]| clip(&shape, Rounded::STATE, &place, 9);
    let norm = |place: [usize; 3]| clip(&shape, Rounded::NORM, &place, -9);
    let product = |place: [usize; 3]| clip(&shape, Rounded::PRODUCT, &place, 1);
    let logit = clip(&shape, Rounded::LOGIT, &[1, 299], 1);
    let (a, b, c, d) = (state([0, 1, 2]), state([0, 1, 3]), norm([0, 0, 0]), product([1, 0, 0]));
    assert_eq!(with(&[a, b, c, d, logit]), Ok(()));
    let misplaced = |index| Err(StatisticsError::ClipPlace { index });
    assert_eq!(with(&[b, a]), misplaced(1), "not ascending");
    assert_eq!(with(&[a, a]), misplaced(1), "repeated");
    assert_eq!(with(&[c, a]), misplaced(1), "a kind after a later one");
    assert_eq!(with(&[a, d, c]), misplaced(2), "a part after a later one");
    let extent = shape.extent(Part::STREAM, 0);
    assert!(extent < 8, "not all states are committed");
    assert_eq!(
        with(&[state([extent - 1, 3, shape.extent(Part::STREAM, 2) - 1])]),
        Ok(()),
        "padding that is committed"
    );
    assert_eq!(
        with(&[a, state([extent, 0, 0])]),
        misplaced(1),
        "beyond what is committed"
    );
    let axes: u32 = shape.full_axes(Part::STREAM).iter().sum();
    let beyond = Clip {
        at: a.at | 1 << axes,
        ..a
    };
    assert_eq!(
        with(&[beyond]),
        misplaced(0),
        "beyond the part, an alias of its first entries"
    );
    let many = vec![a; Statistics::MAX_CLIPS + 1];
    let (got, most) = (Statistics::MAX_CLIPS + 1, 1 << 16);
    assert_eq!(with(&many), Err(StatisticsError::TooManyClips { got, most }));
    assert_eq!(with(&many[1..]), misplaced(1));
}

/// A value of attention is clipped to an end of 15 bits, and any other value to an end of 16. The total shift decides how far beyond its end
/// an entry may be.
#[test]
fn clipped_values_are_at_the_ends_of_their_bits() {
    let (shape, mut params, statement) = setting();
    params.layers[0].attention.v = ChannelShift(vec![6; 6]);
    params.layers[0].attention.att = 7;
    let check = |own: Clip| {
        let clips = vec![own];
        Statistics { clips }.check(&shape, &params, &statement)
    };
    for (rounded, most) in [
        (Rounded::VALUE, 1 << 14),
        (Rounded::ATTENTION, 1 << 15),
        (Rounded::STATE, 1 << 15),
    ] {
        let place = [0; 4];
        let at = |excess| clip(&shape, rounded, &place[..shape.full_axes(rounded.part).len()], excess);
        assert_eq!([at(1), at(-1)].map(|own| own.value()), [most - 1, -most]);
        assert_eq!(rounded.ends(), [-most, most - 1]);
    }
    let value = |excess| check(clip(&shape, Rounded::VALUE, &[0; 4], excess));
    let output = |excess| check(clip(&shape, Rounded::ATTENTION, &[0; 4], excess));
    let beyond = |excess| Err(StatisticsError::ClipRange { index: 0, excess });
    // With a shift of 6, in two limbs, values are below 2^24.
    assert_eq!(shape.limbs.v, Limbs::Two);
    let room = (1 << 24) - (1 << 14);
    assert_eq!([1, -1, room, -room + 1].map(value), [Ok(()); 4]);
    assert_eq!([0, room + 1, -room].map(value), [0, room + 1, -room].map(beyond));
    // With a total shift of 15 no attention output is clipped.
    assert_eq!([1, -1, 9].map(output), [1, -1, 9].map(beyond));
}

/// Every part has so many values that are rounded, and a chunk without head has no logits that could be clipped.
#[test]
fn clipped_values_are_of_roundings_that_there_are() {
    let (shape, params, statement) = setting();
    let with = |clips: &[Clip]| {
        let clips = clips.to_vec();
        Statistics { clips }.check(&shape, &params, &statement)
    };
    let misplaced = |index| Err(StatisticsError::ClipPlace { index });
    for (part, kinds) in [
        (0, 2),
        (1, 0),
        (2, 4),
        (3, 4),
        (4, 1),
        (5, 1),
        (6, 0),
        (7, 1),
        (8, 3),
        (9, 1),
        (10, 0),
        (255, 0),
    ] {
        let of = |tensor| Clip {
            part,
            tensor,
            at: 0,
            excess: 1,
        };
        assert_eq!(with(&[of(kinds)]), misplaced(0), "part {part} has {kinds} kinds");
        assert!(
            // Nothing is clipped with the largest shift of a norm, but its kind is one.
            kinds == 0 || matches!(with(&[of(kinds - 1)]), Ok(()) | Err(StatisticsError::ClipRange { .. })),
            "part {part} has {kinds} kinds"
        );
    }
    let a = clip(&shape, Rounded::STATE, &[0, 1, 2], 9);
    let logit = clip(&shape, Rounded::LOGIT, &[1, 299], 1);
    let headless = Chunk {
        start: 0,
        end: 2,
        of: 3,
    };
    let shape = Shape::of(&odd_config(3), &headless, statement.lengths());
    let own = Statistics { clips: vec![a, logit] };
    assert_eq!(own.check(&shape, &params, &statement), misplaced(1));
}

/// What a clipped value was before stays below 2^30 in the units of its claim: one unit more is refused, and so is
/// nothing at all.
#[test]
fn clipped_values_have_the_range_of_accumulators() {
    let (shape, mut params, statement) = setting();
    params.layers[1].mlp.act.lead = 5;
    params.layers[1].attention.att = 4;
    params.layers[1].attention.o.lead = -2;
    params.layers[1].attention.skip.lead = 2;
    params.layers[0].mlp.norm.shift = ChannelShift::one(5);
    params.norm_final.shift = ChannelShift((0..20).map(|c| if c == 6 { 3 } else { 6 }).collect());
    assert_eq!(params.check(&odd_config(2)), Ok(()));
    // Total shifts of one limb have 8 more than those of two.
    // Padded entries of a head have the shift of the matrix if that is one, and else the smallest.
    params.layers[0].attention.k = ChannelShift(vec![3; 6]);
    params.layers[0].attention.v = ChannelShift(vec![3; 6]);
    let places: [(Rounded, &[usize], u32); 24] = [
        (Rounded::STATE, &[0, 1, 0], 1),
        (Rounded::STATE, &[3, 1, 19], 5),
        (Rounded::STATE, &[3, 0, 19], 3),
        (Rounded::STATE, &[3, 0, 20], 1),
        (Rounded::STATE, &[5, 0, 19], 1),
        (Rounded::NORM, &[5, 0, 6], 8 + 1),
        (Rounded::NORM, &[1, 0, 5], 8 + 5),
        (Rounded::NORM, &[4, 0, 6], 8 + 3),
        (Rounded::NORM, &[4, 0, 7], 8 + 6),
        (Rounded::before(Part::Q, 1), &[1, 0, 2, 1], 3),
        (Rounded::after(Part::Q, 1), &[1, 0, 2, 1], 14),
        (Rounded::before(Part::Q, 0), &[1, 0, 3, 0], 3),
        (Rounded::before(Part::K, 0), &[0, 0, 0, 2], 3),
        (Rounded::before(Part::K, 0), &[0, 0, 0, 3], 1),
        (Rounded::before(Part::K, 0), &[1, 0, 0, 3], 3),
        (Rounded::VALUE, &[0, 0, 0, 2], 3),
        (Rounded::VALUE, &[0, 0, 0, 3], 1),
        (Rounded::VALUE, &[1, 0, 0, 3], 3),
        (Rounded::score(Part::SCORES), &[0, 2, 0, 1, 0], 5),
        (Rounded::ATTENTION, &[1, 3, 1, 0], 8 + 4),
        (Rounded::GATE, &[1, 3, 43], 3),
        (Rounded::PRODUCT, &[1, 0, 0], 8 + 5),
        (Rounded::PRODUCT, &[1, 1, 0], 8 + 3),
        (Rounded::LOGIT, &[0, 299], 4),
    ];
    for (rounded, place, bits) in places {
        let with = |excess| {
            let clips = vec![clip(&shape, rounded, place, excess)];
            Statistics { clips }.check(&shape, &params, &statement)
        };
        let refused = |excess| Err(StatisticsError::ClipRange { index: 0, excess });
        let (most, [low, high]) = (1 << (30 - bits), rounded.ends().map(|end| end as i32));
        for excess in [1, -1, most - 1 - high, 1 - most - low] {
            assert_eq!(with(excess), Ok(()), "{rounded:?} {place:?} {excess}");
        }
        for excess in [0, most - high, -most - low, i32::MAX, i32::MIN] {
            assert_eq!(with(excess), refused(excess), "{rounded:?} {place:?} {excess}");
        }
    }
    // With the largest shift of one limb no value can be clipped.
    let with = |excess| {
        let clips = vec![clip(&shape, Rounded::NORM, &[0, 0, 5], excess)];
        Statistics { clips }.check(&shape, &params, &statement)
    };
    let refused = |excess| Err(StatisticsError::ClipRange { index: 0, excess });
    assert_eq!([1, 2, -1].map(with), [1, 2, -1].map(refused));
}
