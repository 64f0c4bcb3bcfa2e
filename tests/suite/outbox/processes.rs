//! Real processes that die with SIGKILL, at chosen places and anywhere; looked at through a connection of one's own.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::time::{Duration, Instant};

use oncegate::outbox::{
    HttpSender, OutboxError, Point, Receiver, Role, dispatch, enqueue, mark_sent, no_fault,
    open_existing,
};
use rusqlite::Connection;

use super::{Random, Stores, event, rows, rows_on, sink_rows, source_rows, texts};

const PATIENCE: Duration = Duration::from_secs(30);
const BIN: &str = env!("CARGO_BIN_EXE_oncegate");

/// A process of ours that is killed with its test.
pub(super) struct Running {
    pub(super) child: Child,
    lines: Lines<String>,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (line_in, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                if line.is_err() || line_in.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Running { child, lines }
    }

    /// The rest of the next line of its output that has this word in it.
    pub(super) fn line_after(&self, word: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            if let Some((_, rest)) = line.split_once(word) {
                return rest.to_owned();
            }
        }
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(sink: &Path) -> (Running, String) {
    let mut serve = Command::new(BIN);
    serve.args(["outbox", "serve", "--listen", "127.0.0.1:0", "--db"]).arg(sink);
    let running = Running::start(&mut serve);
    let url = format!("http://{}/events", running.line_after("ready http="));
    (running, url)
}

fn dispatcher(source: &Path, url: &str, more: &[&str]) -> Running {
    let mut dispatch = Command::new(BIN);
    dispatch.args(["outbox", "dispatch", "--timeout", "5", "--url", url, "--db"]).arg(source);
    Running::start(dispatch.args(more))
}

fn enqueue_all(stores: &Stores, ids: &[&str]) {
    let source = stores.open(Role::Source);
    for id in ids {
        enqueue(&source, &event(id, 7), &mut no_fault).unwrap();
    }
}

/// A new life: a receiver and a dispatcher of the real binary bring everything to its end.
fn recover(stores: &Stores, marked: &str) {
    let (_serve, url) = serve(&stores.sink);
    let mut dispatch = dispatcher(&stores.source, &url, &["--all"]);
    assert_eq!(dispatch.line_after(""), marked);
    assert!(dispatch.wait().success());
}

/// The process that the tests below kill: this test binary once more, in one of the roles of [`child`].
fn child_process(role: &str, stores: &Stores, hold_at: Point, url: &str) -> Running {
    Running::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "outbox::processes::child", "--ignored", "--nocapture"])
            .env("ONCEGATE_CHILD", role)
            .env("ONCEGATE_CHILD_DIR", stores.dir.path())
            .env("ONCEGATE_CHILD_HOLD", hold_at.as_str())
            .env("ONCEGATE_CHILD_URL", url),
    )
}

