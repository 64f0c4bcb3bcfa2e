//! The sender against receivers that answer anything, and the receiver against senders that send anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as Inbox, channel};
use std::time::{Duration, Instant};

use oncegate::outbox::{
    Event, HttpSender, OutboxError, Point, Receiver, Role, dispatch, dispatch_all, enqueue,
    no_fault, send_http,
};

use socket2::{Domain, Socket, Type};

use super::{Stores, event, execute, sink_rows, texts};
use crate::http_server::eventually;

const ACK: &str = r#"{"id":"a","accepted":true}"#;
const PATIENCE: Duration = Duration::from_secs(10);

/// A request as it came: its head and its body.
#[derive(Debug)]
struct Seen {
    head: String,
    body: String,
}

/// Answers every connection's one request with these bytes; tells what came, and then that the client has closed.
fn fake(answer: impl Into<Vec<u8>>) -> (String, Inbox<Seen>, Inbox<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let answer = answer.into();
    let (seen_in, seen) = channel();
    let (closed_in, closed) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if seen_in.send(read_request(&stream)).is_err() {
                return;
            }
            let _ = stream.write_all(&answer);
            // To the end of the stream: the client closes.
            let _ = stream.read_to_end(&mut Vec::new());
            let _ = closed_in.send(());
        }
    });
    (url, seen, closed)
}

fn read_request(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0);
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Seen { head, body: String::from_utf8(body).unwrap() }
}

fn ok(body: &str) -> String {
    response("200 OK", body)
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn an_event_is_posted_as_json_and_acknowledged_and_the_connection_is_closed() {
    let (url, seen, closed) = fake(ok(ACK));
    assert!(send_http(&url, &event("a", 3), 1.0).unwrap());
    let seen = seen.recv_timeout(PATIENCE).unwrap();
    assert!(seen.head.starts_with("post /events http/1.1\r\n"), "{}", seen.head);
    assert!(seen.head.contains("content-type: application/json\r\n"), "{}", seen.head);
    assert_eq!(seen.body, r#"{"id":"a","qty":3}"#);
    closed.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_body_that_is_not_the_acknowledgement_is_a_delivery_error() {
    for body in [
        r#"{"id":"b","accepted":true}"#,
        r#"{"id":"a","accepted":1}"#,
        r#"{"id":"a","accepted":true,"x":0}"#,
        r#"{"id":"a","accepted":false,"accepted":true}"#,
        "",
        "[]",
        &format!("{ACK}{}", " ".repeat(1025 - ACK.len())),
    ] {
        let (url, _seen, closed) = fake(ok(body));
        let refused = send_http(&url, &event("a", 3), 1.0);
        assert!(matches!(refused, Err(OutboxError::Delivery(_))), "{body}: {refused:?}");
        closed.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn an_acknowledgement_of_exactly_1024_bytes_counts() {
    let (url, _seen, _) = fake(ok(&format!("{ACK}{}", " ".repeat(1024 - ACK.len()))));
    assert!(send_http(&url, &event("a", 3), 1.0).unwrap());
}

#[test]
fn another_status_is_passed_on_as_an_http_error_whatever_its_body_says() {
    for status in
        ["201 Created", "202 Accepted", "204 No Content", "400 Bad", "409 Conflict", "500 No"]
    {
        let (url, _seen, closed) = fake(response(status, ACK));
        let refused = send_http(&url, &event("a", 3), 1.0);
        let code: u16 = status[..3].parse().unwrap();
        assert!(
            matches!(refused, Err(OutboxError::Http(ureq::Error::StatusCode(got))) if got == code),
            "{refused:?}"
        );
        closed.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_redirect_is_not_followed() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Again", "308 Always"] {
        let (elsewhere, followed, _) = fake(ok(ACK));
        let (url, _seen, _) = fake(format!(
            "HTTP/1.1 {status}\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n"
        ));
        let refused = send_http(&url, &event("a", 3), 1.0);
        assert!(
            matches!(refused, Err(OutboxError::Http(ureq::Error::StatusCode(300..=308)))),
            "{refused:?}"
        );
        assert!(followed.try_recv().is_err());
    }
}

#[test]
fn what_is_no_http_or_ends_too_early_is_passed_on_or_no_acknowledgement() {
    for answer in [
        String::new(),
        "HTTP/1.1 200 OK\r\ncontent-le".to_owned(),
        "what?\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{ACK}"),
        format!("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{ACK}"),
    ] {
        let (url, _seen) = closing(answer.clone().into_bytes());
        let refused = send_http(&url, &event("a", 3), 1.0);
        assert!(
            matches!(refused, Err(OutboxError::Http(_) | OutboxError::Delivery(_))),
            "{answer}: {refused:?}"
        );
    }
}

/// As [`fake`], but the server closes first.
fn closing(answer: Vec<u8>) -> (String, Inbox<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let (seen_in, seen) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = seen_in.send(read_request(&stream));
        let _ = stream.write_all(&answer);
    });
    (url, seen)
}

#[test]
fn nobody_there_is_passed_on_as_an_http_error() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = send_http(&format!("http://127.0.0.1:{port}/events"), &event("a", 3), 1.0);
    assert!(matches!(refused, Err(OutboxError::Http(_))), "{refused:?}");
}

#[test]
fn the_timeout_bounds_each_step_also_against_a_drip() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
    for (silent, answer) in [(true, ""), (true, "HTTP/1.1 200 OK\r\n"), (true, head), (false, head)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&stream);
            stream.write_all(answer.as_bytes()).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            // A blank every 20 ms, until the client has gone.
            while !matches!(stream.read(&mut [0; 16]), Ok(0)) {
                if !silent && stream.write_all(b" ").is_err() {
                    break;
                }
            }
        });
        let start = Instant::now();
        let late = send_http(&url, &event("a", 3), 0.2);
        assert!(matches!(late, Err(OutboxError::Http(_))), "{answer}: {late:?}");
        assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
        server.join().unwrap();
    }
}

