//! A telegram for people: its fields in a table, its bytes in hex. What is sensitive is masked unless it is to be revealed.

use serde_json::{Value, json};

use crate::telegram::{DescribedField, Layout};
use crate::visible::visible;

/// Bytes in a line of hex.
const BYTES_A_LINE: usize = 16;

/// What stands for a masked value: as long for each, so that it does not tell the length.
const MASK: &str = "********";

/// Whether sensitive fields are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitive {
    Masked,
    Revealed,
}

impl Sensitive {
    pub(super) fn of(reveal: bool) -> Sensitive {
        if reveal { Sensitive::Revealed } else { Sensitive::Masked }
    }

    fn hides(self, field: &DescribedField) -> bool {
        field.sensitive && self == Sensitive::Masked
    }
}

/// A line per field: offset, name, value.
pub(super) fn table(layout: &Layout, telegram: &[u8], sensitive: Sensitive) -> Vec<String> {
    let fields = layout.describe(telegram);
    let width = fields.iter().map(|field| field.name.chars().count()).max().unwrap_or(0);
    let line = |field: &DescribedField| {
        let text = match &field.text {
            _ if sensitive.hides(field) => MASK.to_owned(),
            Ok(text) => visible(text),
            Err(why) => format!("({why})"),
        };
        let name = visible(&field.name);
        format!("  {:>4}  {name:<width$}  {text}", field.offset).trim_end().to_owned()
    };
    fields.iter().map(line).collect()
}

/// The fields as JSON: name, offset, length and text; `null` and `"masked": true` for what is masked, `error` for what is no text.
pub(super) fn as_json(layout: &Layout, telegram: &[u8], sensitive: Sensitive) -> Value {
    let field = |field: &DescribedField| {
        let mut value = json!({"name": field.name, "offset": field.offset, "length": field.length});
        match &field.text {
            _ if sensitive.hides(field) => {
                value["text"] = Value::Null;
                value["masked"] = Value::Bool(true);
            }
            Ok(text) => value["text"] = Value::from(text.as_str()),
            Err(why) => {
                value["text"] = Value::Null;
                value["error"] = Value::from(why.to_string());
            }
        }
        value
    };
    let fields: Vec<Value> = layout.describe(telegram).iter().map(field).collect();
    json!({"bytes": telegram.len(), "fields": fields})
}

/// Offset, sixteen bytes and their ASCII, a line each; `**` and `*` where a byte is masked.
pub(super) fn hex(layout: &Layout, telegram: &[u8], sensitive: Sensitive) -> Vec<String> {
    let mut shown: Vec<Option<u8>> = telegram.iter().copied().map(Some).collect();
    for field in layout.describe(telegram).iter().filter(|field| sensitive.hides(field)) {
        shown[field.offset.min(telegram.len())..][..field.bytes.len()].fill(None);
    }
    let line = |(at, bytes): (usize, &[Option<u8>])| {
        format!("  {:04x}  {:<48} |{}|", at * BYTES_A_LINE, hex_column(bytes), text_column(bytes))
    };
    shown.chunks(BYTES_A_LINE).enumerate().map(line).collect()
}

fn hex_column(bytes: &[Option<u8>]) -> String {
    let byte = |(at, byte): (usize, &Option<u8>)| {
        let gap = if at == BYTES_A_LINE / 2 { " " } else { "" };
        match byte {
            Some(byte) => format!("{gap}{byte:02x} "),
            None => format!("{gap}** "),
        }
    };
    bytes.iter().enumerate().map(byte).collect::<String>().trim_end().to_owned()
}

fn text_column(bytes: &[Option<u8>]) -> String {
    let character = |byte: &Option<u8>| match byte {
        None => '*',
        Some(byte @ 0x20..=0x7e) => char::from(*byte),
        Some(_) => '.',
    };
    bytes.iter().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::std128()
    }

    #[test]
    fn masked_bytes_stand_in_no_column() {
        let telegram: Vec<u8> = include_bytes!("../../tests/vectors/req_euckr.bin").to_vec();
        let lines = hex(&layout(), &telegram, Sensitive::Masked);
        assert_eq!(lines.len(), 13);
        assert_eq!(
            lines[8],
            "  0080  ** ** ** ** ** ** ** **  ** ** ** ** ** ** ** ** |****************|"
        );
        let revealed = hex(&layout(), &telegram, Sensitive::Revealed);
        assert_ne!(lines[8], revealed[8]);
        assert_eq!(lines[10], revealed[10]);
        let table = table(&layout(), &telegram, Sensitive::Masked).join("\n");
        assert!(table.contains("from_acct   ********"), "{table}");
    }

    #[test]
    fn bytes_of_no_field_are_masked_too() {
        let lines = hex(&layout(), &[b'9'; 130], Sensitive::Masked);
        assert_eq!(lines[8], format!("  0080  {:<48} |**|", "** **"));
    }
}
