//! Framing: a stream of bytes ↔ telegrams, incremental and bounded.
//!
//! Invariants: the frames are the same however the bytes are split; every byte is looked at a constant number of times;
//! nothing is allocated by what a stream merely declares; after an error nothing more comes out, for a stream that lied
//! once can't be trusted again. Knows no sockets: bytes come in by [`Framer::push`].

use std::sync::Arc;

use super::field::{Field, FieldType, Span, hex, parse_digits, put_number};
use super::file::{Counts, FramingKind, FramingTable};
use super::layout::{Header, Transaction};
use crate::limits::NUMBER_DIGITS_MAX;

/// What a declared length was taken to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The bytes after the length field.
    After,
    /// The whole telegram, the length field included.
    All,
}

/// One thing that came out of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A telegram's bytes. They may be fewer than a header.
    Telegram(Vec<u8>),
    /// A length of zero: an idle poll, echoed as it came.
    Poll(Vec<u8>),
}

/// Why a stream can't be cut into telegrams any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The length field holds no number.
    #[error("declared length: bytes {found} are not digits")]
    NotDigits {
        /// The length field, in hex.
        found: String,
    },
    /// More than a telegram may have.
    #[error(
        "declared length {declared} (bytes {found}) makes a telegram of {total} bytes, more than {limit}"
    )]
    TooLong {
        /// The number declared.
        declared: u64,
        /// The length field, in hex.
        found: String,
        /// The telegram it would make, in bytes.
        total: i128,
        /// The limit, in bytes.
        limit: usize,
    },
    /// All telegrams of the layout have more bytes than a telegram may have.
    #[error("telegrams of {total} bytes are more than {limit}")]
    FixedTooLong {
        /// Bytes of every telegram.
        total: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Less than what comes before the end of the length field.
    #[error(
        "declared length {declared} (bytes {found}) makes a telegram of {total} bytes, which ends inside its length field"
    )]
    TooShort {
        /// The number declared.
        declared: u64,
        /// The length field, in hex.
        found: String,
        /// The telegram it would make, in bytes.
        total: i128,
    },
    /// Where either reading is allowed, neither makes a record of the layout.
    #[error(
        "declared length {declared} (bytes {found}) makes no known record, counting the length field or not"
    )]
    NoRecord {
        /// The number declared.
        declared: u64,
        /// The length field, in hex.
        found: String,
    },
    /// The end mark is not where the declared length says.
    #[error("end mark of a telegram of {total} bytes: bytes {found} instead of {expected}")]
    NoEnd {
        /// Bytes of the telegram.
        total: usize,
        /// What stands there, in hex.
        found: String,
        /// The layout's end mark, in hex.
        expected: String,
    },
}

/// How a layout's telegrams are told apart.
#[derive(Clone, Debug)]
pub(super) struct Framing {
    pub size: Size,
    /// Stands at the end of every telegram, and is part of it.
    pub end: Vec<u8>,
    /// Bytes of every telegram the layout knows, requests and replies.
    totals: Arc<[usize]>,
}

/// Where a telegram's length comes from.
#[derive(Clone, Debug)]
pub(super) enum Size {
    /// All telegrams have these many bytes.
    Fixed(usize),
    /// The telegram declares it.
    Declared(LengthField),
}

/// The field that declares a length.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthField {
    pub span: Span,
    kind: FramingKind,
    counts: Counts,
    adjust: i64,
}

/// What the next frame needs.
#[derive(Clone, Copy, Debug)]
struct Need {
    bytes: usize,
    reading: Option<Reading>,
    poll: bool,
}

impl LengthField {
    /// The number in a telegram that has at least this field.
    pub(super) fn declared(&self, telegram: &[u8]) -> Option<u64> {
        let bytes = self.span.of(telegram);
        match self.kind {
            FramingKind::Ascii => parse_digits(bytes),
            FramingKind::U16be | FramingKind::U32be | FramingKind::Fixed => {
                Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
        }
    }

    /// Bytes of the telegram that declares this. Wide enough that no declared number can wrap it.
    fn total(&self, declared: u64, reading: Reading) -> i128 {
        i128::from(declared) + i128::from(self.adjust) + self.uncounted(reading)
    }

    /// What a telegram of `total` bytes declares.
    fn declare(&self, total: usize, reading: Reading) -> i128 {
        wide(total) - i128::from(self.adjust) - self.uncounted(reading)
    }

    fn uncounted(&self, reading: Reading) -> i128 {
        match reading {
            Reading::After => wide(self.span.end()),
            Reading::All => 0,
        }
    }

    /// The readings that the layout allows, the one that makes the shorter telegram first.
    fn readings(&self) -> &'static [Reading] {
        match self.counts {
            Counts::After => &[Reading::After],
            Counts::All => &[Reading::All],
            Counts::Either => &[Reading::All, Reading::After],
        }
    }

