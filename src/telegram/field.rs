//! A field: where it stands, what its bytes may be, and how a value gets into and out of them.
//!
//! Bytes are sliced first and decoded afterwards, so a lone lead byte at a field's end never swallows its neighbour.
//! Knows no roles' meaning and no transactions.

use serde::Deserialize;

use super::encoding::{Encoding, Undecodable};
use crate::limits::NUMBER_DIGITS_MAX;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum FieldType {
    /// Text, left aligned, padded with spaces.
    #[serde(rename = "X")]
    Text,
    /// Digits, right aligned, padded with zeros.
    #[serde(rename = "N")]
    Number,
    /// Bytes of no meaning, kept as they are.
    #[serde(rename = "F")]
    Filler,
}

/// What a header field means to the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The declared length.
    Length,
    /// The key of the ledger, or a part of it.
    Guid,
    /// The progress number beside the key.
    Hop,
    /// The transaction, or a part of its name.
    TxCode,
    /// Request or response.
    MsgType,
    /// The reply's code.
    RspCode,
    /// When the reply was made.
    RspTime,
    /// Who raised the code.
    ErrSys,
}

impl Role {
    /// The word, as a layout file writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Length => "length",
            Role::Guid => "guid",
            Role::Hop => "hop",
            Role::TxCode => "tx_code",
            Role::MsgType => "msg_type",
            Role::RspCode => "rsp_code",
            Role::RspTime => "rsp_time",
            Role::ErrSys => "err_sys",
        }
    }
}

/// Why a value does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// More bytes than the field has. Nothing is cut.
    #[error("{bytes} bytes are more than its limit of {limit}")]
    TooLong {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes of the field.
        limit: usize,
    },
    /// A character that the field's encoding does not have.
    #[error("character {at} of the value does not exist in {encoding}")]
    Unmappable {
        /// Its place in the value, from 1.
        at: usize,
        /// The field's encoding.
        encoding: Encoding,
    },
    /// A control character: it has no place in a fixed telegram.
    #[error("character {at} of the value is a control character")]
    Control {
        /// Its place in the value, from 1.
        at: usize,
    },
    /// A number with anything but 0-9 in it.
    #[error("the value is not a number of digits")]
    NotDigits,
}

/// A run of bytes in a telegram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub at: usize,
    pub length: usize,
}

impl Span {
    pub(super) const fn end(self) -> usize {
        self.at + self.length
    }

    /// The bytes of a telegram that is long enough.
    pub(super) fn of(self, telegram: &[u8]) -> &[u8] {
        &telegram[self.at..self.end()]
    }

    /// The same, for writing.
    pub(super) fn of_mut(self, telegram: &mut [u8]) -> &mut [u8] {
        &mut telegram[self.at..self.end()]
    }

    /// As many of its bytes as any telegram has.
    pub(super) fn present(self, telegram: &[u8]) -> &[u8] {
        let end = telegram.len().min(self.end());
        &telegram[self.at.min(end)..end]
    }
}

/// What a field does with a text that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnOverflow {
    /// Refuse it.
    #[default]
    Refuse,
    /// Cut it before the character that does not fit, and pad.
    Cut,
}

/// A field of a record, checked.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: String,
    /// Its bytes, counted from the telegram's first.
    pub span: Span,
    pub kind: FieldType,
    pub encoding: Encoding,
    /// The only bytes it may hold.
    pub fixed: Option<Vec<u8>>,
    /// Its bytes where a sender gives no value.
    pub default: Option<Vec<u8>>,
    pub sensitive: bool,
    pub role: Option<Role>,
    /// A number that may be all spaces.
    pub blank_ok: bool,
    pub on_overflow: OnOverflow,
}

/// What a field's bytes say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Text(String),
    Number(u64),
    /// An all-space number where the layout allows it.
    NoNumber,
    Filler,
}

/// Why a field's bytes say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadBytes {
    /// A number with anything but digits.
    Digits,
    /// No text in the field's encoding.
    Text(Undecodable),
    /// Not the layout's constant.
    Const,
}

