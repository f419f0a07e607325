//! Reveals of hidden ids (docs/protocol.md, section 17.7).

use std::sync::{Arc, OnceLock};

use stwo::core::fields::m31::BaseField;
use tessera_circuits::ops::ids::Digits;
use tessera_circuits::reveal::RevealedError;
use tessera_circuits::statement::HIDDEN;
use tessera_prover::hiding::{Kept, Rehearsal};
use tessera_prover::reveal::{reveal, reveal_with_secrets, RevealProverError};
use tessera_testkit::reveal_changes;
use tessera_verifier::codec::CodecError;
use tessera_verifier::hiding::most_reveals;
use tessera_verifier::key::ModelKey;
use tessera_verifier::length::most_reveal_bytes;
use tessera_verifier::opening::parts::{line_coordinate, parts_of_mut, Layout as _};
use tessera_verifier::opening::{CommitmentName, TreeName};
use tessera_verifier::reveal::{verify_reveal, Reveal, RevealError, Revealing};
use tessera_verifier::verify::verify_revealed;

use super::equivocation::{basis, solve};
use super::texts::{hiding, BOTH, OUTPUT, PROMPT};
use super::*;

/// A proof that hides ids, with what was kept for reveals.
struct Hidden {
    scene: Scene,
    proof: Proof,
    bytes: Vec<u8>,
    kept: Arc<Kept>,
    /// All ids of the text.
    ids: Vec<u32>,
}

impl Hidden {
    fn new(scene: Scene, ids: HiddenIds, reveals: usize) -> Self {
        let asked = ProofOptions { reveals, ..hiding(ids) };
        let report = scene.prove(asked).expect("a proof");
        let (kept, mut written) = (report.kept.expect("what reveals take"), Vec::new());
        kept.take(|own| own.write(&mut written)).expect("it is written");
        let taken = kept.take(|_| Ok::<_, ()>(())).expect("nothing to fail");
        assert!(taken.is_none(), "it is taken once");
        let kept = Arc::new(Kept::read(&mut written.as_slice()).expect("it is read"));
        Self {
            ids: scene.witness.tokens().collect(),
            scene,
            proof: report.proof,
            bytes: report.bytes,
            kept,
        }
    }

    /// The proof of most tests: it hides the prompt but for its first id, and the output.
    fn small() -> &'static Self {
        static HIDDEN: OnceLock<Hidden> = OnceLock::new();
        HIDDEN.get_or_init(|| Self::new(Scene::new(Suite::default(), odd_config()), BOTH, 2))
    }

    /// The ids at these positions.
    fn at(&self, positions: &[usize]) -> Vec<(usize, u32)> {
        positions.iter().map(|at| (*at, self.ids[*at])).collect()
    }

    /// The positions of hidden ids.
    fn hidden(&self) -> Vec<usize> {
        let shown = self.proof.statement.tokens().enumerate();
        shown.filter(|(_, id)| *id == HIDDEN).map(|(at, _)| at).collect()
    }

    fn key(&self) -> &ModelKey {
        &self.scene.model.key
    }

    fn reveal(&self, ids: Vec<(usize, u32)>) -> Result<Vec<u8>, RevealProverError> {
        reveal(self.key(), &self.proof, &self.bytes, &self.kept, ids)
    }

    /// A reveal that is not checked, whose prover may lie.
    fn unchecked(&self, ids: Vec<(usize, u32)>, rehearsal: Option<Rehearsal>) -> Result<Reveal, RevealProverError> {
        let revealing = Revealing::of(self.key(), &self.proof, &self.bytes, ids).map_err(RevealProverError::Ids)?;
        let secrets = Secrets::draw(revealing.mask.clone(), &TapeKey::of_test(9));
        let secrets = match rehearsal {
            Some(rehearsal) => secrets.rehearsing(rehearsal),
            None => secrets,
        };
        reveal_with_secrets(self.key(), &revealing, &self.kept, &secrets)
    }

    fn verdict(&self, reveal: &Reveal) -> Result<(), RevealError> {
        let bytes = reveal.to_bytes().expect("it encodes");
        verify_reveal(self.key(), &self.proof, &self.bytes, &bytes).map(|_| ())
    }
}

fn is_fold(verdict: &Result<(), RevealError>) -> bool {
    matches!(verdict, Err(RevealError::Opening(OpeningError::FoldClaim)))
}

