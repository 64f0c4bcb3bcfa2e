//! The console's threads: keys, signals, the watch over the ledger, questions, plans, runs. They send messages and know no screen.
//!
//! A panic in one of them becomes a message: the screen lives on and says so.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::app::{Answer, Ask, Export, Meaning, Msg, RunNews};
use super::export;
use super::input::Decoder;
use super::outbox::{OutboxDesk, Pending};
use super::why::{Broke, Refused};
use crate::clock::Clock;
use crate::engine::Stop;
use crate::engine::desk::{Desk, Plan, Shown};
use crate::ledger::LedgerError;
use crate::ledger::survey::{Browse, Noted, Part, Survey};
use crate::limits;
use crate::state::State;

/// What the loop hears: a message, or that it has to end.
#[derive(Debug)]
pub enum Heard {
    /// For the state.
    Msg(Msg),
    /// This signal came.
    Signal(i32),
    /// The terminal's size may have changed.
    SizeChanged,
    /// The terminal is gone.
    HungUp,
}

/// Opens the ledger anew, after it was moved or replaced.
pub type Reopen = Box<dyn Fn() -> Result<Arc<dyn Survey>, String> + Send + Sync>;

/// What the threads share.
pub struct Shared {
    desk: RwLock<Desk>,
    reopen: Reopen,
    outbox: Option<Arc<dyn OutboxDesk>>,
    send: Sender<Heard>,
    /// A question failed: ask again soon, whether the ledger has changed or not.
    failed: AtomicBool,
    /// What the last window cost, in milliseconds.
    cost_ms: AtomicU64,
}

/// The threads' handles.
pub struct Work {
    shared: Arc<Shared>,
    asks: Sender<Ask>,
    planning: Stop,
    runs: HashMap<usize, (Stop, JoinHandle<()>)>,
}

impl Work {
    /// Starts the watch and the thread that answers questions.
    #[must_use]
    pub fn start(
        desk: Desk,
        reopen: Reopen,
        outbox: Option<Arc<dyn OutboxDesk>>,
        send: Sender<Heard>,
    ) -> Work {
        let shared = Arc::new(Shared {
            desk: RwLock::new(desk),
            reopen,
            outbox,
            send,
            failed: AtomicBool::new(false),
            cost_ms: AtomicU64::new(0),
        });
        let (asks, queue) = channel();
        let (answers, watch) = (Arc::clone(&shared), Arc::clone(&shared));
        spawn(&shared, "refresh", move || answers.answer_all(&queue));
        spawn(&shared, "watch", move || watch.watch());
        Work { shared, asks, planning: Stop::default(), runs: HashMap::new() }
    }

    /// Asks; the answer comes as a message.
    pub fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Plan(serial, act, guids, busy) => {
                // Each plan has a thread and a wish to stop of its own: a big one holds nothing up.
                self.planning = Stop::default();
                let (shared, stop) = (Arc::clone(&self.shared), self.planning.clone());
                spawn(&self.shared, "plan", move || {
                    let mut tell = |done: usize| {
                        if done > 0 && done.is_multiple_of(limits::PLAN_TOLD_ROWS) {
                            let _ = shared.send.send(Heard::Msg(Msg::Planning(serial, done)));
                        }
                    };
                    let plan = shared.desk().plan(act, &guids, &busy, &stop, &mut tell);
                    let _ =
                        shared.send.send(Heard::Msg(said(plan.map(|p| Answer::Plan(serial, p)))));
                });
            }
            ask => {
                // The receiver ends only with a panic, which was told.
                let _ = self.asks.send(ask);
            }
        }
    }

    /// Gives the plan up that is being made.
    pub fn give_up(&self) {
        self.planning.ask();
    }

    /// Runs a confirmed plan.
    pub fn run(&mut self, number: usize, plan: Box<Plan>, reason: Option<String>) {
        let (shared, stop) = (Arc::clone(&self.shared), Stop::default());
        let stopped = stop.clone();
        let thread = spawn_run(&self.shared, number, move || {
            let serial = u32::try_from(number).unwrap_or(u32::MAX);
            let mut tell = |row| shared.tell(number, RunNews::Row(row));
            let ran = shared.desk().run(&plan, reason, serial, &stopped, &mut tell);
            ran.err().map(Broke::from)
        });
        self.runs.insert(number, (stop, thread));
    }

    /// Sends a confirmed batch of the outbox.
    pub fn dispatch(&mut self, number: usize, batch: Vec<Pending>) {
        let shared = Arc::clone(&self.shared);
        let thread = spawn_run(&self.shared, number, move || {
            let outbox = shared.outbox.clone()?;
            outbox.dispatch(&batch, &mut |event| shared.tell(number, RunNews::Event(event))).err()
        });
        self.runs.insert(number, (Stop::default(), thread));
    }

    /// Asks a run to stop after the row in hand.
    pub fn stop(&self, number: usize) {
        if let Some((stop, _)) = self.runs.get(&number) {
            stop.ask();
        }
    }

    /// Lets the rows in hand end, and waits for that: a call that is cut off would leave its row to the sweep.
    pub fn end(self) {
        for (stop, _) in self.runs.values() {
            stop.ask();
        }
        for (_, (_, thread)) in self.runs {
            // A panic there was told.
            let _ = thread.join();
        }
    }
}

