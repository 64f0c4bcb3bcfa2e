//! `oncegate core`: a simulated core for the demo, the tests and drills. Not idempotent on purpose, and it misbehaves on command: the
//! leading word of the memo says how.
//!
//! Knows nothing of the rest of the program but the API's JSON. Runs on a runtime of its own, so that thousands of slow calls cost
//! little and a benchmark measures the relay, not its core.

mod books;
mod conduct;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use self::books::{Books, Order, Posting};
use self::conduct::{Misdeed, NextMisdeed, Steered};
use crate::clock::Clock;
use crate::limits::{
    ACCEPT_QUEUE, SIMULATED_ACCEPT_PAUSE, SIMULATED_BODY_BYTES_MAX, SIMULATED_STOP_TIMEOUT,
    SIMULATED_THREADS,
};

pub use self::books::Stats;

/// How a simulated core behaves.
#[derive(Clone)]
pub struct SimulatedConfig {
    /// How long `SLOW` and `LATE` take.
    pub slow: Duration,
    /// Where transfers survive its restart; `None`: in memory only.
    pub db: Option<PathBuf>,
    /// Dates the transfers.
    pub clock: Arc<dyn Clock>,
}

/// A simulated core that runs until it is stopped or dropped; not to be dropped inside an async runtime.
pub struct SimulatedCore {
    address: SocketAddr,
    books: Arc<Books>,
    runtime: Option<Runtime>,
}

/// What the memo's leading word asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trick {
    /// Makes the transfer, answers late.
    Slow,
    /// Makes it, then resets the connection without a byte.
    Reset,
    /// Makes it, then sends half an answer.
    Half,
    /// Makes it, then sends bytes that are no HTTP.
    Garbage,
    /// Makes it, then answers 500.
    E500,
    /// Does not make it, answers 503.
    E503,
    /// Refuses it.
    Reject,
    /// Waits, and only then makes it.
    Late,
    /// Answers 307 to itself.
    Redirect,
    /// Makes it, answers with another GUID.
    Mismatch,
}

/// What every connection needs.
struct Site {
    books: Arc<Books>,
    slow: Duration,
}

type Answer = Response<Full<Bytes>>;

