//! The scenarios, their rounds in rotation, and what is printed of them.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::load::{self, Load, Tongue};
use crate::machine;
use crate::subjects::{self, Process, Subject};

/// What the command line asks for.
pub struct Options {
    rounds: usize,
    seconds: f64,
    only: Option<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Options {
        let value = |name: &str| {
            arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1))
        };
        Options {
            rounds: value("--rounds").and_then(|n| n.parse().ok()).unwrap_or(5),
            seconds: value("--seconds").and_then(|n| n.parse().ok()).unwrap_or(2.0),
            only: value("--only").cloned(),
        }
    }
}

/// One line of the comparison's conditions.
struct Scenario {
    front: Tongue,
    /// The core's time for a call; "0" answers at once.
    core_seconds: &'static str,
    connections: usize,
    replay: bool,
    subjects: &'static [Subject],
}

const ALL: &[Subject] =
    &[Subject::Oncegate, Subject::Forward, Subject::Autocommit, Subject::Python, Subject::Nginx];
/// Beyond some hundred connections (b) answers most of its claims with "locked".
const MANY: &[Subject] = &[Subject::Oncegate, Subject::Forward, Subject::Python, Subject::Nginx];
const TWO: &[Subject] = &[Subject::Oncegate, Subject::Forward];

fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for front in [Tongue::Tcp, Tongue::Http] {
        for core_seconds in ["0", "0.005"] {
            for connections in [1, 8, 64, 512] {
                let subjects = if connections > 64 { MANY } else { ALL };
                all.push(Scenario { front, core_seconds, connections, replay: false, subjects });
            }
        }
    }
    all.push(Scenario {
        front: Tongue::Tcp,
        core_seconds: "0",
        connections: 64,
        replay: true,
        subjects: TWO,
    });
    all
}

impl Scenario {
    fn name(&self) -> String {
        let front = if self.front == Tongue::Tcp { "tcp" } else { "http" };
        let core = if self.core_seconds == "0" { "core at once" } else { "core 5 ms" };
        let what = if self.replay { ", replay of DONE" } else { "" };
        format!("{front}, {core}, {} connections{what}", self.connections)
    }
}

/// What one round of one subject brought.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
    memory_mib: f64,
    commits: Option<f64>,
}

/// Runs everything and prints it.
pub fn run(options: &Options) -> io::Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-relay");
    std::fs::create_dir_all(&directory)?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let syncs = machine::syncs_per_second(&directory, Duration::from_secs(2))?;
    println!("{syncs:.0} syncs/s of 4 KiB appended to a file in {}", directory.display());
    for scenario in scenarios().iter().filter(|scenario| wanted(&scenario.name())) {
        compare(scenario, options, &directory, syncs)?;
    }
    if wanted("in flight") {
        in_flight(&directory)?;
    }
    if wanted("idle") {
        idle(&directory)?;
    }
    std::fs::remove_dir_all(&directory)
}

fn compare(scenario: &Scenario, options: &Options, directory: &Path, syncs: f64) -> io::Result<()> {
    let subjects: Vec<(Subject, Tongue)> = scenario
        .subjects
        .iter()
        .filter_map(|subject| subject.tongue(scenario.front).map(|tongue| (*subject, tongue)))
        .collect();
    let mut rounds: BTreeMap<Subject, Vec<Round>> = BTreeMap::new();
    for n in 0..options.rounds {
        for at in 0..subjects.len() {
            // Each round begins with another subject: the machine's moods fall on all of them.
            let (subject, tongue) = subjects[(at + n) % subjects.len()];
            let round = measure(scenario, subject, tongue, options, directory)?;
            rounds.entry(subject).or_default().push(round);
        }
    }
    println!("\n{}", scenario.name());
    println!(
        "  {:<15} {:>24} {:>9} {:>9} {:>10} {:>8} {:>10}  oncegate/it",
        "", "tx/s", "p50 ms", "p99 ms", "CPU us/tx", "MiB", "syncs/tx"
    );
    let ours = rounds[&Subject::Oncegate].clone();
    for (subject, theirs) in &rounds {
        print_line(*subject, theirs, &ours);
    }
    if scenario.connections == 1 && scenario.core_seconds == "0" {
        limit_of_two_syncs(&rounds, syncs);
    }
    Ok(())
}

/// At one connection a transfer can't be quicker than the forwarding and two syncs, one after the other.
fn limit_of_two_syncs(rounds: &BTreeMap<Subject, Vec<Round>>, syncs: f64) {
    let per_second = |subject| middle(rounds[&subject].iter().map(|round| round.per_second)).1;
    let limit = 1.0 / (1.0 / per_second(Subject::Forward) + 2.0 / syncs);
    let share = 100.0 * per_second(Subject::Oncegate) / limit;
    println!(
        "  what two syncs and the forwarding allow: {limit:.0} tx/s; oncegate reaches {share:.0} % of it"
    );
}

