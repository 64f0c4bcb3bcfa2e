//! One GUID in the ledger (GUIDs do not meet), several workers that may crash or pause anywhere, a core that may act late,
//! resends, resolve, reprocess, the orphan sweep, purge, clock jumps, failed writes, a loss of power.
//!
//! Time goes in ticks. A worker is a thread of a process of its own: its crash frees its owner's lock. Each guard can be taken
//! away; docs/guards.md says where in the code it stands.

use std::fmt::Write as _;

use crate::model::explore::{Model, Property};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Status {
    Sent,
    Done,
    Unknown,
    Failed,
    Purged,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Row {
    status: Status,
    attempt: u8,
    /// 0: none; 1 to 8: the core's so-many-th transfer; [`INQUIRED`]: built from an inquiry's answer.
    answer: u8,
    /// Ticks since the last change, as the routines count them.
    age: u8,
    /// Inquiries that found nothing.
    absences: u8,
    /// 0: the first telegram's; 1: another one under the same GUID.
    content: u8,
}

const INQUIRED: u8 = 9;
/// Transfers that are told apart.
const PAID_MAX: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
enum At {
    Idle,
    Claimed { attempt: u8, age: u8, checked: bool },
    Waiting { attempt: u8, answer: u8 },
    Answered { attempt: u8, answer: u8 },
    TimedOut { attempt: u8 },
    NotSent { attempt: u8 },
    Inquiring { attempt: u8, absences: u8 },
    Inquired { attempt: u8, absences: u8, found: bool },
}

/// A worker. After a crash it is another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
struct Worker {
    at: At,
    /// It lives and its name stands in the row.
    owns: bool,
}

const IDLE: Worker = Worker { at: At::Idle, owns: false };

/// A request at the core, or on its way there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
struct Heard {
    attempt: u8,
    age: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each remembers a thing that must not happen")]
pub struct State {
    row: Option<Row>,
    /// What survives a loss of power.
    disk: Option<Row>,
    workers: Vec<Worker>,
    heard: Vec<Heard>,
    /// How often the money moved.
    paid: u8,
    /// Ticks since it first moved.
    lag: u8,
    crashes: u8,
    jumps: u8,
    power_cuts: u8,
    failed_writes: u8,
    window_closed: bool,
    /// A call left, and no later inquiry found nothing.
    call_is_open: bool,
    /// The first answer that was DONE.
    first_done: u8,
    /// The first final answer that a channel was told.
    first_told: u8,
    done_changed: bool,
    sent_while_open: bool,
    told_differently: bool,
    other_content_served: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    None,
    State,
    StateAndAttempt,
    /// A late definite result may still settle an UNKNOWN or FAILED of its own attempt: what the code does.
    StateAndAttemptLateResults,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    None,
    AnySent,
    Older(u8),
    OwnerDead,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purge {
    Delete,
    Tombstone,
    /// Deletes once the day in the GUID is over, after which the INSERT refuses it.
    Window,
}

/// What a worker does whose record failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFailed {
    /// Says "unknown", and gives its claim up to the sweep: what the code does.
    GiveUp,
    /// Says "unknown", and keeps its claim.
    Keep,
    /// Gives its claim up, and tells the result that nobody has.
    TellResult,
}

/// The guards, the adversary's means, and the sizes.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a guard or a fault of its own")]
pub struct Relay {
    pub workers: usize,
    pub attempts_max: u8,
    pub crashes: u8,
    pub jumps: u8,
    pub power_cuts: u8,
    pub failed_writes: u8,
    pub record_failed: RecordFailed,
    pub full_sync: bool,
    pub record: Fence,
    pub settle: Fence,
    pub sweep: Sweep,
    pub min_age: u8,
    /// The longest time from a call to its execution; none: unbounded.
    pub late_max: Option<u8>,
    /// The longest pause between claim and call; none: unbounded.
    pub pause_max: Option<u8>,
    /// Inquiries that must find nothing before it counts.
    pub absences: u8,
    /// How long an inquiry may still find nothing after the transfer was made.
    pub read_lag: u8,
    pub purge: Purge,
    pub ages_without_jumps: bool,
    pub lost_record_tells_the_row: bool,
    pub content_compared: bool,
    /// A worker does not call once its claim is older.
    pub deadline: Option<u8>,
    pub age_since_last_change: bool,
    pub only_proven_not_sent: bool,
    pub one_post: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Action {
    Receive(usize, u8),
    CheckDeadline(usize),
    Call(usize),
    ConnectFails(usize),
    ReadAnswer(usize),
    Timeout(usize),
    Reset(usize),
    RepeatPost(usize),
    Record(usize),
    RecordFails(usize),
    PlanResolve(usize),
    /// True: served by a copy that lags.
    Inquire(usize, bool),
    Settle(usize),
    Reprocess(usize),
    Sweep,
    Purge,
    CloseWindow,
    CorePays(usize),
    CoreDrops(usize),
    Crash(usize),
    Jump,
    PowerCut,
    Sync,
    Tick,
}

impl Relay {
    /// Every guard, as the code has them.
    pub const FULL: Relay = Relay {
        workers: 2,
        attempts_max: 3,
        crashes: 2,
        jumps: 1,
        power_cuts: 0,
        failed_writes: 1,
        record_failed: RecordFailed::GiveUp,
        full_sync: true,
        record: Fence::StateAndAttemptLateResults,
        settle: Fence::StateAndAttempt,
        sweep: Sweep::OwnerDead,
        min_age: 3,
        late_max: Some(2),
        pause_max: None,
        absences: 1,
        read_lag: 0,
        purge: Purge::Tombstone,
        ages_without_jumps: true,
        lost_record_tells_the_row: true,
        content_compared: true,
        deadline: None,
        age_since_last_change: true,
        only_proven_not_sent: true,
        one_post: true,
    };

    /// The rules as they are written down first: atomic claims, and no guard beyond them.
    const PLAIN: Relay = Relay {
        record: Fence::None,
        settle: Fence::State,
        sweep: Sweep::None,
        min_age: 1,
        purge: Purge::Delete,
        ages_without_jumps: false,
        lost_record_tells_the_row: false,
        content_compared: false,
        ..Relay::FULL
    };

    /// The same without crashes, and without jumps where ages are immune to them: every shortest counterexample does without
    /// them, and a debug build finds it at once.
    #[must_use]
    pub fn small(self) -> Relay {
        Relay { crashes: 0, jumps: self.jumps.min(u8::from(!self.ages_without_jumps)), ..self }
    }

    /// The other family that is safe: orphans by age, where no process pauses for long between claim and call.
    const AGED: Relay = Relay { sweep: Sweep::Older(3), pause_max: Some(2), ..Relay::FULL };

    /// Ages beyond it are all the same.
    fn age_max(&self) -> u8 {
        let sweep = if let Sweep::Older(age) = self.sweep { age } else { 0 };
        self.min_age.max(sweep).max(1)
    }

    fn worker_actions(&self, s: &State, w: usize, actions: &mut Vec<Action>) {
        match s.workers[w].at {
            At::Idle => self.idle_actions(s, w, actions),
            At::Claimed { checked: false, .. } if self.deadline.is_some() => {
                actions.push(Action::CheckDeadline(w));
            }
            At::Claimed { .. } => actions.extend([Action::Call(w), Action::ConnectFails(w)]),
            At::Waiting { answer, .. } => {
                let may = [
                    (answer > 0, Action::ReadAnswer(w)),
                    (true, Action::Timeout(w)),
                    (!self.only_proven_not_sent, Action::Reset(w)),
                    (!self.one_post, Action::RepeatPost(w)),
                ];
                actions.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
            }
            At::Answered { .. } | At::TimedOut { .. } | At::NotSent { .. } => {
                actions.push(Action::Record(w));
                if s.failed_writes > 0 {
                    actions.push(Action::RecordFails(w));
                }
            }
            At::Inquiring { .. } => {
                actions.push(Action::Inquire(w, false));
                if s.paid > 0 && s.lag < self.read_lag {
                    actions.push(Action::Inquire(w, true));
                }
            }
            At::Inquired { .. } => actions.push(Action::Settle(w)),
        }
        if s.crashes > 0 && s.workers[w] != IDLE {
            actions.push(Action::Crash(w));
        }
    }

    fn idle_actions(&self, s: &State, w: usize, actions: &mut Vec<Action>) {
        actions.extend([Action::Receive(w, 0), Action::Receive(w, 1)]);
        let Some(row) = s.row else { return };
        if row.status == Status::Unknown && row.age >= self.min_age {
            actions.push(Action::PlanResolve(w));
        }
        if row.status == Status::Failed && row.attempt < self.attempts_max {
            actions.push(Action::Reprocess(w));
        }
    }

    fn row_actions(&self, s: &State, row: Row, actions: &mut Vec<Action>) {
        let orphan = match self.sweep {
            Sweep::None => false,
            Sweep::AnySent => true,
            Sweep::Older(age) => row.age >= age,
            Sweep::OwnerDead => !s.workers.iter().any(|worker| worker.owns),
        };
        if row.status == Status::Sent && orphan {
            actions.push(Action::Sweep);
        }
        let may_purge = self.purge != Purge::Window || s.window_closed;
        if row.status == Status::Done && row.age >= self.age_max() && may_purge {
            actions.push(Action::Purge);
        }
        if s.jumps > 0 {
            actions.push(Action::Jump);
        }
    }

    /// Something must happen before time may go on.
    fn is_urgent(&self, s: &State) -> bool {
        let late = self.late_max.is_some_and(|max| s.heard.iter().any(|heard| heard.age >= max));
        let paused = |max: u8| {
            s.workers.iter().any(|w| matches!(w.at, At::Claimed { age, .. } if age >= max))
        };
        late || self.pause_max.is_some_and(paused)
    }

    fn receive(&self, s: &mut State, w: usize, content: u8) -> Option<()> {
        let Some(row) = s.row else {
            let refused = self.purge == Purge::Window && s.window_closed;
            return (!refused).then(|| s.claim(w, 1, content));
        };
        if row.content != content {
            if self.content_compared {
                return None;
            }
            if row.status == Status::Done {
                s.other_content_served = true;
                return Some(());
            }
        }
        match row.status {
            Status::Sent | Status::Unknown | Status::Purged => None,
            Status::Done => {
                s.tell(row.answer);
                Some(())
            }
            Status::Failed if row.attempt >= self.attempts_max => None,
            Status::Failed => {
                s.other_content_served |= row.content != content;
                s.claim(w, row.attempt + 1, row.content);
                Some(())
            }
        }
    }

    fn record(&self, s: &mut State, w: usize) -> Option<()> {
        let at = s.workers[w].at;
        let (attempt, definite) = match at {
            At::Answered { attempt, .. } => (attempt, true),
            At::TimedOut { attempt } | At::NotSent { attempt } => (attempt, false),
            _ => return None,
        };
        s.workers[w].at = At::Idle;
        let row = s.row.as_mut().filter(|row| match self.record {
            Fence::None => true,
            Fence::State => row.status == Status::Sent,
            Fence::StateAndAttempt => row.status == Status::Sent && row.attempt == attempt,
            Fence::StateAndAttemptLateResults => {
                let late = definite && matches!(row.status, Status::Unknown | Status::Failed);
                row.attempt == attempt && (row.status == Status::Sent || late)
            }
        });
        let Some(row) = row else {
            s.workers[w].owns = false;
            match (at, s.row) {
                (_, Some(Row { status: Status::Done, answer, .. }))
                    if self.lost_record_tells_the_row =>
                {
                    s.tell(answer);
                }
                (At::Answered { answer, .. }, _) if !self.lost_record_tells_the_row => {
                    s.tell(answer);
                }
                _ => {}
            }
            return Some(());
        };
        match at {
            At::Answered { answer, .. } => {
                row.done(answer);
                s.done(answer);
                s.tell(answer);
            }
            At::TimedOut { .. } => s.done_changed |= row.turn(Status::Unknown),
            _ => s.done_changed |= row.turn(Status::Failed),
        }
        s.disown();
        Some(())
    }

    fn record_fails(&self, s: &mut State, w: usize) {
        s.failed_writes -= 1;
        let at = std::mem::replace(&mut s.workers[w].at, At::Idle);
        match self.record_failed {
            RecordFailed::Keep => {}
            RecordFailed::GiveUp => s.workers[w].owns = false,
            RecordFailed::TellResult => {
                s.workers[w].owns = false;
                if let At::Answered { answer, .. } = at {
                    s.tell(answer);
                }
            }
        }
    }

    fn settle(&self, s: &mut State, w: usize) -> Option<()> {
        let At::Inquired { attempt, absences, found } = s.workers[w].at else { return None };
        s.workers[w].at = At::Idle;
        let row = s.row.as_mut().filter(|row| match self.settle {
            Fence::None => true,
            Fence::State => row.status == Status::Unknown,
            Fence::StateAndAttempt | Fence::StateAndAttemptLateResults => {
                let as_seen = row.attempt == attempt && row.absences == absences;
                row.status == Status::Unknown && as_seen
            }
        });
        let Some(row) = row else { return Some(()) };
        if found {
            row.done(INQUIRED);
            s.done(INQUIRED);
        } else if row.absences + 1 < self.absences {
            row.absences += 1;
            row.age = 0;
        } else {
            s.done_changed |= row.turn(Status::Failed);
        }
        Some(())
    }

    fn tick(&self, s: &mut State) {
        let age_max = self.age_max();
        if let Some(row) = &mut s.row {
            row.age = (row.age + 1).min(age_max);
        }
        if self.late_max.is_some() {
            s.heard.iter_mut().for_each(|heard| heard.age += 1);
        }
        let pause_seen = self.pause_max.unwrap_or(0).max(self.deadline.map_or(0, |d| d + 1));
        for worker in &mut s.workers {
            if let At::Claimed { age, .. } = &mut worker.at {
                *age = (*age + 1).min((*age).max(pause_seen));
            }
        }
        if s.paid > 0 && s.lag < self.read_lag {
            s.lag += 1;
        }
    }

    /// The action of a worker on its own way.
    fn worker_moves(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::CheckDeadline(w) => {
                let At::Claimed { attempt, age, .. } = s.workers[w].at else { return None };
                let late = age > self.deadline?;
                let checked = At::Claimed { attempt, age, checked: true };
                s.workers[w].at = if late { At::NotSent { attempt } } else { checked };
            }
            Action::Call(w) => {
                let At::Claimed { attempt, .. } = s.workers[w].at else { return None };
                s.send(attempt, 4)?;
                s.workers[w].at = At::Waiting { attempt, answer: 0 };
            }
            Action::RepeatPost(w) => {
                let At::Waiting { attempt, answer: 0 } = s.workers[w].at else { return None };
                s.send(attempt, 2)?;
            }
            Action::ConnectFails(w) | Action::Reset(w) => {
                let (At::Claimed { attempt, .. } | At::Waiting { attempt, .. }) = s.workers[w].at
                else {
                    return None;
                };
                s.workers[w].at = At::NotSent { attempt };
            }
            Action::ReadAnswer(w) => {
                let At::Waiting { attempt, answer } = s.workers[w].at else { return None };
                s.workers[w].at = At::Answered { attempt, answer };
            }
            Action::Timeout(w) => {
                let At::Waiting { attempt, .. } = s.workers[w].at else { return None };
                s.workers[w].at = At::TimedOut { attempt };
            }
            Action::PlanResolve(w) => {
                let row = s.row?;
                s.workers[w].at = At::Inquiring { attempt: row.attempt, absences: row.absences };
            }
            Action::Inquire(w, lags) => {
                let At::Inquiring { attempt, absences } = s.workers[w].at else { return None };
                let found = s.paid > 0 && !lags;
                s.call_is_open &= found;
                s.workers[w].at = At::Inquired { attempt, absences, found };
            }
            Action::Crash(w) => {
                s.crashes -= 1;
                s.workers[w] = IDLE;
            }
            _ => return None,
        }
        Some(())
    }

    /// The action of the ledger, the core or the world.
    fn world_moves(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Sweep => {
                s.row.as_mut()?.turn(Status::Unknown);
                s.disown();
            }
            Action::Purge if self.purge == Purge::Tombstone => {
                let row = s.row.as_mut()?;
                (row.status, row.answer, row.age) = (Status::Purged, 0, 0);
            }
            Action::Purge => {
                s.row = None;
                s.disown();
            }
            Action::CloseWindow => s.window_closed = true,
            Action::CorePays(h) => s.pay(h),
            Action::CoreDrops(h) => drop(s.heard.remove(h)),
            Action::PowerCut => {
                s.power_cuts -= 1;
                if !self.full_sync {
                    s.row = s.disk;
                }
                s.workers.fill(IDLE);
            }
            Action::Sync => s.disk = s.row,
            Action::Jump => {
                s.jumps -= 1;
                if !self.ages_without_jumps {
                    s.row.as_mut()?.age = self.age_max();
                }
            }
            Action::Tick => self.tick(s),
            _ => return None,
        }
        Some(())
    }
}

impl Row {
    fn done(&mut self, answer: u8) {
        (self.status, self.answer, self.age, self.absences) = (Status::Done, answer, 0, 0);
    }

    /// To UNKNOWN or FAILED; whether that changed what must not change.
    fn turn(&mut self, to: Status) -> bool {
        let was_final = matches!(self.status, Status::Done | Status::Purged);
        (self.status, self.answer, self.age, self.absences) = (to, 0, 0, 0);
        was_final
    }
}

impl State {
    fn claim(&mut self, w: usize, attempt: u8, content: u8) {
        self.disown();
        let status = Status::Sent;
        self.row = Some(Row { status, attempt, answer: 0, age: 0, absences: 0, content });
        self.workers[w] =
            Worker { at: At::Claimed { attempt, age: 0, checked: false }, owns: true };
    }

    fn send(&mut self, attempt: u8, on_the_way_max: usize) -> Option<()> {
        if self.heard.len() >= on_the_way_max {
            return None;
        }
        self.sent_while_open |= self.call_is_open;
        self.call_is_open = true;
        self.heard.push(Heard { attempt, age: 0 });
        Some(())
    }

    fn pay(&mut self, h: usize) {
        let heard = self.heard.remove(h);
        self.paid = (self.paid + 1).min(PAID_MAX);
        let waits = At::Waiting { attempt: heard.attempt, answer: 0 };
        if let Some(worker) = self.workers.iter_mut().find(|worker| worker.at == waits) {
            worker.at = At::Waiting { attempt: heard.attempt, answer: self.paid };
        }
    }

    fn disown(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.owns = false);
    }

    fn done(&mut self, answer: u8) {
        self.done_changed |= self.first_done != 0 && self.first_done != answer;
        if self.first_done == 0 {
            self.first_done = answer;
        }
    }

    /// A channel is told a final answer.
    fn tell(&mut self, answer: u8) {
        self.told_differently |= self.first_told != 0 && self.first_told != answer;
        if self.first_told == 0 {
            self.first_told = answer;
        }
    }

    fn is_at_rest(&self) -> bool {
        self.heard.is_empty() && self.workers.iter().all(|worker| worker.at == At::Idle)
    }

    fn books_are_right(&self) -> bool {
        match self.row.filter(|_| self.is_at_rest()).map(|row| row.status) {
            Some(Status::Failed) => self.paid == 0,
            Some(Status::Done) => self.paid == 1,
            Some(Status::Sent | Status::Unknown | Status::Purged) | None => true,
        }
    }
}

