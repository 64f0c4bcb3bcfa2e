//! A ledger that can't take a claim or a result, and channels that don't wait.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::Write;

use crate::support::channel::{BLANK_BODY, Channel, Telegram, code, err_sys, http_request};
use crate::support::relays::{Process, World};
use crate::support::skip::skipped;
use crate::support::strace;
use crate::support::wait::wait_until;

#[test]
fn a_ledger_that_takes_no_claim_means_e909_and_no_call() {
    let world = World::new();
    let relay = world.relay();
    let (done, unknown) = (Telegram::new(""), Telegram::new("RESET"));
    let (stored, _) = (relay.at.ask(&done), relay.at.ask(&unknown));
    let telegram = Telegram::new("");
    let mut channel = relay.at.connect();
    let locked = world.ledger.locked();
    let got = channel.ask(&telegram.bytes());
    assert_eq!((code(&got), err_sys(&got), &got[128..]), ("E909", "RLY", BLANK_BODY));
    assert_eq!(relay.at.ask(&done), stored, "who only reads is answered");
    assert_eq!(relay.at.code(&unknown), "E901");
    drop(locked);
    assert_eq!(
        (world.core.calls(&telegram.guid), world.ledger.told(&telegram.guid).as_str()),
        (0, "nothing")
    );
    assert_eq!(code(&channel.ask(&telegram.bytes())), "0000", "later it is taken");
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_second_claim_that_the_ledger_can_not_take_leaves_the_row_failed() {
    let world = World::down();
    let relay = world.relay();
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "E902");
    world.core.up();
    let locked = world.ledger.locked();
    assert_eq!(relay.at.code(&telegram), "E909");
    drop(locked);
    assert_eq!(
        (world.core.calls(&telegram.guid), world.ledger.told(&telegram.guid).as_str()),
        (0, "FAILED E902 1")
    );
    assert_eq!(relay.at.code(&telegram), "0000");
}

#[test]
fn a_ledger_that_takes_no_result_means_e901_and_an_unknown_that_an_inquiry_settles() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("HOLD");
    let mut channel = relay.at.connect();
    channel.0.write_all(&telegram.bytes()).unwrap();
    world.core.wait_for_call(&telegram.guid);
    let locked = world.ledger.locked();
    world.core.release();
    let got = channel.read();
    assert_eq!((code(&got), err_sys(&got), &got[128..]), ("E901", "RLY", BLANK_BODY));
    assert_eq!(world.ledger.told(&telegram.guid), "SENT - 1");
    assert_eq!(relay.at.code(&telegram), "E903", "until the sweep");
    drop(locked);
    wait_until("the sweep", || world.ledger.told(&telegram.guid) == "UNKNOWN E901 1");
    assert_eq!(relay.at.code(&telegram), "E901");
    assert_eq!(world.ledger.history(&telegram.guid), ["orphan SENT>UNKNOWN"]);
    world.ledger.age(&telegram.guid, 300);
    let (exit, summary) = world.routine(&["resolve", "--min-age", "60"]);
    assert_eq!((exit, summary["done"].as_u64()), (0, Some(1)));
    let stored = world.ledger.row(&telegram.guid).response.unwrap();
    assert_eq!(relay.at.ask(&telegram), stored);
    assert_eq!((code(&stored), world.core.calls(&telegram.guid)), ("0000", 1));
}

#[test]
fn a_channel_that_hangs_up_cancels_nothing() {
    let world = World::new();
    let relay = world.relay();
    let telegrams = [(); 4].map(|()| Telegram::new("HOLD"));
    let mut channels = Vec::new();
    for (n, telegram) in telegrams.iter().enumerate() {
        let (to, bytes) = if n < 2 {
            (relay.at.tcp, telegram.bytes())
        } else {
            (relay.at.http, http_request(telegram))
        };
        let mut channel = Channel::connect(to).unwrap();
        channel.0.write_all(&bytes).unwrap();
        world.core.wait_for_call(&telegram.guid);
        channels.push(channel);
    }
    for (n, channel) in channels.into_iter().enumerate() {
        if n % 2 == 0 { drop(channel) } else { channel.reset() }
    }
    for telegram in &telegrams {
        assert_eq!(relay.at.code(telegram), "E903", "it is still under way");
    }
    world.core.release();
    for telegram in &telegrams {
        wait_until("the record", || world.ledger.told(&telegram.guid) == "DONE 0000 1");
        assert_eq!(relay.at.code(telegram), "0000");
        assert_eq!(world.core.calls(&telegram.guid), 1);
    }
}

#[test]
fn a_disk_that_is_full_loses_nothing_and_pays_nothing_twice() {
    let world = World::new();
    drop(world.relay());
    let relay = Process::start_limited(&world.ledger, &world.core.url(), 400);
    until_nothing_is_taken(&world, relay);
}

