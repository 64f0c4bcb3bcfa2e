//! The fronts: bytes in, bytes out. Streams in pieces, in heaps and in bad faith; HTTP for those who prefer it; the admin pages.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use oncegate::clock::Clock;

use crate::support::channel::{BLANK_BODY, Channel, Telegram, code, err_sys, http};
use crate::support::relays::World;
use crate::support::wait::wait_until;

#[test]
fn telegrams_come_in_pieces_and_in_heaps_and_are_answered_in_their_order() {
    let world = World::new();
    let relay = world.relay();
    let telegrams: Vec<Telegram> = (0..4).map(|_| Telegram::new("")).collect();
    let bytes: Vec<u8> =
        telegrams.iter().flat_map(|t| [t.bytes(), b"00000000".to_vec()].concat()).collect();
    for piece in [1, 7, 50, bytes.len()] {
        let mut channel = relay.at.connect();
        for piece in bytes.chunks(piece) {
            channel.0.write_all(piece).unwrap();
        }
        for telegram in &telegrams {
            let reply = channel.read();
            assert_eq!((code(&reply), &reply[10..40]), ("0000", telegram.guid.as_bytes()));
            assert_eq!(channel.read(), b"00000000", "an idle poll is echoed");
        }
    }
    for telegram in &telegrams {
        assert_eq!(world.core.calls(&telegram.guid), 1);
    }
}

#[test]
fn half_a_telegram_holds_up_nobody_else_and_is_answered_once_it_is_whole() {
    let world = World::new();
    let relay = world.relay();
    let slow = Telegram::new("");
    let mut channel = relay.at.connect();
    channel.0.write_all(&slow.bytes()[..100]).unwrap();
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    assert_eq!(world.ledger.told(&slow.guid), "nothing");
    channel.0.write_all(&slow.bytes()[100..]).unwrap();
    assert_eq!(code(&channel.read()), "0000");
}

/// A clock that the test moves.
#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

/// The limit for the rest of a telegram began anew with each byte: a channel that sent a byte every 29 seconds held its thread and
/// its connection for an hour and a half a telegram.
#[test]
fn a_telegram_that_drips_is_given_up_though_each_byte_comes_in_time() {
    let world = World::new();
    let clock = Arc::new(HandClock::default());
    let its_clock: Arc<dyn Clock> = clock.clone();
    let relay = world.relay_at(&its_clock, |_| {});
    let telegram = Telegram::new("");
    let mut channel = relay.at.connect();
    channel.0.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let closed = telegram.bytes().iter().any(|byte| {
        let sent = channel.0.write_all(&[*byte]);
        clock.0.fetch_add(29, Ordering::SeqCst);
        // Nothing comes, or the connection is closed; a reply would come only after all of the bytes.
        sent.is_err() || channel.0.read(&mut [0; 200]).map_or_else(|e| !is_timeout(&e), |n| n == 0)
    });
    assert!(closed, "it took {} s", clock.0.load(Ordering::SeqCst));
    assert_eq!(world.ledger.told(&telegram.guid), "nothing");
    assert_eq!(relay.at.code(&telegram), "0000");
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn a_channel_that_hangs_up_in_the_middle_of_a_telegram_has_sent_nothing() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let mut channel = relay.at.connect();
    channel.0.write_all(&telegram.bytes()[..207]).unwrap();
    channel.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(channel.is_closed_without_a_word());
    assert_eq!(world.ledger.told(&telegram.guid), "nothing");
}

#[test]
fn a_channel_that_has_said_all_it_had_to_say_still_gets_its_replies() {
    let world = World::new();
    let relay = world.relay();
    let telegrams = [Telegram::new(""), Telegram::new("RESET")];
    let mut channel = relay.at.connect();
    channel.0.write_all(&telegrams.each_ref().map(Telegram::bytes).concat()).unwrap();
    channel.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!((code(&channel.read()), code(&channel.read())), ("0000", "E901"));
    assert!(channel.is_closed_without_a_word());
}

/// The end of a stream can be read again and again: a front that did so kept a processor busy for as long as the core took.
#[test]
fn a_channel_that_has_hung_up_costs_nothing_while_its_call_lasts() {
    let world = World::new();
    let relay = world.process(&["--read-timeout", "60"]);
    let held = Telegram::new("HOLD");
    let mut channel = relay.at.connect();
    channel.0.write_all(&held.bytes()).unwrap();
    channel.0.shutdown(std::net::Shutdown::Write).unwrap();
    wait_until("the call", || world.core.calls(&held.guid) > 0);
    let (begun, before) = (Instant::now(), relay.cpu_ticks());
    wait_until("a second", || begun.elapsed() >= Duration::from_secs(1));
    let used = relay.cpu_ticks() - before;
    assert!(used < 20, "{used} hundredths of a second of the processor in one second");
    world.core.release();
    assert_eq!(code(&channel.read()), "0000");
    assert!(channel.is_closed_without_a_word());
}

