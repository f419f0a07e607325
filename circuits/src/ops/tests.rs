use super::*;
use crate::claims::PLACES;
use crate::model::{
    odd_config, test_params, Blocks, ChannelShift, Mask, Output, Pooling, ScoreCap, Windows, MAX_CONTEXT, MAX_HEAD_DIM,
    MAX_VOCAB,
};
use crate::rounding::{shift_at, Rounded};
use crate::shape::Product;

/// Section 4 of the document: the parts in commitment order.
const PARTS: [Part; 14] = [
    Part::STREAM,
    Part::NORMS,
    Part::Q,
    Part::K,
    Part::V,
    Part::SCORES,
    Part::SOFTMAX,
    Part::ATT,
    Part::FF,
    Part::LOGITS,
    Part::Q_NORMS,
    Part::K_NORMS,
    Part::TOPS,
    Part::WINDOWED,
];

#[test]
fn only_what_a_model_does_not_have_is_missing() {
    let norms = [Part::Q_NORMS, Part::K_NORMS];
    for head_norms in [false, true] {
        let config = ModelConfig {
            head_norms,
            ..odd_config(2)
        };
        for chunk in Chunk::partition([1, 1], 2).expect("two chunks") {
            let shape = Shape::of(&config, &chunk, 4);
            let outputs = [Part::LOGITS, Part::TOPS];
            let missing = |part: &Part| {
                norms.contains(part) && !head_norms
                    || outputs.contains(part) && !chunk.is_last()
                    || *part == Part::WINDOWED
            };
            let expected: Vec<Part> = PARTS.into_iter().filter(|part| !missing(part)).collect();
            assert_eq!(shape.parts(), expected);
            assert!(shape.by_part(Some).into_iter().flatten().eq(expected));
        }
    }
}

/// Clipped values are listed by number, and columns are committed by it.
#[test]
fn every_part_has_a_number_of_its_own() {
    let numbers = PARTS.map(Part::index);
    assert_eq!(numbers, std::array::from_fn(|at| at));
    let operators = operators::<SecureField>().into_iter();
    let sizes = Sizes::new(
        &ModelConfig {
            head_norms: true,
            blocks: Blocks {
                mask: Mask::Windows(Windows::new(3, [1])),
                ..Blocks::DECODER
            },
            ..odd_config(2)
        },
        LimbSet::all(Limbs::Two),
        &Chunk::whole(2),
        4,
    );
    let parts = operators
        .flat_map(|operator| operator.parts(&sizes))
        .map(|rows| rows.part);
    let mut parts: Vec<Part> = parts.collect();
    parts.sort_unstable();
    assert_eq!(parts, PARTS);
}

/// Section 4 of the document: committed columns and lookups of a lane, of accumulators in two limbs and in one.
#[test]
fn lanes_have_the_columns_of_the_document() {
    let (config, whole) = (odd_config(2), Chunk::whole(2));
    let expected = [
        (
            Limbs::Two,
            [
                (9, 6),
                (30, 33),
                (14, 12),
                (16, 12),
                (5, 4),
                (12, 9),
                (11, 11),
                (3, 2),
                (14, 10),
                (5, 4),
            ],
        ),
        (
            Limbs::One,
            [
                (8, 6),
                (30, 33),
                (8, 8),
                (10, 8),
                (2, 2),
                (12, 9),
                (11, 11),
                (3, 2),
                (8, 6),
                (2, 2),
            ],
        ),
    ];
    for (limbs, expected) in expected {
        let shape = Shape::with_limbs(&config, LimbSet::all(limbs), &whole, 4);
        for (part, (columns, lookups)) in PARTS.into_iter().zip(expected) {
            let air = shape.lane_air(part);
            let own = (air.committed(), air.lookups.len());
            assert_eq!(own, (columns, lookups), "{part:?}, {limbs:?}");
        }
        let tops = shape.lane_air(Part::TOPS);
        assert_eq!((tops.committed(), tops.lookups.len()), (1, 2));
    }
}

