//! The core: a transfer that it has heard is made some time later, or never; what it made, it has. It is not idempotent.

use std::collections::{BTreeMap, BTreeSet};

use oncegate::guid::{Attempt, Guid};
use oncegate::telegram::{Layout, ReplyBody, Request};
use serde_json::json;

/// The longest time in which the core makes a transfer that it has heard: what `core-late-max` promises.
pub const LATE_MAX_S: u64 = 60;

/// A transfer that was heard and is not made yet.
struct Heard {
    guid: Guid,
    due_s: u64,
    ticket: u64,
}

/// What the core has.
#[derive(Default)]
pub struct Books {
    heard: Vec<Heard>,
    /// By GUID: the tickets of the transfers made.
    made: BTreeMap<Guid, Vec<u64>>,
    tickets: u64,
    /// Calls that arrived.
    pub calls: BTreeSet<(Guid, Attempt)>,
    /// Nobody listens: connections are refused.
    pub down: bool,
}

impl Books {
    /// Hears a request; it will be made at `due_s`.
    pub fn hear(&mut self, guid: &Guid, due_s: u64) -> u64 {
        self.tickets += 1;
        self.heard.push(Heard { guid: guid.clone(), due_s, ticket: self.tickets });
        self.tickets
    }

    /// Makes what is due; tells what should not have been.
    pub fn work(&mut self, now_s: u64) -> Vec<String> {
        let (due, later) =
            std::mem::take(&mut self.heard).into_iter().partition(|h| h.due_s <= now_s);
        self.heard = later;
        let mut due: Vec<Heard> = due;
        due.sort_by_key(|heard| (heard.due_s, heard.ticket));
        let mut wrong = Vec::new();
        for Heard { guid, ticket, .. } in due {
            let tickets = self.made.entry(guid.clone()).or_default();
            tickets.push(ticket);
            if tickets.len() > 1 {
                wrong.push(format!("{guid} was paid {} times", tickets.len()));
            }
        }
        wrong
    }

    /// How often the money of this GUID moved.
    pub fn paid(&self, guid: &Guid) -> usize {
        self.made.get(guid).map_or(0, Vec::len)
    }

    /// The first transfer made under it.
    pub fn made(&self, guid: &Guid) -> Option<u64> {
        self.made.get(guid).map(|tickets| tickets[0])
    }
}

/// The body of an answer about this transfer: `status` C from the transfer itself, I from an inquiry.
pub fn body(layout: &Layout, request: &Request, ticket: u64, status: &str) -> ReplyBody {
    let answer = json!({"guid": request.guid().as_str(), "core_tx_id": format!("T{ticket}"), "status": status,
                        "bal_sign": "+", "posted_dtm": "20260928093015", "balance": 1});
    layout.encode_answer(request, answer.as_object().expect("an object")).expect("an answer")
}
