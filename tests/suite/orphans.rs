//! The orphan sweep: whom it takes, whom it leaves, and what it does when it can't.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::Clock as _;
use oncegate::code::Code;
use oncegate::engine::orphans::{Sweep, SweepError};
use oncegate::engine::relay::GivenUp;
use oncegate::guid::{Attempt, Guid};
use oncegate::ledger::owner::{Fate, Owners};
use oncegate::ledger::{
    CallResult, Claim, ClaimFailed, Claimed, ClaimedAgain, ClockNote, Counts, Found, HistoryLine,
    Ledger, LedgerError, Orphan, Outline, OwnerId, Purge, Query, Record, Recorded, Row, Settle,
};
use oncegate::state::State;
use oncegate::telegram::Layout;

use crate::ledgers::{Subject, id, owner, record};

const REQUEST: &[u8] = include_bytes!("../vectors/req_euckr.bin");
const OWN: &str = "1-0-1";
const OLD: i64 = 100;

/// Owners whose fates are written down: one answer after the other, the last one for ever.
#[derive(Default)]
struct Book {
    fates: Mutex<HashMap<OwnerId, Vec<Option<Fate>>>>,
    forgotten: Mutex<Vec<OwnerId>>,
}

impl Book {
    /// `fates`: what is answered in turn; none is an error.
    fn write(&self, name: &str, fates: &[Option<Fate>]) {
        self.fates.lock().unwrap().insert(owner(name), fates.to_vec());
    }
}

impl Owners for Book {
    fn fate(&self, owner: &OwnerId) -> io::Result<Fate> {
        let mut all = self.fates.lock().unwrap();
        let Some(fates) = all.get_mut(owner) else { return Ok(Fate::NoLock) };
        let fate = if fates.len() > 1 { fates.remove(0) } else { fates[0] };
        fate.ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    fn forget(&self, owner: &OwnerId) -> io::Result<()> {
        self.forgotten.lock().unwrap().push(owner.clone());
        self.fates.lock().unwrap().remove(owner);
        Ok(())
    }

    fn all(&self) -> io::Result<Vec<OwnerId>> {
        Ok(self.fates.lock().unwrap().keys().cloned().collect())
    }
}

/// A ledger where something happens just before the sweep writes.
struct Meanwhile<'a> {
    ledger: &'a dyn Ledger,
    before_sweep: &'a (dyn Fn() -> Result<(), LedgerError> + Sync),
}

#[rustfmt::skip]
impl Ledger for Meanwhile<'_> {
    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        (self.before_sweep)()?;
        self.ledger.sweep_orphans(orphans)
    }
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError> { self.ledger.find(guid) }
    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError> { self.ledger.claim(claim) }
    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError> { self.ledger.claim_failed(claim) }
    fn record(&self, record: &Record) -> Result<Recorded, LedgerError> { self.ledger.record(record) }
    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError> { self.ledger.settle(settle) }
    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError> { self.ledger.purge_batch(purge) }
    fn purgeable(&self, cutoff: DateTime<Utc>, after: Option<i64>) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        self.ledger.purgeable(cutoff, after)
    }
    fn outline(&self, query: &Query) -> Result<Vec<Outline>, LedgerError> { self.ledger.outline(query) }
    fn page(&self, query: &Query) -> Result<Vec<Row>, LedgerError> { self.ledger.page(query) }
    fn counts(&self) -> Result<Counts, LedgerError> { self.ledger.counts() }
    fn history(&self, guid: &Guid) -> Result<Vec<HistoryLine>, LedgerError> { self.ledger.history(guid) }
    fn clock_notes(&self) -> Result<Vec<ClockNote>, LedgerError> { self.ledger.clock_notes() }
    fn note_clock(&self, note: &ClockNote, after: Option<&ClockNote>) -> Result<bool, LedgerError> { self.ledger.note_clock(note, after) }
    fn probe(&self) -> Result<(), LedgerError> { self.ledger.probe() }
}

