//! `oncegate show`: one transfer whole: what is true of it and what to do next in words, its telegrams, its history.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::args::{Failure, Usage};
use super::fields::{self, Sensitive};
use super::look::{Common, clock};
use super::out::Out;
use crate::code::Code;
use crate::engine::view::{Transfer, View, age_words, last_seen};
use crate::guid::Guid;
use crate::ledger::{HistoryLine, OwnerId, Row};
use crate::state::State;
use crate::telegram::Layout;
use crate::visible::visible;

const SHOW_EXAMPLES: &str = "\
Fields that the layout calls sensitive are masked unless --reveal is given; --raw writes every byte, \
but not to a terminal.

Examples:
  oncegate show 20260928MOBAP00100000000000123 --db relay.db
  oncegate show 20260928MOBAP00100000000000123 --db relay.db --hex
  oncegate show 20260928MOBAP00100000000000123 --db relay.db --raw response > reply.bin

Exit codes: 0 done, 1 there is no such transfer or it could not run, 2 usage.";

/// Show one transfer: what is true of it, what to do next, its telegrams and history
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(super) struct ShowArgs {
    /// The transfer
    #[arg(value_name = "GUID")]
    guid: String,
    #[command(flatten)]
    common: Common,
    /// One JSON object
    #[arg(long, conflicts_with_all = ["hex", "raw"])]
    json: bool,
    /// The telegrams in hex: offset, 16 bytes, their ASCII
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
    /// The bytes of one telegram, nothing else
    #[arg(long, value_name = "WHICH")]
    raw: Option<Which>,
    /// Show sensitive fields
    #[arg(long)]
    reveal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The first telegram under this GUID, as it came
    Request,
    /// The reply that goes with the state
    Response,
}

pub(super) fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let guid = Guid::from_ledger(args.guid.clone());
    let (layout, clock) = (args.common.layout.read()?, clock());
    if args.raw.is_some() && std::io::stdout().is_terminal() {
        let text = "--raw: the bytes of a telegram can drive a terminal; send them to a file or a pipe, or use --hex";
        return Err(Usage::Text(text.to_owned()).into());
    }
    let ledger = args.common.open(&clock)?;
    let view = View { ledger: &ledger, layout: &layout, now: clock.now() };
    let (row, history) = match view.transfer(&guid).map_err(Failure::failed)? {
        Transfer::Here(row, history) => (row, history),
        Transfer::Nothing => return Err(Failure::Failed(args.not_there().into())),
        Transfer::Purged(history) => return Err(Failure::Failed(args.purged(&history).into())),
    };
    let shown = Shown { args, layout: &layout, view: &view, row: &row, history: &history };
    let mut out = Out::new();
    match args.raw {
        Some(which) => out.bytes(shown.raw(which)?),
        None if args.json => out.json(&shown.json()),
        None if args.hex => out.lines(&shown.hex()),
        None => out.lines(&shown.text()),
    }
    out.end().map_err(Failure::failed)?;
    Ok(ExitCode::SUCCESS)
}

impl ShowArgs {
    fn not_there(&self) -> String {
        let (guid, db) = (visible(&self.guid), self.common.db.display());
        format!(
            "no transfer {guid} in {db}: it never came, or came to another ledger (`oncegate list --guid PREFIX` finds it by its beginning)"
        )
    }

    fn purged(&self, history: &[HistoryLine]) -> String {
        let (guid, purge) = (
            visible(&self.guid),
            history.iter().rfind(|h| h.to_state.is_none() && h.cause == "purge"),
        );
        let (when, who) = purge.map_or((String::new(), String::new()), |line| {
            (format!(" on {} UTC", visible(&line.at)), format!(" by {}", visible(&line.who)))
        });
        format!(
            "transfer {guid} was done and has been purged{when}{who}: a resend gets {}",
            Code::Purged
        )
    }
}

/// A transfer that is there.
struct Shown<'a> {
    args: &'a ShowArgs,
    layout: &'a Layout,
    view: &'a View<'a>,
    row: &'a Row,
    history: &'a [HistoryLine],
}

