//! A core that is not idempotent and misbehaves on command, independent of the program's own simulated core: a test must not
//! count payments with the code that it tests. The first word that names a trick, in any text of a request, says what it does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use socket2::{Domain, Socket, Type};

use super::wait::PATIENCE;

/// A transfer that arrived is made within this time or never: the bound that `--min-age` relies on.
pub const LATE_MAX: Duration = Duration::from_secs(2);

/// What the core has seen and done.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// POSTs received whole, by GUID.
    pub calls: BTreeMap<String, u64>,
    /// How often the money moved, by GUID.
    pub effects: BTreeMap<String, u64>,
    /// Inquiries, in their order.
    pub inquiries: Vec<String>,
    /// The last request of each GUID.
    pub requests: BTreeMap<String, Map<String, Value>>,
    released: bool,
    honest: bool,
}

type Hook = Box<dyn Fn(&str) + Send + Sync>;

struct Site {
    books: Mutex<Books>,
    changed: Condvar,
    slow: Duration,
    /// Called in the middle of each transfer, while the caller waits for its answer.
    hook: Mutex<Option<Arc<Hook>>>,
}

/// A running core. Its threads end with the test's process.
pub struct CrookedCore {
    address: SocketAddr,
    down: Mutex<Option<Socket>>,
    site: Arc<Site>,
}

enum Answer {
    /// A JSON body under this status.
    Json(u16, Value),
    /// A proxy's page under this status.
    Page(u16),
    /// A redirect to the same place.
    Redirect,
    /// These bytes, then the end of the connection.
    Raw(&'static [u8]),
    /// The answer byte by byte, slower than anybody waits.
    Drip(Value),
    Reset,
    /// The connection is closed in order, without a byte.
    Close,
    /// A good answer, and then the connection is closed though nobody said so.
    JsonThenClose(Value),
}

impl CrookedCore {
    /// A core that serves. `SLOW` and `LATE` take `slow`.
    pub fn start(slow: Duration) -> CrookedCore {
        let core = CrookedCore::start_down(slow);
        core.up();
        core
    }

    /// A core whose port is its own, and refuses until it is [`CrookedCore::up`].
    pub fn start_down(slow: Duration) -> CrookedCore {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a port");
        let address = socket.local_addr().expect("an address").as_socket().expect("of the net");
        let (books, hook) = (Mutex::default(), Mutex::default());
        let site = Arc::new(Site { books, changed: Condvar::new(), slow, hook });
        CrookedCore { address, down: Mutex::new(Some(socket)), site }
    }

    /// Serves from now on.
    pub fn up(&self) {
        let down = self.down.lock().expect("no panic under this lock").take();
        let socket = down.expect("it was down");
        socket.listen(1024).expect("it listens");
        let (listener, site) = (TcpListener::from(socket), Arc::clone(&self.site));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let site = Arc::clone(&site);
                std::thread::spawn(move || serve(&stream, &site));
            }
        });
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has seen and done so far.
    pub fn books(&self) -> Books {
        self.site.books().clone()
    }

    /// How many calls came for this GUID.
    pub fn calls(&self, guid: &str) -> u64 {
        self.site.books().calls.get(guid).copied().unwrap_or_default()
    }

    /// How often the money moved for this GUID.
    pub fn effects(&self, guid: &str) -> u64 {
        self.site.books().effects.get(guid).copied().unwrap_or_default()
    }

    /// Waits until a call for this GUID has come.
    pub fn wait_for_call(&self, guid: &str) {
        let (books, out) = self
            .site
            .changed
            .wait_timeout_while(self.site.books(), PATIENCE, |b| !b.calls.contains_key(guid))
            .expect("no panic under this lock");
        assert!(!out.timed_out(), "no call for {guid} came: {:?}", books.calls);
    }

    /// Lets every `HOLD` be answered, from now on.
    pub fn release(&self) {
        self.site.change(|books| books.released = true);
    }

    /// From now on it answers every transfer well and at once, whatever the memo says; refusals stay.
    pub fn behave(&self) {
        self.site.change(|books| books.honest = true);
    }

    /// Calls `hook` in the middle of each transfer, while the caller waits for its answer.
    pub fn while_calling(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        let hook: Hook = Box::new(hook);
        *self.site.hook.lock().expect("no panic under this lock") = Some(Arc::new(hook));
    }
}

