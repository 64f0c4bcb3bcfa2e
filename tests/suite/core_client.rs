//! The core's HTTP client against cores that misbehave: every way a call can end, and what it is taken for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncegate::clock::SystemClock;
use oncegate::core_api::{Core, HttpCore, HttpCoreConfig};
use oncegate::limits::CORE_WIRE_BUFFER_BYTES;
use oncegate::telegram::{Layout, Request};

use crate::support::calls::{self, answer_json, http, told, told_inquiry};
use crate::support::hand_clock::HandClock;
use crate::support::scripted_core::{ScriptedCore, Step};

const GUID: &str = "20261129ONCEGATE00000000000001";
const OTHER_GUID: &str = "20261129ONCEGATE00000000000002";

/// Long enough never to be reached, and short enough for a row that has to reach it.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

fn request(guid: &str) -> Request {
    calls::request(guid, "rent for March")
}

fn config(url: &str) -> HttpCoreConfig {
    HttpCoreConfig {
        url: url.parse().expect("a URL"),
        connect_timeout: LONG,
        read_timeout: LONG,
        idle_max: LONG,
        layout: Layout::std128(),
        clock: Arc::new(SystemClock::new()),
    }
}

fn client(url: &str) -> HttpCore {
    HttpCore::new(config(url)).expect("a core")
}

fn ok(guid: &str) -> Vec<u8> {
    http("200 OK", &answer_json(guid))
}

/// `expected` whole, or up to its `…`.
#[track_caller]
fn assert_told(told: &str, expected: &str, row: &str) {
    match expected.strip_suffix('…') {
        Some(start) => assert!(told.starts_with(start), "{row}: {told:?}, expected {expected:?}"),
        None => assert_eq!(told, expected, "{row}"),
    }
}

/// Makes one transfer call to a core that follows `script`, and checks what it is taken for and that it was made once.
#[track_caller]
fn check(row: &str, script: Vec<Step>, expected: &str) {
    check_within(LONG, row, script, expected);
}

#[track_caller]
fn check_within(read_timeout: Duration, row: &str, script: Vec<Step>, expected: &str) {
    let reads = script.iter().filter(|step| matches!(step, Step::Read)).count();
    let core = ScriptedCore::start(vec![script]);
    let client =
        HttpCore::new(HttpCoreConfig { read_timeout, ..config(&core.url()) }).expect("a core");
    let told = told(&client.transfer(&request(GUID)));
    assert_told(&told, expected, row);
    drop(client);
    core.wait_until(|seen| seen.closed == 1);
    let seen = core.seen();
    assert_eq!((seen.requests.len(), seen.connections), (reads, 1), "{row}: it calls once");
}

fn says(bytes: impl Into<Vec<u8>>) -> Vec<Step> {
    vec![Step::Read, Step::Say(bytes.into())]
}

#[test]
fn a_transfer_is_one_post_with_the_fields_in_order() {
    let core = ScriptedCore::start(vec![says(ok(GUID))]);
    assert_eq!(told(&client(&core.url()).transfer(&request(GUID))), "done");
    let seen = core.seen();
    let (head, body) = seen.requests[0].split_once("\r\n\r\n").expect("a request");
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/transfers http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json"), "{head}");
    assert!(!head.contains("accept-encoding") && !head.contains("expect"), "{head}");
    assert_eq!(
        body,
        format!(
            r#"{{"guid":"{GUID}","tx_code":"TRF00100","from_acct":"110123456789","to_acct":"3020987654321","amount":150000,"memo":"rent for March"}}"#
        )
    );
}

#[test]
fn a_call_leaves_in_one_piece() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let core = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        [(); 2].map(|()| {
            let mut piece = vec![0; 8192];
            let read = stream.read(&mut piece).expect("a piece");
            stream.write_all(&ok(GUID)).expect("it listens");
            String::from_utf8_lossy(&piece[..read]).into_owned()
        })
    });
    let client = client(&url);
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    assert_eq!(told_inquiry(&client.inquire(&request(GUID))), "known");
    let [transfer, inquiry] = core.join().expect("no panic");
    assert!(transfer.starts_with("POST ") && transfer.ends_with("\"}"), "{transfer}");
    assert!(inquiry.starts_with("GET ") && inquiry.ends_with("\r\n\r\n"), "{inquiry}");
}

