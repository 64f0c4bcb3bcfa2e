//! Every SQL text of the ledger and the function that runs it. Each write names the state and the attempt it expects.
//!
//! All functions run inside a transaction that someone else begins and commits; `now` is the time to be written.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{
    CachedStatement, Connection, OptionalExtension, ToSql, ffi, params, params_from_iter,
};

use crate::code::Code;
use crate::guid::{Attempt, Guid};
use crate::ledger::{
    Claim, ClaimFailed, Claimed, ClaimedAgain, Counts, Found, HistoryLine, Orphan, Outline,
    OwnerId, Purge, Query, Record, Recorded, Row, Settle, Trail, ledger_time,
};
use crate::limits;
use crate::state::State;

pub(super) const ROW_COLUMNS: &str =
    "guid, tx_code, state, rsp_code, request, response, attempts, updated_at, owner";

const OUTLINE_COLUMNS: &str = "guid, state, rsp_code, attempts, updated_at, owner";

const FIND: &str = "
SELECT guid, tx_code, state, rsp_code, request, response, attempts, updated_at, owner
  FROM tx
 WHERE guid = ?1";

const FIND_PURGED: &str = "
SELECT 1
  FROM purged
 WHERE guid = ?1";

/// The claim. One statement, judged by its row count. OR ROLLBACK here and below: whatever fails takes the whole transaction with
/// it, as the writer does with a failed batch, and SQLite need not keep a copy of each page to take back one statement alone.
const CLAIM: &str = "
INSERT OR ROLLBACK INTO tx (guid, tx_code, state, request, attempts, updated_at, owner)
VALUES (?1, ?2, 'SENT', ?3, 1, ?4, ?5)
    ON CONFLICT (guid) DO NOTHING";

const CLAIM_FAILED: &str = "
UPDATE tx
   SET state = 'SENT', attempts = coalesce(attempts, 0) + 1, rsp_code = NULL, response = NULL, updated_at = ?2, owner = ?3
 WHERE guid = ?1
   AND state = 'FAILED'
RETURNING attempts";

const CLAIM_ONLY_FAILED: &str = "
UPDATE tx
   SET state = 'SENT', attempts = coalesce(attempts, 0) + 1, rsp_code = NULL, response = NULL, updated_at = ?2, owner = ?3
 WHERE guid = ?1
   AND state = 'FAILED'
   AND rsp_code = 'E902'
   AND coalesce(attempts, 0) < ?4
   AND coalesce(attempts, 0) = ?5
RETURNING attempts";

/// Every other change of state: from one named state and attempt to another.
const CHANGE: &str = "
UPDATE OR ROLLBACK tx
   SET state = ?4, rsp_code = ?5, response = ?6, updated_at = ?7, owner = NULL
 WHERE guid = ?1
   AND coalesce(attempts, 0) = ?2
   AND state = ?3";

const SWEEP: &str = "
UPDATE tx
   SET state = ?4, rsp_code = ?5, response = ?6, updated_at = ?7, owner = NULL
 WHERE guid = ?1
   AND coalesce(attempts, 0) = ?2
   AND state = ?3
   AND owner IS ?8
   AND coalesce(updated_at, '') = ?9";

const REMEMBER: &str = "
INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, reason, seen)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const PURGE: &str = "
DELETE FROM tx
 WHERE guid = ?1
   AND state = 'DONE'
   AND updated_at <= ?2
RETURNING rsp_code, coalesce(attempts, 0)";

const KEEP_PURGED: &str = "
INSERT INTO purged (guid, rsp_code, at)
VALUES (?1, ?2, ?3)
    ON CONFLICT (guid) DO NOTHING";

/// By rows and not by a range of rowids: those may have gaps of any width.
const PURGEABLE: &str = "
SELECT rowid, guid, state = 'DONE' AND updated_at <= ?3
  FROM tx
 WHERE rowid > ?1
 ORDER BY rowid
 LIMIT ?2";

const COUNTS: &str = "
SELECT state, rows
  FROM tx_count";

const COUNTS_OF_A_BARE_LEDGER: &str = "
SELECT state, count(*)
  FROM tx
 GROUP BY state";

