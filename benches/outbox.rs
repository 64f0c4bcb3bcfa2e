//! Events per second of dispatch, beside the limit of the disk: `cargo bench --bench outbox`.
//!
//! Everything is real: two stores on the file system of the target folder, the receiver, HTTP over loopback, every commit synced. The
//! limit is what the disk allows a protocol that makes two commits for each event, in order: it appends as many bytes as such a commit
//! does to one file, syncs, then to another, syncs, and does nothing else. Rounds of all ways take turns, so that a disk that changes
//! its mood changes it for all of them. Prints the median of the rounds, with the lowest and the highest.

use std::any::Any;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::Method;
use oncegate::http_server::{Handler, HttpServer, Limits, Request, Response};
use oncegate::outbox::{
    self, Event, HttpSender, OutboxError, Receiver, Role, dispatch, dispatch_all, no_fault,
};
use rusqlite::Connection;

/// Events in one round of one way: few, so that the rounds that are compared lie close together.
const EVENTS: usize = 96;
/// The contract's default, and its greatest.
const LIMITS: [usize; 2] = [8, 16];
const ROUNDS_DEFAULT: usize = 41;
/// A frame of a write-ahead log.
const FRAME_BYTES: usize = 24 + 4096;
/// What receiving one event appends to the log: a page of inbox, of its index, of stock.
const SINK_BYTES: usize = 3 * FRAME_BYTES;
/// What one mark appends: a page of outbox.
const SOURCE_BYTES: usize = FRAME_BYTES;

type Anyhow<T> = Result<T, Box<dyn Error>>;

/// Does one round in an empty folder and says how long its events took.
type Round = dyn Fn(&Path) -> Anyhow<Duration>;

/// One way of doing a round: how long its events took.
struct Way {
    name: String,
    round: Box<Round>,
    per_second: Vec<f64>,
}

impl Way {
    fn new(name: &str, round: impl Fn(&Path) -> Anyhow<Duration> + 'static) -> Way {
        Way { name: name.to_owned(), round: Box::new(round), per_second: Vec::new() }
    }

    fn rate(&self) -> f64 {
        median(self.per_second.clone())
    }

    /// How many times as fast as `other`: the median of the rounds, each beside its neighbour.
    fn times(&self, other: &Way) -> f64 {
        let pairs = self.per_second.iter().zip(&other.per_second);
        median(pairs.map(|(mine, theirs)| mine / theirs).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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
    let [limit, each, of_8, of_16, ..] = ways else { unreachable!("five ways") };
    println!("{EVENTS} events a round, {rounds} rounds, median (lowest - highest)");
    for way in ways {
        let (low, high) = way.per_second.iter().fold((f64::MAX, 0.0), |(low, high), &rate| {
            (f64::min(low, rate), f64::max(high, rate))
        });
        println!(
            "{:<42} {:>6.0} events/s ({low:.0} - {high:.0})  {:.2} x the limit",
            way.name,
            way.rate(),
            way.times(limit)
        );
    }
    println!(
        "one by one: {:.0} % of the limit; marks in one commit: {:.2} x (8), {:.2} x (16) of one by one",
        100.0 * each.times(limit),
        of_8.times(each),
        of_16.times(each),
    );
}

/// The limit: append and sync in the sink, then in the source, for each event.
fn two_syncs(dir: &Path) -> Anyhow<Duration> {
    let mut sink = File::create(dir.join("sink.raw"))?;
    let mut source = File::create(dir.join("source.raw"))?;
    let start = Instant::now();
    for _ in 0..EVENTS {
        sink.write_all(&[0x5a; SINK_BYTES])?;
        sink.sync_data()?;
        source.write_all(&[0x5a; SOURCE_BYTES])?;
        source.sync_data()?;
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

/// A receiver and where it is.
struct Serve {
    url: String,
    _running: Box<dyn Any>,
}

/// The product's receiver, or, without durability, the same steps on a connection that does not sync.
fn serve(sink: &Path, sync: Sync) -> Anyhow<Serve> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/events", listener.local_addr()?);
    let running: Box<dyn Any> = match sync {
        Sync::Full => Box::new(Receiver::start(sink, listener)?),
        Sync::Off => {
            let con = outbox::open_store(sink, Role::Sink)?;
            con.execute_batch("PRAGMA synchronous = OFF")?;
            let handler = Arc::new(Unsynced(Mutex::new(con)));
            Box::new(HttpServer::start(listener, Limits::default(), handler)?)
        }
    };
    Ok(Serve { url, _running: running })
}

struct Unsynced(Mutex<Connection>);

impl Handler for Unsynced {
    fn route(&self, _: &Method, _: &str) -> Result<(), Response> {
        Ok(())
    }

    fn answer(&self, request: Request) -> Response {
        let received = outbox::parse_event(&request.body).and_then(|event| {
            let con = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            outbox::receive(&con, &event, &mut no_fault)?;
            Ok(event.id)
        });
        match received {
            Ok(id) => Response::json(200, format!(r#"{{"id":"{id}","accepted":true}}"#).into()),
            Err(error) => Response::text(500, &error.to_string()),
        }
    }
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

fn together(source: &Connection, sender: &HttpSender, limit: usize) -> Result<usize, OutboxError> {
    let mut send = |event: Event| sender.send(&event);
    let sum = dispatch_all(source, &mut send, limit, &mut no_fault, &mut |_| {});
    sum.stopped.map_or(Ok(sum.marked), |stopped| Err(stopped.error))
}
