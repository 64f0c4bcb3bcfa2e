//! The engine alone: a core that panics, and a random crowd on the memory ledger, watched at each call.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use chrono::{TimeDelta, Utc};
use oncegate::clock::{Clock, SystemClock};
use oncegate::code::{Code, CoreCode};
use oncegate::core_api::{Core, Inquiry, Seen, Transfer};
use oncegate::engine::callers::Callers;
use oncegate::engine::gate::Gate;
use oncegate::engine::orphans::Sweep;
use oncegate::engine::purge::Purge;
use oncegate::engine::relay::{GivenUp, Relay, Reply, Resends};
use oncegate::engine::reprocess::Reprocess;
use oncegate::engine::resolve::Resolve;
use oncegate::engine::{Operator, Stop};
use oncegate::guid::{Attempt, Guid};
use oncegate::ledger::memory::MemoryLedger;
use oncegate::ledger::owner::{Fate, Owners};
use oncegate::ledger::{Cause, Found, Ledger, Orphan, OwnerId, Query, Trail};
use oncegate::state::State;
use oncegate::telegram::{Layout, ReplyBody, Request};
use serde_json::json;

use crate::support::channel::Telegram;
use crate::support::random::Random;

/// Every owner lives: what is swept then has been given up.
struct AllLive;

impl Owners for AllLive {
    fn fate(&self, _: &OwnerId) -> io::Result<Fate> {
        Ok(Fate::Alive)
    }

    fn forget(&self, _: &OwnerId) -> io::Result<()> {
        Ok(())
    }

    fn all(&self) -> io::Result<Vec<OwnerId>> {
        Ok(Vec::new())
    }
}

/// A core that does anything, and looks into the ledger at each call: is this call claimed, and is it the first of its attempt?
struct WatchingCore {
    ledger: Arc<MemoryLedger>,
    random: Mutex<Random>,
    calls: Mutex<HashSet<(Guid, Attempt)>>,
    posted: Mutex<HashMap<Guid, u32>>,
    violations: Mutex<Vec<String>>,
    /// Now and then a result comes after others have gone on with the row.
    late: bool,
}

impl WatchingCore {
    fn body(request: &Request) -> ReplyBody {
        let answer = json!({"guid": request.guid().as_str(), "core_tx_id": "T1", "status": "C", "bal_sign": "+",
                            "posted_dtm": "20260928093015", "balance": 1});
        Layout::std128().encode_answer(request, answer.as_object().unwrap()).unwrap()
    }

    /// Another program takes the row for an orphan's while the result is on its way, and others have time to go on with it.
    fn come_late(&self, guid: &Guid) {
        let Ok(Found::Row(row)) = self.ledger.find(guid) else { return };
        let orphan = Orphan {
            guid: row.guid,
            from: row.state,
            attempt: row.attempt,
            owner: row.owner,
            updated_at: row.updated_at,
            response: None,
            trail: Trail { cause: Cause::Orphan, ..Trail::relay() },
        };
        self.ledger.sweep_orphans(&[orphan]).unwrap();
        for _ in 0..500 {
            thread::yield_now();
        }
    }

    /// Noted, not asserted: a panic here would pass for the core's own.
    fn check(&self, guid: &Guid) {
        let wrong = match self.ledger.find(guid) {
            Ok(Found::Row(row)) if row.state == State::Sent => {
                let first = self.calls.lock().unwrap().insert((guid.clone(), row.attempt));
                (!first).then(|| format!("{guid}: a second call of attempt {}", row.attempt))
            }
            found => Some(format!("called without a claim: {found:?}")),
        };
        self.violations.lock().unwrap().extend(wrong);
    }
}

impl Core for WatchingCore {
    fn transfer(&self, request: &Request) -> Transfer {
        let guid = request.guid();
        self.check(guid);
        let luck = self.random.lock().unwrap().below(100);
        if luck < 70 {
            *self.posted.lock().unwrap().entry(guid.clone()).or_default() += 1;
        }
        if self.late && self.random.lock().unwrap().below(10) == 0 {
            self.come_late(guid);
        }
        match luck {
            0..40 => Transfer::Done(Self::body(request)),
            40..65 | 70..75 => Transfer::Unknown(Seen("reset".to_owned())),
            75..80 => Transfer::Refused(Code::Core(CoreCode::parse("C051").unwrap())),
            80.. => Transfer::NotSent(Seen("connect refused".to_owned())),
            65..70 => {
                // A panic without the hook's report of it.
                resume_unwind(Box::new("the core's client panics, as the test wants it to"))
            }
        }
    }

