//! The relay as a process: stopped, frozen and killed. Nobody takes a call from a living relay, and a dead one's calls are
//! settled.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::Write;
use std::sync::Mutex;
use std::thread;

use crate::support::channel::{Channel, Telegram, code, guid, http, http_request};
use crate::support::relays::{Process, World, program};
use crate::support::wait::wait_until;

/// Sends and returns once the core has the call, which it holds. A slow disk may keep one relay waiting for another's lock for
/// longer than a claim waits; then the channel sends again, as channels do.
fn held_call(world: &World, relay: &Process) -> (Telegram, Channel) {
    let telegram = Telegram::new("HOLD");
    let mut channel = relay.at.connect();
    channel.0.write_all(&telegram.bytes()).unwrap();
    wait_until("the call", || {
        if channel.has_something_to_read() {
            assert_eq!(code(&channel.read()), "E909");
            assert!(!relay.log().contains("disk is full"), "{}", relay.log());
            channel.0.write_all(&telegram.bytes()).unwrap();
        }
        world.core.calls(&telegram.guid) > 0
    });
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
fn sigterm_is_the_same_for_http_channels() {
    let world = World::new();
    let mut relay = world.process(PATIENT);
    let (held, new) = (Telegram::new("HOLD"), Telegram::new(""));
    let [mut first, mut open] = [(); 2].map(|()| Channel::connect(relay.at.http).unwrap());
    open.0.write_all(&http_request(&Telegram::new(""))).unwrap();
    assert_eq!(code(&open.read_http()), "0000");
    first.0.write_all(&http_request(&held)).unwrap();
    world.core.wait_for_call(&held.guid);
    relay.signal("TERM");
    wait_until("it stops", || http(relay.at.admin, "GET", "/readyz", b"").status == 503);
    open.0.write_all(&http_request(&new)).unwrap();
    assert_eq!(code(&open.read_http()), "E907", "an open connection is still answered");
    assert_eq!(world.ledger.told(&new.guid), "nothing");
    world.core.release();
    assert_eq!(code(&first.read_http()), "0000");
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.log());
    assert_eq!(world.ledger.told(&held.guid), "DONE 0000 1");
}

/// Whoever gets no answer from a relay that stops can be sure that it has not begun.
#[test]
fn a_relay_that_stops_under_load_owes_nobody_a_reply_and_leaves_nothing_sent() {
    let world = World::new();
    for front in ["tcp", "http"] {
        let mut relay = world.process(PATIENT);
        let unanswered = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..8 {
                let to = if front == "tcp" { relay.at.tcp } else { relay.at.http };
                let (channel, unanswered) = (Channel::connect(to).unwrap(), &unanswered);
                scope.spawn(move || {
                    let telegram = send_until_closed(channel, front);
                    unanswered.lock().unwrap().push(telegram);
                });
            }
            let before = world.core.books().calls.len();
            wait_until("a load", || world.core.books().calls.len() > before + 200);
            relay.signal("TERM");
            assert_eq!(relay.wait().code(), Some(0), "{}", relay.log());
        });
        for telegram in unanswered.lock().unwrap().iter() {
            assert_eq!(world.ledger.told(&telegram.guid), "nothing", "{front}");
            assert_eq!(world.core.calls(&telegram.guid), 0, "{front}");
        }
        assert_eq!(world.ledger.number("SELECT count(*) FROM tx WHERE state <> 'DONE'"), 0);
        assert!(world.owner_files().is_empty());
    }
}

/// Sends new transfers until the connection dies; the one that got no answer.
fn send_until_closed(mut channel: Channel, front: &str) -> Telegram {
    loop {
        let telegram = Telegram::new("");
        let bytes = if front == "tcp" { telegram.bytes() } else { http_request(&telegram) };
        let answered = channel.0.write_all(&bytes).and_then(|()| {
            if front == "tcp" { channel.read_with(8) } else { channel.try_read_http() }
        });
        match answered {
            Ok(reply) => assert!(["0000", "E907"].contains(&code(&reply))),
            Err(_) => return telegram,
        }
    }
}

#[test]
fn relays_that_start_at_once_on_a_ledger_that_is_not_there_yet_make_one() {
    let world = World::new();
    let relays: Vec<Process> = thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| world.process(&[]))).collect();
        starting.into_iter().map(|relay| relay.join().unwrap()).collect()
    });
    let telegram = Telegram::new("");
    let reply = relays[0].at.ask(&telegram);
    for relay in &relays {
        assert_eq!(relay.at.ask(&telegram), reply);
        assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    }
    assert_eq!(world.core.calls(&telegram.guid), 1);
    assert_eq!(world.ledger.number("SELECT count(*) FROM tx"), 5);
}

#[test]
fn no_thread_of_a_relay_pushes_another_aside_unless_somebody_chose_how_it_is_scheduled() {
    const BATCH: u32 = 3;
    const IDLE: u32 = 5;
    let world = World::new();
    let tool = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (chosen, policy) in [(&["chrt", "--idle", "0"][..], IDLE), (&["env"][..], BATCH)] {
        let relay = Process::start_under(&tool(chosen), &world.ledger, &world.core.url());
        let mut channel = relay.at.connect();
        assert_eq!(code(&channel.ask(&Telegram::new("").bytes())), "0000");
        let policies = relay.scheduling_policies();
        assert!(policies.len() > 3, "{policies:?}");
        assert_eq!(policies, vec![policy; policies.len()]);
    }
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

/// Whoever copies the ledger's file after an orderly stop must have all of it: nothing may be left in the log beside it.
#[test]
fn an_orderly_stop_closes_the_ledger_though_channels_are_connected() {
    let world = World::new();
    let mut relay = world.process(&[]);
    let (mut tcp, done) = (relay.at.connect(), Telegram::new(""));
    assert_eq!(code(&tcp.ask(&done.bytes())), "0000");
    let mut web = Channel::connect(relay.at.http).unwrap();
    web.0.write_all(&http_request(&Telegram::new(""))).unwrap();
    assert!(!web.read_http().is_empty());
    let log = format!("{}-wal", world.ledger.path().display());
    assert!(std::fs::exists(&log).unwrap());
    relay.signal("TERM");
    assert_eq!(relay.wait().code(), Some(0));
    assert!(!std::fs::exists(&log).unwrap(), "{log} is left");
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
