//! design.md's invariants, as far as they can be seen in the ledger and in what channels are told. The core's side of them is
//! in `actor` (who may call) and `books` (paid once).

use std::collections::BTreeMap;

use oncegate::guid::Guid;
use oncegate::ledger::{Found, Ledger, Row};
use oncegate::state::{Event, State, TRANSITIONS};

/// How many transfers there are in a life.
pub const GUIDS: usize = 3;

/// What has been seen so far.
pub struct Watch {
    guids: Vec<Guid>,
    seen: Vec<Found>,
    /// The reply of each DONE, once there was one.
    finals: BTreeMap<Guid, Row>,
    pub wrong: Vec<String>,
}

pub fn guid(n: usize) -> String {
    format!("20260928MOBAP0010000000000000{n}")
}

impl Watch {
    pub fn new() -> Watch {
        let guids = (0..GUIDS).map(|n| Guid::from_ledger(guid(n))).collect();
        let seen = vec![Found::Nothing; GUIDS];
        Watch { guids, seen, finals: BTreeMap::new(), wrong: Vec::new() }
    }

    pub fn guids(&self) -> Vec<Guid> {
        self.guids.clone()
    }

    /// One step of anybody's: what changed must be allowed.
    pub fn step(&mut self, ledger: &dyn Ledger) -> Vec<String> {
        let mut wrong = Vec::new();
        for (guid, before) in self.guids.iter().zip(&mut self.seen) {
            let after = ledger.find(guid).expect("the truth can be read");
            if after == *before {
                continue;
            }
            if let Err(why) = allowed(before, &after) {
                wrong.push(format!("{guid}: {why}"));
            }
            if let Found::Row(row) = &after
                && row.state == State::Done
                && let Some(old) = self.finals.insert(guid.clone(), (**row).clone())
                && old != **row
            {
                wrong.push(format!("{guid}: its final answer changed"));
            }
            *before = after;
        }
        wrong
    }

    /// A channel was told this: a final answer must be in the ledger, with these bytes, for this content.
    pub fn told(
        &self,
        guid: &Guid,
        code: &str,
        reply: &[u8],
        content: &dyn Fn(&Row) -> bool,
    ) -> Option<String> {
        let is_final = code == "0000" || code.starts_with('C');
        let at = self.guids.iter().position(|known| known == guid).expect("a GUID of this life");
        match (self.finals.get(guid), &self.seen[at]) {
            (None, _) if is_final => {
                Some(format!("{guid}: told {code}, and the ledger has no result"))
            }
            (Some(row), _) if is_final && row.response.as_deref() != Some(reply) => {
                Some(format!("{guid}: told {code} in other bytes than the ledger's"))
            }
            (Some(row), _) if is_final && !content(row) => {
                Some(format!("{guid}: told the result of another content"))
            }
            (_, found) if code == "E906" && *found != Found::Purged => {
                Some(format!("{guid}: told E906, and it was not purged"))
            }
            _ => None,
        }
    }

    /// Its result, as it was before it was purged.
    pub fn result(&self, guid: &Guid) -> Option<&Row> {
        self.finals.get(guid)
    }
}

fn allowed(before: &Found, after: &Found) -> Result<(), String> {
    let (from, to) = match (before, after) {
        (Found::Purged, _) => return Err("it was purged, and is something again".to_owned()),
        (Found::Row(old), Found::Row(new)) => {
            changes(old, new)?;
            (Some(old.state), Some(new.state))
        }
        (Found::Row(old), Found::Nothing) => {
            return Err(format!("forgotten: it was {}", old.state));
        }
        (Found::Row(old), Found::Purged) => (Some(old.state), None),
        (Found::Nothing, Found::Row(new)) => (None, Some(new.state)),
        (Found::Nothing, Found::Nothing | Found::Purged) => {
            return Err("purged out of nothing".to_owned());
        }
    };
    let way = |row: &&(Option<State>, Event, Option<State>)| row.0 == from && row.2 == to;
    let aged = from == to && from != Some(State::Done);
    if aged || TRANSITIONS.iter().any(|row| way(&row)) {
        return Ok(());
    }
    Err(format!("{from:?} became {to:?}"))
}

fn changes(old: &Row, new: &Row) -> Result<(), String> {
    let claimed = i64::from(old.state == State::Failed && new.state == State::Sent);
    if new.attempt.0 != old.attempt.0 + claimed {
        return Err(format!("attempt {} became {}", old.attempt, new.attempt));
    }
    if new.request != old.request {
        return Err("its request changed".to_owned());
    }
    // The same state again: nothing but the time may have changed, after a jump back.
    if new.state == old.state && (Row { updated_at: old.updated_at.clone(), ..new.clone() }) != *old
    {
        return Err(format!("{} changed", old.state));
    }
    Ok(())
}
