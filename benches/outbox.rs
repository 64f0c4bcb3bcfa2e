//! Events per second of dispatch, beside the limit of the disk: `cargo bench --bench outbox` (`-- WORDS`: only the ways whose names hold
//! them).
//!
//! Everything is real: two stores on the file system of the target folder, the receiver, HTTP over loopback, every commit synced. The
//! limit is what the disk allows a protocol that makes two commits for each event, in order: it writes as many bytes as such a commit
//! does to one file, syncs, then to another, syncs, and does nothing else. There are two such limits, for a file that grows has its
//! new size synced, too: a log that is new grows; one that was used before (its first thousand pages are written, or its programs have
//! run for a while) is written in place. A third one sends as many bytes as HTTP does over loopback and back between its two syncs.
//!
//! All ways take turns every few milliseconds, so that a disk that changes its mood changes it for all of them. Prints the median of
//! the rounds, with the lowest and the highest, and what the mood does not change.

use std::any::Any;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::Method;
use oncegate::http_server::{Handler, HttpServer, Limits, Request, Response, Tell};
use oncegate::outbox::{
    self, Event, HttpSender, OutboxError, Receiver, Role, dispatch, dispatch_batch, no_fault,
};
use rusqlite::Connection;
use tracing::Level;

/// Events in one turn of one way, and turns of each way in a round.
const TURN: usize = 16;
const TURNS: usize = 6;
const EVENTS: usize = TURN * TURNS;
/// Events in one batch: the contract's default, and its greatest.
const LIMITS: [usize; 2] = [8, 16];
const ROUNDS_DEFAULT: usize = 25;
/// A frame of a write-ahead log.
const FRAME_BYTES: usize = 24 + 4096;
/// After so many frames SQLite moves what the log holds into the store, and begins the log anew.
const LOG_FRAMES: usize = 1000;
/// An event's request and its acknowledgement, heads included.
const REQUEST_BYTES: usize = 179;
const ANSWER_BYTES: usize = 141;
/// What receiving one event writes to the log: a page of inbox, of its index, of stock.
const SINK_BYTES: usize = 3 * FRAME_BYTES;
/// What one mark writes: a page of outbox.
const SOURCE_BYTES: usize = FRAME_BYTES;

type Anyhow<T> = Result<T, Box<dyn Error>>;

/// Sends the next events of a round.
type Step = dyn FnMut() -> Anyhow<()>;

/// Makes what a round needs, in an empty folder.
type Prepare = dyn Fn(&Path) -> Anyhow<Box<Step>>;

/// One way of sending events.
struct Way {
    name: String,
    prepare: Box<Prepare>,
    per_second: Vec<f64>,
    cost: Cost,
}

