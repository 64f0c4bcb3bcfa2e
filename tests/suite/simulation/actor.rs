//! Ledger and core as one process sees them: each call is a point where others act, where it may die, and where it may fail.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use oncegate::code::{Code, CoreCode};
use oncegate::core_api::{Core, Inquiry, Seen, Transfer};
use oncegate::guid::{Attempt, Guid};
use oncegate::ledger::{
    Claim, ClaimFailed, Claimed, ClaimedAgain, ClockNote, Counts, Found, HistoryLine, Ledger,
    LedgerError, Orphan, Outline, Purge, Query, Record, Recorded, Row, Settle,
};
use oncegate::state::State;
use oncegate::telegram::Request;

use super::books::{LATE_MAX_S, body};
use super::life;
use super::mutants::Mutant;
use super::stage::{Orphans, Process, Stage, die, lock};

/// The longest time in which an answer is waited for.
const READ_TIMEOUT_S: u64 = 3;

/// One thing that a process is doing: an operation of a routine, or the answer to a telegram.
#[derive(Clone)]
pub struct Actor {
    pub stage: Arc<Stage>,
    pub process: Process,
    /// The telegram that it answers.
    pub telegram: Option<Vec<u8>>,
}

impl Actor {
    /// A point between claim and call: there, where age decides, nobody may pause.
    fn point_before_the_call(&self, what: &str) {
        match self.stage.orphans {
            Orphans::ByProof => self.point(what),
            Orphans::ByAge => self.may_die(6, what),
        }
    }

    /// A point at which a process may sleep for very long: others have time to settle everything and to begin anew.
    fn long_point(&self, what: &str, guid: &Guid) {
        if self.stage.chance(200) {
            life::everything_goes_on(&self.stage, guid);
        }
        self.point(what);
        self.may_die(if self.stage.take_doom() { 1_000 } else { 30 }, what);
    }

    /// Others act, and the process may die.
    fn point(&self, what: &str) {
        while self.stage.somebody_else() {
            life::act(&self.stage);
        }
        self.is_still_alive();
        self.may_die(6, what);
    }

    fn may_die(&self, permille: usize, what: &str) {
        if self.stage.chance(permille) {
            self.stage.tell(&format!("process {} dies {what}", self.process.id));
            self.stage.count("deaths at a call");
            self.stage.kill(&self.process);
            die();
        }
    }

    /// A thread of a process that died while others acted ends here.
    fn is_still_alive(&self) {
        if self.stage.is_dead(self.process.id) {
            die();
        }
    }

    /// A write to the ledger, with everything that can happen around it.
    fn write<T: fmt::Debug>(
        &self,
        what: &'static str,
        guid: &str,
        write: impl FnOnce() -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.point(&format!("before {what}"));
        if self.stage.chance(15) {
            self.stage.tell(&format!("process {}: {what} {guid} fails", self.process.id));
            self.stage.count("failed writes");
            return Err(if self.stage.chance(500) { LedgerError::Full } else { LedgerError::Busy });
        }
        let outcome = write();
        let word = Beginning::of(&outcome);
        self.stage.tell(&format!("process {}: {what} {guid}: {word}", self.process.id));
        self.stage.check(what);
        if what.starts_with("claim") {
            self.point_before_the_call(&format!("after {what}"));
        } else {
            self.point(&format!("after {what}"));
        }
        outcome
    }

    fn read<T>(&self, read: impl FnOnce() -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        let seen = read();
        // What was read may be old by the time it is used.
        self.point("after a read");
        seen
    }
}

