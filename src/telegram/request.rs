//! A request: a telegram that passed every rule of its layout, and why one did not.
//!
//! Invariant: a [`Request`] is well-formed, so the rest of the program never looks at its bytes. Error texts go to the log
//! and never hold what a sensitive field holds.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::encoding::Encoding;
use super::field::{BadBytes, Decoded, Field, Span, hex};
use super::framing::{Reading, Size};
use super::layout::{Header, Inner, Layout, Record, Transaction};
use crate::guid::{BadGuid, Guid};
use crate::limits::FOUND_BYTES_MAX;

/// A request telegram that decoded. Cloning it copies its bytes.
#[derive(Clone)]
pub struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) transaction: Arc<Transaction>,
    pub(super) reading: Option<Reading>,
    guid: Guid,
    fields: Map<String, Value>,
    layout: Layout,
}

/// Bytes as an error shows them: in hex, the first few, and none of a sensitive field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found(Option<Vec<u8>>);

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A number field with anything but 30-39.
    #[error("{0} are not digits")]
    NotDigits(Found),
    /// Bytes that are no text in the field's encoding.
    #[error("{found} are no {encoding} text")]
    NotText {
        /// The encoding.
        encoding: Encoding,
        /// The first bad sequence.
        found: Found,
    },
    /// Other bytes than the layout's constant.
    #[error("{0} are not the layout's constant")]
    NotConst(Found),
    /// A declared length that is not the telegram's.
    #[error("it declares {declared}, which is wrong for a telegram of {telegram_bytes} bytes")]
    Length {
        /// The number declared.
        declared: u64,
        /// What came.
        telegram_bytes: usize,
    },
    /// No transaction of the layout.
    #[error("{0} name no transaction of this layout")]
    TxCode(Found),
    /// No request value.
    #[error("{0} are no request value")]
    MsgType(Found),
    /// A key that can't be one.
    #[error("{0}")]
    Guid(BadGuid),
    /// A key that can't be one, in a field whose bytes are not told.
    #[error("it is blank or not printable ASCII without blanks")]
    SensitiveGuid,
}

/// Why bytes are no request of this layout: E900.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not even a header: no reply can be built.
    #[error("{telegram_bytes} bytes are shorter than the header of {header_bytes}")]
    NoHeader {
        /// What came.
        telegram_bytes: usize,
        /// What a header has.
        header_bytes: usize,
    },
    /// A field's bytes.
    #[error("field {field} at offset {offset}: {wrong}")]
    Field {
        /// Its name.
        field: String,
        /// Where it stands in the telegram; where text can't be decoded, where that begins.
        offset: usize,
        /// What is wrong with it.
        wrong: Wrong,
    },
    /// Longer or shorter than its transaction says.
    #[error("{telegram_bytes} bytes, a {tx_code} request has {expected_bytes}")]
    Size {
        /// The transaction.
        tx_code: String,
        /// What came.
        telegram_bytes: usize,
        /// What its transaction says.
        expected_bytes: usize,
    },
    /// The end mark is missing.
    #[error("end mark at offset {offset}: {found} instead of {}", hex(expected))]
    End {
        /// Where it should stand.
        offset: usize,
        /// What stands there.
        found: Found,
        /// The layout's end mark.
        expected: Vec<u8>,
    },
}

impl Request {
    /// The key of the transfer, without padding.
    #[must_use]
    pub fn guid(&self) -> &Guid {
        &self.guid
    }

    /// The code of its transaction, without padding.
    #[must_use]
    pub fn tx_code(&self) -> &str {
        &self.transaction.tx_code
    }

    /// The telegram as it came.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The fields of its body but filler, by name: text without its padding, numbers as integers, `null` for a blank
    /// number where the layout allows one.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The path of the core's call that its transaction stands for.
    #[must_use]
    pub fn call(&self) -> &str {
        &self.transaction.call
    }

    /// The field that its transaction names as the amount, for screens; none if that field is to be masked.
    #[must_use]
    pub fn amount(&self) -> Option<u64> {
        let name = self.transaction.amount.as_deref()?;
        let field = self.transaction.request.fields.iter().find(|field| field.name == name)?;
        if field.sensitive {
            return None;
        }
        self.fields.get(name).and_then(Value::as_u64)
    }