#[test]
fn the_timeout_bounds_connecting_as_well() {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(0).unwrap();
    let at = socket.local_addr().unwrap().as_socket().unwrap();
    // Nobody accepts: once the queue is full, connecting hangs.
    let wait = Duration::from_millis(100);
    let queued: Vec<_> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&at, wait).ok()).take(9).collect();
    assert!(queued.len() < 9, "the queue is full");
    let start = Instant::now();
    let late = send_http(&format!("http://{at}/events"), &event("a", 3), 0.2);
    assert!(matches!(late, Err(OutboxError::Http(ureq::Error::Timeout(_)))), "{late:?}");
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
}

#[test]
fn an_event_leaves_in_one_piece() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut pieces = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        for id in ["a", "b"] {
            let mut piece = vec![0; 4096];
            let read = stream.read(&mut piece).unwrap();
            piece.truncate(read);
            pieces.push(String::from_utf8(piece).unwrap());
            stream.write_all(ok(&ACK.replace("\"a\"", &format!("\"{id}\""))).as_bytes()).unwrap();
        }
        pieces
    });
    let sender = HttpSender::new(&url, 5.0).unwrap();
    for id in ["a", "b"] {
        sender.send(&event(id, 3)).unwrap();
    }
    let pieces = server.join().unwrap();
    assert!(pieces[0].starts_with("POST /events HTTP/1.1\r\n"), "{pieces:?}");
    assert!(pieces[0].ends_with("\r\n\r\n{\"id\":\"a\",\"qty\":3}"), "{pieces:?}");
    assert_eq!(pieces[0].replace("\"a\"", "\"b\""), pieces[1]);
}

#[test]
fn event_url_and_timeout_are_checked_before_anything_is_sent() {
    let (url, seen, _) = fake(ok(ACK));
    let bad = Event { id: "a b".to_owned(), qty: 1 };
    for refused in [
        send_http(&url, &bad, 1.0),
        send_http(&url, &event("a", 1), 5.1),
        send_http(&url, &event("a", 1), f64::NAN),
        send_http(&url.replace("127.0.0.1", "localhost"), &event("a", 1), 1.0),
        send_http(&format!("{url}?x"), &event("a", 1), 1.0),
    ] {
        assert!(matches!(refused, Err(OutboxError::Value(_))), "{refused:?}");
    }
    assert!(seen.try_recv().is_err());
}

