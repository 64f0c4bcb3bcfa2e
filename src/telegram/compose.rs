//! Request telegrams made from values by name: for `oncegate send` and the demo, which play a channel.

use std::collections::BTreeMap;

use super::field::{Field, FieldType, Role, Unfit};
use super::framing::Size;
use super::layout::{Inner, Layout, Transaction};

/// Why values make no request telegram. The text holds no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The layout has no such transaction.
    #[error("tx code {tx_code:?} is none of this layout")]
    TxCode {
        /// What was asked for.
        tx_code: String,
    },
    /// A value for a field that is not there.
    #[error("there is no field {field:?} in a {tx_code} request")]
    NoField {
        /// The name that was given.
        field: String,
        /// The transaction.
        tx_code: String,
    },
    /// A value for a field whose bytes the layout computes.
    #[error("field {field} is set by the layout and takes no value")]
    Computed {
        /// Its name.
        field: String,
    },
    /// A number or a part of the key without value, const or default: it must not silently become zero.
    #[error("field {field} has no value")]
    Missing {
        /// Its name.
        field: String,
    },
    /// A value that its field can't hold.
    #[error("field {field}: {why}")]
    Unfit {
        /// Its name.
        field: String,
        /// Why not.
        why: Unfit,
    },
}

impl Layout {
    /// A request telegram from values by field name, header and body together. Length, tx code and `msg_type` (the first
    /// request value) are computed; a field without a value takes its const or default, else spaces or, in the header,
    /// zeros. A body's number must be given.
    pub fn encode_request(
        &self,
        tx_code: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, EncodeError> {
        let layout = &*self.0;
        let transaction = layout
            .transactions
            .iter()
            .find(|transaction| transaction.tx_code == tx_code)
            .ok_or_else(|| EncodeError::TxCode { tx_code: tx_code.to_owned() })?;
        check_names(layout, transaction, values)?;
        let mut telegram = vec![b' '; layout.telegram_bytes(&transaction.request)];
        for field in &layout.header.fields {
            put_header_field(field, values, field.span.of_mut(&mut telegram))?;
        }
        for field in &transaction.request.fields {
            put_body_field(field, values, field.span.of_mut(&mut telegram))?;
        }
        put_computed(layout, transaction, &mut telegram);
        Ok(telegram)
    }
}

fn check_names(
    layout: &Inner,
    transaction: &Transaction,
    values: &BTreeMap<String, String>,
) -> Result<(), EncodeError> {
    let header = &layout.header.fields;
    for name in values.keys() {
        let mut fields = header.iter().chain(&transaction.request.fields);
        let field = fields.find(|field| field.name == *name);
        let field = field.ok_or_else(|| EncodeError::NoField {
            field: name.clone(),
            tx_code: transaction.tx_code.clone(),
        })?;
        if is_computed(field) {
            return Err(EncodeError::Computed { field: name.clone() });
        }
    }
    Ok(())
}

fn is_computed(field: &Field) -> bool {
    let by_role = matches!(field.role, Some(Role::Length | Role::TxCode | Role::MsgType));
    by_role || field.fixed.is_some()
}

fn put_header_field(
    field: &Field,
    values: &BTreeMap<String, String>,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    match (put_given(field, values, out)?, field.role, field.kind) {
        (true, _, _) => {}
        (false, Some(Role::Guid), _) => {
            return Err(EncodeError::Missing { field: field.name.clone() });
        }
        (false, _, FieldType::Number) if field.blank_ok => out.fill(b' '),
        (false, _, _) => field.put_blank(out),
    }
    Ok(())
}

fn put_body_field(
    field: &Field,
    values: &BTreeMap<String, String>,
    out: &mut [u8],
) -> Result<(), EncodeError> {
    if !put_given(field, values, out)? {
        if field.kind == FieldType::Number && !field.blank_ok {
            return Err(EncodeError::Missing { field: field.name.clone() });
        }
        out.fill(b' ');
    }
    Ok(())
}

/// Writes the field's const, value or default; false if there is none of them.
fn put_given(
    field: &Field,
    values: &BTreeMap<String, String>,
    out: &mut [u8],
) -> Result<bool, EncodeError> {
    if let Some(fixed) = &field.fixed {
        out.copy_from_slice(fixed);
        return Ok(true);
    }
    match (values.get(&field.name), &field.default) {
        (Some(value), _) => field
            .put(value, out)
            .map(|()| true)
            .map_err(|why| EncodeError::Unfit { field: field.name.clone(), why }),
        (None, Some(default)) => {
            out.copy_from_slice(default);
            Ok(true)
        }
        (None, None) => Ok(false),
    }
}

fn put_computed(layout: &Inner, transaction: &Transaction, telegram: &mut [u8]) {
    let header = &layout.header;
    header.msg_type.of_mut(telegram).copy_from_slice(&header.request_types[0]);
    let mut key = &transaction.key[..];
    for span in &header.tx_code {
        let (part, rest) = key.split_at(span.length);
        span.of_mut(telegram).copy_from_slice(part);
        key = rest;
    }
    let end = &layout.framing.end;
    let at = telegram.len() - end.len();
    telegram[at..].copy_from_slice(end);
    if let Size::Declared(length) = &layout.framing.size {
        length.write(telegram, None);
    }
}
