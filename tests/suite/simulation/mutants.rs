//! Engines with one guard less. Where the guard stands in a statement of the ledger, the mutant's ledger does without it; where
//! it stands in the engine, the mutant is told what makes it blind. Each must be caught.

use oncegate::clock::Clock as _;
use oncegate::code::Code;
use oncegate::guid::Attempt;
use oncegate::ledger::{
    CallResult, Claim, ClaimFailed, Claimed, ClaimedAgain, Found, LedgerError, OwnerId, Record,
    Recorded, Row, Settle, Settled, ledger_time,
};
use oncegate::state::State;

use super::actor::Actor;
use super::stage::Stage;

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $($(#[$doc])* $name,)+ }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$name),+];
        }
    };
}

mutants! {
    /// A result is written whatever the row is by now.
    RecordWithoutFence,
    /// A result is written to any SENT row, of whatever attempt.
    RecordByStateAlone,
    /// What an inquiry found is written whatever the row is by now.
    SettleWithoutFence,
    /// What an inquiry found is written to an UNKNOWN row of a later attempt too.
    SettleByStateAlone,
    /// The sweep takes any SENT row, its owner alive or not.
    SweepTakesFromTheLiving,
    /// The sweep asks nobody: an old claim is an orphan.
    SweepGoesByAgeAlone,
    /// A purged GUID is a new one.
    PurgeLeavesNothing,
    /// A claim is won although the row was there.
    ClaimIsNotJudged,
    /// A second claim is not written: two may make the same attempt.
    SecondClaimIsNotWritten,
    /// A second claim takes an UNKNOWN row too.
    SecondClaimTakesUnknown,
    /// A reset after the request was sent passes for "not sent".
    ResetIsNotSent,
    /// The client repeats a POST that got no answer.
    PostIsRepeated,
    /// resolve asks at once.
    NoMinAge,
    /// Ages are those of the wall clock.
    AgesByTheWallClock,
    /// Whose record lost tells its own result.
    OwnResultIsTold,
    /// Whose record failed tells the result all the same.
    ResultIsToldUnrecorded,
    /// The content is not compared.
    ContentIsNotCompared,
    /// A claim whose result could not be recorded is not given up.
    NothingIsGivenUp,
    /// There is no sweep.
    NoSweep,
    /// A second claim does not survive a loss of power.
    ClaimIsNotOnDisk,
}

impl Stage {
    /// Writes what no ledger would.
    fn put(&self, row: Row) {
        self.memory.as_ref().expect("mutants live in memory").put(row);
    }

    fn put_result(&self, row: &Row, (to, code): (State, Code), response: &[u8]) {
        self.put(Row {
            state: to,
            rsp_code: Some(code.to_string()),
            response: Some(response.to_vec()),
            updated_at: ledger_time(self.clock.now()),
            owner: None,
            ..row.clone()
        });
    }

    fn put_claim(&self, row: &Row, owner: &OwnerId) -> Attempt {
        let attempt = Attempt(row.attempt.0 + 1);
        self.put(Row {
            state: State::Sent,
            rsp_code: None,
            response: None,
            attempt,
            updated_at: ledger_time(self.clock.now()),
            owner: Some(owner.clone()),
            ..row.clone()
        });
        attempt
    }
}

impl Actor {
    /// What this mutant sees under a GUID.
    pub fn seen(&self, found: Found) -> Found {
        match found {
            Found::Purged if self.stage.is(Mutant::PurgeLeavesNothing) => Found::Nothing,
            Found::Row(row) => Found::Row(Box::new(self.seen_row(*row))),
            other => other,
        }
    }

    pub fn seen_row(&self, mut row: Row) -> Row {
        if self.stage.is(Mutant::ContentIsNotCompared)
            && let Some(telegram) = &self.telegram
        {
            row.request.clone_from(telegram);
        }
        if self.stage.is(Mutant::SecondClaimTakesUnknown) && row.state == State::Unknown {
            row.state = State::Failed;
        }
        row
    }