/// Ids of prompt and output are revealed in several steps, under keys of both suites, for decoders of several kinds and for the text of an encoder; ids
/// that are not revealed stay hidden.
#[test]
fn hidden_ids_are_revealed_later() {
    let odd = || Scene::new(Suite::default(), odd_config());
    for (scene, ids) in [
        (odd(), BOTH),
        (odd(), OUTPUT),
        (odd(), PROMPT),
        (Scene::new(Suite::Keccak, odd_config()), BOTH),
        (Scene::new(Suite::default(), windowed_config(3, [0, 2])), BOTH),
        (Scene::new(Suite::default(), encoder_config(Pooling::Mean)), PROMPT),
    ] {
        let own = Hidden::new(scene, ids, 2);
        let hidden = own.hidden();
        let (first, rest) = hidden.split_at(hidden.len() / 2);
        let reveals = [first, rest].map(|positions| own.reveal(own.at(positions)).expect("a reveal"));
        let key = own.key();
        let verify = |reveals: &[&[u8]]| verify_revealed(key, &own.bytes, reveals).expect("an honest reveal");

        let nothing = verify(&[]);
        assert_eq!(nothing.statement, own.proof.statement);
        let some = verify(&[&reveals[0]]);
        assert_eq!(some.revealed, first);
        for (at, id) in some.statement.tokens().enumerate() {
            let expected = if rest.contains(&at) { HIDDEN } else { own.ids[at] };
            assert_eq!(id, expected, "position {at}");
        }
        // In any order, and twice.
        let all = verify(&[&reveals[1], &reveals[0], &reveals[1]]);
        assert_eq!(all.revealed, hidden);
        assert_eq!(all.statement, own.scene.witness);
        assert!(all.security_bits < some.security_bits && some.security_bits < nothing.security_bits);
        assert!(nothing.security_bits - all.security_bits < 2.0);
        assert!(reveals.iter().all(|own| own.len() <= most_reveal_bytes(key)));
    }
}

/// No other id can be revealed: not one with another digit, nor another last one, nor that of another position.
#[test]
fn no_other_id_is_revealed() {
    let own = Hidden::small();
    let vocab = own.key().config.vocab;
    let log = Digits::of(vocab).log;
    let hidden = own.hidden();
    let (first, last) = (hidden[0], hidden[hidden.len() - 1]);
    assert_eq!(last, own.ids.len() - 1, "the last id is in no row");
    assert!(!is_fold(
        &own.verdict(&own.unchecked(own.at(&hidden), None).expect("a reveal"))
    ));
    let other = |id: u32, by: u32| (id + by) % vocab as u32;
    let lies: Vec<Vec<(usize, u32)>> = vec![
        vec![(first, other(own.ids[first], 1))],
        vec![(first, other(own.ids[first], 1 << log))],
        vec![(first, own.ids[first] ^ 1), (hidden[1], own.ids[hidden[1]])],
        vec![(last, other(own.ids[last], 1))],
        vec![(first, own.ids[first]), (last, other(own.ids[last], 1 << log))],
    ];
    for lie in lies {
        assert!(lie.iter().any(|(at, id)| own.ids[*at] != *id), "{lie:?} is true");
        let verdict = own.verdict(&own.unchecked(lie.clone(), None).expect("a reveal"));
        assert!(is_fold(&verdict), "{lie:?}: {verdict:?}");
        // The prover does not give it away either.
        assert!(matches!(own.reveal(lie), Err(RevealProverError::Check(_))));
    }
    // Two ids whose places are changed: the sum of the claims is the same, but each has a power of its own.
    let (a, b) = (hidden[0], hidden[1]);
    assert_ne!(own.ids[a], own.ids[b]);
    let crossed = vec![(a, own.ids[b]), (b, own.ids[a])];
    assert!(is_fold(&own.verdict(&own.unchecked(crossed, None).expect("a reveal"))));
}

/// Positions that are shown, that do not ascend, or that are behind the text, and ids that no token has, are refused by name, as is a proof that hides no ids.
#[test]
fn positions_are_those_of_hidden_ids() {
    let own = Hidden::small();
    let hidden = own.hidden();
    let tokens = own.ids.len();
    let refusal = |ids: Vec<(usize, u32)>| match own.reveal(ids) {
        Err(RevealProverError::Ids(RevealError::Ids(error))) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(vec![]), RevealedError::Nothing);
    assert_eq!(refusal(own.at(&[0])), RevealedError::NotHidden { position: 0 });
    let (first, second) = (hidden[0], hidden[1]);
    for (before, position) in [(second, first), (first, first)] {
        assert_eq!(
            refusal(own.at(&[before, position])),
            RevealedError::Order { position, before }
        );
    }
    let position = tokens;
    assert_eq!(
        refusal(vec![(position, 0)]),
        RevealedError::Position { position, tokens }
    );
    let vocab = own.key().config.vocab;
    for id in [vocab as u32, HIDDEN] {
        let position = first;
        let expected = RevealedError::Vocabulary { id, position, vocab };
        assert_eq!(refusal(vec![(position, id)]), expected);
    }
    let activations = Scene::small().prove(HIDING).expect("a proof");
    assert!(activations.kept.is_none());
    let key = &Scene::small().model.key;
    let refused = reveal(key, &activations.proof, &activations.bytes, &own.kept, own.at(&[first]));
    assert!(matches!(
        refused,
        Err(RevealProverError::Ids(RevealError::NothingHidden))
    ));
}

