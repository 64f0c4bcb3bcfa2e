//! Model = code: the same random commands to the memory ledger and to SQLite get the same verdicts and leave the same tables,
//! and no row ever goes a way that is not in the table of transitions.
//!
//! A case that failed is kept in `ledger_model.seeds` and run first for ever.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use chrono::TimeDelta;
use oncegate::clock::Clock as _;
use oncegate::code::{Code, CoreCode};
use oncegate::guid::{Attempt, Guid};
use oncegate::ledger::{
    CallResult, Cause, Claim, ClaimFailed, ClockNote, Found, Ledger, OnlyFailed, Orphan, Place,
    Purge, Query, Row, Settled,
};
use oncegate::state::{Event, State, TRANSITIONS};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::FileFailurePersistence;

use crate::ledgers::{Subject, again, claim, id, orphan, owner, record, settle, trail};

const GUIDS: [&str; 5] = ["A", "AB", "a~", "각1", "\u{10ffff}"];
const OWNERS: [&str; 2] = ["1-a-1", "2-b-1"];
const RUNS: [&str; 2] = ["boot-a", "boot-b"];
const STEPS_MAX: usize = 60;

#[derive(Clone, Debug)]
enum Command {
    Claim {
        guid: &'static str,
        owner: &'static str,
    },
    ClaimFailed {
        guid: &'static str,
        owner: &'static str,
        only: Option<(i64, i64)>,
    },
    Record {
        guid: &'static str,
        attempt: i64,
        result: CallResult,
    },
    Settle {
        guid: &'static str,
        attempt: i64,
        result: Settled,
    },
    /// Looks for orphans; what it saw may be old when it is swept.
    Look,
    Sweep,
    Purge {
        guids: Vec<&'static str>,
        age: i64,
    },
    /// Another program writes.
    Put {
        guid: &'static str,
        state: State,
        attempt: i64,
        owner: Option<&'static str>,
    },
    Pass {
        seconds: i64,
    },
    /// Notes the clock, after a look at the notes that may be old; `ms` from now.
    NoteClock {
        fresh: bool,
        run: &'static str,
        ms: i64,
        seconds: i64,
        ahead_ms: i64,
    },
    Page(Wish),
}

#[derive(Clone, Debug)]
struct Wish {
    states: Vec<State>,
    age: Option<i64>,
    prefix: Option<&'static str>,
    guids: Option<Vec<&'static str>>,
    after: Option<(i64, &'static str)>,
    rows_max: usize,
}

fn command() -> impl Strategy<Value = Command> {
    let guid = || select(&GUIDS[..]);
    let owner = || select(&OWNERS[..]);
    let attempt = || 0_i64..4;
    let core = Code::Core(CoreCode::parse("K042").unwrap());
    let result = select(vec![
        CallResult::Definite(Code::Done),
        CallResult::Definite(core),
        CallResult::Open,
        CallResult::NotSent,
        CallResult::NotSent,
    ]);
    let settled = select(vec![Settled::Known, Settled::Absent]);
    let states = || subsequence(State::ALL.to_vec(), 1..=State::ALL.len());
    let guids = || vec(guid(), 0..4);
    let wish = (
        states(),
        option::of(-2_i64..4),
        option::of(select(vec!["", "A", "a", "각", "\u{10ffff}", "z"])),
        option::of(guids()),
        option::of((0_i64..4, guid())),
        1_usize..7,
    );
    prop_oneof![
        5 => (guid(), owner()).prop_map(|(guid, owner)| Command::Claim { guid, owner }),
        4 => (guid(), owner(), option::of((0_i64..5, attempt())))
            .prop_map(|(guid, owner, only)| Command::ClaimFailed { guid, owner, only }),
        8 => (guid(), attempt(), result)
            .prop_map(|(guid, attempt, result)| Command::Record { guid, attempt, result }),
        4 => (guid(), attempt(), settled)
            .prop_map(|(guid, attempt, result)| Command::Settle { guid, attempt, result }),
        1 => Just(Command::Look),
        2 => Just(Command::Sweep),
        2 => (guids(), -1_i64..4).prop_map(|(guids, age)| Command::Purge { guids, age }),
        2 => (guid(), select(&State::ALL[..]), attempt(), option::of(owner())).prop_map(
            |(guid, state, attempt, owner)| Command::Put { guid, state, attempt, owner }
        ),
        2 => (-1_i64..4).prop_map(|seconds| Command::Pass { seconds }),
        3 => (any::<bool>(), select(&RUNS[..]), -2_500_i64..1_500, -2_i64..3, 0_i64..3).prop_map(
            |(fresh, run, ms, seconds, ahead_ms)| {
                Command::NoteClock { fresh, run, ms, seconds, ahead_ms }
            }
        ),
        3 => wish.prop_map(|(states, age, prefix, guids, after, rows_max)| {
            Command::Page(Wish { states, age, prefix, guids, after, rows_max })
        }),
    ]
}

fn ids(guids: &[&str]) -> Vec<Guid> {
    guids.iter().map(|guid| id(guid)).collect()
}

/// One ledger, and what was seen of its orphans and its notes on the clock.
struct Life {
    subject: Subject,
    seen: Vec<Orphan>,
    noted: Vec<ClockNote>,
}

impl Life {
    fn new(subject: Subject) -> Life {
        Life { subject, seen: Vec::new(), noted: Vec::new() }
    }