    pub fn judge_claim(&self, claim: &Claim, claimed: Claimed) -> Claimed {
        match claimed {
            Claimed::Purged if self.stage.is(Mutant::PurgeLeavesNothing) => {
                self.stage.put(Row {
                    guid: claim.guid.clone(),
                    tx_code: claim.tx_code.clone(),
                    state: State::Sent,
                    rsp_code: None,
                    request: claim.request.clone(),
                    response: None,
                    attempt: Attempt::FIRST,
                    updated_at: ledger_time(self.stage.clock.now()),
                    owner: Some(claim.owner.clone()),
                });
                Claimed::Claimed(Attempt::FIRST)
            }
            Claimed::Found(row) if self.stage.is(Mutant::ClaimIsNotJudged) => {
                Claimed::Claimed(row.attempt)
            }
            Claimed::Found(row) => Claimed::Found(Box::new(self.seen_row(*row))),
            other => other,
        }
    }

    /// A second claim by this mutant; none if the ledger is to decide.
    pub fn claim_again(&self, claim: &ClaimFailed) -> Option<ClaimedAgain> {
        let Ok(Found::Row(row)) = self.stage.row(&claim.guid) else { return None };
        let takes = match row.state {
            State::Failed => self.stage.is(Mutant::SecondClaimIsNotWritten),
            State::Unknown => self.stage.is(Mutant::SecondClaimTakesUnknown),
            State::Sent | State::Received | State::Done => false,
        };
        if takes && self.stage.is(Mutant::SecondClaimIsNotWritten) {
            return Some(ClaimedAgain::Claimed(Attempt(row.attempt.0 + 1)));
        }
        takes.then(|| ClaimedAgain::Claimed(self.stage.put_claim(&row, &claim.owner)))
    }

    pub fn record_result(&self, record: &Record) -> Result<Recorded, LedgerError> {
        let lost = match self.process.ledger.record(record)? {
            Recorded::Stale(row) => row,
            written => return Ok(written),
        };
        let write = match self.stage.mutant {
            Some(Mutant::RecordWithoutFence) => true,
            Some(Mutant::RecordByStateAlone) => lost.state == State::Sent,
            Some(Mutant::OwnResultIsTold) => {
                let definite = matches!(record.result, CallResult::Definite(_));
                return Ok(if definite { Recorded::Written } else { Recorded::Stale(lost) });
            }
            _ => return Ok(Recorded::Stale(lost)),
        };
        if write {
            let result = (record.result.state(), record.result.code());
            self.stage.put_result(&lost, result, &record.response);
            return Ok(Recorded::Written);
        }
        Ok(Recorded::Stale(lost))
    }

    pub fn settle_row(&self, settle: &Settle) -> Result<Recorded, LedgerError> {
        let lost = match self.process.ledger.settle(settle)? {
            Recorded::Stale(row) => row,
            written => return Ok(written),
        };
        let write = match self.stage.mutant {
            Some(Mutant::SettleWithoutFence) => true,
            Some(Mutant::SettleByStateAlone) => lost.state == State::Unknown,
            _ => false,
        };
        if !write {
            return Ok(Recorded::Stale(lost));
        }
        let result = match settle.result {
            Settled::Known => (State::Done, Code::Done),
            Settled::Absent => (State::Failed, Code::NotSent),
        };
        self.stage.put_result(&lost, result, &settle.response);
        Ok(Recorded::Written)
    }

    /// Power is lost, and with it what was not on disk.
    pub fn forget_claims(stage: &Stage) {
        if !stage.is(Mutant::ClaimIsNotOnDisk) {
            return;
        }
        for guid in super::stage::lock(&stage.watch).guids() {
            if let Ok(Found::Row(row)) = stage.row(&guid)
                && row.state == State::Sent
                && row.attempt > Attempt::FIRST
            {
                let failed = Row { attempt: Attempt(row.attempt.0 - 1), ..*row };
                stage.put_result(&failed, (State::Failed, Code::NotSent), b"");
            }
        }
    }
}
