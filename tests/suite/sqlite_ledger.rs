//! What is SQLite's own about the ledger: its file, its locks, its disk, and the other programs that open it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::{Clock, SystemClock};
use oncegate::code::Code;
use oncegate::guid::Attempt;
use oncegate::ledger::sqlite::{Access, BallastNews, Created, Hooks, OpenError, SqliteLedger};
use oncegate::ledger::{
    CallResult, Cause, Claimed, ClaimedAgain, Found, Ledger, LedgerError, Orphan, Purge, Query,
    Recorded, Settled,
};
use oncegate::limits;
use oncegate::state::State;
use rusqlite::Connection;

use crate::ledgers::{
    HandClock, again, claim, claimed, empty_ledger, id, orphan, record, scratch, settle, trail,
    wait_for,
};

use crate::support::alone::{OWN_MOUNTS, fill, in_a_process_of_its_own, mount};

const SCHEMA: &str = include_str!("../../schema.sql");
const BARE: &str = "
    CREATE TABLE tx (guid TEXT PRIMARY KEY, tx_code TEXT,
        state TEXT CHECK (state IN ('RECEIVED','SENT','DONE','UNKNOWN','FAILED')),
        rsp_code TEXT, request BLOB, response BLOB, attempts INTEGER, updated_at TEXT)";
const SERVE: Access = Access::Serve { must_exist: false };
const DONE: CallResult = CallResult::Definite(Code::Done);

fn try_open(path: &Path, access: Access) -> Result<(SqliteLedger, Created), OpenError> {
    SqliteLedger::open(path, access, HandClock::new(), Hooks::default())
}

fn open(path: &Path, access: Access) -> SqliteLedger {
    try_open(path, access).unwrap().0
}

/// A ledger in a directory of its own, with no ballast beside it.
fn ledger() -> (SqliteLedger, PathBuf, tempfile::TempDir) {
    let dir = scratch();
    let path = empty_ledger(dir.path());
    (open(&path, Access::Routine), path, dir)
}

