//! Layout files: the TOML as it is written, before anything about it is checked.
//!
//! A key that is not listed here is refused with its line, so a typing error never becomes a default. What the keys mean
//! together is checked in `layout` and `records`.
//!
//! ```toml
//! name = "std128"
//! encoding = "cp949"                       # ascii, cp949, euc-kr, shift_jis, utf-8; a text field may override it
//! framing = { at = 0, digits = 8, counts = "after" }
//!     # counts: after (bytes after the field), all (the whole telegram), either
//!     # kind: ascii (default), u16be, u32be (no digits then: 2 or 4 bytes), or
//!     # kind = "fixed": no length at all, every telegram is as long as the records make it
//!     # adjust = -2: what to add to the declared length; end = "@@": a mark at the end of every telegram
//!
//! [header]
//! length = 128
//! msg_type = { request = ["S"], response = "R" }
//! fields = [ { name = "tgrm_len", length = 8, type = "N", role = "length" }, … ]
//!     # type: X text, N digits, F filler
//!     # const = "…": the only value; default = "…": a sender's value where none is given
//!     # sensitive = true; blank_ok = true (N); on_overflow = "cut" (X); encoding = "…" (X, F)
//!     # role (header only): length, guid, hop, tx_code, msg_type, rsp_code, rsp_time, err_sys
//!
//! [[transaction]]
//! tx_code = "TRF00100"
//! call = "/v1/transfers"                   # the core's call it stands for
//! amount = "amount"                        # which request field a screen shows as its amount; optional
//! request = { length = 80, fields = […] }
//! response = { length = 45, fields = […] }
//! ```
//!
//! A file of records that no relay carries has `[[record]]` tables (`name`, `length`, `fields`) instead of framing, header
//! and transactions.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::encoding::Encoding;
use super::field::{FieldType, OnOverflow, Role};
use crate::limits::LAYOUT_FILE_BYTES_MAX;

/// Why a layout can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The file can't be read.
    #[error("layout file {} can't be read", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is longer than any layout.
    #[error("layout file {} is longer than {limit} bytes", path.display())]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// It is no TOML, or a key or value is not one of a layout.
    #[error("layout line {line}: {what}")]
    Toml {
        /// From 1.
        line: usize,
        /// What the parser found.
        what: String,
    },
    /// What it says does not hold together.
    #[error("layout {layout}: {what}")]
    Refused {
        /// The layout's name.
        layout: String,
        /// The rule that is broken, with the values found.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTable {
    pub name: String,
    pub encoding: Encoding,
    pub framing: Option<FramingTable>,
    pub header: Option<HeaderTable>,
    #[serde(default)]
    pub transaction: Vec<TransactionTable>,
    #[serde(default)]
    pub record: Vec<NamedRecordTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FramingTable {
    #[serde(default)]
    pub kind: FramingKind,
    pub at: Option<usize>,
    pub digits: Option<usize>,
    pub counts: Option<Counts>,
    pub adjust: Option<i64>,
    pub end: Option<String>,
}

/// How the declared length is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum FramingKind {
    #[default]
    #[serde(rename = "ascii")]
    Ascii,
    #[serde(rename = "u16be")]
    U16be,
    #[serde(rename = "u32be")]
    U32be,
    #[serde(rename = "fixed")]
    Fixed,
}

/// What the declared length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counts {
    After,
    All,
    Either,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderTable {
    pub length: usize,
    pub msg_type: MsgTypeTable,
    pub fields: Vec<FieldTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MsgTypeTable {
    pub request: Vec<String>,
    pub response: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransactionTable {
    pub tx_code: String,
    pub call: String,
    pub amount: Option<String>,
    pub request: RecordTable,
    pub response: RecordTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordTable {
    pub length: usize,
    pub fields: Vec<FieldTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedRecordTable {
    pub name: String,
    pub length: usize,
    pub fields: Vec<FieldTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldTable {
    pub name: String,
    pub length: usize,
    #[serde(rename = "type")]
    pub kind: FieldType,
    pub encoding: Option<Encoding>,
    #[serde(rename = "const")]
    pub fixed: Option<String>,
    pub default: Option<String>,
    #[serde(default)]
    pub sensitive: bool,
    pub role: Option<Role>,
    #[serde(default)]
    pub blank_ok: bool,
    #[serde(default)]
    pub on_overflow: OnOverflow,
}

/// The text of a layout file.
pub(super) fn read(path: &Path) -> Result<String, LayoutError> {
    let limit = LAYOUT_FILE_BYTES_MAX;
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_string(&mut text))
        .map_err(|source| LayoutError::Read { path: path.to_owned(), source })?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes <= limit) {
        Ok(text)
    } else {
        Err(LayoutError::TooLong { path: path.to_owned(), limit })
    }
}

/// The tables of a layout file.
pub(super) fn parse(text: &str) -> Result<FileTable, LayoutError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
        LayoutError::Toml { line, what: error.message().replace('\n', " ") }
    })
}
