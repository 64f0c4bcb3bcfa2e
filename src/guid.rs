//! The key of a transfer and the number of its attempt: two newtypes that must not be mixed with anything.
//!
//! Knows no layout and no ledger.

use std::fmt;

/// The GUID of a transfer without its padding: printable ASCII, no blanks, so it is safe in a URL path (percent-encoded) and on a screen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Guid(String);

/// Why bytes are no GUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGuid {
    /// Nothing but padding.
    #[error("the GUID is blank")]
    Blank,
    /// A byte that is no printable ASCII, or a blank inside.
    #[error("byte {byte:02x} at {at} of the GUID is no printable ASCII character (21-7e)")]
    Byte {
        /// Its place in the GUID, from 0.
        at: usize,
        /// The byte.
        byte: u8,
    },
}

impl Guid {
    /// The GUID in `bytes`, whose trailing spaces are padding.
    pub fn parse(bytes: &[u8]) -> Result<Guid, BadGuid> {
        let end = bytes.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
        if end == 0 {
            return Err(BadGuid::Blank);
        }
        match bytes[..end].iter().position(|b| !b.is_ascii_graphic()) {
            Some(at) => Err(BadGuid::Byte { at, byte: bytes[at] }),
            None => Ok(Guid(bytes[..end].iter().map(|b| char::from(*b)).collect())),
        }
    }

    /// A GUID as a ledger holds it. Another program may have written it, so it can be any text: a screen escapes it.
    #[must_use]
    pub fn from_ledger(text: String) -> Guid {
        Guid(text)
    }

    /// The text, without padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The number of an attempt at a transfer, from 1: the fencing token of every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt(pub i64);

impl Attempt {
    /// The attempt that a new GUID begins with.
    pub const FIRST: Attempt = Attempt(1);
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_no_part_of_it_and_blanks_inside_are_refused() {
        assert_eq!(Guid::parse(b"A-1/?   ").map(|g| g.to_string()), Ok("A-1/?".to_owned()));
        assert_eq!(Guid::parse(b"    "), Err(BadGuid::Blank));
        assert_eq!(Guid::parse(b""), Err(BadGuid::Blank));
        assert_eq!(Guid::parse(b" A1"), Err(BadGuid::Byte { at: 0, byte: b' ' }));
        assert_eq!(Guid::parse(b"A 1"), Err(BadGuid::Byte { at: 1, byte: b' ' }));
        assert_eq!(Guid::parse(b"\xb0\xa1"), Err(BadGuid::Byte { at: 0, byte: 0xb0 }));
        assert_eq!(Guid::parse(b"A\x7f"), Err(BadGuid::Byte { at: 1, byte: 0x7f }));
    }
}
