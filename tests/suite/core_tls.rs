//! A core behind TLS: the real program, a certificate that is trusted or not, and connections that end where they should not.

use std::time::Duration;

use crate::support::calls::{answer_json, http};
use crate::support::channel::Telegram;
use crate::support::crooked_core::CrookedCore;
use crate::support::relays::{Process, World};
use crate::support::scripted_core::{ScriptedCore, Step};
use crate::support::tls_door::TlsDoor;

/// Where the system's trusted authorities are looked for.
const TRUSTED: &str = "SSL_CERT_FILE";

/// A relay that calls the core through `door` and trusts the authority of `trusted`. Its world has to outlive it.
fn relay(door: &TlsDoor, trusted: &TlsDoor) -> (World, Process) {
    let world = World::new();
    let authority = world.ledger.path().with_extension("pem");
    trusted.write_authority(&authority);
    let authority = [(TRUSTED.to_owned(), authority.to_str().expect("a path in UTF-8"))];
    let relay = Process::start_in(&world.ledger, &door.url(), &["--core-idle", "60"], &authority);
    (world, relay)
}

#[test]
fn transfers_go_over_one_connection_to_a_core_whose_certificate_is_trusted() {
    let core = CrookedCore::start(Duration::ZERO);
    let door = TlsDoor::to(&core.url(), "localhost");
    let (_world, relay) = relay(&door, &door);
    for _ in 0..3 {
        let telegram = Telegram::new("");
        assert_eq!(relay.at.code(&telegram), "0000", "{}", relay.log());
        assert_eq!(core.effects(&telegram.guid), 1);
        assert_eq!(relay.at.code(&telegram.resent()), "0000");
        assert_eq!(core.effects(&telegram.guid), 1, "a resend is answered from the ledger");
    }
    assert_eq!(door.handshakes(), 1);
}

#[test]
fn an_answer_longer_than_any_buffer_is_read_whole_through_tls() {
    let telegram = Telegram::new("");
    let more = format!(r#"{{"more":"{}","#, "x".repeat(100_000));
    let long = http("200 OK", &answer_json(&telegram.guid).replace('{', &more));
    let core = ScriptedCore::start(vec![vec![Step::Read, Step::Say(long), Step::Hold]]);
    let door = TlsDoor::to(&core.url(), "localhost");
    let (_world, relay) = relay(&door, &door);
    assert_eq!(relay.at.code(&telegram), "0000", "{}", relay.log());
}

#[test]
fn a_core_whose_certificate_is_not_to_be_trusted_is_sent_nothing() {
    let core = CrookedCore::start(Duration::ZERO);
    let right = TlsDoor::to(&core.url(), "localhost");
    let another_name = TlsDoor::to(&core.url(), "core.example");
    for (door, trusted) in [(&another_name, &another_name), (&right, &another_name)] {
        let (_world, relay) = relay(door, trusted);
        assert_eq!(relay.at.code(&Telegram::new("")), "E902");
        assert!(relay.log().contains("TLS handshake failed"), "{}", relay.log());
    }
    assert!(core.books().calls.is_empty());
}

#[test]
fn an_answer_that_is_cut_short_or_missing_is_unknown_and_was_asked_for_once() {
    for (story, bytes, seen) in [
        ("nothing", 0, "connection closed without an answer"),
        ("half of it", 60, "half an answer: connection closed after 60 bytes"),
    ] {
        let telegram = Telegram::new("");
        let said = http("200 OK", &answer_json(&telegram.guid))[..bytes].to_vec();
        let core = ScriptedCore::start(vec![vec![Step::Read, Step::Say(said), Step::Close]]);
        let door = TlsDoor::to(&core.url(), "localhost");
        let (_world, relay) = relay(&door, &door);
        assert_eq!(relay.at.code(&telegram), "E901", "{story}: {}", relay.log());
        assert!(relay.log().contains(seen), "{story}: {}", relay.log());
        assert_eq!(core.seen().requests.len(), 1, "{story}: it is asked once");
    }
}
