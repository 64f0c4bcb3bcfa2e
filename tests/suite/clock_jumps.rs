//! Jumps of the wall clock: noted by whoever looks, in both ledgers alike, and counted out of every age.
//!
//! The story: a wall clock set forward by a minute or more made a fresh UNKNOWN old enough for resolve, a core that was still
//! working said "not found", and reprocess paid a second time.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::{Clock, SystemClock};
use oncegate::core_api::{Core, Inquiry, Transfer};
use oncegate::engine::age::Ages;
use oncegate::engine::orphans::Sweep;
use oncegate::engine::purge::Purge;
use oncegate::engine::relay::GivenUp;
use oncegate::engine::resolve::{Resolve, Summary};
use oncegate::engine::{Operator, Stop};
use oncegate::ledger::owner::LockFiles;
use oncegate::ledger::{ClockLook, ClockNote, Row};
use oncegate::state::State;
use oncegate::telegram::{Layout, Request};

use crate::ledgers::{Subject, id, owner};
use crate::support::channel::Telegram;
use crate::support::fake_time::FakeTime;
use crate::support::relays::{Process, World};
use crate::support::skip::skipped;
use crate::support::wait::wait_until;

const REQUEST: &[u8] = include_bytes!("../vectors/req_euckr.bin");
const MIN_AGE: i64 = 61;
const DAY: i64 = 86_400;

/// A core that has not got to it yet.
struct Working;

impl Core for Working {
    fn transfer(&self, _: &Request) -> Transfer {
        panic!("resolve sends nothing")
    }

    fn inquire(&self, _: &Request) -> Inquiry {
        Inquiry::Absent
    }
}

struct Scene(Subject);

impl Scene {
    /// A clock that has been looked at, and one row.
    fn with(subject: Subject, state: State) -> Scene {
        let scene = Scene(subject);
        scene.look();
        scene.put("G", state);
        scene
    }

    fn put(&self, guid: &str, state: State) {
        let row = self.0.row(guid, state, 1);
        self.0.put(&Row { request: REQUEST.to_vec(), ..row });
    }

    fn look(&self) -> Ages {
        Ages::look(&*self.0.ledger, &*self.0.clock, "test").unwrap()
    }

    fn jumps(&self) -> Vec<i64> {
        self.0.ledger.clock_notes().unwrap().iter().map(|note| note.seconds).collect()
    }

    /// The clock jumps by 100 s and somebody sees it: what he would note, and after which note.
    fn jump_and_look(&self, seen_by: &str) -> (ClockNote, ClockNote) {
        self.0.clock.jump(100);
        let look = ClockLook::at(&*self.0.clock);
        let notes = self.0.ledger.clock_notes().unwrap();
        let last = look.last(&notes);
        (look.note(last, seen_by).unwrap(), last.unwrap().clone())
    }

    fn operator() -> Operator {
        Operator { who: "op@host".to_owned(), reason: None }
    }

    fn resolve(&self) -> Summary {
        let layout = Layout::std128();
        let routine = Resolve {
            ledger: &*self.0.ledger,
            core: &Working,
            layout: &layout,
            clock: &*self.0.clock,
            min_age: TimeDelta::seconds(MIN_AGE),
            operator: Scene::operator(),
        };
        routine.run(&routine.plan(None).unwrap(), &Stop::default(), &mut |_| {})
    }

    fn purge(&self, days: i64) -> u64 {
        let routine = Purge {
            ledger: &*self.0.ledger,
            clock: &*self.0.clock,
            age: TimeDelta::days(days),
            operator: Scene::operator(),
        };
        routine.run(None, &Stop::default(), &mut |_| {}).unwrap()
    }

    fn sweep(&self) -> usize {
        let nowhere = tempfile::tempdir().unwrap();
        let sweep = Sweep {
            ledger: &*self.0.ledger,
            owners: &LockFiles::beside(&nowhere.path().join("l.db")),
            layout: &Layout::std128(),
            clock: &*self.0.clock,
            own: &owner("1-a-1"),
            given_up: &GivenUp::default(),
            orphan_after: TimeDelta::seconds(MIN_AGE),
        };
        sweep.run().unwrap().len()
    }
}

/// Each case on both ledgers.
fn each(state: State, case: impl Fn(&Scene)) {
    for subject in [Subject::memory(), Subject::sqlite()] {
        case(&Scene::with(subject, state));
    }
}

