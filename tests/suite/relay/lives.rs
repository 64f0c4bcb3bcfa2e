//! The relay as a process: stopped, frozen and killed. Nobody takes a call from a living relay, and a dead one's calls are
//! settled.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::Write;

use crate::support::channel::{Channel, Telegram, code, guid, http};
use crate::support::relays::{Process, World, program};
use crate::support::wait::wait_until;

/// Sends and returns once the core has the call, which it holds.
fn held_call(world: &World, relay: &Process) -> (Telegram, Channel) {
    let telegram = Telegram::new("HOLD");
    let mut channel = relay.at.connect();
    channel.0.write_all(&telegram.bytes()).unwrap();
    world.core.wait_for_call(&telegram.guid);
    (telegram, channel)
}

const PATIENT: &[&str] = &["--read-timeout", "60"];

#[test]
fn sigterm_takes_nothing_new_lets_the_call_in_flight_end_and_exits_0() {
    let world = World::new();
    let mut relay = world.process(PATIENT);
    let done = Telegram::new("");
    let mut open = relay.at.connect();
    let stored = open.ask(&done.bytes());
    let (held, mut first) = held_call(&world, &relay);
    relay.signal("TERM");
    let mut last = Telegram::new("");
    wait_until("E907", || {
        last = Telegram::new("");
        code(&open.ask(&last.bytes())) == "E907"
    });
    assert_eq!(
        (world.ledger.told(&last.guid).as_str(), world.core.calls(&last.guid)),
        ("nothing", 0)
    );
    assert_eq!(open.ask(&done.bytes()), stored, "a replay needs no call");
    assert_eq!(code(&open.ask(&held.bytes())), "E903");
    wait_until("nothing new is accepted", || Channel::connect(relay.at.tcp).is_err());
    wait_until("nothing new is accepted", || Channel::connect(relay.at.http).is_err());
    assert_eq!(http(relay.at.admin, "GET", "/readyz", b"").status, 503, "stopping");
    assert!(!relay.has_ended());
    world.core.release();
    assert_eq!(code(&first.read()), "0000");
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.log());
    assert_eq!(world.ledger.told(&held.guid), "DONE 0000 1");
    assert!(world.owner_files().is_empty(), "who leaves in order leaves nothing behind");
}

#[test]
fn sigint_of_an_idle_relay_exits_0_though_channels_are_connected() {
    let world = World::new();
    let mut relay = world.process(&[]);
    let mut channel = relay.at.connect();
    assert_eq!(code(&channel.ask(&Telegram::new("").bytes())), "0000");
    relay.signal("INT");
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.log());
    assert!(channel.is_closed_without_a_word());
}

#[test]
fn a_second_signal_ends_it_at_once_and_the_next_relay_settles_what_was_in_flight() {
    let world = World::new();
    let mut relay = world.process(PATIENT);
    let (held, mut first) = held_call(&world, &relay);
    let mut open = relay.at.connect();
    open.ask(b"00000000");
    relay.signal("TERM");
    wait_until("E907", || code(&open.ask(&Telegram::new("").bytes())) == "E907");
    assert!(!relay.has_ended());
    relay.signal("INT");
    assert_eq!(relay.wait().code(), Some(1), "{}", relay.log());
    assert!(first.is_closed_without_a_word());
    assert_eq!(world.ledger.told(&held.guid), "SENT - 1");
    let next = world.relay();
    wait_until("the sweep", || world.ledger.told(&held.guid) == "UNKNOWN E901 1");
    assert_eq!(next.at.code(&held), "E901");
    assert_eq!(world.core.calls(&held.guid), 1);
    wait_until("the dead owner is forgotten", || world.owner_files().len() == 1);
}