fn number(con: &Connection, sql: &str) -> i64 {
    con.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| name(e).to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

// ---- the file

#[test]
fn a_new_ledger_is_whole_and_the_owners_alone() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    let (ledger, created) = try_open(&path, SERVE).unwrap();
    assert_eq!(created, Created::New);
    claimed(&ledger, "G");
    wait_for("the ballast lies", || names(dir.path()).contains(&"l.db.ballast".to_owned()));
    assert_eq!(names(dir.path()), ["l.db", "l.db-shm", "l.db-wal", "l.db.ballast", "l.db.mark"]);
    for name in names(dir.path()) {
        let mode = fs::metadata(dir.path().join(&name)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let con = Connection::open(&path).unwrap();
    let text: String = con.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(text, "wal");
    assert_eq!(number(&con, "PRAGMA application_id"), 0x6f6e_6365);
    assert_eq!(number(&con, "PRAGMA user_version"), 1);
    drop((con, ledger));
    assert_eq!(try_open(&path, SERVE).unwrap().1, Created::Existing);
}

#[test]
fn closing_waits_for_what_was_asked_and_leaves_one_file() {
    let (ledger, path, dir) = ledger();
    claimed(&ledger, "G");
    drop(ledger);
    assert_eq!(names(dir.path()), ["l.db"]);
    let con = Connection::open(&path).unwrap();
    assert_eq!(number(&con, "SELECT count(*) FROM tx WHERE state = 'SENT'"), 1);
}

#[test]
fn a_missing_ledger_is_created_only_for_a_relay_that_may() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    for access in [Access::Serve { must_exist: true }, Access::Routine, Access::Read] {
        assert!(matches!(try_open(&path, access), Err(OpenError::Missing { .. })), "{access:?}");
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn relays_that_start_at_once_serve_one_ledger() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    let start = Barrier::new(8);
    let opened: Vec<_> = thread::scope(|scope| {
        let open = || {
            start.wait();
            let clock = Arc::new(SystemClock::new());
            SqliteLedger::open(&path, SERVE, clock, Hooks::default()).unwrap()
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(opened.iter().filter(|(_, created)| *created == Created::New).count(), 1);
    for (at, (ledger, _)) in opened.iter().enumerate() {
        let wanted = if at == 0 {
            Claimed::Claimed(Attempt::FIRST)
        } else {
            Claimed::Found(Box::new(match ledger.find(&id("G")).unwrap() {
                Found::Row(row) => *row,
                other => panic!("{other:?}"),
            }))
        };
        assert_eq!(ledger.claim(&claim("G")).unwrap(), wanted);
    }
    drop(opened);
    assert_eq!(names(dir.path()), ["l.db", "l.db.ballast", "l.db.mark"], "no half ledger is left");
}

#[test]
fn a_name_that_means_memory_to_sqlite_is_a_file_like_any_other() {
    // `--db :memory:` would have forgotten every GUID at the end of the process.
    let dir = scratch();
    let path = dir.path().join(":memory:");
    let ledger = open(&path, SERVE);
    claimed(&ledger, "G");
    drop(ledger);
    assert!(matches!(open(&path, Access::Read).find(&id("G")), Ok(Found::Row(_))));
}

#[test]
fn a_ledger_is_the_same_by_a_link() {
    let (direct, path, dir) = ledger();
    let link = dir.path().join("link with %3f and ?.db");
    symlink(&path, &link).unwrap();
    let linked = open(&link, Access::Routine);
    assert_eq!(linked.path(), direct.path());
    claimed(&linked, "G");
    assert!(matches!(direct.claim(&claim("G")).unwrap(), Claimed::Found(_)));
}

// ---- what is no ledger

/// Opens `path` in every way; it must be refused with a text that contains `why`, and nothing may change.
fn refused(path: &Path, why: &str) {
    let dir = path.parent().unwrap();
    let before = (names(dir), fs::read(path).ok());
    for access in [SERVE, Access::Routine, Access::Read] {
        let error = try_open(path, access).map(|_| "opened").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(why), "{why}: {access:?}: {text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert_eq!((names(dir), fs::read(path).ok()), before, "{why}: {access:?}");
    }
}

#[test]
fn a_file_that_is_no_database_stays_as_it_was() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    let minutes = "minutes of the meeting, page 1\n".repeat(99);
    let text = [("", "it is empty"), ("x", "it has no table tx"), (&minutes, "no SQLite database")];
    for (content, why) in text {
        fs::write(&path, content).unwrap();
        refused(&path, why);
    }
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    fs::create_dir(&path).unwrap();
    refused(&path, "it is no file");
    fs::remove_dir(&path).unwrap();
    // Opening a FIFO would wait for a writer for ever.
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    for access in [SERVE, Access::Routine, Access::Read] {
        let error = try_open(&path, access).map(|_| "opened").unwrap_err();
        assert!(error.to_string().contains("it is no file"), "{error}");
    }
}

#[test]
fn a_database_that_is_no_ledger_stays_as_it_was_and_gets_no_files_beside_it() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    let without = |column: &str| BARE.replace(column, "");
    let all = [
        ("CREATE TABLE notes (text)".to_owned(), "it has no table tx"),
        (BARE.replace("TABLE tx", "TABLE tax"), "it has no table tx"),
        (without("response BLOB, "), "no column response"),
        (without(", updated_at TEXT"), "no column updated_at"),
        (without(" PRIMARY KEY"), "is no key"),
        (
            format!("{}; CREATE VIEW tx AS SELECT * FROM t", BARE.replace("TABLE tx", "TABLE t")),
            "it has no table tx",
        ),
        (format!("{BARE}; PRAGMA application_id = 7"), "another application (application_id 0x7)"),
        (SCHEMA.replace("user_version = 1", "user_version = 2"), "schema version 2"),
    ];
    for (sql, why) in &all {
        for mode in ["DELETE", "WAL"] {
            let _ = fs::remove_file(&path);
            let con = Connection::open(&path).unwrap();
            con.pragma_update(None, "journal_mode", mode).unwrap();
            con.execute_batch(sql).unwrap();
            drop(con);
            refused(&path, why);
        }
    }
}

#[test]
fn a_ledger_that_is_still_in_another_programs_log_is_one() {
    // The file alone, without its -wal, has no table yet.
    let dir = scratch();
    let path = dir.path().join("l.db");
    let con = Connection::open(&path).unwrap();
    con.pragma_update(None, "journal_mode", "WAL").unwrap();
    con.execute_batch("CREATE TABLE notes (text)").unwrap();
    assert!(try_open(&path, Access::Routine).is_err());
    con.execute_batch(BARE).unwrap();
    claimed(&open(&path, Access::Routine), "G");
}

#[test]
fn a_key_by_any_other_name_is_a_key() {
    let dir = scratch();
    let path = dir.path().join("l.db");
    let con = Connection::open(&path).unwrap();
    con.execute_batch(
        "CREATE TABLE TX (ID INTEGER PRIMARY KEY, Guid TEXT UNIQUE, TX_CODE TEXT, STATE TEXT, RSP_CODE TEXT,
            REQUEST BLOB, RESPONSE BLOB, ATTEMPTS INTEGER, UPDATED_AT TEXT)",
    )
    .unwrap();
    drop(con);
    claimed(&open(&path, Access::Routine), "G");
}

#[test]
fn a_file_that_was_refused_is_not_kept_open() {
    if !in_a_process_of_its_own("sqlite_ledger::a_file_that_was_refused_is_not_kept_open", &["env"])
    {
        return;
    }
    let dir = scratch();
    let path = dir.path().join("l.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE tx (guid)").unwrap();
    let text = dir.path().join("text.db");
    fs::write(&text, "minutes of the meeting".repeat(99)).unwrap();
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open_files();
    for _ in 0..20 {
        assert!(try_open(&path, Access::Routine).is_err());
        assert!(try_open(&text, SERVE).is_err());
        assert!(try_open(&dir.path().join("none.db"), Access::Routine).is_err());
    }
    assert_eq!(open_files(), before);
}

// ---- the schema

#[test]
fn the_schema_can_be_applied_again_and_keeps_what_is_there() {
    let con = Connection::open_in_memory().unwrap();
    con.execute_batch(SCHEMA).unwrap();
    con.execute_batch("INSERT INTO tx (guid, state, updated_at) VALUES ('G', 'SENT', 'now')")
        .unwrap();
    con.execute_batch(SCHEMA).unwrap();
    assert_eq!(number(&con, "SELECT count(*) FROM tx"), 1);
    assert_eq!(number(&con, "SELECT rows FROM tx_count WHERE state = 'SENT'"), 1);
    assert_eq!(number(&con, "SELECT attempts FROM tx"), 1);
}

#[test]
fn the_check_knows_exactly_the_five_states() {
    let check = SCHEMA.split("CHECK (").nth(1).unwrap().split(')').next().unwrap();
    let word =
        |term: &str| term.strip_prefix("state = '").unwrap().trim_end_matches('\'').to_owned();
    let words: Vec<String> = check.split(" OR ").map(word).collect();
    assert_eq!(words, State::ALL.map(State::as_str));
    let con = Connection::open_in_memory().unwrap();
    con.execute_batch(SCHEMA).unwrap();
    let insert = "INSERT INTO tx (guid, state, updated_at) VALUES (?1, ?1, 'now')";
    for state in State::ALL {
        con.execute(insert, [state.as_str()]).unwrap();
    }
    for word in ["", "sent", "DONNE", "SENT "] {
        assert!(con.execute(insert, [word]).is_err(), "{word:?}");
    }
    assert!(con.execute(insert, [None::<String>]).is_err());
}

#[test]
fn the_history_can_only_grow() {
    let (ledger, path, _dir) = ledger();
    claimed(&ledger, "G");
    ledger.record(&record("G", 1, CallResult::Open)).unwrap();
    let con = Connection::open(&path).unwrap();
    for sql in [
        "UPDATE history SET who = 'nobody'",
        "DELETE FROM history",
        "REPLACE INTO history (id, at, guid, cause, who) VALUES (1, 'now', 'G', 'relay', 'nobody')",
        "INSERT OR REPLACE INTO history (id, at, guid, cause, who) SELECT id, at, guid, cause, 'nobody' FROM history",
    ] {
        let error = con.execute_batch(sql).unwrap_err().to_string();
        assert!(error.contains("history is append-only"), "{sql}: {error}");
    }
    assert_eq!(ledger.history(&id("G")).unwrap()[0].who, "op@host");
}

#[test]
fn a_column_that_is_added_while_the_ledger_is_open_disturbs_nothing() {
    let (ledger, path, _dir) = ledger();
    claimed(&ledger, "G");
    let con = Connection::open(&path).unwrap();
    con.execute_batch("ALTER TABLE tx ADD COLUMN note TEXT DEFAULT 'none'").unwrap();
    claimed(&ledger, "H");
    assert_eq!(ledger.record(&record("G", 1, DONE)), Ok(Recorded::Written));
    assert_eq!(ledger.page(&Query::of(&State::ALL)).unwrap().len(), 2);
}

#[test]
fn the_counts_follow_what_other_programs_write() {
    let (ledger, path, _dir) = ledger();
    let con = Connection::open(&path).unwrap();
    con.execute_batch(
        "INSERT INTO tx (guid, state, updated_at) VALUES ('A', 'SENT', 'x'), ('B', 'SENT', 'x'), ('C', 'DONE', 'x');
         UPDATE tx SET state = 'FAILED' WHERE guid = 'A';
         UPDATE tx SET state = state, updated_at = 'y';
         DELETE FROM tx WHERE guid = 'C';
         INSERT INTO tx (guid, state, updated_at) VALUES ('A', 'DONE', 'x') ON CONFLICT DO NOTHING;",
    )
    .unwrap();
    assert_eq!(ledger.counts().unwrap().rows, [0, 1, 0, 0, 1]);
}

#[test]
fn the_counts_of_what_is_not_settled_are_right_again_after_a_start() {
    // REPLACE deletes the row that is in its way without any trigger, so the count of its state stays one too high.
    let (ledger, path, _dir) = ledger();
    claimed(&ledger, "G");
    drop(ledger);
    let con = Connection::open(&path).unwrap();
    con.execute_batch("REPLACE INTO tx (guid, state, updated_at) VALUES ('G', 'FAILED', 'x')")
        .unwrap();
    assert_eq!(number(&con, "SELECT sum(rows) FROM tx_count"), 2);
    assert_eq!(open(&path, Access::Routine).counts().unwrap().rows, [0, 0, 0, 0, 1]);
}

// ---- a bare ledger

fn bare(dir: &Path) -> PathBuf {
    let path = dir.join("l.db");
    let con = Connection::open(&path).unwrap();
    con.execute_batch(BARE).unwrap();
    con.execute_batch(
        "INSERT INTO tx VALUES
            ('done', 'T', 'DONE', '0000', x'01', x'02', 1, '2026-01-01 00:00:00'),
            ('sent', 'T', 'SENT', NULL, x'01', NULL, 1, '2026-01-01 00:00:00'),
            ('timeless', NULL, 'UNKNOWN', NULL, NULL, NULL, NULL, NULL),
            ('odd', 5, 'FAILED', 7, 'text', 'text', 'many', 20260101),
            ('stateless', 'T', NULL, NULL, NULL, NULL, 1, '2026-01-01 00:00:00'),
            (NULL, 'T', 'SENT', NULL, NULL, NULL, 1, '2026-01-01 00:00:00')",
    )
    .unwrap();
    path
}

#[test]
fn a_bare_ledger_is_looked_at_as_it_is() {
    let dir = scratch();
    let path = bare(dir.path());
    let before = fs::read(&path).unwrap();
    let ledger = open(&path, Access::Read);
    assert_eq!(ledger.counts().unwrap().rows, [0, 2, 1, 1, 1]);
    let query = Query::of(&State::ALL);
    assert_eq!(ledger.page(&query).unwrap().len(), 5, "one odd row spoils no page");
    assert_eq!(ledger.outline(&query).unwrap().len(), 5);
    assert_eq!(ledger.find(&id("none")).unwrap(), Found::Nothing);
    assert_eq!(ledger.history(&id("sent")).unwrap(), []);
    assert_eq!(ledger.purgeable(HandClock::new().now(), None).unwrap(), (vec![id("done")], None));
    assert!(matches!(ledger.claim(&claim("G")), Err(LedgerError::ReadOnly(_))));
    drop(ledger);
    assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (before, vec!["l.db".to_owned()]));
}

#[test]
fn a_bare_ledger_gets_what_it_lacks_and_every_row_of_it_can_be_settled() {
    let dir = scratch();
    let path = bare(dir.path());
    let ledger = open(&path, Access::Routine);
    assert_eq!(ledger.counts().unwrap().rows, [0, 2, 1, 1, 1]);
    claimed(&ledger, "new");
    // Its attempts and its time were NULL: no fence ever matched, and it was never old enough to be asked about.
    let late = Query { until: Some(HandClock::new().now()), ..Query::of(&[State::Unknown]) };
    assert_eq!(ledger.outline(&late).unwrap()[0].guid, id("timeless"));
    let settled = ledger.settle(&settle("timeless", 0, Settled::Absent)).unwrap();
    assert_eq!(settled, Recorded::Written);
    assert_eq!(ledger.claim_failed(&again("timeless")).unwrap(), ClaimedAgain::Claimed(Attempt(1)));
    let Found::Row(sent) = ledger.find(&id("sent")).unwrap() else { panic!("no row") };
    assert_eq!(ledger.sweep_orphans(&[orphan(&sent)]).unwrap(), [id("sent")]);
    let purge = Purge {
        cutoff: HandClock::new().now(),
        guids: vec![id("done")],
        trail: trail(Cause::Purge),
    };
    assert_eq!(ledger.purge_batch(&purge).unwrap(), [id("done")]);
    assert_eq!(ledger.counts().unwrap().rows, [0, 3, 0, 1, 1]);
    // What is no state is nothing that anybody may send.
    assert!(matches!(ledger.claim(&claim("stateless")), Err(LedgerError::Failed(_))));
    let con = Connection::open(&path).unwrap();
    let real = "SELECT sum(rows) FROM tx_count UNION ALL SELECT count(*) - 1 FROM tx";
    assert_eq!(number(&con, real), 5);
}

#[test]
fn a_purge_does_not_count_through_a_gap_in_the_rowids() {
    // It went by ranges of 20,000 rowids; one row at the end of the numbers made it read nothing, for years.
    let (ledger, path, _dir) = ledger();
    let con = Connection::open(&path).unwrap();
    let insert = "INSERT INTO tx (rowid, guid, state, updated_at) VALUES (?, ?, 'DONE', '2020-01-01 00:00:00')";
    for rowid in [i64::MIN + 1, -1, 0, 5, i64::MAX] {
        con.execute(insert, (rowid, rowid.to_string())).unwrap();
    }
    let (guids, next) = ledger.purgeable(HandClock::new().now(), None).unwrap();
    assert_eq!((guids.len(), next), (5, None));
}

#[test]
fn a_long_table_is_searched_in_stretches() {
    let (ledger, path, _dir) = ledger();
    let con = Connection::open(&path).unwrap();
    let rows = limits::PURGE_SCAN_ROWS + 5;
    con.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO tx (guid, state, updated_at) SELECT 'G' || i, 'DONE', '2020-01-01 00:00:00' FROM n",
        [rows],
    )
    .unwrap();
    let (first, next) = ledger.purgeable(HandClock::new().now(), None).unwrap();
    let (second, end) = ledger.purgeable(HandClock::new().now(), next).unwrap();
    assert_eq!(i64::try_from(first.len() + second.len()), Ok(rows));
    assert_eq!((second.len(), end), (5, None));
}

