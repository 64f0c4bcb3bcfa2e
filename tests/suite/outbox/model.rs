//! Source × network × sink against what they mean: a model in memory that goes through the same lives.
//!
//! The network loses requests and ACKs, doubles them, brings them late and out of order; processes die between ACK and mark.

use std::collections::BTreeMap;

use oncegate::outbox::{
    Event, OutboxError, Point, Role, dispatch, dispatch_batch, enqueue, no_fault, receive,
};
use proptest::prelude::*;
use rusqlite::Connection;

use super::{Stores, Trouble, rows_on};

/// What the network does with one request and its ACK.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    RequestLost,
    AckLost,
    /// Twice, then the ACK.
    Doubled,
    /// No answer now; the request arrives some steps later.
    Late,
    /// It arrives, and the answer says no.
    AckGarbled,
    /// It arrives and is acknowledged; the dispatcher dies before its mark.
    DiesBeforeMark,
}

#[derive(Clone, Debug)]
enum Step {
    /// An order; ids are few, so that the same comes again, and with another quantity.
    Enqueue { id: u8, qty: i64 },
    /// A batch; what is beyond the fates arrives.
    Dispatch { limit: usize, fates: Vec<Fate>, together: bool },
    /// Late requests arrive, in an order of their own.
    Deliver { pick: usize },
    /// A copy of anything that was ever sent arrives once more.
    Replay { pick: usize },
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::AckLost),
        1 => Just(Fate::Doubled),
        1 => Just(Fate::Late),
        1 => Just(Fate::AckGarbled),
        1 => Just(Fate::DiesBeforeMark),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..24u8, 1..=2i64).prop_map(|(id, qty)| Step::Enqueue { id, qty }),
        4 => (1..=16usize, prop::collection::vec(fate(), 0..8), any::<bool>())
            .prop_map(|(limit, fates, together)| Step::Dispatch { limit, fates, together }),
        1 => any::<usize>().prop_map(|pick| Step::Deliver { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Replay { pick }),
    ]
}

/// What the two stores mean.
#[derive(Default, Debug)]
struct Meaning {
    /// In order of their coming: the event, and whether it is marked.
    orders: Vec<(Event, bool)>,
    /// In order of their coming.
    received: Vec<Event>,
    /// On the way, late.
    late: Vec<Event>,
    ever_sent: Vec<Event>,
}

impl Meaning {
    fn arrives(&mut self, event: &Event) {
        if !self.received.contains(event) {
            self.received.push(event.clone());
        }
    }

    /// Sends as told; returns how many it marks and whether it fails.
    fn dispatch(&mut self, limit: usize, fates: &[Fate]) -> (usize, bool) {
        let pending: Vec<usize> =
            (0..self.orders.len()).filter(|&at| !self.orders[at].1).take(limit).collect();
        for (nth, &at) in pending.iter().enumerate() {
            let event = self.orders[at].0.clone();
            self.ever_sent.push(event.clone());
            match fates.get(nth).copied().unwrap_or(Fate::Arrives) {
                Fate::Arrives | Fate::Doubled => {
                    self.arrives(&event);
                    self.orders[at].1 = true;
                }
                Fate::RequestLost => return (nth, true),
                Fate::AckLost | Fate::AckGarbled | Fate::DiesBeforeMark => {
                    self.arrives(&event);
                    return (nth, true);
                }
                Fate::Late => {
                    self.late.push(event);
                    return (nth, true);
                }
            }
        }
        (pending.len(), false)
    }
}

/// The real stores. Nothing is killed here, so they need not sync.
struct World {
    _stores: Stores,
    source: Connection,
    sink: Connection,
}

impl World {
    fn new() -> World {
        let stores = Stores::new();
        let (source, sink) = (stores.open(Role::Source), stores.open(Role::Sink));
        for con in [&source, &sink] {
            con.execute_batch("PRAGMA synchronous = OFF").unwrap();
        }
        World { _stores: stores, source, sink }
    }

    fn arrives(&self, event: &Event) {
        receive(&self.sink, event, &mut no_fault).unwrap();
    }

    fn send(&self, event: &Event, fate: Fate) -> Result<bool, OutboxError> {
        let lost = || Err(OutboxError::fault(Trouble(Point::AfterDelivery)));
        match fate {
            Fate::RequestLost | Fate::Late => return lost(),
            Fate::Arrives | Fate::AckLost | Fate::AckGarbled | Fate::DiesBeforeMark => {
                self.arrives(event);
            }
            Fate::Doubled => {
                self.arrives(event);
                self.arrives(event);
            }
        }
        match fate {
            Fate::AckLost => lost(),
            Fate::AckGarbled => Ok(false),
            _ => Ok(true),
        }
    }

