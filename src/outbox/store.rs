//! The two stores: their schemas, how they are opened, what they hold.
//!
//! A store is created in one transaction, and only what is missing of it. What another program has made with these schemas opens and
//! is kept; what is not a store of ours is an error and stays as it was.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use serde::Serialize;

use super::OutboxError;
use super::transaction::within;
use crate::limits::OUTBOX_BUSY_TIMEOUT;

/// What a store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Orders and what is to be sent: `orders`, `outbox`.
    Source,
    /// What was received and its effect: `inbox`, `stock`.
    Sink,
}

impl Role {
    /// `source` or `sink`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Source => "source",
            Role::Sink => "sink",
        }
    }

    const fn other(self) -> Role {
        match self {
            Role::Source => Role::Sink,
            Role::Sink => Role::Source,
        }
    }

    fn tables(self) -> [&'static Table; 2] {
        match self {
            Role::Source => [&ORDERS, &OUTBOX],
            Role::Sink => [&INBOX, &STOCK],
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = OutboxError;

    fn from_str(word: &str) -> Result<Role, OutboxError> {
        [Role::Source, Role::Sink]
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| OutboxError::Value(format!("role {word:?} is not source or sink")))
    }
}

/// A table of the contract.
struct Table {
    name: &'static str,
    create: &'static str,
    columns: &'static [Column],
}

/// A column: name, type, NOT NULL, place in the primary key (0: none).
type Column = (&'static str, &'static str, bool, i64);

const ORDERS: Table = Table {
    name: "orders",
    create: "CREATE TABLE orders (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)",
    columns: &[("id", "TEXT", false, 1), ("qty", "INTEGER", true, 0)],
};

const OUTBOX: Table = Table {
    name: "outbox",
    create: "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, \
             id TEXT NOT NULL UNIQUE, qty INTEGER NOT NULL, \
             sent INTEGER NOT NULL CHECK(sent IN (0,1)))",
    columns: &[
        ("seq", "INTEGER", false, 1),
        ("id", "TEXT", true, 0),
        ("qty", "INTEGER", true, 0),
        ("sent", "INTEGER", true, 0),
    ],
};

const INBOX: Table = Table {
    name: "inbox",
    create: "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)",
    columns: &[("id", "TEXT", false, 1), ("qty", "INTEGER", true, 0)],
};

const STOCK: Table = Table {
    name: "stock",
    create: "CREATE TABLE stock (id INTEGER PRIMARY KEY CHECK(id=1), total INTEGER NOT NULL)",
    columns: &[("id", "INTEGER", false, 1), ("total", "INTEGER", true, 0)],
};

const OBJECTS: &str = "SELECT count(*) FROM sqlite_schema";
const KIND: &str = "SELECT type FROM sqlite_schema \
                    WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view') LIMIT 1";
const COLUMNS: &str = "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?1) ORDER BY cid";
const HAS_STOCK: &str = "SELECT EXISTS (SELECT 1 FROM stock WHERE id = 1)";
const FIRST_STOCK: &str = "INSERT INTO stock (id, total) VALUES (1, 0)";
const USE_WAL: &str = "PRAGMA journal_mode = WAL";
const SYNC: &str = "PRAGMA synchronous = EXTRA";
const IS_SYNC: &str = "PRAGMA synchronous";
const SYNC_EXTRA: i64 = 3;
const SOURCE_STATUS: &str = "SELECT (SELECT count(*) FROM orders), \
                             (SELECT count(*) FROM outbox WHERE sent = 0), \
                             (SELECT min(seq) FROM outbox WHERE sent = 0)";
const SINK_STATUS: &str = "SELECT (SELECT count(*) FROM inbox), \
                           (SELECT total FROM stock WHERE id = 1)";

/// Opens a store and creates what does not exist of it, in one transaction: the two tables, and the sink's first row `(1,0)`. Never
/// overwrites. Waits at most 1 s for another writer. A file that holds nothing yet is put into WAL mode; any other keeps its journal
/// mode. Tables of others are let be. Errors, after which the connection is closed and the store is as it was: `Value` for a path that
/// names no file; `Store`: a table of the other role, or one of ours with other columns; SQLite's, also for a file that is no database.
pub fn open_store(path: &Path, role: Role) -> Result<Connection, OutboxError> {
    let con = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    if con.query_row(OBJECTS, [], |row| row.get::<_, i64>(0))? == 0 {
        use_wal(&con)?;
    }
    if !is_complete(&con, path, role)? {
        within(&con, || create_missing(&con, path, role))?;
    }
    checkpoint_on_close(&con, true)?;
    Ok(con)
}

/// Opens a store that exists, and creates nothing. Errors as [`open_store`]'s, and `Store` for one of which something is missing.
pub fn open_existing(path: &Path, role: Role) -> Result<Connection, OutboxError> {
    let con = connect(path, OpenFlags::empty())?;
    for table in role.tables() {
        if !exists(&con, path, role, table)? {
            return Err(no_store(path, format!("it has no table {}: no {role}", table.name)));
        }
    }
    check_other(&con, path, role)?;
    checkpoint_on_close(&con, true)?;
    Ok(con)
}

/// Which role the store at `path` has. Creates nothing. Errors: `Store` if it is neither, or both; SQLite's.
pub fn role_of(path: &Path) -> Result<Role, OutboxError> {
    let con = connect(path, OpenFlags::empty())?;
    let kind =
        |role: Role| Ok::<_, OutboxError>(table_kind(&con, role.tables()[0].name)?.is_some());
    match (kind(Role::Source)?, kind(Role::Sink)?) {
        (true, false) => Ok(Role::Source),
        (false, true) => Ok(Role::Sink),
        (true, true) => Err(no_store(path, "it has tables of a source and of a sink".to_owned())),
        (false, false) => Err(no_store(path, "it is neither a source nor a sink".to_owned())),
    }
}

