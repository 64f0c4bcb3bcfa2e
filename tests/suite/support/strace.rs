//! strace as the hand of fate: it counts the system calls of a life, and does harm at one of them.
//!
//! strace counts the calls of each thread by themselves, so a point is "the K-th call of this kind by any one thread": the thread
//! that comes to it first is the one that meets it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a life is cut: whatever leaves the process, or comes in, or changes a directory. A kill comes before the call is made.
const CUT_AT: &str = "write,writev,pwrite64,sendto,sendmsg,fsync,fdatasync,connect,ftruncate,\
    fallocate,link,linkat,rename,renameat,renameat2,unlink,unlinkat,accept4,recvfrom";

/// What a disk can refuse.
const REFUSED: [&str; 6] = ["write", "writev", "pwrite64", "fsync", "fdatasync", "ftruncate"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Kill,
    Eio,
    Enospc,
}

/// A system call of a life, and the harm that is done there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub harm: Harm,
    pub call: String,
    pub nth: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { harm, call, nth } = self;
        write!(f, "{harm:?} at {call} {nth}")
    }
}

/// Whether this machine lets strace do it.
pub fn works() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=write:signal=KILL:when=1"]);
    let killed = strace.args(["echo"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    killed.is_ok_and(|status| status.code().is_none())
}

/// The tool that writes the calls of a life into `log`.
pub fn counting(log: &Path) -> Vec<String> {
    tool(log, &["-y", "-e", &format!("trace={CUT_AT}")])
}

/// The tool that does harm at `point`; the call that met it is in `log`.
pub fn harming(point: &Point, log: &Path) -> Vec<String> {
    let Point { harm, call, nth } = point;
    let what = match harm {
        Harm::Kill => "signal=KILL",
        Harm::Eio => "error=EIO",
        Harm::Enospc => "error=ENOSPC",
    };
    let inject = format!("inject={call}:{what}:when={nth}");
    tool(log, &["-e", &format!("trace={call}"), "-e", &inject])
}

/// The tool under which this file's disk is read-only for a thread that has written to it so often.
pub fn read_only_after(writes: usize, file: &Path) -> Vec<String> {
    let file = file.to_str().expect("a name in UTF-8");
    let inject = format!("inject=pwrite64:error=EROFS:when={writes}+");
    tool(Path::new("/dev/null"), &["-P", file, "-e", "trace=pwrite64", "-e", &inject])
}

/// `-D`: the process that is started is the program, strace stands aside. A killed one can be waited for.
fn tool(log: &Path, options: &[&str]) -> Vec<String> {
    let log = log.to_str().expect("a name in UTF-8");
    let before = ["strace", "-D", "-f", "-qq", "-s", "0", "-o", log];
    before.iter().chain(options).map(|word| (*word).to_owned()).collect()
}

/// Whether the harm was done.
pub fn was_met(point: &Point, log: &Path) -> bool {
    let sign = if point.harm == Harm::Kill { "+++ killed by SIGKILL" } else { "(INJECTED)" };
    std::fs::read_to_string(log).is_ok_and(|log| log.contains(sign))
}

/// All points of a life whose calls are in `log`; errors only where a file in `folder` is written. And how many calls there were.
pub fn points(log: &str, folder: &Path) -> (Vec<Point>, usize) {
    let folder = format!("<{}", folder.display());
    let mut by_thread: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut first: BTreeMap<(&str, usize), bool> = BTreeMap::new();
    let mut calls = 0;
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        if !CUT_AT.split(',').any(|name| name == call) {
            continue;
        }
        calls += 1;
        let nth = by_thread.entry((thread, call)).or_default();
        *nth += 1;
        first.entry((call, *nth)).or_insert(arguments.contains(&folder));
    }
    let at = |harm, call: &str, nth| Point { harm, call: call.to_owned(), nth };
    let kills = first.keys().map(|(call, nth)| at(Harm::Kill, call, *nth));
    let on_files = first.iter().filter(|((call, _), on_file)| REFUSED.contains(call) && **on_file);
    let errors = on_files
        .flat_map(|((call, nth), _)| [Harm::Eio, Harm::Enospc].map(|harm| at(harm, call, *nth)));
    (kills.chain(errors).collect(), calls)
}
