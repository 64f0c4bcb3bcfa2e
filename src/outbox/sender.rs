//! How an event goes over HTTP, and what counts as an acknowledgement: exactly one thing does.
//!
//! Knows no stores.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;

use super::event::{exactly, parse_object};
use super::{Event, OutboxError};
use crate::limits::{ACK_BYTES_MAX, SEND_BUFFER_BYTES, SEND_IDLE, SEND_TIMEOUT_S_MAX};
use crate::one_piece::{OnePiece, Sizes};

/// Sends one event: POSTs it as JSON to `url` and returns true, only for status 200 and a body of at most 1024 bytes that is a JSON
/// object with exactly `id`, the event's, and `accepted`, true. No proxy, no redirect. `timeout_s` (seconds, over 0, at most 5) bounds
/// each step that blocks: connecting, sending, waiting for the head, reading the body. The connection is closed afterwards.
///
/// Errors, before anything is sent: `Value` for the event, the timeout or a URL that is not `http://127.0.0.1:PORT/events`. Later:
/// `Delivery` for any other body, `Http` for any other status and for every error of the connection. None of these says that the event
/// did not arrive.
pub fn send_http(url: &str, event: &Event, timeout_s: f64) -> Result<bool, OutboxError> {
    HttpSender::new(url, timeout_s)?.send(event)
}

/// [`send_http`] for many events to one receiver: a connection is used again while it is fresh.
#[derive(Debug)]
pub struct HttpSender {
    url: String,
    agent: Agent,
}

