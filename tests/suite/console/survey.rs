//! The ledger as it is looked at: SQLite does what the model says.

use std::sync::Arc;

use oncegate::clock::Clock;
use oncegate::guid::Guid;
use oncegate::ledger::memory::MemoryLedger;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::ledger::survey::{Browse, Column, Noted, Part, Spot, Survey, TrailQuery};
use oncegate::ledger::{CallResult, Cause, Claim, Claimed, LedgerError, OwnerId, Record, Trail};
use oncegate::state::State;

use super::rig::StillClock;

fn guid(text: &str) -> Guid {
    Guid::from_ledger(text.to_owned())
}

/// Both ledgers with the same life behind them.
fn both() -> (tempfile::TempDir, Arc<StillClock>, [Box<dyn Survey>; 2]) {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(StillClock::default()));
    let as_clock: Arc<dyn Clock> = clock.clone();
    let access = Access::Serve { must_exist: false };
    let path = dir.path().join("l.db");
    let (sqlite, _) =
        SqliteLedger::open(&path, access, Arc::clone(&as_clock), Hooks::default()).unwrap();
    let ledgers: [Box<dyn Survey>; 2] = [Box::new(sqlite), Box::new(MemoryLedger::new(as_clock))];
    for at in 0..40_usize {
        let result = match at % 4 {
            0 => Some(CallResult::Open),
            1 => Some(CallResult::NotSent),
            2 => Some(CallResult::Definite(oncegate::code::Code::Done)),
            _ => None,
        };
        let name = format!("{}{:02}", if at % 3 == 0 { "A" } else { "B" }, at * 7 % 40);
        let seen = if at % 8 == 0 { "read timeout" } else { "connect refused" };
        for ledger in &ledgers {
            live(&**ledger, &name, result, seen);
        }
        clock.forward(30);
    }
    (dir, clock, ledgers)
}

fn live(ledger: &dyn Survey, name: &str, result: Option<CallResult>, seen: &str) {
    let owner = OwnerId::from_ledger("4711-1-0".to_owned());
    let (tx_code, request) = ("TRF00100".to_owned(), name.as_bytes().to_vec());
    let claim = Claim { guid: guid(name), tx_code, request, owner };
    let Claimed::Claimed(attempt) = ledger.claim(&claim).unwrap() else { panic!("new GUIDs only") };
    if let Some(result) = result {
        let trail = Trail::relay().seen(seen);
        let record = Record { guid: guid(name), attempt, result, response: vec![1], trail };
        ledger.record(&record).unwrap();
    }
}

#[test]
fn windows_in_every_order_from_everywhere_are_those_of_the_model() {
    let (_dir, clock, [sqlite, model]) = both();
    let now = clock.now();
    let mut looks = Vec::new();
    for states in [&State::ALL[..], &[State::Unknown], &[State::Failed, State::Sent]] {
        for column in Column::ALL {
            for descending in [false, true] {
                looks.push(Browse { column, descending, ..Browse::of(states) });
            }
        }
        let old = now - chrono::TimeDelta::seconds(600);
        looks.push(Browse { until: Some(old), ..Browse::of(states) });
        looks.push(Browse {
            until: Some(old),
            any_age: vec![State::Unknown],
            ..Browse::of(states)
        });
        looks.push(Browse { since: Some(old), ..Browse::of(states) });
        looks.push(Browse { guid_prefix: Some("A".to_owned()), ..Browse::of(states) });
        looks.push(Browse { tx_prefix: Some("TRF".to_owned()), ..Browse::of(states) });
        looks.push(Browse { code: Some("E901".to_owned()), ..Browse::of(states) });
        looks.push(Browse { seen: Some("timeout".to_owned()), ..Browse::of(states) });
    }
    let spot = |name: &str| Spot {
        guid: guid(name),
        updated_at: oncegate::ledger::ledger_time(now - chrono::TimeDelta::seconds(600)),
        attempts: 1,
    };
    let parts = [Part::Start, Part::End, Part::Around(spot("A20")), Part::Around(spot("B99"))];
    for browse in &looks {
        for part in &parts {
            for rows_max in [1, 6, 100] {
                let (is, should) = (
                    sqlite.window(browse, part, rows_max).unwrap(),
                    model.window(browse, part, rows_max).unwrap(),
                );
                assert_eq!(is, should, "{browse:?} {part:?} {rows_max}");
            }
        }
        assert_eq!(sqlite.keys(browse, 9).unwrap(), model.keys(browse, 9).unwrap());
    }
}

#[test]
fn numbers_and_trail_are_those_of_the_model() {
    let (_dir, clock, [sqlite, model]) = both();
    for ledger in [&sqlite, &model] {
        let trail = Trail {
            cause: Cause::Note,
            who: "ops@bank".to_owned(),
            reason: Some("x".to_owned()),
            seen: None,
        };
        assert_eq!(ledger.note(&guid("A00"), &trail), Ok(Noted::Written));
        assert_eq!(ledger.note(&guid("nobody"), &trail), Ok(Noted::Gone));
    }
    let (is, should) = (sqlite.numbers(clock.now()).unwrap(), model.numbers(clock.now()).unwrap());
    assert_eq!(is.ages, should.ages);
    assert_eq!((&is.reasons, &is.last_lines), (&should.reasons, &should.last_lines));
    assert_eq!(is.unknown_per_minute, should.unknown_per_minute);
    assert_eq!(is.failed_per_minute, should.failed_per_minute);
    assert_eq!(is.counts.rows, should.counts.rows);
    let all = TrailQuery { rows_max: 100, ..TrailQuery::default() };
    let queries = [
        all.clone(),
        TrailQuery { rows_max: 3, ..all.clone() },
        TrailQuery { guid_prefix: Some("A".to_owned()), ..all.clone() },
        TrailQuery { cause: Some("note".to_owned()), ..all.clone() },
        TrailQuery { who_prefix: Some("rel".to_owned()), before: Some(7), ..all.clone() },
    ];
    for query in queries {
        assert_eq!(sqlite.trail(&query), model.trail(&query), "{query:?}");
    }
}

#[test]
fn a_watch_sees_the_changes_of_others_and_a_file_that_is_gone() {
    let (dir, _clock, [sqlite, _]) = both();
    let mut watch = sqlite.watch().unwrap();
    assert_eq!(watch.changed(), Ok(true), "the first look");
    assert_eq!(watch.changed(), Ok(false));
    live(&*sqlite, "Z1", None, "");
    assert_eq!(watch.changed(), Ok(true));
    assert_eq!(watch.changed(), Ok(false));
    std::fs::rename(dir.path().join("l.db"), dir.path().join("away.db")).unwrap();
    assert_eq!(watch.changed(), Err(LedgerError::Moved));
    std::fs::rename(dir.path().join("away.db"), dir.path().join("l.db")).unwrap();
    assert_eq!(watch.changed(), Ok(false), "it is back");
}