struct Scene {
    subject: Subject,
    owners: Book,
    given_up: GivenUp,
    layout: Layout,
    own: OwnerId,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            subject: Subject::memory(),
            owners: Book::default(),
            given_up: GivenUp::default(),
            layout: Layout::std128(),
            own: owner(OWN),
        }
    }

    /// A row that its owner, if any, left so.
    fn row(&self, guid: &str, state: State, by: Option<&str>) -> Row {
        let row = self.subject.row(guid, state, 1);
        let row = Row { owner: by.map(owner), request: REQUEST.to_vec(), ..row };
        self.subject.put(&row);
        row
    }

    fn sweep(&self) -> Result<Vec<Guid>, SweepError> {
        self.sweep_in(&*self.subject.ledger)
    }

    fn sweep_in(&self, ledger: &dyn Ledger) -> Result<Vec<Guid>, SweepError> {
        let sweep = Sweep {
            ledger,
            owners: &self.owners,
            layout: &self.layout,
            clock: &*self.subject.clock,
            own: &self.own,
            given_up: &self.given_up,
            orphan_after: TimeDelta::seconds(OLD),
        };
        sweep.run().map(|mut swept| {
            swept.sort();
            swept
        })
    }

    fn forgotten(&self) -> Vec<OwnerId> {
        self.owners.forgotten.lock().unwrap().clone()
    }

    /// The reply telegram of a row that became `code` now.
    fn reply(&self, code: Code) -> Vec<u8> {
        let request = self.layout.decode_request(REQUEST).unwrap();
        self.layout.error_reply(&request, code, self.subject.clock.now())
    }
}

#[test]
fn the_row_of_a_living_owner_is_never_taken_however_old() {
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Alive)]);
    let row = scene.row("G", State::Sent, Some("9-a-1"));
    scene.subject.clock.pass(365 * 86_400);
    assert_eq!(scene.sweep().unwrap(), []);
    assert_eq!((scene.subject.get("G"), scene.forgotten()), (row, vec![]));
}

#[test]
fn the_row_of_a_dead_owner_is_unknown_at_once_and_the_owner_forgotten() {
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Dead)]);
    let row = scene.row("G", State::Sent, Some("9-a-1"));
    assert_eq!(scene.sweep().unwrap(), [id("G")]);
    let rsp_code = Some("E901".to_owned());
    let response = Some(scene.reply(Code::Unknown));
    let taken = Row { state: State::Unknown, rsp_code, response, owner: None, ..row };
    assert_eq!(scene.subject.get("G"), taken);
    assert_eq!(scene.subject.story("G"), ["SENT>UNKNOWN 1 orphan"]);
    let line = scene.subject.ledger.history(&id("G")).unwrap().remove(0);
    let said = (line.who.as_str(), line.seen.as_deref());
    assert_eq!(said, ("relay", Some("its owner 9-a-1 is dead")));
    assert_eq!(scene.forgotten(), [owner("9-a-1")]);
    assert_eq!(scene.sweep().unwrap(), [], "once");
}

#[test]
fn where_nobody_can_be_asked_age_decides() {
    let scene = Scene::new();
    scene.row("no owner", State::Sent, None);
    scene.row("no lock", State::Sent, Some("7-gone-1"));
    scene.subject.clock.pass(OLD - 1);
    assert_eq!(scene.sweep().unwrap(), []);
    scene.subject.clock.pass(1);
    scene.row("young", State::Sent, None);
    assert_eq!(scene.sweep().unwrap(), [id("no lock"), id("no owner")]);
    assert_eq!(scene.subject.get("young").state, State::Sent);
}

#[test]
fn a_received_row_was_certainly_not_sent_and_goes_by_age_alone() {
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Alive)]);
    scene.owners.write("9-d-1", &[Some(Fate::Dead)]);
    for by in ["9-a-1", "9-d-1"] {
        scene.row(by, State::Received, Some(by));
    }
    assert_eq!(scene.sweep().unwrap(), []);
    scene.subject.clock.pass(OLD);
    assert_eq!(scene.sweep().unwrap(), [id("9-a-1"), id("9-d-1")]);
    let row = scene.subject.get("9-a-1");
    assert_eq!((row.state, row.rsp_code.as_deref()), (State::Failed, Some("E902")));
    assert_eq!(row.response, Some(scene.reply(Code::NotSent)));
    assert_eq!(scene.subject.story("9-a-1"), ["RECEIVED>FAILED 1 orphan"]);
}