// ---- moved, deleted, replaced

/// After `happens`, nothing is claimed or recorded, and neither what was the ledger nor what is there now changes.
fn moved(happens: impl Fn(&Path)) {
    let (ledger, path, dir) = ledger();
    claimed(&ledger, "before");
    happens(&path);
    let before: Vec<_> =
        names(dir.path()).iter().map(|n| fs::read(dir.path().join(n)).ok()).collect();
    assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Moved));
    assert_eq!(ledger.record(&record("before", 1, DONE)), Err(LedgerError::Moved));
    assert_eq!(ledger.probe(), Err(LedgerError::Moved));
    let after: Vec<_> =
        names(dir.path()).iter().map(|n| fs::read(dir.path().join(n)).ok()).collect();
    assert!(before == after, "not a byte changes in {:?}", names(dir.path()));
}

#[test]
fn a_ledger_that_is_not_under_its_name_any_more_takes_nothing() {
    moved(|path| fs::remove_file(path).unwrap());
    moved(|path| fs::rename(path, path.with_extension("old")).unwrap());
    moved(|path| {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        fs::rename(&copy, path).unwrap();
    });
}

#[test]
fn a_ledger_whose_log_was_removed_takes_nothing() {
    // An operator who tidies up: the relay wrote on into a log without a name, and the next process began another.
    moved(|path| fs::remove_file(path.with_extension("db-wal")).unwrap());
    moved(|path| fs::remove_file(path.with_extension("db-shm")).unwrap());
}

