//! Canaries: an account, a memo and a telegram that can be recognised, sent through every code there is. Nothing of them may stand in
//! a log, in the metrics or in what a routine says.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::channel::{Telegram, code, http};
use crate::support::relays::{Process, World};

/// What stands in every telegram of [`Telegram`], and what is added to its memos.
const SECRETS: [&str; 5] = ["110123456789", "3020987654321", "CANARY", "keep\\xfe", "MOB20260928"];

/// A memo after each trick of the core: whatever comes of the call.
const TRICKS: [&str; 16] = [
    "", "REJECT", "NOCODE", "LONGCODE", "E200", "E400", "E404", "E500", "E502", "RESET", "FIN",
    "HALF", "GARBAGE", "REDIRECT", "PARTIAL", "MISMATCH",
];

fn with_canary(trick: &str) -> Telegram {
    Telegram::new(format!("{trick} CANARY").trim_start())
}

#[test]
fn no_account_memo_or_telegram_is_in_a_log_a_metric_or_an_error_whatever_code_comes() {
    for format in ["text", "json"] {
        let world = World::down();
        let options = ["--log-format", format, "--read-timeout", "1", "--max-in-flight", "1"];
        let relay = world.process(&options);
        let mut codes = BTreeSet::new();
        let failed = with_canary("");
        codes.insert(relay.at.code(&failed));
        world.core.up();
        for trick in TRICKS {
            let telegram = with_canary(trick);
            codes.insert(relay.at.code(&telegram));
            codes.insert(relay.at.code(&telegram.resent()));
            codes.insert(relay.at.code(&telegram.other_content()));
        }
        codes.extend(odd_codes(&world, &relay));
        let wanted = [
            "0000", "C051", "E900", "E901", "E902", "E903", "E904", "E905", "E906", "E907", "E909",
        ];
        for code in wanted {
            assert!(codes.contains(code), "{code} did not come: {codes:?}");
        }
        let metrics = http(relay.at.admin, "GET", "/metrics", b"").body;
        check("the metrics", &String::from_utf8(metrics).unwrap());
        for routine in [
            &["resolve", "--min-age", "0"][..],
            &["reprocess", "--max-attempts", "9", "--json"],
            &["resolve", "--min-age", "0", "--dry-run"],
            &["purge", "--days", "0", "--json"],
        ] {
            said(&mut world.routine_command(routine));
        }
        said(world.routine_command(&["resolve"]).args(["--guid", "no guid"]));
        let log = relay.log();
        assert!(log.lines().count() > TRICKS.len(), "there is a log: {log}");
        check(format, &log);
    }
}

/// The codes for which something special must be the case.
fn odd_codes(world: &World, relay: &Process) -> Vec<String> {
    let mut codes = Vec::new();
    // E900: a body that says nothing, and a stream that is none.
    let mut malformed = with_canary("").bytes();
    malformed[160..164].copy_from_slice(b"12A4");
    codes.push(code(&relay.at.connect().ask(&malformed)).to_owned());
    let _ = relay.at.connect().try_ask(b"CANARY 110123456789 3020987654321");
    // E903 and E907: one call is held, and one is all there may be.
    let held = with_canary("HOLD");
    let mut first = relay.at.connect();
    std::io::Write::write_all(&mut first.0, &held.bytes()).unwrap();
    world.core.wait_for_call(&held.guid);
    codes.push(relay.at.code(&held));
    codes.push(relay.at.code(&with_canary("")));
    world.core.release();
    first.read();
    // E909: somebody else has the ledger's lock.
    let locked = world.ledger.locked();
    codes.push(relay.at.code(&with_canary("")));
    drop(locked);
    // E906: purged.
    let done = with_canary("");
    assert_eq!(relay.at.code(&done), "0000");
    said(&mut world.routine_command(&["purge", "--days", "0", "--guid", &done.guid]));
    codes.push(relay.at.code(&done));
    codes
}

/// Runs it; neither of its outputs may hold a secret.
fn said(command: &mut Command) {
    let output = command.output().unwrap();
    check("stdout", &String::from_utf8(output.stdout).unwrap());
    check("stderr", &String::from_utf8(output.stderr).unwrap());
}

fn check(place: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in {place}: {text}");
    }
}