impl Model for Relay {
    type State = State;
    type Action = Action;

    const PROPERTIES: &'static [Property<State>] = &[
        ("I1 the money moves at most once", |s| s.paid <= 1),
        ("I2 a DONE row's answer never changes", |s| !s.done_changed),
        ("I3 no second call unless an inquiry found nothing since", |s| !s.sent_while_open),
        ("I4 all final answers to channels are the same bytes", |s| !s.told_differently),
        ("I5 another content never gets this GUID's answer or attempt", |s| {
            !s.other_content_served
        }),
        ("I6 at rest FAILED means not paid and DONE means paid once", State::books_are_right),
    ];
    const SETTLES: &'static str = "L1 every row can still be settled";

    fn start(&self) -> State {
        State {
            row: None,
            disk: None,
            workers: vec![IDLE; self.workers],
            heard: vec![],
            paid: 0,
            lag: 0,
            crashes: self.crashes,
            jumps: self.jumps,
            power_cuts: self.power_cuts,
            failed_writes: self.failed_writes,
            window_closed: false,
            call_is_open: false,
            first_done: 0,
            first_told: 0,
            done_changed: false,
            sent_while_open: false,
            told_differently: false,
            other_content_served: false,
        }
    }

    fn actions(&self, s: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        for w in 0..s.workers.len() {
            self.worker_actions(s, w, &mut actions);
        }
        if let Some(row) = s.row {
            self.row_actions(s, row, &mut actions);
        }
        if self.purge == Purge::Window && !s.window_closed {
            actions.push(Action::CloseWindow);
        }
        for h in 0..s.heard.len() {
            actions.extend([Action::CorePays(h), Action::CoreDrops(h)]);
        }
        if s.power_cuts > 0 {
            actions.push(Action::PowerCut);
        }
        if !self.full_sync && s.disk != s.row {
            actions.push(Action::Sync);
        }
        if !self.is_urgent(s) {
            actions.push(Action::Tick);
        }
        actions
    }

    fn next(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        match action {
            Action::Receive(w, content) => self.receive(&mut s, w, content)?,
            Action::Reprocess(w) => {
                let row = s.row?;
                s.claim(w, row.attempt + 1, row.content);
            }
            Action::Record(w) => self.record(&mut s, w)?,
            Action::RecordFails(w) => self.record_fails(&mut s, w),
            Action::Settle(w) => self.settle(&mut s, w)?,
            Action::CheckDeadline(_)
            | Action::Call(_)
            | Action::ConnectFails(_)
            | Action::ReadAnswer(_)
            | Action::Timeout(_)
            | Action::Reset(_)
            | Action::RepeatPost(_)
            | Action::PlanResolve(_)
            | Action::Inquire(..)
            | Action::Crash(_) => self.worker_moves(&mut s, action)?,
            Action::Sweep
            | Action::Purge
            | Action::CloseWindow
            | Action::CorePays(_)
            | Action::CoreDrops(_)
            | Action::Jump
            | Action::PowerCut
            | Action::Sync
            | Action::Tick => self.world_moves(&mut s, action)?,
        }
        let ages = matches!(action, Action::Tick | Action::Jump);
        if !self.age_since_last_change
            && !ages
            && let (Some(old), Some(new)) = (before.row, s.row.as_mut())
        {
            new.age = old.age;
        }
        // Workers are alike, and so are requests.
        s.workers.sort_unstable();
        s.heard.sort_unstable();
        if self.full_sync {
            s.disk = None;
        }
        Some(s)
    }

    fn is_settled(&self, s: &State) -> bool {
        s.row.is_none_or(|row| {
            let given_up = row.status == Status::Failed && row.attempt >= self.attempts_max;
            matches!(row.status, Status::Done | Status::Purged) || given_up
        })
    }

    fn is_own(&self, action: Action) -> bool {
        !matches!(
            action,
            Action::Receive(..)
                | Action::RecordFails(_)
                | Action::Crash(_)
                | Action::Jump
                | Action::PowerCut
                | Action::CloseWindow
                | Action::Purge
        )
    }

    fn tell(&self, s: &State) -> String {
        let mut text = match s.row {
            None => "no row".to_owned(),
            Some(row) => format!("{:?}, attempt {}, age {}", row.status, row.attempt, row.age),
        };
        if s.workers.iter().any(|worker| worker.owns) {
            text.push_str(", owner alive");
        }
        let _ = write!(text, "; at the core {}, paid {}", s.heard.len(), s.paid);
        for worker in s.workers.iter().filter(|worker| worker.at != At::Idle) {
            let _ = write!(text, " [{:?}]", worker.at);
        }
        text
    }
}

