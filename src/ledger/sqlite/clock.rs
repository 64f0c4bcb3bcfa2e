//! The SQL of the notes on the wall clock, and the function that runs each.

use rusqlite::{Connection, params};

use super::statements::has_table;
use crate::ledger::{ClockNote, ledger_time, parse_ledger_time};
use crate::limits;
use crate::state::State;

/// The newest, newest first.
const NOTES: &str = "
SELECT at, seconds, run, ahead_ms, seen_by
  FROM clock_jump
 ORDER BY id DESC
 LIMIT ?1";

const NOTE: &str = "
INSERT INTO clock_jump (at, seconds, run, ahead_ms, seen_by)
SELECT ?1, ?2, ?3, ?4, ?5
 WHERE (SELECT ahead_ms FROM clock_jump WHERE run = ?3 ORDER BY id DESC LIMIT 1) IS ?6";

/// The state stands literally, or its index would not be used.
const MEND: &str = "
UPDATE tx
   SET updated_at = ?1
 WHERE state = '?2'
   AND updated_at > ?1";

pub(super) fn notes(con: &Connection) -> rusqlite::Result<Vec<ClockNote>> {
    if !has_table(con, "clock_jump")? {
        return Ok(Vec::new());
    }
    let limit = i64::try_from(limits::CLOCK_NOTES_MAX).unwrap_or(i64::MAX);
    let mut statement = con.prepare_cached(NOTES)?;
    let notes = statement.query_map([limit], |row| {
        let at: String = row.get(0)?;
        Ok(ClockNote {
            // Another program's nonsense counts as a jump that was before everything.
            at: parse_ledger_time(&at).unwrap_or_default(),
            seconds: row.get(1)?,
            run: row.get(2)?,
            ahead_ms: row.get(3)?,
            seen_by: row.get(4)?,
        })
    })?;
    let mut notes = notes.collect::<rusqlite::Result<Vec<_>>>()?;
    notes.reverse();
    Ok(notes)
}

pub(super) fn note(
    con: &Connection,
    note: &ClockNote,
    after_ms: Option<i64>,
    now: &str,
) -> rusqlite::Result<bool> {
    let at = ledger_time(note.at);
    let values = params![at, note.seconds, note.run, note.ahead_ms, note.seen_by, after_ms];
    if con.prepare_cached(NOTE)?.execute(values)? == 0 {
        return Ok(false);
    }
    if note.seconds != 0 {
        for state in State::ALL.into_iter().filter(|state| *state != State::Done) {
            con.execute(&MEND.replace("?2", state.as_str()), [now])?;
        }
    }
    Ok(true)
}
