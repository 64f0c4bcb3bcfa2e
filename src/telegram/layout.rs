//! A layout: the tables of one kind of telegram, checked when they are read.
//!
//! Invariant: what a [`Layout`] holds adds up. Fields fill their records without a gap, roles and framing agree, every
//! record's length can be declared. So nothing behind this file has to ask again.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::encoding::Encoding;
use super::field::{Field, FieldType, OnOverflow, Role, Span};
use super::file::{self, FieldTable, FileTable, HeaderTable, LayoutError, TransactionTable};
use super::framing::{Framer, Framing};
use crate::limits::{NUMBER_DIGITS_MAX, TELEGRAM_BYTES_MAX};

const STD128: &str = include_str!("../../assets/layouts/std128.toml");

/// The keys that the core's JSON has beside the fields of a request.
const RESERVED_NAMES: [&str; 2] = ["guid", "tx_code"];

/// `YYYYMMDDhhmmss`, without or with milliseconds: the lengths that a response time may have.
const RSP_TIME_LENGTHS: [usize; 2] = [14, 17];

/// What a telegram's bytes mean. Cloning it is cheap.
#[derive(Clone)]
pub struct Layout(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub name: String,
    pub encoding: Encoding,
    pub framing: Framing,
    pub header: Header,
    /// At least one.
    pub transactions: Vec<Arc<Transaction>>,
}

/// The header's fields, and where the roles stand in it.
pub(super) struct Header {
    pub length: usize,
    pub fields: Vec<Field>,
    /// The fields that decoding has to look at: numbers and constants.
    pub checked: Vec<usize>,
    pub guid: Vec<Span>,
    pub tx_code: Vec<Span>,
    pub hop: Option<Span>,
    pub msg_type: Span,
    pub rsp_code: Span,
    pub rsp_time: Option<Span>,
    pub err_sys: Option<Span>,
    /// The bytes of `msg_type` that mark a request. The first is what we send.
    pub request_types: Vec<Vec<u8>>,
    pub response_type: Vec<u8>,
}

/// One kind of request and its response.
pub(super) struct Transaction {
    pub tx_code: String,
    /// The bytes of the `tx_code` fields, one after the other.
    pub key: Vec<u8>,
    pub call: String,
    pub amount: Option<String>,
    pub request: Record,
    pub response: Record,
    /// The response body of a reply that carries an error.
    pub blank_response: Vec<u8>,
}

/// Fields that fill a run of bytes.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub length: usize,
    pub fields: Vec<Field>,
}

impl Record {
    /// Its bytes with nothing in them: spaces and zeros.
    pub(super) fn blank(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        for field in &self.fields {
            let at = bytes.len();
            bytes.resize(at + field.span.length, b' ');
            field.put_blank(&mut bytes[at..]);
        }
        bytes
    }
}

impl Layout {
    /// The layout that is compiled in.
    ///
    /// # Panics
    /// Never: a test reads the same text.
    #[must_use]
    pub fn std128() -> Layout {
        Layout::parse(STD128).expect("the layout compiled in is well-formed")
    }

    /// The layout that a file's text says.
    pub fn parse(toml: &str) -> Result<Layout, LayoutError> {
        let file = file::parse(toml)?;
        let name = file.name.clone();
        let refuse = |what| LayoutError::Refused { layout: name, what };
        build(file).map(|inner| Layout(Arc::new(inner))).map_err(refuse)
    }

    /// The layout in a file.
    pub fn read(path: &Path) -> Result<Layout, LayoutError> {
        Layout::parse(&file::read(path)?)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The encoding of its text fields, where a field does not say otherwise.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.0.encoding
    }

    /// The tx codes it knows, in the file's order.
    pub fn tx_codes(&self) -> impl Iterator<Item = &str> {
        self.0.transactions.iter().map(|transaction| transaction.tx_code.as_str())
    }

    /// Cuts a stream of this layout's telegrams, requests or replies, none longer than `telegram_bytes_max`.
    #[must_use]
    pub fn framer(&self, telegram_bytes_max: usize) -> Framer {
        Framer::new(self.0.framing.clone(), telegram_bytes_max)
    }
}

impl Inner {
    /// The transaction that a telegram, at least a header long, names.
    pub(super) fn transaction_of(&self, telegram: &[u8]) -> Option<&Arc<Transaction>> {
        self.transactions
            .iter()
            .find(|transaction| spells(&self.header.tx_code, telegram, &transaction.key))
    }

