//! The lives that are cut: each command of the program with a script, the harm in it, and what has to be true afterwards.

use std::path::Path;
use std::process::{Command, Stdio};

use oncegate::outbox::{Event, Role, enqueue, no_fault, open_store};
use rusqlite::Connection;

use super::stage::{Before, Running, Stage};
use crate::support::channel::{Channel, Telegram};
use crate::support::relays::{program, program_under};

/// What is run under the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The relay, on a ledger that is not there yet.
    NewRelay,
    /// The relay, on a ledger that others have left.
    Relay,
    Resolve,
    Reprocess,
    Purge,
    Enqueue,
    Dispatch,
    Receiver,
}

impl Life {
    pub const ALL: [Life; 8] = [
        Life::NewRelay,
        Life::Relay,
        Life::Resolve,
        Life::Reprocess,
        Life::Purge,
        Life::Enqueue,
        Life::Dispatch,
        Life::Receiver,
    ];

    /// Lives it under `tool`, then without, and checks.
    pub fn live(self, stage: &mut Stage<'_>, tool: &[String]) {
        match self {
            Life::NewRelay | Life::Relay | Life::Resolve | Life::Reprocess | Life::Purge => {
                self.prepare(stage);
                self.meet(stage, tool);
                stage.core.wait_until_quiet();
                if stage.ledger.path().exists() && !stage.telegrams.is_empty() {
                    stage.check_told();
                }
                self.again(stage);
                stage.recover();
                stage.check();
            }
            Life::Enqueue => enqueued(stage, tool),
            Life::Dispatch => dispatched(stage, tool),
            Life::Receiver => received(stage, tool),
        }
    }

    fn prepare(self, stage: &mut Stage<'_>) {
        let rows: &[(&str, Before)] = match self {
            Life::Relay => &[
                ("", Before::Sent),
                ("", Before::Failed),
                ("", Before::Unknown { posted: true }),
                ("", Before::Done),
            ],
            Life::Resolve => &[
                ("", Before::Unknown { posted: true }),
                ("", Before::Unknown { posted: false }),
                ("", Before::Unknown { posted: true }),
                ("REJECT", Before::Unknown { posted: false }),
            ],
            Life::Reprocess => &[
                ("", Before::Failed),
                ("RESET", Before::Failed),
                ("REJECT", Before::Failed),
                ("HALF", Before::Failed),
                ("", Before::Failed),
            ],
            Life::Purge => &[
                ("", Before::Done),
                ("", Before::Done),
                ("", Before::Unknown { posted: true }),
                ("", Before::Done),
            ],
            Life::NewRelay | Life::Enqueue | Life::Dispatch | Life::Receiver => &[],
        };
        for (memo, before) in rows {
            stage.put(memo, before);
        }
    }

    /// The life itself, with the harm in it.
    fn meet(self, stage: &mut Stage<'_>, tool: &[String]) {
        match self {
            Life::NewRelay => relayed(stage, tool, &["", "RESET"]),
            Life::Relay => relayed(stage, tool, &["", "RESET", "REJECT", "HALF", "FIN", "CREATED"]),
            Life::Resolve => run(stage.routine(tool, &["resolve"])),
            Life::Reprocess => run(stage.routine(tool, &["reprocess"])),
            Life::Purge => run(stage.routine(tool, &["purge", "--days", "1"])),
            Life::Enqueue | Life::Dispatch | Life::Receiver => unreachable!("no ledger's life"),
        }
    }

    /// What its operator does next: the same again.
    fn again(self, stage: &mut Stage<'_>) {
        match self {
            Life::Resolve | Life::Reprocess | Life::Purge => {
                self.meet(stage, &[]);
                stage.core.wait_until_quiet();
            }
            Life::NewRelay | Life::Relay | Life::Enqueue | Life::Dispatch | Life::Receiver => {}
        }
    }
}

fn run(mut command: Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it runs");
}

/// Channels send what was there before and new transfers, some twice, one with other content, until the relay is dead.
fn relayed(stage: &mut Stage<'_>, tool: &[String], memos: &[&str]) {
    stage.telegrams.extend(memos.iter().map(|memo| Telegram::new(memo)));
    let running = Running::start(stage.relay(tool));
    if let Some(address) = running.address() {
        let telegrams = stage.telegrams.clone();
        let mut script: Vec<Telegram> = telegrams.clone();
        script.extend(telegrams.iter().map(Telegram::resent));
        script.push(telegrams[0].other_content());
        let mut channel = Channel::connect(address).ok();
        for telegram in script {
            // The connection dies with the relay: there is nobody to connect to again.
            channel = channel.and_then(|mut open| stage.send(&mut open, &telegram).map(|_| open));
        }
    }
    running.end();
}

