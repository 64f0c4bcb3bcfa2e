//! Why a row of a plan became what it became, as a value: the command line says it in English, a screen in its own language.

use std::fmt;

use crate::code::Code;
use crate::guid::Attempt;
use crate::ledger::{LedgerError, Row};
use crate::state::State;

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The core did it.
    Done,
    /// The core refused it: a result too.
    Refused(Code),
    /// What was seen of the core, in the words that the history keeps.
    Seen(String),
    /// The core has it.
    Known,
    /// The core does not have it.
    Absent,
    /// Deleted.
    Deleted,
    /// Not deleted: the ledger would not.
    NotDeleted(LedgerError),
    /// Resolve was stopped before its turn.
    NotAsked,
    /// The routine was stopped before its turn.
    NotTried,
    /// Its turn did not come: the core can't be reached.
    Unreachable,
    /// There is no such row any more.
    Gone,
    /// Somebody else has changed it meanwhile: this is what it is now.
    Changed(State, Attempt),
    /// Somebody else has changed or deleted it meanwhile.
    ChangedOrGone,
    /// It was last changed then (UTC), which is not long enough ago.
    TooYoung(String),
    /// The stored request can't be read, and why.
    Unreadable(String),
    /// The stored request names another GUID than its row.
    OtherGuid,
    /// Sent, but its row is gone.
    SentAndGone,
    /// Sent, but the ledger would not take the result.
    NotRecorded(LedgerError),
    /// The ledger would not; nothing was done.
    Ledger(LedgerError),
}

impl Reason {
    /// Why a row that the plan named is left alone.
    #[must_use]
    pub fn changed(row: &Row) -> Reason {
        Reason::Changed(row.state, row.attempt)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Done => f.write_str("done"),
            Reason::Refused(code) => write!(f, "refused by the core: {code}"),
            Reason::Seen(seen) => f.write_str(seen),
            Reason::Known => f.write_str("the core has it"),
            Reason::Absent => f.write_str("the core does not have it"),
            Reason::Deleted => f.write_str("deleted"),
            Reason::NotDeleted(error) => write!(f, "not deleted: {error}"),
            Reason::NotAsked => f.write_str("not asked: stopped"),
            Reason::NotTried => f.write_str("not tried: stopped"),
            Reason::Unreachable => f.write_str("not tried: the core can't be reached"),
            Reason::Gone => f.write_str("the row is gone"),
            Reason::Changed(state, attempt) => {
                write!(f, "changed meanwhile: {state}, attempt {attempt}")
            }
            Reason::ChangedOrGone => f.write_str("changed or gone meanwhile"),
            Reason::TooYoung(updated_at) => write!(f, "too young: changed at {updated_at} UTC"),
            Reason::Unreadable(error) => write!(f, "the stored request can't be read: {error}"),
            Reason::OtherGuid => f.write_str("the stored request has another GUID"),
            Reason::SentAndGone => f.write_str("sent, and the row is gone"),
            Reason::NotRecorded(error) => {
                write!(f, "sent, and the result could not be recorded: {error}")
            }
            Reason::Ledger(error) => write!(f, "{error}"),
        }
    }
}
