//! Events per second of dispatch, beside the limit of the disk: `cargo bench --bench outbox`.
//!
//! Everything is real: two stores on the file system of the target folder, the receiver, HTTP over loopback, every commit synced. The
//! limit is what the disk allows a protocol that makes two commits for each event, in order: it appends as many bytes as such a commit
//! does to one file, syncs, then to another, syncs, and does nothing else. Rounds of all ways take turns, so that a disk that changes
//! its mood changes it for all of them. Prints the median of the rounds, with the lowest and the highest.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oncegate::outbox::{
    self, Event, HttpSender, OutboxError, Receiver, Role, dispatch, dispatch_all, no_fault,
};
use rusqlite::Connection;

/// Events in one round of one way.
const EVENTS: usize = 400;
/// The contract's default, and its greatest.
const LIMITS: [usize; 2] = [8, 16];
const ROUNDS_DEFAULT: usize = 9;
/// What a commit of one changed page appends to a write-ahead log: 2 frames (the table's page and a page of its index, or the other
/// table's) of 24 + 4096 bytes.
const COMMIT_BYTES: usize = 2 * (24 + 4096);

type Anyhow<T> = Result<T, Box<dyn Error>>;

/// One way of doing a round: how long its events took.
struct Way {
    name: String,
    round: Box<dyn Fn(&Path) -> Anyhow<Duration>>,
    per_second: Vec<f64>,
}

impl Way {
    fn new(name: &str, round: impl Fn(&Path) -> Anyhow<Duration> + 'static) -> Way {
        Way { name: name.to_owned(), round: Box::new(round), per_second: Vec::new() }
    }

    fn median(&self) -> f64 {
        let mut sorted = self.per_second.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

fn main() -> Anyhow<()> {
    let rounds = std::env::var("ONCEGATE_ROUNDS").map_or(Ok(ROUNDS_DEFAULT), |n| n.parse())?;
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut ways = vec![
        Way::new("limit: two syncs an event, in order", two_syncs),
        Way::new("dispatch, one by one", |dir| dispatched(dir, Sync::Full, one_by_one)),
        Way::new("dispatch, marks of 8 share a commit", |dir| {
            dispatched(dir, Sync::Full, |source, sender| together(source, sender, LIMITS[0]))
        }),
        Way::new("dispatch, marks of 16 share a commit", |dir| {
            dispatched(dir, Sync::Full, |source, sender| together(source, sender, LIMITS[1]))
        }),
        Way::new("dispatch, one by one, without durability", |dir| {
            dispatched(dir, Sync::Off, one_by_one)
        }),
    ];
    for round in 0..rounds {
        for turn in 0..ways.len() {
            let at = (turn + round) % ways.len();
            let dir = tempfile::tempdir_in(&target)?;
            let took = (ways[at].round)(dir.path())?;
            #[expect(clippy::cast_precision_loss, reason = "some hundred events")]
            ways[at].per_second.push(EVENTS as f64 / took.as_secs_f64());
        }
    }
    report(&ways, rounds);
    Ok(())
}

fn report(ways: &[Way], rounds: usize) {
    let limit = ways[0].median();
    println!("{EVENTS} events a round, {rounds} rounds, median (lowest - highest)");
    for way in ways {
        let (low, high) = way.per_second.iter().fold((f64::MAX, 0.0), |(low, high), &rate| {
            (f64::min(low, rate), f64::max(high, rate))
        });
        let median = way.median();
        println!(
            "{:<42} {median:>7.0} events/s ({low:.0} - {high:.0})  {:>5.2} x the limit",
            way.name,
            median / limit
        );
    }
    println!(
        "one by one reaches {:.0} % of the limit; a shared commit makes {:.2} x (8) and {:.2} x (16) of one by one",
        100.0 * ways[1].median() / limit,
        ways[2].median() / ways[1].median(),
        ways[3].median() / ways[1].median(),
    );
}

/// The limit: append and sync in the sink, then in the source, for each event.
fn two_syncs(dir: &Path) -> Anyhow<Duration> {
    let commit = vec![0x5a; COMMIT_BYTES];
    let mut sink = File::create(dir.join("sink.raw"))?;
    let mut source = File::create(dir.join("source.raw"))?;
    let start = Instant::now();
    for _ in 0..EVENTS {
        for file in [&mut sink, &mut source] {
            file.write_all(&commit)?;
            file.sync_data()?;
        }
    }
    Ok(start.elapsed())
}

#[derive(Clone, Copy)]
enum Sync {
    Full,
    Off,
}

/// A round of real dispatch: how long sending and marking took, without filling the source.
fn dispatched(
    dir: &Path,
    sync: Sync,
    send_all: impl Fn(&Connection, &HttpSender) -> Result<usize, OutboxError>,
) -> Anyhow<Duration> {
    let source = outbox::open_store(&dir.join("source.db"), Role::Source)?;
    source.execute_batch("PRAGMA synchronous = OFF")?;
    for n in 0..EVENTS {
        outbox::enqueue(&source, &Event::new(format!("order-{n}"), 3)?, &mut no_fault)?;
    }
    source.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let serve = serve(&dir.join("sink.db"), sync)?;
    if let Sync::Full = sync {
        source.execute_batch("PRAGMA synchronous = EXTRA")?;
    }
    let sender = HttpSender::new(&serve.url, 5.0)?;
    let start = Instant::now();
    let marked = send_all(&source, &sender)?;
    let took = start.elapsed();
    assert_eq!(marked, EVENTS);
    Ok(took)
}

struct Serve {
    url: String,
    _receiver: Option<Receiver>,
}

/// The product's receiver, or, without durability, the same steps on a connection that does not sync.
fn serve(sink: &Path, sync: Sync) -> Anyhow<Serve> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/events", listener.local_addr()?);
    let receiver = match sync {
        Sync::Full => Receiver::start(sink, listener)?,
        Sync::Off => Receiver::start_without_durability(sink, listener)?,
    };
    Ok(Serve { url, _receiver: Some(receiver) })
}

fn one_by_one(source: &Connection, sender: &HttpSender) -> Result<usize, OutboxError> {
    let mut marked = 0;
    loop {
        match dispatch(source, &mut |event| sender.send(&event), LIMITS[0], &mut no_fault)? {
            0 => return Ok(marked),
            more => marked += more,
        }
    }
}

fn together(
    source: &Connection,
    sender: &HttpSender,
    limit: usize,
) -> Result<usize, OutboxError> {
    let mut send = |event: Event| sender.send(&event);
    let sum = dispatch_all(source, &mut send, limit, &mut no_fault, &mut |_| {});
    sum.stopped.map_or(Ok(sum.marked), |stopped| Err(stopped.error))
}
