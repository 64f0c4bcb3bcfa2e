//! An event: an id and a quantity. Checked here, once, for every way in.
//!
//! Pure: knows JSON, no stores and no sockets.

use serde::Serialize;
use serde_json::{Map, Value};

use super::OutboxError;
use crate::limits::{EVENT_ID_BYTES_MAX, EVENT_QTY_MAX};
use crate::unique_json::UniqueObject;

/// An order on its way: plain data, which every function of this module checks before it uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Event {
    /// 1-64 ASCII letters, digits, `_`, `-`. The same id is the same event for ever.
    pub id: String,
    /// Pieces, 1-1000.
    pub qty: i64,
}

impl Event {
    /// An event with these values. Errors: `Value`.
    pub fn new(id: impl Into<String>, qty: i64) -> Result<Event, OutboxError> {
        Event { id: id.into(), qty }.checked()
    }

    /// A copy of this event if its values are inside the contract. Errors: `Value`.
    pub fn checked(&self) -> Result<Event, OutboxError> {
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=EVENT_ID_BYTES_MAX).contains(&self.id.len()) || !self.id.bytes().all(known) {
            return Err(OutboxError::Value(format!(
                "id {:?} is not 1-{EVENT_ID_BYTES_MAX} letters, digits, `_`, `-`",
                self.id
            )));
        }
        if !(1..=EVENT_QTY_MAX).contains(&self.qty) {
            return Err(OutboxError::Value(format!(
                "qty {} is not an integer 1-{EVENT_QTY_MAX}",
                self.qty
            )));
        }
        Ok(self.clone())
    }

    /// The event as JSON: `{"id":…,"qty":…}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a string and a number always serialize")
    }
}

/// The event in a JSON value: an object with exactly the keys `id` and `qty`; `true`, `1.0` and `"1"` are not integers. Errors: `Value`.
pub fn validate_event(event: &Value) -> Result<Event, OutboxError> {
    let Value::Object(fields) = event else {
        return Err(OutboxError::Value("the event is not a JSON object".to_owned()));
    };
    let [id, qty] = exactly(fields, ["id", "qty"])
        .map_err(|why| OutboxError::Value(format!("the event {why}")))?;
    let Some(id) = id.as_str() else {
        return Err(OutboxError::Value(format!("id {id} is not a string")));
    };
    let Some(qty) = qty.as_i64() else {
        return Err(OutboxError::Value(format!("qty {qty} is not an integer 1-{EVENT_QTY_MAX}")));
    };
    Event::new(id, qty)
}

/// The event in a JSON text; besides what [`validate_event`] says, a key that stands there twice is refused. Errors: `Value`.
pub fn parse_event(text: &[u8]) -> Result<Event, OutboxError> {
    let fields =
        parse_object(text).map_err(|why| OutboxError::Value(format!("the event is {why}")))?;
    validate_event(&Value::Object(fields))
}

/// The values of exactly these keys, or what is wrong.
pub(super) fn exactly<'a, const N: usize>(
    fields: &'a Map<String, Value>,
    keys: [&str; N],
) -> Result<[&'a Value; N], String> {
    if let Some(key) = fields.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(format!("has the unknown key {key:?}"));
    }
    let mut values = [&Value::Null; N];
    for (value, key) in values.iter_mut().zip(keys) {
        *value = fields.get(key).ok_or_else(|| format!("has no key {key:?}"))?;
    }
    Ok(values)
}

/// The fields of a JSON object whose keys are all different, or what the text is instead.
pub(super) fn parse_object(text: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice::<UniqueObject>(text)
        .map(|object| object.0)
        .map_err(|error| format!("not a JSON object as agreed: {error}"))
}