#[test]
fn a_connection_that_says_nothing_costs_no_thread() {
    let world = World::new();
    let relay = world.process(&[]);
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    let before = relay.threads();
    let mut idle: Vec<Channel> = (0..100).map(|_| relay.at.connect()).collect();
    assert_eq!(code(&idle[99].ask(&Telegram::new("").bytes())), "0000");
    assert!(relay.threads() <= before + 1, "{} threads were {before}", relay.threads());
}

#[test]
fn a_malformed_telegram_gets_e900_and_the_connection_stays() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let good = telegram.bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    let framed = |body: &[u8]| [format!("{:08}", body.len()).as_bytes(), body].concat();
    let bad = [
        with(160, b"12A4567890123"),
        with(160, b"             "),
        with(160, b"+000000150000"),
        with(192, b"\xc2"),
        with(50, b"R"),
        with(42, b"TRF00199"),
        with(40, b"x1"),
        framed(&[&good[8..], b" "].concat()),
        framed(&good[8..207]),
        framed(&good[8..128]),
    ];
    let mut channel = relay.at.connect();
    for bytes in bad {
        let got = channel.ask(&bytes);
        assert_eq!((code(&got), err_sys(&got), got[50]), ("E900", "RLY", b'R'));
        assert_eq!((&got[10..40], &got[128..]), (telegram.guid.as_bytes(), BLANK_BODY));
    }
    for guid in ["", "A 1", " A1"] {
        assert_eq!(code(&channel.ask(&Telegram::under(guid, "").bytes())), "E900", "{guid:?}");
    }
    assert_eq!(world.ledger.number("SELECT count(*) FROM tx"), 0);
    assert_eq!(world.core.books().calls.len(), 0);
    assert_eq!(code(&channel.ask(&good)), "0000", "the connection has stayed");
    let short = Telegram::under("A-1/?", "");
    assert_eq!(code(&channel.ask(&short.bytes())), "0000", "a short GUID, not safe in a path");
    assert_eq!(
        (world.core.calls("A-1/?"), world.ledger.told("A-1/?").as_str()),
        (1, "DONE 0000 1")
    );
}

#[test]
fn a_stream_that_can_not_be_trusted_is_closed_without_a_word_and_the_relay_goes_on() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let good = telegram.bytes();
    for bad in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [b"00099999", &good[8..]].concat(),
        [b"+0000200", &good[8..]].concat(),
        [b"00000100", &good[8..108]].concat(),
    ] {
        let mut channel = relay.at.connect();
        // It may be closed before it has read all.
        let _ = channel.0.write_all(&bad);
        assert!(channel.is_closed_without_a_word(), "{:?}", String::from_utf8_lossy(&bad));
    }
    assert_eq!(world.ledger.told(&telegram.guid), "nothing");
    assert_eq!(relay.at.code(&telegram), "0000");
}

#[test]
fn a_channel_that_never_reads_holds_up_nobody_else() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let reply = relay.at.ask(&telegram);
    let mut deaf = relay.at.connect();
    deaf.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let heap = telegram.bytes().repeat(1000);
    // Replies pile up until the relay can't write, and so doesn't read any more.
    while let Ok(written) = deaf.0.write(&heap) {
        assert!(written > 0);
    }
    assert_eq!(relay.at.ask(&telegram), reply);
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn a_channel_that_reads_slowly_gets_every_reply_whole_and_in_order() {
    let world = World::new();
    let relay = world.relay();
    let telegrams: Vec<Telegram> = (0..4).map(|_| Telegram::new("")).collect();
    let replies: Vec<Vec<u8>> = telegrams.iter().map(|telegram| relay.at.ask(telegram)).collect();
    let round: Vec<u8> = telegrams.iter().flat_map(Telegram::bytes).collect();
    let mut slow = relay.at.connect();
    socket2::SockRef::from(&slow.0).set_recv_buffer_size(64 * 1024).unwrap();
    slow.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let heap = round.repeat(100);
    let mut written = 0;
    // Until the relay has more replies than the connection takes.
    while let Ok(n) = slow.0.write(&heap[written % heap.len()..]) {
        written += n;
    }
    let whole = written / (round.len() / telegrams.len());
    assert!(whole > 1_000, "{whole} telegrams");
    for n in 0..whole {
        assert!(slow.read() == replies[n % replies.len()], "reply {n} of {whole}");
    }
    for telegram in &telegrams {
        assert_eq!(world.core.calls(&telegram.guid), 1);
    }
}

#[test]
fn a_connection_that_says_nothing_is_closed_after_the_idle_timeout_and_one_too_many_at_once() {
    let world = World::new();
    let relay = world.relay_with(|config| {
        config.max_connections = 2;
        config.idle_timeout = Duration::from_millis(700);
    });
    let (mut first, mut second) = (relay.at.connect(), relay.at.connect());
    assert_eq!(first.ask(b"00000000"), b"00000000");
    assert_eq!(second.ask(b"00000000"), b"00000000");
    assert!(relay.at.connect().is_closed_without_a_word());
    assert!(first.is_closed_without_a_word() && second.is_closed_without_a_word());
    let has_room = || {
        let asked = Channel::connect(relay.at.tcp).and_then(|mut c| c.try_ask(b"00000000"));
        asked.is_ok_and(|reply| reply == b"00000000")
    };
    wait_until("room for a connection", has_room);
}