#[test]
fn a_row_without_a_readable_time_is_not_old() {
    let scene = Scene::new();
    let row = scene.row("G", State::Sent, None);
    scene.subject.put(&Row { updated_at: "yesterday".to_owned(), ..row });
    scene.subject.clock.pass(OLD * 1_000);
    assert_eq!(scene.sweep().unwrap(), []);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_old() {
    let scene = Scene::new();
    scene.row("G", State::Sent, None);
    scene.subject.clock.pass(-10 * OLD);
    assert_eq!(scene.sweep().unwrap(), []);
}

#[test]
fn ones_own_rows_are_taken_only_when_given_up() {
    let scene = Scene::new();
    scene.row("calling", State::Sent, Some(OWN));
    scene.row("given up", State::Sent, Some(OWN));
    scene.row("recorded", State::Done, None);
    scene.subject.clock.pass(OLD * 10);
    for guid in ["given up", "recorded", "never there"] {
        scene.given_up.push(id(guid), Attempt(1));
    }
    assert_eq!(scene.sweep().unwrap(), [id("given up")]);
    assert_eq!(scene.subject.get("given up").state, State::Unknown);
    assert_eq!(scene.subject.get("calling").state, State::Sent);
    assert_eq!(scene.given_up.take(), [], "each is settled or somebody else's");
}

#[test]
fn a_row_that_was_given_up_and_claimed_again_is_left() {
    let scene = Scene::new();
    let row = scene.row("G", State::Sent, Some(OWN));
    scene.given_up.push(id("G"), Attempt(1));
    scene.subject.put(&Row { attempt: Attempt(2), ..row });
    assert_eq!(scene.sweep().unwrap(), []);
    assert_eq!(scene.subject.get("G").state, State::Sent);
}

#[test]
fn rows_that_were_given_up_stay_so_until_a_sweep_succeeds() {
    let scene = Scene::new();
    scene.row("G", State::Sent, Some(OWN));
    scene.given_up.push(id("G"), Attempt(1));
    let busy = || Err(LedgerError::Busy);
    let locked = Meanwhile { ledger: &*scene.subject.ledger, before_sweep: &busy };
    let failed = scene.sweep_in(&locked);
    assert!(matches!(failed, Err(SweepError::Ledger(LedgerError::Busy))), "{failed:?}");
    assert_eq!(scene.subject.get("G").state, State::Sent);
    assert_eq!(scene.sweep().unwrap(), [id("G")]);
}

/// A jump of the clock that was noted between look and write moved the row's time. The sweep rightly left it, and forgot it: it
/// stood as SENT for as long as its relay lived, and nobody could settle it.
#[test]
fn a_row_that_was_given_up_and_changed_between_look_and_write_is_taken_the_next_time() {
    let scene = Scene::new();
    let row = scene.row("G", State::Sent, Some(OWN));
    scene.given_up.push(id("G"), Attempt(1));
    scene.subject.clock.pass(5);
    let moved = Row { updated_at: scene.subject.clock.text(), ..row };
    let meanwhile = || {
        scene.subject.put(&moved);
        Ok(())
    };
    let ledger = Meanwhile { ledger: &*scene.subject.ledger, before_sweep: &meanwhile };
    assert_eq!(scene.sweep_in(&ledger).unwrap(), []);
    assert_eq!(scene.sweep().unwrap(), [id("G")]);
    assert_eq!(scene.subject.get("G").state, State::Unknown);
}

#[test]
fn a_row_that_moves_on_between_look_and_write_is_left() {
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Dead)]);
    let row = scene.row("G", State::Sent, Some("9-a-1"));
    // Another process has swept it, settled it and sends it again, under the next attempt.
    let sent_again = Row { attempt: Attempt(2), owner: Some(owner("8-b-1")), ..row };
    let meanwhile = || {
        scene.subject.put(&sent_again);
        Ok(())
    };
    let ledger = Meanwhile { ledger: &*scene.subject.ledger, before_sweep: &meanwhile };
    assert_eq!(scene.sweep_in(&ledger).unwrap(), []);
    assert_eq!(scene.subject.get("G"), sent_again);
}

