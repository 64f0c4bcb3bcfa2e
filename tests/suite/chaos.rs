//! Chaos: two relays, a core that is not idempotent and operators' routines, each a real process; each is killed and frozen at random
//! under load, and the wall clock jumps by days. When it is over nothing is paid twice, nothing told is missing, and every row is
//! settled.
//!
//! Without a word it takes some seconds; `ONCEGATE_CHAOS="10000 100000"` goes on until there were so many kills and transfers. The
//! seed is printed; `ONCEGATE_SEED` repeats it, as far as processes allow.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use oncegate::clock::SystemClock;
use oncegate::core_api::simulated::{SimulatedConfig, SimulatedCore};
use tempfile::TempDir;

use crate::support::channel::{Channel, Telegram, code, guid};
use crate::support::fake_time::FakeTime;
use crate::support::ledger_file::LedgerFile;
use crate::support::load::{Load, NowAndThen, Verdict};
use crate::support::random::Random;
use crate::support::relays::{Process, Routines, quiet_routine, signal};
use crate::support::skip::skipped;
use crate::support::wait::wait_until;

/// How long the short run does harm.
const SHORT: Duration = Duration::from_secs(8);

/// Half of the transfers go well, if they are let.
const MEMOS: [&str; 12] =
    ["", "", "", "", "", "", "SLOW", "LATE", "RESET", "HALF", "GARBAGE", "REJECT"];

/// Shorter than `SLOW`: such calls end as UNKNOWN, or in mid-call.
const READ_TIMEOUT: [&str; 2] = ["--read-timeout", "0.2"];

/// How long `SLOW` and `LATE` take.
const SLOW: Duration = Duration::from_millis(300);

/// The longest that a process is frozen; with [`SLOW`] the longest that the core takes.
const FROZEN_MS_MAX: u64 = 800;

/// The wall clock is right, or so far from it, in seconds.
const TWO_DAYS: i64 = 2 * 86_400;

/// More than the core may take, and then some for a slow machine.
const MIN_AGE: &str = "5";

const ROUTINES: [&[&str]; 3] = [
    &["resolve", "--min-age", MIN_AGE],
    &["reprocess", "--max-attempts", "100000", "--keep-going", "--read-timeout", "0.2"],
    &["purge", "--days", "0"],
];

/// The core's process: this test binary once more.
#[test]
#[ignore = "the core's process of the other test"]
fn core() {
    let Ok(db) = std::env::var("ONCEGATE_CHAOS_CORE_DB") else { return };
    let address = std::env::var("ONCEGATE_CHAOS_CORE_ADDRESS").unwrap();
    let config =
        SimulatedConfig { slow: SLOW, db: Some(db.into()), clock: Arc::new(SystemClock::new()) };
    let core = SimulatedCore::start(TcpListener::bind(address).unwrap(), config).unwrap();
    println!("ready core={}", core.address());
    std::io::stdout().flush().unwrap();
    loop {
        thread::park();
    }
}

struct Core {
    child: Child,
    address: SocketAddr,
    /// Held open: the test harness in that process says something every minute, and would die of a closed pipe.
    _stdout: BufReader<ChildStdout>,
}

impl Core {
    fn start(db: &Path, address: &str) -> Core {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "chaos::core", "--ignored", "--nocapture"]);
        command.env("ONCEGATE_CHAOS_CORE_DB", db).env("ONCEGATE_CHAOS_CORE_ADDRESS", address);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = stdout.by_ref().lines().map_while(Result::ok).filter_map(|line| {
            line.split_once("ready core=").map(|(_, address)| address.parse().unwrap())
        });
        let address = ready.next().expect("the core starts");
        Core { child, address, _stdout: stdout }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Default)]
struct Figures {
    relays_killed: usize,
    relays_frozen: usize,
    cores_killed: usize,
    cores_frozen: usize,
    jumps: usize,
    routines_frozen: usize,
    routines_killed: usize,
    routines_ended: usize,
}

impl Figures {
    fn kills(&self) -> usize {
        self.relays_killed + self.cores_killed + self.routines_killed
    }
}

struct Scene {
    folder: TempDir,
    ledger: LedgerFile,
    postings: PathBuf,
    core_url: String,
    /// The wall clock of relays and routines; none where it can't be set.
    time: Option<FakeTime>,
    load: Load,
}

/// How much chaos there is to be.
struct Length {
    kills: usize,
    transfers: usize,
    end: Option<Instant>,
}

impl Length {
    fn asked() -> Length {
        let Ok(asked) = std::env::var("ONCEGATE_CHAOS") else {
            return Length { kills: 0, transfers: 0, end: Some(Instant::now() + SHORT) };
        };
        let mut numbers = asked.split_whitespace().map(|number| number.parse().unwrap());
        Length { kills: numbers.next().unwrap(), transfers: numbers.next().unwrap(), end: None }
    }

    fn is_over(&self, kills: usize, transfers: usize) -> bool {
        self.end
            .map_or(kills >= self.kills && transfers >= self.transfers, |end| Instant::now() >= end)
    }
}

