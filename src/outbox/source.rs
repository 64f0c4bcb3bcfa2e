//! The source: an order and the intent to send it are one transaction; what is pending; what was acknowledged.

use rusqlite::{Connection, ErrorCode, Transaction, params};

use super::transaction::{at, autocommit, within};
use super::{Event, Fault, OutboxError, Point, Role, no_fault};
use crate::limits::OUTBOX_LIMIT_MAX;

const HELD: &str = "SELECT (SELECT qty FROM orders WHERE id = ?1), \
                           (SELECT qty FROM outbox WHERE id = ?1)";
const INSERT_ORDER: &str = "INSERT INTO orders (id, qty) VALUES (?1, ?2)";
const INSERT_OUTBOX: &str = "INSERT INTO outbox (id, qty, sent) VALUES (?1, ?2, 0)";
const PENDING: &str = "SELECT seq, id, qty FROM outbox \
                       WHERE sent = 0 AND seq > ?1 \
                       ORDER BY seq LIMIT ?2";
const MARK: &str = "UPDATE outbox SET sent = 1 WHERE id = ?1 AND qty = ?2 AND sent = 0";
const MARKED: &str = "SELECT qty, sent FROM outbox WHERE id = ?1";
const SAVE: &str = "SAVEPOINT oncegate_outbox";
const RELEASE: &str = "RELEASE oncegate_outbox";
const ROLL_BACK_TO: &str = "ROLLBACK TO oncegate_outbox; RELEASE oncegate_outbox";

/// Below every `seq` that AUTOINCREMENT gives.
pub(crate) const BEFORE_ALL: i64 = i64::MIN;

/// Saves an order and the intent to send it, in one transaction: `orders` → `after-order` → `outbox` → `after-outbox` → COMMIT →
/// `after-commit`. True: both rows are on disk. False: this id is there with the same quantity, nothing was changed (and no fault was
/// called). Errors: `Value`; `Conflict`: the id is there with another quantity; `Row`: the store has only one of the two rows;
/// `NotAutocommit`; SQLite's and the fault's, as they were. After an error before the commit nothing of it remains; an error after the
/// commit deletes nothing.
pub fn enqueue(
    con: &Connection,
    event: &Event,
    fault: &mut Fault<'_>,
) -> Result<bool, OutboxError> {
    let event = event.checked()?;
    let is_new = within(con, || insert_both(con, &event, fault))?;
    if is_new {
        fault(Point::AfterCommit)?;
    }
    Ok(is_new)
}

/// As [`enqueue`], but inside a transaction of the caller's own: the order, the intent to send it and the caller's rows become durable
/// together, with the caller's commit, or not at all. On an error neither of the two rows is there, and the caller's transaction goes on
/// as before (unless SQLite ended it, after a full disk). Begin it with `TransactionBehavior::Immediate`: a deferred one fails at once
/// when another connection has written meanwhile. Errors: as [`enqueue`].
pub fn enqueue_within(tx: &Transaction<'_>, event: &Event) -> Result<bool, OutboxError> {
    let event = event.checked()?;
    tx.execute_batch(SAVE)?;
    let inserted = insert_both(tx, &event, &mut no_fault)
        .and_then(|is_new| Ok(tx.execute_batch(RELEASE).map(|()| is_new)?));
    if inserted.is_err() && !tx.is_autocommit() {
        tx.execute_batch(ROLL_BACK_TO)?;
    }
    inserted
}