    /// Whether `other` asks for the same: the tx code and the body's bytes, not the header.
    #[must_use]
    pub fn same_content(&self, other: &Request) -> bool {
        self.layout.same_content(self, &other.bytes)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("guid", &self.guid)
            .field("tx_code", &self.transaction.tx_code)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Layout {
    /// The request that `bytes`, one framed telegram, are. Nothing is read past its end, and every rule of the layout
    /// holds for what is returned.
    pub fn decode_request(&self, bytes: &[u8]) -> Result<Request, Malformed> {
        let Inner { header, framing, .. } = &*self.0;
        if bytes.len() < header.length {
            return Err(Malformed::NoHeader {
                telegram_bytes: bytes.len(),
                header_bytes: header.length,
            });
        }
        check_header(header, bytes)?;
        let reading = check_length(&self.0, bytes)?;
        let transaction = self
            .0
            .transaction_of(bytes)
            .ok_or_else(|| header.malformed(&header.tx_code, bytes, Wrong::TxCode))?;
        check_msg_type(header, bytes)?;
        check_size(&self.0, transaction, bytes)?;
        check_end(&framing.end, bytes)?;
        let guid = decode_guid(header, bytes)?;
        let fields = decode_fields(&transaction.request, bytes)?;
        let (transaction, layout) = (Arc::clone(transaction), self.clone());
        Ok(Request { bytes: bytes.to_vec(), transaction, reading, guid, fields, layout })
    }

    /// Whether a telegram of the ledger's asks for the same as `request`. It may be anything; junk asks for nothing.
    #[must_use]
    pub fn same_content(&self, request: &Request, stored: &[u8]) -> bool {
        let header = &self.0.header;
        request.bytes.len() == stored.len()
            && header.tx_code.iter().all(|span| span.of(&request.bytes) == span.of(stored))
            && request.bytes[header.length..] == stored[header.length..]
    }
}

impl Header {
    /// The field that begins where the first of `spans` does.
    fn field_at(&self, spans: &[Span]) -> Option<&Field> {
        self.fields.iter().find(|field| Some(&field.span) == spans.first())
    }

    /// The error of a role's bytes, named by its first field.
    fn malformed(&self, spans: &[Span], bytes: &[u8], wrong: fn(Found) -> Wrong) -> Malformed {
        let field = self.field_at(spans).expect("a role's span is a field's");
        let sensitive = self.any_sensitive(spans);
        let found = if sensitive { Found(None) } else { Found::of(&gather(spans, bytes)) };
        Malformed::Field { field: field.name.clone(), offset: field.span.at, wrong: wrong(found) }
    }

    fn any_sensitive(&self, spans: &[Span]) -> bool {
        self.fields.iter().any(|field| field.sensitive && spans.contains(&field.span))
    }
}

fn check_header(header: &Header, bytes: &[u8]) -> Result<(), Malformed> {
    header.checked.iter().map(|index| &header.fields[*index]).try_for_each(|field| {
        let found = field.span.of(bytes);
        field.check_carried(found).map_err(|bad| malformed_field(field, found, bad))
    })
}

fn check_length(layout: &Inner, bytes: &[u8]) -> Result<Option<Reading>, Malformed> {
    let Size::Declared(length) = &layout.framing.size else { return Ok(None) };
    if let Some(reading) = length.reading_of(bytes) {
        return Ok(Some(reading));
    }
    let declared = length.declared(bytes).expect("the header's digits were looked at first");
    let wrong = Wrong::Length { declared, telegram_bytes: bytes.len() };
    let field = layout.header.field_at(&[length.span]).expect("the layout checked that it is one");
    Err(Malformed::Field { field: field.name.clone(), offset: field.span.at, wrong })
}

fn check_msg_type(header: &Header, bytes: &[u8]) -> Result<(), Malformed> {
    let found = header.msg_type.of(bytes);
    if header.request_types.iter().any(|value| value == found) {
        return Ok(());
    }
    Err(header.malformed(&[header.msg_type], bytes, Wrong::MsgType))
}

fn check_size(layout: &Inner, transaction: &Transaction, bytes: &[u8]) -> Result<(), Malformed> {
    let expected_bytes = layout.telegram_bytes(&transaction.request);
    if bytes.len() == expected_bytes {
        return Ok(());
    }
    let tx_code = transaction.tx_code.clone();
    Err(Malformed::Size { tx_code, telegram_bytes: bytes.len(), expected_bytes })
}

fn check_end(end: &[u8], bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.ends_with(end) {
        return Ok(());
    }
    let offset = bytes.len() - end.len();
    Err(Malformed::End { offset, found: Found::of(&bytes[offset..]), expected: end.to_vec() })
}

fn decode_guid(header: &Header, bytes: &[u8]) -> Result<Guid, Malformed> {
    let guid = match header.guid[..] {
        [span] => Guid::parse(span.of(bytes)),
        ref several => Guid::parse(&gather(several, bytes)),
    };
    guid.map_err(|bad| {
        let field = header.field_at(&header.guid).expect("a role's span is a field's");
        let sensitive = header.any_sensitive(&header.guid);
        let wrong = if sensitive { Wrong::SensitiveGuid } else { Wrong::Guid(bad) };
        Malformed::Field { field: field.name.clone(), offset: field.span.at, wrong }
    })
}

fn decode_fields(record: &Record, bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
    let mut fields = Map::with_capacity(record.fields.len());
    for field in &record.fields {
        let found = field.span.of(bytes);
        let value = match field.decode(found) {
            Ok(Decoded::Text(text)) => Value::from(text),
            Ok(Decoded::Number(number)) => Value::from(number),
            Ok(Decoded::NoNumber) => Value::Null,
            Ok(Decoded::Filler) => continue,
            Err(bad) => return Err(malformed_field(field, found, bad)),
        };
        fields.insert(field.name.clone(), value);
    }
    Ok(fields)
}

/// The error of a field whose bytes are `found`.
pub(super) fn malformed_field(field: &Field, found: &[u8], bad: BadBytes) -> Malformed {
    let show = |bytes| if field.sensitive { Found(None) } else { Found::of(bytes) };
    let mut offset = field.span.at;
    let wrong = match bad {
        BadBytes::Digits => Wrong::NotDigits(show(found)),
        BadBytes::Const => Wrong::NotConst(show(found)),
        BadBytes::Text(bad) => {
            if !field.sensitive {
                offset += bad.at;
            }
            Wrong::NotText {
                encoding: bad.encoding,
                found: show(&found[bad.at..bad.at + bad.length]),
            }
        }
    };
    Malformed::Field { field: field.name.clone(), offset, wrong }
}

/// The bytes at `spans`, one after the other.
fn gather(spans: &[Span], bytes: &[u8]) -> Vec<u8> {
    spans.iter().flat_map(|span| span.of(bytes)).copied().collect()
}

impl Found {
    fn of(bytes: &[u8]) -> Found {
        Found(Some(bytes[..bytes.len().min(FOUND_BYTES_MAX)].to_vec()))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => write!(f, "bytes {}", hex(bytes)),
            None => f.write_str("its bytes (sensitive)"),
        }
    }
}
