//! An event counts as delivered only if the answer is a 200 whose JSON has exactly `id`, the event's, and `accepted`, true. And any text
//! is an event or is refused.
#![no_main]

mod answering;

use std::net::SocketAddr;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use oncegate::outbox::{Event, HttpSender, parse_event};

static ADDRESS: LazyLock<SocketAddr> =
    LazyLock::new(|| answering::serve(|heard| heard.ends_with(b"}")));

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
    let head =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", rest.len());
    let answer = if framed { [head.as_bytes(), rest].concat() } else { rest.to_vec() };
    answering::answer_with(&answer);
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