const HAS_TABLE: &str = "
SELECT 1
  FROM sqlite_master
 WHERE type = 'table'
   AND name = ?1";

const HISTORY: &str = "
SELECT id, at, guid, from_state, to_state, attempt, cause, who, reason, seen
  FROM history
 WHERE guid = ?1
 ORDER BY id
 LIMIT ?2";

pub(super) fn find(con: &Connection, guid: &Guid) -> rusqlite::Result<Found> {
    if let Some(row) = get(con, guid)? {
        return Ok(Found::Row(Box::new(row)));
    }
    // A ledger that is only looked at may lack the tables beside tx.
    let purged = match con.prepare_cached(FIND_PURGED) {
        Ok(mut statement) => statement.exists([guid.as_str()])?,
        Err(_) if !has_table(con, "purged")? => false,
        Err(error) => return Err(error),
    };
    Ok(if purged { Found::Purged } else { Found::Nothing })
}

pub(super) fn claim(con: &Connection, claim: &Claim, now: &str) -> rusqlite::Result<Claimed> {
    // A purged GUID is never claimed. The write lock is ours, so nobody purges in between; and a WHERE NOT EXISTS in the INSERT would
    // make SQLite build a temporary table for each claim.
    let purged = con.prepare_cached(FIND_PURGED)?.exists([claim.guid.as_str()])?;
    if !purged && insert(con, claim, now)? {
        return Ok(Claimed::Claimed(Attempt::FIRST));
    }
    match find(con, &claim.guid)? {
        Found::Row(row) => Ok(Claimed::Found(row)),
        Found::Purged => Ok(Claimed::Purged),
        // A trigger of another program swallowed the INSERT. Not claimed, so nothing may be sent.
        Found::Nothing => Err(not_inserted()),
    }
}

fn insert(con: &Connection, claim: &Claim, now: &str) -> rusqlite::Result<bool> {
    let inserted = con.prepare_cached(CLAIM)?.execute(params![
        claim.guid.as_str(),
        claim.tx_code,
        claim.request,
        now,
        claim.owner.as_str()
    ])?;
    Ok(inserted == 1)
}

fn not_inserted() -> rusqlite::Error {
    let text = "the ledger took the claim and has no row of it: does it have a trigger of another program?";
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CONSTRAINT), Some(text.to_owned()))
}

pub(super) fn claim_failed(
    con: &Connection,
    claim: &ClaimFailed,
    now: &str,
) -> rusqlite::Result<ClaimedAgain> {
    let (guid, owner) = (claim.guid.as_str(), claim.owner.as_str());
    let attempt: Option<i64> = match claim.only {
        None => con
            .prepare_cached(CLAIM_FAILED)?
            .query_row(params![guid, now, owner], |row| row.get(0))
            .optional()?,
        Some(only) => con
            .prepare_cached(CLAIM_ONLY_FAILED)?
            .query_row(params![guid, now, owner, only.attempts_below, only.attempt.0], |row| {
                row.get(0)
            })
            .optional()?,
    };
    let Some(attempt) = attempt.map(Attempt) else { return Ok(ClaimedAgain::Lost) };
    let change = Change { from: State::Failed, to: Some(State::Sent), attempt };
    remember(con, &claim.guid, change, &claim.trail, now)?;
    Ok(ClaimedAgain::Claimed(attempt))
}

pub(super) fn record(con: &Connection, record: &Record, now: &str) -> rusqlite::Result<Recorded> {
    let (guid, attempt) = (&record.guid, record.attempt);
    let (to, code) = (record.result.state(), record.result.code());
    let write = |from| change(con, guid, attempt, (from, to), code, Some(&record.response), now);
    let from = if write(State::Sent)? {
        State::Sent
    } else {
        let row = match find(con, guid)? {
            Found::Row(row) => row,
            Found::Nothing | Found::Purged => return Ok(Recorded::Gone),
        };
        if row.attempt != attempt || !record.result.may_follow(row.state) || !write(row.state)? {
            return Ok(Recorded::Stale(row));
        }
        row.state
    };
    let plain = from == State::Sent && to == State::Done && attempt == Attempt::FIRST;
    if !plain {
        remember(con, guid, Change { from, to: Some(to), attempt }, &record.trail, now)?;
    }
    Ok(Recorded::Written)
}