/// A thread whose panic becomes a message.
fn spawn(shared: &Arc<Shared>, name: &'static str, work: impl FnOnce() + Send + 'static) {
    let send = shared.send.clone();
    let started = thread::Builder::new().name(format!("console-{name}")).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            let _ = send.send(Heard::Msg(Msg::Broken(format!("{name}: {}", told(&*panic)))));
        }
    });
    if let Err(error) = started {
        let broken = Msg::Broken(format!("{name}: no thread: {error}"));
        let _ = shared.send.send(Heard::Msg(broken));
    }
}

/// The thread of a run: its end is told, however it ends.
fn spawn_run(
    shared: &Arc<Shared>,
    number: usize,
    work: impl FnOnce() -> Option<Broke> + Send + 'static,
) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(why) => shared.tell(number, RunNews::Ended(why)),
        Err(panic) => {
            let why = told(&*panic);
            shared.tell(number, RunNews::Ended(Some(Broke::Panicked(why.clone()))));
            let _ = shared.send.send(Heard::Msg(Msg::Broken(format!("run {number}: {why}"))));
        }
    })
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

impl Shared {
    fn desk(&self) -> Desk {
        self.desk.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, number: usize, news: RunNews) {
        let _ = self.send.send(Heard::Msg(Msg::Run(number, news)));
    }

    /// Answers questions until nobody asks any more. Of several that were asked meanwhile only the last of a kind counts.
    fn answer_all(&self, queue: &Receiver<Ask>) {
        while let Ok(first) = queue.recv() {
            let mut asks = vec![first];
            asks.extend(queue.try_iter());
            for at in 0..asks.len() {
                let later = &asks[at + 1..];
                if !later.iter().any(|other| supersedes(other, &asks[at])) {
                    self.answer(&asks[at]);
                }
            }
        }
    }

    fn answer(&self, ask: &Ask) {
        let begun = Instant::now();
        let msg = answer(&self.desk(), self.outbox.as_deref(), ask);
        let is_answered = matches!(msg, Msg::Answer(_));
        if is_answered && matches!(ask, Ask::Lines(..) | Ask::Numbers) {
            let cost = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.cost_ms.store(cost, Ordering::SeqCst);
        }
        if matches!(msg, Msg::Trouble(_)) {
            self.failed.store(true, Ordering::SeqCst);
        }
        let _ = self.send.send(Heard::Msg(msg));
    }

    /// Looks whether the ledger has changed, for as long as the console is open. A ledger that was moved or replaced is opened
    /// anew as soon as there is one.
    fn watch(&self) {
        let mut watch = None;
        loop {
            let changed = match &mut watch {
                None => self.desk().ledger.watch().and_then(|new| watch.insert(new).changed()),
                Some(watch) => watch.changed(),
            };
            let msg = match changed {
                Ok(true) => Some(Msg::Changed),
                Ok(false) if self.failed.swap(false, Ordering::SeqCst) => Some(Msg::Changed),
                Ok(false) => None,
                Err(error) => {
                    watch = None;
                    Some(self.open_anew(&error))
                }
            };
            if let Some(msg) = msg
                && self.send.send(Heard::Msg(msg)).is_err()
            {
                return;
            }
            let cost = Duration::from_millis(self.cost_ms.load(Ordering::SeqCst));
            let rest = cost * limits::REFRESH_REST_FACTOR;
            thread::sleep(rest.clamp(limits::WATCH_PAUSE, limits::WATCH_PAUSE_MAX));
        }
    }