#[test]
fn a_ledger_whose_link_was_turned_takes_nothing() {
    let dir = scratch();
    let (first, second) = (dir.path().join("1"), dir.path().join("2"));
    for dir in [&first, &second] {
        fs::create_dir(dir).unwrap();
        empty_ledger(dir);
    }
    let link = dir.path().join("now.db");
    symlink(first.join("l.db"), &link).unwrap();
    let ledger = open(&link, Access::Routine);
    claimed(&ledger, "before");
    fs::remove_file(&link).unwrap();
    symlink(second.join("l.db"), &link).unwrap();
    assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Moved));
}

/// A clock that is asked inside the transaction, and then replaces the ledger's file.
struct Replacing {
    hand: Arc<HandClock>,
    path: Mutex<Option<PathBuf>>,
}

impl Clock for Replacing {
    fn now(&self) -> DateTime<Utc> {
        if let Some(path) = self.path.lock().unwrap().take() {
            fs::copy(&path, path.with_extension("copy")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        }
        self.hand.now()
    }

    fn monotonic(&self) -> Duration {
        self.hand.monotonic()
    }
}

#[test]
fn a_claim_that_was_committed_to_a_file_without_its_name_is_not_answered_as_ours() {
    // The look before BEGIN saw the ledger, COMMIT succeeded, and the claim was in no file that anybody would read again.
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let clock = Arc::new(Replacing { hand: HandClock::new(), path: Mutex::new(None) });
    let (ledger, _) =
        SqliteLedger::open(&path, Access::Routine, clock.clone(), Hooks::default()).unwrap();
    claimed(&ledger, "before");
    *clock.path.lock().unwrap() = Some(path);
    assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Moved));
}