    fn ledger(&self) -> &dyn Ledger {
        &*self.subject.ledger
    }

    /// Does it; the verdict in words.
    fn run(&mut self, command: &Command) -> String {
        let ago = |seconds| self.subject.clock.now() - TimeDelta::seconds(seconds);
        match command {
            Command::Claim { guid, owner: by } => {
                let claim = Claim { owner: owner(by), ..claim(guid) };
                format!("{:?}", self.ledger().claim(&claim))
            }
            Command::ClaimFailed { guid, owner: by, only } => {
                let only = only.map(|(attempts_below, attempt)| OnlyFailed {
                    attempts_below,
                    attempt: Attempt(attempt),
                });
                let claim = ClaimFailed { owner: owner(by), only, ..again(guid) };
                format!("{:?}", self.ledger().claim_failed(&claim))
            }
            Command::Record { guid, attempt, result } => {
                format!("{:?}", self.ledger().record(&record(guid, *attempt, *result)))
            }
            Command::Settle { guid, attempt, result } => {
                format!("{:?}", self.ledger().settle(&settle(guid, *attempt, *result)))
            }
            Command::Look => {
                let page = self.ledger().page(&Query::of(&[State::Sent, State::Received])).unwrap();
                self.seen = page.iter().map(orphan).collect();
                self.noted = self.ledger().clock_notes().unwrap();
                format!("{page:?} {:?}", self.noted)
            }
            Command::Sweep => format!("{:?}", self.ledger().sweep_orphans(&self.seen)),
            Command::Purge { guids, age } => {
                let trail = trail(Cause::Purge);
                let purge = Purge { cutoff: ago(*age), guids: ids(guids), trail };
                let mut due = self.ledger().purgeable(ago(*age), None).unwrap();
                due.0.sort();
                format!("{due:?} {:?}", self.ledger().purge_batch(&purge))
            }
            Command::Put { guid, state, attempt, owner: by } => {
                let row = self.subject.row(guid, *state, *attempt);
                self.subject.put(&Row { owner: by.map(owner), ..row });
                String::new()
            }
            Command::Pass { seconds } => {
                self.subject.clock.pass(*seconds);
                String::new()
            }
            Command::NoteClock { fresh, run, ms, seconds, ahead_ms } => {
                if *fresh {
                    self.noted = self.ledger().clock_notes().unwrap();
                }
                let note = ClockNote {
                    at: self.subject.clock.now() + TimeDelta::milliseconds(*ms),
                    seconds: *seconds,
                    run: (*run).to_owned(),
                    ahead_ms: *ahead_ms,
                    seen_by: "1-a-1".to_owned(),
                };
                let after = self.noted.iter().rev().find(|note| note.run == *run);
                format!("{:?}", self.ledger().note_clock(&note, after))
            }
            Command::Page(wish) => self.page(wish),
        }
    }