fn insert_both(
    con: &Connection,
    event: &Event,
    fault: &mut Fault<'_>,
) -> Result<bool, OutboxError> {
    let held: (Option<i64>, Option<i64>) = con
        .prepare_cached(HELD)?
        .query_row(params![event.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match held {
        (None, None) => {}
        (Some(order), Some(outbox)) => {
            let other = [order, outbox].into_iter().find(|held| *held != event.qty);
            return other.map_or(Ok(false), |held| Err(conflict(event, held)));
        }
        (Some(_), None) => return Err(torn(event, "orders", "outbox")),
        (None, Some(_)) => return Err(torn(event, "outbox", "orders")),
    }
    insert(con, INSERT_ORDER, event)?;
    at(con, Point::AfterOrder, fault)?;
    insert(con, INSERT_OUTBOX, event)?;
    at(con, Point::AfterOutbox, fault)?;
    Ok(true)
}

fn insert(con: &Connection, sql: &str, event: &Event) -> Result<(), OutboxError> {
    match con.prepare_cached(sql)?.execute(params![event.id, event.qty])? {
        1 => Ok(()),
        // A trigger of another program's said RAISE(IGNORE).
        rows => Err(row(format!("a trigger that made {rows} rows of id `{}`", event.id))),
    }
}

/// At most `limit` (1-16) events with sent=0, in order of `seq`, as they are stored: what another program wrote is checked when it is
/// sent. Reads only. Errors: `Value` for the limit; SQLite's.
pub fn pending(con: &Connection, limit: usize) -> Result<Vec<Event>, OutboxError> {
    let rows = pending_after(con, BEFORE_ALL, limit)?;
    Ok(rows.into_iter().map(|(_, event)| event).collect())
}

/// As [`pending`], those after this `seq` only, with their `seq`.
pub(crate) fn pending_after(
    con: &Connection,
    seq: i64,
    limit: usize,
) -> Result<Vec<(i64, Event)>, OutboxError> {
    let rows_max = check_limit(limit)?;
    let mut statement = con.prepare_cached(PENDING)?;
    let rows = statement.query_map(params![seq, rows_max], |row| {
        Ok((row.get(0)?, Event { id: row.get(1)?, qty: row.get(2)? }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of rows, if `limit` is 1-16. Errors: `Value`.
pub(super) fn check_limit(limit: usize) -> Result<i64, OutboxError> {
    i64::try_from(limit).ok().filter(|rows| (1..=OUTBOX_LIMIT_MAX).contains(rows)).ok_or_else(
        || OutboxError::Value(format!("limit {limit} is not an integer 1-{OUTBOX_LIMIT_MAX}")),
    )
}

/// Marks the one row with this id and quantity as sent; deletes nothing. True: it is newly marked, on disk. False: it was marked
/// already. Errors, which change nothing: `Value`, also for an unknown id; `Conflict`: the id is there with another quantity;
/// `NotAutocommit`; SQLite's.
pub fn mark_sent(con: &Connection, event: &Event) -> Result<bool, OutboxError> {
    let event = event.checked()?;
    autocommit(con)?;
    mark(con, &event)
}

/// One statement: in autocommit it is its own transaction.
fn mark(con: &Connection, event: &Event) -> Result<bool, OutboxError> {
    if con.prepare_cached(MARK)?.execute(params![event.id, event.qty])? > 0 {
        return Ok(true);
    }
    let mut statement = con.prepare_cached(MARKED)?;
    let mut rows = statement.query(params![event.id])?;
    let Some(found) = rows.next()? else {
        return Err(OutboxError::Value(format!("id `{}` is not in the outbox", event.id)));
    };
    match (found.get(0)?, found.get(1)?) {
        (held, _) if held != event.qty => Err(conflict(event, held)),
        (_, 1) => Ok(false),
        (_, sent) => Err(row(format!("id `{}` with sent={sent}, and it stays so", event.id))),
    }
}

/// Marks what was acknowledged, in one commit. If that fails, one by one: what can be marked is. Returns how many were newly marked, and
/// the first failure with its event.
pub(super) fn mark_together(
    con: &Connection,
    acknowledged: &[Event],
) -> (usize, Option<(Event, OutboxError)>) {
    let together = within(con, || {
        acknowledged.iter().try_fold(0, |marked, event| Ok(marked + usize::from(mark(con, event)?)))
    });
    together.map_or_else(|_| mark_each(con, acknowledged), |marked| (marked, None))
}

fn mark_each(con: &Connection, acknowledged: &[Event]) -> (usize, Option<(Event, OutboxError)>) {
    let (mut marked, mut first) = (0, None);
    for event in acknowledged {
        match mark_sent(con, event) {
            Ok(newly) => marked += usize::from(newly),
            Err(error) => {
                // Behind another writer's lock each further one would only wait again.
                let locked = is_busy(&error);
                first.get_or_insert((event.clone(), error));
                if locked {
                    break;
                }
            }
        }
    }
    (marked, first)
}

fn is_busy(error: &OutboxError) -> bool {
    matches!(error, OutboxError::Sqlite(error)
        if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
}

fn conflict(event: &Event, held: i64) -> OutboxError {
    OutboxError::Conflict { id: event.id.clone(), held, given: event.qty }
}

fn torn(event: &Event, there: &str, missing: &str) -> OutboxError {
    row(format!("id `{}` in {there} and not in {missing}", event.id))
}

fn row(what: String) -> OutboxError {
    OutboxError::Row { role: Role::Source, what }
}