#[test]
fn a_jump_forward_makes_no_fresh_unknown_old_enough_to_be_asked_about() {
    each(State::Unknown, |scene| {
        scene.0.clock.jump(3_600);
        assert_eq!(scene.resolve().examined, 0);
        assert_eq!(scene.jumps(), [0, 3_600], "the routine itself has noted it");
        scene.0.clock.pass(MIN_AGE - 1);
        assert_eq!(scene.resolve().examined, 0);
        scene.0.clock.pass(3);
        assert_eq!(scene.resolve().failed, 1, "it waits for its true age and no longer");
    });
}

#[test]
fn a_row_that_the_plan_named_is_not_asked_about_if_the_plan_was_made_for_another_time() {
    each(State::Unknown, |scene| {
        scene.0.clock.pass(MIN_AGE);
        scene.0.clock.jump(100);
        scene.put("G", State::Unknown);
        assert_eq!(scene.resolve().examined, 0);
    });
}

#[test]
fn a_jump_forward_takes_no_claim_away() {
    each(State::Sent, |scene| {
        scene.0.clock.jump(2 * DAY);
        assert_eq!(scene.sweep(), 0);
        scene.0.clock.pass(MIN_AGE + 2);
        assert_eq!(scene.sweep(), 1);
    });
}

#[test]
fn a_jump_forward_purges_nothing_before_its_time() {
    each(State::Done, |scene| {
        scene.0.clock.jump(400 * DAY);
        scene.put("later", State::Done);
        assert_eq!(scene.purge(90), 0);
        scene.0.clock.pass(90 * DAY + 2);
        assert_eq!(scene.purge(90), 2);
    });
}

#[test]
fn after_a_jump_back_what_lies_in_the_future_ages_from_there_on_and_done_rows_stay_as_they_are() {
    each(State::Unknown, |scene| {
        scene.put("done", State::Done);
        let done = scene.0.get("done");
        scene.0.clock.jump(-2 * DAY);
        assert_eq!(scene.resolve().examined, 0);
        assert_eq!(scene.0.get("G").updated_at, scene.0.clock.text());
        assert_eq!(scene.0.get("done"), done, "a DONE row never changes");
        scene.0.clock.pass(MIN_AGE);
        assert_eq!(scene.resolve().failed, 1);
    });
}

#[test]
fn a_jump_that_is_taken_back_leaves_every_age_as_it_was() {
    each(State::Unknown, |scene| {
        scene.0.clock.jump(2 * DAY);
        scene.look();
        scene.put("between", State::Unknown);
        scene.0.clock.jump(-2 * DAY);
        scene.look();
        scene.0.clock.pass(MIN_AGE);
        assert_eq!(scene.resolve().failed, 2);
    });
}

#[test]
fn of_two_jumps_between_two_looks_the_rows_written_between_them_age_from_the_second_look() {
    // Found by the simulation: an hour forward, a row, a bit back. The row lay in the future of the one jump that was seen, so
    // a later jump forward made it old.
    each(State::Unknown, |scene| {
        scene.0.clock.jump(3_600);
        scene.put("between", State::Unknown);
        scene.0.clock.jump(-100);
        scene.look();
        assert_eq!(scene.0.get("between").updated_at, scene.0.clock.text());
        scene.0.clock.jump(2 * DAY);
        assert_eq!(scene.resolve().examined, 0);
        scene.0.clock.pass(MIN_AGE + 2);
        assert_eq!(scene.resolve().failed, 2);
    });
}

#[test]
fn a_clock_that_goes_steadily_is_noted_once_however_often_it_is_looked_at() {
    each(State::Unknown, |scene| {
        for _ in 0..5 {
            scene.0.clock.pass(1_000);
            scene.look();
        }
        // A time service's correction.
        scene.0.clock.jump(1);
        scene.look();
        assert_eq!(scene.jumps(), [0]);
        scene.0.clock.jump(1);
        scene.look();
        assert_eq!(scene.jumps(), [0, 2], "the sum of small ones counts");
    });
}

#[test]
fn of_two_who_see_the_same_jump_one_notes_it() {
    each(State::Unknown, |scene| {
        let ledger = &*scene.0.ledger;
        let (note, last) = scene.jump_and_look("first");
        assert_eq!(ledger.note_clock(&note, Some(&last)), Ok(true));
        assert_eq!(ledger.note_clock(&note, Some(&last)), Ok(false));
        assert_eq!(ledger.note_clock(&note, None), Ok(false));
        assert_eq!(scene.jumps(), [0, 100]);
        assert_eq!(ledger.clock_notes().unwrap()[1].seen_by, "first");
    });
}

