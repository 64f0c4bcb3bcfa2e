//! The encodings of text fields: bytes to text and back, strictly.
//!
//! Invariants: nothing is replaced in either direction, and a character that is written reads back as itself. Knows no
//! fields: lengths, padding and errors with a field's name are `field`'s.

use std::borrow::Cow;
use std::fmt;

use encoding_rs::{DecoderResult, EUC_KR, EncoderResult, SHIFT_JIS};
use serde::Deserialize;

/// The longest character of any encoding here: four bytes of UTF-8.
const CHAR_BYTES_MAX: usize = 4;

/// How the bytes of a text field spell text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Encoding {
    /// Bytes 00-7f.
    #[serde(rename = "ascii")]
    Ascii,
    /// Windows-949, the everyday "EUC-KR".
    #[serde(rename = "cp949")]
    Cp949,
    /// Strict KS X 1001: Windows-949 without its extension.
    #[serde(rename = "euc-kr")]
    EucKr,
    /// CP932.
    #[serde(rename = "shift_jis")]
    ShiftJis,
    /// UTF-8.
    #[serde(rename = "utf-8")]
    Utf8,
}

/// Bytes that spell no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{length} byte(s) at {at} are no {encoding} text")]
pub struct Undecodable {
    /// Where the first bad sequence begins, from 0.
    pub at: usize,
    /// How many bytes it has.
    pub length: usize,
    /// The encoding they were read in.
    pub encoding: Encoding,
}

/// One character's bytes.
#[derive(Clone, Copy)]
pub(super) struct CharBytes {
    bytes: [u8; CHAR_BYTES_MAX],
    length: usize,
}

impl CharBytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Encoding {
    /// Every encoding, in the order in which a screen offers them.
    pub const ALL: [Encoding; 5] =
        [Encoding::Ascii, Encoding::Cp949, Encoding::EucKr, Encoding::ShiftJis, Encoding::Utf8];

    /// The name, as a layout file writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Ascii => "ascii",
            Encoding::Cp949 => "cp949",
            Encoding::EucKr => "euc-kr",
            Encoding::ShiftJis => "shift_jis",
            Encoding::Utf8 => "utf-8",
        }
    }

    /// The text that all of `bytes` spell, padding included.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>, Undecodable> {
        if bytes.is_ascii() {
            return Ok(String::from_utf8_lossy(bytes));
        }
        match self {
            Encoding::Ascii => Err(self.bad(bytes.iter().position(|b| !b.is_ascii()), 1)),
            Encoding::Cp949 => self.decode_table(EUC_KR, bytes),
            Encoding::EucKr => {
                self.refuse_extension(bytes)?;
                self.decode_table(EUC_KR, bytes)
            }
            Encoding::ShiftJis => self.decode_table(SHIFT_JIS, bytes),
            Encoding::Utf8 => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
                let rest = bytes.len() - error.valid_up_to();
                self.bad(Some(error.valid_up_to()), error.error_len().unwrap_or(rest))
            }),
        }
    }

    /// `text` without the padding at its end: blanks, and in double-byte encodings the double-byte blank. It works on
    /// characters, so an `a1` that ends one is never taken for half a blank.
    #[must_use]
    pub fn trim_padding(self, text: &str) -> &str {
        match self {
            Encoding::Ascii | Encoding::Utf8 => text.trim_end_matches(' '),
            Encoding::Cp949 | Encoding::EucKr | Encoding::ShiftJis => {
                text.trim_end_matches([' ', '\u{3000}'])
            }
        }
    }

    /// The bytes of one character; `None` if the encoding has none that read back as this character.
    pub(super) fn encode(self, c: char) -> Option<CharBytes> {
        let mut utf8 = [0; CHAR_BYTES_MAX];
        let text = c.encode_utf8(&mut utf8);
        let length = text.len();
        match self {
            _ if c.is_ascii() => Some(CharBytes { bytes: utf8, length }),
            Encoding::Utf8 => Some(CharBytes { bytes: utf8, length }),
            Encoding::Ascii => None,
            Encoding::Cp949 => encode_table(EUC_KR, text),
            Encoding::EucKr => encode_table(EUC_KR, text)
                .filter(|bytes| self.refuse_extension(bytes.as_slice()).is_ok()),
            Encoding::ShiftJis => encode_table(SHIFT_JIS, text),
        }
    }

    fn decode_table<'a>(
        self,
        table: &'static encoding_rs::Encoding,
        bytes: &'a [u8],
    ) -> Result<Cow<'a, str>, Undecodable> {
        table
            .decode_without_bom_handling_and_without_replacement(bytes)
            .ok_or_else(|| self.first_bad(table, bytes))
    }

    /// Where decoding first failed. Only the error's path comes here.
    fn first_bad(self, table: &'static encoding_rs::Encoding, bytes: &[u8]) -> Undecodable {
        let mut decoder = table.new_decoder_without_bom_handling();
        let mut text = vec![0; bytes.len() * CHAR_BYTES_MAX + CHAR_BYTES_MAX];
        let (result, read, _) = decoder.decode_to_utf8_without_replacement(bytes, &mut text, true);
        match result {
            DecoderResult::Malformed(bad, after) => {
                let length = usize::from(bad);
                self.bad(read.checked_sub(length + usize::from(after)), length)
            }
            DecoderResult::InputEmpty | DecoderResult::OutputFull => self.bad(None, bytes.len()),
        }
    }

    /// KS X 1001 has its characters where both bytes are a1-fe; Windows-949 put 8822 more syllables around them.
    fn refuse_extension(self, bytes: &[u8]) -> Result<(), Undecodable> {
        let mut at = 0;
        while let Some(&lead) = bytes.get(at) {
            if lead.is_ascii() {
                at += 1;
                continue;
            }
            let pair = &bytes[at..bytes.len().min(at + 2)];
            if pair.len() < 2 || pair.iter().any(|b| !(0xa1..=0xfe).contains(b)) {
                return Err(self.bad(Some(at), pair.len()));
            }
            at += 2;
        }
        Ok(())
    }

    fn bad(self, at: Option<usize>, length: usize) -> Undecodable {
        Undecodable { at: at.unwrap_or(0), length, encoding: self }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The bytes of one character outside ASCII. `encoding_rs` follows the web: it would write `&#128512;` for what it can't
/// map, and 5c for a yen sign. Both are refused here: what is written reads back as the same character.
fn encode_table(table: &'static encoding_rs::Encoding, text: &str) -> Option<CharBytes> {
    let mut bytes = [0; CHAR_BYTES_MAX];
    let (result, _, length) =
        table.new_encoder().encode_from_utf8_without_replacement(text, &mut bytes, true);
    let whole = result == EncoderResult::InputEmpty;
    let back = table.decode_without_bom_handling_and_without_replacement(&bytes[..length])?;
    (whole && back == text).then_some(CharBytes { bytes, length })
}
