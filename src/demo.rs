//! The demo: one relay on a new ledger, one core that misbehaves, and channels that resend and lose answers; then the two
//! routines that settle what is open; then what the core counted.
//!
//! Everything is real: sockets, ledger, relay, routines. Only the core is simulated, and it is not idempotent: had the relay sent
//! a transfer twice, its own books would show it. Knows no screen: progress goes to a callback.

use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use chrono::TimeDelta;

use crate::channel::{Channel, NoReply};
use crate::clock::{Clock, SystemClock};
use crate::code::Code;
use crate::core_api::simulated::{SimulatedConfig, SimulatedCore, Stats};
use crate::core_api::{BadCoreUrl, CoreConfigError, CoreUrl, HttpCore, HttpCoreConfig};
use crate::engine::reprocess::{self, Reprocess};
use crate::engine::resolve::{self, Resolve};
use crate::engine::view::STUCK;
use crate::engine::{Operator, Stop};
use crate::ledger::owner::LockFiles;
use crate::ledger::sqlite::{Access, Hooks, OpenError, SqliteLedger};
use crate::ledger::{Ledger, LedgerError, OwnerId, Query, parse_ledger_time};
use crate::limits;
use crate::server::{Config, ServeError, Server};
use crate::state::State;
use crate::telegram::{EncodeError, Layout};

mod channels;

pub use channels::Tally;
use channels::{Act, Line};

/// Channels that send at the same time.
const CHANNELS: usize = 20;

/// How long the core takes for SLOW and LATE: longer than the relay waits, so that the outcome is open.
const CORE_SLOW: Duration = Duration::from_secs(2);

/// How long the relay waits for the core's answer.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the core may still be at work on what it has heard: `--core-late-max` of this core, twice its slowest transfer less
/// what the relay has waited already. A bank's is a minute or more; nobody waits for that in a demo.
const CORE_LATE_MAX: Duration = Duration::from_secs(3);

/// How long a connection to the core may be idle and be used again: the program's own default.
const CORE_IDLE: Duration = Duration::from_secs(1);

/// Rows of each kind that are left for the console: few enough to see all of them, enough to mark some.
const DRILL_ROWS: usize = 4;

/// Rounds of resolve and reprocess. One is enough unless the machine is so busy that calls of the second time out too.
const ROUNDS_MAX: usize = 3;

/// Pause between two looks at the ledger while a call is under way.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What the demo is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A part begins that has so many steps.
    Part(&'static str, usize),
    /// A step of it is done.
    Step,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The ledger; it is kept.
    pub ledger: PathBuf,
    /// Channels that sent.
    pub channels: usize,
    /// What the channels saw before anything was settled.
    pub sent: Tally,
    /// What they were told in the end, asking once more for each transfer.
    pub told: Tally,
    /// What resolve did, all rounds together.
    pub resolved: resolve::Summary,
    /// What reprocess did, all rounds together.
    pub reprocessed: reprocess::Summary,
    /// Rows that are not DONE.
    pub unsettled: u64,
    /// What the core counted.
    pub core: Stats,
}

impl Outcome {
    /// For how many transfers the core was called more than once: had the relay done it, the money would have moved so often.
    #[must_use]
    pub fn moved_more_than_once(&self) -> usize {
        self.core.by_guid.values().filter(|calls| **calls > 1).count()
    }

    /// Whether all is settled, every channel was told what the core did, and no money moved more than once.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.unsettled == 0
            && self.moved_more_than_once() == 0
            && self.told.done == self.core.transfers
            && self.told.done + self.told.refused == self.sent.transfers
    }
}

