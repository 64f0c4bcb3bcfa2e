//! The real binary, run to its end or until the test has seen enough, and ledgers to look at.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use oncegate::clock::SystemClock;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use rusqlite::{Connection, params};

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// That it failed with this code and one line that holds all of these texts, and printed nothing else.
    #[track_caller]
    pub fn failed(&self, code: i32, texts: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        for text in texts {
            assert!(self.err.contains(text), "no {text:?} in {self:?}");
        }
        if code == 1 {
            assert_eq!(self.err.lines().count(), 1, "{self:?}");
        }
    }

    /// Standard output of a run that ended with this code and had nothing to complain of.
    #[track_caller]
    pub fn printed(&self, code: i32) -> &str {
        assert_eq!((self.code, self.err.as_str()), (code, ""), "{self:?}");
        &self.out
    }
}

/// The program, without the variables of whoever runs the tests.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONCEGATE_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Ran {
    run_with(args, &[])
}

/// Runs it with these variables.
pub fn run_with(args: &[&str], env: &[(&str, &OsStr)]) -> Ran {
    let output = command(args).envs(env.iter().copied()).output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The program while it runs; killed with the test.
pub struct Running {
    child: Child,
    ready: String,
}

impl Running {
    /// Starts it and waits for its ready line.
    pub fn start(args: &[&str]) -> Running {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready "), "{args:?} said {ready:?}");
        Running { child, ready }
    }

    /// The address after `name=` in the ready line.
    pub fn address(&self, name: &str) -> String {
        let word = self.ready.split_whitespace().find_map(|word| word.strip_prefix(name));
        word.unwrap().trim_start_matches('=').to_owned()
    }

    /// Asks it to end, and returns its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A ledger in a folder of its own.
pub struct LedgerFile {
    folder: tempfile::TempDir,
}

/// A row to be put into a ledger as any program may put it there.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    pub guid: &'a str,
    pub state: &'a str,
    pub code: Option<&'a str>,
    pub age_s: u32,
    pub seen: Option<&'a str>,
    pub request: Vec<u8>,
}

impl Put<'_> {
    /// A row of this state, so old, whose request is the Korean vector.
    pub fn new<'a>(guid: &'a str, state: &'a str, age_s: u32) -> Put<'a> {
        let request = include_bytes!("../../vectors/req_euckr.bin").to_vec();
        Put { guid, state, code: None, age_s, seen: None, request }
    }
}

impl LedgerFile {
    pub fn new() -> LedgerFile {
        let ledger = LedgerFile { folder: tempfile::tempdir().unwrap() };
        let access = Access::Serve { must_exist: false };
        let clock = Arc::new(SystemClock::new());
        drop(SqliteLedger::open(&ledger.file(), access, clock, Hooks::default()).unwrap());
        ledger
    }

    pub fn with(rows: &[Put<'_>]) -> LedgerFile {
        let ledger = LedgerFile::new();
        ledger.put(rows);
        ledger
    }

    pub fn put(&self, rows: &[Put<'_>]) {
        let mut con = Connection::open(self.file()).unwrap();
        let all = con.transaction().unwrap();
        for row in rows {
            all.execute(
                "INSERT INTO tx (guid, tx_code, state, rsp_code, request, attempts, updated_at)
                 VALUES (?1, 'TRF00100', ?2, ?3, ?4, 1, datetime('now', ?5))",
                params![
                    row.guid,
                    row.state,
                    row.code,
                    row.request,
                    format!("-{} seconds", row.age_s)
                ],
            )
            .unwrap();
            if let Some(seen) = row.seen {
                all.execute(
                    "INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, seen)
                     VALUES (datetime('now'), ?1, 'SENT', ?2, 1, 'relay', 'relay', ?3)",
                    params![row.guid, row.state, seen],
                )
                .unwrap();
            }
        }
        all.commit().unwrap();
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("relay.db")
    }

    pub fn path(&self) -> String {
        text(&self.file())
    }

    /// A file beside the ledger.
    pub fn write(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        text(&path)
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Starts the program, reads the first line of its output, closes the pipe, and returns that line, the exit code and stderr.
pub fn read_one_line(args: &[&str]) -> (String, Option<i32>, String) {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    drop(out);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (first, child.wait().unwrap().code(), err)
}
