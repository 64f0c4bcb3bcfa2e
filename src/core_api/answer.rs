//! What an answer of the core means: pure, and stricter than HTTP libraries are.
//!
//! Definite is only a listed status with a framed body that says what it has to. Everything else is "not an answer", told in the words of
//! [`Seen`]. Knows no sockets and no time.

use serde_json::{Map, Value};

use super::{Inquiry, Seen, Transfer};
use crate::code::{Code, CoreCode};
use crate::limits::SEEN_BYTES_MAX;
use crate::telegram::{Layout, ReplyBody, Request};
use crate::unique_json::UniqueObject;

/// Statuses that can be definite. On any other the body is looked at for the history alone.
const LISTED: [u16; 5] = [200, 201, 400, 422, 404];

/// An answer as it came, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    pub framed: bool,
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether this status can be a definite result, if the rest is right too.
    pub(super) fn is_listed(status: u16) -> bool {
        LISTED.contains(&status)
    }

    /// What this answer to a transfer call means.
    pub(super) fn to_transfer(&self, layout: &Layout, request: &Request) -> Transfer {
        let meaning = match self.status {
            200 | 201 => self.done(layout, request).map(Transfer::Done),
            400 | 422 => self.refusal(request).map(Transfer::Refused),
            _ => Err(self.as_seen("", request)),
        };
        meaning.unwrap_or_else(Transfer::Unknown)
    }

    /// What this answer to an inquiry means.
    pub(super) fn to_inquiry(&self, layout: &Layout, request: &Request) -> Inquiry {
        let meaning = match self.status {
            200 => self.done(layout, request).map(Inquiry::Known),
            404 => self.absence(request),
            _ => Err(self.as_seen("", request)),
        };
        meaning.unwrap_or_else(Inquiry::NoAnswer)
    }

    /// A well-formed answer for this GUID, encoded as the reply's body.
    fn done(&self, layout: &Layout, request: &Request) -> Result<ReplyBody, Seen> {
        let object = self.object(request)?;
        match object.get("guid") {
            Some(Value::String(guid)) if guid == request.guid().as_str() => {}
            Some(_) => return Err(Seen("another GUID in the answer".to_owned())),
            None => return Err(self.as_seen("no GUID in the answer", request)),
        }
        layout.encode_answer(request, &object).map_err(|bad| {
            Seen(one_line(&format!("HTTP {}, an answer that does not fit: {bad}", self.status)))
        })
    }

    /// A refusal carries no GUID, but if it does it has to be this one.
    fn refusal(&self, request: &Request) -> Result<Code, Seen> {
        let object = self.object(request)?;
        if object.get("guid").is_some_and(|guid| guid.as_str() != Some(request.guid().as_str())) {
            return Err(Seen("another GUID in the refusal".to_owned()));
        }
        let code = object.get("code").and_then(Value::as_str).and_then(CoreCode::parse);
        Ok(code.map_or(Code::Refused, Code::Core))
    }

    /// The core's own 404; a proxy's is a page.
    fn absence(&self, request: &Request) -> Result<Inquiry, Seen> {
        if self.framed && self.body.is_empty() {
            return Ok(Inquiry::Absent);
        }
        self.object(request).map(|_| Inquiry::Absent)
    }

    fn object(&self, request: &Request) -> Result<Map<String, Value>, Seen> {
        if !self.framed {
            return Err(self.as_seen("half an answer: a body without a length", request));
        }
        match serde_json::from_slice::<UniqueObject>(&self.body) {
            Ok(UniqueObject(object)) => Ok(object),
            Err(e) if e.is_data() => {
                Err(self.as_seen(&format!("no usable JSON object ({e})"), request))
            }
            Err(_) => Err(self.as_seen("no JSON object", request)),
        }
    }

    /// "HTTP 503: {…}": status, what is wrong with it, and the beginning of the body.
    pub(super) fn as_seen(&self, wrong: &str, request: &Request) -> Seen {
        let start = &self.body[..self.body.len().min(SEEN_BYTES_MAX)];
        let body = without_ours(&String::from_utf8_lossy(start), request);
        let wrong = if wrong.is_empty() { String::new() } else { format!(", {wrong}") };
        let colon = if body.is_empty() { "" } else { ": " };
        Seen(one_line(&format!("HTTP {}{wrong}{colon}{body}", self.status)))
    }
}

/// Some servers repeat the request in their error pages; accounts must not get into the history that way.
fn without_ours(body: &str, request: &Request) -> String {
    const TELLING_BYTES_MIN: usize = 4;
    let mut body = body.to_owned();
    for value in request.fields().values() {
        let ours = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if ours.len() >= TELLING_BYTES_MIN {
            body = body.replace(&ours, "***");
        }
    }
    body
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
