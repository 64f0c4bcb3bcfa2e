//! Records that no relay carries: files of fixed-length lines, such as Zengin transfers. The same fields, no header.

use std::collections::BTreeMap;
use std::path::Path;

use super::field::{BadBytes, Decoded, Field, FieldType, Unfit};
use super::file::{self, FileTable, LayoutError};
use super::layout::{Record, build_record};
use super::request::{Malformed, malformed_field};

/// The records of a layout file that has `[[record]]` tables.
#[derive(Clone, Debug)]
pub struct Records {
    name: String,
    records: Vec<(String, Record)>,
}

/// Why a record can't be read or written. The text holds no value of a sensitive field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The layout has no such record.
    #[error("there is no record {0:?}")]
    NoRecord(String),
    /// A value for a field that is not there.
    #[error("record {record} has no field {field:?}")]
    NoField {
        /// The record.
        record: String,
        /// The name that was given.
        field: String,
    },
    /// A number without value, const or default.
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
    /// A value other than the field's constant.
    #[error("field {field} has a constant")]
    NotConst {
        /// Its name.
        field: String,
    },
    /// Bytes of another length than the record's.
    #[error("{found_bytes} bytes, a {record} record has {expected_bytes}")]
    Size {
        /// The record.
        record: String,
        /// What came.
        found_bytes: usize,
        /// What the layout says.
        expected_bytes: usize,
    },
    /// A field's bytes say nothing.
    #[error("{0}")]
    Malformed(Malformed),
}

impl Records {
    /// The records that a file's text says.
    pub fn parse(toml: &str) -> Result<Records, LayoutError> {
        let file = file::parse(toml)?;
        let name = file.name.clone();
        build(file).map_err(|what| LayoutError::Refused { layout: name, what })
    }

    /// The records in a file.
    pub fn read(path: &Path) -> Result<Records, LayoutError> {
        Records::parse(&file::read(path)?)
    }

    /// The layout's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which record these bytes are: the first of this length whose constants they hold.
    #[must_use]
    pub fn recognise(&self, bytes: &[u8]) -> Option<&str> {
        let fits = |record: &Record| {
            record.length == bytes.len()
                && record.fields.iter().all(|field| {
                    field.fixed.as_deref().is_none_or(|fixed| fixed == field.span.of(bytes))
                })
        };
        self.records.iter().find(|(_, record)| fits(record)).map(|(name, _)| name.as_str())
    }

    /// A record's values by field name: text and filler without padding, numbers without leading zeros, empty where a
    /// number is blank.
    pub fn decode(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<BTreeMap<String, String>, RecordError> {
        let record = self.record(name)?;
        if bytes.len() != record.length {
            return Err(RecordError::Size {
                record: name.to_owned(),
                found_bytes: bytes.len(),
                expected_bytes: record.length,
            });
        }
        let value = |field: &Field| {
            let found = field.span.of(bytes);
            decode_value(field, found)
                .map(|value| (field.name.clone(), value))
                .map_err(|bad| RecordError::Malformed(malformed_field(field, found, bad)))
        };
        record.fields.iter().map(value).collect()
    }

    /// The bytes of a record with these values; what [`Records::decode`] gave makes the same bytes again.
    pub fn encode(
        &self,
        name: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, RecordError> {
        let record = self.record(name)?;
        if let Some(field) = values.keys().find(|key| !has_field(record, key)) {
            return Err(RecordError::NoField { record: name.to_owned(), field: field.clone() });
        }
        let mut bytes = vec![b' '; record.length];
        for field in &record.fields {
            let value = values.get(&field.name).map(String::as_str);
            put_value(field, value, field.span.of_mut(&mut bytes))?;
        }
        Ok(bytes)
    }

    fn record(&self, name: &str) -> Result<&Record, RecordError> {
        let mut records = self.records.iter();
        let found = records.find(|(its_name, _)| its_name == name);
        found.map(|(_, record)| record).ok_or_else(|| RecordError::NoRecord(name.to_owned()))
    }
}

fn build(file: FileTable) -> Result<Records, String> {
    if file.header.is_some() || file.framing.is_some() || !file.transaction.is_empty() {
        return Err("a file of records has no header, framing or transaction".to_owned());
    }
    if file.record.is_empty() {
        return Err("it has no [[record]]".to_owned());
    }
    let mut records: Vec<(String, Record)> = Vec::with_capacity(file.record.len());
    for table in file.record {
        let name = table.name;
        if records.iter().any(|(other, _)| *other == name) {
            return Err(format!("record {name} is there twice"));
        }
        let what = format!("record {name}");
        let record = build_record(&what, table.length, table.fields, file.encoding, 0)?;
        if let Some(field) = record.fields.iter().find(|field| field.role.is_some()) {
            return Err(format!("{what} field {}: a role stands in a header only", field.name));
        }
        records.push((name, record));
    }
    Ok(Records { name: file.name, records })
}

fn has_field(record: &Record, name: &str) -> bool {
    record.fields.iter().any(|field| field.name == name)
}

fn decode_value(field: &Field, bytes: &[u8]) -> Result<String, BadBytes> {
    match field.decode(bytes)? {
        Decoded::Text(text) => Ok(text),
        Decoded::Number(number) => Ok(number.to_string()),
        Decoded::NoNumber => Ok(String::new()),
        Decoded::Filler => {
            let text = field.encoding.decode(bytes).map_err(BadBytes::Text)?;
            Ok(text.trim_end_matches(' ').to_owned())
        }
    }
}

fn put_value(field: &Field, value: Option<&str>, out: &mut [u8]) -> Result<(), RecordError> {
    let name = || field.name.clone();
    match (value, &field.fixed, &field.default) {
        (None, Some(bytes), _) | (None, None, Some(bytes)) => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        (None, None, None) if field.kind == FieldType::Number && !field.blank_ok => {
            Err(RecordError::Missing { field: name() })
        }
        (None, None, None) => Ok(()),
        (Some(value), fixed, _) => {
            field.put(value, out).map_err(|why| RecordError::Unfit { field: name(), why })?;
            match fixed {
                Some(fixed) if fixed != out => Err(RecordError::NotConst { field: name() }),
                Some(_) | None => Ok(()),
            }
        }
    }
}
