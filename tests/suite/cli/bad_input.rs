//! Bad input gets one clear line, the right exit code, and changes nothing.

use std::net::TcpListener;

use rusqlite::Connection;

use super::program::{LedgerFile, run, text};

const CORE: &str = "http://127.0.0.1:9";

#[test]
fn an_unknown_option_is_named() {
    run(&["--serve", "--frobnicate"]).failed(2, &["--frobnicate"]);
    run(&["list", "--db", "x", "--frobnicate"]).failed(2, &["--frobnicate"]);
}

#[test]
fn nothing_asked_for_is_answered_with_the_way_to_help() {
    run(&[]).failed(2, &["oncegate --help"]);
    run(&["frobnicate"]).failed(2, &["frobnicate"]);
}

#[test]
fn a_bad_value_names_its_option() {
    for (option, value) in [
        ("--listen", "nowhere"),
        ("--listen", "127.0.0.1:99999"),
        ("--http", ":80"),
        ("--admin", "9103"),
        ("--core", "core:9201"),
        ("--core", "ftp://core/"),
        ("--connect-timeout", "0"),
        ("--read-timeout", "0.0"),
        ("--read-timeout", "3s"),
        ("--idle-timeout", "0"),
        ("--orphan-after", "-1"),
        ("--max-in-flight", "0"),
        ("--max-connections", "many"),
        ("--log-format", "xml"),
    ] {
        // With `=`, so that a value that begins with a dash is a value.
        run(&["--serve", "--db", "x", &format!("{option}={value}")]).failed(2, &[option]);
    }
}

#[test]
fn serve_says_what_it_needs() {
    run(&["--serve", "--core", CORE]).failed(2, &["--db"]);
    run(&["--serve", "--db", "x"]).failed(2, &["--core"]);
    run(&["--serve", "--db", "x", "--core", CORE, "--listen", "off"]).failed(2, &["--listen off"]);
    run(&["--serve", "--db", "x", "--core", CORE, "--orphan-after", "2"])
        .failed(2, &["--orphan-after 2", "4 s"]);
}

#[test]
fn the_routines_check_their_values() {
    let db = LedgerFile::new().path();
    run(&["purge", "--db", &db, "--days=-1"]).failed(2, &["--days"]);
    run(&["purge", "--db", &db]).failed(2, &["--days"]);
    run(&["reprocess", "--db", &db, "--core", CORE, "--max-attempts", "0"])
        .failed(2, &["--max-attempts"]);
    run(&["resolve", "--db", &db, "--core", CORE, "--min-age", "soon"]).failed(2, &["--min-age"]);
    run(&["resolve", "--db", &db, "--core", CORE, "--guid", "a b"]).failed(2, &["--guid a b"]);
    run(&["resolve", "--db", &db]).failed(2, &["--core"]);
}

#[test]
fn looking_checks_its_values() {
    let db = LedgerFile::new().path();
    run(&["list", "--db", &db, "--state", "DONNE"]).failed(2, &["--state", "DONNE", "UNKNOWN"]);
    run(&["list", "--db", &db, "--limit", "0"]).failed(2, &["--limit"]);
    run(&["list", "--db", &db, "--older-than", "old"]).failed(2, &["--older-than"]);
    run(&["list", "--db", &db, "--json", "--csv"]).failed(2, &["--json", "--csv"]);
    run(&["show", "--db", &db]).failed(2, &["GUID"]);
    run(&["show", "G", "--db", &db, "--raw", "both"]).failed(2, &["--raw", "request"]);
    run(&["list"]).failed(2, &["--db"]);
}

#[test]
fn sending_checks_its_values() {
    let full = ["--from", "1", "--to-acct", "2", "--amount", "5"];
    let send = |more: &[&str]| run(&[&["send"], &full[..], more].concat());
    send(&["--to", "nowhere"]).failed(2, &["--to"]);
    send(&["--to", "https://127.0.0.1/telegram"]).failed(2, &["--to"]);
    send(&["--to", "off"]).failed(2, &["--to"]);
    send(&["--to", "127.0.0.1:9", "--timeout", "0"]).failed(2, &["--timeout"]);
    send(&["--to", "127.0.0.1:9", "--tx", "NOPE"]).failed(2, &["NOPE"]);
    send(&["--to", "127.0.0.1:9", "--field", "color=red"]).failed(2, &["color"]);
    send(&["--to", "127.0.0.1:9", "--field", "memo"]).failed(2, &["--field"]);
    send(&["--to", "127.0.0.1:9", "--memo", "a memo that is too long for it"])
        .failed(2, &["memo", "20"]);
    send(&["--to", "127.0.0.1:9", "--memo", "\u{1f600}"]).failed(2, &["memo"]);
    send(&["--to", "127.0.0.1:9", "--raw", "x"]).failed(2, &["--raw"]);
    run(&["send", "--to", "127.0.0.1:9", "--raw", "/nowhere/x.bin"]).failed(2, &["/nowhere/x.bin"]);
    run(&["send", "--to", "127.0.0.1:9", "--from", "1"]).failed(2, &["--amount", "--to-acct"]);
}

