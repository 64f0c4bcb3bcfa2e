//! What leaves the console: copied texts, CSV, JSON. Masked fields leave masked, and no byte that drives a terminal leaves at all.

use std::fmt::Write;

use serde_json::{Value, json};

use super::app::Run;
use super::why;
use super::words::{EN, Words};
use crate::engine::desk::{Detail, Line};
use crate::ledger::HistoryLine;
use crate::telegram::DescribedField;
use crate::visible::visible;

/// What stands for a masked byte.
const MASK: &str = "**";

/// Whether the byte at `at` is masked.
#[must_use]
pub fn is_masked(fields: &[DescribedField], at: usize, revealed: bool) -> bool {
    !revealed
        && fields
            .iter()
            .find(|field| (field.offset..field.offset + field.bytes.len()).contains(&at))
            .is_none_or(|field| field.sensitive)
}

/// A telegram as pairs of hex digits, `**` for masked bytes.
#[must_use]
pub fn masked_hex(bytes: &[u8], fields: &[DescribedField], revealed: bool) -> String {
    let mut out = String::with_capacity(bytes.len() * 3);
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        if is_masked(fields, at, revealed) {
            out.push_str(MASK);
        } else {
            let _ = write!(out, "{byte:02x}");
        }
    }
    out
}

/// A field's text for people, masked where it has to be.
#[must_use]
pub fn field_text(field: &DescribedField, revealed: bool, words: &Words) -> String {
    if field.sensitive && !revealed {
        return "*".repeat(field.bytes.len().min(16));
    }
    match &field.text {
        Ok(text) => visible(text),
        Err(why) => format!("({})", words.no_text(why)),
    }
}

/// The fields, a line each.
#[must_use]
pub fn fields_text(fields: &[DescribedField], revealed: bool, words: &Words) -> String {
    let mut out = String::new();
    for field in fields {
        let _ = writeln!(out, "{:<12} {}", field.name, field_text(field, revealed, words));
    }
    out
}

/// Everything about a row, for people.
#[must_use]
pub fn row_text(detail: &Detail, revealed: bool, words: &Words) -> String {
    let row = &detail.row;
    let mut out = String::new();
    let code = row.rsp_code.as_deref().unwrap_or("-");
    let _ = writeln!(
        out,
        "{} {} {} attempts {} changed {} UTC",
        visible(row.guid.as_str()),
        row.state,
        visible(code),
        row.attempt,
        visible(&row.updated_at)
    );
    for line in &detail.history {
        let _ = writeln!(out, "{}", history_text(line));
    }
    let _ = writeln!(
        out,
        "request {} B\n{}",
        row.request.len(),
        masked_hex(&row.request, &detail.request, revealed)
    );
    out.push_str(&fields_text(&detail.request, revealed, words));
    if let Some(response) = &row.response {
        let hex = masked_hex(response, &detail.response, revealed);
        let _ = writeln!(out, "response {} B\n{hex}", response.len());
        out.push_str(&fields_text(&detail.response, revealed, words));
    }
    out
}

/// A line of history, for people.
#[must_use]
pub fn history_text(line: &HistoryLine) -> String {
    let word = |text: &Option<String>| visible(text.as_deref().unwrap_or("-"));
    format!(
        "{} {} {} -> {} {} {} {}",
        visible(&line.at),
        visible(&line.cause),
        word(&line.from_state),
        word(&line.to_state),
        visible(&line.who),
        word(&line.reason),
        word(&line.seen)
    )
}

/// Everything about a row, for machines.
#[must_use]
pub fn row_json(detail: &Detail, revealed: bool) -> Value {
    let row = &detail.row;
    let fields = |fields: &[DescribedField]| -> Vec<Value> {
        fields
            .iter()
            .map(|field| {
                json!({"name": field.name, "offset": field.offset, "length": field.length,
                "text": field_text(field, revealed, &EN)})
            })
            .collect()
    };
    json!({
        "guid": row.guid.as_str(), "state": row.state.as_str(), "tx_code": row.tx_code,
        "rsp_code": row.rsp_code, "attempts": row.attempt.0, "updated_at": row.updated_at,
        "amount": detail.amount,
        "history": detail.history.iter().map(history_json).collect::<Vec<_>>(),
        "request": masked_hex(&row.request, &detail.request, revealed),
        "request_fields": fields(&detail.request),
        "response": row.response.as_ref().map(|r| masked_hex(r, &detail.response, revealed)),
        "response_fields": fields(&detail.response),
    })
}