#[test]
fn relays_core_and_routines_killed_and_frozen_under_load_pay_nothing_twice_and_lose_nothing() {
    let mut random = Random::seeded("chaos");
    let begun = Instant::now();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let postings = folder.path().join("core.jsonl");
    // A loopback address of its own: while the core is dead its port could become some connection's own end.
    let core = Core::start(&postings, "127.0.0.2:0");
    let scene = Scene {
        ledger: LedgerFile::at(folder.path().join("relay.db")),
        postings,
        core_url: format!("http://{}", core.address),
        time: FakeTime::new(folder.path()),
        load: Load::new(&MEMOS),
        folder,
    };
    if scene.time.is_none() {
        skipped("jumps of the clock in chaos", "libfaketime is not installed");
    }
    let mut figures = Figures::default();
    let core = scene.load.during(&mut random, |random| scene.harm(core, random, &mut figures));
    scene.settle();
    drop(core);
    let (verdict, known) = (scene.verdict(), scene.load.known());
    let (kills, transfers, lost) = (figures.kills(), known.telegrams.len(), known.lost);
    println!("{kills} kills, {transfers} transfers, {lost} lost answers: {verdict}");
    println!("{figures:?} codes={:?} {:.0} s", known.codes, begun.elapsed().as_secs_f64());
    assert_eq!(verdict, Verdict::default());
    let Figures { relays_killed, relays_frozen, cores_killed, cores_frozen, .. } = figures;
    assert!([relays_killed, relays_frozen, cores_killed, cores_frozen].iter().all(|n| *n > 0));
    assert!(figures.jumps > 0 || scene.time.is_none());
}

impl Drop for Scene {
    /// What failed after an hour is worth looking at.
    fn drop(&mut self) {
        if thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("ledger, log and core's file are kept in {}", self.folder.path().display());
        }
    }
}

impl Scene {
    fn harm(&self, mut core: Core, random: &mut Random, figures: &mut Figures) -> Core {
        let length = Length::asked();
        let mut relays = vec![self.start_relay(&READ_TIMEOUT), self.start_relay(&READ_TIMEOUT)];
        let mut routines = Routines::default();
        // One of each first, so that a slow machine's short run has them all.
        let mut first = [0, 1, 2, 4, 6].into_iter();
        let mut now_and_then = NowAndThen::new();
        loop {
            let (kills, transfers) = (figures.kills(), self.load.transfers());
            if length.is_over(kills, transfers) {
                return core;
            }
            now_and_then.say(|| format!("{kills} kills, {transfers} transfers"));
            self.load.appear(&relays);
            let harm = first.next().unwrap_or_else(|| random.below(20));
            if matches!(harm, 4 | 5) || random.chance(50) {
                routines.start(self.routine(random.pick::<&[&str]>(&ROUTINES)));
            }
            pause(random, 120);
            let which = random.below(relays.len());
            match harm {
                0 => {
                    core.kill();
                    figures.cores_killed += 1;
                    pause(random, 100);
                    core = Core::start(&self.postings, &core.address.to_string());
                }
                1 => {
                    signal(&core.child, "STOP");
                    figures.cores_frozen += 1;
                    pause(random, FROZEN_MS_MAX);
                    signal(&core.child, "CONT");
                }
                2 | 3 => {
                    relays[which].signal("STOP");
                    figures.relays_frozen += 1;
                    pause(random, FROZEN_MS_MAX);
                    relays[which].signal("CONT");
                }
                4 | 5 => {
                    figures.routines_frozen += routines.signal("STOP");
                    pause(random, FROZEN_MS_MAX);
                    routines.signal("CONT");
                    // What it does once it is awake again is what counts.
                    pause(random, 200);
                }
                _ => {
                    figures.jumps += usize::from(harm == 6 && self.jump(random));
                    // The one that is started looks at the clock, so each jump is one that somebody sees.
                    let mut dying = relays.remove(which);
                    self.load.appear(&relays);
                    dying.kill();
                    figures.relays_killed += 1;
                    relays.push(self.start_relay(&READ_TIMEOUT));
                }
            }
            routines.end();
            figures.routines_killed = routines.killed;
            figures.routines_ended = routines.ended;
        }
    }

    /// Sets the wall clock to another time; false if it can't be set.
    fn jump(&self, random: &mut Random) -> bool {
        let Some(time) = &self.time else { return false };
        let elsewhere = |ahead: &i64| *ahead != time.ahead_s();
        let times: Vec<i64> = [-TWO_DAYS, 0, TWO_DAYS].into_iter().filter(elsewhere).collect();
        time.set(*random.pick(&times));
        true
    }

    fn start_relay(&self, options: &[&str]) -> Process {
        Process::start_in(&self.ledger, &self.core_url, options, &self.environment())
    }

    fn routine(&self, arguments: &[&str]) -> Command {
        let mut command = quiet_routine(&self.ledger, &self.core_url, arguments);
        command.envs(self.environment());
        command
    }

    fn environment(&self) -> Vec<(String, &str)> {
        self.time.as_ref().map(FakeTime::environment).into_iter().flatten().collect()
    }