fn outbox(tool: &[String], arguments: &[&str], db: &Path) -> Command {
    let mut command = if tool.is_empty() { program() } else { program_under(tool) };
    command.arg("outbox").args(arguments).arg("--db").arg(db);
    command
}

const EVENTS: [(&str, i64); 5] = [("e", 1), ("a", 20), ("d", 300), ("b", 4), ("c", 50)];

fn enqueued(stage: &Stage<'_>, tool: &[String]) {
    let source = stage.file("source.db");
    let one = ["enqueue", "--id", EVENTS[0].0, "--qty", "1"];
    run(outbox(tool, &one, &source));
    run(outbox(&[], &one, &source));
    delivered(stage);
}

fn dispatched(stage: &Stage<'_>, tool: &[String]) {
    enqueue_all(stage);
    let receiver = receiver(stage, &[]);
    let url = url(&receiver).expect("a receiver");
    run(outbox(
        tool,
        &["dispatch", "--all", "--limit", "2", "--url", &url],
        &stage.file("source.db"),
    ));
    receiver.end();
    delivered(stage);
}

fn received(stage: &Stage<'_>, tool: &[String]) {
    enqueue_all(stage);
    let receiver = receiver(stage, tool);
    if let Some(url) = url(&receiver) {
        run(outbox(&[], &["dispatch", "--limit", "4", "--url", &url], &stage.file("source.db")));
    }
    receiver.end();
    delivered(stage);
}

fn receiver(stage: &Stage<'_>, tool: &[String]) -> Running {
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    Running::start(outbox(tool, &serve, &stage.file("sink.db")))
}

fn url(receiver: &Running) -> Option<String> {
    receiver.address().map(|address| format!("http://{address}/events"))
}

fn enqueue_all(stage: &Stage<'_>) {
    let source = open_store(&stage.file("source.db"), Role::Source).expect("a source");
    for (id, qty) in EVENTS {
        enqueue(&source, &Event::new(id, qty).expect("an event"), &mut no_fault).expect("room");
    }
}

/// The next life: the rest is saved and sent. Then each effect is there once, in order, and nothing is pending.
fn delivered(stage: &Stage<'_>) {
    check_promises(stage);
    enqueue_all(stage);
    let receiver = receiver(stage, &[]);
    let url = url(&receiver).expect("after whatever happened the receiver starts");
    let dispatch = ["dispatch", "--all", "--url", &url];
    let output = outbox(&[], &dispatch, &stage.file("source.db")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert!(receiver.end().success(), "it stops in order");
    check_promises(stage);
    let (source, sink) = (stage.file("source.db"), stage.file("sink.db"));
    let sent: Vec<String> = EVENTS.iter().map(|(id, qty)| format!("{id} {qty}")).collect();
    assert_eq!(lines(&source, "SELECT id || ' ' || qty FROM outbox ORDER BY seq"), sent);
    assert_eq!(lines(&source, "SELECT id || ' ' || qty FROM orders ORDER BY rowid"), sent);
    assert_eq!(lines(&sink, "SELECT id || ' ' || qty FROM inbox ORDER BY rowid"), sent);
    assert_eq!(lines(&source, "SELECT '' || count(*) FROM outbox WHERE sent = 0"), ["0"]);
}

/// What holds at every moment: nothing is marked that was not received, and the stock is the sum of what was.
fn check_promises(stage: &Stage<'_>) {
    let (source, sink) = (stage.file("source.db"), stage.file("sink.db"));
    for store in [&source, &sink] {
        if tables(store) > 0 {
            assert_eq!(lines(store, "PRAGMA integrity_check"), ["ok"]);
        }
    }
    if tables(&source) > 0 && tables(&sink) > 0 {
        let marked = lines(&source, "SELECT id FROM outbox WHERE sent = 1 ORDER BY seq");
        let inbox = lines(&sink, "SELECT id FROM inbox ORDER BY rowid");
        assert!(inbox.starts_with(&marked), "marked {marked:?}, received {inbox:?}");
        let off = "SELECT '' || (total - (SELECT coalesce(sum(qty), 0) FROM inbox)) FROM stock";
        assert_eq!(lines(&sink, off), ["0"]);
    }
}

/// How many tables a store has: none if its maker died before it was made.
fn tables(store: &Path) -> usize {
    if !store.exists() {
        return 0;
    }
    lines(store, "SELECT name FROM sqlite_master WHERE type = 'table'").len()
}

fn lines(store: &Path, sql: &str) -> Vec<String> {
    let con = Connection::open(store).expect("a store");
    let mut statement = con.prepare(sql).expect("a statement");
    let lines = statement.query_map([], |row| row.get(0)).expect("lines");
    lines.map(|line| line.expect("text")).collect()
}