impl Ledger for Actor {
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError> {
        self.read(|| self.process.ledger.find(guid)).map(|found| self.seen(found))
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError> {
        self.write("claim", claim.guid.as_str(), || {
            self.process.ledger.claim(claim).map(|claimed| self.judge_claim(claim, claimed))
        })
    }

    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError> {
        self.write("claim again", claim.guid.as_str(), || match self.claim_again(claim) {
            Some(claimed) => Ok(claimed),
            None => self.process.ledger.claim_failed(claim),
        })
    }

    fn record(&self, record: &Record) -> Result<Recorded, LedgerError> {
        let recorded = self.write("record", record.guid.as_str(), || {
            if let Ok(Found::Row(row)) = self.stage.row(&record.guid)
                && row.attempt > record.attempt
            {
                self.stage.count(if row.state == State::Sent {
                    "late results over a later claim"
                } else {
                    "late results over a later attempt"
                });
            }
            self.record_result(record)
        });
        if recorded.is_err() && self.stage.is(Mutant::ResultIsToldUnrecorded) {
            return Ok(Recorded::Written);
        }
        if recorded.is_err() && self.stage.is(Mutant::NothingIsGivenUp) {
            return Ok(Recorded::Gone);
        }
        recorded
    }

    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError> {
        self.write("settle", settle.guid.as_str(), || self.settle_row(settle))
    }

    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        if orphans.is_empty() || self.stage.is(Mutant::NoSweep) {
            return Ok(Vec::new());
        }
        self.stage.count("sweeps of orphans");
        let guids = orphans.iter().map(|orphan| orphan.guid.as_str()).collect::<Vec<_>>().join(" ");
        self.write("sweep", &guids, || self.process.ledger.sweep_orphans(orphans))
    }

    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError> {
        self.stage.count("purges");
        self.write("purge", "", || self.process.ledger.purge_batch(purge))
    }

    fn purgeable(
        &self,
        cutoff: DateTime<Utc>,
        after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        self.read(|| {
            let mut page = self.process.ledger.purgeable(cutoff, after)?;
            page.0.sort();
            Ok(page)
        })
    }

    fn outline(&self, query: &Query) -> Result<Vec<Outline>, LedgerError> {
        self.read(|| self.process.ledger.outline(query))
    }

    fn page(&self, query: &Query) -> Result<Vec<Row>, LedgerError> {
        self.read(|| self.process.ledger.page(query))
    }

    fn counts(&self) -> Result<Counts, LedgerError> {
        self.process.ledger.counts()
    }

    fn history(&self, guid: &Guid) -> Result<Vec<HistoryLine>, LedgerError> {
        self.process.ledger.history(guid)
    }

    fn clock_notes(&self) -> Result<Vec<ClockNote>, LedgerError> {
        if self.stage.is(Mutant::AgesByTheWallClock) {
            return Ok(Vec::new());
        }
        self.process.ledger.clock_notes()
    }

    fn note_clock(&self, note: &ClockNote, after: Option<&ClockNote>) -> Result<bool, LedgerError> {
        if self.stage.is(Mutant::AgesByTheWallClock) {
            self.stage.looked();
            return Ok(true);
        }
        let what = format!("{} s", note.seconds);
        let noted = self.write("note of the clock", &what, || {
            let noted = self.process.ledger.note_clock(note, after);
            if noted.is_ok() {
                self.stage.looked();
            }
            noted
        });
        self.stage.count("notes of the clock");
        noted
    }

    fn probe(&self) -> Result<(), LedgerError> {
        self.process.ledger.probe()
    }
}

impl Core for Actor {
    fn transfer(&self, request: &Request) -> Transfer {
        self.point_before_the_call("before its call");
        self.check_call(request);
        let seen = |what: &str| Seen(what.to_owned());
        let down = lock(&self.stage.books).down;
        let luck = if self.stage.is_calm() { 0 } else { self.stage.below(100) };
        let outcome = match luck {
            _ if down => Transfer::NotSent(seen("connection refused")),
            0..35 => self.answered(request),
            35..43 => Transfer::Refused(Code::Core(CoreCode::parse("C051").expect("a code"))),
            43..55 => Transfer::NotSent(seen("connect timeout")),
            55..78 => self.lost(request, "read timeout"),
            78..86 => self.lost(request, "half an answer"),
            _ => self.never_heard(request, "reset"),
        };
        self.stage.tell(&format!(
            "process {}: call {}: {}",
            self.process.id,
            request.guid(),
            outcome.name()
        ));
        self.stage.count(outcome.name());
        self.long_point("after its call", request.guid());
        outcome
    }

