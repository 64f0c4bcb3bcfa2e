//! The real binary when its ledger is locked or full: the rows stay on the screen, what is wrong is said with the time, nothing is
//! sent, and it goes on by itself when the trouble is over.

use std::path::Path;
use std::time::{Duration, Instant};

use chrono::Utc;
use rusqlite::Connection;

use super::pty::file;
use super::rig::{File, put};
use super::terminal::Pty;
use crate::support::alone::{OWN_MOUNTS, fill, in_a_process_of_its_own, mount};
use crate::support::crooked_core::CrookedCore;

const UNKNOWN: &str = "20261129MOB0000000000000004711";
const FAILED: &str = "20261129MOB0000000000000004712";

/// Sends the first FAILED row again, and waits for the run's end.
fn reprocess(pty: &mut Pty, ended: &str) {
    pty.press("P");
    pty.confirm("( Send 1 transfer again )", "", 1);
    pty.shows(ended);
}

#[test]
fn while_another_holds_the_write_lock_nothing_is_written_and_nothing_sent() {
    let (file, core) = (file(), CrookedCore::start(Duration::from_millis(10)));
    let mut pty = Pty::open(&file.path, &["--core", &core.url()], &[]);
    pty.shows("4711");
    let con = file.con();
    con.execute_batch("BEGIN IMMEDIATE").unwrap();
    pty.press("aasked the bank\r");
    pty.shows("nothing was written: the ledger is locked by another process");
    pty.press("/state:failed\r");
    pty.shows("1-3 of 3");
    reprocess(&mut pty, "run 1 ended: 0 done, 0 left, 1 skipped, 0 failed of 1");
    assert_eq!(core.calls(FAILED), 0);
    pty.press("3");
    pty.shows("skipped       the ledger is locked by another process");
    con.execute_batch("COMMIT").unwrap();
    pty.press("2");
    reprocess(&mut pty, "run 2 ended: 1 done, 0 left, 0 skipped, 0 failed of 1");
    assert_eq!((file.state(FAILED).as_deref(), core.calls(FAILED)), (Some("DONE"), 1));
    assert!(file.history(UNKNOWN).iter().all(|line| !line.contains("asked the bank")));
    pty.press("q");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
}

// In WAL mode no writer keeps a reader out; a ledger of another program need not be in WAL mode.
#[test]
fn an_exclusive_lock_is_said_with_its_time_and_forgotten_when_it_is_gone() {
    let file = file();
    let con = file.con();
    con.pragma_update(None, "journal_mode", "DELETE").unwrap();
    let mut pty = Pty::open(&file.path, &["--read-only"], &[]);
    pty.shows("4711");
    con.execute_batch("BEGIN EXCLUSIVE").unwrap();
    pty.press("r");
    pty.shows("the ledger is locked by another process");
    let line = |screen: &str| screen.lines().nth(2).unwrap().trim_end().to_owned();
    let (said, began) = (line(&pty.screen()), Instant::now());
    assert!(said.starts_with(" ! since ") && said.contains("UTC: the ledger is locked"), "{said}");
    assert!(said.contains("rows are as of ") && pty.screen().contains("4711"), "{said}");
    // It is tried again and again; that changes neither the words nor the time.
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(line(&pty.screen()), said);
        std::thread::park_timeout(Duration::from_millis(10));
    }
    con.execute("UPDATE tx SET updated_at = '2020-01-01 00:00:00' WHERE guid LIKE '%4712'", [])
        .unwrap();
    con.execute_batch("COMMIT").unwrap();
    pty.lets_go_of("is locked");
    // Nobody has pressed a key, and what was committed meanwhile is here: the oldest row is another one now.
    let first = |screen: &str| screen.lines().nth(5).unwrap().contains("F ! FAILED");
    crate::support::wait::wait_until("the new order", || first(&pty.screen()));
    pty.press("q");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
}

#[test]
fn on_a_full_disk_nothing_is_sent_and_it_goes_on_when_there_is_room() {
    let test =
        "console::troubles::on_a_full_disk_nothing_is_sent_and_it_goes_on_when_there_is_room";
    if !in_a_process_of_its_own(test, OWN_MOUNTS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], dir.path());
    let path = dir.path().join("ledger.db");
    let file = File::at(&path);
    file.put_at(Utc::now(), &[put(UNKNOWN, "UNKNOWN", 8_000), put(FAILED, "FAILED", 3_000)]);
    let core = CrookedCore::start(Duration::from_millis(10));
    let mut pty = Pty::open(&path, &["--core", &core.url()], &[]);
    pty.shows("4711");
    fill(&dir.path().join("filler"));
    write_the_log_full(&path);
    pty.press("aasked the bank\r");
    pty.shows("nothing was written: the disk of the ledger is full");
    assert!(pty.screen().contains("4711"), "the rows stay");
    pty.press("/state:failed\r");
    pty.shows("1-1 of 1");
    reprocess(&mut pty, "run 1 ended: 0 done, 0 left, 1 skipped, 0 failed of 1");
    assert_eq!(core.calls(FAILED), 0, "without a claim on disk nothing is sent");
    pty.press("3");
    pty.shows("skipped       the disk of the ledger is full");
    std::fs::remove_file(dir.path().join("filler")).unwrap();
    pty.press("2");
    reprocess(&mut pty, "run 2 ended: 1 done, 0 left, 0 skipped, 0 failed of 1");
    assert_eq!((file.state(FAILED).as_deref(), core.calls(FAILED)), (Some("DONE"), 1));
    pty.press("q");
    assert_eq!(pty.code(), 0);
    pty.is_restored();
}

/// Whatever room the log had is used up by somebody else's notes.
fn write_the_log_full(path: &Path) {
    let con = Connection::open(path).unwrap();
    let note = "INSERT INTO history (at, guid, cause, who) VALUES ('', 'x', 'note', 'x')";
    for _ in 0..100_000 {
        if con.execute(note, []).is_err() {
            return;
        }
    }
    panic!("the disk is never full");
}
