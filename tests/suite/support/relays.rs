//! Relays to test: in this process, and the real program as a process of its own, to be stopped, frozen and killed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oncegate::clock::{Clock, SystemClock};
use oncegate::server::{Config, Server};
use oncegate::telegram::Layout;
use tempfile::TempDir;

use super::channel::Addresses;
use super::crooked_core::CrookedCore;
use super::fake_time;
use super::ledger_file::LedgerFile;
use super::wait::wait_until;

/// A core and the place of a ledger: what every relay of a test shares.
pub struct World {
    pub core: CrookedCore,
    pub ledger: LedgerFile,
    folder: TempDir,
}

impl World {
    /// A core that serves.
    pub fn new() -> World {
        World::with(CrookedCore::start(Duration::from_millis(500)))
    }

    /// A core that refuses until it is up.
    pub fn down() -> World {
        World::with(CrookedCore::start_down(Duration::from_millis(500)))
    }

    /// This core. The ledger lies on a real file system, where a sync is one.
    pub fn with(core: CrookedCore) -> World {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let ledger = LedgerFile::at(folder.path().join("relay.db"));
        World { core, ledger, folder }
    }

    /// A relay in this process.
    pub fn relay(&self) -> Relay {
        self.relay_with(|_| {})
    }

    /// A relay in this process, configured further by `change`.
    pub fn relay_with(&self, change: impl FnOnce(&mut Config)) -> Relay {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        self.relay_at(&clock, change)
    }

    /// The same by another clock.
    pub fn relay_at(&self, clock: &Arc<dyn Clock>, change: impl FnOnce(&mut Config)) -> Relay {
        let mut config = Config {
            db: self.ledger.path().to_owned(),
            must_exist: false,
            accept_restored: false,
            core: self.core.url().parse().expect("a URL"),
            listen: Some("127.0.0.1:0".to_owned()),
            http: Some("127.0.0.1:0".to_owned()),
            admin: Some("127.0.0.1:0".to_owned()),
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(20),
            core_idle: Duration::from_secs(5),
            layout: Layout::std128(),
            max_in_flight: 1024,
            max_connections: 1024,
            orphan_after: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(1),
            sync_failed: || panic!("the disk failed to sync"),
        };
        change(&mut config);
        let server = Server::start(&config, clock).expect("a relay");
        Relay { at: Addresses::parse(server.ready()), server: Some(server) }
    }

    /// A relay as a process of its own.
    pub fn process(&self, options: &[&str]) -> Process {
        Process::start(&self.ledger, &self.core.url(), options)
    }

    /// Runs a routine of the program to its end: exit code and the summary's JSON.
    pub fn routine(&self, arguments: &[&str]) -> (i32, serde_json::Value) {
        let mut command = self.routine_command(arguments);
        let output = command.arg("--json").output().expect("it runs");
        let lines = String::from_utf8(output.stdout).expect("text");
        let last = lines.lines().last().unwrap_or("null");
        let line: serde_json::Value = serde_json::from_str(last).expect("JSON");
        let code = output.status.code().expect("it was not killed");
        (code, line.get("summary").cloned().unwrap_or_default())
    }

    /// A routine of the program on this ledger and, where it calls one, this core.
    pub fn routine_command(&self, arguments: &[&str]) -> Command {
        routine(&self.ledger, &self.core.url(), arguments)
    }

    /// The owners' lock files beside the ledger.
    pub fn owner_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.to_string_lossy().contains(".owner.")).collect()
    }
}

/// A relay in this process. Stops in order when it is dropped.
pub struct Relay {
    pub at: Addresses,
    server: Option<Server>,
}

impl Relay {
    /// Stops in order; false if calls were still in flight.
    pub fn stop(mut self) -> bool {
        self.server.take().expect("it runs").stop()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(server) = self.server.take()
            && !std::thread::panicking()
        {
            let _ = server.stop();
        }
    }
}

/// The real program, serving. Killed when it is dropped.
pub struct Process {
    pub at: Addresses,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it and waits until it is ready.
    pub fn start(ledger: &LedgerFile, core: &str, options: &[&str]) -> Process {
        Process::start_in(ledger, core, options, &[])
    }

    /// The same in an environment with these variables more.
    pub fn start_in(
        ledger: &LedgerFile,
        core: &str,
        options: &[&str],
        environment: &[(String, &str)],
    ) -> Process {
        let mut command = program();
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Process::spawn(command, ledger, core, options)
    }

    /// The same under a tool that runs it.
    pub fn start_under(tool: &[String], ledger: &LedgerFile, core: &str) -> Process {
        Process::spawn(program_under(tool), ledger, core, &[])
    }

