//! A telegram arrives: what the ledger has under its GUID decides, and whoever asks twice never pays twice.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::support::channel::{BLANK_BODY, Telegram, code, err_sys};
use crate::support::relays::World;

#[test]
fn a_transfer_is_made_once_recorded_and_answered() {
    let world = World::new();
    let relay = world.relay();
    let mut telegram = Telegram::new("");
    telegram.memo = b"\xbf\xf9\xbc\xbc 3\xbf\xf9\xba\xd0".to_vec();
    let sent = telegram.bytes();
    let got = relay.at.ask(&telegram);
    assert_eq!((got.len(), &got[..10]), (173, b"0000016501".as_slice()));
    assert_eq!((code(&got), err_sys(&got)), ("0000", "   "));
    assert_eq!(&got[10..40], telegram.guid.as_bytes());
    assert_eq!(&got[40..51], b"02TRF00100R", "one hop more, the same code, a reply");
    assert_eq!(&got[51..72], &sent[51..72], "copied");
    assert_eq!(&got[99..128], &sent[99..128], "filler is kept byte for byte");
    assert!(got[72..89].iter().all(u8::is_ascii_digit), "the time of the reply");
    let body = format!("T{}20260928093015+0000002350000C  ", &telegram.guid[17..]);
    assert_eq!(&got[128..], body.as_bytes());
    let asked = &world.core.books().requests[&telegram.guid];
    let asked: Vec<_> = asked.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        asked.join(" "),
        format!(
            "guid=\"{}\" tx_code=\"TRF00100\" from_acct=\"110123456789\" to_acct=\"3020987654321\" amount=150000 memo=\"월세 3월분\"",
            telegram.guid
        )
    );
    let row = world.ledger.row(&telegram.guid);
    assert_eq!((row.told(), row.tx_code.as_str()), ("DONE 0000 1".to_owned(), "TRF00100"));
    assert_eq!((row.request, row.response), (sent, Some(got)));
    assert_eq!(world.ledger.history(&telegram.guid), [""; 0], "the plain way leaves no history");
    assert_eq!(world.core.effects(&telegram.guid), 1);
}

#[test]
fn a_resend_of_a_done_transfer_gets_the_stored_bytes_on_every_relay_of_the_ledger() {
    let world = World::new();
    let (relay, other) = (world.relay(), world.relay());
    for memo in ["", "CREATED", "BIG", "REJECT", "NOCODE"] {
        let telegram = Telegram::new(memo);
        let first = relay.at.ask(&telegram);
        for at in [relay.at, other.at] {
            assert_eq!(at.ask(&telegram), first, "{memo}");
            assert_eq!(at.ask(&telegram.resent()), first, "{memo}: another hop, the same content");
        }
        assert_eq!(world.core.calls(&telegram.guid), 1, "{memo}");
    }
    drop((relay, other));
    let after_a_restart = world.relay();
    let telegram = Telegram::new("");
    let first = after_a_restart.at.ask(&telegram);
    drop(after_a_restart);
    assert_eq!(world.relay().at.ask(&telegram), first);
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn of_64_telegrams_of_one_guid_at_once_one_calls_and_63_are_told_so_before_the_core_answers() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("HOLD");
    let (gate, (told, replies)) = (Arc::new(Barrier::new(64)), channel());
    for _ in 0..64 {
        let (gate, told) = (Arc::clone(&gate), told.clone());
        let (mut channel, bytes) = (relay.at.connect(), telegram.bytes());
        thread::spawn(move || {
            gate.wait();
            told.send(channel.ask(&bytes)).unwrap();
        });
    }
    // The core holds its answer until these 63 have been read.
    for reply in replies.iter().take(63) {
        assert_eq!((code(&reply), err_sys(&reply), &reply[128..]), ("E903", "RLY", BLANK_BODY));
    }
    assert_eq!(world.ledger.told(&telegram.guid), "SENT - 1");
    assert_eq!(world.ledger.row(&telegram.guid).response, None);
    world.core.release();
    let won = replies.recv().unwrap();
    assert_eq!(code(&won), "0000");
    assert_eq!(world.ledger.row(&telegram.guid).response, Some(won));
    assert_eq!((world.core.calls(&telegram.guid), world.core.effects(&telegram.guid)), (1, 1));
}

#[test]
fn one_guid_at_once_on_two_relays_of_one_ledger_is_sent_once() {
    let world = World::down();
    let relays = [world.relay(), world.relay()];
    let new: Vec<Telegram> = (0..20).map(|_| Telegram::new("")).collect();
    let failed: Vec<Telegram> = (0..20).map(|_| Telegram::new("")).collect();
    for telegram in &failed {
        assert_eq!(relays[0].at.code(telegram), "E902");
    }
    world.core.up();
    let codes = Mutex::new(BTreeMap::<String, Vec<String>>::new());
    let gate = Barrier::new(8);
    thread::scope(|scope| {
        for n in 0..8 {
            let (mut channel, codes, gate) = (relays[n % 2].at.connect(), &codes, &gate);
            let telegrams = new.iter().chain(&failed);
            scope.spawn(move || {
                for telegram in telegrams {
                    gate.wait();
                    let reply = channel.ask(&telegram.bytes());
                    let mut codes = codes.lock().unwrap();
                    codes.entry(telegram.guid.clone()).or_default().push(code(&reply).to_owned());
                }
            });
        }
    });
    for (telegram, attempts) in new.iter().map(|t| (t, 1)).chain(failed.iter().map(|t| (t, 2))) {
        let codes = &codes.lock().unwrap()[&telegram.guid];
        assert!(codes.contains(&"0000".to_owned()), "{codes:?}");
        // E909: on a slow disk one relay may wait for the other's lock for longer than a claim waits.
        let told = ["0000", "E903", "E909"];
        assert!(codes.iter().all(|code| told.contains(&code.as_str())), "{codes:?}");
        assert_eq!(world.core.calls(&telegram.guid), 1, "{codes:?}");
        assert_eq!(world.ledger.told(&telegram.guid), format!("DONE 0000 {attempts}"));
    }
}