impl SimulatedCore {
    /// Serves what comes on `listener`. Errors: the listener can't be used, the file can't be read or is in use, no thread can be made.
    pub fn start(listener: TcpListener, config: SimulatedConfig) -> io::Result<SimulatedCore> {
        let books = Arc::new(Books::open(config.db.as_deref(), config.clock)?);
        // std listens with a queue of 128; a burst of calls beyond that would wait a second for its second SYN.
        socket2::SockRef::from(&listener).listen(ACCEPT_QUEUE)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(SIMULATED_THREADS)
            .thread_name("simulated core")
            .enable_io()
            .enable_time()
            .build()?;
        let site = Arc::new(Site { books: Arc::clone(&books), slow: config.slow });
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        runtime.spawn(accept(listener, site));
        Ok(SimulatedCore { address, books, runtime: Some(runtime) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.books.stats()
    }

    /// Closes everything at once, calls under way included. When it returns the port refuses.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for SimulatedCore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SIMULATED_STOP_TIMEOUT);
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    loop {
        match listener.accept().await {
            Ok((stream, _peer)) => drop(tokio::spawn(serve(stream, Arc::clone(&site)))),
            // No more files, or a client that went while it queued: neither ends the core.
            Err(_) => tokio::time::sleep(SIMULATED_ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, site: Arc<Site>) {
    // Without it an answer would wait for an acknowledgement; a socket that refuses the option still works.
    let _ = stream.set_nodelay(true);
    let next = NextMisdeed::default();
    let io = TokioIo::new(Steered::new(stream, next.clone()));
    let service = service_fn(|request| {
        let (site, next) = (Arc::clone(&site), next.clone());
        async move { Ok::<_, Infallible>(answer(request, &site, &next).await) }
    });
    // One write for head and body, so that a misdeed can be done to an answer as a whole. The error is a client that went, or a misdeed.
    let _ = http1::Builder::new().writev(false).serve_connection(io, service).await;
}

async fn answer(request: Request<Incoming>, site: &Arc<Site>, next: &NextMisdeed) -> Answer {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET {
        return if path == "/_stats" {
            answer_json(200, &site.books.stats())
        } else {
            inquiry(&path, site)
        };
    }
    if request.method() != Method::POST {
        return answer_json(405, &json!({"code": "METHOD", "message": "GET or POST"}));
    }
    match Limited::new(request.into_body(), SIMULATED_BODY_BYTES_MAX).collect().await {
        Ok(body) => transfer(&body.to_bytes(), &path, site, next).await,
        // Not received whole: not counted.
        Err(_) => {
            answer_json(413, &json!({"code": "BODY", "message": "the body did not come whole"}))
        }
    }
}

fn inquiry(path: &str, site: &Site) -> Answer {
    let segment = path.rsplit('/').next().unwrap_or_default();
    match site.books.inquire(&percent_decoded(segment)) {
        Some(posting) => answer_json(200, &posting),
        None => answer_json(404, &json!({"code": "NOT_FOUND"})),
    }
}

async fn transfer(body: &[u8], path: &str, site: &Arc<Site>, next: &NextMisdeed) -> Answer {
    let order = Order::parse(body);
    site.books.count_call(order.as_ref());
    let Some(order) = order else {
        return answer_json(400, &json!({"code": "C400", "message": "no JSON object with a guid"}));
    };
    match Trick::of(&order) {
        Some(Trick::E503) => answer_json(503, &json!({"code": "BUSY"})),
        Some(Trick::Reject) => {
            answer_json(422, &json!({"code": "C051", "message": "insufficient funds"}))
        }
        Some(Trick::Redirect) => redirect(path),
        Some(Trick::Late) => late(order, site).await,
        trick => match site.books.post(&order) {
            Ok(posting) => posted(posting, trick, site, next).await,
            Err(_) => not_recorded(),
        },
    }
}

/// Makes the transfer after a while even if the caller has hung up by then, which ends this connection's task.
async fn late(order: Order, site: &Arc<Site>) -> Answer {
    let site = Arc::clone(site);
    let posting = tokio::spawn(async move {
        tokio::time::sleep(site.slow).await;
        site.books.post(&order)
    });
    match posting.await {
        Ok(Ok(posting)) => answer_json(200, &posting),
        Ok(Err(_)) | Err(_) => not_recorded(),
    }
}

/// The transfer is made; what remains is how to say so.
async fn posted(posting: Posting, trick: Option<Trick>, site: &Site, next: &NextMisdeed) -> Answer {
    match trick {
        Some(Trick::Slow) => tokio::time::sleep(site.slow).await,
        Some(Trick::Reset) => next.set(Misdeed::Reset),
        Some(Trick::Half) => next.set(Misdeed::Half),
        Some(Trick::Garbage) => next.set(Misdeed::Garbage),
        Some(Trick::E500) => return answer_json(500, &json!({"code": "ERROR"})),
        Some(Trick::Mismatch) => {
            return answer_json(200, &posting.with_another_guid());
        }
        Some(Trick::E503 | Trick::Reject | Trick::Redirect | Trick::Late) | None => {}
    }
    answer_json(200, &posting)
}

fn not_recorded() -> Answer {
    answer_json(500, &json!({"code": "DISK", "message": "not made: it can't be written down"}))
}

fn redirect(path: &str) -> Answer {
    let mut answer = answer_json(307, &json!({}));
    if let Ok(path) = HeaderValue::from_str(path) {
        answer.headers_mut().insert(LOCATION, path);
    }
    answer
}

fn answer_json(status: u16, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).expect("plain data is JSON");
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status of three digits");
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

impl Trick {
    fn of(order: &Order) -> Option<Trick> {
        match order.memo.split_whitespace().next()? {
            "SLOW" => Some(Trick::Slow),
            "RESET" => Some(Trick::Reset),
            "HALF" => Some(Trick::Half),
            "GARBAGE" => Some(Trick::Garbage),
            "E500" => Some(Trick::E500),
            "E503" => Some(Trick::E503),
            "REJECT" => Some(Trick::Reject),
            "LATE" => Some(Trick::Late),
            "REDIRECT" => Some(Trick::Redirect),
            "MISMATCH" => Some(Trick::Mismatch),
            _ => None,
        }
    }
}

/// A path's segment as what it stands for; a `%` that begins no byte stands for itself.
fn percent_decoded(segment: &str) -> String {
    let (mut rest, mut decoded) = (segment.as_bytes(), Vec::new());
    while let Some((first, behind)) = rest.split_first() {
        let escaped = behind.get(..2).filter(|_| *first == b'%').and_then(hex_byte);
        decoded.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digits =
        str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_decoded_and_what_is_no_escape_stays() {
        for (segment, text) in [
            ("A-1%2F%3F", "A-1/?"),
            ("%2e%2E", ".."),
            ("%25", "%"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz1", "%zz1"),
            ("%+41", "%+41"),
            ("%EC%9B%94", "월"),
        ] {
            assert_eq!(percent_decoded(segment), text);
        }
    }
}