// ---- locks

/// Takes the write lock as another program would.
fn lock(path: &Path) -> Connection {
    let con = Connection::open(path).unwrap();
    con.execute_batch("BEGIN IMMEDIATE").unwrap();
    con
}

#[test]
fn a_claim_waits_a_second_for_the_lock_and_nothing_is_left_of_it() {
    let (ledger, path, _dir) = ledger();
    let other = lock(&path);
    let begun = Instant::now();
    assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Busy));
    let waited = begun.elapsed();
    assert!(Duration::from_millis(900) < waited && waited < Duration::from_secs(3), "{waited:?}");
    drop(other);
    assert_eq!(ledger.find(&id("G")).unwrap(), Found::Nothing);
    claimed(&ledger, "G");
}

/// Whoever reads for all channels asks so: if it waited for a place in the line, nobody would be read from meanwhile.
#[test]
fn a_claim_whose_caller_does_not_wait_is_refused_if_too_many_are_in_line() {
    let (ledger, path, _dir) = ledger();
    let other = lock(&path);
    // As many as may wait, at most twice: in the line, and with the writer.
    let asked = 2 * limits::WRITER_QUEUE_OPERATIONS_MAX + 100;
    let (tell, told) = mpsc::channel();
    for n in 0..asked {
        let tell = tell.clone();
        let then = Box::new(move |claimed| tell.send(claimed).unwrap());
        ledger.claim_then(claim(&format!("G{n}")), then);
    }
    drop(tell);
    let refused = (0..100).map(|_| told.recv().unwrap());
    assert!(refused.into_iter().all(|claimed| claimed == Err(LedgerError::Busy)));
    drop(other);
    // Each is told once, and what it is told is true.
    let rest: Vec<_> = told.iter().collect();
    assert_eq!(rest.len(), asked - 100);
    let won = rest.iter().filter(|claimed| **claimed == Ok(Claimed::Claimed(Attempt::FIRST)));
    let rows = Connection::open(&path).unwrap();
    let rows: i64 = rows.query_row("SELECT count(*) FROM tx", [], |row| row.get(0)).unwrap();
    assert_eq!(i64::try_from(won.count()).unwrap(), rows);
    claimed(&ledger, "after it");
}

#[test]
fn a_result_outwaits_the_lock_while_claims_are_answered() {
    let (ledger, path, _dir) = ledger();
    claimed(&ledger, "R");
    let other = lock(&path);
    thread::scope(|scope| {
        let result = scope.spawn(|| ledger.record(&record("R", 1, DONE)));
        assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Busy), "after its second");
        assert!(!result.is_finished(), "the result still waits");
        drop(other);
        assert_eq!(result.join().unwrap(), Ok(Recorded::Written));
    });
}

#[test]
fn a_result_gives_up_after_its_five_seconds() {
    let (ledger, path, _dir) = ledger();
    claimed(&ledger, "R");
    let other = lock(&path);
    let begun = Instant::now();
    assert_eq!(ledger.record(&record("R", 1, DONE)), Err(LedgerError::Busy));
    let waited = begun.elapsed();
    assert!(Duration::from_millis(4_900) < waited && waited < Duration::from_secs(8), "{waited:?}");
    drop(other);
    assert_eq!(ledger.record(&record("R", 1, DONE)), Ok(Recorded::Written));
}

#[test]
fn a_claim_behind_a_whole_batch_of_results_is_answered_in_its_time() {
    // A batch of 512 results waited five seconds for the lock, and the claim behind it in the queue waited with them.
    let (ledger, path, _dir) = ledger();
    let other = lock(&path);
    let waiting = AtomicUsize::new(0);
    thread::scope(|scope| {
        for at in 0..limits::BATCH_OPERATIONS_MAX + 8 {
            let (ledger, waiting) = (&ledger, &waiting);
            let result = move || {
                waiting.fetch_add(1, Ordering::SeqCst);
                ledger.record(&record(&format!("R{at}"), 1, DONE))
            };
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, result).unwrap();
        }
        wait_for("all results wait", || {
            waiting.load(Ordering::SeqCst) == limits::BATCH_OPERATIONS_MAX + 8
        });
        let begun = Instant::now();
        assert_eq!(ledger.claim(&claim("G")), Err(LedgerError::Busy));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        drop(other);
    });
}

#[test]
fn opening_is_patient_with_another_programs_lock() {
    let (first, path, _dir) = ledger();
    let other = lock(&path);
    thread::scope(|scope| {
        let second = scope.spawn(|| open(&path, Access::Routine));
        assert_eq!(first.claim(&claim("G")), Err(LedgerError::Busy), "for a second");
        drop(other);
        claimed(&second.join().unwrap(), "G");
    });
}

