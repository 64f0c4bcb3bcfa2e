//! Replies: built on the header of the telegram being answered, so that what is not set comes back byte for byte.
//!
//! The time is a value. What the core said becomes a body here, strictly: nothing is cut, nothing is guessed.

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};
use serde_json::{Map, Value};

use super::field::{Field, FieldType, Span, Unfit, put_number};
use super::framing::{Reading, Size};
use super::layout::{Inner, Layout};
use super::request::Request;
use crate::code::{Code, Origin};

/// The body of a reply 0000: the response record's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyBody(pub Vec<u8>);

/// Why the core's JSON object is no answer. The text holds no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// A field of the response is not there.
    #[error("field {field} is missing")]
    Missing {
        /// Its name.
        field: String,
    },
    /// A field of another type.
    #[error("field {field} is not {expected}")]
    Type {
        /// Its name.
        field: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A value that its field can't hold.
    #[error("field {field}: {why}")]
    Unfit {
        /// Its name.
        field: String,
        /// Why not.
        why: Unfit,
    },
}

impl Layout {
    /// The reply with an error code: the body is the blank response body of the request's transaction.
    #[must_use]
    pub fn error_reply(&self, request: &Request, code: Code, at: DateTime<Utc>) -> Vec<u8> {
        let blank = &request.transaction.blank_response;
        self.0.reply(&request.bytes, request.reading, blank, code, at)
    }

    /// The reply 0000 with this body.
    ///
    /// # Panics
    /// If the body is not as long as the response record of the request's transaction: [`Layout::encode_answer`] makes
    /// no such body.
    #[must_use]
    pub fn done_reply(&self, request: &Request, body: &ReplyBody, at: DateTime<Utc>) -> Vec<u8> {
        assert_eq!(
            body.0.len(),
            request.transaction.response.length,
            "a reply body has the length of its transaction's response record"
        );
        self.0.reply(&request.bytes, request.reading, &body.0, Code::Done, at)
    }

    /// The reply E900, from whatever header bytes there are; `None` if they are fewer than a header. An unknown tx code
    /// gets the response body of the layout's first transaction.
    #[must_use]
    pub fn malformed_reply(&self, bytes: &[u8], at: DateTime<Utc>) -> Option<Vec<u8>> {
        let layout = &*self.0;
        if bytes.len() < layout.header.length {
            return None;
        }
        let reading = match &layout.framing.size {
            Size::Declared(length) => length.reading_of(bytes),
            Size::Fixed(_) => None,
        };
        let transaction = layout.transaction_of(bytes).unwrap_or(&layout.transactions[0]);
        Some(layout.reply(bytes, reading, &transaction.blank_response, Code::Malformed, at))
    }

    /// The body that the core's JSON object makes: every response field but filler and constants is there, of its type,
    /// and fits. More keys are ignored; `guid` is the caller's to look at.
    pub fn encode_answer(
        &self,
        request: &Request,
        answer: &Map<String, Value>,
    ) -> Result<ReplyBody, BadAnswer> {
        let mut body = request.transaction.blank_response.clone();
        let mut at = 0;
        for field in &request.transaction.response.fields {
            let out = &mut body[at..at + field.span.length];
            at += field.span.length;
            match (&field.fixed, field.kind) {
                (Some(fixed), _) => out.copy_from_slice(fixed),
                (None, FieldType::Filler) => {}
                (None, FieldType::Text | FieldType::Number) => put_answer(field, answer, out)?,
            }
        }
        Ok(ReplyBody(body))
    }

    /// The code of a reply, without padding; `None` if there is none to read.
    #[must_use]
    pub fn reply_code(&self, reply: &[u8]) -> Option<String> {
        let span = self.0.header.rsp_code;
        let text = std::str::from_utf8(reply.get(span.at..span.end())?).ok()?.trim_end_matches(' ');
        let printable = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        printable.then(|| text.to_owned())
    }
}

impl Inner {
    /// A reply on the header of `telegram`, which is at least a header long.
    fn reply(
        &self,
        telegram: &[u8],
        reading: Option<Reading>,
        body: &[u8],
        code: Code,
        at: DateTime<Utc>,
    ) -> Vec<u8> {
        let header = &self.header;
        let mut reply = Vec::with_capacity(header.length + body.len() + self.framing.end.len());
        reply.extend_from_slice(&telegram[..header.length]);
        reply.extend_from_slice(body);
        reply.extend_from_slice(&self.framing.end);
        if let Size::Declared(length) = &self.framing.size {
            length.write(&mut reply, reading);
        }
        if let Some(hop) = header.hop {
            count_hop(hop.of_mut(&mut reply));
        }
        header.msg_type.of_mut(&mut reply).copy_from_slice(&header.response_type);
        if let Some(span) = header.rsp_time {
            put_time(at, span.of_mut(&mut reply));
        }
        put_word(code.as_str(), header.rsp_code, &mut reply);
        if let Some(span) = header.err_sys {
            put_word(origin_word(code.origin()), span, &mut reply);
        }
        reply
    }
}

/// Who raised a code, as `err_sys` says it.
const fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Nobody => "",
        Origin::Relay => "RLY",
        Origin::Core => "COR",
    }
}

/// Writes a word that the layout checked to fit, spaces behind it.
fn put_word(word: &str, span: Span, reply: &mut [u8]) {
    let (text, pad) = span.of_mut(reply).split_at_mut(word.len());
    text.copy_from_slice(word.as_bytes());
    pad.fill(b' ');
}

/// One more; all nines stay, and so does what is no number.
fn count_hop(hop: &mut [u8]) {
    let digits = hop.iter().all(u8::is_ascii_digit);
    if !digits || hop.iter().all(|b| *b == b'9') {
        return;
    }
    for digit in hop.iter_mut().rev() {
        if *digit != b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

/// `YYYYMMDDhhmmss` or, with 17 bytes, `YYYYMMDDhhmmssSSS`. A clock beyond the year 9999 or inside a leap second must not
/// break a reply, so both are held at their last value.
fn put_time(at: DateTime<Utc>, out: &mut [u8]) {
    let parts = [
        (4, u32::try_from(at.year()).unwrap_or(0).min(9999)),
        (2, at.month()),
        (2, at.day()),
        (2, at.hour()),
        (2, at.minute()),
        (2, at.second()),
        (3, (at.nanosecond() / 1_000_000).min(999)),
    ];
    let mut rest = out;
    for (digits, number) in parts {
        let Some((part, behind)) = rest.split_at_mut_checked(digits) else { return };
        put_number(u64::from(number), part).expect("a part of a time has its digits");
        rest = behind;
    }
}

fn put_answer(field: &Field, answer: &Map<String, Value>, out: &mut [u8]) -> Result<(), BadAnswer> {
    let name = || field.name.clone();
    let value = answer.get(&field.name).ok_or_else(|| BadAnswer::Missing { field: name() })?;
    let wrong = |expected| BadAnswer::Type { field: name(), expected };
    let fits = match (field.kind, value) {
        (FieldType::Number, Value::Null) if field.blank_ok => field.put("", out),
        (FieldType::Number, value) => {
            let number = value.as_u64().ok_or_else(|| wrong("an integer of 0 or more"))?;
            put_number(number, out)
        }
        (FieldType::Text | FieldType::Filler, Value::String(text)) => field.put(text, out),
        (FieldType::Text | FieldType::Filler, _) => return Err(wrong("text")),
    };
    fits.map_err(|why| BadAnswer::Unfit { field: name(), why })
}
