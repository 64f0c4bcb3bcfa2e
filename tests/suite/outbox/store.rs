//! How stores are opened, created and left alone.

use std::path::Path;
use std::sync::Barrier;

use oncegate::outbox::{
    OutboxError, Role, Status, enqueue, no_fault, open_existing, open_store, pending, receive,
    role_of, status,
};
use rusqlite::Connection;

use super::{Stores, event, execute, rows, rows_on, sink_rows, texts};

const SCHEMA: &str = "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name";

fn is_no_store<T: std::fmt::Debug>(result: &Result<T, OutboxError>, what: &str) {
    assert!(matches!(result, Err(OutboxError::Store { .. })), "{what}: {result:?}");
}

/// Opening `path` in both ways fails and leaves every byte of it.
fn refused_and_unchanged(path: &Path, role: Role) {
    let before = std::fs::read(path).unwrap();
    let opened = open_store(path, role);
    assert!(
        matches!(opened, Err(OutboxError::Store { .. } | OutboxError::Sqlite(_))),
        "{opened:?}"
    );
    assert!(open_existing(path, role).is_err());
    assert_eq!(std::fs::read(path).unwrap(), before);
    assert!(!is_open(path), "the connection is closed");
}

/// Whether this process has the file open.
fn is_open(path: &Path) -> bool {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    files
        .into_iter()
        .any(|file| std::fs::read_link(file.unwrap().path()).is_ok_and(|at| at == path))
}

#[test]
fn a_role_is_source_or_sink_and_anything_else_a_value_error_before_any_connection() {
    assert_eq!("source".parse::<Role>().unwrap(), Role::Source);
    assert_eq!("sink".parse::<Role>().unwrap(), Role::Sink);
    for word in ["", "Source", "SINK", "sink ", "both"] {
        assert!(matches!(word.parse::<Role>(), Err(OutboxError::Value(_))), "{word}");
    }
}

#[test]
fn the_schemas_are_exactly_those_of_the_contract() {
    let stores = Stores::new();
    stores.open(Role::Source);
    stores.open(Role::Sink);
    assert_eq!(
        rows(&stores.source, SCHEMA),
        [
            "CREATE TABLE orders (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)",
            "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, \
             qty INTEGER NOT NULL, sent INTEGER NOT NULL CHECK(sent IN (0,1)))"
        ]
    );
    assert_eq!(
        rows(&stores.sink, SCHEMA),
        [
            "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)",
            "CREATE TABLE stock (id INTEGER PRIMARY KEY CHECK(id=1), total INTEGER NOT NULL)"
        ]
    );
    assert_eq!(rows(&stores.sink, "SELECT id, total FROM stock"), ["1|0"]);
}

#[test]
fn opening_again_overwrites_nothing() {
    let stores = Stores::new();
    let sink = stores.open(Role::Sink);
    assert!(receive(&sink, &event("a", 5), &mut no_fault).unwrap());
    let again = stores.open(Role::Sink);
    assert!(again.is_autocommit() && is_open(&stores.sink));
    drop((sink, again));
    assert!(!is_open(&stores.sink));
    assert_eq!(sink_rows(&stores.sink), (texts(&["a|5"]), texts(&["1|5"])));
}