fn measure(
    scenario: &Scenario,
    subject: Subject,
    tongue: Tongue,
    options: &Options,
    directory: &Path,
) -> io::Result<Round> {
    let core = subjects::core(scenario.core_seconds)?;
    let core_at =
        core.address("http").ok_or_else(|| io::Error::other("the core has no address"))?;
    let process = subjects::start(subject, core_at, directory)?;
    let front = if tongue == Tongue::Tcp { "tcp" } else { "http" };
    let at = process.address(front).ok_or_else(|| io::Error::other("no such front"))?;
    let load = Load {
        tongue,
        at,
        connections: scenario.connections,
        span: Duration::from_secs_f64(options.seconds),
        memo: if scenario.core_seconds == "0" { "RENT" } else { "SLOW" },
        serial: 1,
        replay: scenario.replay && subject == Subject::Oncegate,
        questions_max: u64::MAX,
    };
    let warm = warm_up(&load);
    let warmed = load::run(&warm)?.answered;
    let (cpu, commits) = (machine::cpu_seconds(process.pid()), commits(&process)?);
    let taken = load::run(&load)?;
    let each = taken.answered as f64;
    let asked = if load.replay { load::REPLAYED } else { warmed + taken.answered };
    check_core(core_at, asked)?;
    let commits = match (commits, self::commits(&process)?) {
        (Some(before), Some(after)) => Some((after - before) / each),
        _ => (subject == Subject::Autocommit || subject == Subject::Python).then_some(2.0),
    };
    Ok(Round {
        per_second: taken.per_second(),
        p50_ms: taken.p50.as_secs_f64() * 1e3,
        p99_ms: taken.p99.as_secs_f64() * 1e3,
        cpu_us: (machine::cpu_seconds(process.pid()) - cpu) * 1e6 / each,
        memory_mib: machine::memory_mib(process.pid()),
        commits,
    })
}

/// Connections and caches; for a replay, the answers that are then stored, asked for one after the other.
fn warm_up(load: &Load) -> Load {
    if load.replay {
        let span = Duration::from_mins(1);
        return Load { connections: 1, questions_max: load::REPLAYED, span, ..load.clone() };
    }
    Load { span: Duration::from_millis(300), serial: 2, ..load.clone() }
}

/// The core must have seen exactly the distinct GUIDs that were asked for, each once.
fn check_core(core: SocketAddr, asked: u64) -> io::Result<()> {
    let stats: serde_json::Value =
        serde_json::from_str(&get(core, "/_stats")?).map_err(io::Error::other)?;
    let number = |key: &str| stats[key].as_u64().unwrap_or(0);
    let by_guid = stats["by_guid"].as_object().map_or(0, |by_guid| by_guid.len() as u64);
    if (number("calls"), number("transfers"), by_guid) == (asked, asked, asked) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the core got {} calls of {by_guid} GUIDs for {asked} that were asked for: nothing is printed",
        number("calls")
    )))
}

fn commits(process: &Process) -> io::Result<Option<f64>> {
    let Some(admin) = process.address("admin") else { return Ok(None) };
    let text = get(admin, "/metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix("oncegate_commit_seconds_count "));
    Ok(line.and_then(|number| number.trim().parse().ok()))
}

fn get(at: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.to_owned())
}

/// Minimum, median, maximum.
fn middle(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let last = all.len().saturating_sub(1);
    (all[0], all[last / 2], all[last])
}

fn print_line(subject: Subject, rounds: &[Round], ours: &[Round]) {
    let median = |what: fn(&Round) -> f64| middle(rounds.iter().map(what)).1;
    let (least, rate, most) = middle(rounds.iter().map(|round| round.per_second));
    let ratios = rounds.iter().zip(ours).map(|(it, own)| own.per_second / it.per_second);
    let (low, ratio, high) = middle(ratios);
    let syncs = rounds[0]
        .commits
        .map_or("-".to_owned(), |_| format!("{:.3}", median(|round| round.commits.unwrap_or(0.0))));
    println!(
        "  {:<15} {:>8.0} ({:>6.0}-{:>6.0}) {:>9.2} {:>9.2} {:>10.0} {:>8.1} {:>10}  {ratio:.2} ({low:.2}-{high:.2})",
        subject.name(),
        rate,
        least,
        most,
        median(|r| r.p50_ms),
        median(|r| r.p99_ms),
        median(|r| r.cpu_us),
        median(|r| r.memory_mib),
        syncs
    );
}

/// 5,000 calls in flight with a core that takes a second.
fn in_flight(directory: &Path) -> io::Result<()> {
    let core = subjects::core("1")?;
    let core_at =
        core.address("http").ok_or_else(|| io::Error::other("the core has no address"))?;
    let process = subjects::start(Subject::Oncegate, core_at, directory)?;
    let at = process.address("tcp").ok_or_else(|| io::Error::other("no TCP front"))?;
    let load = Load {
        tongue: Tongue::Tcp,
        at,
        connections: 5_000,
        span: Duration::from_secs(6),
        memo: "SLOW",
        serial: 1,
        replay: false,
        questions_max: u64::MAX,
    };
    let taken = load::run(&load)?;
    check_core(core_at, taken.answered)?;
    println!(
        "\ntcp, 5,000 calls in flight, core 1 s\n  {:.0} tx/s, p50 {:.0} ms, p99 {:.0} ms, {:.0} MiB at most, no error",
        taken.per_second(),
        taken.p50.as_secs_f64() * 1e3,
        taken.p99.as_secs_f64() * 1e3,
        machine::mib_of(process.pid(), "VmHWM:")
    );
    Ok(())
}

/// A thousand connections that say nothing.
fn idle(directory: &Path) -> io::Result<()> {
    let core = subjects::core("0")?;
    let core_at =
        core.address("http").ok_or_else(|| io::Error::other("the core has no address"))?;
    let process = subjects::start(Subject::Oncegate, core_at, directory)?;
    let at = process.address("tcp").ok_or_else(|| io::Error::other("no TCP front"))?;
    let before = machine::memory_mib(process.pid());
    let held = load::idle(at, 1_000)?;
    std::thread::sleep(Duration::from_secs(1));
    let after = machine::memory_mib(process.pid());
    println!("\ntcp, {} idle connections\n  {after:.0} MiB ({before:.0} without them)", held.len());
    Ok(())
}
