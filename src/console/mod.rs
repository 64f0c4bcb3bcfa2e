//! The operator console: one more front of the engine. It has no SQL and no rules of its own.
//!
//! ```text
//! keys, signals, watch, answers ──► Heard ──► App::update (pure) ──► effects ──► work (threads) ──► engine
//!                                               └──► view::draw (pure) ──► terminal
//! ```
//! Everything that came is drained, then drawn once; nothing is drawn unless something changed.
#![deny(clippy::print_stderr, clippy::print_stdout, reason = "it would tear the screen")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::desk::{Act, Desk};

pub mod app;
pub mod export;
pub mod filter;
pub mod input;
pub mod keys;
pub mod outbox;
pub mod term;
pub mod text;
pub mod theme;
pub mod view;
pub mod why;
pub mod words;
pub mod work;

use app::{App, Effect, Facts, Look, Mode, Msg};
use outbox::OutboxDesk;
use work::{Heard, Reopen, Work};

/// Clocks and ages are drawn once a second.
const TICK: Duration = Duration::from_secs(1);

/// What a console is opened with.
pub struct Setup {
    /// The engine's desk.
    pub desk: Desk,
    /// The ledger's name for the header.
    pub ledger: String,
    /// Opens the ledger anew.
    pub reopen: Reopen,
    /// The outbox, if one is named.
    pub outbox: Option<Arc<dyn OutboxDesk>>,
    /// The keys.
    pub keys: keys::Keymap,
    /// How it looks.
    pub look: Look,
    /// A line for newcomers.
    pub hint: Option<String>,
}

/// How a console ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The operator quit.
    Quit,
    /// This signal.
    Signal(i32),
    /// The terminal went away.
    HungUp,
    /// The operator quit after a part of the console had died, and which.
    Broken(String),
}

impl Ended {
    /// The process's exit code: 0 only for a console that was whole to its end.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Ended::Quit => 0,
            Ended::Broken(_) => 1,
            Ended::Signal(signal) => 128 + u8::try_from(*signal).unwrap_or(0),
            // As if by SIGHUP.
            Ended::HungUp => 129,
        }
    }

    /// What is said of it after the screen was left; none: nothing.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        match self {
            Ended::Quit => None,
            Ended::Broken(what) => Some(format!("a part of the console had stopped: {what}")),
            Ended::Signal(signal) => {
                let name = signal_hook::low_level::signal_name(*signal).unwrap_or("a signal");
                Some(format!("the console was ended by {name}"))
            }
            Ended::HungUp => Some("the terminal went away".to_owned()),
        }
    }
}

impl Setup {
    fn facts(&self) -> Facts {
        let settings = &self.desk.settings;
        Facts {
            ledger: self.ledger.clone(),
            who: settings.who.clone(),
            off: Act::ALL.map(|act| self.desk.off(act)),
            read_only: settings.read_only,
            outbox: self.outbox.is_some(),
            min_age_s: settings.min_age.num_seconds(),
            days: settings.days,
            attempts_max: settings.attempts_max,
            tmux: std::env::var_os("TMUX").is_some(),
            hint: self.hint.clone(),
        }
    }
}

/// Opens the console on the process's terminal and runs it to its end. The terminal is left as it was found, whatever happens.
pub fn run(setup: Setup) -> io::Result<Ended> {
    let clock = Arc::clone(&setup.desk.clock);
    let (send, heard) = channel();
    let leaving = Arc::new(AtomicBool::new(false));
    // Before the terminal is entered: a signal that comes early must find somebody who leaves it.
    work::hear_signals(send.clone(), Arc::clone(&leaving))?;
    let size = term::size().unwrap_or((80, 24));
    let app = App::new(setup.facts(), setup.keys, setup.look, size, clock.now());
    term::tell_panics();
    let screen = term::enter();
    let ended = screen.and_then(|screen| {
        work::read_keys(send.clone(), Arc::clone(&clock));
        let work = Work::start(setup.desk, setup.reopen, setup.outbox, send);
        let mut console = Console { app, screen, work, clock, quit: false };
        let ended = console.live(&heard);
        leaving.store(true, Ordering::SeqCst);
        term::stop();
        console.work.end();
        ended
    });
    leaving.store(true, Ordering::SeqCst);
    term::stop();
    ended
}

struct Console {
    app: App,
    screen: term::Screen,
    work: Work,
    clock: Arc<dyn Clock>,
    quit: bool,
}

impl Console {
    fn live(&mut self, heard: &Receiver<Heard>) -> io::Result<Ended> {
        let effects = self.app.refresh();
        self.carry_out(effects)?;
        loop {
            self.draw()?;
            if let Some(ended) = self.wait(heard)? {
                return Ok(ended);
            }
        }
    }

    /// Waits for something to happen, at most until the clock has to be drawn; takes in everything that came.
    fn wait(&mut self, heard: &Receiver<Heard>) -> io::Result<Option<Ended>> {
        let mut next = match heard.recv_timeout(TICK) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => Some(Heard::Msg(Msg::Tick)),
            Err(RecvTimeoutError::Disconnected) => return Ok(Some(Ended::HungUp)),
        };
        while let Some(one) = next {
            let msg = match one {
                Heard::Signal(signal) => return Ok(Some(Ended::Signal(signal))),
                Heard::HungUp => return Ok(Some(Ended::HungUp)),
                Heard::SizeChanged => {
                    let (columns, lines) = term::size().unwrap_or(self.app.size);
                    Msg::Resized(columns, lines)
                }
                Heard::Msg(msg) => msg,
            };
            self.app.now = self.clock.now();
            let effects = self.app.update(msg);
            self.carry_out(effects)?;
            if self.quit {
                let broken = self.app.broken.clone();
                return Ok(Some(broken.map_or(Ended::Quit, Ended::Broken)));
            }
            next = heard.try_recv().ok();
        }
        Ok(None)
    }

    fn draw(&mut self) -> io::Result<()> {
        let app = &self.app;
        self.screen.draw(|frame| {
            if let Some(cursor) = view::draw(app, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        })?;
        if matches!(self.app.mode, Mode::Confirming(_)) {
            self.app.update(Msg::Drawn(self.clock.monotonic()));
        }
        Ok(())
    }

    fn carry_out(&mut self, effects: Vec<Effect>) -> io::Result<()> {
        for effect in effects {
            match effect {
                Effect::Ask(ask) => self.work.ask(ask),
                Effect::Run(number, plan, reason) => self.work.run(number, plan, reason),
                Effect::Dispatch(number, batch) => self.work.dispatch(number, batch),
                Effect::Stop(number) => self.work.stop(number),
                Effect::GiveUp => self.work.give_up(),
                Effect::Copy(text) => term::copy(&text)?,
                Effect::Mouse(on) => term::mouse(on)?,
                Effect::Redraw => term::forget(&mut self.screen)?,
                Effect::Suspend => {
                    if !term::suspend(&mut self.screen)? {
                        let text = self.app.words().cannot_suspend.to_owned();
                        self.app.said = Some(app::Said { text, warning: true });
                    }
                }
                Effect::Quit => self.quit = true,
            }
        }
        Ok(())
    }
}