#[test]
fn a_disk_that_turns_read_only_under_a_running_relay_loses_nothing_and_pays_nothing_twice() {
    // As a file system does that has met an error. Once a claim is refused first, and once a result.
    // The channel's thread commits by itself, until it fails; the writer's goes on, and then fails, too.
    for writes in [75, 78] {
        if !strace::works() {
            skipped("a disk that turns read-only", "no strace, or no ptrace, on this machine");
            return;
        }
        let world = World::new();
        drop(world.relay());
        let log = world.ledger.path().with_extension("db-wal");
        let tool = strace::read_only_after(writes, &log);
        let relay = Process::start_under(&tool, &world.ledger, &world.core.url());
        until_nothing_is_taken(&world, relay);
    }
}

/// Sends transfers until the ledger takes no claim any more; then the disk is in order again, and all of them are settled.
fn until_nothing_is_taken(world: &World, relay: Process) {
    let mut told = Vec::new();
    let mut channel = relay.at.connect();
    // A few transfers fit. A result that does not makes an E901, a claim that does not an E909.
    while told.iter().filter(|(_, code)| code == "E909").count() < 2 {
        let telegram = Telegram::new("");
        let code = code(&channel.ask(&telegram.bytes())).to_owned();
        told.push((telegram, code));
        assert!(told.len() < 1_000, "every claim is taken");
    }
    assert_eq!(told[0].1, "0000");
    assert_eq!(relay.at.code(&told[0].0), "0000", "a replay needs no room");
    for (telegram, code) in &told {
        let (rows, calls): (&[&str], _) = match code.as_str() {
            "0000" => (&["DONE 0000 1"], 1),
            // The sweep writes less than a result, and may find room.
            "E901" => (&["SENT - 1", "UNKNOWN E901 1"], 1),
            "E909" => (&["nothing"], 0),
            code => panic!("{code} can't be"),
        };
        let row = world.ledger.told(&telegram.guid);
        assert!(rows.contains(&&*row), "{code}: {row}");
        assert_eq!(world.core.calls(&telegram.guid), calls, "{code}");
    }
    drop(relay);
    let relay = world.relay();
    for (telegram, code) in &told {
        if code == "E901" {
            wait_until("the sweep", || world.ledger.told(&telegram.guid) == "UNKNOWN E901 1");
            world.ledger.age(&telegram.guid, 300);
            assert_eq!(world.routine(&["resolve", "--min-age", "60"]).0, 0);
        }
        assert_eq!(relay.at.code(telegram), "0000");
        assert_eq!(world.core.effects(&telegram.guid), 1);
    }
}

#[test]
fn a_ledger_that_was_moved_away_takes_nothing_more() {
    let world = World::new();
    let relay = world.relay();
    let done = Telegram::new("");
    assert_eq!(relay.at.code(&done), "0000");
    let away = world.ledger.path().with_extension("away");
    std::fs::rename(world.ledger.path(), &away).unwrap();
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "E909", "commits would go to a file that nobody finds");
    assert_eq!(world.core.calls(&telegram.guid), 0);
    std::fs::rename(&away, world.ledger.path()).unwrap();
    assert_eq!(relay.at.code(&telegram), "0000");
}

#[test]
fn a_ledger_made_by_another_program_with_nothing_but_tx_is_served() {
    let world = World::new();
    world
        .ledger
        .open()
        .execute_batch(
            "CREATE TABLE tx (guid TEXT PRIMARY KEY, tx_code TEXT, state TEXT, rsp_code TEXT, request BLOB,
                              response BLOB, attempts INTEGER, updated_at TEXT)",
        )
        .unwrap();
    let insert =
        "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at)
                  VALUES (?1, 'TRF00100', ?2, ?3, ?4, ?5, 1, datetime('now', ?6))";
    let [done, old, young, received] = [(); 4].map(|()| Telegram::new(""));
    let stored = b"00000005hello".to_vec();
    let none = None::<Vec<u8>>;
    for (telegram, state, rsp_code, response, age) in [
        (&done, "DONE", Some("0000"), &Some(stored.clone()), "-1 day"),
        (&old, "SENT", None, &none, "-1 hour"),
        (&young, "SENT", None, &none, "-1 second"),
        (&received, "RECEIVED", None, &none, "-1 hour"),
    ] {
        let bytes = telegram.bytes();
        world.ledger.change(insert, (&telegram.guid, state, rsp_code, bytes, response, age));
    }
    let relay = world.relay();
    wait_until("the sweep", || world.ledger.told(&old.guid) == "UNKNOWN E901 1");
    wait_until("the sweep", || world.ledger.told(&received.guid) == "FAILED E902 1");
    assert_eq!(world.ledger.history(&received.guid), ["orphan RECEIVED>FAILED"]);
    assert_eq!((relay.at.code(&old), relay.at.code(&young)), ("E901".into(), "E903".into()));
    assert_eq!(relay.at.ask(&done), stored);
    assert_eq!(world.core.books().calls.len(), 0);
    assert_eq!(relay.at.code(&received), "0000", "it was certainly not sent");
}
