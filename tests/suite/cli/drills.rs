//! `core`, `send` and `demo`, and the help of every command.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

use super::program::{LedgerFile, Ran, Running, run};

/// A core and a relay before it.
struct Site {
    core: Running,
    relay: Running,
    ledger: LedgerFile,
}

impl Site {
    fn start() -> Site {
        Site::start_with(&[])
    }

    fn start_with(more: &[&str]) -> Site {
        let core = Running::start(&["core", "--listen", "127.0.0.1:0", "--slow", "3"]);
        let ledger = LedgerFile::new();
        let (db, url) = (ledger.path(), format!("http://{}", core.address("http")));
        let fixed = ["--serve", "--db", &db, "--core", &url, "--listen", "127.0.0.1:0"];
        let fronts = ["--http", "127.0.0.1:0", "--admin", "off", "--read-timeout", "1"];
        let relay = Running::start(&[&fixed[..], &fronts, more].concat());
        Site { core, relay, ledger }
    }

    fn send(&self, more: &[&str]) -> Ran {
        let to = self.relay.address("tcp");
        let fixed = ["send", "--to", &to, "--from", "110123456789", "--to-acct", "302"];
        run(&[&fixed[..], &["--amount", "5000"], more].concat())
    }

    fn stats(&self) -> serde_json::Value {
        let mut stream = std::net::TcpStream::connect(self.core.address("http")).unwrap();
        std::io::Write::write_all(
            &mut stream,
            b"GET /_stats HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }
}

#[test]
fn a_transfer_is_sent_and_a_resend_gets_the_same_reply_without_a_second_call() {
    let site = Site::start();
    let guid = "20260928MOBAP00100000000000001";
    let first = site.send(&["--guid", guid, "--memo", "월세 3월분"]);
    let lines: Vec<&str> = first.printed(0).lines().collect();
    assert!(lines[0].ends_with(&format!("guid {guid}")), "{lines:?}");
    assert_eq!(lines[1], "reply 0000 done, 173 bytes");
    assert!(
        first.out.contains("  resp_code   0000\n") && first.out.contains("\n  0000  30 30 30 30")
    );
    let again = site.send(&["--guid", guid, "--memo", "월세 3월분"]);
    let reply = |ran: &Ran| ran.out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((again.code, reply(&again)), (0, reply(&first)));
    let other = site.send(&["--guid", guid, "--memo", "something else"]);
    assert!(other.printed(3).contains("reply E904 same GUID, other content"), "{other:?}");
    assert_eq!(site.stats()["by_guid"][guid], 1);
}

#[test]
fn a_code_other_than_0000_exits_3() {
    let site = Site::start();
    assert!(site.send(&["--memo", "REJECT"]).printed(3).contains("reply C051 refused by the core"));
    let unknown = site.send(&["--memo", "RESET"]);
    assert!(unknown.printed(3).contains("reply E901 outcome unknown"), "{unknown:?}");
    let stuck = run(&["list", "--db", &site.ledger.path(), "--fail-if-any"]);
    assert!(stuck.printed(3).contains("connection reset"), "{stuck:?}");
}

#[test]
fn a_new_guid_is_made_each_time() {
    let site = Site::start();
    let guid =
        |ran: &Ran| ran.printed(0).lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let (first, second) = (guid(&site.send(&[])), guid(&site.send(&[])));
    assert!(first != second && first.len() == 30 && first.contains("ONCEGATE"), "{first} {second}");
}

#[test]
fn the_http_front_takes_the_bytes_of_a_file() {
    let site = Site::start();
    let to = format!("http://{}/telegram", site.relay.address("http"));
    let vector = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/req_euckr.bin");
    let ran = run(&["send", "--to", &to, "--raw", vector]);
    assert!(ran.printed(0).contains("reply 0000 done"), "{ran:?}");
    let junk = site.ledger.write("junk.bin", "junk");
    run_refused(&["send", "--to", &to, "--raw", &junk], &["HTTP 400"]);
    let wrong = to.replace("/telegram", "/elsewhere");
    run_refused(&["send", "--to", &wrong, "--raw", vector], &["HTTP 404"]);
}

#[test]
fn a_layout_of_another_bank_is_sent_by_its_field_names() {
    let layout = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layouts/a_firm_banking.toml");
    run(&["send", "--to", "127.0.0.1:9", "--layout", layout, "--guid", "G", "--field", "a=b"])
        .failed(2, &["--guid", "several fields"]);
    run(&["send", "--to", "127.0.0.1:9", "--layout", layout, "--field", "nope=b"])
        .failed(2, &["nope"]);
}

#[test]
fn without_a_relay_nothing_was_sent() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    run_refused(&send_to(&free), &["nothing was sent", &free]);
}

#[test]
fn without_an_answer_the_outcome_is_unknown_and_the_same_guid_is_to_be_sent_again() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let words = ["no answer", "outcome is unknown", "same GUID"];
    run_refused(&[&send_to(&at)[..], &["--timeout", "0.2"]].concat(), &words);
    let http = format!("http://{at}/telegram");
    run_refused(&[&send_to(&http)[..], &["--timeout", "0.2"]].concat(), &words);
}

fn send_to(to: &str) -> [&str; 9] {
    ["send", "--to", to, "--from", "1", "--to-acct", "2", "--amount", "5"]
}

/// That it exits 1 after it has said what it sends, with one line on stderr that holds all of these.
#[track_caller]
fn run_refused(args: &[&str], words: &[&str]) {
    let ran = run(args);
    assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
    assert!(ran.out.starts_with("sending "), "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "no {word:?} in {ran:?}");
    }
}

#[test]
fn the_simulated_core_ends_by_a_signal_with_0() {
    let site = Site::start();
    assert_eq!(site.core.terminate(), Some(0));
    assert_eq!(site.relay.terminate(), Some(0));
}

#[test]
fn the_demo_moves_no_money_twice_and_settles_everything() {
    let ran = run(&["demo", "--headless"]);
    let out = ran.printed(0);
    for line in [
        "transfers asked for: 400 ",
        "telegrams sent: ",
        "resends stopped: ",
        "unknown -> settled: ",
        "not settled: 0\n",
        "money moved more than once: 0 ",
    ] {
        assert!(out.contains(line), "no {line:?} in {out}");
    }
    let ledger = out.lines().find_map(|line| line.strip_prefix("ledger: ")).unwrap();
    let counts = run(&["counts", "--db", ledger, "--json"]);
    assert!(counts.printed(0).contains(r#""DONE":{"rows":400,"#), "{counts:?}");
    std::fs::remove_dir_all(Path::new(ledger).parent().unwrap()).unwrap();
}

#[test]
fn every_help_has_examples_and_names_its_exit_codes() {
    for command in
        ["demo", "core", "send", "list", "show", "counts", "resolve", "reprocess", "purge"]
    {
        let ran = run(&[command, "--help"]);
        assert_eq!(ran.code, 0);
        for part in ["Examples:\n  oncegate", "Exit codes: 0"] {
            assert!(ran.out.contains(part), "no {part:?} in {command} --help");
        }
        let short = run(&["--help"]);
        assert!(short.printed(0).contains(&format!("  {command} ")), "{command}");
    }
    assert!(run(&["--version"]).printed(0).starts_with("oncegate 0."));
}