    /// Bytes of a whole telegram with this body.
    pub(super) fn telegram_bytes(&self, body: &Record) -> usize {
        self.header.length + body.length + self.framing.end.len()
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layout").field(&self.0.name).finish()
    }
}

/// Whether the bytes at `spans`, one after the other, are `key`.
fn spells(spans: &[Span], telegram: &[u8], key: &[u8]) -> bool {
    let mut rest = key;
    for span in spans {
        match rest.strip_prefix(span.of(telegram)) {
            Some(left) => rest = left,
            None => return false,
        }
    }
    rest.is_empty()
}

/// What a layout's rules say about a file's tables; the error is the broken rule.
type Checked<T> = Result<T, String>;

fn build(file: FileTable) -> Checked<Inner> {
    let Some(header) = file.header else {
        return Err("it has no header: a relay can't carry its telegrams".to_owned());
    };
    if !file.record.is_empty() {
        return Err("a layout with a header has transactions and no [[record]]".to_owned());
    }
    let framing = file.framing.ok_or("framing is missing")?;
    let (header, length) = build_header(header, file.encoding)?;
    let transactions = build_transactions(file.transaction, file.encoding, &header)?;
    let framing = Framing::build(&framing, length.as_ref(), &header, &transactions)?;
    Ok(Inner { name: file.name, encoding: file.encoding, framing, header, transactions })
}

/// The header, and the field with the role `length`.
fn build_header(table: HeaderTable, encoding: Encoding) -> Checked<(Header, Option<Field>)> {
    let record = build_record("header", table.length, table.fields, encoding, 0)?;
    for field in &record.fields {
        check_role(field)?;
    }
    let roles = |role| record.fields.iter().filter(move |field| field.role == Some(role));
    let spans = |role| roles(role).map(|field| field.span).collect::<Vec<_>>();
    let one = |role: Role| match spans(role)[..] {
        [] => Ok(None),
        [span] => Ok(Some(span)),
        [..] => Err(format!("role {} is given to more than one header field", role.as_str())),
    };
    let needed = |role: Role| {
        one(role)?.ok_or_else(|| format!("no header field has the role {}", role.as_str()))
    };
    one(Role::Length)?;
    let length = roles(Role::Length).next().cloned();
    let (guid, tx_code) = (spans(Role::Guid), spans(Role::TxCode));
    if guid.is_empty() || tx_code.is_empty() {
        let role = if guid.is_empty() { Role::Guid } else { Role::TxCode };
        return Err(format!("no header field has the role {}", role.as_str()));
    }
    let msg_type = needed(Role::MsgType)?;
    let typed = roles(Role::MsgType).next().expect("needed() found it");
    let (request_types, response_type) = msg_types(typed, &table.msg_type)?;
    let (hop, rsp_code) = (one(Role::Hop)?, needed(Role::RspCode)?);
    let (rsp_time, err_sys) = (one(Role::RspTime)?, one(Role::ErrSys)?);
    let header = Header {
        length: record.length,
        checked: checked(&record.fields),
        fields: record.fields,
        guid,
        tx_code,
        hop,
        msg_type,
        rsp_code,
        rsp_time,
        err_sys,
        request_types,
        response_type,
    };
    Ok((header, length))
}

fn checked(fields: &[Field]) -> Vec<usize> {
    let looked_at = |field: &Field| field.kind == FieldType::Number || field.fixed.is_some();
    (0..fields.len()).filter(|index| looked_at(&fields[*index])).collect()
}

/// What a header field's role asks of it.
fn check_role(field: &Field) -> Checked<()> {
    let Some(role) = field.role else { return Ok(()) };
    let (name, length, kind) = (&field.name, field.span.length, field.kind);
    let text = kind == FieldType::Text;
    let wrong = match role {
        Role::Hop if kind != FieldType::Number => Some("needs type N".to_owned()),
        Role::Guid | Role::TxCode | Role::MsgType if kind == FieldType::Filler => {
            Some("needs type X or N".to_owned())
        }
        Role::RspCode if !text || length < 4 => {
            Some(format!("needs type X and at least 4 bytes, and has {length}"))
        }
        Role::ErrSys if !text || length < 3 => {
            Some(format!("needs type X and at least 3 bytes, and has {length}"))
        }
        Role::RspTime if kind == FieldType::Filler || !RSP_TIME_LENGTHS.contains(&length) => {
            Some(format!("needs 14 or 17 bytes of type X or N, and has {length}"))
        }
        _ if field.fixed.is_some() => Some("is set by the relay and takes no const".to_owned()),
        Role::Length | Role::TxCode | Role::MsgType if field.default.is_some() => {
            Some("is computed and takes no default".to_owned())
        }
        Role::Length
        | Role::Guid
        | Role::Hop
        | Role::TxCode
        | Role::MsgType
        | Role::RspCode
        | Role::RspTime
        | Role::ErrSys => None,
    };
    match wrong {
        Some(why) => Err(format!("header field {name}: role {} {why}", role.as_str())),
        None => Ok(()),
    }
}

