//! The configuration file and the environment.

use std::ffi::OsStr;

use super::program::{LedgerFile, Put, run, run_with};

#[test]
fn a_file_gives_values_of_options() {
    let ledger = LedgerFile::with(&[Put::new("G1", "FAILED", 60)]);
    let file = ledger.write("relay.toml", &format!("db = {:?}\nlimit = 5\n", ledger.path()));
    assert!(run(&["list", "--config", &file]).printed(0).contains("G1"));
    assert!(run(&["list", &format!("--config={file}")]).printed(0).contains("G1"));
    let env = [("ONCEGATE_CONFIG", OsStr::new(&file))];
    assert!(run_with(&["list"], &env).printed(0).contains("G1"));
}

#[test]
fn the_line_wins_over_the_environment_and_that_over_the_file() {
    let ledger = LedgerFile::new();
    let file = ledger.write("relay.toml", "layout = \"/by-file.toml\"\n");
    let db = ledger.path();
    let list = ["list", "--db", &db, "--config", &file];
    let env = [("ONCEGATE_LAYOUT", OsStr::new("/by-environment.toml"))];
    run(&list).failed(2, &["/by-file.toml"]);
    run_with(&list, &env).failed(2, &["/by-environment.toml"]);
    run_with(&[&list[..], &["--layout", "/by-line.toml"]].concat(), &env)
        .failed(2, &["/by-line.toml"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let ledger = LedgerFile::new();
    let file = ledger.write("relay.toml", "# ours\nread-timeout = 3\n\nread_timeout = 4\n");
    run(&["counts", "--db", &ledger.path(), "--config", &file])
        .failed(2, &[&file, "line 4", "read_timeout"]);
    for key in
        ["config = \"x\"", "guid = \"x\"", "reveal = true", "serve = true", "headless = true"]
    {
        let file = ledger.write("relay.toml", key);
        let name = key.split(' ').next().unwrap();
        run(&["counts", "--db", &ledger.path(), "--config", &file]).failed(2, &["line 1", name]);
    }
}

#[test]
fn a_bad_value_in_a_file_names_the_option() {
    let ledger = LedgerFile::new();
    for (text, words) in [
        ("read-timeout = \"soon\"", &["--read-timeout", "soon"][..]),
        ("connect-timeout = 0", &["--connect-timeout"]),
        ("max-attempts = 0", &["--max-attempts"]),
        ("read-timeout = [1]\nread-timeout = [2]", &["read-timeout", "duplicate"]),
        ("must-exist = \"perhaps\"", &["line 1", "must-exist", "true or false"]),
        ("read-timeout = true", &["line 1", "read-timeout", "takes a value"]),
        ("[read-timeout]\na = 1", &["line 1", "read-timeout"]),
        ("db = ", &["relay.toml"]),
    ] {
        let file = ledger.write("relay.toml", text);
        let core = "http://127.0.0.1:9";
        run(&["reprocess", "--db", &ledger.path(), "--core", core, "--config", &file])
            .failed(2, words);
    }
}

#[test]
fn a_missing_file_is_said() {
    let ledger = LedgerFile::new();
    run(&["counts", "--db", &ledger.path(), "--config", "/nowhere.toml"])
        .failed(2, &["--config", "/nowhere.toml"]);
}

#[test]
fn an_unknown_variable_is_ignored_and_a_bad_value_in_a_known_one_is_not() {
    let ledger = LedgerFile::new();
    let db = ledger.path();
    let unknown = [("ONCEGATE_FROBNICATE", OsStr::new("1"))];
    assert!(run_with(&["counts", "--db", &db], &unknown).printed(0).contains("UNKNOWN"));
    let bad = [("ONCEGATE_MAX_ATTEMPTS", OsStr::new("0"))];
    run_with(&["reprocess", "--db", &db, "--core", "http://127.0.0.1:9"], &bad)
        .failed(2, &["--max-attempts"]);
}

#[test]
fn the_simulated_core_takes_no_ledger_from_the_relays_file() {
    let ledger = LedgerFile::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let file = ledger.write("relay.toml", &format!("db = {:?}\n", ledger.path()));
    let before = std::fs::read(ledger.file()).unwrap();
    let env = [("ONCEGATE_CONFIG", OsStr::new(&file)), ("ONCEGATE_DB", OsStr::new(&file))];
    let ran = run_with(&["core", "--listen", &at], &env);
    ran.failed(1, &["can't listen"]);
    assert_eq!(std::fs::read(ledger.file()).unwrap(), before);
}