pub(super) fn settle(con: &Connection, settle: &Settle, now: &str) -> rusqlite::Result<Recorded> {
    let (guid, attempt) = (&settle.guid, settle.attempt);
    let (to, code) = settle.result.becomes();
    let states = (State::Unknown, to);
    if !change(con, guid, attempt, states, code, Some(&settle.response), now)? {
        return Ok(match find(con, guid)? {
            Found::Row(row) => Recorded::Stale(row),
            Found::Nothing | Found::Purged => Recorded::Gone,
        });
    }
    let change = Change { from: State::Unknown, to: Some(to), attempt };
    remember(con, guid, change, &settle.trail, now)?;
    Ok(Recorded::Written)
}

pub(super) fn sweep(
    con: &Connection,
    orphans: &[Orphan],
    now: &str,
) -> rusqlite::Result<Vec<Guid>> {
    let mut swept = Vec::new();
    for orphan in orphans {
        let Some((to, code)) = Orphan::becomes(orphan.from) else { continue };
        let changed = con.prepare_cached(SWEEP)?.execute(params![
            orphan.guid.as_str(),
            orphan.attempt.0,
            orphan.from.as_str(),
            to.as_str(),
            code.as_str(),
            orphan.response,
            now,
            orphan.owner.as_ref().map(OwnerId::as_str),
            orphan.updated_at,
        ])?;
        if changed == 1 {
            let change = Change { from: orphan.from, to: Some(to), attempt: orphan.attempt };
            remember(con, &orphan.guid, change, &orphan.trail, now)?;
            swept.push(orphan.guid.clone());
        }
    }
    Ok(swept)
}