/// How much a configuration costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Up to a hundred thousand states: explored in every run of the suite.
    Small,
    /// Up to a million.
    Middle,
    /// Up to eight million: only when asked for.
    Big,
}

/// A configuration: its name, the guards, the verdict.
pub struct Configuration {
    pub name: &'static str,
    pub relay: Relay,
    pub verdict: &'static str,
    pub size: Size,
}

/// Every configuration. One that begins with `without` takes away the guard that it names.
#[rustfmt::skip]
pub fn configurations() -> Vec<Configuration> {
    use Size::{Big, Middle, Small};
    let (full, aged, plain) = (Relay::FULL, Relay::AGED, Relay::PLAIN);
    let of = |name, relay, verdict, size| Configuration { name, relay, verdict, size };
    let f = || full.clone();
    let a = || aged.clone();
    vec![
        of("all guards", f(), "PASS", Small),
        of("all guards, a late definite result is dropped", Relay { record: Fence::StateAndAttempt, ..f() }, "PASS", Small),
        of("all guards, nothing must be found twice", Relay { absences: 2, ..f() }, "PASS", Small),
        of("all guards, a power cut", Relay { power_cuts: 1, ..f() }, "PASS", Small),
        of("all guards, purge by the day in the GUID", Relay { purge: Purge::Window, ..f() }, "PASS", Small),
        of("all guards, orphans by age, pauses bounded", a(), "PASS", Small),
        of("all guards, orphans by age, strict fence", Relay { record: Fence::StateAndAttempt, ..a() }, "PASS", Small),
        of("without anything but atomic claims", plain, "I1,I2,I3,I5,I6,L1", Middle),
        of("without record-fence, orphans by proof", Relay { record: Fence::None, ..f() }, "PASS", Small),
        of("without record-fence, orphans by age", Relay { record: Fence::None, ..a() }, "I1,I2,I3,I4,I6", Middle),
        of("without record-fence on the attempt, orphans by age", Relay { record: Fence::State, ..a() }, "I1,I3,I6", Middle),
        of("without settle-fence", Relay { settle: Fence::None, ..f() }, "I1,I2,I3,I6", Middle),
        of("without settle-fence on the attempt", Relay { settle: Fence::State, ..f() }, "I1,I3,I6", Small),
        of("without orphan-sweep", Relay { sweep: Sweep::None, ..f() }, "L1", Small),
        of("without owner-proven-dead: any SENT is taken", Relay { sweep: Sweep::AnySent, ..f() }, "I1,I3,I6", Middle),
        of("without owner-proven-dead: by age, pauses unbounded", Relay { sweep: Sweep::Older(3), ..f() }, "I1,I3,I6", Middle),
        of("without owner-proven-dead: by age, a deadline before the call", Relay { sweep: Sweep::Older(3), deadline: Some(1), ..f() }, "I1,I3,I6", Middle),
        of("without min-age above the core's longest time", Relay { min_age: 2, ..f() }, "I1,I6", Small),
        of("without min-age at all", Relay { min_age: 0, ..f() }, "I1,I6", Middle),
        of("a short min-age, nothing must be found twice", Relay { min_age: 2, absences: 2, ..f() }, "PASS", Small),
        of("without min-age since the last change: since the first claim", Relay { age_since_last_change: false, ..f() }, "I1,I6", Middle),
        of("without core-late-max", Relay { late_max: None, ..f() }, "I1,I6", Middle),
        of("without core-late-max, nothing must be found twice", Relay { late_max: None, absences: 2, ..f() }, "I1,I6", Middle),
        of("without ages-without-jumps", Relay { ages_without_jumps: false, ..f() }, "I1,I6", Small),
        of("without tombstone-at-purge", Relay { purge: Purge::Delete, ..f() }, "I1,I2,I3,I6", Middle),
        of("without lost-record-tells-the-row, orphans by proof", Relay { lost_record_tells_the_row: false, ..f() }, "PASS", Small),
        of("without lost-record-tells-the-row, orphans by age", Relay { lost_record_tells_the_row: false, ..a() }, "I4", Small),
        of("without content-compared", Relay { content_compared: false, ..f() }, "I5", Small),
        of("without full-sync", Relay { power_cuts: 1, full_sync: false, ..f() }, "I1,I2,I3,I6", Middle),
        of("inquiries served by a copy that lags", Relay { read_lag: 2, ..f() }, "I1,I6", Small),
        of("the same, min-age raised by the lag", Relay { read_lag: 2, min_age: 4, ..f() }, "PASS", Small),
        of("without given-up-claims", Relay { record_failed: RecordFailed::Keep, ..f() }, "L1", Small),
        of("without recorded-before-told", Relay { record_failed: RecordFailed::TellResult, ..f() }, "I4", Small),
        of("without only-proven-not-sent", Relay { only_proven_not_sent: false, ..f() }, "I1,I3,I6", Small),
        of("without one-post", Relay { one_post: false, ..f() }, "I1,I3,I6", Small),
        of("all guards, 3 workers", Relay { workers: 3, ..f() }, "PASS", Big),
        of("all guards, 3 workers, 5 attempts, 4 crashes, 2 failed writes", Relay { workers: 3, attempts_max: 5, crashes: 4, failed_writes: 2, late_max: Some(3), min_age: 4, ..f() }, "PASS", Big),
        of("all guards, 4 workers, 4 attempts, 3 crashes, found nothing twice", Relay { workers: 4, attempts_max: 4, crashes: 3, absences: 2, ..f() }, "PASS", Big),
        of("all guards, 2 workers, 5 attempts, 4 crashes", Relay { attempts_max: 5, crashes: 4, ..f() }, "PASS", Middle),
    ]
}
