//! The mark beside the ledger: a ledger restored from an old copy, replaced or deleted is refused before it pays anything twice.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::channel::Telegram;
use crate::support::relays::{Process, World, program};
use crate::support::wait::{PATIENCE, wait_until};

const MARK: &str = ".mark";

fn beside(world: &World, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", world.ledger.path().display()))
}

fn mark(world: &World) -> String {
    fs::read_to_string(beside(world, MARK)).unwrap()
}

/// One relay's life with one transfer in it, ended in order: nothing is left in the log.
fn one_life(world: &World, options: &[&str]) -> (Telegram, String) {
    let log = world.ledger.path().with_extension("log");
    let told = fs::read(&log).map_or(0, |log| log.len());
    let mut relay = world.process(options);
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "0000");
    end(world, &mut relay);
    (telegram, relay.log().split_off(told))
}

/// Ends it in order, and sees to it that its log is in the ledger's file: a connection that is still open may have kept it.
fn end(world: &World, relay: &mut Process) {
    relay.signal("TERM");
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.log());
    world.ledger.number("SELECT count(*) FROM tx");
    assert!(!beside(world, "-wal").exists());
}

/// What the program says when it should serve, and does not.
fn refused(world: &World, options: &[&str]) -> String {
    let mut command = program();
    command.args(["--serve", "--listen", "127.0.0.1:0", "--admin", "off"]).args(options);
    command.args(["--core", &world.core.url(), "--db"]).arg(world.ledger.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // One that serves all the same is no refusal.
    let _ = child.kill();
    said(&child.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_ledger_restored_from_an_old_copy_is_refused_until_it_is_accepted() {
    // The night's copy came back after a disk failure: what was paid since then was unknown to it, and each resend was paid again.
    let world = World::new();
    one_life(&world, &[]);
    let copy = beside(&world, ".copy");
    fs::copy(world.ledger.path(), &copy).unwrap();
    let (forgotten, _) = one_life(&world, &[]);
    fs::copy(&copy, world.ledger.path()).unwrap();
    let before = fs::read(world.ledger.path()).unwrap();

    let said_when_served = refused(&world, &[]);
    assert!(said_when_served.contains("it is an older copy"), "{said_when_served}");
    assert!(said_when_served.contains("--accept-restored"), "{said_when_served}");
    for routine in [&["reprocess"][..], &["resolve"], &["purge", "--days", "0"]] {
        let said = said(&world.routine_command(routine).output().unwrap());
        assert!(said.contains("it is an older copy"), "{routine:?}: {said}");
    }
    assert_eq!(fs::read(world.ledger.path()).unwrap(), before, "not a byte of it changes");
    assert_eq!(world.core.calls(&forgotten.guid), 1);

    let (_, log) = one_life(&world, &["--accept-restored"]);
    assert!(log.contains("it is an older copy"), "{log}");
    let (_, log) = one_life(&world, &[]);
    assert!(!log.contains("older copy") && !log.contains(MARK), "once is enough: {log}");
}

#[test]
fn a_copy_made_while_the_relay_ran_is_recognised_though_it_was_not_started_since() {
    let world = World::new();
    let mut relay = world.process(&[]);
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    let copy = beside(&world, ".copy");
    world.ledger.change("VACUUM INTO ?1", [copy.to_str().unwrap()]);
    // After the copy: on a slow machine the mark may have moved before it.
    let marked = mark(&world);
    // The mark moves by itself while there is something to forget.
    wait_until("the mark moves on", || {
        // On a disk that stalls it may be E909.
        relay.at.code(&Telegram::new(""));
        mark(&world) > marked
    });
    end(&world, &mut relay);
    fs::rename(&copy, world.ledger.path()).unwrap();
    let said = refused(&world, &[]);
    assert!(said.contains("it is an older copy"), "{said}");
}

#[test]
fn a_copy_made_before_a_reprocess_is_recognised_though_no_relay_ran_since() {
    let world = World::down();
    let mut relay = world.process(&[]);
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "E902");
    end(&world, &mut relay);
    let copy = beside(&world, ".copy");
    fs::copy(world.ledger.path(), &copy).unwrap();
    world.core.up();
    assert_eq!(world.routine(&["reprocess"]).0, 0);
    // The copy says FAILED of a transfer that was made.
    fs::copy(&copy, world.ledger.path()).unwrap();
    for routine in [&["reprocess"][..], &["resolve"]] {
        let said = said(&world.routine_command(routine).output().unwrap());
        assert!(said.contains("it is an older copy"), "{routine:?}: {said}");
    }
    assert!(refused(&world, &[]).contains("it is an older copy"));
    assert_eq!(world.core.effects(&telegram.guid), 1);
}

#[test]
fn another_ledger_in_its_place_is_refused_and_so_is_none() {
    let (world, other) = (World::new(), World::new());
    one_life(&world, &[]);
    one_life(&other, &[]);
    fs::copy(other.ledger.path(), world.ledger.path()).unwrap();
    assert!(refused(&world, &[]).contains("names another ledger"));
    fs::remove_file(world.ledger.path()).unwrap();
    let said = refused(&world, &[]);
    assert!(said.contains("there was one") && said.contains("remove the mark"), "{said}");
    assert!(refused(&world, &["--accept-restored"]).contains("does not exist"));
    assert!(!world.ledger.path().exists());
    fs::remove_file(beside(&world, MARK)).unwrap();
    one_life(&world, &[]);
}

#[test]
fn a_copy_in_another_place_has_no_mark_and_is_served_and_so_is_a_ledger_without_one() {
    let (world, elsewhere) = (World::new(), World::new());
    one_life(&world, &[]);
    fs::copy(world.ledger.path(), elsewhere.ledger.path()).unwrap();
    let (_, log) = one_life(&elsewhere, &[]);
    assert!(log.contains("there was no .mark"), "{log}");
    // Half a mark, as a crash may leave it, is none.
    for junk in ["", "0123"] {
        fs::write(beside(&world, MARK), junk).unwrap();
        let (_, log) = one_life(&world, &[]);
        assert!(log.contains("there was no .mark"), "{log}");
    }
    let (_, log) = one_life(&world, &[]);
    assert!(!log.contains(MARK), "{log}");
}

#[test]
fn two_relays_on_one_ledger_share_its_mark() {
    let world = World::new();
    let mut both = [world.process(&[]), world.process(&[])];
    let marked = mark(&world);
    wait_until("the mark moves on", || {
        for relay in &both {
            relay.at.code(&Telegram::new(""));
        }
        mark(&world) > marked
    });
    let [first, second] = &mut both;
    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0));
    end(&world, second);
    one_life(&world, &[]);
}

