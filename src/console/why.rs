//! Why things are as they are, as values; each language has its own words for them. What the ledger or another program has said
//! itself (`seen`, a file system's error) stays as it was said.

use super::text::fill;
use super::words::{EN, Words};
use crate::engine::Reason;
use crate::engine::desk::NotRun;
use crate::ledger::LedgerError;
use crate::telegram::NoText;

/// Why a row or an event of a run became what it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The engine's reason.
    Row(Reason),
    /// The event was acknowledged, and is marked so.
    Acknowledged,
    /// Another event stands where it stood, or none at all.
    NotNext,
    /// It was not acknowledged, for this reason, and stays pending.
    Pending(String),
    /// The outbox could not be read or written.
    Outbox(String),
    /// An earlier event failed: what comes after it waits.
    AfterAFailure,
    /// The run ended before its turn.
    RunEnded,
    /// The run broke off before its turn.
    Broke(Broke),
}

/// Why a run did not begin or broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broke {
    /// The owner's lock could not be taken.
    NoLock(String),
    /// The routine is off.
    Off,
    /// There is nobody to send events to.
    NoUrl,
    /// The outbox's sender could not be made.
    Outbox(String),
    /// Its thread panicked.
    Panicked(String),
}

impl From<NotRun> for Broke {
    fn from(why: NotRun) -> Broke {
        match why {
            NotRun::Lock(error) => Broke::NoLock(error.to_string()),
            NotRun::Off => Broke::Off,
        }
    }
}

/// Why something that was asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing was written: there is no such row any more.
    Gone,
    /// Nothing was written: the ledger would not.
    Ledger(LedgerError),
    /// There is nothing to export.
    NoRow,
    /// The file could not be written: path and error.
    File(String, String),
    /// There is no outbox.
    NoOutbox,
    /// The outbox could not be read.
    Outbox(String),
}

impl Words {
    /// Why, in this language.
    #[must_use]
    pub fn why(&self, why: &Why) -> String {
        match why {
            Why::Row(reason) => self.reason(reason),
            Why::Acknowledged => self.event_acknowledged.to_owned(),
            Why::NotNext => self.event_not_next.to_owned(),
            Why::Pending(error) => fill(self.event_pending, &[error]),
            Why::Outbox(error) => error.clone(),
            Why::AfterAFailure => self.event_after_a_failure.to_owned(),
            Why::RunEnded => self.run_over.to_owned(),
            Why::Broke(broke) => self.broke(broke),
        }
    }

    /// Why a run did not begin or broke off.
    #[must_use]
    pub fn broke(&self, broke: &Broke) -> String {
        match broke {
            Broke::NoLock(error) => fill(self.broke_lock, &[error]),
            Broke::Off => self.broke_off.to_owned(),
            Broke::NoUrl => self.no_outbox_url.to_owned(),
            Broke::Outbox(error) | Broke::Panicked(error) => error.clone(),
        }
    }

    /// Why something was not done.
    #[must_use]
    pub fn refused(&self, refused: &Refused) -> String {
        match refused {
            Refused::Gone => fill(self.not_written, &[self.reason_gone]),
            Refused::Ledger(error) => fill(self.not_written, &[&self.ledger(error)]),
            Refused::NoRow => self.no_row.to_owned(),
            Refused::File(path, error) => format!("{path}: {error}"),
            Refused::NoOutbox => self.no_outbox.to_owned(),
            Refused::Outbox(error) => error.clone(),
        }
    }