    fn dispatch(&self, limit: usize, fates: &[Fate], together: bool) -> (Option<usize>, bool) {
        let fate = |nth: usize| fates.get(nth).copied().unwrap_or(Fate::Arrives);
        let (nth, acknowledged) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let mut send = |event: Event| {
            let now = nth.replace(nth.get() + 1);
            acknowledged.set(now);
            self.send(&event, fate(now))
        };
        let mut fault = |_| match fate(acknowledged.get()) {
            Fate::DiesBeforeMark => Err(OutboxError::fault(Trouble(Point::AfterDelivery))),
            _ => Ok(()),
        };
        if together {
            let batch = dispatch_batch(&self.source, &mut send, limit, &mut fault);
            return (Some(batch.marked), batch.stopped.is_some());
        }
        match dispatch(&self.source, &mut send, limit, &mut fault) {
            Ok(marked) => (Some(marked), false),
            Err(_) => (None, true),
        }
    }
}

fn step_both(world: &World, meaning: &mut Meaning, step: &Step) -> Result<(), TestCaseError> {
    match step {
        Step::Enqueue { id, qty } => {
            let event = Event::new(format!("id-{id}"), *qty).unwrap();
            let known = meaning.orders.iter().find(|(held, _)| held.id == event.id);
            let want = known.map(|(held, _)| held.qty == event.qty);
            let got = enqueue(&world.source, &event, &mut no_fault);
            match want {
                None => {
                    prop_assert!(matches!(got, Ok(true)), "{got:?}");
                    meaning.orders.push((event, false));
                }
                Some(true) => prop_assert!(matches!(got, Ok(false)), "{got:?}"),
                Some(false) => {
                    prop_assert!(matches!(got, Err(OutboxError::Conflict { .. })), "{got:?}");
                }
            }
        }
        Step::Dispatch { limit, fates, together } => {
            let (marked, failed) = meaning.dispatch(*limit, fates);
            let got = world.dispatch(*limit, fates, *together);
            prop_assert_eq!(got.1, failed);
            prop_assert_eq!(got.0.unwrap_or(marked), marked);
        }
        Step::Deliver { pick } if !meaning.late.is_empty() => {
            let event = meaning.late.remove(pick % meaning.late.len());
            world.arrives(&event);
            meaning.arrives(&event);
        }
        Step::Replay { pick } if !meaning.ever_sent.is_empty() => {
            let event = meaning.ever_sent[pick % meaning.ever_sent.len()].clone();
            world.arrives(&event);
            meaning.arrives(&event);
        }
        Step::Deliver { .. } | Step::Replay { .. } => {}
    }
    Ok(())
}

/// The stores hold what the meaning says, and the promises hold between them.
fn compare(world: &World, meaning: &Meaning) -> Result<(), TestCaseError> {
    prop_assert!(world.source.is_autocommit() && world.sink.is_autocommit());
    let orders: Vec<String> = meaning
        .orders
        .iter()
        .map(|(event, sent)| format!("{}|{}|{}", event.id, event.qty, i32::from(*sent)))
        .collect();
    prop_assert_eq!(
        rows_on(&world.source, "SELECT id, qty, sent FROM outbox ORDER BY seq"),
        orders
    );
    let received: Vec<String> =
        meaning.received.iter().map(|event| format!("{}|{}", event.id, event.qty)).collect();
    prop_assert_eq!(rows_on(&world.sink, "SELECT id, qty FROM inbox ORDER BY rowid"), received);
    let total: i64 = meaning.received.iter().map(|event| event.qty).sum();
    prop_assert_eq!(rows_on(&world.sink, "SELECT total FROM stock"), [total.to_string()]);
    for (event, sent) in &meaning.orders {
        prop_assert!(!sent || meaning.received.contains(event), "marked ahead of its ACK");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_network_does_each_order_has_its_effect_once_and_in_order(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let (world, mut meaning) = (World::new(), Meaning::default());
        for step in &steps {
            step_both(&world, &mut meaning, step)?;
            compare(&world, &meaning)?;
        }
        // The network is well again: everything comes to its end.
        while meaning.orders.iter().any(|(_, sent)| !sent) {
            step_both(&world, &mut meaning, &Step::Dispatch { limit: 16, fates: Vec::new(), together: true })?;
            compare(&world, &meaning)?;
        }
        let effects: BTreeMap<&str, i64> =
            meaning.received.iter().map(|event| (event.id.as_str(), event.qty)).collect();
        prop_assert_eq!(effects.len(), meaning.received.len(), "each once");
        let ordered: Vec<&Event> = meaning.orders.iter().map(|(event, _)| event).collect();
        prop_assert_eq!(ordered, meaning.received.iter().collect::<Vec<_>>(), "each, in order");
    }
}
