//! A write transaction on a borrowed connection, which is in autocommit again afterwards, whatever happened.

use rusqlite::Connection;

use super::{Fault, OutboxError, Point};

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// Statements that break a NOT NULL rule and ask SQLite to roll the whole transaction back for it: the way out when the word ROLLBACK
/// itself is forbidden or fails. Two for each role, as a trigger may stand before one of them.
const ROLLBACK_BY_CONFLICT: [&str; 4] = [
    "INSERT OR ROLLBACK INTO orders (id, qty) VALUES (NULL, NULL)",
    "INSERT OR ROLLBACK INTO outbox (id, qty, sent) VALUES (NULL, NULL, NULL)",
    "INSERT OR ROLLBACK INTO inbox (id, qty) VALUES (NULL, NULL)",
    "INSERT OR ROLLBACK INTO stock (id, total) VALUES (1, NULL)",
];

/// Does `work` in one `BEGIN IMMEDIATE` transaction. On success it is committed and on disk; on an error (of BEGIN, `work` or COMMIT)
/// nothing of it remains and the error is passed on. Errors of its own: `NotAutocommit`, `Stuck`.
pub(super) fn within<T>(
    con: &Connection,
    work: impl FnOnce() -> Result<T, OutboxError>,
) -> Result<T, OutboxError> {
    autocommit(con)?;
    con.prepare_cached(BEGIN)?.execute([])?;
    let open = Open(con);
    let committed = work().and_then(|done| {
        con.prepare_cached(COMMIT)?.execute([])?;
        Ok(done)
    });
    let first = match committed {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    match open.roll_back() {
        Ok(()) => Err(first),
        Err(rollback) => Err(OutboxError::Stuck { first: Box::new(first), rollback }),
    }
}

/// The precondition of every function that borrows a connection to write. Errors: `NotAutocommit`.
pub(super) fn autocommit(con: &Connection) -> Result<(), OutboxError> {
    if con.is_autocommit() { Ok(()) } else { Err(OutboxError::NotAutocommit) }
}

/// Calls the caller's function between two steps of a transaction. If the transaction is over then, the next step would commit alone.
pub(super) fn at(con: &Connection, point: Point, fault: &mut Fault<'_>) -> Result<(), OutboxError> {
    fault(point)?;
    if con.is_autocommit() { Err(OutboxError::TransactionLost(point)) } else { Ok(()) }
}

/// A transaction of ours; a panic rolls it back, too.
struct Open<'a>(&'a Connection);

impl Open<'_> {
    fn roll_back(&self) -> Result<(), rusqlite::Error> {
        // SQLite has done it already after a full disk, an I/O error or a conflict with OR ROLLBACK.
        if self.0.is_autocommit() {
            return Ok(());
        }
        let Err(error) = self.0.execute_batch(ROLLBACK) else { return Ok(()) };
        for sql in ROLLBACK_BY_CONFLICT {
            if self.0.is_autocommit() {
                return Ok(());
            }
            // It always fails; what counts is what has become of the transaction.
            let _ = self.0.execute_batch(sql);
        }
        if self.0.is_autocommit() { Ok(()) } else { Err(error) }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // Only a panic comes here with work left to do, and it has nobody to tell an error.
        let _ = self.roll_back();
    }
}