impl Field {
    /// What `bytes`, exactly this field's, say.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Decoded, BadBytes> {
        self.check_fixed(bytes)?;
        match self.kind {
            FieldType::Filler => Ok(Decoded::Filler),
            FieldType::Number => self.decode_number(bytes),
            FieldType::Text => {
                let text = self.encoding.decode(bytes).map_err(BadBytes::Text)?;
                Ok(Decoded::Text(self.encoding.trim_padding(&text).to_owned()))
            }
        }
    }

    /// Whether `bytes` may stand in a header: constants and digits. Text there is carried, not read.
    pub(super) fn check_carried(&self, bytes: &[u8]) -> Result<(), BadBytes> {
        self.check_fixed(bytes)?;
        match self.kind {
            FieldType::Number => self.decode_number(bytes).map(|_| ()),
            FieldType::Text | FieldType::Filler => Ok(()),
        }
    }

    /// Writes `text` into `out`, exactly this field's bytes: text as text, a number as digits.
    pub(super) fn put(&self, text: &str, out: &mut [u8]) -> Result<(), Unfit> {
        match self.kind {
            FieldType::Text | FieldType::Filler => self.put_text(text, out),
            FieldType::Number if text.is_empty() && self.blank_ok => {
                out.fill(b' ');
                Ok(())
            }
            FieldType::Number => put_digits(text, out),
        }
    }

    /// Writes what stands for "nothing": zeros for a number, else spaces.
    pub(super) fn put_blank(&self, out: &mut [u8]) {
        out.fill(match self.kind {
            FieldType::Number => b'0',
            FieldType::Text | FieldType::Filler => b' ',
        });
    }

    fn check_fixed(&self, bytes: &[u8]) -> Result<(), BadBytes> {
        match &self.fixed {
            Some(fixed) if fixed != bytes => Err(BadBytes::Const),
            Some(_) | None => Ok(()),
        }
    }

    fn decode_number(&self, bytes: &[u8]) -> Result<Decoded, BadBytes> {
        match parse_digits(bytes) {
            Some(number) => Ok(Decoded::Number(number)),
            None if self.blank_ok && bytes.iter().all(|b| *b == b' ') => Ok(Decoded::NoNumber),
            None => Err(BadBytes::Digits),
        }
    }

    fn put_text(&self, text: &str, out: &mut [u8]) -> Result<(), Unfit> {
        out.fill(b' ');
        let limit = out.len();
        let mut bytes = 0;
        let mut room = limit;
        for (index, c) in text.chars().enumerate() {
            let encoded = self.encode_char(index + 1, c)?;
            let piece = encoded.as_slice();
            bytes += piece.len();
            if piece.len() <= room {
                let at = limit - room;
                out[at..at + piece.len()].copy_from_slice(piece);
                room -= piece.len();
            } else {
                // What follows is only counted: a shorter character behind the cut must not slip in.
                room = 0;
            }
        }
        match self.on_overflow {
            OnOverflow::Refuse if bytes > limit => Err(Unfit::TooLong { bytes, limit }),
            OnOverflow::Refuse | OnOverflow::Cut => Ok(()),
        }
    }

    fn encode_char(&self, at: usize, c: char) -> Result<super::encoding::CharBytes, Unfit> {
        if c.is_control() {
            return Err(Unfit::Control { at });
        }
        self.encoding.encode(c).ok_or(Unfit::Unmappable { at, encoding: self.encoding })
    }
}

/// The number that digits spell: the bytes 30-39 and nothing else. No sign, no blank: a parser that takes `+0000200` is
/// wrong.
pub(super) fn parse_digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > NUMBER_DIGITS_MAX {
        return None;
    }
    bytes.iter().try_fold(0_u64, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// Writes digits right aligned into `out`, zeros before them.
fn put_digits(digits: &str, out: &mut [u8]) -> Result<(), Unfit> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Unfit::NotDigits);
    }
    let limit = out.len();
    let pad =
        limit.checked_sub(digits.len()).ok_or(Unfit::TooLong { bytes: digits.len(), limit })?;
    out[..pad].fill(b'0');
    out[pad..].copy_from_slice(digits.as_bytes());
    Ok(())
}

/// Writes a number right aligned into `out`, zeros before it.
pub(super) fn put_number(number: u64, out: &mut [u8]) -> Result<(), Unfit> {
    let mut rest = number;
    for byte in out.iter_mut().rev() {
        *byte = b'0' + u8::try_from(rest % 10).expect("a digit is below 10");
        rest /= 10;
    }
    if rest == 0 {
        return Ok(());
    }
    let digits = usize::try_from(number.ilog10() + 1).expect("a u64 has at most 20 digits");
    Err(Unfit::TooLong { bytes: digits, limit: out.len() })
}

/// `bytes` in hex, for people.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String can't fail");
        text
    })
}
