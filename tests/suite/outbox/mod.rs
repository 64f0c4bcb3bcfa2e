//! The outbox and the inbox: every sentence of the contract, real processes that die, and a model of all that a network can do.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod command_line;
mod dispatching;
mod event;
mod http;
mod model;
mod processes;
mod sink;
mod source;
mod store;

use std::path::{Path, PathBuf};

use oncegate::outbox::{Event, OutboxError, Point, Role, open_store};
use rusqlite::Connection;
use tempfile::TempDir;

/// A source and a sink in a folder that vanishes.
struct Stores {
    dir: TempDir,
    source: PathBuf,
    sink: PathBuf,
}

impl Stores {
    fn new() -> Stores {
        let dir = tempfile::tempdir().unwrap();
        let (source, sink) = (dir.path().join("source.db"), dir.path().join("sink.db"));
        Stores { dir, source, sink }
    }

    fn open(&self, role: Role) -> Connection {
        match role {
            Role::Source => open_store(&self.source, role),
            Role::Sink => open_store(&self.sink, role),
        }
        .unwrap()
    }
}

fn event(id: &str, qty: i64) -> Event {
    Event::new(id, qty).unwrap()
}

/// What a connection of one's own reads: rows of columns, as text joined by `|`.
fn rows(path: &Path, sql: &str) -> Vec<String> {
    rows_on(&Connection::open(path).unwrap(), sql)
}

fn rows_on(con: &Connection, sql: &str) -> Vec<String> {
    let mut statement = con.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
        let values: Result<Vec<String>, _> = (0..columns)
            .map(|at| {
                row.get::<_, rusqlite::types::Value>(at).map(|value| match value {
                    rusqlite::types::Value::Null => "NULL".to_owned(),
                    rusqlite::types::Value::Integer(n) => n.to_string(),
                    rusqlite::types::Value::Real(n) => format!("{n:?}"),
                    rusqlite::types::Value::Text(text) => text,
                    rusqlite::types::Value::Blob(bytes) => format!("{bytes:?}"),
                })
            })
            .collect();
        Ok(values?.join("|"))
    };
    statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// What the source holds, in one look.
fn source_rows(path: &Path) -> (Vec<String>, Vec<String>) {
    (
        rows(path, "SELECT id, qty FROM orders ORDER BY rowid"),
        rows(path, "SELECT id, qty, sent FROM outbox ORDER BY seq"),
    )
}

/// What the sink holds, in one look.
fn sink_rows(path: &Path) -> (Vec<String>, Vec<String>) {
    (
        rows(path, "SELECT id, qty FROM inbox ORDER BY rowid"),
        rows(path, "SELECT id, total FROM stock"),
    )
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The error of a fault, which has to come back as the very same value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("trouble at {0}")]
struct Trouble(Point);

fn trouble_at(wanted: Point) -> impl FnMut(Point) -> Result<(), OutboxError> {
    move |point| {
        if point == wanted { Err(OutboxError::fault(Trouble(point))) } else { Ok(()) }
    }
}

fn is_trouble<T: std::fmt::Debug>(result: Result<T, OutboxError>, point: Point) {
    match result {
        Err(OutboxError::Fault(error)) => {
            assert_eq!(error.downcast_ref::<Trouble>(), Some(&Trouble(point)));
        }
        other => panic!("{other:?} instead of the trouble at {point}"),
    }
}

/// Numbers from a seed, which the caller prints first. (splitmix64)
struct Random(u64);

impl Random {
    /// From `ONCEGATE_SEED`, or new with every run.
    fn seeded(test: &str) -> Random {
        use std::hash::{BuildHasher, RandomState};
        let seed = std::env::var("ONCEGATE_SEED")
            .ok()
            .map_or_else(|| RandomState::new().hash_one(test), |seed| seed.parse().unwrap());
        println!("{test}: ONCEGATE_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