    /// The same, and no file of its may grow beyond so many blocks: a disk that is full, for this process alone.
    pub fn start_limited(ledger: &LedgerFile, core: &str, blocks: u32) -> Process {
        // Signal 25, ignored, leaves the error that the write gets.
        let script = format!("trap '' 25; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = unprompted(Command::new("sh"));
        command.args(["-c", &script, env!("CARGO_BIN_EXE_oncegate")]);
        Process::spawn(command, ledger, core, &[])
    }

    /// The same, and it may have so many files open: connections are files.
    pub fn start_with_files(ledger: &LedgerFile, core: &str, files: u32) -> Process {
        let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let mut command = unprompted(Command::new("sh"));
        command.args(["-c", &script, env!("CARGO_BIN_EXE_oncegate")]);
        Process::spawn(command, ledger, core, &[])
    }

    /// Its memory, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads").count()
    }

    /// The processor's time that it has used, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(path).expect("a process");
        // Fields 14 and 15; the second is the name, in brackets, and may hold blanks.
        let (_, rest) = stat.rsplit_once(')').expect("a name");
        let ticks = rest.split_whitespace().skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    /// How the kernel schedules each of its threads: the number of the policy, as in sched(7).
    pub fn scheduling_policies(&self) -> Vec<u32> {
        let threads =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        let policy = |thread: &Path| {
            let stat = std::fs::read_to_string(thread.join("stat")).expect("a thread");
            // Field 41; the second is the name, in brackets, and may hold blanks.
            let (_, rest) = stat.rsplit_once(')').expect("a name");
            rest.split_whitespace().nth(38).expect("a policy").parse().expect("a number")
        };
        threads.map(|thread| policy(&thread.expect("a thread").path())).collect()
    }

    fn spawn(mut command: Command, ledger: &LedgerFile, core: &str, options: &[&str]) -> Process {
        let log = ledger.path().with_extension("log");
        let log_file = File::options().create(true).append(true).open(&log).expect("a log");
        let mut child = command
            .args(["--serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--core", core, "--db"])
            .arg(ledger.path())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .expect("the program");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line or none");
        Process { at: Addresses::parse(&line), child, log }
    }

    /// Sends a signal: TERM, INT, STOP, CONT.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
        fake_time::forget(self.child.id());
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the relay's end", || self.has_ended());
        self.child.wait().expect("its status")
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).expect("a log")).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        fake_time::forget(self.child.id());
    }
}

/// Sends a signal, by its name, to a child that has not been waited for.
pub fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
    assert!(status.success(), "{kill}");
}

/// Routines that run beside the relays, each for as long as it is let.
#[derive(Default)]
pub struct Routines {
    running: Vec<Child>,
    /// So many came to their end.
    pub ended: usize,
    /// So many were killed.
    pub killed: usize,
}

impl Routines {
    /// Starts one.
    pub fn start(&mut self, mut command: Command) {
        self.running.push(command.spawn().expect("the program"));
    }

    /// Sends a signal to those that run: STOP, CONT; returns how many those are.
    pub fn signal(&mut self, name: &str) -> usize {
        let mut reached = 0;
        for routine in &mut self.running {
            if routine.try_wait().expect("its status").is_none() {
                signal(routine, name);
                reached += 1;
            }
        }
        reached
    }

    /// kill -9 to those that have not ended.
    pub fn end(&mut self) {
        for mut routine in self.running.drain(..) {
            match routine.try_wait().expect("its status") {
                Some(_) => self.ended += 1,
                None => self.killed += 1,
            }
            let _ = routine.kill();
            let _ = routine.wait();
            fake_time::forget(routine.id());
        }
    }
}

impl Drop for Routines {
    fn drop(&mut self) {
        self.end();
    }
}

/// The program, without what this environment would tell it.
pub fn program() -> Command {
    unprompted(Command::new(Path::new(env!("CARGO_BIN_EXE_oncegate"))))
}

/// A routine of the program on this ledger and, where it calls one, this core.
pub fn routine(ledger: &LedgerFile, core: &str, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(arguments).arg("--db").arg(ledger.path());
    if arguments[0] != "purge" {
        command.args(["--core", core]);
    }
    command
}

/// The same, and nobody reads what it says.
pub fn quiet_routine(ledger: &LedgerFile, core: &str, arguments: &[&str]) -> Command {
    let mut command = routine(ledger, core, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The program under a tool that runs it.
pub fn program_under(tool: &[String]) -> Command {
    let mut command = unprompted(Command::new(&tool[0]));
    command.args(&tool[1..]).arg(env!("CARGO_BIN_EXE_oncegate"));
    command
}

fn unprompted(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_lowercase();
        if text.starts_with("oncegate_") || text.ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command
}