impl Site {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no panic under this lock")
    }

    fn change(&self, change: impl FnOnce(&mut Books)) {
        change(&mut self.books());
        self.changed.notify_all();
    }

    fn wait_for_release(&self) {
        let held = self.changed.wait_timeout_while(self.books(), 2 * PATIENCE, |b| !b.released);
        drop(held.expect("no panic under this lock"));
    }

    fn transfer(&self, request: Map<String, Value>) -> Answer {
        let (arrived, guid) = (Instant::now(), text(&request, "guid"));
        let trick = trick(&request);
        self.change(|books| {
            *books.calls.entry(guid.clone()).or_default() += 1;
            books.requests.insert(guid.clone(), request);
        });
        let hook = self.hook.lock().expect("no panic under this lock").clone();
        if let Some(hook) = hook {
            hook(&guid);
        }
        let honest = self.books().honest && !is_refusal(&trick);
        let trick = if honest { "" } else { &trick };
        let (posts, answer) = conduct(trick, &guid);
        if trick == "LATE" {
            std::thread::park_timeout(self.slow);
        }
        if posts && arrived.elapsed() < LATE_MAX {
            self.change(|books| *books.effects.entry(guid).or_default() += 1);
        } else if posts {
            return Answer::Json(503, json!({"code": "LATE"}));
        }
        match trick {
            "SLOW" => std::thread::park_timeout(self.slow),
            "HOLD" => self.wait_for_release(),
            _ => {}
        }
        answer
    }

    fn inquiry(&self, guid: &str) -> Answer {
        let mut books = self.books();
        books.inquiries.push(guid.to_owned());
        if books.effects.contains_key(guid) {
            Answer::Json(200, posting(guid))
        } else {
            Answer::Json(404, json!({"code": "NOT_FOUND"}))
        }
    }
}

/// Whether the money moves, and what is said of it.
fn conduct(trick: &str, guid: &str) -> (bool, Answer) {
    let refusal = |status, code: &str| (false, Answer::Json(status, json!({"code": code})));
    match trick {
        "E503" => (false, Answer::Json(503, json!({"code": "BUSY"}))),
        "REJECT" => refusal(422, "C051"),
        "NOCODE" => (false, Answer::Json(422, json!({"message": "no"}))),
        "LONGCODE" => refusal(400, "C0512"),
        "FALSECODE" => refusal(422, "0000"),
        "OURCODE" => refusal(422, "E902"),
        "REDIRECT" => (false, Answer::Redirect),
        _ => (true, said_of_a_posting(trick, guid)),
    }
}

fn said_of_a_posting(trick: &str, guid: &str) -> Answer {
    let with = |name: &str, value: Value| {
        let mut posting = posting(guid);
        posting[name] = value;
        posting
    };
    match trick {
        "RESET" => Answer::Reset,
        "FIN" => Answer::Close,
        "GARBAGE" => Answer::Raw(b"\x00\x01garbage\r\n\r\n"),
        "HALF" => Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"guid\":"),
        "CHUNK" => {
            Answer::Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"gui\r\n")
        }
        "NOLENGTH" => Answer::Raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}"),
        "DRIP" => Answer::Drip(posting(guid)),
        "E400" | "E502" => Answer::Page(trick[1..].parse().expect("three digits")),
        "E200" | "E404" | "E408" | "E429" | "E500" | "E504" => {
            Answer::Json(trick[1..].parse().expect("three digits"), json!({"code": "ERR"}))
        }
        "CREATED" => Answer::Json(201, posting(guid)),
        "ACCEPTED" => Answer::Json(202, posting(guid)),
        "PARTIAL" => Answer::Json(200, json!({"guid": guid, "status": "C"})),
        "TOOLONG" => Answer::Json(200, with("core_tx_id", "T".repeat(15).into())),
        "MISMATCH" => Answer::Json(200, with("guid", "9".repeat(30).into())),
        "BIG" => Answer::Json(200, with("pad", "x".repeat(500_000).into())),
        "HUGE" => Answer::Json(200, with("pad", "x".repeat(2_000_000).into())),
        "CLOSE" => Answer::JsonThenClose(posting(guid)),
        _ => Answer::Json(200, posting(guid)),
    }
}