    fn inquire(&self, request: &Request) -> Inquiry {
        let posted = self.posted.lock().unwrap().contains_key(request.guid());
        match (self.random.lock().unwrap().below(10), posted) {
            (0, _) => Inquiry::NoAnswer(Seen("HTTP 500".to_owned())),
            (_, true) => Inquiry::Known(Self::body(request)),
            (_, false) => Inquiry::Absent,
        }
    }
}

struct World {
    ledger: Arc<MemoryLedger>,
    core: Arc<WatchingCore>,
    clock: Arc<dyn Clock>,
    relay: Arc<Relay>,
    operator: Operator,
}

impl World {
    fn punctual(random: Random) -> World {
        World::new(random, false)
    }

    fn late(random: Random) -> World {
        World::new(random, true)
    }

    fn new(random: Random, late: bool) -> World {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ledger = Arc::new(MemoryLedger::new(Arc::clone(&clock)));
        let core = Arc::new(WatchingCore {
            ledger: Arc::clone(&ledger),
            random: Mutex::new(random),
            calls: Mutex::default(),
            posted: Mutex::default(),
            violations: Mutex::default(),
            late,
        });
        let relay = Arc::new(Relay {
            ledger: Arc::clone(&ledger) as _,
            core: Arc::clone(&core) as _,
            layout: Layout::std128(),
            clock: Arc::clone(&clock),
            owner: OwnerId::new(1, Utc::now(), 0),
            gate: Gate::new(6),
            callers: Callers::default(),
            given_up: Arc::new(GivenUp::default()),
            resends: Resends::default(),
            called: None,
        });
        let operator = Operator { who: "test@host".to_owned(), reason: None };
        World { ledger, core, clock, relay, operator }
    }

    /// None: there was a panic.
    fn ask(&self, telegram: &Telegram) -> Option<Reply> {
        let (tell, told) = mpsc::channel();
        self.relay.answer(&telegram.bytes(), move |reply| tell.send(reply.unwrap()).unwrap());
        told.recv().ok()
    }

    fn sweep(&self) -> Vec<Guid> {
        let sweep = Sweep {
            ledger: &*self.ledger,
            owners: &AllLive,
            layout: &self.relay.layout,
            clock: &*self.clock,
            own: &self.relay.owner,
            given_up: &self.relay.given_up,
            orphan_after: TimeDelta::hours(1),
        };
        sweep.run().unwrap()
    }

    fn resolve(&self) {
        let resolve = Resolve {
            ledger: &*self.ledger,
            core: &*self.core,
            layout: &self.relay.layout,
            clock: &*self.clock,
            min_age: TimeDelta::zero(),
            operator: self.operator.clone(),
        };
        resolve.run(&resolve.plan(None).unwrap(), &Stop::default(), &mut |_| {});
    }

    fn reprocess(&self) {
        let reprocess = Reprocess {
            ledger: &*self.ledger,
            core: &*self.core,
            layout: &self.relay.layout,
            clock: &*self.clock,
            owner: self.relay.owner.clone(),
            attempts_max: 1_000,
            keep_going: true,
            operator: self.operator.clone(),
        };
        for planned in reprocess.plan(None).unwrap() {
            let run =
                || reprocess.run(std::slice::from_ref(&planned), &Stop::default(), &mut |_| {});
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                // As a reprocess process that died; its lock is free now.
                let Ok(Found::Row(row)) = self.ledger.find(&planned.guid) else { continue };
                self.relay.given_up.push(planned.guid, row.attempt);
            }
        }
    }

    fn purge(&self) {
        let purge = Purge {
            ledger: &*self.ledger,
            clock: &*self.clock,
            age: TimeDelta::zero(),
            operator: self.operator.clone(),
        };
        purge.run(None, &Stop::default(), &mut |_| {}).unwrap();
    }

    fn unsettled(&self) -> usize {
        let states = [State::Sent, State::Unknown, State::Failed, State::Received];
        self.ledger.page(&Query::of(&states)).unwrap().len()
    }
}

