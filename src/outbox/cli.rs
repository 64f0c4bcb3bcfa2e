//! `oncegate outbox …`: arguments → checked values → one function of this module → lines and an exit code.
//!
//! Every option is checked before a store is opened. Exit codes: 0; 1 a failure, with one line on stderr; 2 usage or a value error.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::error::chain;
use super::{
    Dispatched, Event, HttpSender, LIMIT_DEFAULT, OutboxError, Receiver, Role, Status, Stopped,
    dispatch_all, dispatch_batch, enqueue, no_fault, open_existing, open_store, parse_event,
    pending, receive, role_of, source, status,
};
use crate::limits::{EVENT_BYTES_MAX, RECEIVER_GRACE, SEND_TIMEOUT_S_DEFAULT};
use crate::visible::visible;

/// `oncegate outbox`.
#[derive(Debug, Args)]
pub struct OutboxArgs {
    #[command(subcommand)]
    command: Command,
}

/// Orders saved and sent, received and done, each once.
#[derive(Debug, Subcommand)]
enum Command {
    /// Save an order and the intent to send it, in one transaction (creates the source).
    #[command(
        after_help = "Example:\n  oncegate outbox enqueue --db source.db --id order-1 --qty 3"
    )]
    Enqueue {
        #[command(flatten)]
        source: Db,
        /// The order's id: 1-64 letters, digits, `_`, `-`.
        #[arg(long, allow_hyphen_values = true)]
        id: String,
        /// Pieces, 1-1000.
        #[arg(long, allow_hyphen_values = true)]
        qty: String,
    },
    /// List what is not yet acknowledged, oldest first, as JSON lines.
    Pending {
        #[command(flatten)]
        source: Db,
        #[command(flatten)]
        limit: Limit,
    },
    /// Send what is pending, in order, and mark what is acknowledged; prints how many were marked.
    #[command(
        after_help = "Stops at the first failure: what was acknowledged before is marked, the rest stays pending.\n\n\
        Examples:\n  oncegate outbox dispatch --db source.db --url http://127.0.0.1:8080/events\n  \
        oncegate outbox dispatch --db source.db --url http://127.0.0.1:8080/events --all"
    )]
    Dispatch {
        #[command(flatten)]
        source: Db,
        /// The receiver: `http://127.0.0.1:PORT/events`.
        #[arg(long)]
        url: String,
        #[command(flatten)]
        limit: Limit,
        /// Seconds that connecting, sending and each step of reading may take, over 0 and at most 5.
        #[arg(long, default_value_t = SEND_TIMEOUT_S_DEFAULT.to_string(), allow_hyphen_values = true)]
        timeout: String,
        /// Go on batch by batch until nothing is pending or one fails.
        #[arg(long)]
        all: bool,
    },
    /// Receive one event, as JSON on stdin (creates the sink); prints `applied` or `duplicate`.
    #[command(
        after_help = "Example:\n  echo '{\"id\":\"order-1\",\"qty\":3}' | oncegate outbox receive --db sink.db"
    )]
    Receive {
        #[command(flatten)]
        sink: Db,
    },
    /// Receive events by HTTP, `POST /events`, until SIGTERM or SIGINT (creates the sink).
    #[command(
        after_help = "Example:\n  oncegate outbox serve --db sink.db --listen 127.0.0.1:8080"
    )]
    Serve {
        #[command(flatten)]
        sink: Db,
        /// Where to listen: `127.0.0.1:PORT`; port 0 takes a free one.
        #[arg(long)]
        listen: String,
    },
    /// Show what a store holds: orders, pending, oldest seq; or received, stock.
    Status {
        #[command(flatten)]
        store: Db,
        /// As one line of JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Db {
    /// The store's file.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

#[derive(Debug, Args)]
struct Limit {
    /// Events in one batch, 1-16.
    #[arg(long, default_value_t = LIMIT_DEFAULT.to_string(), allow_hyphen_values = true)]
    limit: String,
}

impl Limit {
    fn checked(&self) -> Result<usize, OutboxError> {
        let limit = number(&self.limit, "limit", "an integer 1-16")?;
        source::check_limit(limit)?;
        Ok(limit)
    }
}

/// Why a command ended: what kind of failure it was, and its line.
#[derive(Debug)]
enum Failure {
    /// Exit 2.
    Usage(String),
    /// Exit 1.
    Failed(String),
}

/// A value error is the caller's (2), everything else is the world's (1).
impl From<OutboxError> for Failure {
    fn from(error: OutboxError) -> Failure {
        let line = chain(&error);
        match error {
            OutboxError::Value(_) => Failure::Usage(line),
            OutboxError::Conflict { .. }
            | OutboxError::Delivery(_)
            | OutboxError::Store { .. }
            | OutboxError::Row { .. }
            | OutboxError::NotAutocommit
            | OutboxError::TransactionLost(_)
            | OutboxError::Stuck { .. }
            | OutboxError::Sqlite(_)
            | OutboxError::Http(_)
            | OutboxError::Io(_)
            | OutboxError::Fault(_) => Failure::Failed(line),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        OutboxError::Io(error).into()
    }
}

/// Runs the command: lines on stdout, one line on stderr for a failure, and the exit code.
#[must_use]
pub fn run(args: &OutboxArgs) -> ExitCode {
    let (line, code) = match args.command.run() {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(line)) => (line, ExitCode::from(1)),
        Err(Failure::Usage(line)) => (line, ExitCode::from(2)),
    };
    // Nobody listens on a closed stderr; the exit code says it, too.
    let _ = writeln!(io::stderr(), "oncegate: {line}");
    code
}

impl Command {
    fn run(&self) -> Result<(), Failure> {
        match self {
            Command::Enqueue { source, id, qty } => run_enqueue(&source.db, id, qty),
            Command::Pending { source, limit } => run_pending(&source.db, limit),
            Command::Dispatch { source, url, limit, timeout, all } => {
                let limit = limit.checked()?;
                let timeout_s = number(timeout, "timeout", "a number of seconds")?;
                let sender = HttpSender::new(url, timeout_s)?;
                if *all {
                    run_dispatch(&source.db, &sender, limit, every_batch)
                } else {
                    run_dispatch(&source.db, &sender, limit, one_batch)
                }
            }
            Command::Receive { sink } => run_receive(&sink.db),
            Command::Serve { sink, listen } => run_serve(&sink.db, listen),
            Command::Status { store, json: true } => run_status(&store.db, |status| {
                serde_json::to_string(status).expect("numbers always serialize")
            }),
            Command::Status { store, json: false } => run_status(&store.db, Status::to_string),
        }
    }
}

fn run_enqueue(db: &Path, id: &str, qty: &str) -> Result<(), Failure> {
    let event = Event::new(id, number(qty, "qty", "an integer 1-1000")?)?;
    let source = open_store(db, Role::Source).map_err(in_store(db))?;
    let is_new = enqueue(&source, &event, &mut no_fault).map_err(in_store(db))?;
    say(if is_new { "queued" } else { "already queued" })
}

fn run_pending(db: &Path, limit: &Limit) -> Result<(), Failure> {
    let limit = limit.checked()?;
    let source = open_existing(db, Role::Source).map_err(in_store(db))?;
    let events = pending(&source, limit).map_err(in_store(db))?;
    let lines: Vec<String> = events.iter().map(Event::to_json).collect();
    if lines.is_empty() { Ok(()) } else { say(&lines.join("\n")) }
}

/// How many batches are sent.
type Batches = fn(&rusqlite::Connection, &mut super::Send<'_>, usize) -> Dispatched;

fn run_dispatch(
    db: &Path,
    sender: &HttpSender,
    limit: usize,
    batches: Batches,
) -> Result<(), Failure> {
    let source = open_existing(db, Role::Source).map_err(in_store(db))?;
    let sum = batches(&source, &mut |event| sender.send(&event), limit);
    say(&sum.marked.to_string())?;
    match sum.stopped {
        None => Ok(()),
        Some(stopped) => Err(Failure::Failed(stopped_line(db, &stopped))),
    }
}

fn one_batch(
    source: &rusqlite::Connection,
    send: &mut super::Send<'_>,
    limit: usize,
) -> Dispatched {
    dispatch_batch(source, send, limit, &mut no_fault)
}

fn every_batch(
    source: &rusqlite::Connection,
    send: &mut super::Send<'_>,
    limit: usize,
) -> Dispatched {
    let bar = progress(source);
    let sum = dispatch_all(source, send, limit, &mut no_fault, &mut |batch| {
        bar.inc(batch.marked as u64);
    });
    bar.finish_and_clear();
    sum
}

/// A bar on stderr, if that is a terminal.
fn progress(source: &rusqlite::Connection) -> ProgressBar {
    let total = match status(source, Role::Source) {
        Ok(Status::Source { pending, .. }) => u64::try_from(pending).unwrap_or(0),
        // The dispatch itself will say what is wrong with the store.
        Ok(Status::Sink { .. }) | Err(_) => 0,
    };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} sent, {per_sec}, {eta} left");
    ProgressBar::new(total).with_style(style.expect("the template is constant and right"))
}

/// One line: which event, why, and what is true of it now.
fn stopped_line(db: &Path, stopped: &Stopped) -> String {
    let why = chain(&stopped.error);
    let Some(event) = &stopped.event else {
        return format!("store {}: {why}", visible(&db.display().to_string()));
    };
    format!("event `{}`: {why}; it stays pending", visible(&event.id))
}

fn run_receive(db: &Path) -> Result<(), Failure> {
    let event = parse_event(&read_event(io::stdin().lock())?)?;
    let sink = open_store(db, Role::Sink).map_err(in_store(db))?;
    let is_new = receive(&sink, &event, &mut no_fault).map_err(in_store(db))?;
    say(if is_new { "applied" } else { "duplicate" })
}

fn read_event(from: impl Read) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    from.take(EVENT_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    if text.len() > EVENT_BYTES_MAX {
        return Err(Failure::Usage(format!("the event is longer than {EVENT_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn run_serve(db: &Path, listen: &str) -> Result<(), Failure> {
    let address = local(listen)?;
    // Before the first event: a signal that comes early must not kill a commit.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let listener = TcpListener::bind(address)
        .map_err(|error| Failure::Failed(format!("can't listen on {address}: {error}")))?;
    let receiver = Receiver::start(db, listener).map_err(in_store(db))?;
    say(&format!("ready http={}", receiver.local_addr()))?;
    // Blocks; there is no end but a signal.
    let _signal = signals.forever().next();
    match receiver.shutdown(RECEIVER_GRACE) {
        0 => Ok(()),
        busy => Err(Failure::Failed(format!("stopped while {busy} requests were under way"))),
    }
}

fn local(listen: &str) -> Result<SocketAddr, Failure> {
    let address: Option<SocketAddr> = listen.parse().ok();
    address
        .filter(|address| address.ip() == Ipv4Addr::LOCALHOST)
        .ok_or_else(|| Failure::Usage(format!("listen address {listen:?} is not 127.0.0.1:PORT")))
}

fn run_status(db: &Path, line: impl FnOnce(&Status) -> String) -> Result<(), Failure> {
    let role = role_of(db).map_err(in_store(db))?;
    let store = open_existing(db, role).map_err(in_store(db))?;
    say(&line(&status(&store, role).map_err(in_store(db))?))
}

fn number<T: std::str::FromStr>(text: &str, what: &str, allowed: &str) -> Result<T, OutboxError> {
    text.parse().map_err(|_| OutboxError::Value(format!("{what} {text:?} is not {allowed}")))
}

/// SQLite's own errors don't say which file they are about.
fn in_store(db: &Path) -> impl Fn(OutboxError) -> Failure {
    move |error| match error {
        error @ (OutboxError::Sqlite(_) | OutboxError::Io(_) | OutboxError::Row { .. }) => {
            let db = visible(&db.display().to_string());
            Failure::Failed(format!("store {db}: {}", chain(&error)))
        }
        other => other.into(),
    }
}

/// A line on stdout. A reader that has closed the pipe wants no more: that is no failure.
fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
