//! What to do with a telegram, given what the ledger has under its GUID. Pure: no clock, no I/O.
//!
//! Guard clauses in order of precedence; the table of relay.md, "A telegram arrives", is this function.

use crate::code::Code;
use crate::ledger::{Found, Row};
use crate::state::State;

/// What the relay does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Try to claim the GUID; the claim itself decides.
    Claim,
    /// Try to claim the FAILED row again; that claim decides.
    ClaimAgain,
    /// Answer with the stored reply, byte for byte.
    Replay(&'a [u8]),
    /// Answer with this code; no call.
    Refuse(Code),
}

/// Decides. `same_content` says whether a stored request has the tx code and body of the telegram that came.
pub fn decide(found: &Found, same_content: impl FnOnce(&Row) -> bool) -> Decision<'_> {
    let row = match found {
        Found::Nothing => return Decision::Claim,
        Found::Purged => return Decision::Refuse(Code::Purged),
        Found::Row(row) => row,
    };
    if !same_content(row) {
        return Decision::Refuse(Code::OtherContent);
    }
    match row.state {
        State::Failed => Decision::ClaimAgain,
        State::Done | State::Sent | State::Received | State::Unknown => answer(row),
    }
}

/// What a channel is told of a row that nobody calls for now: also of one that moved on while its result was on the way.
#[must_use]
pub fn answer(row: &Row) -> Decision<'_> {
    match row.state {
        State::Sent | State::Received => Decision::Refuse(Code::InProgress),
        State::Unknown => Decision::Refuse(Code::Unknown),
        State::Failed => Decision::Refuse(Code::NotSent),
        State::Done => match &row.response {
            Some(response) => Decision::Replay(response),
            // Another program wrote it: it was done, and the answer is not here. That is what E906 says.
            None => Decision::Refuse(Code::Purged),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guid::{Attempt, Guid};

    fn row(state: State, response: Option<Vec<u8>>) -> Found {
        Found::Row(Box::new(Row {
            guid: Guid::from_ledger("G".to_owned()),
            tx_code: "T".to_owned(),
            state,
            rsp_code: None,
            request: vec![],
            response,
            attempt: Attempt::FIRST,
            updated_at: String::new(),
            owner: None,
        }))
    }

    #[test]
    fn the_table_of_the_spec_line_by_line() {
        let decide = |found: &Found| format!("{:?}", super::decide(found, |_| true));
        assert_eq!(decide(&Found::Nothing), "Claim");
        assert_eq!(decide(&Found::Purged), "Refuse(Purged)");
        assert_eq!(decide(&row(State::Done, Some(vec![7]))), "Replay([7])");
        assert_eq!(decide(&row(State::Done, None)), "Refuse(Purged)");
        assert_eq!(decide(&row(State::Sent, None)), "Refuse(InProgress)");
        assert_eq!(decide(&row(State::Received, None)), "Refuse(InProgress)");
        assert_eq!(decide(&row(State::Unknown, None)), "Refuse(Unknown)");
        assert_eq!(decide(&row(State::Failed, None)), "ClaimAgain");
    }

    #[test]
    fn other_content_is_refused_in_every_state() {
        for state in State::ALL {
            let found = row(state, Some(vec![7]));
            assert_eq!(decide(&found, |_| false), Decision::Refuse(Code::OtherContent), "{state}");
        }
    }
}