/// A receiver on a sink of its own.
struct Warehouse {
    stores: Stores,
    receiver: Receiver,
}

impl Warehouse {
    fn open() -> Warehouse {
        Warehouse::with_fault(no_fault)
    }

    fn with_fault(
        fault: impl Fn(Point) -> Result<(), OutboxError> + Send + Sync + 'static,
    ) -> Warehouse {
        let stores = Stores::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver::start_with_fault(&stores.sink, listener, Arc::new(fault)).unwrap();
        Warehouse { stores, receiver }
    }

    fn url(&self) -> String {
        format!("http://{}/events", self.receiver.local_addr())
    }

    fn post(&self, body: &str) -> (u16, String) {
        ask(self.receiver.local_addr(), "POST", "/events", body)
    }

    fn holds(&self, inbox: &[&str], total: i64) {
        assert_eq!(sink_rows(&self.stores.sink), (texts(inbox), vec![format!("1|{total}")]));
    }
}

fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn the_receiver_acknowledges_after_the_commit_and_a_duplicate_too() {
    let warehouse = Warehouse::open();
    for _ in 0..2 {
        assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#), (200, ACK.to_owned()));
        warehouse.holds(&["a|3"], 3);
    }
    assert_eq!(warehouse.post(r#"{"id":"a","qty":4}"#).0, 409);
    assert_eq!(warehouse.post(r#"{"id":"b","qty":3}"#).0, 200);
    warehouse.holds(&["a|3", "b|3"], 6);
}

#[test]
fn the_receiver_refuses_what_is_no_event_and_what_is_elsewhere() {
    let warehouse = Warehouse::open();
    let at = warehouse.receiver.local_addr();
    for body in ["", "no", "[]", r#"{"id":"c","qty":0}"#, r#"{"id":"c","qty":1,"qty":1}"#] {
        assert_eq!(warehouse.post(body).0, 400, "{body}");
    }
    let event = r#"{"id":"c","qty":1}"#;
    assert_eq!(warehouse.post(&format!("{event}{}", " ".repeat(1025 - event.len()))).0, 413);
    assert_eq!(ask(at, "GET", "/events", "").0, 405);
    assert_eq!(ask(at, "PUT", "/events", event).0, 405);
    for path in ["/", "/event", "/events/", "//events", "/Events"] {
        assert_eq!(ask(at, "POST", path, event).0, 404, "{path}");
    }
    warehouse.holds(&[], 0);
    assert_eq!(warehouse.post(&format!("{event}{}", " ".repeat(1024 - event.len()))).0, 200);
}

#[test]
fn a_fault_before_the_commit_is_no_acknowledgement_and_leaves_nothing() {
    for point in [Point::AfterInbox, Point::AfterTotal] {
        let times = AtomicUsize::new(0);
        let warehouse = Warehouse::with_fault(move |at| {
            // Only the first time; a panic is a fault as well.
            if at == point && times.fetch_add(1, Ordering::SeqCst) == 0 {
                assert!(at != Point::AfterTotal, "on purpose");
                return Err(OutboxError::fault("no"));
            }
            Ok(())
        });
        assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 500);
        warehouse.holds(&[], 0);
        assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 200);
        warehouse.holds(&["a|3"], 3);
    }
}

#[test]
fn a_fault_after_the_commit_is_no_acknowledgement_and_the_next_time_it_is_a_duplicate() {
    let warehouse = Warehouse::with_fault(|at| match at {
        Point::AfterCommit => Err(OutboxError::fault("no")),
        _ => Ok(()),
    });
    let sender = HttpSender::new(&warehouse.url(), 1.0).unwrap();
    assert!(matches!(sender.send(&event("a", 3)), Err(OutboxError::Http(_))));
    warehouse.holds(&["a|3"], 3);
    assert!(sender.send(&event("a", 3)).unwrap());
    warehouse.holds(&["a|3"], 3);
}

#[test]
fn a_sink_that_was_replaced_while_it_was_open_acknowledges_nothing() {
    let warehouse = Warehouse::open();
    assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 200);
    let aside = warehouse.stores.dir.path().join("aside.db");
    std::fs::rename(&warehouse.stores.sink, aside).unwrap();
    assert_eq!(warehouse.post(r#"{"id":"b","qty":3}"#).0, 500);
    execute(&warehouse.stores.sink, "CREATE TABLE notes (text)");
    assert_eq!(warehouse.post(r#"{"id":"c","qty":3}"#).0, 500);
}

#[test]
fn a_sink_that_is_locked_for_too_long_acknowledges_nothing() {
    let warehouse = Warehouse::open();
    let other = warehouse.stores.open(Role::Sink);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 500);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 200);
}

#[test]
fn the_receiver_has_64_places_and_closes_who_says_nothing() {
    let warehouse = Warehouse::open();
    let at = warehouse.receiver.local_addr();
    let silent = || {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let start = Instant::now();
    let mut crowd: Vec<TcpStream> = (0..64).map(|_| silent()).collect();
    assert_eq!(silent().read(&mut [0]).unwrap_or(0), 0, "one too many is closed");
    assert!(start.elapsed() < Duration::from_secs(4), "at once");
    for one in &mut crowd {
        assert_eq!(one.read(&mut [0]).unwrap_or(0), 0, "a head is due within 5 s");
    }
    assert!(start.elapsed() > Duration::from_secs(4), "and not sooner");
    assert_eq!(warehouse.post(r#"{"id":"a","qty":3}"#).0, 200);
}

fn fill(stores: &Stores, events: usize) {
    let source = stores.open(Role::Source);
    for n in 0..events {
        enqueue(&source, &event(&format!("e{n}"), 2), &mut no_fault).unwrap();
    }
}

#[test]
fn several_dispatchers_on_one_source_are_harmless() {
    let warehouse = Warehouse::open();
    let stores = &warehouse.stores;
    fill(stores, 60);
    let marked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let source = stores.open(Role::Source);
                let sender = HttpSender::new(&warehouse.url(), 5.0).unwrap();
                let mut send = |event: Event| sender.send(&event);
                let sum = dispatch_all(&source, &mut send, 4, &mut no_fault, &mut |_| {});
                assert!(sum.stopped.is_none(), "{:?}", sum.stopped);
                marked.fetch_add(sum.marked, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(marked.load(Ordering::SeqCst), 60, "each mark is counted once");
    let (inbox, stock) = sink_rows(&stores.sink);
    let ids: Vec<String> = (0..60).map(|n| format!("e{n}|2")).collect();
    assert_eq!((inbox, stock), (ids, texts(&["1|120"])));
}

#[test]
fn a_sender_outlives_the_connections_that_its_receiver_closes() {
    let warehouse = Warehouse::open();
    let stores = &warehouse.stores;
    fill(stores, 3);
    let source = stores.open(Role::Source);
    let sender = HttpSender::new(&warehouse.url(), 1.0).unwrap();
    let mut send = |event: Event| sender.send(&event);
    assert_eq!(dispatch(&source, &mut send, 2, &mut no_fault).unwrap(), 2);
    warehouse.receiver.shutdown(PATIENCE);
    // The same address, a new receiver: the old connection is seen to be closed, and not used.
    let at = warehouse.receiver.local_addr();
    eventually("the address is free again", || TcpListener::bind(at).is_ok());
    let _second = Receiver::start(&stores.sink, TcpListener::bind(at).unwrap()).unwrap();
    assert_eq!(dispatch(&source, &mut send, 2, &mut no_fault).unwrap(), 1);
    warehouse.holds(&["e0|2", "e1|2", "e2|2"], 6);
}