/// Found by the simulation: a relay was frozen between its look at the clock and its note. Rows written meanwhile were "in the
/// future" of that look, were set back to its time, and so were old in the moment they were written.
#[test]
fn a_note_that_is_written_late_makes_no_row_older() {
    each(State::Unknown, |scene| {
        let (note, last) = scene.jump_and_look("frozen");
        scene.0.clock.pass(1_000);
        scene.put("fresh", State::Unknown);
        assert_eq!(scene.0.ledger.note_clock(&note, Some(&last)), Ok(true));
        assert_eq!(scene.0.get("fresh").updated_at, scene.0.clock.text());
        assert_eq!(scene.resolve().examined, 1, "the other one");
        assert_eq!(scene.0.get("fresh").state, State::Unknown);
    });
}

/// A clock whose reader is interrupted: while he holds what he has read, the clock jumps and somebody else notes it.
struct Interrupted<'a> {
    scene: &'a Scene,
    jump: AtomicI64,
}

impl Clock for Interrupted<'_> {
    fn now(&self) -> DateTime<Utc> {
        self.scene.0.clock.now()
    }

    fn monotonic(&self) -> Duration {
        let read = self.scene.0.clock.monotonic();
        let jump = self.jump.swap(0, Ordering::SeqCst);
        if jump != 0 {
            self.scene.0.clock.jump(jump);
            self.scene.look();
        }
        read
    }
}

/// Found by the simulation with the one before: who compared an old look with a newer note saw a jump back that never was.
#[test]
fn a_look_that_is_older_than_the_last_note_is_no_jump_back() {
    each(State::Unknown, |scene| {
        let clock = Interrupted { scene, jump: AtomicI64::new(100) };
        Ages::look(&*scene.0.ledger, &clock, "interrupted").unwrap();
        assert_eq!(scene.jumps(), [0, 100]);
    });
}

#[test]
fn both_ledgers_keep_the_same_notes() {
    let notes = [Subject::memory(), Subject::sqlite()].map(|subject| {
        let scene = Scene::with(subject, State::Sent);
        for jump in [5, -100, DAY, -7] {
            scene.0.clock.jump(jump);
            scene.0.clock.pass(10);
            scene.look();
        }
        (scene.0.ledger.clock_notes().unwrap(), scene.0.get("G").updated_at)
    });
    assert_eq!(notes[0], notes[1]);
    assert_eq!(
        notes[0].0.iter().map(|note| note.seconds).collect::<Vec<_>>(),
        [0, 5, -100, DAY, -7]
    );
}

#[test]
fn two_clocks_of_one_machine_read_the_same_uptime() {
    // Without that, each process would note its own beginning as a jump.
    let (first, second) = (SystemClock::new(), SystemClock::new());
    let scene = Scene(Subject::memory());
    for clock in [&first, &second] {
        Ages::look(&*scene.0.ledger, clock, "test").unwrap();
    }
    assert_eq!(scene.jumps(), [0]);
    assert_eq!(first.uptime().run, second.uptime().run);
    assert_eq!(scene.0.ledger.find(&id("G")).unwrap(), oncegate::ledger::Found::Nothing);
}

#[test]
fn a_running_relay_sees_its_machines_clock_jump_by_two_days_and_resolve_counts_without_it() {
    for jump in [2 * DAY, -2 * DAY] {
        let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
        let Some(time) = FakeTime::new(folder.path()) else {
            skipped("a jump of a real clock", "libfaketime is not installed");
            return;
        };
        let environment = time.environment();
        let mut relay = Process::start_in(&world.ledger, &world.core.url(), &[], &environment);
        let telegram = Telegram::new("FIN");
        assert_eq!(relay.at.code(&telegram), "E901");
        time.set(jump);
        let noted = "SELECT coalesce(sum(seconds), 0) FROM clock_jump";
        wait_until("a note of the jump by the relay", || {
            world.ledger.number(noted).abs_diff(jump) <= 1
        });
        let jumps = "SELECT count(*) FROM clock_jump WHERE seconds <> 0";
        assert_eq!(world.ledger.number(jumps), 1, "{}", relay.log());
        let resolve = |min_age| {
            let mut resolve = world.routine_command(&["resolve", "--min-age", min_age, "--json"]);
            let output = resolve.envs(time.environment()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let nothing = r#"{"summary":{"examined":0,"done":0,"failed":0,"left":0}}"#;
        assert_eq!(resolve("61").trim(), nothing, "{jump}");
        assert_eq!(world.ledger.number(jumps), 1, "resolve has seen the same jump");
        assert!(world.ledger.told(&telegram.guid).starts_with("UNKNOWN"));
        // And it ages: set back by two days, it would have been of the future for as long.
        wait_until("the row is settled", || {
            resolve("2");
            world.ledger.told(&telegram.guid) == "DONE 0000 1"
        });
        relay.kill();
    }
}