    /// The core lives and the channels have patience for its tricks; in the end each hears of each transfer.
    fn settle(&self) {
        let relay = self.start_relay(&[]);
        self.load.ask_all(relay.at.tcp);
        Load::settle(&self.ledger, |arguments| self.routine(arguments), MIN_AGE);
        let codes = self.load.ask_all(relay.at.tcp);
        assert!(codes.keys().all(|code| ["0000", "C051", "E906"].contains(&&**code)), "{codes:?}");
    }

    /// By the core's own file, read here and not by the core.
    fn verdict(&self) -> Verdict {
        let mut effects: BTreeMap<String, u64> = BTreeMap::new();
        for line in BufReader::new(File::open(&self.postings).unwrap()).lines() {
            let entry: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            *effects.entry(entry["posting"]["guid"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let ok: String =
            self.ledger.open().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(ok, "ok");
        self.load.verdict(&self.ledger, &effects)
    }
}

fn pause(random: &mut Random, ms_max: u64) {
    thread::park_timeout(Duration::from_millis(random.next() % ms_max));
}

#[test]
fn who_does_harm_and_panics_ends_the_channels_too_and_the_test_fails_instead_of_hanging() {
    let load = Load::new(&MEMOS);
    let harm = || load.during(&mut Random::of(1), |_| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(harm)).is_err());
}

#[test]
fn the_hundred_thousandth_transfer_has_a_guid_of_thirty_characters_too() {
    // It had 31, every field after it stood one place too far right, and the long run went on with telegrams that were malformed.
    let guids: BTreeSet<String> = (0..100_100).map(|_| guid()).collect();
    assert!(guids.len() == 100_100 && guids.iter().all(|guid| guid.len() == 30));
}

/// Sends one transfer to show that the relay answers.
fn answers(relay: &Process) {
    assert_eq!(relay.at.code(&Telegram::new("")), "0000");
}

#[test]
fn a_relay_out_of_files_answers_those_it_has_and_takes_others_when_there_are_files_again() {
    let world = crate::support::relays::World::new();
    let relay = Process::start_with_files(&world.ledger, &world.core.url(), 60);
    let mut first = relay.at.connect();
    assert_eq!(code(&first.ask(&Telegram::new("").bytes())), "0000");
    let crowd: Vec<_> = (0..100).filter_map(|_| Channel::connect(relay.at.tcp).ok()).collect();
    let during = first.ask(&Telegram::new("").bytes());
    // Its own call may find no file for a connection: then nothing was sent.
    assert!(["0000", "E902", "E909"].contains(&code(&during)), "{}", code(&during));
    drop(crowd);
    wait_until("files again", || {
        let telegram = Telegram::new("");
        let channel = Channel::connect(relay.at.tcp).ok();
        let reply = channel.and_then(|mut open| open.try_ask(&telegram.bytes()).ok());
        reply.is_some_and(|reply| code(&reply) == "0000")
    });
    let calls = world.core.books();
    assert!(calls.effects.values().all(|times| *times == 1), "{:?}", calls.effects);
}

/// What a call keeps while it waits counts thousands of times: ureq's usual buffers alone would be more than is allowed here. Caches
/// fill with the rounds.
#[test]
fn five_hundred_calls_in_flight_cost_little_each() {
    const CROWD: usize = 500;
    let world = crate::support::relays::World::new();
    let relay = world.process(&[]);
    answers(&relay);
    let before = relay.memory_kib();
    let mut crowd: Vec<Channel> = (0..CROWD).map(|_| relay.at.connect()).collect();
    let mut most = 0;
    for round in 1..=4 {
        for channel in &mut crowd {
            channel.0.write_all(&Telegram::new("SLOW").bytes()).unwrap();
        }
        wait_until("all are in flight", || world.core.books().calls.len() == 1 + CROWD * round);
        most = most.max(relay.memory_kib());
        for channel in &mut crowd {
            assert_eq!(code(&channel.read()), "0000");
        }
    }
    let each = most.saturating_sub(before) / CROWD as u64;
    println!("{CROWD} calls in flight: {each} KiB each");
    assert!(each < 128, "{each} KiB each");
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_the_relay_still_answers() {
    const CROWD: usize = 10_000;
    let limit = rlimit::increase_nofile_limit(u64::MAX).unwrap_or_default();
    if limit < 2 * CROWD as u64 {
        skipped("the crowd", &format!("{limit} files are too few for {CROWD} connections"));
        return;
    }
    let world = crate::support::relays::World::new();
    let relay = world.process(&[]);
    answers(&relay);
    let before = relay.memory_kib();
    let mut crowd: Vec<Channel> = (0..CROWD).map(|_| relay.at.connect()).collect();
    let begun = Instant::now();
    answers(&relay);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for channel in [CROWD - 1, CROWD / 2, 0] {
        let reply = crowd[channel].ask(&Telegram::new("").bytes());
        assert_eq!(code(&reply), "0000", "the idle ones are served");
    }
    let each = relay.memory_kib().saturating_sub(before) / CROWD as u64;
    println!("{CROWD} idle connections: {each} KiB each");
    assert!(each < 64, "{each} KiB each");
    drop(crowd);
    answers(&relay);
}
