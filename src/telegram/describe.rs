//! A telegram for people: every field with its bytes and what they say, whatever the bytes are.
//!
//! Never fails: what a ledger holds may have been written by anyone. What can't be told is said, field by field.

use super::encoding::Encoding;
use super::field::{BadBytes, Decoded, Field, FieldType, Role, Span};
use super::layout::{Inner, Layout, Record};

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In the header.
    Header,
    /// In the body.
    Body,
    /// The layout's end mark.
    End,
    /// In no record of the layout: bytes too many, or of an unknown transaction.
    Rest,
}

/// Why a field's bytes say nothing; in words that show no byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    /// The telegram ends too soon.
    #[error("{is} of its {should} bytes are there")]
    CutShort {
        /// Bytes that are there.
        is: usize,
        /// Bytes by the layout.
        should: usize,
    },
    /// Nobody looks at it, and it is no text.
    #[error("filler, kept as it is")]
    Filler,
    /// A number that is not set.
    #[error("blank")]
    Blank,
    /// A number that is none.
    #[error("not digits")]
    NotDigits,
    /// No text in the field's encoding, from this byte of the field on.
    #[error("no {encoding} text at byte {at}")]
    NotText {
        /// How it should be written.
        encoding: Encoding,
        /// The first byte that is not.
        at: usize,
    },
    /// Something else than the layout's constant.
    #[error("not the layout's constant")]
    NotTheConstant,
    /// Something else than the layout's end mark.
    #[error("not the layout's end mark")]
    NotTheEndMark,
    /// Bytes that belong to no field.
    #[error("no field of this layout")]
    NoField,
}

/// A field as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedField {
    /// Its name in the layout; `end` for the end mark, `rest` for bytes that belong to no field.
    pub name: String,
    /// Where it stands.
    pub part: Part,
    /// What it holds.
    pub kind: FieldType,
    /// How text in it is written.
    pub encoding: Encoding,
    /// Its first byte in the telegram, from 0.
    pub offset: usize,
    /// How many bytes it has by the layout.
    pub length: usize,
    /// The bytes that are there: fewer than `length` where the telegram ends too soon.
    pub bytes: Vec<u8>,
    /// What they say, padding trimmed; or why they say nothing.
    pub text: Result<String, NoText>,
    /// To be masked: bytes and text.
    pub sensitive: bool,
    /// What it means to the relay.
    pub role: Option<Role>,
}

impl Layout {
    /// All fields of any telegram, request or reply, in order and without a gap: their bytes, one after the other, are
    /// the telegram. Bytes that belong to no field count as sensitive, for they may be anything.
    #[must_use]
    pub fn describe(&self, bytes: &[u8]) -> Vec<DescribedField> {
        let layout = &*self.0;
        let mut described = describe_record(Part::Header, &layout.header.fields, bytes);
        let mut end = layout.header.length;
        if let Some(body) = body_record(layout, bytes) {
            described.extend(describe_record(Part::Body, &body.fields, bytes));
            end += body.length;
            let mark = Span { at: end, length: layout.framing.end.len() };
            if mark.length > 0 {
                described.push(describe_end(layout, mark, bytes));
                end = mark.end();
            }
        }
        if end < bytes.len() {
            described.push(describe_rest(layout, end, bytes));
        }
        described
    }
}

/// The record that stands behind the header; `None` if that can't be known.
fn body_record<'a>(layout: &'a Inner, bytes: &[u8]) -> Option<&'a Record> {
    if bytes.len() < layout.header.length {
        return None;
    }
    let transaction = layout.transaction_of(bytes)?;
    let response = layout.header.msg_type.of(bytes) == layout.header.response_type;
    Some(if response { &transaction.response } else { &transaction.request })
}

fn describe_record(part: Part, fields: &[Field], telegram: &[u8]) -> Vec<DescribedField> {
    fields
        .iter()
        .map(|field| {
            let bytes = field.span.present(telegram);
            DescribedField {
                name: field.name.clone(),
                part,
                kind: field.kind,
                encoding: field.encoding,
                offset: field.span.at,
                length: field.span.length,
                bytes: bytes.to_vec(),
                text: describe_text(field, bytes),
                sensitive: field.sensitive,
                role: field.role,
            }
        })
        .collect()
}

fn describe_text(field: &Field, bytes: &[u8]) -> Result<String, NoText> {
    if bytes.len() < field.span.length {
        return Err(NoText::CutShort { is: bytes.len(), should: field.span.length });
    }
    match field.decode(bytes) {
        Ok(Decoded::Text(text)) => Ok(text),
        Ok(Decoded::Number(number)) => Ok(number.to_string()),
        Ok(Decoded::NoNumber) => Ok(String::new()),
        Ok(Decoded::Filler) => match field.encoding.decode(bytes) {
            Ok(text) => Ok(field.encoding.trim_padding(&text).to_owned()),
            Err(_) => Err(NoText::Filler),
        },
        // A number in a reply's header or body may be blank before it is set; that is no news.
        Err(BadBytes::Digits) if bytes.iter().all(|b| *b == b' ') => Err(NoText::Blank),
        Err(BadBytes::Digits) => Err(NoText::NotDigits),
        Err(BadBytes::Text(bad)) => Err(NoText::NotText { encoding: bad.encoding, at: bad.at }),
        Err(BadBytes::Const) => Err(NoText::NotTheConstant),
    }
}

fn describe_end(layout: &Inner, mark: Span, telegram: &[u8]) -> DescribedField {
    let bytes = mark.present(telegram);
    let right = bytes == layout.framing.end;
    let said = || String::from_utf8_lossy(bytes).into_owned();
    let text = if right { Ok(said()) } else { Err(NoText::NotTheEndMark) };
    DescribedField {
        name: "end".to_owned(),
        part: Part::End,
        kind: FieldType::Text,
        encoding: Encoding::Ascii,
        offset: mark.at,
        length: mark.length,
        bytes: bytes.to_vec(),
        text,
        sensitive: false,
        role: None,
    }
}

fn describe_rest(layout: &Inner, at: usize, telegram: &[u8]) -> DescribedField {
    let bytes = telegram[at..].to_vec();
    DescribedField {
        name: "rest".to_owned(),
        part: Part::Rest,
        kind: FieldType::Filler,
        encoding: layout.encoding,
        offset: at,
        length: bytes.len(),
        bytes,
        text: Err(NoText::NoField),
        sensitive: true,
        role: None,
    }
}
