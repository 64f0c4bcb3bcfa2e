//! The HTTP server at the edge over real sockets: limits, times, hang-ups, panics, shutdown.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Method;
use oncegate::http_server::{Handler, HttpServer, Limits, Request, Response, Tell};

/// Long enough for a slow machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// `POST /echo` gives the body back, `/hold` waits to be released, `/panic` panics, `/guarded` answers with a guard.
struct Stage {
    calls: AtomicUsize,
    entered: Sender<()>,
    release: Mutex<Receiver<()>>,
    finished: Sender<()>,
}

struct Tells(Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Handler for Stage {
    fn route(&self, method: &Method, path: &str) -> Result<(), Response> {
        match path {
            "/echo" | "/hold" | "/panic" | "/guarded" if method == Method::POST => Ok(()),
            "/echo" => Err(Response::method_not_allowed("POST")),
            "/route-panic" => panic!("a route that panics, on purpose"),
            _ => Err(Response::not_found()),
        }
    }

    fn answer(&self, request: Request, tell: Tell) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match request.path.as_str() {
            "/panic" => panic!("a handler that panics, on purpose"),
            "/hold" => {
                let _finished = Tells(self.finished.clone());
                self.entered.send(()).unwrap();
                self.release.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
            "/guarded" => {
                let mut response = Response::new(200, "text/plain", vec![b'x'; 8 * 1024 * 1024]);
                response.after_sent = Some(Box::new(Tells(self.finished.clone())));
                return tell.tell(response);
            }
            _ => {}
        }
        tell.tell(Response::new(200, "text/plain", request.body.to_vec()));
    }
}

struct Theatre {
    server: HttpServer,
    stage: Arc<Stage>,
    entered: Receiver<()>,
    release: Sender<()>,
    finished: Receiver<()>,
}

impl Theatre {
    fn open(limits: Limits) -> Theatre {
        let (entered_in, entered) = channel();
        let (release, release_out) = channel();
        let (finished_in, finished) = channel();
        let stage = Arc::new(Stage {
            calls: AtomicUsize::new(0),
            entered: entered_in,
            release: Mutex::new(release_out),
            finished: finished_in,
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let handler: Arc<dyn Handler> = Arc::<Stage>::clone(&stage);
        let server = HttpServer::start(listener, limits, handler).unwrap();
        Theatre { server, stage, entered, release, finished }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.local_addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn calls(&self) -> usize {
        self.stage.calls.load(Ordering::SeqCst)
    }
}

fn small() -> Limits {
    Limits { body_bytes_max: 1024, workers_max: 4, ..Limits::default() }
}

/// Handlers on threads of their own, and on the server's.
fn either_way() -> [Limits; 2] {
    [small(), Limits { workers_max: 0, ..small() }]
}

/// Waits for `condition`, giving the processor away meanwhile.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "did not happen: {what}");
        std::thread::yield_now();
    }
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// One response: its head's first line, its head, its body by content-length.
fn read_response(stream: &mut TcpStream) -> (String, String, Vec<u8>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head.lines().next().unwrap().to_owned(), head, body)
}

fn status(stream: &mut TcpStream) -> String {
    read_response(stream).0.split(' ').nth(1).unwrap().to_owned()
}

/// Nothing more comes: the other side has closed, in order or with a reset.
fn closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    for limits in either_way() {
        let theatre = Theatre::open(limits);
        let mut stream = theatre.connect();
        stream.write_all((post("/echo", "one") + &post("/echo", "two")).as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream).2, b"one");
        assert_eq!(read_response(&mut stream).2, b"two");
        stream.write_all(post("/echo", "").as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream).2, b"");
        assert_eq!(theatre.server.connections(), 1);
        drop(stream);
        eventually("the connection ends with its client", || theatre.server.connections() == 0);
    }
}

#[test]
fn a_wrong_path_or_method_is_refused_before_the_body_is_read() {
    let theatre = Theatre::open(small());
    for (head, want) in [("GET /echo", "405"), ("PUT /nowhere", "404")] {
        let mut stream = theatre.connect();
        let request = format!("{head} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (line, head, _) = read_response(&mut stream);
        assert!(line.contains(want), "{line}");
        assert_eq!(want == "405", head.contains("allow: post"), "{head}");
        assert!(closed(&mut stream));
    }
    assert_eq!(theatre.calls(), 0);
}

#[test]
fn a_body_that_announces_too_much_gets_413_and_the_client_sees_it() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'x'; 100_000]).unwrap();
    let (line, head, _) = read_response(&mut stream);
    assert!(line.contains("413") && head.contains("connection: close"), "{head}");
    // In order: a reset would have taken the answer away from a client that was still sending.
    assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0);
    assert_eq!(theatre.calls(), 0);
}