#[test]
fn a_result_that_comes_between_look_and_write_stands() {
    let scene = Scene::new();
    let row = scene.row("G", State::Sent, None);
    scene.subject.clock.pass(OLD);
    let meanwhile =
        || scene.subject.ledger.record(&record("G", 1, CallResult::Definite(Code::Done))).map(drop);
    let ledger = Meanwhile { ledger: &*scene.subject.ledger, before_sweep: &meanwhile };
    assert_eq!(scene.sweep_in(&ledger).unwrap(), []);
    assert_eq!((scene.subject.get("G").state, row.state), (State::Done, State::Sent));
}

#[test]
fn only_who_was_dead_before_the_rows_were_read_is_forgotten() {
    // He died between the look at the locks and the look at the rows: what he claimed last may not have been read.
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Alive), Some(Fate::Dead)]);
    scene.row("G", State::Sent, Some("9-a-1"));
    assert_eq!(scene.sweep().unwrap(), [id("G")], "the proof is good");
    assert_eq!(scene.forgotten(), []);
    assert_eq!(scene.sweep().unwrap(), []);
    assert_eq!(scene.forgotten(), [owner("9-a-1")]);
}

#[test]
fn nobody_is_forgotten_by_a_sweep_that_failed() {
    let scene = Scene::new();
    scene.owners.write("9-a-1", &[Some(Fate::Dead)]);
    scene.row("G", State::Sent, Some("9-a-1"));
    let busy = || Err(LedgerError::Busy);
    let locked = Meanwhile { ledger: &*scene.subject.ledger, before_sweep: &busy };
    assert!(scene.sweep_in(&locked).is_err());
    assert_eq!(scene.forgotten(), []);
}

#[test]
fn an_owner_whose_lock_can_not_be_looked_at_stops_no_sweep() {
    // One lock file of another user (a routine run by root, killed) ended every sweep of the relay.
    let scene = Scene::new();
    scene.owners.write("9-x-1", &[None]);
    scene.owners.write("9-d-1", &[Some(Fate::Dead)]);
    scene.row("not proven", State::Sent, Some("9-x-1"));
    scene.row("dead", State::Sent, Some("9-d-1"));
    scene.subject.clock.pass(OLD * 10);
    scene.given_up.push(id("given up"), Attempt(1));
    scene.row("given up", State::Sent, Some(OWN));
    assert_eq!(scene.sweep().unwrap(), [id("dead"), id("given up")]);
    assert_eq!(scene.subject.get("not proven").state, State::Sent);
}

#[test]
fn a_request_that_can_not_be_read_is_turned_all_the_same_without_a_reply() {
    let scene = Scene::new();
    for request in [&b""[..], b"junk"] {
        let row = scene.row("G", State::Sent, None);
        scene.subject.put(&Row { request: request.to_vec(), ..row });
        scene.subject.clock.pass(OLD);
        assert_eq!(scene.sweep().unwrap(), [id("G")]);
        let row = scene.subject.get("G");
        let told = (row.state, row.rsp_code.as_deref(), row.response);
        assert_eq!(told, (State::Unknown, Some("E901"), None));
    }
}

#[test]
fn more_orphans_than_a_page_are_all_taken() {
    let scene = Scene::new();
    scene.owners.write("9-d-1", &[Some(Fate::Dead)]);
    scene.owners.write("9-a-1", &[Some(Fate::Alive)]);
    let rows = 2 * oncegate::limits::PAGE_ROWS_MAX + 100;
    for at in 0..rows {
        let by = if at % 2 == 0 { "9-d-1" } else { "9-a-1" };
        scene.row(&format!("G{at:05}"), State::Sent, Some(by));
    }
    assert_eq!(scene.sweep().unwrap().len(), rows / 2);
    assert_eq!(scene.subject.ledger.counts().unwrap().rows, [0, 1050, 0, 1050, 0]);
}
