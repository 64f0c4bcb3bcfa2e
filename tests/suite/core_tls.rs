//! A core behind TLS: the real program, a certificate that is trusted or not, and connections that end where they should not.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::channel::Telegram;
use crate::support::crooked_core::CrookedCore;
use crate::support::relays::{Process, World};
use crate::support::scripted_core::{ScriptedCore, Step};
use crate::support::tls_door::TlsDoor;

/// Where the system's trusted authorities are looked for.
const TRUSTED: &str = "SSL_CERT_FILE";

struct Scene {
    world: World,
    relay: Process,
}

/// A relay that calls the core through `door` and trusts the door's authority.
fn trusting(door: &TlsDoor) -> Scene {
    let world = World::new();
    let authority = authority_file(&world);
    door.write_authority(&authority);
    let authority = authority.to_string_lossy().into_owned();
    let trusted = [(TRUSTED.to_owned(), authority.as_str())];
    let relay = Process::start_in(&world.ledger, &door.url(), &["--core-idle", "60"], &trusted);
    Scene { world, relay }
}

fn authority_file(world: &World) -> PathBuf {
    world.ledger.path().with_extension("pem")
}

/// An answer for this GUID with so many bytes more than it needs.
fn answer(guid: &str, more: usize) -> Vec<u8> {
    let more = "x".repeat(more);
    let json = format!(
        r#"{{"guid":"{guid}","core_tx_id":"T0000000000001","posted_dtm":"20261129093015","bal_sign":"+","balance":2350000,"status":"C","more":"{more}"}}"#
    );
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{json}", json.len()).into_bytes()
}

#[test]
fn transfers_go_over_one_connection_to_a_core_whose_certificate_is_trusted() {
    let core = CrookedCore::start(Duration::ZERO);
    let door = TlsDoor::to(&core.url(), "localhost");
    let Scene { relay, world: _world } = trusting(&door);
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
    let long = answer(&telegram.guid, 100_000);
    let core = ScriptedCore::start(vec![vec![Step::Read, Step::Say(long), Step::Hold]]);
    let door = TlsDoor::to(&core.url(), "localhost");
    let Scene { relay, world: _world } = trusting(&door);
    assert_eq!(relay.at.code(&telegram), "0000", "{}", relay.log());
}

#[test]
fn a_core_whose_certificate_is_not_to_be_trusted_is_sent_nothing() {
    let core = CrookedCore::start(Duration::ZERO);
    let another_name = TlsDoor::to(&core.url(), "core.example");
    let Scene { relay, world: _world } = trusting(&another_name);
    assert_eq!(relay.at.code(&Telegram::new("")), "E902");
    assert!(relay.log().contains("TLS handshake failed"), "{}", relay.log());

    let right_name = TlsDoor::to(&core.url(), "localhost");
    let world = World::new();
    another_name.write_authority(&authority_file(&world));
    let file = authority_file(&world).to_string_lossy().into_owned();
    let another_authority = [(TRUSTED.to_owned(), file.as_str())];
    let relay = Process::start_in(&world.ledger, &right_name.url(), &[], &another_authority);
    assert_eq!(relay.at.code(&Telegram::new("")), "E902");
    assert!(relay.log().contains("TLS handshake failed"), "{}", relay.log());

    assert!(core.books().calls.is_empty());
}

#[test]
fn an_answer_that_is_cut_short_or_missing_is_unknown_and_was_asked_for_once() {
    for (story, bytes, seen) in [
        ("nothing", 0, "connection closed without an answer"),
        ("half of it", 60, "half an answer: connection closed after 60 bytes"),
    ] {
        let telegram = Telegram::new("");
        let said = answer(&telegram.guid, 0)[..bytes].to_vec();
        let core = ScriptedCore::start(vec![vec![Step::Read, Step::Say(said), Step::Reset]]);
        let door = TlsDoor::to(&core.url(), "localhost");
        let Scene { relay, world: _world } = trusting(&door);
        assert_eq!(relay.at.code(&telegram), "E901", "{story}: {}", relay.log());
        assert!(relay.log().contains(seen), "{story}: {}", relay.log());
        assert_eq!(core.seen().requests.len(), 1, "{story}: it is asked once");
    }
}
