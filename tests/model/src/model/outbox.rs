//! Transactional outbox, wire and inbox with acknowledgements: two messages, up to two dispatchers, crashes, resets, purges.

use crate::model::explore::{Model, Property};

const MESSAGES: usize = 2;
const DISPATCHERS: usize = 2;
/// Frames that fit on the wire in each direction.
const WIRE_MAX: usize = 2;

/// What the receiver is doing with a message of a dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Receiver {
    Idle,
    Got(u8, u8),
    /// The effect is committed, the inbox is not (a guard less).
    Effect(u8, u8),
    ToAck(u8, u8),
    /// Acknowledged before anything was committed (a guard less).
    Acked(u8, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Row {
    None,
    Pending,
    Acked,
    /// Its business row is there, and nobody will ever write this one.
    Lost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    business: [bool; MESSAGES],
    rows: [Row; MESSAGES],
    /// Which message each dispatcher awaits an acknowledgement of, plus 1.
    awaits: [u8; DISPATCHERS],
    forth: [Vec<u8>; DISPATCHERS],
    back: [Vec<u8>; DISPATCHERS],
    receiver: Receiver,
    inbox: [bool; MESSAGES],
    effects: [u8; MESSAGES],
    crashes: u8,
    resets: u8,
    purges: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum InboxPurge {
    Never,
    OnceAcked,
    ByTime,
}

/// The guards of outbox and inbox, and how many dispatchers there are.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a guard of its own")]
pub struct Outbox {
    event_in_the_business_transaction: bool,
    ack_after_commit: bool,
    ack_names_its_event: bool,
    inbox_in_the_effects_transaction: bool,
    mark_on_ack: bool,
    purge: InboxPurge,
    dispatchers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Business(usize),
    OutboxInsert(usize),
    Send(usize, usize),
    GiveUpWaiting(usize),
    AckArrives(usize),
    Take(usize),
    ReceiverSteps,
    ReceiverCrashes,
    DispatcherCrashes(usize, bool),
    PublisherCrashes,
    Reset(usize),
    PurgeInbox(usize),
}

impl Outbox {
    pub const FULL: Outbox = Outbox {
        event_in_the_business_transaction: true,
        ack_after_commit: true,
        ack_names_its_event: true,
        inbox_in_the_effects_transaction: true,
        mark_on_ack: true,
        purge: InboxPurge::Never,
        dispatchers: 1,
    };

    fn message_actions(&self, s: &State, actions: &mut Vec<Action>) {
        for m in 0..MESSAGES {
            if !s.business[m] {
                actions.push(Action::Business(m));
            }
            if !self.event_in_the_business_transaction && s.business[m] && s.rows[m] == Row::None {
                actions.push(Action::OutboxInsert(m));
            }
            let may_purge = match self.purge {
                InboxPurge::Never => false,
                InboxPurge::OnceAcked => s.rows[m] == Row::Acked,
                InboxPurge::ByTime => true,
            };
            if s.inbox[m] && may_purge && s.purges > 0 {
                actions.push(Action::PurgeInbox(m));
            }
        }
    }

    fn dispatcher_actions(&self, s: &State, actions: &mut Vec<Action>) {
        for d in 0..self.dispatchers {
            for m in 0..MESSAGES {
                if s.rows[m] == Row::Pending && s.awaits[d] == 0 && s.forth[d].len() < WIRE_MAX {
                    actions.push(Action::Send(d, m));
                }
            }
            if s.awaits[d] > 0 {
                actions.push(Action::GiveUpWaiting(d));
            }
            if !s.back[d].is_empty() {
                actions.push(Action::AckArrives(d));
            }
            if s.receiver == Receiver::Idle && !s.forth[d].is_empty() {
                actions.push(Action::Take(d));
            }
            let on_the_wire = !s.forth[d].is_empty() || !s.back[d].is_empty();
            if s.crashes > 0 && (s.awaits[d] > 0 || on_the_wire) {
                actions.extend([false, true].map(|arrives| Action::DispatcherCrashes(d, arrives)));
            }
            if s.resets > 0 && on_the_wire {
                actions.push(Action::Reset(d));
            }
        }
    }

    fn step_receiver(&self, s: &mut State) {
        s.receiver = match s.receiver {
            Receiver::Got(m, d) if !self.ack_after_commit => {
                s.back[usize::from(d)].push(m);
                Receiver::Acked(m, d)
            }
            Receiver::Got(m, d) if s.inbox[usize::from(m)] => Receiver::ToAck(m, d),
            Receiver::Got(m, d) => {
                s.effects[usize::from(m)] += 1;
                if self.inbox_in_the_effects_transaction {
                    s.inbox[usize::from(m)] = true;
                    Receiver::ToAck(m, d)
                } else {
                    Receiver::Effect(m, d)
                }
            }
            Receiver::Effect(m, d) => {
                s.inbox[usize::from(m)] = true;
                Receiver::ToAck(m, d)
            }
            Receiver::ToAck(m, d) => {
                s.back[usize::from(d)].push(m);
                Receiver::Idle
            }
            Receiver::Acked(m, _) => {
                let m = usize::from(m);
                s.effects[m] += u8::from(!s.inbox[m]);
                s.inbox[m] = true;
                Receiver::Idle
            }
            Receiver::Idle => Receiver::Idle,
        };
    }

    fn ack_arrives(&self, s: &mut State, d: usize) {
        let named = s.back[d].remove(0);
        if self.ack_names_its_event {
            s.rows[usize::from(named)] = Row::Acked;
            if s.awaits[d] == named + 1 {
                s.awaits[d] = 0;
            }
        } else if s.awaits[d] > 0 {
            s.rows[usize::from(s.awaits[d]) - 1] = Row::Acked;
            s.awaits[d] = 0;
        }
    }
}

/// A small number, as the states keep it.
fn byte(n: usize) -> u8 {
    u8::try_from(n).expect("there are two of each")
}

impl Model for Outbox {
    type State = State;
    type Action = Action;

    const PROPERTIES: &'static [Property<State>] = &[
        ("O1 an effect happens at most once", |s| s.effects.iter().all(|n| *n <= 1)),
        ("O2 acknowledged means that the effect is committed", |s| {
            (0..MESSAGES).all(|m| s.rows[m] != Row::Acked || s.effects[m] >= 1)
        }),
    ];
    const SETTLES: &'static str = "O3 every committed event still gets its effect and its mark";

    fn start(&self) -> State {
        State {
            business: [false; MESSAGES],
            rows: [Row::None; MESSAGES],
            awaits: [0; DISPATCHERS],
            forth: [vec![], vec![]],
            back: [vec![], vec![]],
            receiver: Receiver::Idle,
            inbox: [false; MESSAGES],
            effects: [0; MESSAGES],
            crashes: 1,
            resets: 1,
            purges: 1,
        }
    }

    fn actions(&self, s: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        self.message_actions(s, &mut actions);
        self.dispatcher_actions(s, &mut actions);
        if s.receiver != Receiver::Idle {
            actions.push(Action::ReceiverSteps);
        }
        if s.crashes > 0 {
            actions.push(Action::ReceiverCrashes);
            let owes = (0..MESSAGES).any(|m| s.business[m] && s.rows[m] == Row::None);
            if !self.event_in_the_business_transaction && owes {
                actions.push(Action::PublisherCrashes);
            }
        }
        actions
    }

    fn next(&self, s: &State, action: Action) -> Option<State> {
        let mut s = s.clone();
        match action {
            Action::Business(m) => {
                s.business[m] = true;
                if self.event_in_the_business_transaction {
                    s.rows[m] = Row::Pending;
                }
            }
            Action::OutboxInsert(m) => s.rows[m] = Row::Pending,
            Action::PublisherCrashes => {
                s.crashes -= 1;
                for m in (0..MESSAGES).filter(|m| s.business[*m]) {
                    if s.rows[m] == Row::None {
                        s.rows[m] = Row::Lost;
                    }
                }
            }
            Action::Send(d, m) => {
                s.forth[d].push(byte(m));
                s.awaits[d] = byte(m) + 1;
                if !self.mark_on_ack {
                    s.rows[m] = Row::Acked;
                }
            }
            Action::GiveUpWaiting(d) => s.awaits[d] = 0,
            Action::AckArrives(d) => self.ack_arrives(&mut s, d),
            Action::Take(d) => s.receiver = Receiver::Got(s.forth[d].remove(0), byte(d)),
            Action::ReceiverSteps => self.step_receiver(&mut s),
            Action::ReceiverCrashes => {
                s.crashes -= 1;
                s.receiver = Receiver::Idle;
                s.forth.iter_mut().chain(&mut s.back).for_each(Vec::clear);
            }
            Action::DispatcherCrashes(d, arrives) => {
                s.crashes -= 1;
                s.awaits[d] = 0;
                s.back[d].clear();
                if !arrives {
                    s.forth[d].clear();
                }
            }
            Action::Reset(d) => {
                s.resets -= 1;
                s.awaits[d] = 0;
                s.forth[d].clear();
                s.back[d].clear();
            }
            Action::PurgeInbox(m) => {
                s.purges -= 1;
                s.inbox[m] = false;
            }
        }
        s.back.iter_mut().for_each(|wire| wire.truncate(WIRE_MAX));
        Some(s)
    }

    fn is_settled(&self, s: &State) -> bool {
        (0..MESSAGES).all(|m| !s.business[m] || (s.rows[m] == Row::Acked && s.effects[m] == 1))
    }

    fn is_own(&self, action: Action) -> bool {
        match action {
            Action::OutboxInsert(_)
            | Action::Send(..)
            | Action::GiveUpWaiting(_)
            | Action::AckArrives(_)
            | Action::Take(_)
            | Action::ReceiverSteps => true,
            Action::Business(_)
            | Action::ReceiverCrashes
            | Action::DispatcherCrashes(..)
            | Action::PublisherCrashes
            | Action::Reset(_)
            | Action::PurgeInbox(_) => false,
        }
    }

    fn tell(&self, s: &State) -> String {
        format!("outbox {:?} inbox {:?} effects {:?}", s.rows, s.inbox, s.effects)
    }
}

/// Every configuration: its name, the guards, the verdict.
#[rustfmt::skip]
pub fn configurations() -> Vec<(&'static str, Outbox, &'static str)> {
    let full = Outbox::FULL;
    vec![
        ("all guards", full, "PASS"),
        ("all guards, two dispatchers", Outbox { dispatchers: 2, ..full }, "PASS"),
        ("without event-in-the-business-transaction", Outbox { event_in_the_business_transaction: false, ..full }, "O3"),
        ("without ack-after-commit", Outbox { ack_after_commit: false, ..full }, "O2"),
        ("without ack-names-its-event", Outbox { ack_names_its_event: false, ..full }, "O2"),
        ("without inbox-in-the-effects-transaction", Outbox { inbox_in_the_effects_transaction: false, ..full }, "O1"),
        ("without mark-on-ack", Outbox { mark_on_ack: false, ..full }, "O2"),
        ("without inbox-is-kept: purged by time", Outbox { purge: InboxPurge::ByTime, ..full }, "O1"),
        ("without inbox-is-kept: purged once acknowledged, two dispatchers", Outbox { purge: InboxPurge::OnceAcked, dispatchers: 2, ..full }, "O1"),
        ("without inbox-is-kept: purged once acknowledged", Outbox { purge: InboxPurge::OnceAcked, ..full }, "O1"),
    ]
}
