//! A JSON object that has each of its keys once.
//!
//! Of two equal keys one parser takes the first, another the last: such a text could be read as ours and as another's. So it is
//! refused wherever a text decides about money. Knows nothing of what an object means.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The object, its keys in the order of the text.
#[derive(Debug)]
pub(crate) struct UniqueObject(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueObject, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

/// Room for the keys of a usual answer: a map that grows takes its memory twice.
const KEYS_USUAL: usize = 8;

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = UniqueObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueObject, A::Error> {
        let mut object = Map::with_capacity(KEYS_USUAL);
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} stands there twice")));
            }
            object.insert(key, value);
        }
        Ok(UniqueObject(object))
    }
}
