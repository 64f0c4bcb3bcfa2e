//! The relay: claim, send once, record. The whole product on one screen.
//!
//! Knows neither HTTP nor SQL. The order is the safety: the claim is on disk before the core is called, the result is on disk
//! before the channel hears of it, and whoever fails in between leaves a row that an inquiry can settle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use super::callers::Callers;
use super::decide::{Decision, answer, decide};
use super::gate::{Gate, Permit};
use crate::clock::Clock;
use crate::code::Code;
use crate::core_api::{Core, Seen, Transfer};
use crate::guid::{Attempt, Guid};
use crate::ledger::{
    CallResult, Claim, ClaimFailed, Claimed, ClaimedAgain, Found, Ledger, LedgerError, OwnerId,
    Record, Recorded, Row, Trail,
};
use crate::limits;
use crate::telegram::{Layout, Malformed, Request};

/// Everything a relay needs. One per process; its methods may be called from any thread.
pub struct Relay {
    /// What is known, durably.
    pub ledger: Arc<dyn Ledger>,
    /// Whom it calls.
    pub core: Arc<dyn Core>,
    /// What telegrams look like.
    pub layout: Layout,
    /// The time for replies.
    pub clock: Arc<dyn Clock>,
    /// The name under which it claims; its lock is held as long as calls may begin.
    pub owner: OwnerId,
    /// How many calls may be in flight.
    pub gate: Arc<Gate>,
    /// Who calls for those that can't wait.
    pub callers: Callers,
    /// Claims whose result could not be recorded.
    pub given_up: Arc<GivenUp>,
    /// Whether resends come at the moment.
    pub resends: Resends,
    /// Is told of each call: outcome and how long it took.
    pub called: Option<CallObserver>,
}

