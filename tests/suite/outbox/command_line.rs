//! `oncegate outbox …` as a user calls it: lines, exit codes, signals, closed pipes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use oncegate::outbox::{Receiver, Role, no_fault, receive};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::processes::Running;
use super::{Stores, event, rows, sink_rows, source_rows, texts};

fn oncegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.arg("outbox");
    command
}

fn run(subcommand: &str, db: &Path, more: &[&str]) -> Output {
    oncegate().arg(subcommand).arg("--db").arg(db).args(more).stdin(Stdio::null()).output().unwrap()
}

fn run_with_stdin(db: &Path, stdin: &[u8]) -> Output {
    let mut child = oncegate()
        .args(["receive", "--db"])
        .arg(db)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have read enough before all is written.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// Exit code and stdout; what stands on stderr is one line, or none after a success.
fn outcome(output: &Output) -> (i32, String) {
    let lines = String::from_utf8_lossy(&output.stderr).lines().count();
    assert_eq!(lines, usize::from(!output.status.success()), "{output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout.clone()).unwrap())
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn enqueue_pending_and_status_say_what_is_there() {
    let stores = Stores::new();
    let source = &stores.source;
    let enqueue =
        |id: &str, qty: &str| outcome(&run("enqueue", source, &["--id", id, "--qty", qty]));
    assert_eq!(enqueue("-z", "3"), (0, "queued\n".to_owned()));
    assert_eq!(enqueue("-z", "3"), (0, "already queued\n".to_owned()));
    assert_eq!(enqueue("-z", "4"), (1, String::new()));
    assert_eq!(enqueue("a", "1000"), (0, "queued\n".to_owned()));
    assert_eq!(
        outcome(&run("pending", source, &[])),
        (0, "{\"id\":\"-z\",\"qty\":3}\n{\"id\":\"a\",\"qty\":1000}\n".to_owned())
    );
    assert_eq!(
        outcome(&run("pending", source, &["--limit", "1"])),
        (0, "{\"id\":\"-z\",\"qty\":3}\n".to_owned())
    );
    assert_eq!(
        outcome(&run("status", source, &[])),
        (0, "source: 2 orders, 2 pending, oldest seq 1\n".to_owned())
    );
    assert_eq!(
        outcome(&run("status", source, &["--json"])).1,
        "{\"role\":\"source\",\"orders\":2,\"pending\":2,\"oldest_seq\":1}\n"
    );
}

#[test]
fn receive_says_applied_or_duplicate_and_reads_one_short_event() {
    let stores = Stores::new();
    let receive = |text: &[u8]| outcome(&run_with_stdin(&stores.sink, text));
    for bad in [b"".as_slice(), b"[]", b"{\"id\":\"a\",\"qty\":3,\"qty\":3}", &[b' '; 5000]] {
        assert_eq!(receive(bad), (2, String::new()));
        assert!(!stores.sink.exists(), "a value error creates no store");
    }
    assert_eq!(receive(b"{\"id\":\"a\",\"qty\":3}"), (0, "applied\n".to_owned()));
    assert_eq!(receive(b"{\"id\":\"a\",\"qty\":3}\n"), (0, "duplicate\n".to_owned()));
    assert_eq!(receive(b"{\"id\":\"a\",\"qty\":4}"), (1, String::new()));
    assert_eq!(
        outcome(&run("status", &stores.sink, &[])).1,
        "sink: 1 received, stock 3\n".to_owned()
    );
    assert_eq!(
        outcome(&run("status", &stores.sink, &["--json"])).1,
        "{\"role\":\"sink\",\"received\":1,\"stock\":3}\n"
    );
}

#[test]
fn a_value_outside_the_contract_exits_2_before_the_store_is_opened() {
    let stores = Stores::new();
    let source = &stores.source;
    let url = "http://127.0.0.1:9/events";
    for (subcommand, more) in [
        ("enqueue", vec!["--id", "a b", "--qty", "1"]),
        ("enqueue", vec!["--id", "a", "--qty", "-1"]),
        ("enqueue", vec!["--id", "a", "--qty", "1.0"]),
        ("pending", vec!["--limit", "0"]),
        ("pending", vec!["--limit", "-1"]),
        ("pending", vec!["--limit", "17"]),
        ("dispatch", vec!["--url", "http://localhost:9/events"]),
        ("dispatch", vec!["--url", url, "--timeout", "nan"]),
        ("dispatch", vec!["--url", url, "--timeout", "-1"]),
        ("dispatch", vec!["--url", url, "--timeout", "1e400"]),
        ("dispatch", vec!["--url", url, "--limit", "x"]),
        ("serve", vec!["--listen", "0.0.0.0:0"]),
        ("serve", vec!["--listen", "127.0.0.1"]),
        ("serve", vec!["--listen", "[::1]:0"]),
    ] {
        let output = run(subcommand, source, &more);
        assert_eq!(outcome(&output), (2, String::new()), "{subcommand} {more:?}");
    }
    assert!(!source.exists());
    for more in [vec![], vec!["--id", "a"], vec!["--id", "a", "--qty", "1", "--what"]] {
        assert_eq!(run("enqueue", source, &more).status.code(), Some(2));
    }
}

#[test]
fn a_failed_dispatch_names_the_event_and_the_reason_and_marks_nothing() {
    let stores = Stores::new();
    run("enqueue", &stores.source, &["--id", "cake", "--qty", "7"]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/events");
    for more in [vec!["--url", &url], vec!["--url", &url, "--all"]] {
        let output = run("dispatch", &stores.source, &more);
        assert_eq!(outcome(&output), (1, "0\n".to_owned()));
        let line = stderr(&output);
        assert!(line.contains("`cake`") && line.contains("refused"), "{line}");
    }
    assert_eq!(source_rows(&stores.source).1, ["cake|7|0"]);
}

/// A receiver on the sink of `stores`, and its address.
fn receiver(stores: &Stores) -> (Receiver, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = Receiver::start(&stores.sink, listener).unwrap();
    let url = format!("http://{}/events", receiver.local_addr());
    (receiver, url)
}

#[test]
fn a_refused_event_is_named_with_the_reason_and_what_went_before_it_is_marked() {
    let stores = Stores::new();
    receive(&stores.open(Role::Sink), &event("pie", 3), &mut no_fault).unwrap();
    let (_receiver, url) = receiver(&stores);
    for (id, qty) in [("cake", "7"), ("pie", "4"), ("tart", "1")] {
        run("enqueue", &stores.source, &["--id", id, "--qty", qty]);
    }
    for marked in ["1\n", "0\n"] {
        let output = run("dispatch", &stores.source, &["--url", &url, "--all"]);
        assert_eq!(outcome(&output), (1, marked.to_owned()));
        let line = stderr(&output);
        assert!(line.contains("`pie`") && line.contains("409"), "{line}");
        assert_eq!(source_rows(&stores.source).1, ["cake|7|1", "pie|4|0", "tart|1|0"]);
    }
    assert_eq!(sink_rows(&stores.sink), (texts(&["pie|3", "cake|7"]), texts(&["1|10"])));
}

#[test]
fn proxy_variables_of_the_environment_are_ignored() {
    let stores = Stores::new();
    let (_receiver, url) = receiver(&stores);
    run("enqueue", &stores.source, &["--id", "a", "--qty", "1"]);
    let mut dispatch = oncegate();
    for name in ["http_proxy", "all_proxy"] {
        dispatch.env(name, "http://127.0.0.1:9").env(name.to_uppercase(), "http://127.0.0.1:9");
    }
    dispatch.args(["dispatch", "--url", &url, "--db"]).arg(&stores.source);
    assert_eq!(outcome(&dispatch.output().unwrap()), (0, "1\n".to_owned()));
}

#[test]
fn a_dispatch_of_all_shows_its_progress_on_a_terminal() {
    let stores = Stores::new();
    let (_receiver, url) = receiver(&stores);
    for id in ["a", "b", "c"] {
        run("enqueue", &stores.source, &["--id", id, "--qty", "1"]);
    }
    let size = PtySize { rows: 24, cols: 100, pixel_width: 0, pixel_height: 0 };
    let terminal = native_pty_system().openpty(size).unwrap();
    let mut dispatch = CommandBuilder::new(env!("CARGO_BIN_EXE_oncegate"));
    dispatch.args(["outbox", "dispatch", "--all", "--url", &url, "--db"]);
    dispatch.arg(&stores.source);
    dispatch.env("TERM", "xterm-256color");
    let mut child = terminal.slave.spawn_command(dispatch).unwrap();
    drop(terminal.slave);
    let mut bytes = Vec::new();
    // A terminal whose last program has ended reads as an error.
    let _ = terminal.master.try_clone_reader().unwrap().read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&bytes);
    assert!(shown.contains("/3 sent"), "{shown:?}");
    let mut screen = vt100::Parser::new(24, 100, 0);
    screen.process(&bytes);
    assert_eq!(screen.screen().contents().trim(), "3", "the bar is gone, the number stays");
}

#[test]
fn only_who_writes_makes_a_store() {
    let stores = Stores::new();
    for (subcommand, more) in [
        ("pending", vec![]),
        ("status", vec![]),
        ("dispatch", vec!["--url", "http://127.0.0.1:9/events"]),
    ] {
        assert_eq!(outcome(&run(subcommand, &stores.source, &more)).0, 1, "{subcommand}");
        assert!(!stores.source.exists());
    }
}

#[test]
fn the_receiver_stops_cleanly_on_a_signal() {
    for signal in ["TERM", "INT"] {
        let stores = Stores::new();
        let mut serve = Running::start(
            oncegate().args(["serve", "--listen", "127.0.0.1:0", "--db"]).arg(&stores.sink),
        );
        let at = serve.line_after("ready http=");
        let mut idle = std::net::TcpStream::connect(&at).unwrap();
        let pid = serve.child.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success()
        );
        assert_eq!(serve.wait().code(), Some(0));
        assert!(matches!(idle.read(&mut [0]), Ok(0) | Err(_)));
        assert_eq!(sink_rows(&stores.sink), (texts(&[]), texts(&["1|0"])));
    }
}

#[test]
fn a_listen_address_that_is_taken_is_a_failure() {
    let stores = Stores::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let output = run("serve", &stores.sink, &["--listen", &listen]);
    assert_eq!(outcome(&output), (1, String::new()));
    assert!(stderr(&output).contains(&listen));
}

#[test]
fn a_closed_stdout_is_no_error() {
    let stores = Stores::new();
    for id in ["a", "b"] {
        run("enqueue", &stores.source, &["--id", id, "--qty", "1"]);
    }
    let script = "\"$0\" outbox pending --db \"$1\" | true; echo ${PIPESTATUS[0]}";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_oncegate")])
        .arg(&stores.source)
        .output()
        .unwrap();
    assert_eq!((stderr(&output), output.stdout), (String::new(), b"0\n".to_vec()));
}

#[test]
fn a_receiver_out_of_files_pauses_and_serves_again() {
    let stores = Stores::new();
    let script = "ulimit -n 20; exec \"$0\" outbox serve --listen 127.0.0.1:0 --db \"$1\"";
    let serve = Running::start(
        Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_oncegate")]).arg(&stores.sink),
    );
    let at = serve.line_after("ready http=");
    // More than it has files for: some stay in the kernel's queue.
    let crowd: Vec<_> = (0..30).map(|_| std::net::TcpStream::connect(&at).unwrap()).collect();
    drop(crowd);
    run("enqueue", &stores.source, &["--id", "a", "--qty", "1"]);
    let url = format!("http://{at}/events");
    let output = run("dispatch", &stores.source, &["--url", &url, "--timeout", "5"]);
    assert_eq!(outcome(&output), (0, "1\n".to_owned()));
    assert_eq!(rows(&stores.sink, "SELECT total FROM stock"), ["1"]);
}

#[test]
fn every_subcommand_explains_itself() {
    for subcommand in ["enqueue", "pending", "dispatch", "receive", "serve", "status"] {
        let output = oncegate().args([subcommand, "--help"]).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("--db <FILE>"), "{text}");
    }
}