/// Section 16.11: where heads are normed, queries and keys have four columns more in each half, and there are rows of norms.
#[test]
fn normed_heads_have_the_columns_of_the_document() {
    let (plain, whole) = (odd_config(2), Chunk::whole(2));
    let normed = ModelConfig {
        head_norms: true,
        ..plain.clone()
    };
    for limbs in [Limbs::One, Limbs::Two] {
        let of = |config: &ModelConfig, part| {
            let shape = Shape::with_limbs(config, LimbSet::all(limbs), &whole, 4);
            let air = shape.lane_air(part);
            [air.committed(), air.lookups.len()]
        };
        for part in [Part::Q, Part::K] {
            let [columns, lookups] = of(&plain, part);
            assert_eq!(of(&normed, part), [columns + 6, lookups + 4], "{part:?}");
        }
        for part in [Part::Q_NORMS, Part::K_NORMS] {
            assert_eq!(of(&normed, part), [30, 33], "{part:?}");
        }
        assert_eq!(of(&normed, Part::V), of(&plain, Part::V));
    }
}

/// A key may have any architecture, and its sizes are computed before it is refused: on a host of 32 bits, too.
#[test]
fn sizes_of_the_largest_architecture_fit_in_32_bits() {
    let config = ModelConfig {
        hidden: 1 << 14,
        layers: 1 << 10,
        heads: 1 << 8,
        kv_heads: 1 << 8,
        head_dim: MAX_HEAD_DIM,
        ff: 1 << 16,
        vocab: MAX_VOCAB,
        context: MAX_CONTEXT,
        ..odd_config(1)
    };
    assert_eq!(config.check(), Ok(()));
    assert_eq!(u32::try_from(config.total_tiles()), Ok(1_883_242_496));
    for chunk in Chunk::partition([1, 1023], 1024)
        .into_iter()
        .flatten()
        .chain([Chunk::whole(1024)])
    {
        let shape = Shape::of(&config, &chunk, MAX_CONTEXT);
        // No text of such a model can be proved: the sums that say so are of 128 bits.
        assert!(shape.fractions() > 1 << 31 && shape.cells() > 1 << 36, "{chunk:?}");
        assert!(shape
            .parts()
            .iter()
            .all(|part| u32::try_from(shape.columns(*part)).is_ok()));
    }
}

/// The normed state is committed in limbs if one of its matmuls wants them: every matmul can read it then.
#[test]
fn the_normed_state_has_the_limbs_of_its_matmuls() {
    let (config, whole) = (odd_config(2), Chunk::whole(2));
    let one = LimbSet::all(Limbs::One);
    let normed = |limbs| Shape::with_limbs(&config, limbs, &whole, 4).normed();
    assert_eq!(normed(one), Limbs::One);
    let changes: [fn(&mut LimbSet); 6] = [
        |set| set.q = Limbs::Two,
        |set| set.k = Limbs::Two,
        |set| set.v = Limbs::Two,
        |set| set.gate = Limbs::Two,
        |set| set.up = Limbs::Two,
        |set| set.head = Limbs::Two,
    ];
    for change in changes {
        let mut set = one;
        change(&mut set);
        assert_eq!(normed(set), Limbs::Two, "{set:?}");
    }
}

/// Factors are listed by number, and families of weights are counted by it.
#[test]
fn every_product_has_a_number_of_its_own() {
    for head_norms in [false, true] {
        let config = ModelConfig {
            head_norms,
            ..odd_config(2)
        };
        for chunk in Chunk::partition([1, 1], 2).expect("two chunks") {
            let shape = Shape::of(&config, &chunk, 4);
            let numbers = shape.products().iter().map(|own| own.product.index());
            assert!(numbers.eq(0..PLACES));
            let weighted = [
                Product::NORM,
                Product::ATT,
                Product::FF,
                Product::EMBED,
                Product::HEAD,
                Product::NORM_LIMBS,
            ];
            assert!(shape.weighted().eq(weighted));
        }
    }
}