#[test]
fn a_store_made_by_another_program_opens_is_completed_and_keeps_its_journal_mode() {
    let stores = Stores::new();
    execute(
        &stores.sink,
        "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL);
         CREATE TABLE notes (text);
         INSERT INTO inbox VALUES ('old', 70);
         INSERT INTO notes VALUES ('mine');",
    );
    let sink = stores.open(Role::Sink);
    assert!(!receive(&sink, &event("old", 70), &mut no_fault).unwrap());
    assert_eq!(sink_rows(&stores.sink), (texts(&["old|70"]), texts(&["1|0"])));
    assert_eq!(rows(&stores.sink, "SELECT text FROM notes"), ["mine"]);
    assert_eq!(rows_on(&sink, "PRAGMA journal_mode"), ["delete"]);
    assert_eq!(rows_on(&sink, "PRAGMA synchronous"), ["3"]);

    execute(
        &stores.source,
        "CREATE TABLE orders (id TEXT PRIMARY KEY, qty INTEGER NOT NULL);
         CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
                              qty INTEGER NOT NULL, sent INTEGER NOT NULL CHECK(sent IN (0,1)));
         INSERT INTO orders VALUES ('old', 70), ('older', 7);
         INSERT INTO outbox VALUES (3, 'older', 7, 1), (8, 'old', 70, 0);",
    );
    let source = stores.open(Role::Source);
    assert_eq!(pending(&source, 16).unwrap(), [event("old", 70)]);
    assert!(!enqueue(&source, &event("older", 7), &mut no_fault).unwrap());
    assert!(enqueue(&source, &event("new", 1), &mut no_fault).unwrap());
    assert_eq!(
        rows(&stores.source, "SELECT seq, id, qty, sent FROM outbox ORDER BY seq"),
        ["3|older|7|1", "8|old|70|0", "9|new|1|0"]
    );
    assert_eq!(rows_on(&source, "PRAGMA journal_mode"), ["delete"]);
}

#[test]
fn a_store_of_ours_has_a_write_ahead_log_and_waits_a_second_for_other_writers() {
    let stores = Stores::new();
    for role in [Role::Source, Role::Sink] {
        let con = stores.open(role);
        assert_eq!(rows_on(&con, "PRAGMA journal_mode"), ["wal"]);
        assert_eq!(rows_on(&con, "PRAGMA synchronous"), ["3"]);
        assert_eq!(rows_on(&con, "PRAGMA busy_timeout"), ["1000"]);
    }
}

#[test]
fn a_store_of_the_other_role_is_an_error_and_stays_as_it_was() {
    let stores = Stores::new();
    stores.open(Role::Source);
    stores.open(Role::Sink);
    refused_and_unchanged(&stores.source, Role::Sink);
    refused_and_unchanged(&stores.sink, Role::Source);
    for table in ["orders", "Outbox"] {
        let path = stores.dir.path().join(table);
        execute(&path, &format!("CREATE TABLE {table} (id)"));
        refused_and_unchanged(&path, Role::Sink);
    }
}

#[test]
fn a_table_of_ours_with_other_columns_is_an_error_and_stays_as_it_was() {
    let stores = Stores::new();
    for (n, (role, sql)) in [
        (
            Role::Sink,
            "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL, price INTEGER)",
        ),
        (Role::Sink, "CREATE TABLE inbox (id TEXT, qty INTEGER NOT NULL)"),
        (Role::Sink, "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER)"),
        (Role::Sink, "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty TEXT NOT NULL)"),
        (Role::Sink, "CREATE TABLE inbox (id TEXT PRIMARY KEY)"),
        (Role::Sink, "CREATE TABLE inbox (qty INTEGER NOT NULL, id TEXT PRIMARY KEY)"),
        (Role::Sink, "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL, z AS (qty))"),
        (Role::Sink, "CREATE TABLE stock (id INTEGER PRIMARY KEY, sum INTEGER NOT NULL)"),
        (Role::Sink, "CREATE VIEW inbox AS SELECT 'a' AS id, 1 AS qty"),
        (Role::Source, "CREATE TABLE orders (id TEXT, qty INTEGER, PRIMARY KEY (id, qty))"),
        (Role::Source, "CREATE TABLE outbox (seq INTEGER PRIMARY KEY, id TEXT NOT NULL)"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = stores.dir.path().join(n.to_string());
        execute(&path, sql);
        is_no_store(&open_store(&path, role), sql);
        refused_and_unchanged(&path, role);
    }
}

#[test]
fn a_file_that_is_no_database_is_an_error_and_stays_as_it_was() {
    let stores = Stores::new();
    let long = "minutes of the meeting, page 1\n".repeat(99);
    for text in [long.as_str(), "\n", "no", "minutes"] {
        std::fs::write(&stores.source, text).unwrap();
        refused_and_unchanged(&stores.source, Role::Source);
        refused_and_unchanged(&stores.source, Role::Sink);
    }
    assert!(open_store(stores.dir.path(), Role::Source).is_err(), "a folder");
    assert!(open_store(&stores.dir.path().join("no/where.db"), Role::Source).is_err());
    for path in ["", ":memory:"] {
        assert!(matches!(open_store(Path::new(path), Role::Sink), Err(OutboxError::Value(_))));
    }
}

#[test]
fn what_another_process_left_in_its_log_is_not_even_moved_into_the_file() {
    let stores = Stores::new();
    let con = Connection::open(stores.dir.path().join("theirs.db")).unwrap();
    con.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE inbox (id); INSERT INTO inbox VALUES (1)",
    )
    .unwrap();
    // As a crash leaves it: a file and a log.
    for end in ["", "-wal"] {
        let from = stores.dir.path().join(format!("theirs.db{end}"));
        std::fs::copy(from, stores.dir.path().join(format!("crashed.db{end}"))).unwrap();
    }
    let log = stores.dir.path().join("crashed.db-wal");
    let before = std::fs::read(&log).unwrap();
    refused_and_unchanged(&stores.dir.path().join("crashed.db"), Role::Source);
    assert_eq!(std::fs::read(&log).unwrap(), before);
}