#[test]
fn a_missing_ledger_is_said_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    let db = text(&path);
    for args in [
        &["list", "--db", &db][..],
        &["show", "G", "--db", &db],
        &["counts", "--db", &db],
        &["resolve", "--db", &db, "--core", CORE],
        &["reprocess", "--db", &db, "--core", CORE],
        &["purge", "--db", &db, "--days", "1"],
        &["purge", "--db", &db, "--days", "1", "--dry-run"],
    ] {
        run(args).failed(1, &["no ledger at", &db]);
    }
    let serve = ["--serve", "--db", &db, "--core", CORE, "--listen=127.0.0.1:0", "--admin=off"];
    let ran = run(&[&serve[..], &["--must-exist"]].concat());
    ran.failed(1, &["no ledger at", &db]);
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_ledger_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(path("text"), "these are not the rows you are looking for\n".repeat(99))
        .unwrap();
    let other = Connection::open(path("other")).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    let half = Connection::open(path("half")).unwrap();
    half.execute_batch("CREATE TABLE tx (guid TEXT PRIMARY KEY, state TEXT)").unwrap();
    drop((other, half));
    std::fs::create_dir(path("folder")).unwrap();
    for (name, why) in [
        ("empty", "empty"),
        ("text", "no SQLite database"),
        ("other", "no table tx"),
        ("half", "no column"),
        ("folder", "no file"),
    ] {
        let before = std::fs::read(path(name)).ok();
        let db = text(&path(name));
        let serve = ["--serve", "--db", &db, "--core", CORE, "--listen=127.0.0.1:0", "--admin=off"];
        for args in [
            &["list", "--db", &db][..],
            &["counts", "--db", &db],
            &["resolve", "--db", &db, "--core", CORE],
            &["purge", "--db", &db, "--days", "1"],
            &serve,
        ] {
            run(args).failed(1, &["is no ledger", why]);
        }
        assert_eq!(std::fs::read(path(name)).ok(), before, "{name}");
    }
}

#[test]
fn a_relay_on_a_port_that_is_taken_says_so_and_touches_no_ledger() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let db = text(&path);
    run(&["--serve", "--db", &db, "--core", CORE, "--listen", &at, "--admin", "off"])
        .failed(1, &["can't listen on", &at, "--listen"]);
    assert!(!path.exists());
    run(&["core", "--listen", &at]).failed(1, &["can't listen on", &at]);
}

#[test]
fn a_routine_says_that_another_program_holds_the_write_lock() {
    let ledger = LedgerFile::new();
    let holder = Connection::open(ledger.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    run(&["purge", "--db", &ledger.path(), "--days", "1"]).failed(1, &["locked"]);
    run(&["counts", "--db", &ledger.path()]).printed(0);
}

#[test]
fn a_layout_that_does_not_add_up_is_refused_with_both_sums() {
    let ledger = LedgerFile::new();
    let std128 = include_str!("../../../assets/layouts/std128.toml");
    let wrong = ledger.write("wrong.toml", &std128.replace("length = 80", "length = 81"));
    for args in [
        &["list", "--db", &ledger.path(), "--layout", &wrong][..],
        &["--serve", "--db", &ledger.path(), "--core", CORE, "--layout", &wrong],
        &["send", "--to", "127.0.0.1:9", "--field", "memo=x", "--layout", &wrong],
    ] {
        run(args).failed(2, &["--layout", "80", "81"]);
    }
    run(&["list", "--db", &ledger.path(), "--layout", "/nowhere.toml"])
        .failed(2, &["--layout", "/nowhere.toml"]);
}