    /// The reading in which the length field of `telegram` is right; `None` if it is wrong.
    pub(super) fn reading_of(&self, telegram: &[u8]) -> Option<Reading> {
        let declared = self.declared(telegram)?;
        let fits = |reading: &&Reading| self.total(declared, **reading) == wide(telegram.len());
        self.readings().iter().find(fits).copied()
    }

    /// Writes the length of `telegram` into it; where either reading is allowed, `reading` says which.
    pub(super) fn write(&self, telegram: &mut [u8], reading: Option<Reading>) {
        let reading = match self.counts {
            Counts::After => Reading::After,
            Counts::All => Reading::All,
            Counts::Either => reading.unwrap_or(Reading::After),
        };
        let number = self.declare(telegram.len(), reading);
        let number = u64::try_from(number).expect("the layout checked that its lengths fit");
        let field = self.span.of_mut(telegram);
        if self.kind == FramingKind::Ascii {
            put_number(number, field).expect("the layout checked that its lengths fit");
        } else {
            let bytes = number.to_be_bytes();
            let unused = bytes.len() - field.len();
            field.copy_from_slice(&bytes[unused..]);
        }
    }

    fn largest(&self) -> i128 {
        match self.kind {
            FramingKind::U16be => i128::from(u16::MAX),
            FramingKind::U32be => i128::from(u32::MAX),
            FramingKind::Ascii | FramingKind::Fixed => {
                let digits = u32::try_from(self.span.length.min(NUMBER_DIGITS_MAX));
                10_i128.pow(digits.expect("at most 19")) - 1
            }
        }
    }

    fn need(&self, pending: &[u8], totals: &[usize], limit: usize) -> Result<Need, FramingError> {
        let found = || hex(self.span.of(pending));
        let declared =
            self.declared(pending).ok_or_else(|| FramingError::NotDigits { found: found() })?;
        if declared == 0 {
            return Ok(Need { bytes: self.span.end(), reading: None, poll: true });
        }
        let known = |reading: &&Reading| {
            let total = self.total(declared, **reading);
            totals.iter().any(|known| wide(*known) == total)
        };
        let reading = match self.readings() {
            [only] => *only,
            several => *several
                .iter()
                .find(known)
                .ok_or_else(|| FramingError::NoRecord { declared, found: found() })?,
        };
        let total = self.total(declared, reading);
        if total < wide(self.span.end()) {
            return Err(FramingError::TooShort { declared, found: found(), total });
        }
        match usize::try_from(total) {
            Ok(bytes) if bytes <= limit => Ok(Need { bytes, reading: Some(reading), poll: false }),
            Ok(_) | Err(_) => Err(FramingError::TooLong { declared, found: found(), total, limit }),
        }
    }
}

impl Framing {
    /// The framing of a file, if it agrees with the header's length field and can declare every record.
    pub(super) fn build(
        table: &FramingTable,
        length: Option<&Field>,
        header: &Header,
        transactions: &[Arc<Transaction>],
    ) -> Result<Framing, String> {
        let end = table.end.clone().unwrap_or_default();
        if table.end.is_some() && (end.is_empty() || !end.is_ascii()) {
            return Err(format!("framing: end {end:?} is empty or not ASCII"));
        }
        let mut totals: Vec<usize> = transactions
            .iter()
            .flat_map(|transaction| [transaction.request.length, transaction.response.length])
            .map(|body| header.length + body + end.len())
            .collect();
        totals.sort_unstable();
        totals.dedup();
        let size = match table.kind {
            FramingKind::Fixed => fixed(table, length, &totals)?,
            FramingKind::Ascii | FramingKind::U16be | FramingKind::U32be => {
                Size::Declared(declared(table, length, &totals)?)
            }
        };
        Ok(Framing { size, end: end.into_bytes(), totals: totals.into() })
    }

    fn need(&self, pending: &[u8], limit: usize) -> Result<Option<Need>, FramingError> {
        match &self.size {
            Size::Fixed(bytes) if *bytes > limit => {
                Err(FramingError::FixedTooLong { total: *bytes, limit })
            }
            Size::Fixed(bytes) => Ok(Some(Need { bytes: *bytes, reading: None, poll: false })),
            Size::Declared(field) if pending.len() < field.span.end() => Ok(None),
            Size::Declared(field) => field.need(pending, &self.totals, limit).map(Some),
        }
    }

    fn check_end(&self, telegram: &[u8]) -> Result<(), FramingError> {
        if telegram.ends_with(&self.end) {
            return Ok(());
        }
        let from = telegram.len().saturating_sub(self.end.len());
        Err(FramingError::NoEnd {
            total: telegram.len(),
            found: hex(&telegram[from..]),
            expected: hex(&self.end),
        })
    }
}

