//! Every kill point: the real program is killed at each write, sync, connect, send, receive and change of a directory of a scripted
//! life, and its disk refuses each write and each sync with EIO and with ENOSPC. After each harm the next life must make
//! everything good: nothing is paid twice, what was told done is there, every row is settled, each event has its effect once.
//!
//! Without a word a sample is taken. `ONCEGATE_KILL_POINTS=all` takes every point, `ONCEGATE_KILL_POINTS=Relay` those of one life;
//! `ONCEGATE_KILL_POINT="Relay Kill at fdatasync 7"`, as a failure names it, takes that one.

mod lives;
mod stage;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::crooked_core::CrookedCore;
use crate::support::random::Random;
use crate::support::skip::skipped;
use crate::support::strace::{self, Point};
use lives::Life;
use stage::Stage;

/// How many points a sample has.
const SAMPLE: usize = 220;

/// Points that have found something. A new ledger was linked to its name although SQLite had failed to move its pages out of the
/// log, which closing keeps silent about: "database disk image is malformed", for ever.
const FOUND: [&str; 2] = ["NewRelay Eio at pwrite64 41", "NewRelay Eio at pwrite64 46"];

/// Lives at the same time: each is mostly waiting for a process to start.
const WORKERS: usize = 2;

#[derive(Default)]
struct Sums {
    /// Points by life and harm, and how many of them were met.
    met: BTreeMap<String, (usize, usize)>,
    failed: Vec<String>,
}

#[test]
fn harmed_at_any_system_call_the_program_pays_nothing_twice_and_the_next_life_settles_all() {
    if !strace::works() {
        skipped("all kill points", "no strace, or no ptrace, on this machine");
        return;
    }
    let begun = Instant::now();
    let all: Vec<(Life, Point)> = Life::ALL.into_iter().flat_map(points_of).collect();
    let chosen = choose(&all);
    println!("{} points, {} of them are tried", all.len(), chosen.len());
    let (queue, sums) = (Mutex::new(VecDeque::from(chosen)), Mutex::new(Sums::default()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&queue, &sums));
        }
    });
    let sums = sums.into_inner().expect("no panic under this lock");
    for (what, (points, met)) in &sums.met {
        println!("{what}: {points} points, {met} met");
    }
    println!("{} failed, {:.0} s", sums.failed.len(), begun.elapsed().as_secs_f64());
    assert!(sums.failed.is_empty(), "ONCEGATE_KILL_POINT= one of {:#?}", sums.failed);
    assert!(sums.met.values().any(|(_, met)| *met > 0), "no point was met");
}

/// The points of a life that nothing harms, which also has to end well.
fn points_of(life: Life) -> Vec<(Life, Point)> {
    let core = core();
    let mut stage = Stage::new(&core);
    let log = stage.file("strace.txt");
    life.live(&mut stage, &strace::counting(&log));
    let log = std::fs::read_to_string(log).expect("strace has written");
    let (points, calls) = strace::points(&log, stage.folder.path());
    println!("{life:?}: {calls} calls, {} points", points.len());
    points.into_iter().map(|point| (life, point)).collect()
}

fn core() -> CrookedCore {
    CrookedCore::start(Duration::from_millis(200))
}

fn choose(all: &[(Life, Point)]) -> Vec<(Life, Point)> {
    let named = |name: &str| std::env::var(name).unwrap_or_default();
    let (one, some) = (named("ONCEGATE_KILL_POINT"), named("ONCEGATE_KILL_POINTS"));
    if !one.is_empty() {
        return all.iter().filter(|point| told(point) == one).cloned().collect();
    }
    match some.as_str() {
        "" => sample(all),
        "all" => all.to_vec(),
        life => all.iter().filter(|(of, _)| format!("{of:?}") == life).cloned().collect(),
    }
}

/// One of every few, at random: each life and each harm has its share. And what has ever failed.
fn sample(all: &[(Life, Point)]) -> Vec<(Life, Point)> {
    let mut random = Random::seeded("kill points");
    let few = (all.len() / SAMPLE).max(1);
    let mut chosen: Vec<_> = all.chunks(few).map(|few| random.pick(few).clone()).collect();
    chosen.extend(all.iter().filter(|point| FOUND.contains(&&*told(point))).cloned());
    chosen
}

fn told((life, point): &(Life, Point)) -> String {
    format!("{life:?} {point}")
}

fn work(queue: &Mutex<VecDeque<(Life, Point)>>, sums: &Mutex<Sums>) {
    let core = core();
    loop {
        let Some(next) = queue.lock().expect("no panic under this lock").pop_front() else {
            return;
        };
        // A panic is a point that failed; the others are tried all the same.
        let tried = catch_unwind(AssertUnwindSafe(|| try_point(&core, &next)));
        let mut sums = sums.lock().expect("no panic under this lock");
        let sum = sums.met.entry(format!("{:?} {:?}", next.0, next.1.harm)).or_default();
        sum.0 += 1;
        match tried {
            Ok(met) => sum.1 += usize::from(met),
            Err(_) => sums.failed.push(told(&next)),
        }
    }
}

/// Whether the harm was done: a life may be shorter than the one that was counted.
fn try_point(core: &CrookedCore, (life, point): &(Life, Point)) -> bool {
    let mut stage = Stage::new(core);
    let log = stage.file("strace.txt");
    life.live(&mut stage, &strace::harming(point, &log));
    strace::was_met(point, &log)
}