fn msg_types(field: &Field, table: &file::MsgTypeTable) -> Checked<(Vec<Vec<u8>>, Vec<u8>)> {
    let bytes = |value: &String| exact(field, value).map_err(|why| format!("msg_type {why}"));
    let requests = table.request.iter().map(bytes).collect::<Checked<Vec<_>>>()?;
    let response = bytes(&table.response)?;
    if requests.is_empty() {
        return Err("msg_type names no request value".to_owned());
    }
    if requests.contains(&response) {
        return Err(format!("msg_type {:?} is a request and the response", table.response));
    }
    Ok((requests, response))
}

fn build_transactions(
    tables: Vec<TransactionTable>,
    encoding: Encoding,
    header: &Header,
) -> Checked<Vec<Arc<Transaction>>> {
    if tables.is_empty() {
        return Err("it has no transaction".to_owned());
    }
    let mut seen = HashSet::new();
    let mut transactions = Vec::with_capacity(tables.len());
    for table in tables {
        let tx_code = table.tx_code.clone();
        if !seen.insert(tx_code.clone()) {
            return Err(format!("tx code {tx_code:?} is there twice"));
        }
        let transaction = build_transaction(table, encoding, header)
            .map_err(|why| format!("transaction {tx_code}: {why}"))?;
        transactions.push(Arc::new(transaction));
    }
    Ok(transactions)
}

fn build_transaction(
    table: TransactionTable,
    encoding: Encoding,
    header: &Header,
) -> Checked<Transaction> {
    let key = tx_code_key(&table.tx_code, header)?;
    check_call(&table.call)?;
    let (request, response) = (table.request, table.response);
    let base = header.length;
    let request = build_record("request", request.length, request.fields, encoding, base)?;
    let response = build_record("response", response.length, response.fields, encoding, base)?;
    check_request(&request, header)?;
    check_response(&response)?;
    check_amount(table.amount.as_deref(), &request)?;
    let blank_response = response.blank();
    Ok(Transaction {
        tx_code: table.tx_code,
        key,
        call: table.call,
        amount: table.amount,
        request,
        response,
        blank_response,
    })
}

/// The bytes that the header's `tx_code` fields hold for this code.
fn tx_code_key(tx_code: &str, header: &Header) -> Checked<Vec<u8>> {
    let length: usize = header.tx_code.iter().map(|span| span.length).sum();
    let printable = tx_code.bytes().all(|b| (0x20..=0x7e).contains(&b));
    if tx_code.is_empty() || !printable || tx_code.ends_with(' ') {
        return Err("the tx code is not printable ASCII, or ends in a blank".to_owned());
    }
    if tx_code.len() > length {
        return Err(format!("the tx code has {} bytes, its field {length}", tx_code.len()));
    }
    let mut key = tx_code.as_bytes().to_vec();
    key.resize(length, b' ');
    let mut at = 0;
    for field in header.fields.iter().filter(|field| field.role == Some(Role::TxCode)) {
        let part = &key[at..at + field.span.length];
        if field.decode(part).is_err() {
            return Err(format!("the tx code does not fit field {}", field.name));
        }
        at += field.span.length;
    }
    Ok(key)
}

fn check_call(call: &str) -> Checked<()> {
    let clean = call.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#');
    if clean && call.starts_with('/') && !call.ends_with('/') {
        return Ok(());
    }
    Err(format!("call {call:?} is no path like \"/v1/transfers\""))
}

fn check_request(request: &Record, header: &Header) -> Checked<()> {
    for field in &request.fields {
        check_body_field("request", field)?;
        let twin = header.fields.iter().any(|other| other.name == field.name);
        if twin && field.kind != FieldType::Filler {
            return Err(format!(
                "request field {}: the header has a field of this name",
                field.name
            ));
        }
    }
    Ok(())
}