fn connect(path: &Path, create: OpenFlags) -> Result<Connection, OutboxError> {
    // SQLite would take these names for a database in memory, which forgets everything.
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(OutboxError::Value(format!("path `{}` names no file", path.display())));
    }
    // SQLite takes a file of one byte for an empty database, and would overwrite it.
    if std::fs::metadata(path).is_ok_and(|file| file.len() == 1) {
        return Err(no_store(path, "it is no database".to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
    let con = Connection::open_with_flags(path, flags)?;
    con.busy_timeout(OUTBOX_BUSY_TIMEOUT)?;
    // Until it is known to be ours: closing must not even move another program's log into its file. Without a log there is nothing to
    // move, and closing tidies up.
    checkpoint_on_close(&con, !has_log(path))?;
    con.execute_batch(SYNC)?;
    match con.query_row(IS_SYNC, [], |row| row.get(0))? {
        SYNC_EXTRA => Ok(con),
        other => Err(no_store(path, format!("synchronous stays {other}"))),
    }
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn checkpoint_on_close(con: &Connection, on: bool) -> Result<(), OutboxError> {
    con.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !on)?;
    Ok(())
}

/// Whoever creates the same store just now switches it, too, and SQLite does not wait for that: then it is done already.
fn use_wal(con: &Connection) -> Result<(), OutboxError> {
    match con.query_row(USE_WAL, [], |row| row.get::<_, String>(0)) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(()),
        // A file system without shared memory leaves the mode as it is: slower, and as safe.
        answer => Ok(answer.map(drop)?),
    }
}

fn create_missing(con: &Connection, path: &Path, role: Role) -> Result<(), OutboxError> {
    check_other(con, path, role)?;
    for table in role.tables() {
        if !exists(con, path, role, table)? {
            con.execute_batch(table.create)?;
        }
    }
    if role == Role::Sink && !has_stock(con)? {
        con.execute(FIRST_STOCK, [])?;
    }
    Ok(())
}

fn is_complete(con: &Connection, path: &Path, role: Role) -> Result<bool, OutboxError> {
    check_other(con, path, role)?;
    let [first, second] = role.tables();
    let tables = exists(con, path, role, first)? & exists(con, path, role, second)?;
    Ok(tables && (role == Role::Source || has_stock(con)?))
}

fn has_stock(con: &Connection) -> Result<bool, OutboxError> {
    Ok(con.query_row(HAS_STOCK, [], |row| row.get(0))?)
}

fn check_other(con: &Connection, path: &Path, role: Role) -> Result<(), OutboxError> {
    let other = role.other();
    for table in other.tables() {
        if table_kind(con, table.name)?.is_some() {
            return Err(no_store(
                path,
                format!("it has the table {} of a {other}: no {role}", table.name),
            ));
        }
    }
    Ok(())
}

/// Whether a table of ours is there; an error if it is there and not as agreed.
fn exists(con: &Connection, path: &Path, role: Role, table: &Table) -> Result<bool, OutboxError> {
    let Some(kind) = table_kind(con, table.name)? else { return Ok(false) };
    let mut statement = con.prepare(COLUMNS)?;
    let columns: Vec<(String, String, bool, i64)> = statement
        .query_map(params![table.name], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let same = |(found, agreed): (&(String, String, bool, i64), &Column)| {
        found.0.eq_ignore_ascii_case(agreed.0)
            && found.1.eq_ignore_ascii_case(agreed.1)
            && (found.2, found.3) == (agreed.2, agreed.3)
    };
    let as_agreed = kind == "table"
        && columns.len() == table.columns.len()
        && columns.iter().zip(table.columns).all(same);
    if as_agreed {
        return Ok(true);
    }
    Err(no_store(path, format!("its {kind} {} is not the table of a {role}", table.name)))
}

fn table_kind(con: &Connection, name: &str) -> Result<Option<String>, OutboxError> {
    Ok(con.query_row(KIND, params![name], |row| row.get(0)).optional()?)
}

fn no_store(path: &Path, why: String) -> OutboxError {
    OutboxError::Store { path: path.to_owned(), why }
}

/// What a store holds, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Status {
    /// Of a source.
    Source {
        /// Rows in `orders`.
        orders: i64,
        /// Events with sent=0.
        pending: i64,
        /// The lowest `seq` of those.
        oldest_seq: Option<i64>,
    },
    /// Of a sink.
    Sink {
        /// Rows in `inbox`.
        received: i64,
        /// The total; `None` if the first row is missing.
        stock: Option<i64>,
    },
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Source { orders, pending, oldest_seq } => {
                write!(f, "source: {orders} orders, {pending} pending")?;
                oldest_seq.map_or(Ok(()), |seq| write!(f, ", oldest seq {seq}"))
            }
            Status::Sink { received, stock: Some(total) } => {
                write!(f, "sink: {received} received, stock {total}")
            }
            Status::Sink { received, stock: None } => {
                write!(f, "sink: {received} received, no stock yet")
            }
        }
    }
}

/// What the store of this role holds, in one look: the numbers belong together. Reads only. Errors: SQLite's.
pub fn status(con: &Connection, role: Role) -> Result<Status, OutboxError> {
    let status = match role {
        Role::Source => con.query_row(SOURCE_STATUS, [], |row| {
            Ok(Status::Source {
                orders: row.get(0)?,
                pending: row.get(1)?,
                oldest_seq: row.get(2)?,
            })
        }),
        Role::Sink => con.query_row(SINK_STATUS, [], |row| {
            Ok(Status::Sink { received: row.get(0)?, stock: row.get(1)? })
        }),
    };
    Ok(status?)
}