#[test]
fn a_body_that_grows_too_long_gets_413_and_is_not_read_to_its_end() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..3 {
        stream.write_all(format!("200\r\n{}\r\n", "x".repeat(512)).as_bytes()).unwrap();
    }
    assert_eq!(status(&mut stream), "413");
    assert!(closed(&mut stream));
    assert_eq!(theatre.calls(), 0);
}

#[test]
fn a_body_of_exactly_the_limit_is_taken() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    stream.write_all(post("/echo", &"x".repeat(1024)).as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream).2.len(), 1024);
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it_and_not_when_its_body_is_too_long() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    let head = |length: usize| {
        format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    stream.write_all(head(3).as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    assert_eq!(read_response(&mut stream).2, b"abc");
    stream.write_all(head(2000).as_bytes()).unwrap();
    assert_eq!(status(&mut stream), "413");
}

#[test]
fn a_slow_head_is_closed_also_when_it_drips() {
    let limits = Limits { header_timeout: Duration::from_millis(100), ..small() };
    let theatre = Theatre::open(limits);
    let mut silent = theatre.connect();
    assert!(closed(&mut silent));
    let mut dripping = theatre.connect();
    dripping.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let end = Instant::now() + PATIENCE;
    // Until the server has hung up, a byte every 10 ms.
    while dripping.write_all(b"P").is_ok() {
        assert!(Instant::now() < end, "the drip was not ended");
        match dripping.read(&mut [0]) {
            Ok(0) => break,
            Ok(_) => panic!("an answer to half a head"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    eventually("both are gone", || theatre.server.connections() == 0);
}

#[test]
fn a_slow_body_gets_408_and_is_closed() {
    let theatre = Theatre::open(Limits { body_timeout: Duration::from_millis(100), ..small() });
    let mut stream = theatre.connect();
    stream.write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nfive.").unwrap();
    assert_eq!(status(&mut stream), "408");
    assert!(closed(&mut stream));
    assert_eq!(theatre.calls(), 0);
}

#[test]
fn a_connection_that_stays_idle_is_closed() {
    let theatre = Theatre::open(Limits { idle_timeout: Duration::from_millis(100), ..small() });
    let mut stream = theatre.connect();
    stream.write_all(post("/echo", "a").as_bytes()).unwrap();
    assert_eq!(status(&mut stream), "200");
    assert!(closed(&mut stream));
}

#[test]
fn a_client_that_does_not_read_its_answer_is_closed_and_the_guard_is_dropped_then() {
    let theatre = Theatre::open(Limits { write_timeout: Duration::from_millis(200), ..small() });
    let mut stream = theatre.connect();
    stream.write_all(post("/guarded", "").as_bytes()).unwrap();
    eventually("the call came", || theatre.calls() == 1);
    theatre.finished.recv_timeout(PATIENCE).unwrap();
    eventually("it is closed", || theatre.server.connections() == 0);
}

#[test]
fn a_guard_is_dropped_only_when_the_response_has_left() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    stream.write_all(post("/guarded", "").as_bytes()).unwrap();
    eventually("the call came", || theatre.calls() == 1);
    let mut first = [0; 1024];
    stream.read_exact(&mut first).unwrap();
    // 8 MiB don't fit into the buffers of a loopback socket: as long as we don't read, most of it has not left.
    assert!(theatre.finished.recv_timeout(Duration::from_millis(100)).is_err());
    let mut rest = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut left = 8 * 1024 * 1024 - 1024;
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            left -= rest.read(&mut buffer).unwrap().min(left);
        }
    });
    theatre.finished.recv_timeout(PATIENCE).unwrap();
    reader.join().unwrap();
    assert_eq!(theatre.server.connections(), 1);
}

#[test]
fn one_connection_too_many_is_closed_at_once_and_the_next_is_taken_again() {
    let theatre = Theatre::open(Limits { connections_max: 2, ..small() });
    let (mut one, two) = (theatre.connect(), theatre.connect());
    eventually("two are in", || theatre.server.connections() == 2);
    assert!(closed(&mut theatre.connect()));
    one.write_all(post("/echo", "still here").as_bytes()).unwrap();
    assert_eq!(read_response(&mut one).2, b"still here");
    drop(two);
    eventually("one has left", || theatre.server.connections() == 1);
    let mut three = theatre.connect();
    three.write_all(post("/echo", "new").as_bytes()).unwrap();
    assert_eq!(read_response(&mut three).2, b"new");
}

#[test]
fn a_client_that_hangs_up_does_not_cancel_its_call() {
    for limits in either_way() {
        let theatre = Theatre::open(limits);
        let mut stream = theatre.connect();
        stream.write_all(post("/hold", "").as_bytes()).unwrap();
        theatre.entered.recv_timeout(PATIENCE).unwrap();
        drop(stream);
        theatre.release.send(()).unwrap();
        theatre.finished.recv_timeout(PATIENCE).unwrap();
        eventually("the connection is gone", || theatre.server.connections() == 0);
    }
}