#[test]
fn two_processes_never_claim_one_guid_twice() {
    let (first, path, _dir) = ledger();
    let second = open(&path, Access::Routine);
    let guids: Vec<String> = (0..200).map(|at| format!("G{at}")).collect();
    let won = AtomicUsize::new(0);
    let race = |claim: &(dyn Fn(&dyn Ledger, &str) -> bool + Sync)| {
        won.store(0, Ordering::SeqCst);
        thread::scope(|scope| {
            for ledger in [&first, &second, &first, &second] {
                let (guids, won) = (&guids, &won);
                scope.spawn(move || {
                    for guid in guids {
                        won.fetch_add(usize::from(claim(ledger, guid)), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::SeqCst), guids.len());
    };
    race(&|ledger, guid| matches!(ledger.claim(&claim(guid)), Ok(Claimed::Claimed(_))));
    for guid in &guids {
        first.record(&record(guid, 1, CallResult::NotSent)).unwrap();
    }
    race(&|ledger, guid| matches!(ledger.claim_failed(&again(guid)), Ok(ClaimedAgain::Claimed(_))));
}

// ---- group commit

#[test]
fn claims_share_commits_and_each_is_on_disk_when_it_is_answered() {
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let commits = Arc::new(AtomicUsize::new(0));
    let operations = Arc::new(AtomicUsize::new(0));
    let (c, o) = (Arc::clone(&commits), Arc::clone(&operations));
    let committed: Box<dyn Fn(Duration, usize) + Send> = Box::new(move |_, size| {
        c.fetch_add(1, Ordering::SeqCst);
        o.fetch_add(size, Ordering::SeqCst);
    });
    let hooks = Hooks { committed: Some(committed), ..Hooks::default() };
    let (ledger, _) = SqliteLedger::open(&path, Access::Routine, HandClock::new(), hooks).unwrap();
    let other = lock(&path);
    let started = AtomicUsize::new(0);
    thread::scope(|scope| {
        for at in 0..64 {
            let (ledger, path, started) = (&ledger, &path, &started);
            scope.spawn(move || {
                let con = Connection::open(path).unwrap();
                started.fetch_add(1, Ordering::SeqCst);
                let guid = format!("G{at}");
                claimed(ledger, &guid);
                let seen = format!("SELECT count(*) FROM tx WHERE guid = '{guid}'");
                assert_eq!(number(&con, &seen), 1, "answered, so it is there for everybody");
            });
        }
        wait_for("all have come", || started.load(Ordering::SeqCst) == 64);
        drop(other);
    });
    drop(ledger);
    let (commits, operations) = (commits.load(Ordering::SeqCst), operations.load(Ordering::SeqCst));
    assert_eq!(operations, 64);
    assert!(commits < 64, "{commits} commits");
}

#[test]
fn a_log_that_has_grown_long_is_emptied() {
    // Beside a busy relay the log of a purge grew to gigabytes: it is written from its beginning only when nobody reads in it.
    let (ledger, path, _dir) = ledger();
    let con = Connection::open(&path).unwrap();
    con.execute_batch("PRAGMA wal_autocheckpoint = 0; BEGIN").unwrap();
    let insert = "INSERT INTO tx (guid, state, updated_at, request) VALUES (?, 'DONE', 'x', zeroblob(1000000))";
    for at in 0..70 {
        con.execute(insert, [at]).unwrap();
    }
    con.execute_batch("COMMIT").unwrap();
    let log = || fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(log() > limits::WAL_BYTES_KEPT);
    claimed(&ledger, "G");
    wait_for("the log is empty", || log() < 1_000_000);
    claimed(&ledger, "H");
}

#[test]
fn one_bad_job_does_not_spoil_its_neighbours_or_the_writer() {
    // Two triggers of another program: one refuses a GUID, one swallows it, which ended the writer thread.
    let (ledger, path, _dir) = ledger();
    let con = Connection::open(&path).unwrap();
    con.execute_batch(
        "CREATE TRIGGER refuses BEFORE INSERT ON tx WHEN NEW.guid = 'bad1' BEGIN SELECT RAISE(ABORT, 'not this one'); END;
         CREATE TRIGGER swallows BEFORE INSERT ON tx WHEN NEW.guid = 'bad2' BEGIN SELECT RAISE(IGNORE); END;
         BEGIN IMMEDIATE",
    )
    .unwrap();
    let started = AtomicUsize::new(0);
    thread::scope(|scope| {
        for at in 0..20 {
            let (ledger, started) = (&ledger, &started);
            scope.spawn(move || {
                started.fetch_add(1, Ordering::SeqCst);
                match at {
                    7 | 13 => {
                        let bad = ledger.claim(&claim(if at == 7 { "bad1" } else { "bad2" }));
                        assert!(matches!(bad, Err(LedgerError::Failed(_))), "{bad:?}");
                    }
                    _ => claimed(ledger, &format!("G{at}")),
                }
            });
        }
        wait_for("all have come", || started.load(Ordering::SeqCst) == 20);
        con.execute_batch("ROLLBACK").unwrap();
    });
    assert_eq!(ledger.counts().unwrap().rows, [0, 18, 0, 0, 0]);
    assert_eq!(ledger.find(&id("bad2")).unwrap(), Found::Nothing);
}

#[test]
fn a_reader_never_sees_half_of_an_operation() {
    let (ledger, path, _dir) = ledger();
    let orphans: Vec<Orphan> = (0..300)
        .map(|at| {
            let guid = format!("G{at:03}");
            claimed(&ledger, &guid);
            let Found::Row(row) = ledger.find(&id(&guid)).unwrap() else { panic!("no row") };
            orphan(&row)
        })
        .collect();
    let con = Connection::open(&path).unwrap();
    let unknown = "SELECT count(*) FROM tx WHERE state = 'UNKNOWN'";
    let both = format!("SELECT ({unknown}) * 1000 + (SELECT count(*) FROM history)");
    thread::scope(|scope| {
        let swept = scope.spawn(|| ledger.sweep_orphans(&orphans).unwrap().len());
        wait_for("the sweep is seen", || {
            let seen = number(&con, &both);
            assert!(seen == 0 || seen == 300_300, "{seen}");
            seen > 0
        });
        assert_eq!(swept.join().unwrap(), 300);
    });
}

#[test]
fn who_comes_when_nobody_writes_commits_by_itself_and_who_comes_meanwhile_shares_a_commit() {
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let commits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&commits);
    let hooks = Hooks {
        committed: Some(Box::new(move |_, operations| {
            seen.lock().unwrap().push((thread::current().id(), operations));
        })),
        ..Hooks::default()
    };
    let (ledger, _) = SqliteLedger::open(&path, Access::Routine, HandClock::new(), hooks).unwrap();
    let number = AtomicUsize::new(0);
    let claim_one = || claimed(&ledger, &format!("G{}", number.fetch_add(1, Ordering::Relaxed)));
    wait_for("a commit on the caller's own thread", || {
        claim_one();
        commits.lock().unwrap().pop() == Some((thread::current().id(), 1))
    });
    commits.lock().unwrap().clear();
    let lock = Connection::open(&path).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let claims: Vec<_> = (0..8).map(|_| scope.spawn(claim_one)).collect();
        thread::sleep(Duration::from_millis(200));
        lock.execute_batch("COMMIT").unwrap();
        for claim in claims {
            claim.join().unwrap();
        }
    });
    let commits = commits.lock().unwrap();
    assert_eq!(commits.iter().map(|(_, operations)| operations).sum::<usize>(), 8);
    assert!(commits.len() < 8, "{commits:?}");
}

/// A ledger whose observer of commits panics, and what is told of it.
fn ledger_with_a_bad_observer(path: &Path) -> (SqliteLedger, Arc<Mutex<Vec<LedgerError>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let hooks = Hooks {
        committed: Some(Box::new(|_, _| panic!("an observer of ours"))),
        sync_failed: Some(Box::new(move |error| heard.lock().unwrap().push(error.clone()))),
        ..Hooks::default()
    };
    (SqliteLedger::open(path, Access::Routine, HandClock::new(), hooks).unwrap().0, told)
}

fn is_dead(ledger: &SqliteLedger, told: &Mutex<Vec<LedgerError>>) {
    assert_eq!(ledger.claim(&claim("H")), Err(LedgerError::Closed));
    assert_eq!(ledger.record(&record("G", 1, DONE)), Err(LedgerError::Closed));
    assert!(matches!(ledger.find(&id("G")).unwrap(), Found::Row(_)), "it was committed");
    wait_for("the process is told to stop", || !told.lock().unwrap().is_empty());
    assert_eq!(*told.lock().unwrap(), [LedgerError::Closed]);
}

#[test]
fn a_writer_that_died_is_heard_of_and_whoever_asks_it_is_told_so() {
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let (ledger, told) = ledger_with_a_bad_observer(&path);
    let lock = Connection::open(&path).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        // It finds the lock held, so the writer's thread does it.
        let claimed = scope.spawn(|| ledger.claim(&claim("G")));
        thread::sleep(Duration::from_millis(100));
        lock.execute_batch("COMMIT").unwrap();
        assert_eq!(claimed.join().unwrap(), Err(LedgerError::Closed));
    });
    is_dead(&ledger, &told);
}

