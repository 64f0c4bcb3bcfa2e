//! Time, processes, and who acts when. Everything that happens is decided here by one generator.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use oncegate::clock::{Clock, Uptime};
use oncegate::engine::gate::Gate;
use oncegate::engine::relay::GivenUp;
use oncegate::guid::Guid;
use oncegate::ledger::memory::MemoryLedger;
use oncegate::ledger::owner::{Fate, Owners};
use oncegate::ledger::{Found, Ledger, LedgerError, OwnerId, Query};
use oncegate::state::State;
use oncegate::telegram::Layout;

use super::books::Books;
use super::mutants::Mutant;
use super::watch::Watch;
use crate::support::random::Random;

/// How deep others act while somebody waits for others: enough for a pause within a pause within a call.
const DEPTH_MAX: usize = 3;
/// Acts of one life in all: bounds what nests.
const ACTS_MAX: usize = 400;

/// A lock that survives a death: processes die by unwinding.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moved by hand: time passes, the wall clock jumps, the machine starts anew.
pub struct SimClock(Mutex<Times>);

struct Times {
    passed_s: u64,
    jumped_s: i64,
    run: u32,
}

impl SimClock {
    pub fn new() -> SimClock {
        SimClock(Mutex::new(Times { passed_s: 1_000_000, jumped_s: 0, run: 1 }))
    }

    fn pass(&self, seconds: u64) {
        lock(&self.0).passed_s += seconds;
    }

    fn jump(&self, seconds: i64) {
        lock(&self.0).jumped_s += seconds;
    }

    /// True time, which nobody else can see.
    fn passed_s(&self) -> u64 {
        lock(&self.0).passed_s
    }
}

impl Clock for SimClock {
    fn now(&self) -> DateTime<Utc> {
        let times = lock(&self.0);
        let passed = i64::try_from(times.passed_s).expect("a life is short");
        DateTime::from_timestamp(1_785_000_000 + passed + times.jumped_s, 0).expect("a date")
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(lock(&self.0).passed_s)
    }

    fn uptime(&self) -> Uptime {
        let times = lock(&self.0);
        // Each run counts from elsewhere.
        let since = Duration::from_secs(times.passed_s - u64::from(times.run) * 1_000);
        Uptime { run: format!("run {}", times.run), since }
    }
}

/// The payload with which a process dies.
struct Died;

/// Ends the calling process, as kill -9 does.
pub fn die() -> ! {
    // Past the panic hook: it is no panic.
    resume_unwind(Box::new(Died))
}

/// A process: a relay, or a routine.
#[derive(Clone)]
pub struct Process {
    /// Its place in the list of all that ever were.
    pub id: usize,
    pub owner: OwnerId,
    /// Of a relay.
    pub gate: Arc<Gate>,
    pub given_up: Arc<GivenUp>,
    /// Which of the two handles of the ledger it has.
    pub ledger: Arc<dyn Ledger>,
}

/// How much of everything happened.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<&'static str, u64>);

impl Figures {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Figures) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, n)| (*what, *n))
    }
}

/// What holds of orphans in a life: the two families of docs/guards.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// Each owner's lock can be asked; a process may pause for ever between claim and call.
    ByProof,
    /// No lock can be asked (the ledger was copied here), so age decides; nobody pauses between claim and call.
    ByAge,
}