#[test]
fn clients_that_hang_up_at_once_do_not_queue_more_calls_than_there_are_places() {
    let theatre = Theatre::open(Limits { connections_max: 3, ..small() });
    for _ in 0..3 {
        let mut stream = theatre.connect();
        stream.write_all((post("/echo", "x") + &post("/hold", "")).as_bytes()).unwrap();
        theatre.entered.recv_timeout(PATIENCE).unwrap();
        // An answer that came and was not read: closing is a reset, which ends the connection and not the call.
        stream.peek(&mut [0]).unwrap();
    }
    assert!(closed(&mut theatre.connect()), "each call keeps its place");
    for _ in 0..3 {
        theatre.release.send(()).unwrap();
        theatre.finished.recv_timeout(PATIENCE).unwrap();
    }
    eventually("all are gone", || theatre.server.connections() == 0);
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_its_answer() {
    for limits in either_way() {
        let theatre = Theatre::open(limits);
        let mut stream = theatre.connect();
        stream.write_all(post("/hold", "abc").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        theatre.entered.recv_timeout(PATIENCE).unwrap();
        theatre.release.send(()).unwrap();
        assert_eq!(read_response(&mut stream).2, b"abc");
        assert!(closed(&mut stream));
    }
}

#[test]
fn a_handler_that_panics_gives_500_and_the_server_lives() {
    for limits in either_way() {
        let theatre = Theatre::open(limits);
        let mut stream = theatre.connect();
        stream.write_all(post("/panic", "").as_bytes()).unwrap();
        assert_eq!(status(&mut stream), "500");
        stream.write_all(post("/route-panic", "").as_bytes()).unwrap();
        assert_eq!(status(&mut stream), "500");
        stream.write_all(post("/echo", "alive").as_bytes()).unwrap();
        assert_eq!(read_response(&mut stream).2, b"alive");
    }
}

#[test]
fn a_head_with_too_many_or_too_long_fields_gets_431_and_nonsense_gets_400() {
    let theatre = Theatre::open(small());
    let many = "x: 1\r\n".repeat(100);
    let long = format!("x: {}\r\n", "y".repeat(20_000));
    for (fields, want) in [(many, "431"), (long, "431"), ("no colon\r\n".to_owned(), "400")] {
        let mut stream = theatre.connect();
        stream.write_all(format!("POST /echo HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
        assert_eq!(status(&mut stream), want);
        assert!(closed(&mut stream));
    }
}

#[test]
fn after_stop_accepting_nobody_new_comes_in_and_who_is_in_goes_on() {
    let theatre = Theatre::open(small());
    let mut stream = theatre.connect();
    eventually("it is in", || theatre.server.connections() == 1);
    theatre.server.stop_accepting();
    assert!(TcpStream::connect(theatre.server.local_addr()).is_err());
    stream.write_all(post("/echo", "on").as_bytes()).unwrap();
    assert_eq!(read_response(&mut stream).2, b"on");
}

#[test]
fn shutdown_closes_the_idle_and_waits_for_the_busy() {
    let theatre = Theatre::open(small());
    let (mut idle, mut busy) = (theatre.connect(), theatre.connect());
    busy.write_all(post("/hold", "last").as_bytes()).unwrap();
    theatre.entered.recv_timeout(PATIENCE).unwrap();
    let Theatre { server, release, .. } = theatre;
    let down = std::thread::spawn(move || server.shutdown(PATIENCE));
    assert!(closed(&mut idle));
    release.send(()).unwrap();
    let (_, head, body) = read_response(&mut busy);
    assert_eq!(body, b"last");
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(down.join().unwrap(), 0);
}

#[test]
fn shutdown_gives_up_after_its_grace_and_says_how_many_were_busy() {
    let theatre = Theatre::open(small());
    let mut busy = theatre.connect();
    busy.write_all(post("/hold", "").as_bytes()).unwrap();
    theatre.entered.recv_timeout(PATIENCE).unwrap();
    assert_eq!(theatre.server.shutdown(Duration::from_millis(50)), 1);
    assert!(closed(&mut busy));
    theatre.release.send(()).unwrap();
    theatre.finished.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn without_workers_the_servers_thread_answers_one_request_after_the_other() {
    let theatre = Theatre::open(Limits { workers_max: 0, ..small() });
    let (mut first, mut second) = (theatre.connect(), theatre.connect());
    first.write_all(post("/hold", "first").as_bytes()).unwrap();
    theatre.entered.recv_timeout(PATIENCE).unwrap();
    second.write_all(post("/echo", "second").as_bytes()).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(second.peek(&mut [0]).is_err(), "it waits for the first");
    theatre.release.send(()).unwrap();
    assert_eq!(read_response(&mut first).2, b"first");
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(read_response(&mut second).2, b"second");
}