#[test]
fn a_caller_that_died_while_it_committed_for_itself_is_heard_of_too() {
    let dir = scratch();
    let (ledger, told) = ledger_with_a_bad_observer(&empty_ledger(dir.path()));
    // The writer's thread looks around first, and would do it; then there is nobody but the caller.
    thread::sleep(Duration::from_millis(100));
    let claimed = catch_unwind(AssertUnwindSafe(|| ledger.claim(&claim("G"))));
    assert!(!matches!(claimed, Ok(Ok(_))), "it was not told that it may call");
    is_dead(&ledger, &told);
}

#[test]
fn a_deep_queue_of_readers_gets_its_turn() {
    let (ledger, _path, _dir) = ledger();
    claimed(&ledger, "G");
    thread::scope(|scope| {
        for _ in 0..limits::READERS_MAX * 4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert!(matches!(ledger.find(&id("G")), Ok(Found::Row(_))));
                }
            });
        }
    });
}

// ---- disks

#[test]
fn a_full_disk_takes_the_results_of_what_was_claimed_and_no_new_claims() {
    let test = "sqlite_ledger::a_full_disk_takes_the_results_of_what_was_claimed_and_no_new_claims";
    if !in_a_process_of_its_own(test, OWN_MOUNTS) {
        return;
    }
    let dir = scratch();
    mount(&["-t", "tmpfs", "-o", "size=40m", "tmpfs"], dir.path());
    let path = dir.path().join("l.db");
    let news = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&news);
    let ballast: Box<dyn Fn(&BallastNews) + Send> =
        Box::new(move |news| heard.lock().unwrap().push(news.clone()));
    let hooks = Hooks { ballast: Some(ballast), ..Hooks::default() };
    let (ledger, _) = SqliteLedger::open(&path, SERVE, HandClock::new(), hooks).unwrap();
    let in_flight: Vec<String> = (0..1_000).map(|at| format!("G{at:04}")).collect();
    thread::scope(|scope| {
        for part in in_flight.chunks(100) {
            scope.spawn(|| part.iter().for_each(|guid| claimed(&ledger, guid)));
        }
    });
    fill(&dir.path().join("filler"));
    let refused = (0..100_000).find_map(|at| ledger.claim(&claim(&format!("N{at}"))).err());
    assert_eq!(refused, Some(LedgerError::Full));
    assert_eq!(*news.lock().unwrap(), [BallastNews::Laid], "a claim does not use it");

    for guid in &in_flight[..990] {
        let mut long = record(guid, 1, CallResult::Open);
        long.response = vec![b'x'; 2_000];
        assert_eq!(ledger.record(&long), Ok(Recorded::Written), "{guid}");
    }
    assert_eq!(*news.lock().unwrap(), [BallastNews::Laid, BallastNews::NoRoom]);
    let begun = Instant::now();
    assert_eq!(ledger.claim(&claim("late")), Err(LedgerError::Full));
    assert_eq!(ledger.probe(), Err(LedgerError::Full), "not ready for telegrams");
    assert!(begun.elapsed() < Duration::from_millis(500), "without trying");
    assert_eq!(ledger.find(&id("late")).unwrap(), Found::Nothing);
    let Found::Row(row) = ledger.find(&id("G0990")).unwrap() else { panic!("no row") };
    assert_eq!(ledger.sweep_orphans(&[orphan(&row)]).unwrap().len(), 1);
    let settle = settle("G0000", 1, Settled::Known);
    assert_eq!(ledger.settle(&settle).unwrap(), Recorded::Written);

    fs::remove_file(dir.path().join("filler")).unwrap();
    wait_for("claims go on", || ledger.claim(&claim("late")).is_ok());
    let heard = news.lock().unwrap().clone();
    assert_eq!(heard, [BallastNews::Laid, BallastNews::NoRoom, BallastNews::Laid]);
}

