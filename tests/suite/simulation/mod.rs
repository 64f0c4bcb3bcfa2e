//! Seeded lives of the whole engine: channels, two relays, operators, a core that is late or lost, clocks that jump, crashes
//! before and after any ledger or core call. One generator decides everything, so a seed is a life.
//!
//! How blocking code is interleaved without threads: each call of the ledger and of the core is a point at which others act
//! first and afterwards: whole operations of theirs, in which others act in turn, some levels deep. A process that dies at a
//! point takes all its calls with it, those further out on the stack too.
//!
//! - [`stage`]: time, processes, who acts when
//! - [`actor`]: ledger and core as a process sees them
//! - [`books`]: the core
//! - [`watch`]: design.md's invariants, checked after every step
//! - [`life`]: what is done at all, and how it ends: everything settles
//! - [`mutants`]: engines with one guard less, each of which must be caught
//!
//! `ONCEGATE_LIFE=seed cargo test a_life_again -- --nocapture` tells one life; `ONCEGATE_LIVES=n` sets how many are lived.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::Arc;

use crate::ledgers::{empty_ledger, scratch};
use crate::support::random::Random;
use oncegate::clock::Clock;
use oncegate::ledger::Ledger;
use oncegate::ledger::memory::MemoryLedger;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};

mod actor;
mod books;
mod life;
mod mutants;
mod stage;
mod watch;

use life::live;
use mutants::Mutant;
use stage::{SimClock, Stage};

/// Lives on the memory ledger in a run of the suite.
const LIVES: u64 = 2_000;
/// Lives on SQLite: each of its commits is a real one.
const SQLITE_LIVES: u64 = 40;
/// Within so many lives a mutant must be caught.
const MUTANT_LIVES_MAX: u64 = 1_000;

/// Seeds of lives that once failed, with the story in a line. They are lived first for ever. A seed is a life only as long as
/// the generator asks the same questions, so each story is also a test of its own: of two jumps between two looks tells
/// `clock_jumps::of_two_jumps_between_two_looks_the_rows_written_between_them_age_from_the_second_look`, of a row that was given up
/// and then forgotten `orphans::a_row_that_was_given_up_and_changed_between_look_and_write_is_taken_the_next_time`, of a relay that was
/// frozen before its note of the clock `clock_jumps::a_note_that_is_written_late_makes_no_row_older`.
const FAILED_ONCE: &[u64] = &[2_920_000_276_216_106_968, 10_535_415_112_320_336_411];

/// How a life went wrong, and all that happened in it.
struct Failure {
    seed: u64,
    wrong: String,
    log: Vec<String>,
}

impl Failure {
    fn tell(&self) -> String {
        let Failure { seed, wrong, log } = self;
        format!("ONCEGATE_LIFE={seed}\n{}\n{wrong}", log.join("\n"))
    }
}

fn on_memory(seed: u64, mutant: Option<Mutant>) -> Result<Stage, Box<Failure>> {
    let clock = Arc::new(SimClock::new());
    let memory = Arc::new(MemoryLedger::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let ledgers = [Arc::clone(&memory) as Arc<dyn Ledger>, Arc::clone(&memory) as Arc<dyn Ledger>];
    live(Stage::new(seed, clock, ledgers, mutant.map(|mutant| (mutant, memory))))
}

fn on_sqlite(seed: u64) -> Result<Stage, Box<Failure>> {
    let (clock, dir) = (Arc::new(SimClock::new()), scratch());
    let path = empty_ledger(dir.path());
    let ledgers = [(); 2].map(|()| {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        let opened = SqliteLedger::open(&path, Access::Routine, clock, Hooks::default());
        Arc::new(opened.unwrap().0) as Arc<dyn Ledger>
    });
    live(Stage::new(seed, clock, ledgers, None))
}

/// The mutants' names, for docs/guards.md.
pub fn mutant_names() -> Vec<String> {
    Mutant::ALL.iter().map(|mutant| format!("{mutant:?}")).collect()
}

fn lives(default: u64) -> u64 {
    let given = std::env::var("ONCEGATE_LIVES").ok();
    given.map_or(default, |lives| lives.parse().expect("ONCEGATE_LIVES is a number"))
}

/// Lives them all; what came of it in numbers.
fn live_all(
    test: &str,
    lives: u64,
    one: impl Fn(u64) -> Result<Stage, Box<Failure>>,
) -> stage::Figures {
    let mut seeds = Random::seeded(test);
    let fresh = (0..lives).map(|_| seeds.next());
    let mut sum = stage::Figures::default();
    for seed in FAILED_ONCE.iter().copied().chain(fresh) {
        let stage = one(seed).unwrap_or_else(|failure| panic!("{}", failure.tell()));
        sum.add(&stage.figures());
    }
    println!("{test}: {lives} lives, {sum:?}");
    sum
}

#[test]
fn thousands_of_lives_on_the_memory_ledger_pay_nothing_twice_and_settle_everything() {
    let lives = lives(LIVES);
    let sum = live_all("simulation", lives, |seed| on_memory(seed, None));
    // A simulator in which nothing happens finds nothing.
    for (what, n) in sum.kinds() {
        assert!(n > lives / 1_000, "only {n} {what} in {lives} lives");
    }
}

#[test]
fn dozens_of_lives_on_sqlite_do_too() {
    live_all("simulation on SQLite", lives(SQLITE_LIVES).min(SQLITE_LIVES * 100), on_sqlite);
}

#[test]
fn a_life_on_sqlite_is_the_same_as_on_the_memory_ledger() {
    let mut seeds = Random::seeded("same life");
    for _ in 0..5 {
        let seed = seeds.next();
        let (memory, sqlite) = (on_memory(seed, None), on_sqlite(seed));
        let logs =
            [memory, sqlite].map(|life| life.unwrap_or_else(|f| panic!("{}", f.tell())).log());
        assert_eq!(logs[0], logs[1], "ONCEGATE_LIFE={seed}");
    }
}

#[test]
fn each_engine_with_one_guard_less_is_caught() {
    let mut escaped = Vec::new();
    for mutant in Mutant::ALL.iter().copied() {
        let mut seeds = Random::of(1);
        let caught = (1..=MUTANT_LIVES_MAX)
            .find_map(|n| on_memory(seeds.next(), Some(mutant)).err().map(|failure| (n, failure)));
        match caught {
            Some((n, failure)) => {
                println!("{mutant:?}: life {n} ({}): {}", failure.seed, failure.wrong);
            }
            None => escaped.push(mutant),
        }
    }
    assert_eq!(escaped, [], "not caught within {MUTANT_LIVES_MAX} lives");
}

#[test]
fn a_life_again() {
    let Ok(seed) = std::env::var("ONCEGATE_LIFE") else { return };
    match on_memory(seed.parse().expect("ONCEGATE_LIFE is a seed"), None) {
        Ok(stage) => println!("{}", stage.log().join("\n")),
        Err(failure) => panic!("{}", failure.tell()),
    }
}