impl Way {
    fn new(name: &str, prepare: impl Fn(&Path) -> Anyhow<Box<Step>> + 'static) -> Way {
        let prepare = Box::new(prepare);
        Way { name: name.to_owned(), prepare, per_second: Vec::new(), cost: Cost::default() }
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

/// What events take: the time, and what the machine's mood does not change, the processor's time and the changes of its thread.
#[derive(Clone, Copy, Default)]
struct Cost {
    took: Duration,
    cpu: Duration,
    switches: u64,
}

impl Cost {
    /// Of this step, on all threads of this process that are there before and after it.
    fn of(step: &mut Step) -> Anyhow<Cost> {
        let (before, start) = (Cost::so_far()?, Instant::now());
        step()?;
        let (took, after) = (start.elapsed(), Cost::so_far()?);
        Ok(Cost {
            took,
            cpu: after.cpu.saturating_sub(before.cpu),
            switches: after.switches.saturating_sub(before.switches),
        })
    }

    fn so_far() -> Anyhow<Cost> {
        let mut sum = Cost::default();
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            let read = |name| std::fs::read_to_string(task.join(name));
            // A thread may end meanwhile.
            let (Ok(ran), Ok(status)) = (read("schedstat"), read("status")) else { continue };
            sum.cpu += Duration::from_nanos(ran.split(' ').next().unwrap_or_default().parse()?);
            for line in status.lines() {
                if let Some((_, count)) = line.split_once("voluntary_ctxt_switches:") {
                    sum.switches += count.trim().parse::<u64>()?;
                }
            }
        }
        Ok(sum)
    }

    fn add(&mut self, other: Cost) {
        self.took += other.took;
        self.cpu += other.cpu;
        self.switches += other.switches;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Anyhow<()> {
    tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(io::stderr).init();
    let rounds = std::env::var("ONCEGATE_ROUNDS").map_or(Ok(ROUNDS_DEFAULT), |n| n.parse())?;
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut ways = ways();
    // cargo itself passes `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    ways.retain(|way| wanted.iter().all(|word| way.name.contains(word)));
    for round in 0..rounds {
        let mut folders = Vec::new();
        // Dropped before the folders.
        let mut steps = Vec::new();
        for way in &ways {
            folders.push(tempfile::tempdir_in(&target)?);
            steps.push((way.prepare)(folders[folders.len() - 1].path())?);
        }
        let mut costs = vec![Cost::default(); ways.len()];
        for turn in 0..TURNS * ways.len() {
            // Not always after the same one.
            let at = (turn + turn / ways.len() + round) % ways.len();
            costs[at].add(Cost::of(&mut steps[at])?);
        }
        for (way, cost) in ways.iter_mut().zip(costs) {
            way.cost.add(cost);
            #[expect(clippy::cast_precision_loss, reason = "some hundred events")]
            way.per_second.push(EVENTS as f64 / cost.took.as_secs_f64());
        }
    }
    report(&ways, rounds);
    Ok(())
}

fn ways() -> Vec<Way> {
    vec![
        Way::new("limit: two syncs an event, files grow", |dir| two_syncs(dir, Log::New)),
        Way::new("limit: two syncs an event, in place", |dir| two_syncs(dir, Log::Used)),
        Way::new("limit: in place, and a round trip", |dir| two_syncs_and_a_trip(dir, Log::Used)),
        Way::new("dispatch, one by one, new logs", |dir| {
            dispatched(dir, Sync::Full, Log::New, one_by_one)
        }),
        Way::new("dispatch, one by one", |dir| dispatched(dir, Sync::Full, Log::Used, one_by_one)),
        Way::new("dispatch, marks of 8 share a commit", |dir| {
            dispatched(dir, Sync::Full, Log::Used, |source, sender| {
                together(source, sender, LIMITS[0])
            })
        }),
        Way::new("dispatch, marks of 16 share a commit", |dir| {
            dispatched(dir, Sync::Full, Log::Used, |source, sender| {
                together(source, sender, LIMITS[1])
            })
        }),
        Way::new("dispatch, one by one, without durability", |dir| {
            dispatched(dir, Sync::Off, Log::Used, one_by_one)
        }),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "some thousand events")]
fn report(ways: &[Way], rounds: usize) {
    println!("{EVENTS} events a round, {rounds} rounds, median (lowest - highest)");
    for way in ways {
        let (low, high) = way.per_second.iter().fold((f64::MAX, 0.0), |(low, high), &rate| {
            (f64::min(low, rate), f64::max(high, rate))
        });
        let events = EVENTS as f64 * rounds as f64;
        println!(
            "{:<42} {:>6.0} events/s ({low:.0} - {high:.0}), {:>4.0} µs CPU, {:>4.1} switches an event",
            way.name,
            way.rate(),
            way.cost.cpu.as_secs_f64() * 1e6 / events,
            way.cost.switches as f64 / events,
        );
    }
    if let [grow, in_place, trip, new, used, of_8, of_16, _] = ways {
        println!(
            "one by one: {:.0} % of the limit where files grow ({:.0} % with new logs), {:.0} % in place, {:.0} % with the round trip",
            100.0 * used.times(grow),
            100.0 * new.times(grow),
            100.0 * used.times(in_place),
            100.0 * used.times(trip),
        );
        println!(
            "marks in one commit: {:.2} x (8), {:.2} x (16) of one by one",
            of_8.times(used),
            of_16.times(used)
        );
    }
}

/// Whether what is written makes files longer.
#[derive(Clone, Copy)]
enum Log {
    New,
    Used,
}

/// The limit: write and sync in the sink, then in the source, for each event.
fn two_syncs(dir: &Path, log: Log) -> Anyhow<Box<Step>> {
    let (mut sink, mut source) = (raw(&dir.join("sink"), log)?, raw(&dir.join("source"), log)?);
    Ok(Box::new(move || {
        for _ in 0..TURN {
            synced(&mut sink, SINK_BYTES)?;
            synced(&mut source, SOURCE_BYTES)?;
        }
        Ok(())
    }))
}

/// What nobody can beat who has to ask another process: the limit, with as many bytes as a request and its answer have sent over
/// loopback and back around the sink's sync.
fn two_syncs_and_a_trip(dir: &Path, log: Log) -> Anyhow<Box<Step>> {
    let (mut sink, mut source) = (raw(&dir.join("sink"), log)?, raw(&dir.join("source"), log)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Ends when the client has gone; the client hears of an error as the end of the stream.
    std::thread::spawn(move || -> io::Result<()> {
        loop {
            server.read_exact(&mut [0; REQUEST_BYTES])?;
            synced(&mut sink, SINK_BYTES)?;
            server.write_all(&[b'a'; ANSWER_BYTES])?;
        }
    });
    Ok(Box::new(move || {
        for _ in 0..TURN {
            client.write_all(&[b'r'; REQUEST_BYTES])?;
            client.read_exact(&mut [0; ANSWER_BYTES])?;
            synced(&mut source, SOURCE_BYTES)?;
        }
        Ok(())
    }))
}

fn synced(file: &mut File, bytes: usize) -> io::Result<()> {
    file.write_all(&vec![0x5a; bytes])?;
    file.sync_data()
}

fn raw(path: &Path, log: Log) -> Anyhow<File> {
    let mut file = File::create(path)?;
    if let Log::Used = log {
        file.write_all(&vec![0; LOG_FRAMES * FRAME_BYTES])?;
        file.sync_all()?;
        file.rewind()?;
    }
    Ok(file)
}

#[derive(Clone, Copy)]
enum Sync {
    Full,
    Off,
}

/// A round of real dispatch: the source is full, the receiver runs, the logs are new or used.
fn dispatched(
    dir: &Path,
    sync: Sync,
    log_is: Log,
    send: impl Fn(&Connection, &HttpSender) -> Result<usize, OutboxError> + Copy + 'static,
) -> Anyhow<Box<Step>> {
    let source = outbox::open_store(&dir.join("source.db"), Role::Source)?;
    source.execute_batch("PRAGMA synchronous = OFF")?;
    for n in 0..EVENTS {
        outbox::enqueue(&source, &Event::new(format!("order-{n}"), 3)?, &mut no_fault)?;
    }
    let sink = outbox::open_store(&dir.join("sink.db"), Role::Sink)?;
    sink.execute_batch("PRAGMA synchronous = OFF")?;
    if let Log::Used = log_is {
        use_up(&source, "UPDATE outbox SET sent = 1 - sent WHERE seq = 1")?;
        use_up(&sink, "UPDATE stock SET total = 1 - total")?;
    }
    let end = if let Log::Used = log_is { "RESTART" } else { "TRUNCATE" };
    for (con, name) in [(&source, "source.db-wal"), (&sink, "sink.db-wal")] {
        con.execute_batch(&format!("PRAGMA wal_checkpoint({end})"))?;
        let log = File::open(dir.join(name))?;
        log.sync_all()?;
        assert_eq!(
            log.metadata()?.len() > (LOG_FRAMES * FRAME_BYTES) as u64,
            matches!(log_is, Log::Used)
        );
    }
    let serve = serve(&dir.join("sink.db"), sync)?;
    if let Sync::Full = sync {
        source.execute_batch("PRAGMA synchronous = EXTRA")?;
    }
    let sender = HttpSender::new(&serve.url, 5.0)?;
    Ok(Box::new(move || {
        // It stays open, and with it the log.
        let _ = (&sink, &serve);
        assert_eq!(send(&source, &sender)?, TURN);
        Ok(())
    }))
}

/// Writes the log full, with what changes nothing in the end. (SQLite writes no page for a value that is there already.)
fn use_up(store: &Connection, sql: &str) -> Anyhow<()> {
    let mut statement = store.prepare(sql)?;
    for _ in 0..LOG_FRAMES {
        assert_eq!(statement.execute([])?, 1);
    }
    Ok(())
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
            let limits = Limits { workers_max: 0, ..Limits::default() };
            Box::new(HttpServer::start(listener, limits, handler)?)
        }
    };
    Ok(Serve { url, _running: running })
}

struct Unsynced(Mutex<Connection>);

impl Handler for Unsynced {
    fn route(&self, _: &Method, _: &str) -> Result<(), Response> {
        Ok(())
    }

    fn answer(&self, request: Request, tell: Tell) {
        let received = outbox::parse_event(&request.body).and_then(|event| {
            let con = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            outbox::receive(&con, &event, &mut no_fault)?;
            Ok(event.id)
        });
        tell.tell(match received {
            Ok(id) => Response::json(200, format!(r#"{{"id":"{id}","accepted":true}}"#).into()),
            Err(error) => {
                tracing::error!(%error, "not received");
                Response::text(500, "")
            }
        });
    }
}

fn one_by_one(source: &Connection, sender: &HttpSender) -> Result<usize, OutboxError> {
    (0..TURN / LIMITS[0]).try_fold(0, |marked, _| {
        let batch = dispatch(source, &mut |event| sender.send(&event), LIMITS[0], &mut no_fault)?;
        Ok(marked + batch)
    })
}

fn together(source: &Connection, sender: &HttpSender, limit: usize) -> Result<usize, OutboxError> {
    (0..TURN / limit).try_fold(0, |marked, _| {
        let batch = dispatch_batch(source, &mut |event| sender.send(&event), limit, &mut no_fault);
        batch.stopped.map_or(Ok(marked + batch.marked), |stopped| Err(stopped.error))
    })
}
