//! What is done at all in a life, by whom, and how it ends: everything settles.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use chrono::TimeDelta;
use oncegate::engine::age::Ages;
use oncegate::engine::callers::Callers;
use oncegate::engine::orphans::Sweep;
use oncegate::engine::purge::Purge;
use oncegate::engine::relay::{Relay, Reply, Resends};
use oncegate::engine::reprocess::Reprocess;
use oncegate::engine::resolve::Resolve;
use oncegate::engine::{Operator, Stop};
use oncegate::guid::Guid;
use oncegate::ledger::{Found, Query};
use oncegate::state::State;

use super::Failure;
use super::actor::Actor;
use super::books::LATE_MAX_S;
use super::mutants::Mutant;
use super::stage::{Process, SimOwners, Stage, lock};
use super::watch::{GUIDS, guid};
use crate::support::channel::Telegram;

/// Acts of the outermost level.
const ACTS: usize = 45;
/// Rounds after which everything must be settled: an orphan, an inquiry, a sending, and room for the core's refusal to answer.
const ROUNDS_MAX: usize = 8;
const MIN_AGE_S: u64 = LATE_MAX_S + 1;
const ORPHAN_AFTER_S: i64 = 90;

/// Lives one life to its end.
pub fn live(stage: Stage) -> Result<Stage, Box<Failure>> {
    let stage = Arc::new(stage);
    let lived = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..ACTS {
            if stage.is_wrong().is_some() {
                return;
            }
            act(&stage);
        }
        settle(&stage);
    }));
    let panicked = lived.is_err().then(|| "the engine panicked".to_owned());
    match panicked.or_else(|| stage.is_wrong()) {
        Some(wrong) => Err(Box::new(Failure { seed: stage.seed, wrong, log: stage.log() })),
        None => Ok(Arc::into_inner(stage).expect("everything that held the stage is dead")),
    }
}

/// Somebody does something.
pub fn act(stage: &Arc<Stage>) {
    if !stage.enter() {
        return;
    }
    match stage.below(100) {
        0..48 => send(stage),
        48..60 => sweep(stage, stage.below(2)),
        60..69 => resolve(stage),
        69..77 => reprocess(stage),
        77..80 => purge(stage),
        80..89 => pass(stage),
        89..93 => jump(stage),
        93..96 => kill(stage, stage.below(2)),
        96..97 => reboot(stage),
        _ => turn_core(stage),
    }
    stage.exit();
}

/// While somebody sleeps: time passes, rows are swept, asked about, and this transfer is sent again.
pub fn everything_goes_on(stage: &Arc<Stage>, guid: &Guid) {
    for _ in 0..=stage.below(3) {
        if stage.is_wrong().is_some() || !stage.enter() {
            return;
        }
        stage.tell("somebody sleeps; the core is up");
        lock(&stage.books).down = false;
        stage.count("sleeps");
        stage.pass(100);
        sweep(stage, 0);
        sweep(stage, 1);
        stage.pass(70);
        resolve(stage);
        stage.doom(stage.chance(400));
        send_under(stage, guid.as_str());
        stage.doom(false);
        stage.exit();
    }
}

fn reboot(stage: &Arc<Stage>) {
    stage.reboot();
    Actor::forget_claims(stage);
    stage.check("reboot");
}

fn pass(stage: &Stage) {
    let seconds = [1, 5, 20, 40, 61, 100][stage.below(6)];
    stage.tell(&format!("{seconds} s pass"));
    stage.pass(seconds);
}

fn jump(stage: &Stage) {
    let far = [5, 61, 100, 3_600, 86_400, 172_800][stage.below(6)];
    stage.jump(if stage.chance(600) { far } else { -far });
}

fn turn_core(stage: &Stage) {
    let down = !lock(&stage.books).down;
    lock(&stage.books).down = down;
    stage.tell(if down { "the core goes down" } else { "the core comes up" });
}

fn kill(stage: &Stage, slot: usize) {
    if let Some(relay) = lock(&stage.slots)[slot].take() {
        stage.tell(&format!("relay {} is killed", relay.id));
        stage.count("kills");
        stage.kill(&relay);
    }
}