fn fixed(table: &FramingTable, length: Option<&Field>, totals: &[usize]) -> Result<Size, String> {
    let extra = [
        table.at.is_some(),
        table.digits.is_some(),
        table.counts.is_some(),
        table.adjust.is_some(),
    ];
    if extra.contains(&true) {
        return Err("framing: kind fixed takes no at, digits, counts or adjust".to_owned());
    }
    if let Some(field) = length {
        return Err(format!("framing: kind fixed, and field {} has the role length", field.name));
    }
    match totals {
        [one] => Ok(Size::Fixed(*one)),
        _ => Err(format!("framing: kind fixed, and the telegrams have {totals:?} bytes")),
    }
}

fn declared(
    table: &FramingTable,
    length: Option<&Field>,
    totals: &[usize],
) -> Result<LengthField, String> {
    let (kind, at) = (table.kind, table.at.ok_or("framing: at is missing")?);
    let (bytes, needed) = match (kind, table.digits) {
        (FramingKind::Ascii | FramingKind::Fixed, Some(digits)) => (digits, FieldType::Number),
        (FramingKind::Ascii | FramingKind::Fixed, None) => {
            return Err("framing: digits is missing".to_owned());
        }
        (FramingKind::U16be, None) => (2, FieldType::Filler),
        (FramingKind::U32be, None) => (4, FieldType::Filler),
        (FramingKind::U16be | FramingKind::U32be, Some(digits)) => {
            return Err(format!("framing: digits = {digits} is for kind ascii"));
        }
    };
    let field = length.ok_or("no header field has the role length")?;
    let (name, span) = (&field.name, field.span);
    if (span.at, span.length) != (at, bytes) {
        let (its_at, its) = (span.at, span.length);
        return Err(format!(
            "framing has {bytes} bytes at {at}, but field {name} has {its} at {its_at}"
        ));
    }
    if field.kind != needed || field.blank_ok {
        return Err(match needed {
            FieldType::Number => {
                format!("header field {name}: role length needs type N, never blank")
            }
            FieldType::Text | FieldType::Filler => {
                format!("header field {name}: a binary length needs type F")
            }
        });
    }
    let counts = table.counts.ok_or("framing: counts is missing")?;
    let field = LengthField { span, kind, counts, adjust: table.adjust.unwrap_or(0) };
    check_declarable(&field, totals)?;
    Ok(field)
}

/// Every record's length fits the length field, and none is the zero of an idle poll.
fn check_declarable(field: &LengthField, totals: &[usize]) -> Result<(), String> {
    let largest = field.largest();
    for total in totals {
        for reading in field.readings() {
            let number = field.declare(*total, *reading);
            if !(1..=largest).contains(&number) {
                return Err(format!(
                    "framing: a telegram of {total} bytes would declare {number}, not 1 to {largest}"
                ));
            }
        }
    }
    Ok(())
}

/// Cuts a stream into frames. Holds no more than one telegram and what was pushed last, if the caller takes every frame
/// with [`Framer::next`] before it pushes again.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    telegram_bytes_max: usize,
    buffer: Vec<u8>,
    /// How much of the buffer has been taken.
    start: usize,
    /// What the frame at `start` needs, once known.
    need: Option<Need>,
    reading: Option<Reading>,
    failed: Option<FramingError>,
}

impl Framer {
    pub(super) fn new(framing: Framing, telegram_bytes_max: usize) -> Framer {
        Framer {
            framing,
            telegram_bytes_max,
            buffer: Vec::new(),
            start: 0,
            need: None,
            reading: None,
            failed: None,
        }
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next frame; `None` until more bytes come. After an error it says the same error for ever.
    #[expect(clippy::should_implement_trait, reason = "an iterator's None would mean the end")]
    pub fn next(&mut self) -> Result<Option<Frame>, FramingError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.advance().inspect_err(|error| self.fail(error.clone()))
    }

    /// Bytes that came and make no frame yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// What the length of the telegram taken last was taken to count; of interest where the layout allows either.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        self.reading
    }

    fn advance(&mut self) -> Result<Option<Frame>, FramingError> {
        let pending = &self.buffer[self.start..];
        if self.need.is_none() {
            self.need = self.framing.need(pending, self.telegram_bytes_max)?;
        }
        let Some(need) = self.need.filter(|need| need.bytes <= pending.len()) else {
            return Ok(None);
        };
        let bytes = pending[..need.bytes].to_vec();
        let frame = if need.poll {
            Frame::Poll(bytes)
        } else {
            self.framing.check_end(&bytes)?;
            self.reading = need.reading;
            Frame::Telegram(bytes)
        };
        self.take(need.bytes);
        Ok(Some(frame))
    }

    /// Drops the taken bytes once they are at least half of the buffer, so that all moving together stays linear.
    fn take(&mut self, bytes: usize) {
        self.need = None;
        self.start += bytes;
        if self.start >= self.buffer.len() - self.start {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
    }

    fn fail(&mut self, error: FramingError) {
        self.failed = Some(error);
        self.buffer = Vec::new();
        self.start = 0;
    }
}

fn wide(bytes: usize) -> i128 {
    i128::try_from(bytes).expect("no usize is wider than i128")
}