    fn inquire(&self, request: &Request) -> Inquiry {
        self.point("before its inquiry");
        let (guid, made) = (request.guid(), lock(&self.stage.books).made(request.guid()));
        let inquiry = match made {
            _ if self.stage.chance(150) => Inquiry::NoAnswer(Seen("HTTP 503".to_owned())),
            Some(ticket) => Inquiry::Known(body(&self.stage.layout, request, ticket, "I")),
            None => Inquiry::Absent,
        };
        let word = match &inquiry {
            Inquiry::Known(_) => "known",
            Inquiry::Absent => "absent",
            Inquiry::NoAnswer(_) => "no answer",
        };
        self.stage.tell(&format!("process {}: inquiry {guid}: {word}", self.process.id));
        self.stage.count(word);
        self.long_point("after its inquiry", guid);
        inquiry
    }
}

impl Actor {
    /// Invariants 1, 2 and 6 from the core's side: who calls holds the claim, and it is the first call of its attempt.
    fn check_call(&self, request: &Request) {
        let guid = request.guid();
        let row = match self.stage.row(guid) {
            Ok(Found::Row(row)) => row,
            other => {
                return self.stage.wrong([format!("{guid} was called without a row: {other:?}")]);
            }
        };
        let mut wrong = Vec::new();
        if row.state != State::Sent || row.owner.as_ref() != Some(&self.process.owner) {
            let by = row.owner.map_or_else(|| "nobody".to_owned(), |owner| owner.to_string());
            wrong.push(format!("{guid} was called while {} of {by}", row.state));
        }
        if !self.stage.layout.same_content(request, &row.request) {
            wrong.push(format!("{guid} was called with another content than the ledger's"));
        }
        if !lock(&self.stage.books).calls.insert((guid.clone(), row.attempt)) {
            wrong.push(format!("{guid} was called twice in attempt {}", row.attempt));
        }
        if row.attempt < Attempt::FIRST {
            wrong.push(format!("{guid} has attempt {}", row.attempt));
        }
        self.stage.wrong(wrong);
    }

    /// Heard, made in time, and answered. How long the answer then lies in the socket is the process's affair.
    fn answered(&self, request: &Request) -> Transfer {
        let wait_s = if self.stage.chance(500) { self.stage.below(3) as u64 } else { 0 };
        let due_s = self.stage.now_s() + wait_s;
        let ticket = lock(&self.stage.books).hear(request.guid(), due_s);
        self.long_point("while it waits for its answer", request.guid());
        self.stage.pass(due_s.saturating_sub(self.stage.now_s()));
        Transfer::Done(body(&self.stage.layout, request, ticket, "C"))
    }

    /// Heard, and made at some time that the core may take; the answer is lost.
    fn lost(&self, request: &Request, what: &str) -> Transfer {
        let late_s = self.stage.below(usize::try_from(LATE_MAX_S).expect("a minute") + 1) as u64;
        let times = if self.stage.is(Mutant::PostIsRepeated) { 2 } else { 1 };
        for _ in 0..times {
            lock(&self.stage.books).hear(request.guid(), self.stage.now_s() + late_s);
        }
        self.stage.tell(&format!("{} will be made in {late_s} s", request.guid()));
        self.long_point("while it waits for its answer", request.guid());
        self.stage.pass(READ_TIMEOUT_S);
        if self.stage.is(Mutant::ResetIsNotSent) {
            return Transfer::NotSent(Seen(what.to_owned()));
        }
        Transfer::Unknown(Seen(what.to_owned()))
    }

    fn never_heard(&self, request: &Request, what: &str) -> Transfer {
        self.long_point("while it waits for its answer", request.guid());
        Transfer::Unknown(Seen(what.to_owned()))
    }
}

/// The beginning of a value's debug text: rows have telegrams in them, and a million are told of.
struct Beginning(String);

impl Beginning {
    const CHARS_MAX: usize = 40;

    fn of(value: &impl fmt::Debug) -> String {
        let mut beginning = Beginning(String::new());
        // An error is how it says that it has enough.
        let _ = write!(beginning, "{value:?}");
        beginning.0
    }
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() < Beginning::CHARS_MAX { Ok(()) } else { Err(fmt::Error) }
    }
}
