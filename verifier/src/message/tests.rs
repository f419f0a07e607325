//! Both sides of a conversation are in the same state, whatever is said, and nothing is heard that does not change it.

use num_traits::One;
use proptest::collection::vec;
use proptest::prelude::*;
use stwo::core::fields::m31::P;

use super::*;

/// A message of every form.
#[derive(Clone, Debug)]
enum Said {
    Value(K),
    Round([K; 2]),
    Operands(Vec<[K; 2]>),
    List(Vec<K>),
    Root(Digest),
    Clips(Vec<Clip>),
    /// With the challenge that answers it.
    Exchange([K; 4]),
    Work(u64),
}

const NOTHING: Work = Work { label: "work", bits: 0 };
const EXCHANGE: Exchange = Exchange("message", "challenge");

impl Said {
    fn send(&self, t: &mut Transcript) -> Option<K> {
        match self {
            Self::Value(own) => t.send("value", own),
            Self::Round(own) => t.send("round", own),
            Self::Operands(own) => t.send("operands", own.as_slice()),
            Self::List(own) => t.send("list", own.as_slice()),
            Self::Root(own) => t.send("root", own),
            Self::Clips(own) => t.send("clips", own.as_slice()),
            Self::Exchange(own) => return Some(EXCHANGE.send(own, t)),
            Self::Work(nonce) => assert!(t.work(NOTHING, *nonce)),
        }
        None
    }

    /// Receives it, and says whether that is what was sent.
    fn receive(&self, t: &mut Transcript) -> Result<(bool, Option<K>), NotCanonical> {
        let same = match self {
            Self::Value(own) => t.receive("value", Unread::of(own))? == own,
            Self::Round(own) => t.receive("round", Unread::of(own))? == own,
            Self::Operands(own) => t.receive("operands", Unread::of(own).of_any_length())? == own,
            Self::List(own) => t.receive("list", Unread::of(own).of_any_length())? == own,
            Self::Root(own) => t.receive("root", Unread::of(own))? == own,
            Self::Clips(own) => t.receive("clips", Unread::of(own).of_any_length())? == own,
            Self::Exchange(own) => {
                let (message, challenge) = EXCHANGE.receive(Unread::of(own), t)?;
                return Ok((message == *own, Some(challenge)));
            }
            Self::Work(nonce) => t.receive_work(NOTHING, Unread::of(nonce)).is_ok(),
        };
        Ok((same, None))
    }

    /// The same with one number changed.
    fn altered(&self) -> Self {
        let mut other = self.clone();
        match &mut other {
            Self::Value(own) | Self::Round([_, own]) | Self::Exchange([.., own]) => *own += K::one(),
            Self::Operands(own) => own.push([K::default(); 2]),
            Self::List(own) => own.push(K::default()),
            Self::Root(own) => own[31] ^= 1,
            Self::Clips(own) => own.iter_mut().for_each(|clip| clip.at ^= 1 << 63),
            Self::Work(nonce) => *nonce ^= 1 << 63,
        }
        other
    }
}

fn value() -> impl Strategy<Value = K> {
    [0..P, 0..P, 0..P, 0..P].prop_map(|[a, b, c, d]| K::from_u32_unchecked(a, b, c, d))
}

fn clip() -> impl Strategy<Value = Clip> {
    (any::<u8>(), any::<u8>(), any::<u64>(), any::<i32>()).prop_map(|(part, tensor, at, excess)| Clip {
        part,
        tensor,
        at,
        excess,
    })
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        value().prop_map(Said::Value),
        [value(), value()].prop_map(Said::Round),
        vec([value(), value()], 0..5).prop_map(Said::Operands),
        vec(value(), 0..9).prop_map(Said::List),
        any::<Digest>().prop_map(Said::Root),
        vec(clip(), 1..5).prop_map(Said::Clips),
        [value(), value(), value(), value()].prop_map(Said::Exchange),
        any::<u64>().prop_map(Said::Work),
    ]
}

proptest! {
    #[test]
    fn what_is_sent_and_what_is_received_give_the_same_challenges(all in vec(said(), 1..12)) {
        let (mut prover, mut verifier) = (Transcript::new("test"), Transcript::new("test"));
        for own in &all {
            let sent = own.send(&mut prover);
            prop_assert_eq!(own.receive(&mut verifier), Ok((true, sent)));
            prop_assert_eq!(prover.channel().digest(), verifier.channel().digest());
        }
        prop_assert_eq!(prover.challenge("next"), verifier.challenge("next"));
    }

    #[test]
    fn whatever_is_received_moves_the_next_challenge(own in said()) {
        let next = |said: &Said| {
            let mut verifier = Transcript::new("test");
            said.receive(&mut verifier).map(|_| verifier.challenge("next"))
        };
        prop_assert_ne!(next(&own), next(&own.altered()));
        prop_assert_ne!(next(&own), Ok(Transcript::new("test").challenge("next")));
    }
}

/// Every list but that of clipped values has a length that the verifier knows.
#[test]
fn a_message_of_another_length_is_an_error_that_names_it() {
    for got in [0, 2, 4, 300] {
        let list = vec![K::one(); got];
        let error = Unread::of(&list).exactly(3, |got| format!("list: {got} entries, expected 3"));
        assert_eq!(error.map(|_| ()), Err(format!("list: {got} entries, expected 3")));
    }
    let list = vec![K::one(); 3];
    let said = Unread::of(&list).exactly(3, |_| ()).expect("three entries");
    assert_eq!(said.each().count(), 3);
    assert_eq!(Transcript::new("test").receive("list", said), Ok(&[K::one(); 3][..]));
}

/// A number that stands for another one, in any place of a message: nothing is absorbed of it.
#[test]
fn a_message_that_is_not_reduced_is_an_error_that_names_it() {
    for bad in [P, u32::MAX] {
        let bad = K::from_u32_unchecked(0, 0, bad, 0);
        let messages = [
            (Said::Value(bad), "value"),
            (Said::Round([K::one(), bad]), "round"),
            (
                Said::Operands(vec![[K::one(); 2], [K::one(), bad], [K::one(); 2]]),
                "operands",
            ),
            (Said::List(vec![K::one(), bad]), "list"),
            (Said::Exchange([K::one(), bad, K::one(), K::one()]), "message"),
        ];
        for (message, what) in messages {
            let mut transcript = Transcript::new("test");
            assert_eq!(message.receive(&mut transcript), Err(NotCanonical { what }));
            assert_eq!(transcript.challenge("next"), Transcript::new("test").challenge("next"));
        }
    }
}

/// A nonce without the bits is an error that has it.
#[test]
fn work_that_is_not_done_is_an_error() {
    let work = Work { bits: 12, ..NOTHING };
    let received = |nonce: &u64| Transcript::new("test").receive_work(work, Unread::of(nonce));
    let over = *Transcript::new("test").channel().digest();
    let fails = |nonce: &u64| {
        let nonce = *nonce;
        received(&nonce) == Err(NoWork { work, nonce, over })
    };
    assert_eq!((0..100).filter(fails).count(), 100);
    let done = (0u64..).find(|nonce| !fails(nonce)).expect("a nonce");
    assert_eq!(
        (received(&done), Transcript::new("test").work(work, done)),
        (Ok(()), true)
    );
}
