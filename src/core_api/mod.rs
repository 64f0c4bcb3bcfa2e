//! The core as the engine sees it: one call that may move money, one that only asks, and what may come of each.
//!
//! Knows nothing of the ledger. `http` is the real client, `simulated` the core for demos, tests and drills.

mod answer;
mod http;
pub mod simulated;
mod url;
mod wire;

pub use http::{CoreConfigError, HttpCore, HttpCoreConfig};
pub use url::{BadCoreUrl, CoreUrl, Host, Scheme};

use crate::code::Code;
use crate::telegram::{ReplyBody, Request};

/// What came of a transfer call, as far as it can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transfer {
    /// A well-formed answer for this GUID: the transfer was made. Holds the reply's body, encoded.
    Done(ReplyBody),
    /// A definite business refusal: nothing moved. `Code::Core` or `Code::Refused`.
    Refused(Code),
    /// The request certainly did not leave: not one byte of it.
    NotSent(Seen),
    /// Anything else: it may have been done.
    Unknown(Seen),
}

impl Transfer {
    /// Its name in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Transfer::Done(_) => "done",
            Transfer::Refused(_) => "refused",
            Transfer::NotSent(_) => "not-sent",
            Transfer::Unknown(_) => "unknown",
        }
    }
}

/// What came of an inquiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inquiry {
    /// The core has the transfer. Holds the reply's body, encoded.
    Known(ReplyBody),
    /// The core's own 404: it does not have it (yet, if it is still working).
    Absent,
    /// No answer to the question.
    NoAnswer(Seen),
}

/// What was seen instead of an answer, for the history: "read timeout after 3.0 s", "HTTP 503: {…}". One line, at most some hundred bytes, holds nothing that we sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen(pub String);

/// The bank's system of record. It is not idempotent: every `transfer` may move money.
pub trait Core: Send + Sync {
    /// Calls the core once for this request; never repeats, follows or retries anything.
    /// Returns after connect and read timeout at the latest, and one more read timeout if the core does not even take the request's bytes.
    /// A panic ends only the calling thread, and the claim it holds is given up to the sweep.
    fn transfer(&self, request: &Request) -> Transfer;

    /// Asks the core whether it has this request's transfer. Moves nothing.
    fn inquire(&self, request: &Request) -> Inquiry;
}
