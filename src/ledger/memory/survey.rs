//! What [`Survey`] means, on the model.

use chrono::{DateTime, Utc};

use super::MemoryLedger;
use crate::guid::Guid;
use crate::ledger::survey::{
    Browse, Noted, Numbers, Part, Reason, Spot, Survey, Told, TrailQuery, Watch, Window, age_class,
    minute,
};
use crate::ledger::{HistoryLine, Ledger, LedgerError, Trail, parse_ledger_time};
use crate::limits;
use crate::state::State;

impl MemoryLedger {
    fn told(&self, browse: &Browse) -> Vec<Told> {
        let tables = self.tables();
        let mut rows: Vec<Told> = tables
            .tx
            .values()
            .map(|row| Told { row: row.clone(), seen: seen(&tables.history, &row.guid) })
            .filter(|told| browse.takes(&told.row, told.seen.as_deref()))
            .collect();
        rows.sort_by(|a, b| browse.compare(&Spot::of(&a.row), &Spot::of(&b.row)));
        rows
    }
}

fn seen(history: &[HistoryLine], guid: &Guid) -> Option<String> {
    history.iter().rev().find(|line| line.guid == *guid && line.seen.is_some())?.seen.clone()
}

impl Survey for MemoryLedger {
    fn window(&self, browse: &Browse, part: &Part, rows_max: usize) -> Result<Window, LedgerError> {
        let rows = self.told(browse);
        let first = match part {
            Part::Start => 0,
            Part::End => rows.len().saturating_sub(rows_max),
            Part::Around(spot) => rows
                .iter()
                .position(|told| browse.compare(&Spot::of(&told.row), spot).is_ge())
                .unwrap_or(rows.len())
                .saturating_sub(rows_max / 2)
                .min(rows.len().saturating_sub(rows_max)),
        };
        let (total, before) = (rows.len() as u64, first as u64);
        let rows = rows.into_iter().skip(first).take(rows_max).collect();
        Ok(Window { rows, total, before, counts: self.counts()? })
    }

    fn keys(&self, browse: &Browse, rows_max: usize) -> Result<Vec<Guid>, LedgerError> {
        Ok(self.told(browse).into_iter().take(rows_max).map(|told| told.row.guid).collect())
    }

    fn trail(&self, query: &TrailQuery) -> Result<Vec<HistoryLine>, LedgerError> {
        let tables = self.tables();
        let lines = tables.history.iter().rev().filter(|line| query.takes(line));
        Ok(lines.take(query.rows_max).cloned().collect())
    }

    fn numbers(&self, now: DateTime<Utc>) -> Result<Numbers, LedgerError> {
        let mut numbers = Numbers { counts: self.counts()?, ..Numbers::default() };
        let tables = self.tables();
        for row in tables.tx.values().filter(|row| row.state != State::Done) {
            let at = State::ALL.iter().position(|state| *state == row.state).unwrap_or(0);
            if let Some(since) = parse_ledger_time(&row.updated_at) {
                numbers.ages[at][age_class((now - since).num_seconds())] += 1;
            }
        }
        for line in &tables.history {
            let at = parse_ledger_time(&line.at).and_then(|at| minute(at, now));
            match (at, line.to_state.as_deref()) {
                (Some(at), Some("UNKNOWN")) => numbers.unknown_per_minute[at] += 1,
                (Some(at), Some("FAILED")) => numbers.failed_per_minute[at] += 1,
                _ => {}
            }
        }
        for row in tables.tx.values() {
            if let (State::Unknown | State::Failed, Some(seen)) =
                (row.state, seen(&tables.history, &row.guid))
            {
                count(&mut numbers.reasons, seen, &row.updated_at);
            }
        }
        numbers.reasons.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| a.seen.cmp(&b.seen)));
        numbers.reasons.truncate(limits::REASONS_MAX);
        let of_operators = tables.history.iter().rev().filter(|line| line.who != "relay");
        numbers.last_lines = of_operators.take(limits::LAST_LINES_MAX).cloned().collect();
        Ok(numbers)
    }

    fn note(&self, guid: &Guid, trail: &Trail) -> Result<Noted, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        let Some(attempt) = tables.tx.get(guid).map(|row| row.attempt) else {
            return Ok(Noted::Gone);
        };
        let id = i64::try_from(tables.history.len()).unwrap_or(i64::MAX - 1) + 1;
        tables.history.push(HistoryLine {
            id,
            at: now,
            guid: guid.clone(),
            from_state: None,
            to_state: None,
            attempt: Some(attempt.0),
            cause: trail.cause.as_str().to_owned(),
            who: trail.who.clone(),
            reason: trail.reason.clone(),
            seen: trail.seen.clone(),
        });
        Ok(Noted::Written)
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        Ok(Box::new(Always))
    }
}

/// A model does not tell changes apart from none.
struct Always;

impl Watch for Always {
    fn changed(&mut self) -> Result<bool, LedgerError> {
        Ok(true)
    }
}

fn count(reasons: &mut Vec<Reason>, seen: String, at: &str) {
    match reasons.iter_mut().find(|reason| reason.seen == seen) {
        Some(reason) => {
            reason.rows += 1;
            if at < reason.oldest.as_str() {
                at.clone_into(&mut reason.oldest);
            }
        }
        None => reasons.push(Reason { seen, rows: 1, oldest: at.to_owned() }),
    }
}
