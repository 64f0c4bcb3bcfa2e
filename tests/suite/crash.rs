//! kill -9 of the real program at random moments under load, again and again, routines included. Whatever dies when: nothing is
//! paid twice, nothing that was told done is missing, and in the end every row is settled.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::channel::{Addresses, Channel, Telegram, code};
use crate::support::crooked_core::{CrookedCore, LATE_MAX};
use crate::support::random::Random;
use crate::support::relays::{Process, World, program};
use crate::support::wait::wait_until;

/// How long there are kills. The settling afterwards takes some seconds more.
const KILLING: Duration = Duration::from_secs(15);

/// Channels that send at the same time.
const CHANNELS: usize = 8;

/// What channels ask for, and the tricks that the core plays on them; blank: none.
const MEMOS: [&str; 16] = [
    "", "", "", "", "", "", "", "SLOW", "SLOW", "RESET", "LATE", "HALF", "E503", "GARBAGE", "FIN",
    "REJECT",
];

/// Shorter than the core's slowness: slow calls end as UNKNOWN, or in mid-call.
const RELAY: &[&str] = &["--read-timeout", "0.3"];

/// More than the core may take, by the second that the ledger's clock does not show, and then some for a slow machine.
const MIN_AGE: &str = "4";

/// What an operator does meanwhile.
const ROUTINES: [&[&str]; 5] = [
    &["resolve", "--min-age", MIN_AGE],
    &["resolve", "--min-age", MIN_AGE],
    &["reprocess", "--max-attempts", "1000", "--keep-going", "--read-timeout", "0.3"],
    &["reprocess", "--max-attempts", "1000", "--keep-going", "--read-timeout", "0.3"],
    &["purge", "--days", "0"],
];

/// What the channels know.
#[derive(Default)]
struct Known {
    telegrams: Vec<Telegram>,
    /// The first final answer of each GUID.
    finals: BTreeMap<String, Vec<u8>>,
    codes: BTreeMap<String, u64>,
    lost: u64,
    wrong: Vec<String>,
}