impl Shown<'_> {
    fn sensitive(&self) -> Sensitive {
        Sensitive::of(self.args.reveal)
    }

    fn raw(&self, which: Which) -> Result<&[u8], Failure> {
        match which {
            Which::Request => Ok(&self.row.request),
            Which::Response => self.row.response.as_deref().ok_or_else(|| {
                let text = format!("there is no response: the transfer is {}", self.row.state);
                Failure::Failed(text.into())
            }),
        }
    }

    fn hex(&self) -> Vec<String> {
        let dump = |bytes: &[u8]| fields::hex(self.layout, bytes, self.sensitive());
        self.telegrams(dump)
    }

    fn text(&self) -> Vec<String> {
        let row = self.row;
        let mut lines = vec![visible(row.guid.as_str()), self.facts()];
        lines.push(format!("next: {}", self.next()));
        lines.push(String::new());
        lines.push(format!("tx code   {}", visible(&row.tx_code)));
        lines.push(format!("code      {}", code_words(row.rsp_code.as_deref())));
        lines.push(format!("attempts  {}", row.attempt));
        if let Some(amount) = self.view.amount(&row.request) {
            lines.push(format!("amount    {amount}"));
        }
        lines.push(format!("changed   {} UTC", visible(&row.updated_at)));
        lines.push(String::new());
        lines.extend(self.telegrams(|bytes| fields::table(self.layout, bytes, self.sensitive())));
        lines.push(String::new());
        lines.push("history".to_owned());
        if self.history.is_empty() {
            lines.push("  nothing but the plain way: claimed once, then its result".to_owned());
        }
        lines.extend(self.history.iter().map(history_line));
        lines
    }

    /// Both telegrams, each under its name.
    fn telegrams(&self, show: impl Fn(&[u8]) -> Vec<String>) -> Vec<String> {
        let mut lines = vec![format!("request, {} bytes", self.row.request.len())];
        lines.extend(show(&self.row.request));
        lines.push(String::new());
        match &self.row.response {
            Some(response) => {
                lines.push(format!("response, {} bytes", response.len()));
                lines.extend(show(response));
            }
            None => lines.push("response: none yet".to_owned()),
        }
        let sensitive = |bytes: &[u8]| self.layout.describe(bytes).iter().any(|f| f.sensitive);
        let response = self.row.response.as_deref().unwrap_or_default();
        if !self.args.reveal && (sensitive(&self.row.request) || sensitive(response)) {
            lines.push(String::new());
            lines.push("sensitive fields are masked: --reveal shows them".to_owned());
        }
        lines
    }

    /// What is true of it, in words.
    fn facts(&self) -> String {
        let row = self.row;
        let age = self.view.age(&row.updated_at).map_or("an unknown time".to_owned(), age_words);
        let seen = last_seen(self.history).map(|seen| visible(&seen) + "; ").unwrap_or_default();
        let truth = match row.state {
            State::Received => "accepted by another program, not sent yet".to_owned(),
            State::Sent => match &row.owner {
                Some(owner) => format!(
                    "a call is under way, or the process that made it died (owner {})",
                    visible(owner.as_str())
                ),
                None => "a call is under way, or the process that made it died".to_owned(),
            },
            State::Done if row.rsp_code.as_deref() == Some(Code::Done.as_str()) => {
                format!("{seen}the core has done it")
            }
            State::Done => format!("{seen}the core has refused it, nothing moved"),
            State::Unknown => format!("{seen}the core may have done it"),
            State::Failed => format!("{seen}it was certainly not sent"),
        };
        format!("{} for {age}: {truth}", row.state)
    }

    fn next(&self) -> String {
        let guid = shell_word(&self.args.guid);
        let db = shell_word(&self.args.common.db.display().to_string());
        match self.row.state {
            State::Received => "nothing; the relay turns it FAILED when it has been so for long, and then it can be sent".to_owned(),
            State::Sent => "wait; when its process is proven dead the relay turns it UNKNOWN, and then it can be settled".to_owned(),
            State::Done => "nothing; a resend gets the stored response".to_owned(),
            State::Unknown => format!("`oncegate resolve --db {db} --core URL --guid {guid}` asks the core; it is never sent again before that"),
            State::Failed => format!("`oncegate reprocess --db {db} --core URL --guid {guid}` sends it again under the same GUID"),
        }
    }

    fn json(&self) -> Value {
        let row = self.row;
        let telegram = |bytes: &[u8]| fields::as_json(self.layout, bytes, self.sensitive());
        json!({
            "guid": row.guid.as_str(),
            "tx_code": row.tx_code,
            "state": row.state.as_str(),
            "rsp_code": row.rsp_code,
            "attempts": row.attempt.0,
            "updated_at": row.updated_at,
            "age_seconds": self.view.age(&row.updated_at).map(|age| age.num_seconds()),
            "amount": self.view.amount(&row.request),
            "owner": row.owner.as_ref().map(OwnerId::as_str),
            "facts": self.facts(),
            "next": self.next(),
            "request": telegram(&row.request),
            "response": row.response.as_deref().map(telegram),
            "history": self.history.iter().map(history_json).collect::<Vec<_>>(),
        })
    }
}

/// A code and what it means.
pub(super) fn code_words(code: Option<&str>) -> String {
    let Some(code) = code else { return "none yet".to_owned() };
    let known = Code::OURS.iter().find(|ours| ours.as_str() == code);
    let meaning = known.map_or("refused by the core with its own code", |code| code.meaning());
    format!("{} {meaning}", visible(code))
}

fn history_line(line: &HistoryLine) -> String {
    let state = |state: &Option<String>| state.as_deref().map_or("-".to_owned(), visible);
    let change = match (&line.from_state, &line.to_state) {
        (None, None) => "note".to_owned(),
        (Some(from), None) => format!("{} purged", visible(from)),
        (from, to) => format!("{} -> {}", state(from), state(to)),
    };
    let words = [&line.seen, &line.reason].into_iter().flatten().map(|text| visible(text));
    format!(
        "  {}  #{}  {change:<18}  {:<9}  {}  {}",
        visible(&line.at),
        line.attempt.map_or("-".to_owned(), |attempt| attempt.to_string()),
        visible(&line.cause),
        visible(&line.who),
        words.collect::<Vec<_>>().join("; "),
    )
    .trim_end()
    .to_owned()
}

fn history_json(line: &HistoryLine) -> Value {
    json!({
        "at": line.at,
        "from_state": line.from_state,
        "to_state": line.to_state,
        "attempt": line.attempt,
        "cause": line.cause,
        "who": line.who,
        "reason": line.reason,
        "seen": line.seen,
    })
}

/// Text as one word of a shell's line, visible.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+:,@%".contains(c);
    let text = visible(text);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_is_one_word_of_a_shell_per_argument() {
        assert_eq!(shell_word("/tmp/a-1.db"), "/tmp/a-1.db");
        assert_eq!(shell_word("$(reboot)"), "'$(reboot)'");
        assert_eq!(shell_word("a'b"), "'a'\\''b'");
    }
}