pub(super) fn purge(con: &Connection, purge: &Purge, now: &str) -> rusqlite::Result<Vec<Guid>> {
    let cutoff = ledger_time(purge.cutoff);
    let mut deleted = Vec::new();
    for guid in &purge.guids {
        let row: Option<(Option<String>, i64)> = con
            .prepare_cached(PURGE)?
            .query_row(params![guid.as_str(), cutoff], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((code, attempts)) = row else { continue };
        con.prepare_cached(KEEP_PURGED)?.execute(params![guid.as_str(), code, now])?;
        let change = Change { from: State::Done, to: None, attempt: Attempt(attempts) };
        remember(con, guid, change, &purge.trail, now)?;
        deleted.push(guid.clone());
    }
    Ok(deleted)
}

pub(super) fn purgeable(
    con: &Connection,
    cutoff: DateTime<Utc>,
    after: Option<i64>,
) -> rusqlite::Result<(Vec<Guid>, Option<i64>)> {
    let after = after.unwrap_or(i64::MIN);
    let mut statement = con.prepare_cached(PURGEABLE)?;
    let mut rows = statement.query(params![after, limits::PURGE_SCAN_ROWS, ledger_time(cutoff)])?;
    let (mut guids, mut seen, mut last) = (Vec::new(), 0, after);
    while let Some(row) = rows.next()? {
        (seen, last) = (seen + 1, row.get(0)?);
        if row.get::<_, Option<bool>>(2)? == Some(true) {
            guids.extend(text(row, 1)?.map(Guid::from_ledger));
        }
    }
    Ok((guids, (seen == limits::PURGE_SCAN_ROWS).then_some(last)))
}

pub(super) fn page(con: &Connection, query: &Query) -> rusqlite::Result<Vec<Row>> {
    let mut rows = match &query.guids {
        Some(guids) => named(con, query, guids)?,
        None => by_state(con, query, ROW_COLUMNS, read)?,
    };
    rows.sort_by_cached_key(Row::place);
    rows.truncate(query.rows_max);
    Ok(rows)
}

pub(super) fn outline(con: &Connection, query: &Query) -> rusqlite::Result<Vec<Outline>> {
    let mut rows = match &query.guids {
        Some(guids) => named(con, query, guids)?.into_iter().map(Row::outline).collect(),
        None => by_state(con, query, OUTLINE_COLUMNS, read_outline)?,
    };
    rows.sort_by_cached_key(Outline::place);
    rows.truncate(query.rows_max);
    Ok(rows)
}

fn named(con: &Connection, query: &Query, guids: &[Guid]) -> rusqlite::Result<Vec<Row>> {
    let snapshot = con.unchecked_transaction()?;
    let mut rows = Vec::new();
    for guid in guids.iter().collect::<BTreeSet<_>>() {
        rows.extend(get(&snapshot, guid)?.filter(|row| query.takes(row)));
    }
    snapshot.finish()?;
    Ok(rows)
}

/// One statement per state, because a partial index is used only where its WHERE stands literally; the caller merges them.
fn by_state<T>(
    con: &Connection,
    query: &Query,
    columns: &str,
    read: fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let snapshot = con.unchecked_transaction()?;
    let mut rows = Vec::new();
    for state in State::ALL.into_iter().filter(|state| query.states.contains(state)) {
        let (sql, values) = page_statement(columns, state, query);
        let mut statement = prepare(&snapshot, &sql)?;
        let found = statement.query_map(params_from_iter(values.iter()), read)?;
        for row in found {
            rows.push(row?);
        }
    }
    snapshot.finish()?;
    Ok(rows)
}

fn page_statement(columns: &str, state: State, query: &Query) -> (String, Vec<Box<dyn ToSql>>) {
    let mut sql = format!("SELECT {columns}\n  FROM tx\n WHERE state = '{state}'");
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(until) = query.until {
        sql.push_str("\n   AND updated_at <= ?");
        values.push(Box::new(ledger_time(until)));
    }
    if let Some(prefix) = &query.guid_prefix {
        sql.push_str("\n   AND guid >= ?");
        values.push(Box::new(prefix.clone()));
        if let Some(end) = after_prefix(prefix) {
            sql.push_str("\n   AND guid < ?");
            values.push(Box::new(end));
        }
    }
    if let Some(place) = &query.after {
        sql.push_str("\n   AND (updated_at, guid) > (?, ?)");
        values.push(Box::new(place.updated_at.clone()));
        values.push(Box::new(place.guid.as_str().to_owned()));
    }
    sql.push_str("\n ORDER BY updated_at, guid\n LIMIT ?");
    values.push(Box::new(i64::try_from(query.rows_max).unwrap_or(i64::MAX)));
    (sql, values)
}

/// The first text after all that begin with `prefix`: a range is answered by the index, LIKE is not.
pub(super) fn after_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

pub(super) fn counts(con: &Connection) -> rusqlite::Result<Counts> {
    let snapshot = con.unchecked_transaction()?;
    let counts = counts_within(&snapshot)?;
    snapshot.finish()?;
    Ok(counts)
}

/// The counts as the caller's own transaction sees them.
pub(super) fn counts_within(con: &Connection) -> rusqlite::Result<Counts> {
    let kept = has_table(con, "tx_count")?;
    let mut counts = Counts::default();
    let sql = if kept { COUNTS } else { COUNTS_OF_A_BARE_LEDGER };
    let mut statement = con.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (word, n): (_, i64) = (text(row, 0)?, row.get(1)?);
        if let Some(at) = State::ALL.iter().position(|s| word.as_deref() == Some(s.as_str())) {
            counts.rows[at] = u64::try_from(n).unwrap_or(0);
        }
    }
    for (at, state) in State::ALL.into_iter().enumerate().filter(|(_, s)| *s != State::Done) {
        let sql = format!("SELECT min(updated_at) FROM tx WHERE state = '{state}'");
        counts.oldest[at] = con.prepare_cached(&sql)?.query_row([], |row| text(row, 0))?;
    }
    Ok(counts)
}

pub(super) fn history(con: &Connection, guid: &Guid) -> rusqlite::Result<Vec<HistoryLine>> {
    if !has_table(con, "history")? {
        return Ok(Vec::new());
    }
    let limit = i64::try_from(limits::HISTORY_LINES_MAX).unwrap_or(i64::MAX);
    let mut statement = con.prepare_cached(HISTORY)?;
    statement.query_map(params![guid.as_str(), limit], line)?.collect()
}