struct Scene {
    world: World,
    /// Nobody is there: a relay that calls it leaves FAILED rows.
    dead_core: CrookedCore,
    /// Where the relays listen just now; none while they are dead.
    at: RwLock<Vec<Addresses>>,
    known: Mutex<Known>,
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct Figures {
    kills: u32,
    kills_in_mid_call: u32,
    routines_killed: u32,
    routines_ended: u32,
}

#[test]
fn killed_at_any_moment_under_load_nothing_is_paid_twice_nothing_is_lost_and_all_is_settled() {
    let mut random = Random::seeded("crash");
    let core = CrookedCore::start(Duration::from_millis(500));
    let scene = Scene {
        world: World::with(core),
        dead_core: CrookedCore::start_down(Duration::ZERO),
        at: RwLock::default(),
        known: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let mut figures = Figures::default();
    thread::scope(|scope| {
        for _ in 0..CHANNELS {
            let (scene, random) = (&scene, random.fork());
            scope.spawn(move || scene.be_a_channel(random));
        }
        scene.kill_relays(&mut random, &mut figures);
        scene.over.store(true, Ordering::SeqCst);
    });
    scene.settle();
    scene.check();
    let known = scene.known.lock().unwrap();
    println!(
        "{figures:?} transfers={} lost answers={} codes={:?}",
        known.telegrams.len(),
        known.lost,
        known.codes
    );
    assert!(figures.kills_in_mid_call > 0, "no kill met a call under way: {figures:?}");
}

#[test]
fn killed_at_any_moment_of_its_start_it_leaves_what_the_next_one_can_use() {
    let mut random = Random::seeded("start");
    let world = World::new();
    for _ in 0..30 {
        let mut command = program();
        command.args(["--serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
        command.args(["--core", &world.core.url(), "--db"]).arg(world.ledger.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut starting = command.spawn().unwrap();
        thread::park_timeout(Duration::from_micros(random.next() % 40_000));
        starting.kill().unwrap();
        starting.wait().unwrap();
        // From nothing half of the time.
        if random.chance(50) && world.ledger.path().exists() {
            std::fs::remove_file(world.ledger.path()).unwrap();
            for suffix in ["-wal", "-shm"] {
                let beside = format!("{}{suffix}", world.ledger.path().display());
                let _ = std::fs::remove_file(beside);
            }
        }
    }
    let relay = world.process(&[]);
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "0000");
    assert_eq!(world.ledger.told(&telegram.guid), "DONE 0000 1");
    wait_until("the dead are forgotten", || {
        let named = |path: &&PathBuf| path.extension().is_none_or(|e| e != "new");
        world.owner_files().iter().filter(named).count() == 1
    });
}

impl Scene {
    /// Sends new transfers and resends old ones, settled or not, over connections that die with their relay.
    fn be_a_channel(&self, mut random: Random) {
        let mut channel = None;
        while !self.over.load(Ordering::SeqCst) {
            let Some(open) = channel.take().or_else(|| self.connect(&mut random)) else {
                thread::park_timeout(Duration::from_millis(10));
                continue;
            };
            channel = self.send(open, &self.next_telegram(&mut random));
        }
    }

    fn connect(&self, random: &mut Random) -> Option<Channel> {
        let at = self.at.read().unwrap();
        let at = (!at.is_empty()).then(|| *random.pick(&at))?;
        Channel::connect(at.tcp).ok()
    }

    fn next_telegram(&self, random: &mut Random) -> Telegram {
        let mut known = self.known.lock().unwrap();
        if !known.telegrams.is_empty() && random.chance(50) {
            return random.pick(&known.telegrams).resent();
        }
        let telegram = Telegram::new(random.pick::<&str>(&MEMOS));
        known.telegrams.push(telegram.clone());
        telegram
    }

    /// The connection comes back unless it died.
    fn send(&self, mut channel: Channel, telegram: &Telegram) -> Option<Channel> {
        let answered = channel.try_ask(&telegram.bytes());
        let mut known = self.known.lock().unwrap();
        if let Ok(reply) = answered {
            known.told(&telegram.guid, &reply);
            Some(channel)
        } else {
            known.lost += 1;
            None
        }
    }

    /// One or two relays on the one ledger, and now and then a routine, each killed at a random moment.
    fn kill_relays(&self, random: &mut Random, figures: &mut Figures) {
        let end = Instant::now() + KILLING;
        let mut relays = vec![self.start_relay(random)];
        let mut routines: Vec<Child> = Vec::new();
        while Instant::now() < end {
            self.appear(&relays);
            routines.extend(random.chance(60).then(|| self.start_routine(random)));
            thread::park_timeout(Duration::from_millis(random.next() % 400));
            let dying = random.below(relays.len());
            relays[dying].kill();
            relays.remove(dying);
            self.appear(&relays);
            figures.kills += 1;
            // Of a single relay, whatever is SENT now was in mid-call when it died.
            if relays.is_empty() && self.sent() > 0 {
                figures.kills_in_mid_call += 1;
            }
            for mut routine in routines.drain(..) {
                match routine.try_wait().unwrap() {
                    Some(_) => figures.routines_ended += 1,
                    None => figures.routines_killed += 1,
                }
                let _ = routine.kill();
                routine.wait().unwrap();
            }
            while relays.len() < 1 + usize::from(random.chance(30)) {
                relays.push(self.start_relay(random));
            }
        }
    }

    fn start_relay(&self, random: &mut Random) -> Process {
        let core = if random.chance(15) { &self.dead_core } else { &self.world.core };
        Process::start(&self.world.ledger, &core.url(), RELAY)
    }

    fn appear(&self, relays: &[Process]) {
        *self.at.write().unwrap() = relays.iter().map(|relay| relay.at).collect();
    }

    fn start_routine(&self, random: &mut Random) -> Child {
        let arguments = random.pick::<&[&str]>(&ROUTINES);
        let mut command = self.world.routine_command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn sent(&self) -> i64 {
        self.world.ledger.number("SELECT count(*) FROM tx WHERE state = 'SENT'")
    }

    /// What operators do when it is over: the core works again, they ask, and they send what was certainly not sent.
    fn settle(&self) {
        self.world.core.behave();
        let relay = self.world.process(&[]);
        self.resend_all(&relay);
        wait_until("the sweep", || self.sent() == 0);
        wait_until("every row is settled", || {
            self.world.routine(&["resolve", "--min-age", MIN_AGE]);
            self.world.routine(&["reprocess", "--max-attempts", "1000"]);
            self.world.ledger.number("SELECT count(*) FROM tx WHERE state <> 'DONE'") == 0
        });
        self.resend_all(&relay);
    }

    fn resend_all(&self, relay: &Process) {
        let telegrams = self.known.lock().unwrap().telegrams.clone();
        let mut channel = relay.at.connect();
        for telegram in telegrams {
            let reply = channel.ask(&telegram.bytes());
            self.known.lock().unwrap().told(&telegram.guid, &reply);
        }
    }

    fn check(&self) {
        let (books, known) = (self.world.core.books(), self.known.lock().unwrap());
        assert_eq!(known.wrong, [""; 0]);
        let twice: Vec<_> = books.effects.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "paid more than once: {twice:?}");
        for telegram in &known.telegrams {
            let (guid, refused) = (&telegram.guid, telegram.memo == b"REJECT");
            let history = || self.world.ledger.history(guid);
            let effects = books.effects.get(guid).copied().unwrap_or_default();
            assert_eq!(effects, u64::from(!refused), "{guid}: {:?}", history());
            let told = known.finals.get(guid);
            match self.world.ledger.find(guid) {
                Some(row) => {
                    let rsp_code = if refused { "C051" } else { "0000" };
                    assert_eq!(row.told(), format!("DONE {rsp_code} {}", row.attempts));
                    assert_eq!(told, row.response.as_ref(), "{guid}: told and recorded");
                    let calls = books.calls[guid];
                    assert!(calls <= row.attempts.unsigned_abs(), "{guid}: {calls} calls");
                }
                None => assert!(history().contains(&"purge DONE>purged".to_owned()), "{guid}"),
            }
        }
        let purged = self.world.ledger.number("SELECT count(*) FROM purged");
        let rows = self.world.ledger.number("SELECT count(*) FROM tx");
        assert_eq!(usize::try_from(purged + rows).unwrap(), known.telegrams.len());
        assert!(LATE_MAX < Duration::from_secs(3), "--min-age exceeds the core's longest time");
    }
}

impl Known {
    fn told(&mut self, guid: &str, reply: &[u8]) {
        let code = code(reply).to_owned();
        *self.codes.entry(code.clone()).or_default() += 1;
        match code.as_str() {
            "0000" | "C051" => {
                let first = self.finals.entry(guid.to_owned()).or_insert_with(|| reply.to_vec());
                if *first != reply {
                    self.wrong.push(format!("{guid}: two final answers"));
                }
            }
            // Not final, or (E906) final without an answer.
            "E901" | "E902" | "E903" | "E906" | "E909" => {}
            code => self.wrong.push(format!("{guid}: {code} can't be")),
        }
    }
}
