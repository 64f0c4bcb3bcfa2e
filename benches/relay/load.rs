//! The load: many connections, each asking again as soon as it has its answer. One thread, so that it takes little from the
//! subject on a small machine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oncegate::telegram::Layout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How a subject is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tongue {
    /// Telegrams over TCP.
    Tcp,
    /// Telegrams over HTTP.
    Http,
    /// The core's own JSON over HTTP: what a plain proxy forwards.
    Json,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Load {
    pub tongue: Tongue,
    pub at: SocketAddr,
    pub connections: usize,
    pub span: Duration,
    /// The leading word of the memo.
    pub memo: &'static str,
    /// Makes the GUIDs of this load differ from all others'.
    pub serial: u32,
    /// Ask for the same few GUIDs again and again.
    pub replay: bool,
    /// Stop after so many questions, if the span is not over before.
    pub questions_max: u64,
}

/// How many GUIDs a replay asks for.
pub const REPLAYED: u64 = 64;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Taken {
    pub answered: u64,
    pub span: Duration,
    pub p50: Duration,
    pub p99: Duration,
}

impl Taken {
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.span.as_secs_f64()
    }
}

/// Runs a load to its end. An answer that is not the good one is an error.
pub fn run(load: &Load) -> io::Result<Taken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drive(Arc::new(load.clone())))
}

async fn drive(load: Arc<Load>) -> io::Result<Taken> {
    let pattern = Arc::new(Pattern::new(&load));
    let mut streams = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect(load.at).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (start, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            tokio::spawn(channel(
                stream,
                Arc::clone(&load),
                Arc::clone(&pattern),
                Arc::clone(&next),
                start,
            ))
        })
        .collect();
    let mut times: Vec<Duration> = Vec::new();
    for task in tasks {
        times.extend(task.await.map_err(io::Error::other)??);
    }
    let span = start.elapsed();
    times.sort_unstable();
    let at =
        |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or_default();
    Ok(Taken { answered: times.len() as u64, span, p50: at(0.50), p99: at(0.99) })
}

async fn channel(
    mut stream: TcpStream,
    load: Arc<Load>,
    pattern: Arc<Pattern>,
    next: Arc<AtomicU64>,
    start: Instant,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut answer = Vec::with_capacity(1024);
    while start.elapsed() < load.span {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= load.questions_max {
            break;
        }
        let question = pattern.question(if load.replay { n % REPLAYED } else { n });
        let asked = Instant::now();
        stream.write_all(&question).await?;
        read_answer(&mut stream, load.tongue, &mut answer).await?;
        times.push(asked.elapsed());
        Pattern::check(load.tongue, &answer)?;
    }
    Ok(times)
}

/// A request with a place for the GUID's serial.
struct Pattern {
    bytes: Vec<u8>,
    serial_at: usize,
}

impl Pattern {
    fn new(load: &Load) -> Pattern {
        let guid = format!("20260928B{:07}00000000000000", load.serial);
        let bytes = match load.tongue {
            Tongue::Tcp => telegram(&guid, load.memo),
            Tongue::Http => post("/telegram", &telegram(&guid, load.memo)),
            Tongue::Json => post("/v1/transfers", json(&guid, load.memo).as_bytes()),
        };
        let serial = &guid.as_bytes()[..16];
        let guid_at =
            bytes.windows(16).position(|w| w == serial).expect("the GUID is in the request");
        Pattern { bytes, serial_at: guid_at + 16 }
    }

    fn question(&self, n: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.serial_at..self.serial_at + 14].copy_from_slice(format!("{n:014}").as_bytes());
        bytes
    }

    fn check(tongue: Tongue, answer: &[u8]) -> io::Result<()> {
        let good = match tongue {
            Tongue::Tcp => answer.get(92..96) == Some(b"0000"),
            Tongue::Http | Tongue::Json => answer.starts_with(b"HTTP/1.1 200"),
        };
        if good && (tongue != Tongue::Http || find(answer, b"code: 0000").is_some()) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
        Err(io::Error::other(format!("an answer that is none: {text:?}")))
    }
}

fn telegram(guid: &str, memo: &str) -> Vec<u8> {
    let values = [
        ("guid", guid),
        ("std_ver", "01"),
        ("guid_hop", "1"),
        ("send_cnt", "1"),
        ("channel_id", "MOB"),
        ("req_dtm", "20260928093015123"),
        ("from_acct", "110123456789"),
        ("to_acct", "3020987654321"),
        ("amount", "150000"),
        ("memo", memo),
        ("ttl_sec", "0"),
    ];
    let values =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Layout::std128().encode_request("TRF00100", &values).expect("our own telegram is well-formed")
}

fn json(guid: &str, memo: &str) -> String {
    format!(
        r#"{{"guid":"{guid}","tx_code":"TRF00100","from_acct":"110123456789","to_acct":"3020987654321","amount":150000,"memo":"{memo}"}}"#
    )
}

fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn read_answer(
    stream: &mut TcpStream,
    tongue: Tongue,
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    answer.clear();
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err(io::Error::other("the subject closed a connection"));
        }
        if whole(tongue, answer) {
            return Ok(());
        }
    }
}

fn whole(tongue: Tongue, answer: &[u8]) -> bool {
    let number =
        |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|t| t.trim().parse::<usize>().ok());
    if tongue == Tongue::Tcp {
        return answer.get(..8).and_then(number).is_some_and(|length| answer.len() >= 8 + length);
    }
    let Some(end) = find(answer, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| {
        line.strip_prefix("content-length:").and_then(|n| n.trim().parse::<usize>().ok())
    });
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Opens connections that say nothing, and holds them until the value is dropped.
pub fn idle(at: SocketAddr, connections: usize) -> io::Result<Vec<std::net::TcpStream>> {
    (0..connections).map(|_| std::net::TcpStream::connect(at)).collect()
}