/// A reveal is about one proof, even if another one is of the same statement, and takes what was kept of that one.
#[test]
fn a_reveal_is_of_one_proof() {
    let own = Hidden::small();
    let other = Hidden::new(Scene::new(Suite::default(), odd_config()), BOTH, 2);
    assert_eq!(other.proof.statement, own.proof.statement);
    let ids = own.at(&own.hidden());
    let reveal = own.unchecked(ids.clone(), None).expect("a reveal");
    own.verdict(&reveal).expect("an honest reveal");
    assert!(matches!(other.verdict(&reveal), Err(RevealError::OtherProof)));
    // Not even if it says that it is about the other one.
    let digest = other.unchecked(ids.clone(), None).expect("a reveal").proof;
    let moved = Reveal {
        proof: digest,
        ..reveal
    };
    let error = other.verdict(&moved).expect_err("a reveal of another commitment");
    assert!(!matches!(error, RevealError::OtherProof), "{error}");
    let kept = Hidden {
        kept: Arc::clone(&own.kept),
        ..other
    };
    assert!(matches!(kept.reveal(ids), Err(RevealProverError::OtherActivations)));
}

/// Whoever changes a message of a reveal is refused, and so is whoever adds to a message or leaves something out.
#[test]
fn nothing_of_a_reveal_can_be_changed() {
    let own = Hidden::small();
    let honest = own.unchecked(own.at(&own.hidden()), None).expect("a reveal");
    own.verdict(&honest).expect("an honest reveal");
    for (name, changed) in reveal_changes(&honest) {
        assert!(own.verdict(&changed).is_err(), "{name}");
    }
    let bytes = honest.to_bytes().expect("it encodes");
    let refused = |bytes: &[u8]| verify_reveal(own.key(), &own.proof, &own.bytes, bytes).expect_err("a changed reveal");
    let mut random = SplitMix(3);
    for _ in 0..300 {
        let mut other = bytes.clone();
        let at = random.below(other.len() as u64) as usize;
        other[at] ^= 1 << random.below(8);
        refused(&other);
    }
    let error = refused(&[&bytes[..], &[0]].concat());
    assert!(
        matches!(error, RevealError::Malformed(CodecError::TrailingBytes { .. })),
        "{error}"
    );
    let error = refused(&vec![0; most_reveal_bytes(own.key()) + 1]);
    assert!(matches!(error, RevealError::TooLong { .. }), "{error}");
    let error = refused(&own.bytes);
    assert!(
        matches!(error, RevealError::Malformed(CodecError::Magic { .. })),
        "{error}"
    );
}

/// A lie under any pad of a reveal is refused.
#[test]
fn no_message_of_a_reveal_is_a_lie() {
    let own = Hidden::small();
    let ids = own.at(&own.hidden());
    let revealing = Revealing::of(own.key(), &own.proof, &own.bytes, ids.clone()).expect("ids that are hidden");
    let tape = &revealing.mask.tape;
    assert_eq!(tape.messages, tape.cross, "no products");
    for entry in tape.unused..tape.entries {
        let rehearsal = Rehearsal {
            lies: vec![(entry, K::from(7))],
            ..Rehearsal::default()
        };
        let verdict = own.verdict(&own.unchecked(ids.clone(), Some(rehearsal)).expect("a reveal"));
        assert!(is_fold(&verdict), "pad {entry}: {verdict:?}");
    }
}

/// The root of the mask comes before the challenge of the claims; a reveal whose row is not of this root is refused.
#[test]
fn rows_of_the_mask_are_those_of_its_root() {
    let own = Hidden::small();
    let ids = own.at(&own.hidden());
    let [first, mut second] = [own.reveal(ids.clone()), own.reveal(ids)]
        .map(|bytes| Reveal::from_bytes(&bytes.expect("a reveal")).expect("a reveal"));
    assert_ne!(first.mask, second.mask);
    parts_of_mut(&mut second.opening).codes[1] = parts_of(&first.opening).codes[1].clone();
    let verdict = own.verdict(&second).expect_err("rows of another mask");
    assert!(matches!(verdict, RevealError::Opening(_)), "{verdict}");
    let tree = TreeName::Committed(CommitmentName::Mask);
    let mut third = first.clone();
    let rows = &mut parts_of_mut(&mut third.opening).codes[1].rows;
    *rows.values.last_mut().expect("rows") += BaseField::from(1);
    let verdict = own.verdict(&third).expect_err("another row");
    assert!(
        matches!(verdict, RevealError::Opening(OpeningError::Root { tree: got }) if got == tree),
        "{verdict}"
    );
}