fn is_refusal(trick: &str) -> bool {
    matches!(trick, "REJECT" | "NOCODE" | "LONGCODE" | "FALSECODE" | "OURCODE")
}

fn posting(guid: &str) -> Value {
    let tail = &guid[guid.len().saturating_sub(13)..];
    json!({"guid": guid, "core_tx_id": format!("T{tail}"), "posted_dtm": "20260928093015",
           "bal_sign": "+", "balance": 2_350_000, "status": "C"})
}

fn text(request: &Map<String, Value>, name: &str) -> String {
    request.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The first word of whichever text of the request begins with a word in capitals.
fn trick(request: &Map<String, Value>) -> String {
    let texts = request.iter().filter(|(name, _)| *name != "guid" && *name != "tx_code");
    let words = texts.filter_map(|(_, value)| value.as_str()?.split(' ').next());
    let mut tricks = words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    tricks.next().unwrap_or_default().to_owned()
}

fn serve(stream: &TcpStream, site: &Site) {
    let _ = stream.set_nodelay(true);
    let Ok(read_half) = stream.try_clone() else { return };
    let mut reader = BufReader::new(read_half);
    while let Some((path, body)) = read_request(&mut reader) {
        let answer = match body {
            Some(request) => site.transfer(request),
            None => site.inquiry(&percent_decoded(path.rsplit('/').next().unwrap_or_default())),
        };
        if say(stream, &path, answer, site).is_none() {
            return;
        }
    }
}

/// Says it; none if that was the end of the connection.
fn say(mut stream: &TcpStream, path: &str, answer: Answer, site: &Site) -> Option<()> {
    match answer {
        Answer::Json(status, body) => stream.write_all(&http(status, "", &body)).ok(),
        Answer::Page(status) => {
            stream.write_all(&http(status, "Content-Type: text/html\r\n", &"<html>".into())).ok()
        }
        Answer::Redirect => {
            stream.write_all(&http(307, &format!("Location: {path}\r\n"), &json!({}))).ok()
        }
        Answer::Raw(bytes) => {
            let _ = stream.write_all(bytes);
            end(stream)
        }
        Answer::JsonThenClose(body) => {
            let _ = stream.write_all(&http(200, "", &body));
            end(stream)
        }
        Answer::Close => end(stream),
        Answer::Drip(body) => {
            for byte in http(200, "", &body) {
                stream.write_all(&[byte]).ok()?;
                std::thread::park_timeout(site.slow / 20);
            }
            Some(())
        }
        Answer::Reset => {
            let linger = Some(Duration::ZERO);
            socket2::SockRef::from(stream).set_linger(linger).expect("a socket option");
            None
        }
    }
}

/// Both directions: what is dropped with unread bytes would be a reset.
fn end(stream: &TcpStream) -> Option<()> {
    let _ = stream.shutdown(Shutdown::Both);
    None
}

fn http(status: u16, headers: &str, body: &Value) -> Vec<u8> {
    let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Path and, of a POST, the body; none if the other side has gone before it was whole.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Option<Map<String, Value>>)> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let path = first.split(' ').nth(1)?.to_owned();
    if first.starts_with("GET ") {
        return Some((path, None));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, Some(serde_json::from_slice(&body).ok()?)))
}

fn percent_decoded(segment: &str) -> String {
    let mut parts = segment.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        text.push(char::from(u8::from_str_radix(hex, 16).expect("two hex digits")));
        text.push_str(rest);
    }
    text
}