#[test]
fn http_takes_the_same_telegrams_and_says_code_and_replay_in_headers() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("");
    let first = http(relay.at.http, "POST", "/telegram", &telegram.bytes());
    assert_eq!((first.status, first.header("oncegate-code")), (200, Some("0000")));
    assert_eq!(first.header("oncegate-replayed"), None);
    assert_eq!(first.header("content-type"), Some("application/octet-stream"));
    assert_eq!(relay.at.ask(&telegram), first.body, "TCP and HTTP are one relay");
    let again = http(relay.at.http, "POST", "/telegram", &telegram.resent().bytes());
    assert_eq!((again.status, again.header("oncegate-code")), (200, Some("0000")));
    assert_eq!((again.header("oncegate-replayed"), &again.body), (Some("true"), &first.body));
    for (bytes, told) in [
        (telegram.other_content().bytes(), "e904"),
        (telegram.bytes()[..207].to_vec(), "e900"),
        (Telegram::new("REJECT").bytes(), "c051"),
        (Telegram::new("RESET").bytes(), "e901"),
    ] {
        let reply = http(relay.at.http, "POST", "/telegram", &bytes);
        assert_eq!((reply.status, reply.header("oncegate-code")), (200, Some(told)));
        assert_eq!(code(&reply.body).to_ascii_lowercase(), told);
    }
    assert_eq!(world.core.calls(&telegram.guid), 1);
}

#[test]
fn http_refuses_what_is_no_telegram_by_status() {
    let world = World::new();
    let relay = world.relay();
    let telegram = Telegram::new("").bytes();
    for (status, method, path, body) in [
        (400, "POST", "/telegram", b"junk".as_slice()),
        (400, "POST", "/telegram", b""),
        (405, "GET", "/telegram", b""),
        (404, "GET", "/other", b""),
        (404, "POST", "/", &telegram),
    ] {
        let reply = http(relay.at.http, method, path, body);
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(!reply.body.is_empty() && !reply.body.trim_ascii().contains(&b'\n'), "one line");
    }
    let mut channel = Channel::connect(relay.at.http).unwrap();
    let head = b"POST /telegram HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    let _ = channel.0.write_all(&[head.as_slice(), &[b'0'; 10_000].repeat(10)].concat());
    let mut start = [0; 13];
    channel.0.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413 ");
    assert_eq!(world.ledger.number("SELECT count(*) FROM tx"), 0);
}

#[test]
fn health_readiness_and_metrics_say_what_is() {
    let world = World::new();
    let relay = world.relay();
    relay.at.ask(&Telegram::new(""));
    relay.at.ask(&Telegram::new("RESET"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http(relay.at.admin, "GET", path, b"").status, 200, "{path}");
    }
    let text = String::from_utf8(http(relay.at.admin, "GET", "/metrics", b"").body).unwrap();
    for line in [
        "oncegate_telegrams_total{code=\"0000\"} 1",
        "oncegate_telegrams_total{code=\"E901\"} 1",
        "oncegate_rows{state=\"DONE\"} 1",
        "oncegate_rows{state=\"UNKNOWN\"} 1",
        "oncegate_in_flight 0",
        "oncegate_core_call_seconds_count{outcome=\"done\"} 1",
        "oncegate_core_call_seconds_count{outcome=\"unknown\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    for name in [
        "connections{",
        "commit_seconds_bucket",
        "commit_batch_size",
        "wal_bytes",
        "oldest_seconds{",
    ] {
        assert!(text.lines().any(|l| l.starts_with(&format!("oncegate_{name}"))), "{name}\n{text}");
    }
    let locked = world.ledger.locked();
    assert_eq!(http(relay.at.admin, "GET", "/readyz", b"").status, 503, "nobody can write");
    assert_eq!(http(relay.at.admin, "GET", "/healthz", b"").status, 200);
    drop(locked);
    wait_until("it is ready again", || http(relay.at.admin, "GET", "/readyz", b"").status == 200);
}

#[test]
fn a_reset_by_the_channel_ends_its_connection_alone() {
    let world = World::new();
    let relay = world.relay();
    let mut channel = relay.at.connect();
    channel.0.write_all(&Telegram::new("").bytes()[..20]).unwrap();
    channel.reset();
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
    let text = || String::from_utf8(http(relay.at.admin, "GET", "/metrics", b"").body).unwrap();
    wait_until("no connection is left", || {
        text().lines().any(|line| line == "oncegate_connections{front=\"tcp\"} 0")
    });
}