/// The relay in this slot. One that is not there is started: it looks at the clock and sweeps before it serves.
fn relay(stage: &Arc<Stage>, slot: usize) -> Option<Process> {
    let running = lock(&stage.slots)[slot].clone().filter(|relay| !stage.is_dead(relay.id));
    if running.is_some() {
        return running;
    }
    let relay = stage.start(slot);
    lock(&stage.slots)[slot] = Some(relay.clone());
    stage.tell(&format!("relay {} starts", relay.id));
    let actor = Actor { stage: Arc::clone(stage), process: relay.clone(), telegram: None };
    stage.within(&relay, || {
        let _ = Ages::look(&actor, &*stage.clock, relay.owner.as_str());
        sweep_as(&actor);
    })?;
    Some(relay)
}

/// A channel sends: a transfer, the same again, or another one under its GUID.
fn send(stage: &Arc<Stage>) {
    send_under(stage, &guid(whose(stage)));
}

fn send_under(stage: &Arc<Stage>, guid: &str) {
    let telegram = Telegram::under(guid, "");
    let telegram = match stage.below(10) {
        0 => telegram.other_content(),
        1..5 => telegram.resent(),
        _ => telegram,
    };
    let Some(process) = relay(stage, stage.below(2)) else { return };
    stage.tell(&format!("relay {} gets {} {}", process.id, telegram.guid, telegram.amount));
    stage.count("telegrams");
    let bytes = telegram.bytes();
    let actor =
        Actor { stage: Arc::clone(stage), process: process.clone(), telegram: Some(bytes.clone()) };
    let relay = Arc::new(Relay {
        ledger: Arc::new(actor.clone()),
        core: Arc::new(actor),
        layout: stage.layout.clone(),
        clock: Arc::clone(&stage.clock) as _,
        owner: process.owner.clone(),
        gate: Arc::clone(&process.gate),
        callers: Callers::none(),
        given_up: Arc::clone(&process.given_up),
        // It looks before it claims, or it does not.
        resends: if stage.chance(500) { Resends::none() } else { Resends::default() },
        called: None,
    });
    let (tell, hear) = mpsc::channel();
    let tell = move |reply: Result<Reply, _>| {
        tell.send(reply.expect("a telegram that can be answered")).expect("somebody hears");
    };
    if stage.within(&process, || relay.answer(&bytes, tell)).is_some() {
        told(stage, &bytes, &hear.recv().expect("whoever lives answers"));
    }
}

/// Mostly a transfer of which something may still become.
fn whose(stage: &Stage) -> usize {
    let (n, other) = (stage.below(GUIDS), stage.below(GUIDS));
    let guid = Guid::from_ledger(guid(n));
    let settled = match stage.row(&guid) {
        Ok(Found::Row(row)) => row.state == State::Done,
        Ok(Found::Purged) => true,
        Ok(Found::Nothing) | Err(_) => false,
    };
    if settled { other } else { n }
}

fn told(stage: &Stage, telegram: &[u8], reply: &Reply) {
    let request = stage.layout.decode_request(telegram).expect("a telegram");
    stage.tell(&format!("{} is told {}", request.guid(), reply.code));
    let content = |row: &oncegate::ledger::Row| stage.layout.same_content(&request, &row.request);
    let wrong = lock(&stage.watch).told(request.guid(), &reply.code, &reply.telegram, &content);
    stage.wrong(wrong);
    match reply.code.as_str() {
        "0000" | "C051" | "E901" | "E902" | "E903" | "E904" | "E906" | "E907" | "E909" => {}
        code => stage.wrong([format!("{} was told {code}", request.guid())]),
    }
}

fn sweep(stage: &Arc<Stage>, slot: usize) {
    let Some(process) = relay(stage, slot) else { return };
    let actor = Actor { stage: Arc::clone(stage), process: process.clone(), telegram: None };
    stage.within(&process, || sweep_as(&actor));
}

fn sweep_as(actor: &Actor) {
    let stage = &actor.stage;
    let sweep = Sweep {
        ledger: actor,
        owners: &SimOwners(Arc::clone(stage)),
        layout: &stage.layout,
        clock: &*stage.clock,
        own: &actor.process.owner,
        given_up: &actor.process.given_up,
        orphan_after: TimeDelta::seconds(ORPHAN_AFTER_S),
    };
    let _ = sweep.run();
}

