//! kill -9 of the real program at random moments under load, again and again, routines included. Whatever dies when: nothing is
//! paid twice, nothing that was told done is missing, and in the end every row is settled.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::channel::Telegram;
use crate::support::crooked_core::{CrookedCore, LATE_MAX};
use crate::support::load::{Load, Verdict};
use crate::support::random::Random;
use crate::support::relays::{Process, Routines, World, program, quiet_routine};
use crate::support::wait::wait_until;

/// How long there are kills. The settling afterwards takes some seconds more.
const KILLING: Duration = Duration::from_secs(15);

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

struct Scene {
    world: World,
    /// Nobody is there: a relay that calls it leaves FAILED rows.
    dead_core: CrookedCore,
    load: Load,
}

#[derive(Debug, Default)]
struct Figures {
    kills: u32,
    kills_in_mid_call: u32,
    routines_killed: usize,
    routines_ended: usize,
}

#[test]
fn killed_at_any_moment_under_load_nothing_is_paid_twice_nothing_is_lost_and_all_is_settled() {
    let mut random = Random::seeded("crash");
    let core = CrookedCore::start(Duration::from_millis(500));
    let scene = Scene {
        world: World::with(core),
        dead_core: CrookedCore::start_down(Duration::ZERO),
        load: Load::new(&MEMOS),
    };
    let mut figures = Figures::default();
    scene.load.during(&mut random, |random| scene.kill_relays(random, &mut figures));
    scene.settle();
    scene.check();
    let known = scene.load.known();
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
            for suffix in ["-wal", "-shm", ".mark"] {
                let beside = format!("{}{suffix}", world.ledger.path().display());
                let _ = std::fs::remove_file(beside);
            }
        }
    }
    let relay = world.process(&[]);
    let telegram = Telegram::new("");
    assert_eq!(relay.at.code(&telegram), "0000");
    assert_eq!(world.ledger.told(&telegram.guid), "DONE 0000 1");
    // The files of those that died before they had their names stayed for ever.
    wait_until("the dead are forgotten", || world.owner_files().len() == 1);
}

impl Scene {
    /// One or two relays on the one ledger, and now and then a routine, each killed at a random moment.
    fn kill_relays(&self, random: &mut Random, figures: &mut Figures) {
        let end = Instant::now() + KILLING;
        let mut relays = vec![self.start_relay(random)];
        let mut routines = Routines::default();
        while Instant::now() < end {
            self.load.appear(&relays);
            if random.chance(60) {
                routines.start(self.routine(random.pick::<&[&str]>(&ROUTINES)));
            }
            thread::park_timeout(Duration::from_millis(random.next() % 400));
            let mut dying = relays.remove(random.below(relays.len()));
            self.load.appear(&relays);
            dying.kill();
            figures.kills += 1;
            // Of a single relay, whatever is SENT now was in mid-call when it died.
            if relays.is_empty() && self.sent() > 0 {
                figures.kills_in_mid_call += 1;
            }
            routines.end();
            figures.routines_killed = routines.killed;
            figures.routines_ended = routines.ended;
            while relays.len() < 1 + usize::from(random.chance(30)) {
                relays.push(self.start_relay(random));
            }
        }
    }

    fn start_relay(&self, random: &mut Random) -> Process {
        let core = if random.chance(15) { &self.dead_core } else { &self.world.core };
        Process::start(&self.world.ledger, &core.url(), RELAY)
    }

    fn routine(&self, arguments: &[&str]) -> Command {
        quiet_routine(&self.world.ledger, &self.world.core.url(), arguments)
    }

    fn sent(&self) -> i64 {
        self.world.ledger.number("SELECT count(*) FROM tx WHERE state = 'SENT'")
    }

    fn settle(&self) {
        self.world.core.behave();
        let relay = self.world.process(&[]);
        self.load.ask_all(relay.at.tcp);
        Load::settle(&self.world.ledger, |arguments| self.routine(arguments), MIN_AGE);
        self.load.ask_all(relay.at.tcp);
    }

    fn check(&self) {
        let (books, look) = (self.world.core.books(), self.world.ledger.look());
        assert_eq!(self.load.verdict(&self.world.ledger, &books.effects), Verdict::default());
        for (guid, calls) in &books.calls {
            let attempts = look.find(guid).map(|row| row.attempts.unsigned_abs());
            assert!(attempts.is_none_or(|attempts| *calls <= attempts), "{guid}: {calls} calls");
        }
        assert!(LATE_MAX < Duration::from_secs(3), "--min-age exceeds the core's longest time");
    }
}
