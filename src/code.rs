//! The codes of a reply, in order of precedence: what each means, what it leaves in the ledger, what the channel and the operator do.
//!
//! The README's table is checked against this file by a test.

use std::fmt;

use crate::state::State;

/// The code of a reply telegram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// E900: the telegram is malformed.
    Malformed,
    /// E904: the same GUID with other content.
    OtherContent,
    /// E906: it was done, and its answer has been purged.
    Purged,
    /// E903: it is being processed.
    InProgress,
    /// E907: the relay is full or stopping.
    Full,
    /// E909: the ledger can't record; nothing was sent.
    NoLedger,
    /// 0000: done.
    Done,
    /// The core's own four characters: refused, a result.
    Core(CoreCode),
    /// E905: refused by the core, which gave no code of its own.
    Refused,
    /// E901: the outcome is unknown.
    Unknown,
    /// E902: certainly not sent.
    NotSent,
}

/// Four printable ASCII characters of the core's, not `0000` and not `E9..`: those are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoreCode([u8; 4]);

impl CoreCode {
    /// `code`, if it may stand in a reply as the core's own.
    #[must_use]
    pub fn parse(code: &str) -> Option<CoreCode> {
        let four: [u8; 4] = code.as_bytes().try_into().ok()?;
        let printable = four.iter().all(u8::is_ascii_graphic);
        (printable && &four != b"0000" && !four.starts_with(b"E9")).then_some(CoreCode(four))
    }
}

/// Who raised a code: the reply's field with the role `err_sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No error.
    Nobody,
    /// The relay.
    Relay,
    /// The core.
    Core,
}

impl Code {
    /// Every code but the core's own, in order of precedence.
    pub const OURS: [Code; 10] = [
        Code::Malformed,
        Code::OtherContent,
        Code::Purged,
        Code::InProgress,
        Code::Full,
        Code::NoLedger,
        Code::Done,
        Code::Refused,
        Code::Unknown,
        Code::NotSent,
    ];

    /// The four characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Code::Malformed => "E900",
            Code::OtherContent => "E904",
            Code::Purged => "E906",
            Code::InProgress => "E903",
            Code::Full => "E907",
            Code::NoLedger => "E909",
            Code::Done => "0000",
            Code::Core(code) => std::str::from_utf8(&code.0).expect("printable ASCII is UTF-8"),
            Code::Refused => "E905",
            Code::Unknown => "E901",
            Code::NotSent => "E902",
        }
    }

    /// Who raised it.
    #[must_use]
    pub const fn origin(self) -> Origin {
        match self {
            Code::Done => Origin::Nobody,
            Code::Core(_) | Code::Refused => Origin::Core,
            Code::Malformed
            | Code::OtherContent
            | Code::Purged
            | Code::InProgress
            | Code::Full
            | Code::NoLedger
            | Code::Unknown
            | Code::NotSent => Origin::Relay,
        }
    }

    /// The state that a call with this result leaves in the ledger; `None` if the code records nothing.
    #[must_use]
    pub const fn records(self) -> Option<State> {
        match self {
            Code::Done | Code::Core(_) | Code::Refused => Some(State::Done),
            Code::Unknown => Some(State::Unknown),
            Code::NotSent => Some(State::Failed),
            Code::Malformed
            | Code::OtherContent
            | Code::Purged
            | Code::InProgress
            | Code::Full
            | Code::NoLedger => None,
        }
    }

    /// What it means, in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Code::Malformed => "the telegram is malformed",
            Code::OtherContent => "same GUID, other content",
            Code::Purged => "was done, and its answer has been purged",
            Code::InProgress => "being processed",
            Code::Full => "the relay is full or stopping; nothing was sent",
            Code::NoLedger => "the ledger can't record; nothing was sent",
            Code::Done => "done",
            Code::Core(_) => "refused by the core with its own code",
            Code::Refused => "refused by the core",
            Code::Unknown => "outcome unknown",
            Code::NotSent => "certainly not sent; not final",
        }
    }

    /// What the channel does on getting it.
    #[must_use]
    pub const fn channel_does(self) -> &'static str {
        match self {
            Code::Malformed => "corrects the telegram",
            Code::OtherContent => "corrects its GUIDs",
            Code::Purged => "asks the bank",
            Code::InProgress => "waits, sends the same telegram again",
            Code::Full | Code::NoLedger => "sends the same telegram again later",
            Code::Done | Code::Core(_) | Code::Refused => "nothing: this is final",
            Code::Unknown => "asks or waits; a resend gets E901 until it is settled",
            Code::NotSent => "may send the same GUID again, never a new GUID for the same transfer",
        }
    }

    /// What the operator does about it.
    #[must_use]
    pub const fn operator_does(self) -> &'static str {
        match self {
            Code::Malformed | Code::OtherContent => "talks to the channel's programmers",
            Code::Purged => "looks the GUID up in `history` and in the bank's own records",
            Code::InProgress => "nothing; an orphaned row turns UNKNOWN by itself",
            Code::Full => "raises `--max-in-flight`, or finds out why the core is slow",
            Code::NoLedger => "looks at the log: disk full, read-only, locked or moved ledger",
            Code::Done | Code::Core(_) | Code::Refused => "nothing",
            Code::Unknown => "`oncegate resolve`: asks the core, never sends",
            Code::NotSent => "`oncegate reprocess`: sends it again under the same GUID",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_may_not_use_our_codes() {
        for taken in ["0000", "E902", "E9ab", "C05", "C0512", "C 51", "", "한"] {
            assert_eq!(CoreCode::parse(taken), None, "{taken:?}");
        }
        assert_eq!(
            CoreCode::parse("C051").map(Code::Core).map(|c| c.to_string()),
            Some("C051".to_owned())
        );
    }

    #[test]
    fn every_code_of_ours_is_distinct() {
        let words: std::collections::HashSet<String> =
            Code::OURS.iter().map(Code::to_string).collect();
        assert_eq!(words.len(), Code::OURS.len());
    }
}