#[test]
fn a_relay_on_a_disk_without_room_for_ballast_serves_what_needs_no_claim() {
    let test =
        "sqlite_ledger::a_relay_on_a_disk_without_room_for_ballast_serves_what_needs_no_claim";
    if !in_a_process_of_its_own(test, OWN_MOUNTS) {
        return;
    }
    let dir = scratch();
    mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], dir.path());
    let path = empty_ledger(dir.path());
    let routine = open(&path, Access::Routine);
    claimed(&routine, "G");
    drop(routine);
    let ledger = open(&path, SERVE);
    assert_eq!(ledger.claim(&claim("H")), Err(LedgerError::Full));
    assert_eq!(ledger.record(&record("G", 1, DONE)), Ok(Recorded::Written));
    assert!(!names(dir.path()).iter().any(|name| name.contains("ballast")), "no part of it stays");
}

#[test]
fn a_ledger_on_a_read_only_disk_is_refused_with_a_remedy() {
    let test = "sqlite_ledger::a_ledger_on_a_read_only_disk_is_refused_with_a_remedy";
    if !in_a_process_of_its_own(test, OWN_MOUNTS) {
        return;
    }
    let dir = scratch();
    mount(&["-t", "tmpfs", "tmpfs"], dir.path());
    let path = empty_ledger(dir.path());
    mount(&["-o", "remount,bind,ro"], dir.path());
    for access in [SERVE, Access::Routine] {
        let told = try_open(&path, access).map(|_| "opened").unwrap_err().to_string();
        assert!(told.contains("can't be written") && told.contains("must be writable"), "{told}");
    }
    let unreadable = try_open(&path, Access::Read).map(|_| "opened").unwrap_err().to_string();
    assert!(unreadable.contains("can't be read"), "a log can't be begun: {unreadable}");
    let missing = try_open(&dir.path().join("new.db"), SERVE).map(|_| "opened").unwrap_err();
    assert!(matches!(missing, OpenError::Io { .. }), "{missing}");
}

#[test]
fn after_a_failed_sync_the_process_is_told_once_and_nothing_is_written_any_more() {
    let test = "sqlite_ledger::after_a_failed_sync_the_process_is_told_once_and_nothing_is_written_any_more";
    // One sync of a thread fails, the later ones would succeed: what they say of the lost one is not true.
    let inject = "inject=fsync,fdatasync:error=EIO:when=40";
    let strace =
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject];
    if !in_a_process_of_its_own(test, &strace) {
        return;
    }
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let sync_failed: Box<dyn Fn(&LedgerError) + Send> =
        Box::new(move |error| heard.lock().unwrap().push(error.clone()));
    let hooks = Hooks { sync_failed: Some(sync_failed), ..Hooks::default() };
    let (ledger, _) = SqliteLedger::open(&path, Access::Routine, HandClock::new(), hooks).unwrap();
    let error = (0..200).find_map(|at| ledger.claim(&claim(&format!("G{at}"))).err()).unwrap();
    assert!(matches!(error, LedgerError::SyncFailed(_)), "{error:?}");
    assert_eq!(ledger.claim(&claim("H")).as_ref(), Err(&error));
    assert_eq!(ledger.record(&record("G0", 1, DONE)).as_ref(), Err(&error));
    assert_eq!(*told.lock().unwrap(), [error]);
    assert_eq!(ledger.find(&id("H")).unwrap(), Found::Nothing);
}

#[test]
fn ages_are_as_the_clock_of_the_ledger_says() {
    let dir = scratch();
    let path = empty_ledger(dir.path());
    let clock = HandClock::new();
    let (ledger, _) =
        SqliteLedger::open(&path, Access::Routine, clock.clone(), Hooks::default()).unwrap();
    claimed(&ledger, "G");
    clock.pass(3_600);
    claimed(&ledger, "H");
    let until = Some(clock.now() - TimeDelta::minutes(30));
    let old = ledger.outline(&Query { until, ..Query::of(&[State::Sent]) }).unwrap();
    assert_eq!(old.len(), 1);
    assert_eq!(old[0].guid, id("G"));
}
