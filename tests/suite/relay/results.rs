//! The result: what came of the call, what is recorded of it, and that no trouble at all makes a second call.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::channel::{BLANK_BODY, Telegram, code, err_sys};
use crate::support::relays::World;

/// Everything that may come after the first byte has left and is no definite result, and what the history says of it.
const NOT_AN_ANSWER: [(&str, &str); 23] = [
    ("FIN", "connection closed without an answer"),
    ("RESET", "connection reset"),
    ("HALF", "half an answer"),
    ("CHUNK", "half an answer"),
    ("NOLENGTH", "HTTP 200, half an answer"),
    ("GARBAGE", "no HTTP"),
    ("E200", "HTTP 200"),
    ("ACCEPTED", "HTTP 202"),
    ("PARTIAL", "HTTP 200, an answer that does not fit"),
    ("TOOLONG", "HTTP 200, an answer that does not fit"),
    ("E400", "HTTP 400"),
    ("E404", "HTTP 404"),
    ("E408", "HTTP 408"),
    ("E429", "HTTP 429"),
    ("E500", "HTTP 500"),
    ("E502", "HTTP 502"),
    ("E503", "HTTP 503"),
    ("E504", "HTTP 504"),
    ("REDIRECT", "HTTP 307"),
    ("MISMATCH", "another GUID in the answer"),
    ("HUGE", "an answer over 1048576 bytes"),
    ("HOLD", "read timeout after 0.4 s"),
    ("DRIP", "read timeout after 0.4 s"),
];

#[test]
fn whatever_comes_after_the_first_byte_and_is_no_result_is_unknown_and_is_never_sent_again() {
    let world = World::new();
    let patient = world.relay();
    let impatient = world.relay_with(|config| config.read_timeout = Duration::from_millis(400));
    for (memo, seen) in NOT_AN_ANSWER {
        let relay = if seen.starts_with("read timeout") { &impatient } else { &patient };
        // A connection to the core waits to be used again: its failure must not pass for "not sent".
        assert_eq!(relay.at.code(&Telegram::new("")), "0000");
        let telegram = Telegram::new(memo);
        let got = relay.at.ask(&telegram);
        assert_eq!((code(&got), err_sys(&got), &got[128..]), ("E901", "RLY", BLANK_BODY), "{memo}");
        let row = world.ledger.row(&telegram.guid);
        assert_eq!((row.told(), row.response), ("UNKNOWN E901 1".to_owned(), Some(got)), "{memo}");
        assert_eq!(world.ledger.history(&telegram.guid), ["relay SENT>UNKNOWN"], "{memo}");
        let last = world.ledger.last_seen(&telegram.guid);
        assert!(last.starts_with(seen), "{memo}: {last}");
        for again in [&telegram, &telegram.resent()] {
            assert_eq!(relay.at.code(again), "E901", "{memo}");
        }
        assert_eq!(world.ledger.told(&telegram.guid), "UNKNOWN E901 1", "{memo}");
        assert_eq!(world.core.calls(&telegram.guid), 1, "{memo}");
    }
}

#[test]
fn an_idle_connection_that_the_core_has_dropped_makes_no_second_call() {
    let world = World::new();
    let relay = world.relay();
    for _ in 0..50 {
        let (closing, next) = (Telegram::new("CLOSE"), Telegram::new(""));
        assert_eq!(relay.at.code(&closing), "0000", "the answer came before the close");
        // The relay may have noticed the close, or write into it: both are right, a second call is not.
        let told = relay.at.code(&next);
        assert!(told == "0000" || told == "E901", "{told}");
        assert!(world.core.calls(&next.guid) <= 1);
        let state = if told == "0000" { "DONE 0000 1" } else { "UNKNOWN E901 1" };
        assert_eq!(world.ledger.told(&next.guid), state);
    }
}

#[test]
fn a_refused_connection_is_failed_and_the_same_guid_may_be_sent_again() {
    let world = World::down();
    let relay = world.relay();
    let telegram = Telegram::new("");
    for attempt in 1..=2 {
        let got = relay.at.ask(&telegram);
        assert_eq!((code(&got), err_sys(&got), &got[128..]), ("E902", "RLY", BLANK_BODY));
        let row = world.ledger.row(&telegram.guid);
        assert_eq!((row.told(), row.response), (format!("FAILED E902 {attempt}"), Some(got)));
    }
    assert!(world.ledger.last_seen(&telegram.guid).starts_with("connect refused"));
    let stored = world.ledger.row(&telegram.guid).request;
    world.core.up();
    let (during, ledger) = (Arc::new(Mutex::new(Vec::new())), world.ledger.clone());
    let seen = Arc::clone(&during);
    world.core.while_calling(move |guid| seen.lock().unwrap().push(ledger.row(guid)));
    let got = relay.at.ask(&telegram.resent());
    let during = during.lock().unwrap();
    assert_eq!(during.len(), 1);
    assert_eq!(
        (during[0].told().as_str(), &during[0].response),
        ("SENT - 3", &None),
        "claimed before it is sent"
    );
    assert_eq!(
        (code(&got), &got[40..42]),
        ("0000", b"08".as_slice()),
        "the header is that of the telegram answered"
    );
    let row = world.ledger.row(&telegram.guid);
    assert_eq!(
        (row.told().as_str(), &row.response, &row.request),
        ("DONE 0000 3", &Some(got), &stored)
    );
    assert_eq!(
        world.ledger.history(&telegram.guid),
        [
            "relay SENT>FAILED",
            "relay FAILED>SENT",
            "relay SENT>FAILED",
            "relay FAILED>SENT",
            "relay SENT>DONE"
        ]
    );
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_name_that_is_not_found_and_a_connection_that_nobody_takes_are_failed() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&deaf).listen(0).unwrap();
    let at = deaf.local_addr().unwrap();
    // The queue is full: the next one waits in vain.
    let _fillers: Vec<_> = (0..4)
        .map(|_| {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&at.into());
            socket
        })
        .collect();
    // A label of over 63 bytes is in no DNS.
    let nowhere = format!("http://{}:80", "no-such-host".repeat(6));
    for url in [format!("http://{at}"), nowhere] {
        let world = World::down();
        let relay = world.relay_with(|config| {
            config.core = url.parse().unwrap();
            config.connect_timeout = Duration::from_millis(500);
        });
        let telegram = Telegram::new("");
        assert_eq!(relay.at.code(&telegram), "E902", "{url}");
        assert_eq!(world.ledger.told(&telegram.guid), "FAILED E902 1", "{url}");
        assert_eq!(world.ledger.history(&telegram.guid), ["relay SENT>FAILED"], "{url}");
    }
}

