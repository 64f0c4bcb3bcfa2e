//! An event counts as delivered only if the answer is a 200 whose JSON has exactly `id`, the event's, and `accepted`, true. And any text
//! is an event or is refused.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use oncegate::outbox::{Event, HttpSender, parse_event};

static NEXT_ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(serve);

thread_local! {
    static SENDER: HttpSender =
        HttpSender::new(&format!("http://{}/events", *ADDRESS), 5.0).expect("a sender");
}

fuzz_target!(|data: &[u8]| {
    if let Ok(event) = parse_event(data) {
        assert_eq!(parse_event(event.to_json().as_bytes()).ok(), Some(event));
    }
    let Some((choice, rest)) = data.split_first() else { return };
    let framed = choice & 1 == 0;
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", rest.len());
    let answer = if framed { [head.as_bytes(), rest].concat() } else { rest.to_vec() };
    NEXT_ANSWER.lock().expect("no panic under this lock").clone_from(&answer);
    let event = Event::new("a-1", 7).expect("an event");
    let acknowledged = SENDER.with(|sender| sender.send(&event));
    assert!(!matches!(acknowledged, Ok(false)), "true or an error");
    if acknowledged.is_ok() && framed {
        assert!(rest.len() <= 1024);
        let json: serde_json::Value = serde_json::from_slice(rest).expect("it was JSON");
        assert_eq!(json, serde_json::json!({"id": "a-1", "accepted": true}));
    } else if acknowledged.is_ok() {
        assert_eq!(&answer[8..12], b" 200");
    }
});

/// A server that reads a request and answers with what the fuzzer has made.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
            while !heard.ends_with(b"}") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => heard.extend_from_slice(&piece[..bytes]),
                }
            }
            let answer = NEXT_ANSWER.lock().expect("no panic under this lock").clone();
            let _ = stream.write_all(&answer);
        }
    });
    address
}