/// Why the demo could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No folder, port or thread.
    #[error("can't set up the demo")]
    Io(#[from] io::Error),
    /// The relay.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The ledger, opened by a routine.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The ledger, read by a routine.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The core's address.
    #[error(transparent)]
    Url(#[from] BadCoreUrl),
    /// The core's client.
    #[error(transparent)]
    Core(#[from] CoreConfigError),
    /// A channel built no telegram.
    #[error(transparent)]
    Telegram(#[from] EncodeError),
    /// A channel could not even connect to the relay.
    #[error("a channel can't reach the relay")]
    Channel(#[from] NoReply),
    /// A thread of ours panicked.
    #[error("a channel's thread failed")]
    Thread,
}

/// Runs it. Takes some ten seconds, most of them waiting until an inquiry proves something.
pub fn run(tell: &mut dyn FnMut(Progress)) -> Result<Outcome, DemoError> {
    let (stage, listener) = Stage::build()?;
    let relay = Server::start(&stage.relay_config(), &stage.clock)?;
    let to = relay.tcp_address().expect("the demo's relay listens for TCP");
    let mut lines = Line::all(CHANNELS, to, &stage.layout, &*stage.clock);

    play(&mut lines, Act::WhileDown, "the core is down", tell)?;
    let slow = SimulatedConfig { slow: CORE_SLOW, db: None, clock: Arc::clone(&stage.clock) };
    let core = SimulatedCore::start(listener, slow)?;
    play(&mut lines, Act::WhileUp, "the core is up, and misbehaves", tell)?;
    let sent = Tally::sum(lines.iter().map(|line| &line.tally));
    let (resolved, reprocessed) = stage.settle(tell)?;
    for line in &mut lines {
        line.tally = Tally::default();
    }
    play(&mut lines, Act::AskAgain, "every channel asks once more", tell)?;

    let told = Tally::sum(lines.iter().map(|line| &line.tally));
    let unsettled = stage.unsettled()?;
    // False: a call was still in flight. Then its row is not settled, which is counted.
    let _all_ended = relay.stop();
    let counted = core.stats();
    core.stop();
    Ok(Outcome {
        ledger: stage.db,
        channels: CHANNELS,
        sent,
        told,
        resolved,
        reprocessed,
        unsettled,
        core: counted,
    })
}

/// What is left for a newcomer to settle in the console: some rows of each kind, and the core that can settle them.
pub struct Drill {
    /// Where the core is.
    pub core: String,
    /// It runs as long as this value lives.
    _running: SimulatedCore,
}

/// Leaves rows stuck on purpose on the ledger of a demo that has run: FAILED, sent while nobody listened, and UNKNOWN, answered by a reset.
pub fn leave_stuck(ledger: &Path) -> Result<Drill, DemoError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stage, listener) = Stage::at(ledger.to_owned(), clock)?;
    stage.transfer_each(&["RENT"; DRILL_ROWS])?;
    let slow = SimulatedConfig { slow: CORE_SLOW, db: None, clock: Arc::clone(&stage.clock) };
    let core = SimulatedCore::start(listener, slow)?;
    stage.transfer_each(&["RESET"; DRILL_ROWS])?;
    Ok(Drill { core: core.url(), _running: core })
}

/// Lets all channels play one act at the same time.
fn play(
    lines: &mut [Line],
    act: Act,
    name: &'static str,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), DemoError> {
    tell(Progress::Part(name, lines.iter().map(|line| line.steps(act)).sum()));
    thread::scope(|scope| {
        let (step, steps) = mpsc::channel();
        let threads: Vec<_> = lines
            .iter_mut()
            .map(|line| {
                let step = step.clone();
                scope.spawn(move || {
                    line.play(act, &mut || {
                        // A receiver that is gone has lost interest in progress, not in the transfers.
                        let _ = step.send(());
                    })
                })
            })
            .collect();
        drop(step);
        for () in &steps {
            tell(Progress::Step);
        }
        for thread in threads {
            thread.join().map_err(|_| DemoError::Thread)??;
        }
        Ok(())
    })
}

/// What all parts of the demo share.
struct Stage {
    db: PathBuf,
    core: CoreUrl,
    layout: Layout,
    clock: Arc<dyn Clock>,
}

impl Stage {
    /// A new folder, and a port for the core at which nobody listens yet: it is ours already, and refuses.
    fn build() -> Result<(Stage, TcpListener), DemoError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let name =
            format!("oncegate-demo-{}-{}", clock.now().format("%Y%m%d-%H%M%S"), std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Stage::at(folder.join("relay.db"), clock)
    }

    /// The same for a ledger that is there.
    fn at(db: PathBuf, clock: Arc<dyn Clock>) -> Result<(Stage, TcpListener), DemoError> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let listener = TcpListener::from(socket);
        let core = format!("http://{}", listener.local_addr()?).parse()?;
        let layout = Layout::std128();
        Ok((Stage { db, core, layout, clock }, listener))
    }

    fn relay_config(&self) -> Config {
        let free = || Some("127.0.0.1:0".to_owned());
        Config {
            db: self.db.clone(),
            must_exist: false,
            accept_restored: false,
            core: self.core.clone(),
            listen: free(),
            http: None,
            admin: None,
            connect_timeout: READ_TIMEOUT,
            read_timeout: READ_TIMEOUT,
            core_idle: CORE_IDLE,
            layout: self.layout.clone(),
            max_in_flight: limits::IN_FLIGHT_MAX,
            max_connections: limits::CONNECTIONS_MAX,
            orphan_after: 2 * READ_TIMEOUT + Duration::from_secs(limits::ORPHAN_MARGIN_S),
            idle_timeout: Duration::from_secs(limits::CHANNEL_IDLE_TIMEOUT_S),
            sync_failed: || std::process::exit(1),
        }
    }

    /// One transfer for each memo, through a relay of its own.
    fn transfer_each(&self, memos: &[&str]) -> Result<(), DemoError> {
        let relay = Server::start(&self.relay_config(), &self.clock)?;
        let to = relay.tcp_address().expect("the demo's relay listens for TCP");
        let mut channel = Channel::connect(&to.to_string(), &self.layout, READ_TIMEOUT)?;
        for (serial, memo) in (0..).zip(memos) {
            let telegram = channels::one_transfer(&self.layout, &*self.clock, serial, memo)?;
            channel.ask(&telegram, 4 * READ_TIMEOUT)?;
        }
        // False would be a call still in flight; its row then is the next relay's to settle.
        let _ended = relay.stop();
        Ok(())
    }

    /// What an operator does, while the relay runs: resolve, then reprocess.
    fn settle(
        &self,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<(resolve::Summary, reprocess::Summary), DemoError> {
        let clock = &self.clock;
        let (ledger, _) =
            SqliteLedger::open(&self.db, Access::Routine, Arc::clone(clock), Hooks::default())?;
        let core = HttpCore::new(HttpCoreConfig {
            url: self.core.clone(),
            connect_timeout: READ_TIMEOUT,
            read_timeout: READ_TIMEOUT,
            idle_max: CORE_IDLE,
            layout: self.layout.clone(),
            clock: Arc::clone(clock),
        })?;
        let (mut resolved, mut reprocessed) = Default::default();
        for _ in 0..ROUNDS_MAX {
            self.wait_until_it_proves_something(&ledger, tell)?;
            add_resolved(&mut resolved, self.resolve(&ledger, &core, tell)?);
            add_reprocessed(&mut reprocessed, self.reprocess(&ledger, &core, tell)?);
            if self.unsettled()? == 0 {
                break;
            }
        }
        Ok((resolved, reprocessed))
    }

    /// Until no call is under way, and every UNKNOWN is older than the core may take. A core that is still working answers
    /// "not found" to an inquiry, and its transfer would be sent again.
    fn wait_until_it_proves_something(
        &self,
        ledger: &dyn Ledger,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<(), DemoError> {
        let steps = (CORE_LATE_MAX.as_secs() + READ_TIMEOUT.as_secs() + 1) * 1_000;
        let looks = usize::try_from(steps / 50).unwrap_or(1);
        tell(Progress::Part("waiting until an inquiry proves something", looks));
        let end = self.clock.monotonic() + 10 * (CORE_LATE_MAX + READ_TIMEOUT);
        while self.too_early(ledger)? && self.clock.monotonic() < end {
            thread::sleep(LOOK_PAUSE);
            tell(Progress::Step);
        }
        Ok(())
    }

    fn too_early(&self, ledger: &dyn Ledger) -> Result<bool, LedgerError> {
        if !ledger.outline(&Query::of(&[State::Sent]))?.is_empty() {
            return Ok(true);
        }
        let open = ledger.outline(&Query::of(&[State::Unknown]))?;
        let newest = open.iter().filter_map(|row| parse_ledger_time(&row.updated_at)).max();
        Ok(newest.is_some_and(|newest| self.clock.now() - newest < min_age()))
    }

    fn resolve(
        &self,
        ledger: &dyn Ledger,
        core: &HttpCore,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<resolve::Summary, DemoError> {
        let routine = Resolve {
            ledger,
            core,
            layout: &self.layout,
            clock: &*self.clock,
            min_age: min_age(),
            operator: operator(),
        };
        let plan = routine.plan(None)?;
        tell(Progress::Part("resolve: asking the core", plan.len()));
        Ok(routine.run(&plan, &Stop::default(), &mut |_| tell(Progress::Step)))
    }

    fn reprocess(
        &self,
        ledger: &dyn Ledger,
        core: &HttpCore,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<reprocess::Summary, DemoError> {
        let owner = LockFiles::beside(&self.db).take(OwnerId::new(
            std::process::id(),
            self.clock.now(),
            1,
        ))?;
        let routine = Reprocess {
            ledger,
            core,
            layout: &self.layout,
            clock: &*self.clock,
            owner: owner.id().clone(),
            attempts_max: i64::MAX,
            keep_going: true,
            operator: operator(),
        };
        let plan = routine.plan(None)?;
        tell(Progress::Part("reprocess: sending what was never sent", plan.len()));
        let summary = routine.run(&plan, &Stop::default(), &mut |_| tell(Progress::Step));
        owner.leave()?;
        Ok(summary)
    }

    fn unsettled(&self) -> Result<u64, DemoError> {
        let clock = Arc::clone(&self.clock);
        let (ledger, _) = SqliteLedger::open(&self.db, Access::Read, clock, Hooks::default())?;
        let rows = ledger.counts()?.rows;
        let stuck = State::ALL.iter().zip(rows).filter(|(state, _)| STUCK.contains(state));
        Ok(stuck.map(|(_, rows)| rows).sum())
    }
}

/// The ledger's times are whole seconds: one more makes the age certain.
fn min_age() -> TimeDelta {
    TimeDelta::from_std(CORE_LATE_MAX + Duration::from_secs(1)).unwrap_or(TimeDelta::MAX)
}

fn operator() -> Operator {
    Operator { who: "demo".to_owned(), reason: Some("the demo settles what is open".to_owned()) }
}

fn add_resolved(sum: &mut resolve::Summary, more: resolve::Summary) {
    sum.examined += more.examined;
    sum.done += more.done;
    sum.failed += more.failed;
    sum.left += more.left;
}

fn add_reprocessed(sum: &mut reprocess::Summary, more: reprocess::Summary) {
    sum.examined += more.examined;
    sum.done += more.done;
    sum.failed += more.failed;
    sum.unknown += more.unknown;
    sum.skipped += more.skipped;
}

/// What a reply's code is to a channel.
fn is_final(code: &str) -> bool {
    Code::OURS
        .iter()
        .find(|ours| ours.as_str() == code)
        .is_none_or(|ours| ours.records() == Some(State::Done))
}