fn history_json(line: &HistoryLine) -> Value {
    json!({"id": line.id, "at": line.at, "guid": line.guid.as_str(), "from": line.from_state,
        "to": line.to_state, "attempt": line.attempt, "cause": line.cause, "who": line.who,
        "reason": line.reason, "seen": line.seen})
}

/// A line of the list as a JSON object.
#[must_use]
pub fn line_json(line: &Line) -> Value {
    json!({"guid": line.guid.as_str(), "state": line.state.as_str(), "tx_code": line.tx_code,
        "rsp_code": line.code, "attempts": line.attempts, "updated_at": line.updated_at,
        "amount": line.amount, "reason": line.seen})
}

/// The head of the list's CSV.
pub const LINE_HEAD: &str = "guid,state,tx_code,rsp_code,attempts,updated_at,amount,reason";

/// A line of the list as CSV.
#[must_use]
pub fn line_csv(line: &Line) -> String {
    csv(&[
        line.guid.as_str(),
        line.state.as_str(),
        &line.tx_code,
        line.code.as_deref().unwrap_or_default(),
        &line.attempts.to_string(),
        &line.updated_at,
        &line.amount.map(|amount| amount.to_string()).unwrap_or_default(),
        line.seen.as_deref().unwrap_or_default(),
    ])
}

/// The history as CSV, head included.
#[must_use]
pub fn trail_csv(lines: &[HistoryLine]) -> String {
    let mut out = "id,at,guid,from_state,to_state,attempt,cause,who,reason,seen\n".to_owned();
    for line in lines {
        let word = |text: &Option<String>| text.clone().unwrap_or_default();
        out.push_str(&csv(&[
            &line.id.to_string(),
            &line.at,
            line.guid.as_str(),
            &word(&line.from_state),
            &word(&line.to_state),
            &line.attempt.map(|attempt| attempt.to_string()).unwrap_or_default(),
            &line.cause,
            &line.who,
            &word(&line.reason),
            &word(&line.seen),
        ]));
        out.push('\n');
    }
    out
}

/// What became of a run's rows, as CSV, head included.
#[must_use]
pub fn report_csv(run: &Run) -> String {
    let mut out = "guid,became,reason\n".to_owned();
    for row in &run.told {
        let became = format!("{:?}", row.became).to_lowercase();
        out.push_str(&csv(&[row.guid.as_str(), &became, &why::english(&row.why)]));
        out.push('\n');
    }
    out
}

/// Values as one line of CSV. What a spreadsheet would take for a formula gets a quote before it.
fn csv(values: &[&str]) -> String {
    let quoted = values.iter().map(|value| {
        let mut text = visible(value);
        if text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err() {
            text.insert(0, '\'');
        }
        if text.contains([',', '"', ' ']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    });
    quoted.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    #[test]
    fn a_value_can_neither_break_the_line_nor_become_a_formula() {
        assert_eq!(csv(&["a\nb", "c,\"d\"", "=1+1", "-5"]), "a^Jb,\"c,\"\"d\"\"\",'=1+1,-5");
        assert_eq!(csv(&["\x1b[2J"]), "^[[2J");
    }

    // T51, csvlens#151.
    #[test]
    fn copied_hex_has_every_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        let hex = masked_hex(&bytes, &[], true);
        let back: Vec<u8> =
            hex.split(' ').map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        assert_eq!(back, bytes);
        assert!(masked_hex(&bytes, &[], false).chars().all(|c| "* ".contains(c)));
    }
}