#[test]
fn done_is_only_a_framed_well_formed_answer_for_this_guid() {
    let json = answer_json(GUID);
    check("200", says(ok(GUID)), "done");
    check("201", says(http("201 Created", &json)), "done");
    check("202", says(http("202 Accepted", &json)), "unknown: HTTP 202: {…");
    check("204", says("HTTP/1.1 204 No Content\r\n\r\n"), "unknown: HTTP 204");
    check("more keys", says(http("200 OK", &json.replace('{', r#"{"more":[1,{}],"#))), "done");
    check("another guid", says(ok(OTHER_GUID)), "unknown: another GUID in the answer");
    check(
        "guid is a number",
        says(http("200 OK", r#"{"guid":1}"#)),
        "unknown: another GUID in the answer",
    );
    check(
        "no guid",
        says(http("200 OK", r#"{"status":"C"}"#)),
        "unknown: HTTP 200, no GUID in the answer: {…",
    );
    let twice = json.replace('{', &format!(r#"{{"guid":"{OTHER_GUID}","#));
    check(
        "two guids",
        says(http("200 OK", &twice)),
        "unknown: HTTP 200, no usable JSON object (the key \"guid\" stands there twice…",
    );
    check(
        "a field is missing",
        says(http("200 OK", &json.replace("status", "statvs"))),
        "unknown: HTTP 200, an answer that does not fit: …",
    );
    check(
        "a field is too long",
        says(http("200 OK", &json.replace("T0", "T00"))),
        "unknown: HTTP 200, an answer that does not fit: …",
    );
    check(
        "a balance in words",
        says(http("200 OK", &json.replace("2350000", "\"2350000\""))),
        "unknown: HTTP 200, an answer that does not fit: …",
    );
    check(
        "a negative balance",
        says(http("200 OK", &json.replace("2350000", "-1"))),
        "unknown: HTTP 200, an answer that does not fit: …",
    );
    check(
        "a JSON array",
        says(http("200 OK", &format!("[{json}]"))),
        "unknown: HTTP 200, no usable JSON object…",
    );
    check(
        "two objects",
        says(http("200 OK", &format!("{json}{json}"))),
        "unknown: HTTP 200, no JSON object: …",
    );
    check(
        "half an object",
        says(http("200 OK", &json[..40])),
        "unknown: HTTP 200, no JSON object: …",
    );
    check(
        "HTML",
        says(http("200 OK", "<html>maintenance</html>")),
        "unknown: HTTP 200, no JSON object: <html>maintenance</html>",
    );
    check("empty", says(http("200 OK", "")), "unknown: HTTP 200, no JSON object");
}

#[test]
fn a_body_without_a_length_or_cut_short_is_no_answer() {
    let json = answer_json(GUID);
    let chunked = |chunks: &str| {
        says(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"))
    };
    let (a, b) = json.split_at(50);
    let whole = format!("32\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n", b.len());
    check("chunked", chunked(&whole), "done");
    check(
        "chunks cut",
        chunked(&whole[..70]),
        "unknown: half an answer: connection closed after …",
    );
    check(
        "chunks without their end",
        chunked(whole.trim_end_matches("0\r\n\r\n")),
        "unknown: half an answer: connection closed after …",
    );
    check("chunks that are none", chunked("zz\r\n"), "unknown: no HTTP: …");
    check(
        "no length",
        says(format!("HTTP/1.1 200 OK\r\n\r\n{json}")),
        "unknown: HTTP 200, half an answer: a body without a length: {…",
    );
    let cut = http("200 OK", &json);
    check("cut", says(&cut[..cut.len() - 1]), "unknown: half an answer: connection closed after …");
    check(
        "cut by a reset",
        vec![Step::Read, Step::Say(cut[..cut.len() - 1].to_vec()), Step::Reset],
        "unknown: half an answer: connection …",
    );
    check(
        "cut in the head",
        says("HTTP/1.1 200 OK\r\nContent-Le"),
        "unknown: half an answer: connection closed after 27 bytes",
    );
    let length = format!("Content-Length: {}\r\n", json.len());
    check(
        "a length too small",
        says(format!("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{json}")),
        "unknown: HTTP 200, no JSON object: …",
    );
    check(
        "two lengths",
        says(format!("HTTP/1.1 200 OK\r\n{length}{length}\r\n{json}")),
        "unknown: …",
    );
    check(
        "length and chunks",
        says(format!("HTTP/1.1 200 OK\r\n{length}Transfer-Encoding: chunked\r\n\r\n{whole}")),
        "unknown: …",
    );
    check("HTTP/1.0", says(format!("HTTP/1.0 200 OK\r\n{length}\r\n{json}")), "done");
    check(
        "HTTP/1.0 without a length",
        says(format!("HTTP/1.0 200 OK\r\n\r\n{json}")),
        "unknown: HTTP 200, half an answer: a body without a length: {…",
    );
    check(
        "HTTP/1.0 in chunks",
        says(format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{whole}")),
        "unknown: …",
    );
}

#[test]
fn a_refusal_is_only_a_400_or_422_with_a_json_object() {
    check(
        "422",
        says(http("422 Unprocessable", r#"{"code":"C051","message":"insufficient funds"}"#)),
        "refused C051",
    );
    check("400", says(http("400 Bad Request", r#"{"code":"C052"}"#)), "refused C052");
    for code in [r#""C0512""#, r#""0000""#, r#""E902""#, "51", "null"] {
        check(
            code,
            says(http("422 Unprocessable", &format!(r#"{{"code":{code}}}"#))),
            "refused E905",
        );
    }
    check("no code", says(http("422 Unprocessable", r#"{"message":"no"}"#)), "refused E905");
    check(
        "this guid",
        says(http("422 Unprocessable", &format!(r#"{{"guid":"{GUID}"}}"#))),
        "refused E905",
    );
    check(
        "another guid",
        says(http("422 Unprocessable", &format!(r#"{{"guid":"{OTHER_GUID}"}}"#))),
        "unknown: another GUID in the refusal",
    );
    check(
        "HTML",
        says(http("400 Bad Request", "<h1>400</h1>")),
        "unknown: HTTP 400, no JSON object: <h1>400</h1>",
    );
    check(
        "an array",
        says(http("422 Unprocessable", "[]")),
        "unknown: HTTP 422, no usable JSON object…",
    );
    check("empty", says(http("400 Bad Request", "")), "unknown: HTTP 400, no JSON object");
    check(
        "no length",
        says("HTTP/1.1 422 Unprocessable\r\n\r\n{\"code\":\"C051\"}"),
        "unknown: HTTP 422, half an answer: a body without a length: {…",
    );
    check(
        "two codes",
        says(http("422 Unprocessable", r#"{"code":"C051","code":"C052"}"#)),
        "unknown: HTTP 422, no usable JSON object (the key \"code\" stands there twice…",
    );
}

#[test]
fn every_other_status_is_unknown() {
    for status in [
        300, 301, 302, 303, 304, 307, 308, 401, 403, 404, 408, 409, 429, 500, 501, 502, 503, 504,
        999,
    ] {
        let body = if status == 304 { "" } else { r#"{"code":"C051"}"# };
        let said = format!(
            "HTTP/1.1 {status} Well\r\nLocation: /v1/transfers\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let colon = if body.is_empty() { "" } else { ": " };
        check(&status.to_string(), says(said), &format!("unknown: HTTP {status}{colon}{body}"));
    }
    check(
        "101",
        says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        "unknown: HTTP 101",
    );
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), ok(GUID)].concat();
    check("100 before the answer", says(interim), "done");
    let hints = [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".to_vec(), ok(GUID)].concat();
    check("103 before the answer", says(hints), "done");
    check(
        "100 and no answer",
        says("HTTP/1.1 100 Continue\r\n\r\n"),
        "unknown: half an answer: connection closed after 25 bytes",
    );
}

#[test]
fn what_is_no_http_is_unknown() {
    check("garbage", says("\0\u{1}garbage\r\n\r\n"), "unknown: no HTTP: …");
    check("another protocol", says("SSH-2.0-OpenSSH_9.2\r\n"), "unknown: no HTTP: …");
    check("HTTP/2", says("HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n"), "unknown: no HTTP: …");
    check(
        "closed without an answer",
        vec![Step::Read, Step::Close],
        "unknown: connection closed without an answer",
    );
    check("reset without an answer", vec![Step::Read, Step::Reset], "unknown: connection reset");
    check("reset after one byte", vec![Step::ReadByte, Step::Reset], "unknown: connection …");
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "x".repeat(20_000));
    check("a head that does not end", says(long), "unknown: an answer with a head over 6144 bytes");
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Y: z\r\n".repeat(500));
    check("a head of many lines", says(many), "unknown: …");
    let huge = answer_json(GUID).replace('{', &format!(r#"{{"pad":"{}","#, "x".repeat(4_000_000)));
    check("a huge body", says(http("200 OK", &huge)), "unknown: an answer over 1048576 bytes");
    let big = answer_json(GUID).replace('{', &format!(r#"{{"pad":"{}","#, "x".repeat(500_000)));
    check("a big body", says(http("200 OK", &big)), "done");
}

#[test]
fn the_read_timeout_bounds_the_whole_answer() {
    let short = |row: &str, script| {
        let begin = Instant::now();
        check_within(SHORT, row, script, "unknown: read timeout after 0.2 s");
        assert!(begin.elapsed() < LONG / 4, "{row}: {:?}", begin.elapsed());
    };
    let pause = SHORT / 4;
    short("silence", vec![Step::Read, Step::Hold]);
    short("half a head", vec![Step::Read, Step::Say(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Hold]);
    short("half a body", vec![Step::Read, Step::Say(ok(GUID)[..60].to_vec()), Step::Hold]);
    short("a drip", vec![Step::Read, Step::Drip(ok(GUID), pause)]);
    let (head, body) =
        (http("200 OK", &answer_json(GUID))[..40].to_vec(), answer_json(GUID).into_bytes());
    short("a dripping body", vec![Step::Read, Step::Say(head), Step::Drip(body, pause)]);
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    short(
        "dripping chunks",
        vec![Step::Read, Step::Say(head), Step::Drip(b"1\r\n{\r\n".repeat(100), pause)],
    );
    let header = b"HTTP/1.1 503 Busy\r\n\r\n".to_vec();
    check_within(
        SHORT,
        "a 503 that drips",
        vec![Step::Read, Step::Say(header), Step::Drip(vec![b'x'; 100], pause)],
        "unknown: HTTP 503: x…",
    );
}

#[test]
fn an_answer_before_the_request_is_read_counts_if_it_names_this_guid() {
    check("this guid", vec![Step::Say(ok(GUID)), Step::Read], "done");
    check(
        "another guid",
        vec![Step::Say(ok(OTHER_GUID)), Step::Read],
        "unknown: another GUID in the answer",
    );
}

#[test]
fn what_certainly_did_not_leave_is_not_sent() {
    let (_held, free) = refusing_port();
    let refused = told(&client(&format!("http://{free}")).transfer(&request(GUID)));
    assert_eq!(refused, format!("not sent: connect refused: {free}"));

    let name = "no-such-host".repeat(6);
    let unknown_name = told(&client(&format!("http://{name}:80")).transfer(&request(GUID)));
    assert_told(
        &unknown_name,
        &format!("not sent: name not found: {name}: …"),
        "a label too long for DNS",
    );

    let core = ScriptedCore::start(vec![vec![
        Step::ReadByte,
        Step::Say(b"no TLS here\r\n".to_vec()),
        Step::Hold,
    ]]);
    let no_tls = told(&client(&format!("https://{}", core.address())).transfer(&request(GUID)));
    assert_told(
        &no_tls,
        &format!("not sent: TLS handshake failed: {}: …", core.address()),
        "no TLS",
    );

    let core = ScriptedCore::start(vec![vec![Step::ReadByte, Step::Hold]]);
    let config =
        HttpCoreConfig { connect_timeout: SHORT, ..config(&format!("https://{}", core.address())) };
    let client = HttpCore::new(config).expect("a core");
    assert_eq!(told(&client.transfer(&request(GUID))), "not sent: connect timeout after 0.2 s");
}

/// A port that refuses as long as the socket, which does not listen, holds it.
fn refusing_port() -> (socket2::Socket, SocketAddr) {
    let socket = bound_socket();
    let address = socket.local_addr().expect("an address").as_socket().expect("an address");
    (socket, address)
}

fn bound_socket() -> socket2::Socket {
    let socket = tcp_socket();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    socket
}

fn tcp_socket() -> socket2::Socket {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket")
}

#[test]
fn a_connection_that_is_not_taken_is_not_sent() {
    let deaf = bound_socket();
    deaf.listen(0).expect("a queue");
    let address = deaf.local_addr().expect("an address");
    // The queue is full: the next one waits in vain.
    let fillers: Vec<_> = (0..4)
        .map(|_| {
            let filler = tcp_socket();
            filler.set_nonblocking(true).expect("a socket option");
            let _ = filler.connect(&address);
            filler
        })
        .collect();
    let url = format!("http://{}", address.as_socket().expect("an address"));
    let client =
        HttpCore::new(HttpCoreConfig { connect_timeout: SHORT, ..config(&url) }).expect("a core");
    assert_eq!(told(&client.transfer(&request(GUID))), "not sent: connect timeout after 0.2 s");
    drop(fillers);
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = ScriptedCore::start(vec![says(ok(GUID))]);
    for status in [301, 302, 303, 307, 308] {
        let there = format!(
            "HTTP/1.1 {status} There\r\nLocation: {}/v1/transfers\r\nContent-Length: 0\r\n\r\n",
            elsewhere.url()
        );
        check("redirect", says(there), &format!("unknown: HTTP {status}"));
    }
    assert_eq!(elsewhere.seen().connections, 0);
}

#[test]
fn proxy_variables_of_the_environment_are_ignored() {
    let this = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(this);
    child.args(["--exact", "core_client::a_transfer_is_one_post_with_the_fields_in_order"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        child.env(name, "http://127.0.0.1:9");
    }
    let output = child.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn what_we_sent_does_not_come_back_in_what_was_seen() {
    let page = "<p>no route for 110123456789 to 3020987654321:\r\n150000, rent for March</p>";
    check(
        "an echo",
        says(http("502 Bad Gateway", page)),
        "unknown: HTTP 502: <p>no route for *** to ***:  ***, ***</p>",
    );
    let long = "<p>".to_owned() + &"x".repeat(5_000);
    check(
        "a long page",
        says(http("503 Busy", &long)),
        &format!("unknown: HTTP 503: {}", &long[..512]),
    );
}

#[test]
fn a_connection_is_used_again() {
    let two = vec![Step::Read, Step::Say(ok(GUID)), Step::Read, Step::Say(ok(OTHER_GUID))];
    let core = ScriptedCore::start(vec![two]);
    let client = client(&core.url());
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    assert_eq!(client.idle_connections(), 1);
    assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "done");
    assert_eq!((core.seen().requests.len(), core.seen().connections), (2, 1));
}

#[test]
fn no_connection_is_used_again_if_idle_max_is_zero() {
    let core = ScriptedCore::start(vec![says(ok(GUID)), says(ok(OTHER_GUID))]);
    let client = HttpCore::new(HttpCoreConfig { idle_max: Duration::ZERO, ..config(&core.url()) })
        .expect("a core");
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    assert_eq!(client.idle_connections(), 0);
    assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "done");
    assert_eq!(core.seen().connections, 2);
    assert!(core.seen().requests[0].to_ascii_lowercase().contains("\r\nconnection: close"));
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_not_used_again() {
    let core = ScriptedCore::start(vec![
        vec![Step::Read, Step::Say(ok(GUID)), Step::Hold],
        vec![Step::Read, Step::Say(ok(OTHER_GUID)), Step::Hold],
    ]);
    let clock = Arc::new(HandClock::default());
    let config = HttpCoreConfig { clock: clock.clone(), ..config(&core.url()) };
    let client = HttpCore::new(config).expect("a core");
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    clock.forward(LONG);
    assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "done");
    core.wait_until(|seen| seen.closed == 1);
    assert_eq!((client.idle_connections(), core.seen().connections), (1, 2));

    clock.forward(LONG.saturating_sub(Duration::from_millis(1)));
    client.reap();
    assert_eq!(client.idle_connections(), 1);
    clock.forward(Duration::from_millis(1));
    client.reap();
    core.wait_until(|seen| seen.closed == 2);
    assert_eq!(client.idle_connections(), 0);
}

#[test]
fn a_name_is_looked_up() {
    let core = ScriptedCore::start(vec![says(ok(GUID))]);
    let url = format!("http://localhost:{}", core.address().port());
    assert_eq!(told(&client(&url).transfer(&request(GUID))), "done");
    assert!(core.seen().requests[0].to_ascii_lowercase().contains("\r\nhost: localhost:"));
}

/// The first call leaves a connection; then the core does something to it; the second call has to go over another one.
#[track_caller]
fn check_not_reused(row: &str, between: &[Step]) {
    let mut first = vec![Step::Read, Step::Say(ok(GUID)), Step::Gate(1)];
    first.extend_from_slice(between);
    let core = ScriptedCore::start(vec![first, says(ok(OTHER_GUID))]);
    let client = client(&core.url());
    assert_eq!(told(&client.transfer(&request(GUID))), "done", "{row}");
    assert_eq!(client.idle_connections(), 1, "{row}");
    core.open_gate();
    core.wait_until(|seen| seen.closed + seen.marks == 1);
    assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "done", "{row}");
    let seen = core.seen();
    assert_eq!((seen.requests.len(), seen.connections), (2, 2), "{row}");
}

#[test]
fn a_connection_that_was_closed_or_that_said_more_is_not_used_again() {
    check_not_reused("closed", &[Step::Close]);
    check_not_reused("reset", &[Step::Reset]);
    check_not_reused(
        "a late refusal",
        &[Step::Say(http("422 Unprocessable", r#"{"code":"C051"}"#)), Step::Mark, Step::Hold],
    );
    check_not_reused("a late answer", &[Step::Say(ok(OTHER_GUID)), Step::Mark, Step::Hold]);
    check_not_reused("a stray byte", &[Step::Say(b"x".to_vec()), Step::Mark, Step::Hold]);
}

#[test]
fn an_answer_with_another_behind_it_spoils_its_connection() {
    let refusal = http("422 Unprocessable", r#"{"code":"C051"}"#);
    // Wherever the first one ends in what is read at once.
    let longest = CORE_WIRE_BUFFER_BYTES + 1;
    for bytes in [ok(GUID).len(), longest - refusal.len(), longest - 2, longest - 1, longest] {
        let two_answers = [padded_ok(GUID, bytes), refusal.clone()].concat();
        let core = ScriptedCore::start(vec![
            vec![Step::Read, Step::Say(two_answers), Step::Hold],
            says(ok(OTHER_GUID)),
        ]);
        let client = client(&core.url());
        assert_eq!(told(&client.transfer(&request(GUID))), "done", "{bytes}");
        assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "done", "{bytes}");
        assert_eq!((core.seen().requests.len(), core.seen().connections), (2, 2), "{bytes}");
    }
}

/// A good answer of so many bytes.
fn padded_ok(guid: &str, bytes: usize) -> Vec<u8> {
    let json = answer_json(guid);
    let padding = " ".repeat(bytes.saturating_sub(ok(guid).len()));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", json.len());
    format!("{head}{padding}\r\n\r\n{json}").into_bytes()
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_ones() {
    let late = vec![Step::Read, Step::Say(ok(GUID)), Step::Read, Step::Say(ok(GUID)), Step::Hold];
    let core = ScriptedCore::start(vec![late, says(ok(GUID))]);
    let client = client(&core.url());
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    assert_eq!(told(&client.transfer(&request(OTHER_GUID))), "unknown: another GUID in the answer");
    assert_eq!(client.idle_connections(), 0, "out of step");
    assert_eq!(told(&client.transfer(&request(GUID))), "done");
    assert_eq!((core.seen().requests.len(), core.seen().connections), (3, 2));
}

#[test]
fn only_a_definite_answer_keeps_its_connection() {
    let core = ScriptedCore::start(vec![
        vec![Step::Read, Step::Say(http("503 Busy", "{}")), Step::Hold],
        vec![
            Step::Read,
            Step::Say(http("422 Unprocessable", "{}")),
            Step::Read,
            Step::Say(http("404 No", "")),
            Step::Hold,
        ],
    ]);
    let client = client(&core.url());
    assert_eq!(told(&client.transfer(&request(GUID))), "unknown: HTTP 503: {}");
    assert_eq!(client.idle_connections(), 0);
    assert_eq!(told(&client.transfer(&request(GUID))), "refused E905");
    assert_eq!(client.idle_connections(), 1);
    assert_eq!(told_inquiry(&client.inquire(&request(GUID))), "absent");
    assert_eq!((client.idle_connections(), core.seen().connections), (1, 2));
}

#[test]
fn an_inquiry_is_known_absent_or_no_answer() {
    let json = answer_json(GUID);
    for (row, said, expected) in [
        ("known", ok(GUID), "known"),
        ("201", http("201 Created", &json), "no answer: HTTP 201: …"),
        ("another guid", ok(OTHER_GUID), "no answer: another GUID in the answer"),
        (
            "junk",
            http("200 OK", "<html></html>"),
            "no answer: HTTP 200, no JSON object: <html></html>",
        ),
        ("the core's 404", http("404 Not Found", r#"{"code":"NOT_FOUND"}"#), "absent"),
        ("an empty 404", http("404 Not Found", ""), "absent"),
        (
            "a 404 that is a page",
            http("404 Not Found", "<html></html>"),
            "no answer: HTTP 404, no JSON object: <html></html>",
        ),
        (
            "a 404 that is a list",
            http("404 Not Found", "[]"),
            "no answer: HTTP 404, no usable JSON object…",
        ),
        (
            "a 404 without a length",
            b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(),
            "no answer: HTTP 404, half an answer: a body without a length",
        ),
        (
            "a cut 404",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n{}".to_vec(),
            "no answer: half an answer: connection closed after …",
        ),
        ("400", http("400 Bad Request", "{}"), "no answer: HTTP 400: {}"),
        ("422", http("422 Unprocessable", r#"{"code":"C051"}"#), "no answer: HTTP 422: {…"),
        ("410", http("410 Gone", ""), "no answer: HTTP 410"),
        ("500", http("500 Oops", ""), "no answer: HTTP 500"),
        ("nothing", Vec::new(), "no answer: connection closed without an answer"),
    ] {
        let core = ScriptedCore::start(vec![says(said)]);
        assert_told(&told_inquiry(&client(&core.url()).inquire(&request(GUID))), expected, row);
        let seen = core.seen();
        assert_eq!(seen.requests.len(), 1, "{row}");
        let line = format!("GET /v1/transfers/{GUID} HTTP/1.1\r\n");
        assert!(seen.requests[0].starts_with(&line), "{row}: {}", seen.requests[0]);
    }
    let (_held, free) = refusing_port();
    let refused = told_inquiry(&client(&format!("http://{free}")).inquire(&request(GUID)));
    assert_eq!(refused, format!("no answer: connect refused: {free}"));
}

#[test]
fn a_guid_that_means_something_in_a_path_arrives_as_it_is() {
    for (guid, path) in
        [("..", "%2E%2E"), (".", "%2E"), ("A-1/?", "A-1%2F%3F"), ("a%2Fb#c", "a%252Fb%23c")]
    {
        let core = ScriptedCore::start(vec![says(http("404 Not Found", ""))]);
        let client = client(&format!("{}/api/", core.url()));
        assert_eq!(told_inquiry(&client.inquire(&request(guid))), "absent", "{guid}");
        let seen = core.seen();
        let line = format!("GET /api/v1/transfers/{path} HTTP/1.1\r\n");
        assert!(seen.requests[0].starts_with(&line), "{guid}: {}", seen.requests[0]);
    }
}

#[test]
fn a_timeout_of_zero_is_refused_by_name() {
    for (config, word) in [
        (
            HttpCoreConfig { connect_timeout: Duration::ZERO, ..config("http://core:1") },
            "connect-timeout",
        ),
        (
            HttpCoreConfig { read_timeout: Duration::ZERO, ..config("http://core:1") },
            "read-timeout",
        ),
    ] {
        let error = HttpCore::new(config).err().expect("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
}