#[test]
fn a_panic_in_the_cores_client_gives_the_row_up_to_the_sweep_and_the_relay_lives_on() {
    let world = World::punctual(Random::seeded("panic"));
    let mut panicked = None;
    while panicked.is_none() {
        let telegram = Telegram::new("");
        panicked = world.ask(&telegram).is_none().then_some(telegram);
    }
    let telegram = panicked.unwrap();
    let guid = Guid::parse(telegram.guid.as_bytes()).unwrap();
    let told = |telegram: &Telegram| world.ask(telegram).unwrap().code;
    assert_eq!(world.relay.gate.inside(), 0, "it takes up no room");
    assert_eq!(told(&telegram), "E903");
    assert_eq!(world.sweep(), std::slice::from_ref(&guid));
    assert_eq!(told(&telegram), "E901");
    let history = world.ledger.history(&guid).unwrap();
    assert_eq!(history.iter().map(|line| &*line.cause).collect::<Vec<_>>(), ["orphan"]);
    assert_eq!(world.sweep(), [], "it is given up once");
    while told(&telegram) != "0000" {
        world.resolve();
    }
}

#[test]
fn a_random_crowd_never_gets_a_second_call_of_an_attempt_and_always_the_same_final_bytes() {
    let mut random = Random::seeded("crowd");
    for _ in 0..40 {
        let world = World::late(random.fork());
        let telegrams: Vec<Telegram> = (0..5).map(|_| Telegram::new("")).collect();
        let finals = Mutex::new(HashMap::<String, Vec<u8>>::new());
        thread::scope(|scope| {
            for _ in 0..8 {
                let mut random = random.fork();
                let (world, telegrams, finals) = (&world, &telegrams, &finals);
                scope.spawn(move || {
                    for _ in 0..40 {
                        act(world, random.pick(telegrams), finals, &mut random);
                    }
                });
            }
        });
        settle(&world, &telegrams, &finals);
    }
}

/// One thing that somebody does: mostly a channel sends, sometimes an operator or the sweep is at work.
fn act(
    world: &World,
    telegram: &Telegram,
    finals: &Mutex<HashMap<String, Vec<u8>>>,
    random: &mut Random,
) {
    match random.below(100) {
        0..6 => drop(world.sweep()),
        6..12 => world.resolve(),
        12..16 => world.reprocess(),
        16 => world.purge(),
        17..25 => {
            // Whichever content comes first wins the GUID.
            let key = format!("other {}", telegram.guid);
            send(world, &telegram.other_content(), finals, &key);
        }
        _ => send(world, telegram, finals, &telegram.guid),
    }
}

fn send(world: &World, telegram: &Telegram, finals: &Mutex<HashMap<String, Vec<u8>>>, key: &str) {
    let Some(reply) = world.ask(telegram) else { return };
    match reply.code.as_str() {
        "0000" | "C051" => same_final(finals, key, &reply.telegram),
        "E901" | "E902" | "E903" | "E904" | "E906" | "E907" => {}
        code => panic!("{code} can't be"),
    }
}

fn same_final(finals: &Mutex<HashMap<String, Vec<u8>>>, guid: &str, reply: &[u8]) {
    let mut finals = finals.lock().unwrap();
    let first = finals.entry(guid.to_owned()).or_insert_with(|| reply.to_vec());
    assert_eq!(*first, reply, "{guid}: two final answers");
}

/// What operators do in the end: ask and send again until nothing is left. Then nothing may have been paid twice.
fn settle(world: &World, telegrams: &[Telegram], finals: &Mutex<HashMap<String, Vec<u8>>>) {
    let mut rounds = 0;
    while world.unsettled() > 0 {
        world.sweep();
        world.resolve();
        world.reprocess();
        rounds += 1;
        assert!(rounds < 1_000, "{} rows can't be settled", world.unsettled());
    }
    assert_eq!(world.relay.gate.inside(), 0);
    assert_eq!(*world.core.violations.lock().unwrap(), [""; 0]);
    for (guid, posted) in &*world.core.posted.lock().unwrap() {
        assert_eq!(*posted, 1, "{guid} was paid {posted} times");
    }
    for telegram in telegrams {
        let guid = Guid::parse(telegram.guid.as_bytes()).unwrap();
        let paid = world.core.posted.lock().unwrap().contains_key(&guid);
        let told = finals.lock().unwrap().get(&telegram.guid).cloned();
        match world.ledger.find(&guid).unwrap() {
            Found::Row(row) => {
                assert_eq!(row.state, State::Done);
                assert_eq!(paid, row.rsp_code.as_deref() == Some("0000"), "{guid}");
                let other = finals.lock().unwrap().get(&format!("other {guid}")).cloned();
                for told in [told, other].into_iter().flatten() {
                    assert_eq!(row.response, Some(told), "{guid}: told and recorded");
                }
            }
            Found::Purged => {}
            Found::Nothing => assert!(!paid && told.is_none(), "{guid}: paid, and forgotten"),
        }
    }
}
