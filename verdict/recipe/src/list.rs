//! Lists of a recipe as they are read: hostile bytes can claim millions of empty entries, each of which takes more memory than bytes.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use crate::recipe::MAX_ENTRIES;

/// Reads a list. Of one that is too long, one entry more than is allowed is kept, by which `Recipe::check` refuses it.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Entries(PhantomData))
}

/// Reads a list that may be left out, as [`list`] does.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    struct Own<T>(Vec<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Own<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            list(from).map(Self)
        }
    }
    let read: Option<Own<T>> = Option::deserialize(from)?;
    Ok(read.map(|own| own.0))
}

struct Entries<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if kept.len() <= MAX_ENTRIES {
                kept.push(entry);
            }
        }
        Ok(kept)
    }
}