#[test]
fn a_business_refusal_is_a_result_and_is_replayed() {
    let world = World::new();
    let relay = world.relay();
    for (memo, told) in [
        ("REJECT", "C051"),
        ("NOCODE", "E905"),
        ("LONGCODE", "E905"),
        ("FALSECODE", "E905"),
        ("OURCODE", "E905"),
    ] {
        let telegram = Telegram::new(memo);
        let got = relay.at.ask(&telegram);
        assert_eq!((code(&got), err_sys(&got), &got[128..]), (told, "COR", BLANK_BODY), "{memo}");
        let row = world.ledger.row(&telegram.guid);
        assert_eq!((row.told(), row.response.as_ref()), (format!("DONE {told} 1"), Some(&got)));
        assert_eq!(relay.at.ask(&telegram), got, "{memo}");
        assert_eq!(world.core.calls(&telegram.guid), 1, "{memo}");
    }
}

/// While the call is under way somebody else changes the row to (state, code, attempts); does the result settle it?
#[test]
fn a_late_result_is_fenced_by_state_and_attempt() {
    let world = World::new();
    let relay = world.relay();
    let stored = relay.at.ask(&Telegram::new(""));
    for (state, rsp_code, attempts, settles, told) in [
        ("DONE", Some("C051"), 1, false, "0000"),
        ("SENT", None, 2, false, "E903"),
        ("FAILED", Some("E902"), 2, false, "E902"),
        ("UNKNOWN", Some("E901"), 2, false, "E901"),
        ("UNKNOWN", Some("E901"), 1, true, "0000"),
        ("FAILED", Some("E902"), 1, true, "0000"),
    ] {
        let (ledger, response) = (world.ledger.clone(), (state == "DONE").then(|| stored.clone()));
        world.core.while_calling(move |guid| {
            let set = "UPDATE tx SET state = ?1, rsp_code = ?2, attempts = ?3, response = ?4 WHERE guid = ?5";
            ledger.change(set, (state, rsp_code, attempts, &response, guid));
        });
        let telegram = Telegram::new("");
        let got = relay.at.ask(&telegram);
        let row = world.ledger.row(&telegram.guid);
        assert_eq!(code(&got), told, "{state} {attempts}");
        if settles {
            assert_eq!((row.told().as_str(), row.response), ("DONE 0000 1", Some(got)), "{state}");
        } else {
            let unchanged = format!("{state} {} {attempts}", rsp_code.unwrap_or("-"));
            assert_eq!(row.told(), unchanged);
        }
        if state == "DONE" {
            assert_eq!(relay.at.ask(&telegram), stored, "the channel hears what the ledger says");
        }
    }
}

#[test]
fn a_late_unknown_over_a_failed_of_the_same_attempt_makes_it_unknown_and_over_a_later_one_nothing()
{
    let world = World::new();
    let relay = world.relay();
    for (attempts, left) in [(1, "UNKNOWN E901 1"), (2, "FAILED E902 2")] {
        let ledger = world.ledger.clone();
        world.core.while_calling(move |guid| {
            let set =
                "UPDATE tx SET state = 'FAILED', rsp_code = 'E902', attempts = ?1 WHERE guid = ?2";
            ledger.change(set, (attempts, guid));
        });
        let telegram = Telegram::new("RESET");
        let told = relay.at.code(&telegram);
        assert_eq!(told, left.split(' ').nth(1).unwrap());
        assert_eq!(world.ledger.told(&telegram.guid), left);
    }
}

#[test]
fn a_result_for_a_row_that_somebody_removed_is_told_unknown() {
    let world = World::new();
    let relay = world.relay();
    let ledger = world.ledger.clone();
    world.core.while_calling(move |guid| {
        ledger.change("DELETE FROM tx WHERE guid = ?1", [guid]);
    });
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "E901");
    assert_eq!(world.ledger.told(&telegram.guid), "nothing");
}