    /// The engine's reason.
    #[must_use]
    pub fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::Done => self.reason_done.to_owned(),
            Reason::Refused(code) => fill(self.reason_refused, &[&code.to_string()]),
            Reason::Seen(seen) => seen.clone(),
            Reason::Known => self.reason_known.to_owned(),
            Reason::Absent => self.reason_absent.to_owned(),
            Reason::Deleted => self.reason_deleted.to_owned(),
            Reason::NotDeleted(error) => fill(self.reason_not_deleted, &[&self.ledger(error)]),
            Reason::NotAsked => self.reason_not_asked.to_owned(),
            Reason::NotTried => self.reason_not_tried.to_owned(),
            Reason::Unreachable => self.reason_unreachable.to_owned(),
            Reason::Gone => self.reason_gone.to_owned(),
            Reason::Changed(state, attempt) => {
                fill(self.reason_changed, &[state.as_str(), &attempt.to_string()])
            }
            Reason::ChangedOrGone => self.reason_changed_or_gone.to_owned(),
            Reason::TooYoung(at) => fill(self.reason_young, &[at]),
            Reason::Unreadable(error) => fill(self.reason_unreadable, &[error]),
            Reason::OtherGuid => self.reason_other_guid.to_owned(),
            Reason::SentAndGone => self.reason_sent_and_gone.to_owned(),
            Reason::NotRecorded(error) => fill(self.reason_not_recorded, &[&self.ledger(error)]),
            Reason::Ledger(error) => self.ledger(error),
        }
    }

    /// What is wrong with the ledger.
    #[must_use]
    pub fn ledger(&self, error: &LedgerError) -> String {
        match error {
            LedgerError::Busy => self.ledger_busy.to_owned(),
            LedgerError::Full => self.ledger_full.to_owned(),
            LedgerError::ReadOnly(why) => fill(self.ledger_read_only, &[why]),
            LedgerError::Moved => self.ledger_moved.to_owned(),
            LedgerError::SyncFailed(why) => fill(self.ledger_sync_failed, &[why]),
            LedgerError::Failed(why) => fill(self.ledger_failed, &[why]),
            LedgerError::Closed => self.ledger_closed.to_owned(),
        }
    }

    /// Why a field's bytes say nothing.
    #[must_use]
    pub fn no_text(&self, why: &NoText) -> String {
        match why {
            NoText::CutShort { is, should } => {
                fill(self.field_cut, &[&is.to_string(), &should.to_string()])
            }
            NoText::Filler => self.field_filler.to_owned(),
            NoText::Blank => self.field_blank.to_owned(),
            NoText::NotDigits => self.field_not_digits.to_owned(),
            NoText::NotText { encoding, at } => {
                fill(self.field_not_text, &[encoding.as_str(), &at.to_string()])
            }
            NoText::NotTheConstant => self.field_not_the_constant.to_owned(),
            NoText::NotTheEndMark => self.field_not_the_end_mark.to_owned(),
            NoText::NoField => self.field_none.to_owned(),
        }
    }
}

/// For files, which programs read: always English.
#[must_use]
pub fn english(why: &Why) -> String {
    EN.why(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::guid::Attempt;
    use crate::state::State;

    #[test]
    fn in_english_it_says_what_the_engine_says() {
        let errors = [
            LedgerError::Busy,
            LedgerError::Full,
            LedgerError::ReadOnly("x".to_owned()),
            LedgerError::Moved,
            LedgerError::SyncFailed("x".to_owned()),
            LedgerError::Failed("x".to_owned()),
            LedgerError::Closed,
        ];
        let mut reasons = vec![
            Reason::Done,
            Reason::Refused(Code::Refused),
            Reason::Seen("read timeout".to_owned()),
            Reason::Known,
            Reason::Absent,
            Reason::Deleted,
            Reason::NotAsked,
            Reason::NotTried,
            Reason::Unreachable,
            Reason::Gone,
            Reason::Changed(State::Done, Attempt(2)),
            Reason::ChangedOrGone,
            Reason::TooYoung("2026-03-01 12:00:00".to_owned()),
            Reason::Unreadable("x".to_owned()),
            Reason::OtherGuid,
            Reason::SentAndGone,
        ];
        for error in errors {
            reasons.push(Reason::NotDeleted(error.clone()));
            reasons.push(Reason::NotRecorded(error.clone()));
            reasons.push(Reason::Ledger(error));
        }
        for reason in reasons {
            assert_eq!(EN.reason(&reason), reason.to_string());
        }
    }
}