#[test]
fn every_file_that_the_program_makes_is_for_its_user_alone() {
    let world = World::new();
    let mut relay = world.process(&[]);
    assert_eq!(relay.at.code(&Telegram::new("RESET")), "E901");
    let folder = world.ledger.path().parent().unwrap().to_owned();
    wait_until("the ballast", || beside(&world, ".ballast").exists());
    let made = modes(&folder);
    for kind in ["relay.db", "-wal", "-shm", ".owner.", ".ballast", MARK] {
        assert!(made.iter().any(|(name, _)| name.contains(kind)), "{kind}: {made:?}");
    }
    end(&world, &mut relay);
    for store in ["source", "sink"] {
        let mut command = program();
        let db = folder.join(format!("{store}.db"));
        let event = br#"{"id":"a","qty":1}"#;
        let arguments = match store {
            "source" => &["outbox", "enqueue", "--id", "a", "--qty", "1", "--db"][..],
            _ => &["outbox", "receive", "--db"],
        };
        let stdin = folder.join("event.json");
        fs::write(&stdin, event).unwrap();
        let input = fs::File::open(&stdin).unwrap();
        assert!(command.args(arguments).arg(&db).stdin(input).status().unwrap().success());
        fs::remove_file(stdin).unwrap();
    }
    for (name, mode) in made.into_iter().chain(modes(&folder)) {
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
}

/// Files and their rights; the log is the test's own.
fn modes(folder: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mode = |entry: fs::DirEntry| {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        (entry.file_name().into_string().unwrap(), mode)
    };
    entries.map(mode).filter(|(name, _)| !name.contains("log")).collect()
}