    fn page(&self, wish: &Wish) -> String {
        let ago = |seconds| self.subject.clock.now() - TimeDelta::seconds(seconds);
        let query = Query {
            states: wish.states.clone(),
            until: wish.age.map(ago),
            guid_prefix: wish.prefix.map(str::to_owned),
            guids: wish.guids.as_deref().map(ids),
            after: wish.after.map(|(age, guid)| Place {
                updated_at: oncegate::ledger::ledger_time(ago(age)),
                guid: id(guid),
            }),
            rows_max: wish.rows_max,
        };
        format!("{:?} {:?}", self.ledger().page(&query), self.ledger().outline(&query))
    }

    /// Everything that there is.
    fn tables(&self) -> String {
        let rows = self.ledger().page(&Query::of(&State::ALL)).unwrap();
        let real = State::ALL.map(|s| rows.iter().filter(|row| row.state == s).count() as u64);
        let counts = self.ledger().counts().unwrap();
        assert_eq!(counts.rows, real, "the counts are those of the rows");
        let each = GUIDS.map(|guid| {
            let found = self.ledger().find(&id(guid)).unwrap();
            // Ids are a ledger's own; the order and the words are not.
            let lines = self.ledger().history(&id(guid)).unwrap();
            let words = lines.into_iter().map(|mut line| {
                line.id = 0;
                line
            });
            format!("{found:?} {:?}", words.collect::<Vec<_>>())
        });
        format!("{counts:?} {each:?} {:?}", self.ledger().clock_notes())
    }

    fn found(&self) -> [Found; GUIDS.len()] {
        GUIDS.map(|guid| self.ledger().find(&id(guid)).unwrap())
    }
}

/// The events that a command may be for a row.
fn events(command: &Command) -> &'static [Event] {
    match command {
        Command::Claim { .. } | Command::ClaimFailed { .. } => &[Event::Claim],
        Command::Record { result, .. } => match result {
            CallResult::Definite(_) => &[Event::Result],
            CallResult::Open => &[Event::NoResult],
            CallResult::NotSent => &[Event::NotSent],
        },
        Command::Settle { result: Settled::Known, .. } => &[Event::InquiryKnown],
        Command::Settle { result: Settled::Absent, .. } => &[Event::InquiryAbsent],
        Command::Sweep => &[Event::Orphaned],
        Command::Purge { .. } => &[Event::Purge],
        Command::Look
        | Command::Put { .. }
        | Command::Pass { .. }
        | Command::NoteClock { .. }
        | Command::Page(_) => &[],
    }
}

fn state(found: &Found) -> Option<State> {
    match found {
        Found::Row(row) => Some(row.state),
        Found::Nothing | Found::Purged => None,
    }
}

/// A row that is not done, and no longer changed in the future; else it is as it was.
fn is_mended(from: &Found, to: &Found) -> bool {
    let (Some(from), Some(to)) = (from.row(), to.row()) else { return false };
    let earlier = to.updated_at < from.updated_at && from.state != State::Done;
    earlier && Row { updated_at: from.updated_at.clone(), ..to.clone() } == *from
}

/// Every row that changed went a way that the table has.
fn check_ways(command: &Command, before: &[Found], after: &[Found]) {
    if matches!(command, Command::Put { .. }) {
        return;
    }
    for (from, to) in before.iter().zip(after).filter(|(from, to)| from != to) {
        if matches!(command, Command::NoteClock { .. }) {
            assert!(is_mended(from, to), "{command:?} made {to:?} of {from:?}");
            continue;
        }
        let allowed = TRANSITIONS.iter().any(|(known_from, event, known_to)| {
            events(command).contains(event) && *known_from == state(from) && *known_to == state(to)
        });
        assert!(allowed, "{command:?} led from {from:?} to {to:?}");
        assert_ne!(*from, Found::Purged, "{command:?}: a purged GUID stays purged");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/suite/ledger_model.seeds",
        ))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_ledgers_live_the_same_life(commands in vec(command(), 1..STEPS_MAX)) {
        let mut model = Life::new(Subject::memory());
        let mut code = Life::new(Subject::sqlite());
        for (step, command) in commands.iter().enumerate() {
            let before = code.found();
            let verdicts = (model.run(command), code.run(command));
            prop_assert_eq!(&verdicts.0, &verdicts.1, "step {}: {:?}", step, command);
            check_ways(command, &before, &code.found());
        }
        prop_assert_eq!(model.tables(), code.tables());
    }
}