fn check_response(response: &Record) -> Checked<()> {
    for field in &response.fields {
        check_body_field("response", field)?;
        if field.on_overflow == OnOverflow::Cut {
            let name = &field.name;
            return Err(format!("response field {name}: the core's answer is never cut"));
        }
        if field.default.is_some() {
            let name = &field.name;
            return Err(format!("response field {name}: the core gives the value, not a default"));
        }
    }
    Ok(())
}

fn check_body_field(record: &str, field: &Field) -> Checked<()> {
    if RESERVED_NAMES.contains(&field.name.as_str()) {
        return Err(format!(
            "{record} field {}: the core's JSON has its own of this name",
            field.name
        ));
    }
    match field.role {
        Some(role) => Err(format!(
            "{record} field {}: role {} stands in the header only",
            field.name,
            role.as_str()
        )),
        None => Ok(()),
    }
}

fn check_amount(amount: Option<&str>, request: &Record) -> Checked<()> {
    let Some(name) = amount else { return Ok(()) };
    let is_number = |field: &Field| field.name == name && field.kind == FieldType::Number;
    if request.fields.iter().any(is_number) {
        return Ok(());
    }
    Err(format!("amount {name:?} is no request field of type N"))
}

/// A record whose first byte is the telegram's byte `base`.
pub(super) fn build_record(
    what: &str,
    length: usize,
    tables: Vec<FieldTable>,
    encoding: Encoding,
    base: usize,
) -> Checked<Record> {
    let mut names = HashSet::new();
    let mut fields = Vec::with_capacity(tables.len());
    let mut sum = 0_usize;
    for table in tables {
        let name = table.name.clone();
        if !names.insert(name.clone()) {
            return Err(format!("{what} field {name} is there twice"));
        }
        let field = build_field(table, encoding, base.saturating_add(sum))
            .map_err(|why| format!("{what} field {name}: {why}"))?;
        sum = sum.saturating_add(field.span.length);
        fields.push(field);
    }
    if sum != length {
        return Err(format!("{what} declares {length} bytes, its fields add up to {sum}"));
    }
    if length > TELEGRAM_BYTES_MAX {
        return Err(format!("{what} has {length} bytes, more than {TELEGRAM_BYTES_MAX}"));
    }
    Ok(Record { length, fields })
}

fn build_field(table: FieldTable, encoding: Encoding, at: usize) -> Checked<Field> {
    check_field(&table)?;
    let mut field = Field {
        name: table.name,
        span: Span { at, length: table.length },
        kind: table.kind,
        encoding: table.encoding.unwrap_or(encoding),
        fixed: None,
        default: None,
        sensitive: table.sensitive,
        role: table.role,
        blank_ok: table.blank_ok,
        on_overflow: OnOverflow::Refuse,
    };
    let bytes = |what: &str, value: Option<String>| match value {
        None => Ok(None),
        Some(value) => exact(&field, &value).map(Some).map_err(|why| format!("{what} {why}")),
    };
    let (fixed, default) = (bytes("const", table.fixed)?, bytes("default", table.default)?);
    field.on_overflow = table.on_overflow;
    Ok(Field { fixed, default, ..field })
}

fn check_field(table: &FieldTable) -> Checked<()> {
    let number = table.kind == FieldType::Number;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if table.name.is_empty() || !table.name.chars().all(plain) {
        return Err("a name is made of letters, digits, `_`, `-` and `.`".to_owned());
    }
    if table.length == 0 {
        return Err("its length is zero".to_owned());
    }
    // So that a constant of that size is never built; the record's own check has the sums.
    if table.length > TELEGRAM_BYTES_MAX {
        return Err(format!("{} bytes are more than {TELEGRAM_BYTES_MAX}", table.length));
    }
    if number && table.length > NUMBER_DIGITS_MAX {
        return Err(format!("{} digits are more than {NUMBER_DIGITS_MAX}", table.length));
    }
    if table.encoding.is_some() && number {
        return Err("digits have no encoding".to_owned());
    }
    if table.blank_ok && !number {
        return Err("blank_ok is for type N".to_owned());
    }
    if table.on_overflow == OnOverflow::Cut && table.kind != FieldType::Text {
        return Err("on_overflow is for type X".to_owned());
    }
    if table.fixed.is_some() && table.default.is_some() {
        return Err("const and default exclude each other".to_owned());
    }
    Ok(())
}

/// The bytes of a field that holds `value`.
fn exact(field: &Field, value: &str) -> Checked<Vec<u8>> {
    let mut bytes = vec![0; field.span.length];
    field.put(value, &mut bytes).map_err(|why| format!("{value:?}: {why}"))?;
    Ok(bytes)
}
