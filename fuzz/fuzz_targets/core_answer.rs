//! Whatever comes back over a real connection, the real client says "done" only for a framed 200 or 201 whose JSON names this GUID,
//! "refused" only for a framed 400 or 422, and never "not sent" of what a server has heard.
#![no_main]

mod answering;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use oncegate::clock::SystemClock;
use oncegate::core_api::{Core, HttpCore, HttpCoreConfig, Inquiry, Transfer};
use oncegate::telegram::{Layout, Request};

static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| answering::serve(is_whole));
static REQUEST: LazyLock<Request> = LazyLock::new(|| {
    let bytes = include_bytes!("../../tests/vectors/req_euckr.bin");
    Layout::std128().decode_request(bytes).expect("the golden request")
});
static CORE: LazyLock<HttpCore> = LazyLock::new(|| {
    HttpCore::new(HttpCoreConfig {
        url: format!("http://{}", *ADDRESS).parse().expect("a URL"),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(5),
        idle_max: Duration::ZERO,
        layout: Layout::std128(),
        clock: Arc::new(SystemClock::new()),
    })
    .expect("a core's client")
});

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let answer = answer(*choice, rest);
    answering::answer_with(&answer);
    let status = answer.get(9..12).unwrap_or_default();
    if choice & 1 == 0 {
        match CORE.transfer(&REQUEST) {
            Transfer::Done(body) => {
                assert!([&b"200"[..], b"201"].contains(&status), "{body:?}");
                assert_eq!(body.0.len(), 45);
                assert!(is_named(&answer));
            }
            Transfer::Refused(_) => assert!([&b"400"[..], b"422"].contains(&status)),
            Transfer::NotSent(why) => panic!("it was heard: {why:?}"),
            Transfer::Unknown(seen) => assert!(!seen.0.contains('\n') && seen.0.len() < 4096),
        }
    } else {
        match CORE.inquire(&REQUEST) {
            Inquiry::Known(body) => {
                assert!(status == b"200" && body.0.len() == 45 && is_named(&answer))
            }
            Inquiry::Absent => assert_eq!(status, b"404"),
            Inquiry::NoAnswer(seen) => assert!(!seen.0.contains('\n') && seen.0.len() < 4096),
        }
    }
});

/// Bytes as they are, or a well-framed answer with this body: the fuzzer would seldom make one itself.
fn answer(choice: u8, rest: &[u8]) -> Vec<u8> {
    let status = match choice >> 1 & 7 {
        0 | 1 => return rest.to_vec(),
        2 => 201,
        3 => 400,
        4 => 422,
        5 => 404,
        6 => 503,
        _ => 200,
    };
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", rest.len());
    [head.as_bytes(), rest].concat()
}

/// Whether the GUID stands in it; a JSON escape or a chunk's border may hide it from so simple a look.
fn is_named(answer: &[u8]) -> bool {
    let guid = REQUEST.guid().as_str().as_bytes();
    let escaped = answer.contains(&b'\\')
        || answer.windows(7).any(|word| word.eq_ignore_ascii_case(b"chunked"));
    escaped || answer.windows(guid.len()).any(|word| word == guid)
}

/// A request whose head has ended, and its body too if it has one.
fn is_whole(heard: &[u8]) -> bool {
    let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    heard.starts_with(b"GET") || (heard.len() > end + 4 && heard.ends_with(b"}"))
}
