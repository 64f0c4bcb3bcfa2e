//! The five states of a transfer in the ledger, what may happen to it, and the one table of allowed transitions.
//!
//! Knows no I/O. `schema.sql`'s CHECK and the README are compared with this file by a test.

use std::fmt;
use std::str::FromStr;

/// What is true of a transfer, as the ledger's column `state` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Accepted by another program, not yet being sent. The relay itself never writes it.
    Received,
    /// Claimed: a call is under way, or the process that made it died.
    Sent,
    /// The result is known; a business refusal is a result. Nothing changes it.
    Done,
    /// It may have been done. Settled by inquiry only, never sent.
    Unknown,
    /// It was certainly not sent. May be sent again under the same GUID.
    Failed,
}

impl State {
    /// Every state, in the order in which screens and metrics show them.
    pub const ALL: [State; 5] =
        [State::Received, State::Sent, State::Done, State::Unknown, State::Failed];

    /// The word in the ledger's column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Received => "RECEIVED",
            State::Sent => "SENT",
            State::Done => "DONE",
            State::Unknown => "UNKNOWN",
            State::Failed => "FAILED",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no state: RECEIVED, SENT, DONE, UNKNOWN or FAILED")]
pub struct NoSuchState(pub String);

impl FromStr for State {
    type Err = NoSuchState;

    fn from_str(word: &str) -> Result<State, NoSuchState> {
        State::ALL
            .into_iter()
            .find(|state| state.as_str().eq_ignore_ascii_case(word))
            .ok_or_else(|| NoSuchState(word.to_owned()))
    }
}

/// What can happen to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A telegram came and its GUID was claimed for a call.
    Claim,
    /// The call brought a definite result.
    Result,
    /// The call left the outcome open.
    NoResult,
    /// The request certainly did not leave.
    NotSent,
    /// The process that claimed it is proven dead, or gave the row up.
    Orphaned,
    /// An inquiry found the transfer at the core.
    InquiryKnown,
    /// An inquiry found that the core does not have it.
    InquiryAbsent,
    /// It was done long ago and is deleted; its GUID stays in `purged`.
    Purge,
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 8] = [
        Event::Claim,
        Event::Result,
        Event::NoResult,
        Event::NotSent,
        Event::Orphaned,
        Event::InquiryKnown,
        Event::InquiryAbsent,
        Event::Purge,
    ];
}

/// Every transition there is: from (`None`: no row), event, to (`None`: the row is gone). What is not here is not allowed.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Option<State>, Event, Option<State>)] = &[
    (None,                  Event::Claim,         Some(State::Sent)),
    (Some(State::Failed),   Event::Claim,         Some(State::Sent)),
    (Some(State::Sent),     Event::Result,        Some(State::Done)),
    (Some(State::Unknown),  Event::Result,        Some(State::Done)),    // late, of the same attempt
    (Some(State::Failed),   Event::Result,        Some(State::Done)),    // late, of the same attempt
    (Some(State::Received), Event::Result,        Some(State::Done)),    // another program put it back while we called
    (Some(State::Sent),     Event::NoResult,      Some(State::Unknown)),
    (Some(State::Failed),   Event::NoResult,      Some(State::Unknown)), // late: the safe direction
    (Some(State::Sent),     Event::NotSent,       Some(State::Failed)),
    (Some(State::Unknown),  Event::NotSent,       Some(State::Failed)),  // late: the attempt's own proof
    (Some(State::Sent),     Event::Orphaned,      Some(State::Unknown)),
    (Some(State::Received), Event::Orphaned,      Some(State::Failed)),  // it was certainly not sent
    (Some(State::Unknown),  Event::InquiryKnown,  Some(State::Done)),
    (Some(State::Unknown),  Event::InquiryAbsent, Some(State::Failed)),
    (Some(State::Done),     Event::Purge,         None),
];

/// Where `event` leads from `from`; `None` if it is not allowed there.
#[must_use]
pub fn next(from: Option<State>, event: Event) -> Option<Option<State>> {
    TRANSITIONS.iter().find(|row| row.0 == from && row.1 == event).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_done_but_purge() {
        for event in Event::ALL {
            let to = next(Some(State::Done), event);
            assert_eq!(to, (event == Event::Purge).then_some(None), "{event:?}");
        }
    }

    #[test]
    fn only_a_claim_leads_to_sent_and_never_from_unknown() {
        for (from, event, to) in TRANSITIONS {
            assert_eq!(*to == Some(State::Sent), *event == Event::Claim, "{from:?} {event:?}");
            assert!(*event != Event::Claim || *from != Some(State::Unknown));
        }
    }

    #[test]
    fn a_state_is_read_as_it_is_written() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert_eq!("DONNE".parse::<State>(), Err(NoSuchState("DONNE".to_owned())));
    }
}