/// The world of one life.
pub struct Stage {
    pub seed: u64,
    pub orphans: Orphans,
    pub clock: Arc<SimClock>,
    pub layout: Layout,
    pub mutant: Option<Mutant>,
    /// Where a mutant writes what no ledger would.
    pub memory: Option<Arc<MemoryLedger>>,
    pub books: Mutex<Books>,
    pub watch: Mutex<Watch>,
    pub slots: Mutex<[Option<Process>; 2]>,
    ledgers: [Arc<dyn Ledger>; 2],
    random: Mutex<Random>,
    log: Mutex<Vec<String>>,
    figures: Mutex<Figures>,
    /// Whether each process lives.
    living: Mutex<Vec<bool>>,
    locks: Mutex<BTreeMap<String, Fate>>,
    turn: Mutex<Turn>,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each holds or not at any time")]
struct Turn {
    depth: usize,
    acts: usize,
    /// No more faults and nobody in between: the end, where everything settles.
    calm: bool,
    /// Somebody has looked at the clock in this run of the machine: from now on jumps are seen.
    looked: bool,
    /// The clock has jumped, and nobody has looked since.
    unseen: bool,
    /// Who calls next dies while it waits.
    doomed: bool,
}

impl Stage {
    pub fn new(
        seed: u64,
        clock: Arc<SimClock>,
        ledgers: [Arc<dyn Ledger>; 2],
        mutant: Option<(Mutant, Arc<MemoryLedger>)>,
    ) -> Stage {
        let (mutant, memory) = mutant.unzip();
        let mut random = Random::of(seed);
        let orphans = if random.chance(40) { Orphans::ByAge } else { Orphans::ByProof };
        Stage {
            seed,
            orphans,
            clock,
            layout: Layout::std128(),
            mutant,
            memory,
            books: Mutex::default(),
            watch: Mutex::new(Watch::new()),
            slots: Mutex::default(),
            ledgers,
            random: Mutex::new(random),
            log: Mutex::default(),
            figures: Mutex::default(),
            living: Mutex::default(),
            locks: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    /// The ledger itself, without anybody in between.
    pub fn truth(&self) -> &dyn Ledger {
        &*self.ledgers[0]
    }

    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    // ---- chance

    pub fn below(&self, end: usize) -> usize {
        lock(&self.random).below(end)
    }

    /// True in `permille` of 1,000 cases; never at the end of a life.
    pub fn chance(&self, permille: usize) -> bool {
        self.below(1_000) < permille && !self.is_calm()
    }

    pub fn is_calm(&self) -> bool {
        lock(&self.turn).calm
    }

    pub fn calm_down(&self) {
        lock(&self.turn).calm = true;
    }

    // ---- the log

    pub fn tell(&self, what: &str) {
        let depth = lock(&self.turn).depth;
        let line = format!("{:>7} {}{what}", self.clock.passed_s(), "  ".repeat(depth));
        lock(&self.log).push(line);
    }

    pub fn count(&self, what: &'static str) {
        lock(&self.figures).count(what);
    }

    pub fn log(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    pub fn figures(&self) -> Figures {
        lock(&self.figures).clone()
    }

    // ---- time

    /// Time passes, and the core works.
    pub fn pass(&self, seconds: u64) {
        self.clock.pass(seconds);
        let wrong = lock(&self.books).work(self.clock.passed_s());
        self.wrong(wrong);
    }

    pub fn now_s(&self) -> u64 {
        self.clock.passed_s()
    }

    /// The wall clock is set, once between two looks: other jumps are outside of what is promised (see `engine::age`).
    pub fn jump(&self, seconds: i64) {
        let turn = lock(&self.turn);
        if !turn.looked || turn.unseen {
            return;
        }
        drop(turn);
        self.tell(&format!("the wall clock jumps {seconds} s"));
        self.count("jumps");
        self.clock.jump(seconds);
        lock(&self.turn).unseen = true;
    }

    pub fn doom(&self, doomed: bool) {
        lock(&self.turn).doomed = doomed;
    }

    pub fn take_doom(&self) -> bool {
        std::mem::take(&mut lock(&self.turn).doomed)
    }

    pub fn looked(&self) {
        let mut turn = lock(&self.turn);
        (turn.looked, turn.unseen) = (true, false);
    }

    // ---- what went wrong

    pub fn wrong(&self, wrong: impl IntoIterator<Item = String>) {
        for wrong in wrong {
            self.tell(&format!("WRONG: {wrong}"));
            lock(&self.watch).wrong.push(wrong);
        }
    }

    pub fn is_wrong(&self) -> Option<String> {
        lock(&self.watch).wrong.first().cloned()
    }

    /// Looks at every row, after a step.
    pub fn check(&self, what: &str) {
        let wrong = lock(&self.watch).step(self.truth());
        self.wrong(wrong.into_iter().map(|wrong| format!("{what}: {wrong}")));
    }

    // ---- processes

    /// A new process; it locks its owner's file first.
    pub fn start(&self, which_ledger: usize) -> Process {
        let id = lock(&self.living).len();
        lock(&self.living).push(true);
        let pid = u32::try_from(id).expect("a life is short");
        let owner = OwnerId::new(pid, self.clock.now(), 0);
        lock(&self.locks).insert(owner.to_string(), Fate::Alive);
        let (gate, given_up) = (Gate::new(3), Arc::new(GivenUp::default()));
        Process { id, owner, gate, given_up, ledger: Arc::clone(&self.ledgers[which_ledger]) }
    }

    pub fn is_dead(&self, id: usize) -> bool {
        !lock(&self.living)[id]
    }

    /// A process ends, somehow: its lock is free.
    pub fn kill(&self, process: &Process) {
        lock(&self.living)[process.id] = false;
        lock(&self.locks).insert(process.owner.to_string(), Fate::Dead);
    }

    /// A routine ends in order: it removes its lock's file, unless a claim of its is left.
    pub fn leave(&self, process: &Process) {
        self.kill(process);
        let sent = self.truth().page(&Query::of(&[State::Sent])).unwrap_or_default();
        if sent.iter().all(|row| row.owner.as_ref() != Some(&process.owner)) {
            lock(&self.locks).remove(process.owner.as_str());
        }
    }

    /// The machine loses its power: all die, and a new run begins. Not with a jump that nobody has seen: that one is lost then.
    pub fn reboot(&self) {
        if lock(&self.turn).unseen {
            return;
        }
        self.tell("the machine starts anew");
        self.count("reboots");
        lock(&self.living).fill(false);
        for fate in lock(&self.locks).values_mut() {
            *fate = Fate::Dead;
        }
        *lock(&self.slots) = [None, None];
        lock(&self.clock.0).run += 1;
        lock(&self.turn).looked = false;
    }

    /// Runs what a process does; none if it dies meanwhile. Everything else that panics is a finding.
    pub fn within<T>(&self, process: &Process, run: impl FnOnce() -> T) -> Option<T> {
        let depth = lock(&self.turn).depth;
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => Some(value),
            Err(panic) if panic.is::<Died>() => {
                lock(&self.turn).depth = depth;
                self.tell(&format!("process {} is dead", process.id));
                None
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    // ---- whose turn it is

    /// Whether somebody else acts now, while a process is at one of its calls.
    pub fn somebody_else(&self) -> bool {
        let depth = lock(&self.turn).depth;
        let permille = [0, 160, 90, 50].get(depth).copied().unwrap_or(0);
        depth <= DEPTH_MAX && self.chance(permille) && self.is_wrong().is_none()
    }

    /// One more act, a level deeper; false if the life is long enough.
    pub fn enter(&self) -> bool {
        let mut turn = lock(&self.turn);
        if turn.acts >= ACTS_MAX {
            return false;
        }
        turn.acts += 1;
        turn.depth += 1;
        true
    }

    pub fn exit(&self) {
        lock(&self.turn).depth -= 1;
    }

    pub fn row(&self, guid: &Guid) -> Result<Found, LedgerError> {
        self.truth().find(guid)
    }
}

/// The owners' locks, as a sweep sees them.
pub struct SimOwners(pub Arc<Stage>);

impl Owners for SimOwners {
    fn fate(&self, owner: &OwnerId) -> io::Result<Fate> {
        if self.0.is(Mutant::SweepTakesFromTheLiving) {
            return Ok(Fate::Dead);
        }
        if self.0.is(Mutant::SweepGoesByAgeAlone) || self.0.orphans == Orphans::ByAge {
            return Ok(Fate::NoLock);
        }
        Ok(lock(&self.0.locks).get(owner.as_str()).copied().unwrap_or(Fate::NoLock))
    }

    fn forget(&self, owner: &OwnerId) -> io::Result<()> {
        lock(&self.0.locks).remove(owner.as_str());
        Ok(())
    }

    fn all(&self) -> io::Result<Vec<OwnerId>> {
        Ok(lock(&self.0.locks).keys().cloned().map(OwnerId::from_ledger).collect())
    }
}