pub(super) fn line(row: &rusqlite::Row<'_>) -> rusqlite::Result<HistoryLine> {
    Ok(HistoryLine {
        id: row.get(0)?,
        at: row.get(1)?,
        guid: Guid::from_ledger(row.get(2)?),
        from_state: row.get(3)?,
        to_state: row.get(4)?,
        attempt: row.get(5)?,
        cause: row.get(6)?,
        who: row.get(7)?,
        reason: row.get(8)?,
        seen: row.get(9)?,
    })
}

/// From where to where, under which attempt.
#[derive(Clone, Copy)]
struct Change {
    from: State,
    to: Option<State>,
    attempt: Attempt,
}

fn remember(
    con: &Connection,
    guid: &Guid,
    change: Change,
    trail: &Trail,
    now: &str,
) -> rusqlite::Result<()> {
    con.prepare_cached(REMEMBER)?.execute(params![
        now,
        guid.as_str(),
        change.from.as_str(),
        change.to.map(State::as_str),
        change.attempt.0,
        trail.cause.as_str(),
        trail.who,
        trail.reason,
        trail.seen,
    ])?;
    Ok(())
}

fn change(
    con: &Connection,
    guid: &Guid,
    attempt: Attempt,
    (from, to): (State, State),
    code: Code,
    response: Option<&[u8]>,
    now: &str,
) -> rusqlite::Result<bool> {
    let changed = con.prepare_cached(CHANGE)?.execute(params![
        guid.as_str(),
        attempt.0,
        from.as_str(),
        to.as_str(),
        code.as_str(),
        response,
        now,
    ])?;
    Ok(changed == 1)
}

fn get(con: &Connection, guid: &Guid) -> rusqlite::Result<Option<Row>> {
    prepare(con, FIND)?.query_row([guid.as_str()], read).optional()
}

/// Prepares a SELECT that names the column `owner`. A ledger that is only looked at may have no more than the eight columns.
pub(super) fn prepare<'a>(con: &'a Connection, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
    con.prepare_cached(sql).or_else(|error| {
        let has_owner =
            con.prepare("SELECT 1 FROM pragma_table_info('tx') WHERE name = 'owner'")?.exists([])?;
        if has_owner { Err(error) } else { con.prepare_cached(&sql.replace(", owner", ", NULL")) }
    })
}

pub(super) fn has_table(con: &Connection, name: &str) -> rusqlite::Result<bool> {
    con.prepare_cached(HAS_TABLE)?.exists([name])
}

pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        guid: Guid::from_ledger(text(row, 0)?.unwrap_or_default()),
        tx_code: text(row, 1)?.unwrap_or_default(),
        state: state(row, 2)?,
        rsp_code: text(row, 3)?,
        request: bytes(row, 4)?.unwrap_or_default(),
        response: bytes(row, 5)?,
        attempt: Attempt(number(row, 6)?),
        updated_at: text(row, 7)?.unwrap_or_default(),
        owner: text(row, 8)?.map(OwnerId::from_ledger),
    })
}

fn read_outline(row: &rusqlite::Row<'_>) -> rusqlite::Result<Outline> {
    Ok(Outline {
        guid: Guid::from_ledger(text(row, 0)?.unwrap_or_default()),
        state: state(row, 1)?,
        rsp_code: text(row, 2)?,
        attempt: Attempt(number(row, 3)?),
        updated_at: text(row, 4)?.unwrap_or_default(),
        owner: text(row, 5)?.map(OwnerId::from_ledger),
    })
}

/// The bytes of a column, whatever type another program gave them: one odd row must not spoil the page it stands on.
fn bytes(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        ValueRef::Integer(number) => Some(number.to_string().into_bytes()),
        ValueRef::Real(number) => Some(number.to_string().into_bytes()),
    })
}

fn text(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    bytes(row, at).map(|bytes| bytes.map(text))
}

/// A number; 0 for what is none, as `coalesce` says it in the conditions.
fn number(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<i64> {
    Ok(row.get_ref(at)?.as_i64_or_null().ok().flatten().unwrap_or(0))
}

fn state(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<State> {
    let word: String = row.get(at)?;
    word.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}