/// Is told of each call of the core: done, refused, not-sent or unknown, and how long it took.
pub type CallObserver = Box<dyn Fn(&'static str, Duration) + Send + Sync>;

/// What a channel gets.
#[derive(Debug)]
pub struct Reply {
    /// The reply telegram.
    pub telegram: Vec<u8>,
    /// Its code.
    pub code: String,
    /// Whether it is the stored answer of an earlier call.
    pub replayed: bool,
    /// Held until the reply has left: a relay that stops waits for it.
    pub permit: Option<Permit>,
}

/// A telegram so broken that no reply can be built.
#[derive(Debug, thiserror::Error)]
#[error("no reply can be built: {0}")]
pub struct Unanswerable(pub Malformed);

/// Claims that their own process has given up: their results could not be recorded. The sweep takes them over.
#[derive(Debug, Default)]
pub struct GivenUp(Mutex<Vec<(Guid, Attempt)>>);

impl GivenUp {
    /// Gives a claim up. Its call is over, so nobody will send it any more.
    pub fn push(&self, guid: Guid, attempt: Attempt) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((guid, attempt));
    }

    /// Takes all of them.
    #[must_use]
    pub fn take(&self) -> Vec<(Guid, Attempt)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a look before the claim pays at the moment: it does while resends come. A guess about speed and nothing else: with
/// either answer the same telegram gets the same reply.
#[derive(Debug)]
pub struct Resends(AtomicU32);

impl Default for Resends {
    fn default() -> Resends {
        // A relay that was down is asked again first for what it was asked before.
        Resends(AtomicU32::new(limits::LOOKS_AFTER_A_RESEND))
    }
}

impl Resends {
    /// None are expected.
    #[must_use]
    pub fn none() -> Resends {
        Resends(AtomicU32::new(0))
    }

    fn expected(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn looked(&self, found: &Found) {
        match found {
            Found::Row(_) | Found::Purged => {
                self.0.store(limits::LOOKS_AFTER_A_RESEND, Ordering::Relaxed);
            }
            Found::Nothing => {
                let left = self.0.load(Ordering::Relaxed);
                self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            }
        }
    }
}

/// What a telegram has come to.
enum Work {
    /// Its reply.
    Told(Reply),
    /// A call that is over; its result has to be on disk before anybody hears of it.
    Called(Box<Called>, Record),
}

/// What came of a claim. Ok(Ok): ours. Ok(Err): somebody else's, and the reply.
type Won = Result<Result<Attempt, Reply>, LedgerError>;

/// A call that is over.
struct Called {
    request: Request,
    held: Held,
    permit: Permit,
}

impl Relay {
    /// Answers one framed telegram, and never blocks: `tell` gets the reply, perhaps later and on another thread. It must be quick,
    /// and must not ask the relay anything.
    pub fn answer(
        self: &Arc<Relay>,
        telegram: &[u8],
        tell: impl FnOnce(Result<Reply, Unanswerable>) + Send + 'static,
    ) {
        let request = match self.layout.decode_request(telegram) {
            Ok(request) => request,
            Err(malformed) => return tell(self.refuse_malformed(telegram, malformed)),
        };
        let tell = move |reply| tell(Ok(reply));
        let caller = match self.callers.promise() {
            Ok(caller) => caller,
            Err(error) => {
                warn!(guid = %request.guid(), "there is no thread for a call, nothing was claimed: {error}");
                return tell(self.refuse(&request, Code::Full));
            }
        };
        let relay = Arc::clone(self);
        // A look answers what is settled without the writer's work. While only new GUIDs come, the look itself is saved: who may
        // call is decided by the claim alone, and it finds what is there.
        let permit = if self.resends.expected() { None } else { self.gate.enter() };
        match permit {
            Some(permit) => {
                let claim = self.claim_of(&request);
                let then = move |claimed| {
                    caller.call(move || {
                        let won = relay.is_won(&request, claimed);
                        relay.finish(relay.call_if(won, request, permit), tell);
                    });
                };
                self.ledger.claim_then(claim, Box::new(then));
            }
            None => caller.call(move || relay.finish(relay.look(request), tell)),
        }
    }

    /// Has the result recorded, if there is one, and tells the reply.
    fn finish(self: &Arc<Relay>, work: Work, tell: impl FnOnce(Reply) + Send + 'static) {
        match work {
            Work::Told(reply) => tell(reply),
            Work::Called(called, record) => {
                let relay = Arc::clone(self);
                let then = move |record, recorded| tell(relay.conclude(*called, record, recorded));
                self.ledger.record_then(record, Box::new(then));
            }
        }
    }

    /// Answers what is settled; claims what is not, if there is room for a call.
    fn look(&self, request: Request) -> Work {
        let seen = self.ledger.find(request.guid()).unwrap_or(Found::Nothing);
        self.resends.looked(&seen);
        let again = match decide(&seen, |row| self.same(&request, row)) {
            Decision::Claim => false,
            Decision::ClaimAgain => true,
            settled @ (Decision::Replay(_) | Decision::Refuse(_)) => {
                return Work::Told(self.tell(&request, seen.row(), &settled));
            }
        };
        match self.gate.enter() {
            Some(permit) => self.claim(request, permit, again),
            None => Work::Told(self.refuse(&request, Code::Full)),
        }
    }

    /// Claims, and calls if the claim was won. `again`: a FAILED row was seen.
    fn claim(&self, request: Request, permit: Permit, again: bool) -> Work {
        let won = if again {
            self.claim_failed(&request)
        } else {
            let claimed = self.ledger.claim(&self.claim_of(&request));
            self.is_won(&request, claimed)
        };
        self.call_if(won, request, permit)
    }

    /// Calls if the claim was won.
    fn call_if(&self, won: Won, request: Request, permit: Permit) -> Work {
        let reply = match won {
            Ok(Ok(attempt)) => return self.call(request, attempt, permit),
            Ok(Err(reply)) => reply,
            Err(error) => self.not_claimed(&request, &error),
        };
        Work::Told(Reply { permit: Some(permit), ..reply })
    }

    /// The ledger takes no claim; what is settled can be answered all the same.
    fn not_claimed(&self, request: &Request, error: &LedgerError) -> Reply {
        let seen = self.ledger.find(request.guid()).unwrap_or(Found::Nothing);
        match decide(&seen, |row| self.same(request, row)) {
            settled @ (Decision::Replay(_) | Decision::Refuse(_)) => {
                self.tell(request, seen.row(), &settled)
            }
            Decision::Claim | Decision::ClaimAgain => {
                warn!(guid = %request.guid(), "no claim, nothing was sent: {error}");
                self.refuse(request, Code::NoLedger)
            }
        }
    }

    fn claim_of(&self, request: &Request) -> Claim {
        Claim {
            guid: request.guid().clone(),
            tx_code: request.tx_code().to_owned(),
            request: request.bytes().to_vec(),
            owner: self.owner.clone(),
        }
    }

    fn is_won(&self, request: &Request, claimed: Result<Claimed, LedgerError>) -> Won {
        let found = match claimed? {
            Claimed::Claimed(attempt) => return Ok(Ok(attempt)),
            Claimed::Found(row) => Found::Row(row),
            Claimed::Purged => Found::Purged,
        };
        self.resends.looked(&found);
        match decide(&found, |row| self.same(request, row)) {
            Decision::Claim => {
                unreachable!("a claim that found something is not decided by claiming")
            }
            Decision::ClaimAgain => self.claim_failed(request),
            settled @ (Decision::Replay(_) | Decision::Refuse(_)) => {
                Ok(Err(self.tell(request, found.row(), &settled)))
            }
        }
    }

    fn claim_failed(&self, request: &Request) -> Won {
        let claim = ClaimFailed {
            guid: request.guid().clone(),
            owner: self.owner.clone(),
            only: None,
            trail: Trail::relay(),
        };
        Ok(match self.ledger.claim_failed(&claim)? {
            ClaimedAgain::Claimed(attempt) => Ok(attempt),
            ClaimedAgain::Lost => Err(self.refuse(request, Code::InProgress)),
        })
    }

    /// The one call of this attempt, and what is to be recorded of it.
    fn call(&self, request: Request, attempt: Attempt, permit: Permit) -> Work {
        let claim = Some((request.guid().clone(), attempt));
        let held = Held { claim, given_up: Arc::clone(&self.given_up) };
        let outcome = self.transfer(&request);
        let record =
            record_of(&self.layout, &request, attempt, outcome, self.clock.now(), Trail::relay());
        if let Some(seen) = &record.trail.seen {
            info!(guid = %request.guid(), code = %record.result.code(), "{seen}");
        }
        Work::Called(Box::new(Called { request, held, permit }), record)
    }

    /// The reply to a call, by what became of its record.
    fn conclude(
        &self,
        called: Called,
        record: Record,
        recorded: Result<Recorded, LedgerError>,
    ) -> Reply {
        let Called { request, held, permit } = called;
        let guid = request.guid();
        if recorded.is_ok() {
            held.recorded();
        }
        let reply = match recorded {
            Ok(Recorded::Written) => self.reply(record.response, record.result.code().to_string()),
            Ok(Recorded::Stale(row)) => {
                warn!(%guid, state = %row.state, "the row was settled meanwhile; its answer stands");
                self.tell(&request, Some(&row), &answer(&row))
            }
            Ok(Recorded::Gone) => {
                warn!(%guid, "the row is gone; its result could not be recorded");
                self.refuse(&request, Code::Unknown)
            }
            Err(error) => {
                warn!(%guid, "the result could not be recorded, an inquiry will settle it: {error}");
                self.refuse(&request, Code::Unknown)
            }
        };
        Reply { permit: Some(permit), ..reply }
    }

    fn transfer(&self, request: &Request) -> Transfer {
        let start = self.clock.monotonic();
        let outcome = self.core.transfer(request);
        if let Some(called) = &self.called {
            called(outcome.name(), self.clock.monotonic().saturating_sub(start));
        }
        outcome
    }

    fn same(&self, request: &Request, row: &Row) -> bool {
        self.layout.same_content(request, &row.request)
    }

    fn tell(&self, request: &Request, row: Option<&Row>, decision: &Decision<'_>) -> Reply {
        match decision {
            Decision::Replay(stored) => {
                let code = row.and_then(|row| row.rsp_code.clone());
                Reply { replayed: true, ..self.reply(stored.to_vec(), code.unwrap_or_default()) }
            }
            Decision::Refuse(code) => self.refuse(request, *code),
            Decision::Claim | Decision::ClaimAgain => unreachable!("a claim is made, not told"),
        }
    }

    fn refuse(&self, request: &Request, code: Code) -> Reply {
        let telegram = self.layout.error_reply(request, code, self.clock.now());
        self.reply(telegram, code.to_string())
    }

    fn refuse_malformed(
        &self,
        telegram: &[u8],
        malformed: Malformed,
    ) -> Result<Reply, Unanswerable> {
        let Some(reply) = self.layout.malformed_reply(telegram, self.clock.now()) else {
            return Err(Unanswerable(malformed));
        };
        warn!(code = %Code::Malformed, "{malformed}");
        Ok(self.reply(reply, Code::Malformed.to_string()))
    }

    #[expect(clippy::unused_self, reason = "reads as the relay's reply, like its siblings")]
    fn reply(&self, telegram: Vec<u8>, code: String) -> Reply {
        Reply { telegram, code, replayed: false, permit: None }
    }
}

/// What is recorded of an outcome: relay and reprocess record by the same rules.
pub(super) fn record_of(
    layout: &Layout,
    request: &Request,
    attempt: Attempt,
    outcome: Transfer,
    at: chrono::DateTime<chrono::Utc>,
    mut trail: Trail,
) -> Record {
    let (result, response) = match outcome {
        Transfer::Done(body) => {
            (CallResult::Definite(Code::Done), layout.done_reply(request, &body, at))
        }
        Transfer::Refused(code) => {
            (CallResult::Definite(code), layout.error_reply(request, code, at))
        }
        Transfer::NotSent(Seen(seen)) => {
            trail.seen = Some(seen);
            (CallResult::NotSent, layout.error_reply(request, Code::NotSent, at))
        }
        Transfer::Unknown(Seen(seen)) => {
            trail.seen = Some(seen);
            (CallResult::Open, layout.error_reply(request, Code::Unknown, at))
        }
    };
    Record { guid: request.guid().clone(), attempt, result, response, trail }
}

/// A claim that is ours until it is recorded. Dropped before (an error, a panic), it is given up to the sweep.
struct Held {
    claim: Option<(Guid, Attempt)>,
    given_up: Arc<GivenUp>,
}

impl Held {
    fn recorded(mut self) {
        self.claim = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((guid, attempt)) = self.claim.take() {
            self.given_up.push(guid, attempt);
        }
    }
}