    fn open_anew(&self, error: &LedgerError) -> Msg {
        match (self.reopen)() {
            Ok(ledger) => {
                self.desk.write().unwrap_or_else(PoisonError::into_inner).ledger = ledger;
                Msg::Changed
            }
            Err(_) => Msg::Trouble(error.clone()),
        }
    }
}

/// The answer to a question, as the message that brings it.
#[must_use]
pub fn answer(desk: &Desk, outbox: Option<&dyn OutboxDesk>, ask: &Ask) -> Msg {
    let ledger = &desk.ledger;
    match ask {
        Ask::Lines(serial, browse, part) => {
            let lines = desk.lines(browse, part, limits::WINDOW_ROWS);
            said(lines.map(|lines| Answer::Lines(*serial, Box::new(lines))))
        }
        Ask::Detail(guid) => {
            said(desk.detail(guid).map(|shown| Answer::Shown(guid.clone(), shown)))
        }
        Ask::Numbers => {
            let numbers = ledger.numbers(desk.clock.now());
            said(numbers.map(|numbers| Answer::Numbers(Box::new(numbers))))
        }
        Ask::Counts => said(ledger.counts().map(|counts| Answer::Counts(Box::new(counts)))),
        Ask::Keys(serial, browse) => {
            let keys = ledger.keys(browse, limits::MARKS_MAX + 1);
            said(keys.map(|keys| Answer::Keys(*serial, keys)))
        }
        Ask::Meaning(serial, word) => {
            said(meaning(desk, word).map(|found| Answer::Meaning(*serial, found)))
        }
        Ask::Trail(query, continues) => {
            said(ledger.trail(query).map(|lines| Answer::Trail(lines, *continues)))
        }
        Ask::Plan(serial, act, guids, busy) => {
            let plan = desk.plan(*act, guids, busy, &Stop::default(), &mut |_| {});
            said(plan.map(|plan| Answer::Plan(*serial, plan)))
        }
        Ask::Note(guid, text) => noted(desk.note(guid, text), Answer::Noted(guid.clone())),
        Ask::Reveal(guid) => noted(desk.reveal(guid), Answer::Revealed(guid.clone())),
        Ask::Export(what) => match write_export(desk, what) {
            Ok((rows, path)) => Msg::Answer(Answer::Exported(rows, path)),
            Err(why) => Msg::Refused(why),
        },
        Ask::Outbox | Ask::OutboxPlan(_) => answer_outbox(outbox, ask),
    }
}

fn said(answer: Result<Answer, LedgerError>) -> Msg {
    match answer {
        Ok(answer) => Msg::Answer(answer),
        Err(error) => Msg::Trouble(error),
    }
}

/// A note that failed is no trouble of the whole screen: it is said, and may be tried again.
fn noted(noted: Result<Noted, LedgerError>, answer: Answer) -> Msg {
    match noted {
        Ok(Noted::Written) => Msg::Answer(answer),
        Ok(Noted::Gone) => Msg::Refused(Refused::Gone),
        Err(error) => Msg::Refused(Refused::Ledger(error)),
    }
}

fn answer_outbox(outbox: Option<&dyn OutboxDesk>, ask: &Ask) -> Msg {
    let Some(outbox) = outbox else { return Msg::Refused(Refused::NoOutbox) };
    let answer = match ask {
        Ask::OutboxPlan(serial) => outbox.batch().map(|batch| Answer::OutboxPlan(*serial, batch)),
        _ => outbox.look().map(|outbox| Answer::Outbox(Box::new(outbox))),
    };
    answer.map_or_else(|why| Msg::Refused(Refused::Outbox(why)), Msg::Answer)
}

fn supersedes(later: &Ask, ask: &Ask) -> bool {
    matches!(
        (later, ask),
        (Ask::Lines(..), Ask::Lines(..))
            | (Ask::Detail(_), Ask::Detail(_))
            | (Ask::Numbers, Ask::Numbers)
            | (Ask::Counts, Ask::Counts)
            | (Ask::Outbox, Ask::Outbox)
            | (Ask::Trail(_, false), Ask::Trail(..))
    )
}