/// Two reveals of the same ids have no message in common, and neither has one in common with the proof.
#[test]
fn reveals_have_masks_of_their_own() {
    let own = Hidden::small();
    let ids = own.at(&own.hidden());
    let [first, second] = [0, 1].map(|_| {
        let bytes = own.reveal(ids.clone()).expect("a reveal");
        let reveal = Reveal::from_bytes(&bytes).expect("a reveal");
        let mut all: Vec<K> = reveal.linear.rounds.as_flattened().to_vec();
        all.extend(opening_elements(&reveal.opening));
        all.extend(reveal.tape.values);
        all
    });
    assert_eq!(first.len(), second.len());
    assert!(first.iter().zip(&second).all(|(a, b)| a != b && *a != K::default()));
}

/// A proof leaves room for as many reveals as blind units and the tape allow, and says for how many: the entries of the tape that are never used are as many as
/// all openings show.
#[test]
fn a_proof_leaves_room_for_so_many_reveals() {
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&BOTH);
    let key = &scene.model.key;
    let queries = key.weights.queries();
    let most = most_reveals(&key.weights);
    assert!((1 + most) * 2 * queries <= 4_095 && (2 + most) * 2 * queries > 4_095);
    let lengths = scene.statement.lengths();
    assert!(hidden_security_bits(key, lengths, most).is_some());
    assert!(hidden_security_bits(key, lengths, most + 1).is_none());
    let hiding = |reveals| ProofOptions {
        reveals,
        ..hiding(BOTH)
    };
    let refused = scene.prove(hiding(most + 1)).expect_err("too many reveals");
    let ProveError::Hiding(VerifyError::MostReveals { got, most: said }) = refused else {
        panic!("{refused}");
    };
    assert_eq!((got, said), (most + 1, most));
    for reveals in [0, 1, most] {
        let report = scene.prove(hiding(reveals)).expect("a proof");
        assert_eq!(report.kept.is_some(), reveals > 0);
        let verified = verify_bytes(key, &report.bytes).expect("an honest proof");
        assert_eq!(verified.security_bits, report.security_bits);
        let code = scene.claimed(|claim| hidden_code(claim, LeafLimits::OF_STATEMENTS, reveals).expect("a code"));
        assert_eq!(code.tape.unused, (1 + reveals) * queries + 2);
        // A proof that says another number is another proof.
        let mut other = report.proof.clone();
        let own = other.hidden.as_mut().expect("a hidden proof");
        own.reveals = if reveals == most { 0 } else { most as u32 };
        let error = scene
            .verdict(&reworked(key, other))
            .expect_err("another number of reveals");
        assert!(matches!(error, VerifyError::Opening(_)), "{error}");
        let mut other = report.proof;
        other.hidden.as_mut().expect("a hidden proof").reveals = most as u32 + 1;
        let error = scene.verdict(&other).expect_err("too many reveals");
        assert!(matches!(error, VerifyError::MostReveals { .. }), "{error}");
    }
}

/// The unused entries of a tape make everything uniform that all openings show of it: its values at the positions of each, and one sum more. With one entry
/// fewer than that they do not, and neither do the entries of a proof without room for reveals.
#[test]
fn unused_entries_hide_the_tape_in_all_openings() {
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&BOTH);
    let reveals = 2;
    let code = |reveals| scene.claimed(|claim| hidden_code(claim, LeafLimits::OF_STATEMENTS, reveals).expect("a code"));
    let own = code(reveals);
    let queries = own.params.queries();
    let (log, shown) = (own.params.log_leaves(), (1 + reveals) * queries + 1);
    let mut random = SplitMix(5);
    let mut leaves: Vec<usize> = Vec::new();
    while leaves.len() < shown - 1 {
        let leaf = random.below(1 << log) as usize;
        if !leaves.contains(&leaf) {
            leaves.push(leaf);
        }
    }
    let mut uniform = |unused: usize| {
        let mut sum = || K::from_u32_unchecked(random.below(1 << 30) as u32, random.below(1 << 30) as u32, 3, 4);
        let weighed: Vec<K> = (0..unused).map(|_| sum()).collect();
        let values = leaves.iter().map(|leaf| basis(line_coordinate(log, *leaf), unused));
        let values = values.map(|row| row.into_iter().map(K::from).collect::<Vec<K>>());
        // Whatever should be shown, there are entries for it.
        let wanted = (1u32..).map(|at| K::from(at * at));
        let equations = values.chain([weighed]).zip(wanted).collect();
        solve(equations, unused).is_some()
    };
    assert!(uniform(own.tape.unused));
    assert!(uniform(shown) && !uniform(shown - 1));
    assert!(!uniform(code(0).tape.unused));
}