/// An operator's process, from its start to its end.
fn routine(stage: &Arc<Stage>, name: &'static str, run: impl FnOnce(&Actor)) {
    let process = stage.start(stage.below(2));
    stage.tell(&format!("{name} {} starts", process.id));
    let actor = Actor { stage: Arc::clone(stage), process: process.clone(), telegram: None };
    stage.within(&process, || run(&actor));
    if !stage.is_dead(process.id) {
        stage.leave(&process);
    }
}

fn operator() -> Operator {
    Operator { who: "operator@host".to_owned(), reason: None }
}

fn resolve(stage: &Arc<Stage>) {
    let min_age_s = if stage.is(Mutant::NoMinAge) { 0 } else { MIN_AGE_S };
    routine(stage, "resolve", |actor| {
        let resolve = Resolve {
            ledger: actor,
            core: actor,
            layout: &stage.layout,
            clock: &*stage.clock,
            min_age: TimeDelta::seconds(i64::try_from(min_age_s).expect("a minute")),
            operator: operator(),
        };
        if let Ok(plan) = resolve.plan(None) {
            resolve.run(&plan, &Stop::default(), &mut |_| {});
        }
    });
}

fn reprocess(stage: &Arc<Stage>) {
    routine(stage, "reprocess", |actor| {
        let reprocess = Reprocess {
            ledger: actor,
            core: actor,
            layout: &stage.layout,
            clock: &*stage.clock,
            owner: actor.process.owner.clone(),
            attempts_max: 1_000,
            keep_going: true,
            operator: operator(),
        };
        if let Ok(plan) = reprocess.plan(None) {
            reprocess.run(&plan, &Stop::default(), &mut |_| {});
        }
    });
}

fn purge(stage: &Arc<Stage>) {
    routine(stage, "purge", |actor| {
        let purge = Purge {
            ledger: actor,
            clock: &*stage.clock,
            age: TimeDelta::zero(),
            operator: operator(),
        };
        let _ = purge.run(None, &Stop::default(), &mut |_| {});
    });
}

/// What operators do in the end: wait, ask, send again, until nothing is left. Then the money is counted.
fn settle(stage: &Arc<Stage>) {
    stage.tell("the end: nothing fails any more");
    stage.calm_down();
    lock(&stage.books).down = false;
    for _ in 0..ROUNDS_MAX {
        if unsettled(stage).is_empty() {
            break;
        }
        stage.pass(MIN_AGE_S + 5);
        sweep(stage, 0);
        sweep(stage, 1);
        resolve(stage);
        reprocess(stage);
    }
    let left = unsettled(stage);
    if !left.is_empty() {
        return stage
            .wrong([format!("not settled after {ROUNDS_MAX} rounds: {}", left.join(", "))]);
    }
    stage.pass(LATE_MAX_S);
    let guids = lock(&stage.watch).guids();
    let wrong = guids.iter().filter_map(|guid| miscounted(stage, guid));
    stage.wrong(wrong.collect::<Vec<_>>());
}

fn unsettled(stage: &Stage) -> Vec<String> {
    let states = [State::Received, State::Sent, State::Unknown, State::Failed];
    let rows = stage.truth().page(&Query::of(&states)).expect("the truth can be read");
    rows.iter().map(|row| format!("{} {} {}", row.guid, row.state, row.updated_at)).collect()
}

/// Money moved once for 0000, and not at all for anything else.
fn miscounted(stage: &Stage, guid: &Guid) -> Option<String> {
    let paid = lock(&stage.books).paid(guid);
    let watch = lock(&stage.watch);
    let code = match stage.row(guid).expect("the truth can be read") {
        Found::Nothing => None,
        Found::Row(_) | Found::Purged => watch.result(guid).and_then(|row| row.rsp_code.clone()),
    };
    let due = usize::from(code.as_deref() == Some("0000"));
    (paid != due).then(|| format!("{guid}: in the end {code:?}, and paid {paid} times"))
}