/// What a bare word means: a GUID's beginning if there is such a GUID, else a transaction code's, else a part of a reason.
fn meaning(desk: &Desk, word: &str) -> Result<Meaning, LedgerError> {
    let mut browse = Browse::of(&State::ALL);
    browse.guid_prefix = Some(word.to_owned());
    if !desk.ledger.keys(&browse, 1)?.is_empty() {
        return Ok(Meaning::Guid(word.to_owned()));
    }
    let is_tx_code = desk.layout.tx_codes().any(|code| code.starts_with(word));
    Ok(if is_tx_code { Meaning::TxCode(word.to_owned()) } else { Meaning::Reason(word.to_owned()) })
}

/// Writes a file that did not exist, readable by its owner alone.
fn write_export(desk: &Desk, what: &Export) -> Result<(usize, String), Refused> {
    let failed = Refused::Ledger;
    let (name, text, rows) = match what {
        Export::Csv(browse, marks) => {
            let lines = export_lines(desk, browse, marks).map_err(failed)?;
            let body = lines.iter().map(export::line_csv);
            let text: Vec<String> =
                std::iter::once(export::LINE_HEAD.to_owned()).chain(body).collect();
            ("rows.csv", text.join("\n") + "\n", lines.len())
        }
        Export::Json(browse, marks) => {
            let lines = export_lines(desk, browse, marks).map_err(failed)?;
            let text: Vec<String> =
                lines.iter().map(|line| export::line_json(line).to_string()).collect();
            ("rows.jsonl", text.join("\n") + "\n", lines.len())
        }
        Export::Bundle(guid, revealed) => match desk.detail(guid).map_err(failed)? {
            Shown::Row(detail) => {
                ("row.json", format!("{:#}\n", export::row_json(&detail, *revealed)), 1)
            }
            Shown::Purged(_) | Shown::Nothing => return Err(Refused::NoRow),
        },
        Export::Trail(lines) => ("history.csv", export::trail_csv(lines), lines.len()),
        Export::Report(run) => ("run.csv", export::report_csv(run), run.told.len()),
    };
    let stamp = desk.clock.now().format("%Y%m%d-%H%M%S");
    let path = format!("oncegate-{stamp}-{name}");
    write_new(&path, &text).map_err(|error| Refused::File(path.clone(), error.to_string()))?;
    Ok((rows, path))
}

fn export_lines(
    desk: &Desk,
    browse: &Browse,
    marks: &std::collections::BTreeSet<crate::guid::Guid>,
) -> Result<Vec<crate::engine::desk::Line>, LedgerError> {
    let mut rows = desk.lines(browse, &Part::Start, limits::EXPORT_ROWS_MAX)?.rows;
    if !marks.is_empty() {
        rows.retain(|line| marks.contains(&line.guid));
    }
    Ok(rows)
}

fn write_new(path: &str, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// Reads the terminal for as long as there is one.
pub fn read_keys(send: Sender<Heard>, clock: Arc<dyn Clock>) {
    let died = send.clone();
    thread::spawn(move || {
        if catch_unwind(AssertUnwindSafe(|| keys(&send, &*clock))).is_err() {
            // Without keys there is no console.
            let _ = died.send(Heard::HungUp);
        }
    });
}

fn keys(send: &Sender<Heard>, clock: &dyn Clock) {
    let (stdin, mut decoder) = (io::stdin(), Decoder::default());
    let mut bytes = [0; 4096];
    loop {
        let wait = decoder.patience().unwrap_or(limits::HANG_UP_PAUSE);
        let wait = Timespec::try_from(wait).ok();
        let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let inputs = match poll(&mut fds, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
            Ok(0) => decoder.end_of_silence(),
            Ok(_) if !fds[0].revents().contains(PollFlags::IN) => break,
            Ok(_) => match rustix::io::read(stdin.as_fd(), &mut bytes) {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) | Ok(0) => break,
                Ok(count) => decoder.feed(&bytes[..count]),
            },
        };
        let at = clock.monotonic();
        for input in inputs {
            if send.send(Heard::Msg(Msg::Input(input, at))).is_err() {
                return;
            }
        }
    }
    let _ = send.send(Heard::HungUp);
}

/// Hears signals. If the loop does not answer one within [`limits::CONSOLE_LEAVE`], the process leaves without it.
pub fn hear_signals(send: Sender<Heard>, leaving: Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                let _ = send.send(Heard::SizeChanged);
                continue;
            }
            let _ = send.send(Heard::Signal(signal));
            thread::sleep(limits::CONSOLE_LEAVE);
            if !leaving.load(Ordering::SeqCst) {
                super::term::stop();
                std::process::exit(128 + signal);
            }
        }
    });
    Ok(())
}
