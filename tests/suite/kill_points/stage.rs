//! Where a life takes place: a ledger and two stores of its own, a core, and what is true when it is over.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::support::channel::{BLANK_BODY, Channel, Telegram, code};
use crate::support::crooked_core::CrookedCore;
use crate::support::ledger_file::LedgerFile;
use crate::support::relays::{program, program_under};
use crate::support::wait::wait_until;

/// A running program. Killed when it is dropped.
pub struct Running {
    child: Child,
    /// Its first line; empty: it died before.
    line: String,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let _ = BufReader::new(stdout).read_line(&mut line);
        Running { child, line }
    }

    /// Where it listens, if it came so far.
    pub fn address(&self) -> Option<SocketAddr> {
        let (_, address) = self.line.trim_end().strip_prefix("ready ")?.split_once('=')?;
        address.parse().ok()
    }

    /// Asks it to stop, if it still runs, and waits.
    pub fn end(mut self) -> ExitStatus {
        let kill = format!("kill -TERM {}", self.child.id());
        let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
        let mut ended = None;
        wait_until("its end", || {
            ended = self.child.try_wait().expect("its status");
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands in a ledger before a life begins.
pub enum Before {
    /// UNKNOWN; the core has it, or has never heard of it.
    Unknown {
        posted: bool,
    },
    Failed,
    /// The core has it.
    Done,
    /// Claimed by nobody, long ago, and never heard of by the core.
    Sent,
}

pub struct Stage<'a> {
    pub core: &'a CrookedCore,
    pub ledger: LedgerFile,
    pub folder: TempDir,
    pub telegrams: Vec<Telegram>,
    /// The first final answer of each GUID.
    told: BTreeMap<String, Vec<u8>>,
}

impl<'a> Stage<'a> {
    pub fn new(core: &'a CrookedCore) -> Stage<'a> {
        // Memory is enough: who is killed loses no byte that was written. Power cuts are another harness's affair.
        let memory = std::path::Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory
        } else {
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        };
        let folder = tempfile::tempdir_in(place).expect("a folder");
        let ledger = LedgerFile::at(folder.path().join("relay.db"));
        Stage { core, ledger, folder, telegrams: Vec::new(), told: BTreeMap::new() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A row that another life has left.
    pub fn put(&mut self, memo: &str, before: &Before) {
        let telegram = Telegram::new(memo);
        let con = self.ledger.open();
        con.execute_batch(include_str!("../../../schema.sql")).expect("the schema");
        con.pragma_update(None, "journal_mode", "WAL").expect("a log");
        let (state, code) = match before {
            Before::Unknown { .. } => ("UNKNOWN", Some("E901")),
            Before::Failed => ("FAILED", Some("E902")),
            Before::Done => ("DONE", Some("0000")),
            Before::Sent => ("SENT", None),
        };
        if matches!(before, Before::Done | Before::Unknown { posted: true }) {
            self.core.post(&telegram.guid);
        }
        let response = code.map(|code| response(&telegram, code));
        let sql = "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at)
                   VALUES (?1, 'TRF00100', ?2, ?3, ?4, ?5, 1, datetime('now', '-2 days'))";
        let row = (&telegram.guid, state, code, telegram.bytes(), response);
        con.execute(sql, row).expect("a row");
        self.telegrams.push(telegram);
    }

    /// The relay, under a tool.
    pub fn relay(&self, tool: &[String]) -> Command {
        let mut command = if tool.is_empty() { program() } else { program_under(tool) };
        command.args(["--serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
        command.args(["--core", &self.core.url(), "--db"]).arg(self.ledger.path());
        command
    }

    /// A routine, under a tool.
    pub fn routine(&self, tool: &[String], arguments: &[&str]) -> Command {
        let mut command = if tool.is_empty() { program() } else { program_under(tool) };
        command.args(arguments).arg("--db").arg(self.ledger.path());
        if arguments[0] != "purge" {
            command.args(["--core", &self.core.url()]);
        }
        command
    }

    /// Sends, and keeps what is final. None: no answer came.
    pub fn send(&mut self, channel: &mut Channel, telegram: &Telegram) -> Option<String> {
        let reply = channel.try_ask(&telegram.bytes()).ok()?;
        let code = code(&reply).to_owned();
        if ["0000", "C051"].contains(&code.as_str()) {
            let first = self.told.entry(telegram.guid.clone()).or_insert_with(|| reply.clone());
            assert_eq!(*first, reply, "{}: two final answers", telegram.guid);
        }
        Some(code)
    }

    /// What was told as final is there, whatever else was lost.
    pub fn check_told(&self) {
        for (guid, told) in &self.told {
            let row = self.ledger.find(guid).unwrap_or_else(|| panic!("{guid}: told, and gone"));
            assert_eq!((row.state.as_str(), row.response.as_ref()), ("DONE", Some(told)), "{guid}");
        }
    }

    /// The next life: no harm any more. Channels send again until all is final, operators ask.
    pub fn recover(&mut self) {
        let running = Running::start(self.relay(&[]));
        let address = running.address().expect("after whatever happened the relay starts");
        let telegrams = self.telegrams.clone();
        let mut round = 0;
        wait_until("all is final", || {
            let mut channel = Channel::connect(address).expect("the relay accepts");
            let codes: Vec<String> = telegrams
                .iter()
                .map(|telegram| self.send(&mut channel, &telegram.resent()).expect("an answer"))
                .collect();
            if codes.iter().all(|code| ["0000", "C051", "E906"].contains(&code.as_str())) {
                return true;
            }
            round += 1;
            if codes.iter().any(|code| code == "E901") {
                self.routine(&[], &["resolve", "--min-age", "0"]).output().expect("it runs");
            }
            if round % 2 == 0 {
                let reprocess = ["reprocess", "--max-attempts", "99"];
                self.routine(&[], &reprocess).output().expect("it runs");
            }
            false
        });
        assert!(running.end().success(), "it stops in order");
    }

    /// What is true of the ledger, by the core's own counts.
    pub fn check(&self) {
        let ledger = &self.ledger;
        self.check_told();
        let ok: String = ledger
            .open()
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("an answer");
        assert_eq!(ok, "ok");
        for telegram in &self.telegrams {
            let (guid, refused) = (&telegram.guid, telegram.memo.starts_with(b"REJECT"));
            let history = ledger.history(guid);
            let effects = self.core.effects(guid);
            assert_eq!(effects, u64::from(!refused), "{guid} {:?}: {history:?}", telegram.memo);
            let state = ledger.find(guid).map_or("purged".to_owned(), |row| row.state);
            assert!(["DONE", "purged"].contains(&state.as_str()), "{guid}: {state}");
            check_history(guid, &history, &state);
        }
        let known = self.telegrams.len();
        let sql = "SELECT (SELECT count(*) FROM tx) + (SELECT count(*) FROM purged)";
        assert_eq!(usize::try_from(ledger.number(sql)).expect("a count"), known);
        let miscounted = "SELECT count(*) FROM tx_count
            WHERE rows <> (SELECT count(*) FROM tx WHERE tx.state = tx_count.state)";
        assert_eq!(ledger.number(miscounted), 0);
    }
}

/// Each line begins where the one before it ended, and the last one ends where the row is.
fn check_history(guid: &str, history: &[String], state: &str) {
    let steps: Vec<(&str, &str)> = history
        .iter()
        .map(|line| line.split_once(' ').expect("a cause").1.split_once('>').expect("a step"))
        .collect();
    for pair in steps.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{guid}: {history:?}");
    }
    if let Some(last) = steps.last() {
        assert_eq!(last.1, state, "{guid}: {history:?}");
    }
}

/// A reply telegram that says `code`, as the ledger would have stored it.
fn response(telegram: &Telegram, code: &str) -> Vec<u8> {
    let mut reply = telegram.bytes();
    reply.truncate(128);
    reply[..8].copy_from_slice(b"00000165");
    reply[50] = b'R';
    reply[92..96].copy_from_slice(code.as_bytes());
    reply.extend(BLANK_BODY);
    reply
}