/// Says that it has come to a point, and stays there until it is killed.
fn hold(at: Point, point: Point) -> Result<(), OutboxError> {
    if at == point {
        println!("held at {point}");
        std::io::stdout().flush()?;
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

#[test]
#[ignore = "the child process of other tests"]
fn child() {
    let Ok(role) = std::env::var("ONCEGATE_CHILD") else { return };
    let variable = |name: &str| std::env::var(format!("ONCEGATE_CHILD_{name}")).unwrap();
    let dir = PathBuf::from(variable("DIR"));
    let hold_at = Point::ALL.into_iter().find(|point| point.as_str() == variable("HOLD")).unwrap();
    let source = || open_existing(&dir.join("source.db"), Role::Source).unwrap();
    match role.as_str() {
        "receiver" => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let fault = std::sync::Arc::new(move |point| hold(hold_at, point));
            let receiver =
                Receiver::start_with_fault(&dir.join("sink.db"), listener, fault).unwrap();
            println!("ready http={}", receiver.local_addr());
            loop {
                std::thread::park();
            }
        }
        "enqueuer" => {
            let mut fault = |point| hold(hold_at, point);
            enqueue(&source(), &event("cake", 7), &mut fault).unwrap();
        }
        "dispatcher" => {
            let sender = HttpSender::new(&variable("URL"), 5.0).unwrap();
            let mut fault = |point| hold(hold_at, point);
            dispatch(&source(), &mut |event| sender.send(&event), 8, &mut fault).unwrap();
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn a_publisher_killed_after_the_receiver_committed_sends_again_and_the_effect_is_once() {
    let stores = Stores::new();
    enqueue_all(&stores, &["cake"]);
    let (committed_in, committed) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let fault = std::sync::Arc::new(move |point| {
        if point == Point::AfterCommit {
            let _ = committed_in.send(());
            // The ACK never comes: this thread ends with the test.
            loop {
                std::thread::park();
            }
        }
        Ok(())
    });
    let receiver = Receiver::start_with_fault(&stores.sink, listener, fault).unwrap();
    let url = format!("http://{}/events", receiver.local_addr());
    let mut publisher = dispatcher(&stores.source, &url, &[]);
    committed.recv_timeout(PATIENCE).unwrap();
    publisher.kill();
    assert_eq!(source_rows(&stores.source).1, ["cake|7|0"]);
    assert_eq!(sink_rows(&stores.sink), (texts(&["cake|7"]), texts(&["1|7"])));
    recover(&stores, "1");
    assert_eq!(source_rows(&stores.source).1, ["cake|7|1"]);
    assert_eq!(sink_rows(&stores.sink), (texts(&["cake|7"]), texts(&["1|7"])));
}

#[test]
fn a_receiver_killed_before_or_after_its_commit_has_no_effect_or_all_of_it() {
    for (point, is_committed) in
        [(Point::AfterInbox, false), (Point::AfterTotal, false), (Point::AfterCommit, true)]
    {
        let stores = Stores::new();
        enqueue_all(&stores, &["cake", "pie"]);
        let mut receiver = child_process("receiver", &stores, point, "");
        let url = format!("http://{}/events", receiver.line_after("ready http="));
        let mut publisher = dispatcher(&stores.source, &url, &[]);
        receiver.line_after("held at ");
        receiver.kill();
        assert_eq!(publisher.wait().code(), Some(1));
        assert_eq!(source_rows(&stores.source).1, ["cake|7|0", "pie|7|0"]);
        let held = if is_committed { (vec!["cake|7"], "1|7") } else { (vec![], "1|0") };
        assert_eq!(sink_rows(&stores.sink), (texts(&held.0), texts(&[held.1])), "{point}");
        recover(&stores, "2");
        assert_eq!(source_rows(&stores.source).1, ["cake|7|1", "pie|7|1"]);
        assert_eq!(sink_rows(&stores.sink), (texts(&["cake|7", "pie|7"]), texts(&["1|14"])));
    }
}

#[test]
fn a_process_killed_while_it_saves_an_order_has_saved_both_rows_or_neither() {
    for (point, is_committed) in
        [(Point::AfterOrder, false), (Point::AfterOutbox, false), (Point::AfterCommit, true)]
    {
        let stores = Stores::new();
        enqueue_all(&stores, &[]);
        let mut enqueuer = child_process("enqueuer", &stores, point, "");
        enqueuer.line_after("held at ");
        enqueuer.kill();
        let want = if is_committed {
            (texts(&["cake|7"]), texts(&["cake|7|0"]))
        } else {
            (texts(&[]), texts(&[]))
        };
        assert_eq!(source_rows(&stores.source), want, "{point}");
        let again = enqueue(&stores.open(Role::Source), &event("cake", 7), &mut no_fault);
        assert_eq!(again.unwrap(), !is_committed);
    }
}

#[test]
fn a_dispatcher_killed_between_ack_and_mark_sends_again_and_the_effect_is_once() {
    let stores = Stores::new();
    enqueue_all(&stores, &["cake", "pie"]);
    let (_serve, url) = serve(&stores.sink);
    let mut publisher = child_process("dispatcher", &stores, Point::AfterDelivery, &url);
    publisher.line_after("held at ");
    publisher.kill();
    assert_eq!(source_rows(&stores.source).1, ["cake|7|0", "pie|7|0"]);
    assert_eq!(sink_rows(&stores.sink), (texts(&["cake|7"]), texts(&["1|7"])));
    recover(&stores, "2");
    assert_eq!(sink_rows(&stores.sink), (texts(&["cake|7", "pie|7"]), texts(&["1|14"])));
}

const EVENTS: i64 = 500;
const KILLS: i64 = 50;

/// The lives of a receiver and a dispatcher; a new one begins where one has ended.
struct Lives<'a> {
    stores: &'a Stores,
    receiver: Option<(Running, String)>,
    dispatcher: Option<Running>,
    limit: String,
}

impl Lives<'_> {
    fn begin(&mut self, random: &mut Random) {
        if self.receiver.as_mut().is_none_or(|(running, _)| running.has_ended()) {
            self.receiver = Some(serve(&self.stores.sink));
            // It knows the old address only.
            self.dispatcher = None;
        }
        if self.dispatcher.as_mut().is_none_or(Running::has_ended) {
            let (_, url) = self.receiver.as_ref().unwrap();
            self.limit = (1 + random.below(16)).to_string();
            let more = ["--all", "--limit", &self.limit];
            self.dispatcher = Some(dispatcher(&self.stores.source, url, &more));
        }
    }

    fn kill(&mut self, which: u64) {
        if which != 0 {
            self.dispatcher.as_mut().unwrap().kill();
        }
        if which != 1 {
            self.receiver.as_mut().unwrap().0.kill();
        }
    }
}

fn received(sink: &Connection) -> i64 {
    sink.query_row("SELECT count(*) FROM inbox", [], |row| row.get(0)).unwrap()
}

#[test]
fn after_50_random_kills_over_500_events_every_effect_is_there_once_and_in_order() {
    let mut random = Random::seeded("50 random kills");
    let stores = Stores::new();
    let source = stores.open(Role::Source);
    let mut total = 0;
    for n in 0..EVENTS {
        // Not in the order of their ids, and of different quantities.
        let event = event(&format!("{}-{n}", random.below(1000)), 1 + n % 10);
        total += event.qty;
        enqueue(&source, &event, &mut no_fault).unwrap();
    }
    let sink = stores.open(Role::Sink);
    let mut lives =
        Lives { stores: &stores, receiver: None, dispatcher: None, limit: String::new() };
    for kill in 1..=KILLS {
        lives.begin(&mut random);
        // Some progress since the last one, then a moment that no event decides.
        let wanted = kill * EVENTS / (KILLS + 1) - i64::try_from(random.below(5)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while received(&sink) < wanted {
            assert!(Instant::now() < deadline, "no progress at kill {kill}");
            std::thread::yield_now();
        }
        let moment = Instant::now() + Duration::from_micros(random.below(3000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        lives.kill(random.below(3));
        check_promises(&source, &sink);
    }
    lives.begin(&mut random);
    assert!(lives.dispatcher.as_mut().unwrap().wait().success());
    check_promises(&source, &sink);
    let ids = "SELECT id, qty FROM outbox ORDER BY seq";
    assert_eq!(
        rows(&stores.sink, "SELECT id, qty FROM inbox ORDER BY rowid"),
        rows_on(&source, ids)
    );
    assert_eq!(rows(&stores.sink, "SELECT total FROM stock"), [total.to_string()]);
    assert_eq!(rows(&stores.source, "SELECT count(*) FROM outbox WHERE sent = 0"), ["0"]);
    assert_eq!(rows(&stores.source, "SELECT count(*) FROM orders"), [EVENTS.to_string()]);
}

/// What holds at every moment, also between death and recovery.
fn check_promises(source: &Connection, sink: &Connection) {
    let marked = rows_on(source, "SELECT id FROM outbox WHERE sent = 1 ORDER BY seq");
    let inbox = rows_on(sink, "SELECT id FROM inbox ORDER BY rowid");
    assert!(marked.len() <= inbox.len(), "marked ahead of the effect");
    assert_eq!(marked, inbox[..marked.len()]);
    let sums = "SELECT (SELECT total FROM stock) - (SELECT COALESCE(SUM(qty), 0) FROM inbox)";
    assert_eq!(rows_on(sink, sums), ["0"]);
}

#[test]
fn two_processes_dispatch_one_source_and_each_effect_is_once() {
    let stores = Stores::new();
    let ids: Vec<String> = (0..80).map(|n| format!("e{n}")).collect();
    enqueue_all(&stores, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    let (_serve, url) = serve(&stores.sink);
    let mut both = [(); 2].map(|()| dispatcher(&stores.source, &url, &["--all", "--limit", "3"]));
    let marked: Vec<usize> = both.iter().map(|one| one.line_after("").parse().unwrap()).collect();
    assert!(both.iter_mut().all(|one| one.wait().success()));
    assert_eq!(marked.iter().sum::<usize>(), 80);
    assert_eq!(rows(&stores.sink, "SELECT count(*), sum(qty) FROM inbox"), ["80|560"]);
    assert_eq!(rows(&stores.sink, "SELECT total FROM stock"), ["560"]);
    let source = stores.open(Role::Source);
    assert!(!mark_sent(&source, &event("e79", 7)).unwrap());
}