#[test]
fn a_frozen_relay_keeps_its_call_and_a_killed_one_loses_it_to_the_sweep() {
    let world = World::new();
    let (frozen, mut killed) = (world.process(PATIENT), world.process(PATIENT));
    let relay = world.relay();
    let (asleep, mut first) = held_call(&world, &frozen);
    let (dying, mut second) = held_call(&world, &killed);
    frozen.signal("STOP");
    for telegram in [&asleep, &dying] {
        world.ledger.age(&telegram.guid, 86_400);
    }
    world.ledger.wait_for_sweep(&guid());
    for telegram in [&asleep, &dying] {
        assert_eq!(world.ledger.told(&telegram.guid), "SENT - 1", "old, but its owner lives");
        assert_eq!(relay.at.code(telegram), "E903");
    }
    killed.kill();
    assert!(second.is_closed_without_a_word());
    wait_until("the sweep", || world.ledger.told(&dying.guid) == "UNKNOWN E901 1");
    assert_eq!(world.ledger.history(&dying.guid), ["orphan SENT>UNKNOWN"]);
    let response = world.ledger.row(&dying.guid).response.unwrap();
    assert_eq!((code(&response), relay.at.code(&dying).as_str()), ("E901", "E901"));
    world.ledger.wait_for_sweep(&guid());
    assert_eq!(world.ledger.told(&asleep.guid), "SENT - 1", "a sleeper is not dead");
    frozen.signal("CONT");
    world.core.release();
    assert_eq!(code(&first.read()), "0000");
    assert_eq!(world.ledger.told(&asleep.guid), "DONE 0000 1");
    assert_eq!(world.ledger.history(&asleep.guid), [""; 0]);
    world.ledger.age(&dying.guid, 300);
    let (exit, summary) = world.routine(&["resolve", "--min-age", "60", "--guid", &dying.guid]);
    assert_eq!((exit, summary["done"].as_u64()), (0, Some(1)));
    assert_eq!(relay.at.code(&dying), "0000");
    for telegram in [&asleep, &dying] {
        assert_eq!(world.core.effects(&telegram.guid), 1);
        assert_eq!(world.core.calls(&telegram.guid), 1);
    }
}

#[test]
fn a_reprocess_that_was_killed_in_mid_call_leaves_an_unknown() {
    let world = World::down();
    let relay = world.relay();
    let telegram = Telegram::new("HOLD");
    assert_eq!(relay.at.code(&telegram), "E902");
    world.core.up();
    let mut command = world.routine_command(&["reprocess", "--read-timeout", "60"]);
    let mut reprocess = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    world.core.wait_for_call(&telegram.guid);
    world.ledger.age(&telegram.guid, 86_400);
    world.ledger.wait_for_sweep(&guid());
    assert_eq!(world.ledger.told(&telegram.guid), "SENT - 2", "old, but its owner lives");
    reprocess.kill().unwrap();
    reprocess.wait().unwrap();
    wait_until("the sweep", || world.ledger.told(&telegram.guid) == "UNKNOWN E901 2");
    assert_eq!(
        world.ledger.history(&telegram.guid),
        ["relay SENT>FAILED", "reprocess FAILED>SENT", "orphan SENT>UNKNOWN"]
    );
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_result_that_comes_after_a_second_relay_was_started_and_stopped_is_still_recorded() {
    let world = World::new();
    let relay = world.process(PATIENT);
    let (held, mut first) = held_call(&world, &relay);
    assert!(world.relay().stop());
    world.core.release();
    assert_eq!(code(&first.read()), "0000");
    assert_eq!(world.ledger.told(&held.guid), "DONE 0000 1");
}

#[test]
fn a_second_relay_on_the_same_port_touches_nothing() {
    let world = World::new();
    let relay = world.relay();
    let other = world.ledger.path().with_file_name("other.db");
    let mut command = program();
    command.args(["--serve", "--admin", "off", "--core", &world.core.url(), "--db"]);
    let output =
        command.arg(&other).args(["--listen", &relay.at.tcp.to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&relay.at.tcp.to_string()) && said.contains("--listen"), "{said}");
    assert!(!other.exists());
}

#[test]
fn no_proxy_from_the_environment_is_asked_and_no_secret_gets_into_the_log() {
    let world = World::new();
    let dead = "http://127.0.0.1:9";
    let environment: Vec<(String, &str)> = ["http_proxy", "https_proxy", "all_proxy"]
        .iter()
        .flat_map(|name| [((*name).to_owned(), dead), (name.to_uppercase(), dead)])
        .collect();
    let relay = Process::start_in(&world.ledger, &world.core.url(), &[], &environment);
    for memo in ["", "RESET my rent", "E500 my rent", "REJECT my rent"] {
        let telegram = Telegram::new(memo);
        assert_ne!(relay.at.code(&telegram), "E902", "{memo}");
        assert_eq!(world.core.calls(&telegram.guid), 1, "{memo}");
    }
    relay.at.connect().ask(&Telegram::under("A 1", "my rent").bytes());
    let log = relay.log();
    assert!(log.contains("connection reset"), "{log}");
    for secret in ["110123456789", "3020987654321", "my rent"] {
        assert!(!log.contains(secret), "{log}");
    }
}
