//! The sink: a received id and its effect are one transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::transaction::{at, within};
use super::{Event, Fault, OutboxError, Point, Role};

const HELD: &str = "SELECT qty FROM inbox WHERE id = ?1";
const INSERT_INBOX: &str = "INSERT INTO inbox (id, qty) VALUES (?1, ?2)";
/// A sum past the greatest integer would turn into a rounded number: no row, then.
const RAISE_STOCK: &str = "UPDATE stock SET total = total + ?1 \
                           WHERE id = 1 AND typeof(total) = 'integer' \
                           AND total <= 9223372036854775807 - ?1";

/// Receives an event, in one transaction: `inbox` → `after-inbox` → stock.total += qty → `after-total` → COMMIT → `after-commit`. True:
/// id and effect are on disk. False: this id was received before with the same quantity; nothing was changed, no fault was called, and
/// it is to be acknowledged all the same. Errors: `Value`; `Conflict`: the id is there with another quantity; `Row`: the stock can't be
/// raised; `NotAutocommit`; SQLite's and the fault's, as they were. After an error before the commit nothing of it remains; an error
/// after the commit deletes nothing.
pub fn receive(
    con: &Connection,
    event: &Event,
    fault: &mut Fault<'_>,
) -> Result<bool, OutboxError> {
    let event = event.checked()?;
    let is_new = within(con, || insert_and_raise(con, &event, fault))?;
    if is_new {
        fault(Point::AfterCommit)?;
    }
    Ok(is_new)
}

fn insert_and_raise(
    con: &Connection,
    event: &Event,
    fault: &mut Fault<'_>,
) -> Result<bool, OutboxError> {
    let held: Option<i64> =
        con.prepare_cached(HELD)?.query_row(params![event.id], |row| row.get(0)).optional()?;
    match held {
        None => {}
        Some(held) if held == event.qty => return Ok(false),
        Some(held) => {
            return Err(OutboxError::Conflict { id: event.id.clone(), held, given: event.qty });
        }
    }
    if con.prepare_cached(INSERT_INBOX)?.execute(params![event.id, event.qty])? != 1 {
        return Err(row(format!("a trigger that keeps id `{}` out of the inbox", event.id)));
    }
    at(con, Point::AfterInbox, fault)?;
    if con.prepare_cached(RAISE_STOCK)?.execute(params![event.qty])? != 1 {
        return Err(row(format!("no stock total that can be raised by {}", event.qty)));
    }
    at(con, Point::AfterTotal, fault)?;
    Ok(true)
}

fn row(what: String) -> OutboxError {
    OutboxError::Row { role: Role::Sink, what }
}