/// Every matmul has one place, in a product of weights that the chunk has.
#[test]
fn every_matmul_belongs_to_one_product() {
    let config = odd_config(2);
    for limbs in [Limbs::One, Limbs::Two] {
        let shape = Shape::with_limbs(&config, LimbSet::all(limbs), &Chunk::whole(2), 4);
        for m in shape.matmuls() {
            let places = shape.products().iter().filter_map(|own| {
                let place = own.weights?(&shape, m.id)?;
                Some((own.product, place))
            });
            let places: Vec<_> = places.collect();
            assert_eq!(places.len(), 1, "{:?}", m.id);
            assert_eq!(shape.product_of(m.id), Some(places[0]));
            assert!(places[0].0.exists(&shape));
        }
    }
}

/// All accumulators are added up, each kind times a power of one challenge: section 5 has up to the 27th, each once.
#[test]
fn no_two_kinds_of_accumulators_share_a_power() {
    for (blocks, head_norms, last) in [
        (Blocks::DECODER, false, 17),
        (Blocks::DECODER, true, 25),
        (
            Blocks {
                norm_outputs: true,
                ..Blocks::DECODER
            },
            true,
            27,
        ),
    ] {
        let config = ModelConfig {
            head_norms,
            blocks,
            ..odd_config(2)
        };
        let sizes = Sizes::new(&config, LimbSet::all(Limbs::Two), &Chunk::whole(2), 4);
        let operators = operators::<SecureField>().into_iter();
        let mut numbers: Vec<usize> = operators.flat_map(|operator| operator.numbers(&sizes)).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..=last));
        assert_eq!(sizes.last_number(), last);
    }
}

/// A hostile key may have weights in padded channels, which no sum of squares has. With a total shift of 15 a residue of theirs would have
/// two readings (security.md, lemma 25); they have the least one, whatever the list says.
#[test]
fn padded_channels_of_norms_have_the_least_shift() {
    let config = odd_config(2);
    let shape = Shape::new(&config, 4);
    let padded = 1 << shape.padded.hidden;
    assert!(config.hidden < padded);
    for list in [vec![7], vec![7; config.hidden]] {
        let mut params = test_params(&config);
        for layer in &mut params.layers {
            (layer.attention.norm.shift, layer.mlp.norm.shift) =
                (ChannelShift(list.clone()), ChannelShift(list.clone()));
        }
        params.norm_final.shift = ChannelShift(list);
        for state in 0..shape.states() {
            let total = |channel| shift_at(&shape, &params, Rounded::NORM, &[state, 1, channel], 1);
            assert!((0..config.hidden).all(|channel| total(channel) == 15));
            assert!((config.hidden..padded).all(|channel| total(channel) == 9));
        }
    }
}

/// The relations of a model are those of its lookups, in every chunk: a lookup in another one would have no challenge, and a relation
/// without a lookup would be a table for nothing.
#[test]
fn relations_are_those_of_all_lookups() {
    let plain = odd_config(3);
    let capped = Blocks {
        norm_outputs: true,
        score_cap: Some(ScoreCap { units: 256 }),
        ..Blocks::DECODER
    };
    let encoder = Blocks::encoder(Output::Vector(Pooling::Mean));
    for blocks in [Blocks::DECODER, capped, encoder] {
        for (gated, head_norms) in [(true, false), (false, false), (true, true)] {
            let config = ModelConfig {
                blocks,
                gated,
                head_norms,
                ..plain.clone()
            };
            let expected = &Relation::ALL[..5 + usize::from(blocks.score_cap.is_some())];
            let parts = Chunk::partition([1, 2], 3).unwrap();
            for chunk in parts.into_iter().chain([Chunk::whole(3)]) {
                let shape = Shape::of(&config, &chunk, Lengths::new(5, 1));
                let parts = shape.parts().iter();
                let used = parts.flat_map(|part| shape.air(*part).lookups.into_iter().map(|own| own.relation));
                let used: Vec<_> = used.collect::<BTreeSet<_>>().into_iter().collect();
                assert_eq!(used, config.relations(), "{blocks}, {chunk:?}");
                assert_eq!(used, expected, "{blocks}, {chunk:?}");
            }
            assert_eq!(config.relations().contains(&Relation::Cap), blocks.score_cap.is_some());
        }
    }
}