#[test]
fn each_state_answers_as_the_table_says_and_other_content_gets_e904_in_all_of_them() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let done = relay.at.ask(&telegram);
    let set = "UPDATE tx SET state = ?1, rsp_code = ?2, response = ?3 WHERE guid = ?4";
    for (state, rsp_code, told) in [
        ("RECEIVED", None, "E903"),
        ("SENT", None, "E903"),
        ("UNKNOWN", Some("E901"), "E901"),
        ("DONE", Some("0000"), "0000"),
        ("FAILED", Some("E902"), "0000"),
    ] {
        let response = rsp_code.map(|_| &done);
        world.ledger.change(set, (state, rsp_code, response, &telegram.guid));
        let before = world.ledger.row(&telegram.guid);
        assert_eq!(relay.at.code(&telegram.other_content()), "E904", "{state}");
        assert_eq!(world.ledger.row(&telegram.guid), before, "{state}: untouched");
        assert_eq!(relay.at.code(&telegram), told, "{state}");
        if state != "FAILED" {
            assert_eq!(world.ledger.row(&telegram.guid), before, "{state}: untouched");
        }
    }
    assert_eq!(world.ledger.told(&telegram.guid), "DONE 0000 2", "the FAILED one was sent again");
    assert_eq!(world.core.calls(&telegram.guid), 2, "at first, and where it had FAILED");
}

#[test]
fn other_content_is_told_apart_by_the_body_and_not_by_the_header() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("rent");
    let first = relay.at.ask(&telegram);
    assert_eq!(relay.at.code(&telegram.other_content()), "E904");
    let memo = Telegram { memo: b"RENT".to_vec(), ..telegram.clone() };
    assert_eq!(relay.at.code(&memo), "E904");
    let mut filler_of_the_body = telegram.bytes();
    filler_of_the_body[207] = b'x';
    assert_eq!(code(&relay.at.connect().ask(&filler_of_the_body)), "E904");
    assert_eq!(relay.at.ask(&telegram.resent()), first);
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_purged_guid_is_told_e906_for_ever_and_is_not_sent() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    relay.at.ask(&telegram);
    world.ledger.age(&telegram.guid, 40 * 86_400);
    let (exit, summary) = world.routine(&["purge", "--days", "30"]);
    assert_eq!((exit, summary["deleted"].as_u64()), (0, Some(1)));
    let reply = relay.at.ask(&telegram);
    assert_eq!((code(&reply), err_sys(&reply), &reply[128..]), ("E906", "RLY", BLANK_BODY));
    assert_eq!(relay.at.code(&telegram.other_content()), "E906");
    drop(relay);
    assert_eq!(world.relay().at.code(&telegram), "E906", "after a restart too");
    assert_eq!(world.ledger.told(&telegram.guid), "nothing");
    assert_eq!(world.ledger.history(&telegram.guid), ["purge DONE>purged"]);
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_full_relay_calls_nobody_and_still_answers_what_it_knows() {
    let world = World::new();
    let relay = world.relay_with(|config| config.max_in_flight = 1);
    let (done, unknown) = (Telegram::new(""), Telegram::new("RESET"));
    let (stored, _) = (relay.at.ask(&done), relay.at.ask(&unknown));
    let failed = Telegram::new("");
    relay.at.ask(&failed);
    let set = "UPDATE tx SET state = 'FAILED', rsp_code = 'E902' WHERE guid = ?1";
    world.ledger.change(set, [&failed.guid]);
    let held = Telegram::new("HOLD");
    let mut first = relay.at.connect();
    std::io::Write::write_all(&mut first.0, &held.bytes()).unwrap();
    world.core.wait_for_call(&held.guid);
    let new = Telegram::new("");
    assert_eq!(relay.at.code(&new), "E907");
    assert_eq!(
        (world.ledger.told(&new.guid).as_str(), world.core.calls(&new.guid)),
        ("nothing", 0)
    );
    assert_eq!(relay.at.code(&failed), "E907");
    assert_eq!(world.ledger.told(&failed.guid), "FAILED E902 1", "no attempt was used up");
    assert_eq!(relay.at.ask(&done), stored, "a replay needs no call");
    assert_eq!(relay.at.code(&unknown), "E901");
    assert_eq!(relay.at.code(&held), "E903");
    assert_eq!(relay.at.code(&held.other_content()), "E904");
    world.core.release();
    assert_eq!(code(&first.read()), "0000");
    drop(first);
    crate::support::wait::wait_until("room again", || relay.at.code(&new) == "0000");
    assert_eq!(world.core.calls(&new.guid), 1);
}