impl HttpSender {
    /// A sender to `url`; connects to nothing yet. Errors: `Value`, as [`send_http`]'s.
    pub fn new(url: &str, timeout_s: f64) -> Result<HttpSender, OutboxError> {
        check_url(url)?;
        let timeout = Some(check_timeout(timeout_s)?);
        // No global, per-call or resolve timeout: each of them starts a thread for every call.
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("oncegate/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_connect(timeout)
            .timeout_send_request(timeout)
            .timeout_send_body(timeout)
            .timeout_recv_response(timeout)
            .timeout_recv_body(timeout)
            .input_buffer_size(SEND_BUFFER_BYTES)
            .output_buffer_size(SEND_BUFFER_BYTES)
            .max_response_header_size(SEND_BUFFER_BYTES)
            .max_idle_connections(1)
            .max_idle_age(SEND_IDLE)
            .build();
        let sizes = Sizes { input_bytes: SEND_BUFFER_BYTES, output_bytes: SEND_BUFFER_BYTES };
        let connector = OnePiece { connector: DefaultConnector::default(), sizes };
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        Ok(HttpSender { url: url.to_owned(), agent })
    }

    /// Sends one event; see [`send_http`].
    pub fn send(&self, event: &Event) -> Result<bool, OutboxError> {
        let event = event.checked()?;
        let mut response = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .send(event.to_json())?;
        if response.status() != StatusCode::OK {
            return Err(ureq::Error::StatusCode(response.status().as_u16()).into());
        }
        let limit = ACK_BYTES_MAX as u64;
        match response.body_mut().with_config().limit(limit).read_to_vec() {
            Ok(body) => acknowledged(&body, &event.id).map_err(OutboxError::Delivery),
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(OutboxError::Delivery(format!(
                "the answer for `{}` is longer than {ACK_BYTES_MAX} bytes",
                event.id
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// True, or why this body is not the acknowledgement of `id`.
fn acknowledged(body: &[u8], id: &str) -> Result<bool, String> {
    let fields = parse_object(body).map_err(|why| format!("the answer for `{id}` is {why}"))?;
    match exactly(&fields, ["id", "accepted"]) {
        Err(why) => Err(format!("the answer for `{id}` {why}")),
        Ok([Value::String(other), _]) if other != id => {
            Err(format!("the answer for `{id}` is for {other:?}"))
        }
        Ok([Value::String(_), Value::Bool(true)]) => Ok(true),
        Ok(_) => Err(format!("the answer for `{id}` does not say that it was accepted")),
    }
}

/// The address of the receiver: this machine, an explicit port, this path, and nothing else.
fn check_url(url: &str) -> Result<(), OutboxError> {
    let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/events"));
    let is_port = |port: &str| {
        port.bytes().all(|b| b.is_ascii_digit())
            && !port.starts_with('0')
            && port.parse::<u16>().is_ok()
    };
    if port.is_some_and(is_port) {
        return Ok(());
    }
    Err(OutboxError::Value(format!(
        "url {url:?} is not http://127.0.0.1:PORT/events with a port 1-65535"
    )))
}

fn check_timeout(timeout_s: f64) -> Result<Duration, OutboxError> {
    let refused = || {
        OutboxError::Value(format!(
            "timeout {timeout_s} is not a number over 0 and at most {SEND_TIMEOUT_S_MAX} seconds"
        ))
    };
    if !(timeout_s > 0.0 && timeout_s <= SEND_TIMEOUT_S_MAX) {
        return Err(refused());
    }
    // A number so small that it rounds to nothing would mean "no timeout" further down.
    let timeout = Duration::try_from_secs_f64(timeout_s).map_err(|_| refused())?;
    Ok(timeout.max(Duration::from_micros(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, want: Result<bool, &str>) {
        let got = acknowledged(body.as_bytes(), "a-1");
        assert_eq!(got.as_ref().map_err(String::as_str).copied(), want, "{body}");
    }

    #[test]
    fn only_the_exact_acknowledgement_counts() {
        check(r#"{"id":"a-1","accepted":true}"#, Ok(true));
        check(" {\"accepted\" : true,\n\"id\":\"a\\u002d1\"} ", Ok(true));
        let no = "the answer for `a-1` does not say that it was accepted";
        for value in ["1", "\"true\"", "false", "null", "[true]", "1.0"] {
            check(&format!(r#"{{"id":"a-1","accepted":{value}}}"#), Err(no));
        }
        check(r#"{"id":1,"accepted":true}"#, Err(no));
        check(r#"{"id":"b","accepted":true}"#, Err("the answer for `a-1` is for \"b\""));
        check(
            r#"{"id":"a-1","accepted":true,"x":0}"#,
            Err("the answer for `a-1` has the unknown key \"x\""),
        );
        check(r#"{"id":"a-1"}"#, Err("the answer for `a-1` has no key \"accepted\""));
        for text in [
            "",
            "[]",
            "true",
            r#"{"id":"a-1","accepted":true"#,
            r#"{"id":"a-1","accepted":true}{}"#,
            r#"{"id":"a-1","accepted":false,"accepted":true}"#,
            r#"{"id":"a-1","id":"a-1","accepted":true}"#,
        ] {
            assert!(acknowledged(text.as_bytes(), "a-1").is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_this_machine_an_explicit_port_and_nothing_else() {
        for port in ["1", "80", "65535"] {
            assert!(check_url(&format!("http://127.0.0.1:{port}/events")).is_ok(), "{port}");
        }
        for url in [
            "",
            "http://127.0.0.1/events",
            "http://127.0.0.1:/events",
            "http://127.0.0.1:0/events",
            "http://127.0.0.1:00080/events",
            "http://127.0.0.1:+80/events",
            "http://127.0.0.1:65536/events",
            "http://127.0.0.1:80/events/",
            "http://127.0.0.1:80//events",
            "http://127.0.0.1:80/x/events",
            "http://127.0.0.1:80/events?x",
            "http://127.0.0.1:80/events#x",
            "http://127.0.0.1:80/events ",
            "http://127.0.0.1:80/events\n",
            " http://127.0.0.1:80/events",
            "http://u@127.0.0.1:80/events",
            "http://127.0.0.1:80@10.0.0.1/events",
            "https://127.0.0.1:80/events",
            "HTTP://127.0.0.1:80/events",
            "http://localhost:80/events",
            "http://10.0.0.1:80/events",
            "http://127.1:80/events",
            "http://[::1]:80/events",
        ] {
            assert!(matches!(check_url(url), Err(OutboxError::Value(_))), "{url}");
        }
    }

    #[test]
    fn a_timeout_is_finite_over_0_and_at_most_5_seconds() {
        for good in [5.0, 1.0, 0.001, f64::MIN_POSITIVE] {
            assert!(check_timeout(good).is_ok_and(|timeout| !timeout.is_zero()), "{good}");
        }
        for bad in [0.0, -0.0, -1.0, 5.000_001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(matches!(check_timeout(bad), Err(OutboxError::Value(_))), "{bad}");
        }
    }
}