#[test]
fn a_creation_that_fails_half_way_leaves_nothing_of_it() {
    let stores = Stores::new();
    execute(&stores.source, "CREATE TABLE notes (text); CREATE INDEX outbox ON notes (text);");
    let before = std::fs::read(&stores.source).unwrap();
    assert!(matches!(open_store(&stores.source, Role::Source), Err(OutboxError::Sqlite(_))));
    assert_eq!(
        rows(&stores.source, "SELECT name FROM sqlite_schema ORDER BY name"),
        ["notes", "outbox"]
    );
    assert_eq!(std::fs::read(&stores.source).unwrap(), before);
}

#[test]
fn many_may_create_the_same_store_at_the_same_time() {
    let stores = Stores::new();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                stores.open(Role::Sink);
            });
        }
    });
    assert_eq!(sink_rows(&stores.sink), (texts(&[]), texts(&["1|0"])));
    assert_eq!(rows(&stores.sink, "PRAGMA journal_mode"), ["wal"]);
}

#[test]
fn open_existing_creates_nothing_and_wants_the_whole_store() {
    let stores = Stores::new();
    assert!(open_existing(&stores.source, Role::Source).is_err());
    assert!(role_of(&stores.source).is_err());
    assert!(!stores.source.exists());
    std::fs::write(&stores.source, "").unwrap();
    is_no_store(&open_existing(&stores.source, Role::Source), "an empty file");
    is_no_store(&role_of(&stores.source), "an empty file");
    assert_eq!(std::fs::metadata(&stores.source).unwrap().len(), 0);
    execute(&stores.sink, "CREATE TABLE inbox (id TEXT PRIMARY KEY, qty INTEGER NOT NULL)");
    is_no_store(&open_existing(&stores.sink, Role::Sink), "half a sink");
    stores.open(Role::Sink);
    assert!(open_existing(&stores.sink, Role::Sink).is_ok());
}

#[test]
fn a_status_says_what_a_store_holds() {
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    assert_eq!(
        status(&source, Role::Source).unwrap(),
        Status::Source { orders: 0, pending: 0, oldest_seq: None }
    );
    execute(
        &stores.source,
        "INSERT INTO orders VALUES ('a', 1), ('b', 2);
         INSERT INTO outbox VALUES (1, 'a', 1, 1), (7, 'b', 2, 0);",
    );
    assert_eq!(
        status(&source, Role::Source).unwrap(),
        Status::Source { orders: 2, pending: 1, oldest_seq: Some(7) }
    );
    let sink = stores.open(Role::Sink);
    receive(&sink, &event("a", 3), &mut no_fault).unwrap();
    assert_eq!(status(&sink, Role::Sink).unwrap(), Status::Sink { received: 1, stock: Some(3) });
    assert_eq!(
        (role_of(&stores.source).unwrap(), role_of(&stores.sink).unwrap()),
        (Role::Source, Role::Sink)
    );
}
