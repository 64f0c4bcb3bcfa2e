//! The real client: one HTTP exchange per call, over a connection that may have served an earlier one.
//!
//! Never repeats, redirects, asks a proxy or keeps a cookie. Says "not sent" only if the wire saw no byte leave, and "done" or "refused"
//! only for what [`Answer`] finds definite. Knows no ledger.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use ureq::config::AutoHeaderValue;
use ureq::http::{HeaderMap, Response, Version, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Error, RequestBuilder, Timeout};

use super::answer::Answer;
use super::url::{CoreUrl, Scheme};
use super::wire::{Call, Dial, Lookup, NameNotFound, NoLookup, Way, Wire};
use super::{Core, Inquiry, Seen, Transfer};
use crate::clock::Clock;
use crate::guid::Guid;
use crate::limits::{
    CORE_ANSWER_BYTES_MAX, CORE_BODY_BYTES_USUAL, CORE_HEAD_BYTES_MAX, CORE_IDLE_CONNECTIONS_MAX,
    CORE_INPUT_BUFFER_BYTES, CORE_OUTPUT_BUFFER_BYTES, CORE_WIRE_BUFFER_BYTES, SEEN_BYTES_MAX,
};
use crate::one_piece::{OnePiece, Sizes};
use crate::telegram::{Layout, Request};

/// How the core is called.
#[derive(Clone)]
pub struct HttpCoreConfig {
    /// Where it is.
    pub url: CoreUrl,
    /// Bounds look-up, all addresses and TLS together.
    pub connect_timeout: Duration,
    /// Bounds the whole answer, from the last byte of the request to the last byte of the body.
    pub read_timeout: Duration,
    /// A connection that has been idle for this long is not used again; zero: none ever is.
    pub idle_max: Duration,
    /// Encodes the answers.
    pub layout: Layout,
    /// Times the waiting.
    pub clock: Arc<dyn Clock>,
}

/// Why a core can't be called like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoreConfigError {
    /// Every connect would fail.
    #[error("connect-timeout is 0: no call could be made")]
    NoConnectTimeout,
    /// Every call would be unknown.
    #[error("read-timeout is 0: the outcome of every call would be unknown")]
    NoReadTimeout,
}

/// The core behind an HTTP API. Cheap to share: any number of threads call at once, each over a connection of its own.
pub struct HttpCore {
    config: HttpCoreConfig,
    /// The URL without a `/` at the end, as text, as every call needs it.
    base: String,
    agent_config: ureq::config::Config,
    way: Arc<Way>,
    lookup: Arc<Lookup>,
    /// Connections that wait for a call, the longest idle first.
    idle: Mutex<VecDeque<Line>>,
}

/// A connection, or the place for one: a ureq agent that never has more than one.
struct Line {
    agent: Agent,
    wire: Arc<Wire>,
    idle_since: Duration,
}

/// What came of an exchange, before it is known what it was for.
enum Heard {
    /// No byte of the request has left.
    NotSent(Seen),
    /// It may have been heard, and no answer to it came back.
    Silence(Seen),
    /// An answer that can be definite, read whole.
    Answer(Answer),
    /// Another status, with the beginning of its body.
    Other(Answer),
}

impl Core for HttpCore {
    fn transfer(&self, request: &Request) -> Transfer {
        let url = format!("{}{}", self.base, request.call());
        let body = transfer_json(request);
        let (heard, line) = self.exchange(|agent| {
            let post = agent.post(&url).header(header::CONTENT_TYPE, "application/json");
            self.with_common_headers(post).send(&body[..])
        });
        let outcome = match heard {
            Heard::NotSent(why) => Transfer::NotSent(why),
            Heard::Silence(why) => Transfer::Unknown(why),
            Heard::Answer(answer) => answer.to_transfer(&self.config.layout, request),
            Heard::Other(answer) => Transfer::Unknown(answer.as_seen("", request)),
        };
        match outcome {
            Transfer::Done(_) | Transfer::Refused(_) => self.check_in(line),
            Transfer::NotSent(_) | Transfer::Unknown(_) => drop(line),
        }
        outcome
    }

    fn inquire(&self, request: &Request) -> Inquiry {
        let url = format!("{}{}/{}", self.base, request.call(), percent_encoded(request.guid()));
        let (heard, line) = self.exchange(|agent| self.with_common_headers(agent.get(&url)).call());
        let outcome = match heard {
            Heard::NotSent(why) | Heard::Silence(why) => Inquiry::NoAnswer(why),
            Heard::Answer(answer) => answer.to_inquiry(&self.config.layout, request),
            Heard::Other(answer) => Inquiry::NoAnswer(answer.as_seen("", request)),
        };
        match outcome {
            Inquiry::Known(_) | Inquiry::Absent => self.check_in(line),
            Inquiry::NoAnswer(_) => drop(line),
        }
        outcome
    }
}

impl HttpCore {
    /// A core that is called as `config` says. Makes no connection yet.
    pub fn new(config: HttpCoreConfig) -> Result<HttpCore, CoreConfigError> {
        if config.connect_timeout.is_zero() {
            return Err(CoreConfigError::NoConnectTimeout);
        }
        if config.read_timeout.is_zero() {
            return Err(CoreConfigError::NoReadTimeout);
        }
        Ok(HttpCore {
            base: config.url.to_string(),
            agent_config: agent_config(&config),
            way: Arc::new(Way::to(&config.url)),
            lookup: Arc::new(Lookup::new(config.url.clone())),
            idle: Mutex::new(VecDeque::new()),
            config,
        })
    }

    /// Closes the connections that have been idle for too long. Calls do so too as they end; this is for a relay without calls.
    pub fn reap(&self) {
        let now = self.config.clock.monotonic();
        let stale = self.take_stale(&mut self.idle_lines(), now);
        drop(stale);
    }

    /// How many connections wait for a call.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.idle_lines().len()
    }

    /// One request, and what came of it. `send` must make exactly one call.
    ///
    /// The connection comes back too: only after a definite answer is it known to be in step.
    fn exchange(
        &self,
        send: impl FnOnce(&Agent) -> Result<Response<Body>, Error>,
    ) -> (Heard, Line) {
        let line = self.check_out();
        line.wire.begin();
        let heard = match send(&line.agent) {
            Ok(response) => {
                stop_unless_watched(line.wire.call());
                self.listen(response, &line.wire)
            }
            Err(e) => self.failed(&e, line.wire.call()),
        };
        (heard, line)
    }

    fn with_common_headers<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        // Whoever closes first keeps the port in TIME_WAIT: ask the core to.
        if self.config.idle_max.is_zero() {
            request.header(header::CONNECTION, "close")
        } else {
            request
        }
    }

    /// Reads the body: whole if the status can be definite, else its beginning.
    fn listen(&self, response: Response<Body>, wire: &Wire) -> Heard {
        let status = response.status().as_u16();
        let framed = is_framed(response.version(), response.headers());
        let body = response.into_body();
        if !Answer::is_listed(status) {
            return Heard::Other(Answer { status, framed, body: beginning(body) });
        }
        match whole(body) {
            Ok(body) => Heard::Answer(Answer { status, framed, body }),
            Err(e) => Heard::Silence(self.no_answer(&e, wire.call())),
        }
    }

    fn failed(&self, error: &Error, call: Call) -> Heard {
        if call.sent {
            Heard::Silence(self.no_answer(error, call))
        } else {
            Heard::NotSent(self.not_sent(error))
        }
    }

    /// In words, what went wrong before the first byte.
    fn not_sent(&self, error: &Error) -> Seen {
        let core = self.config.url.authority();
        Seen(match error {
            Error::Timeout(_) => {
                format!("connect timeout after {}", secs(self.config.connect_timeout))
            }
            Error::Io(e) if e.kind() == ErrorKind::ConnectionRefused => {
                format!("connect refused: {core}")
            }
            Error::Other(e) if e.is::<NameNotFound>() => e.to_string(),
            Error::Io(e) if e.raw_os_error().is_none() && self.is_tls() => {
                format!("TLS handshake failed: {core}: {e}")
            }
            Error::Rustls(e) => format!("TLS handshake failed: {core}: {e}"),
            Error::Tls(e) => format!("TLS handshake failed: {core}: {e}"),
            e => format!("not connected: {core}: {e}"),
        })
    }

    fn is_tls(&self) -> bool {
        self.config.url.scheme() == Scheme::Https
    }

    /// In words, what came instead of an answer once a byte may have left.
    fn no_answer(&self, error: &Error, call: Call) -> Seen {
        let got = call.received_bytes;
        Seen(match error {
            Error::Timeout(Timeout::SendRequest | Timeout::SendBody) => {
                format!("send timeout after {}", secs(self.config.read_timeout))
            }
            Error::Timeout(_) => format!("read timeout after {}", secs(self.config.read_timeout)),
            Error::Io(e) => match e.kind() {
                ErrorKind::ConnectionReset if got == 0 => "connection reset".to_owned(),
                ErrorKind::ConnectionReset => {
                    format!("half an answer: connection reset after {got} bytes")
                }
                ErrorKind::BrokenPipe => {
                    "connection closed while the request was written".to_owned()
                }
                ErrorKind::UnexpectedEof if got == 0 => {
                    "connection closed without an answer".to_owned()
                }
                ErrorKind::UnexpectedEof => {
                    format!("half an answer: connection closed after {got} bytes")
                }
                _ => format!("connection failed: {e}"),
            },
            Error::BodyExceedsLimit(bytes) => format!("an answer over {bytes} bytes"),
            Error::LargeResponseHeader(..) => {
                format!("an answer with a head over {CORE_HEAD_BYTES_MAX} bytes")
            }
            Error::Protocol(e) => format!("no HTTP: {e}"),
            e => format!("no answer: {e}"),
        })
    }

    /// The connection that was used last, as it is the least likely to have been closed; else the place for a new one.
    fn check_out(&self) -> Line {
        let now = self.config.clock.monotonic();
        let mut idle = self.idle_lines();
        let stale = self.take_stale(&mut idle, now);
        let line = idle.pop_back();
        drop(idle);
        drop(stale);
        line.unwrap_or_else(|| self.new_line())
    }

    /// Keeps the connection for the next call. If the core closed it, or sent more than its answer, ureq sees that before it writes.
    fn check_in(&self, mut line: Line) {
        let now = self.config.clock.monotonic();
        line.idle_since = now;
        let mut idle = self.idle_lines();
        let stale = self.take_stale(&mut idle, now);
        let surplus = if self.config.idle_max.is_zero() || idle.len() >= CORE_IDLE_CONNECTIONS_MAX {
            Some(line)
        } else {
            idle.push_back(line);
            None
        };
        drop(idle);
        drop((stale, surplus));
    }

    /// Takes out what has been idle for too long. Sockets are closed by the caller, outside the lock.
    fn take_stale(&self, idle: &mut VecDeque<Line>, now: Duration) -> Vec<Line> {
        let mut stale = Vec::new();
        while idle
            .front()
            .is_some_and(|line| now.saturating_sub(line.idle_since) >= self.config.idle_max)
        {
            stale.extend(idle.pop_front());
        }
        stale
    }

    fn idle_lines(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.idle.lock().expect("nothing panics while it holds this lock")
    }

    fn new_line(&self) -> Line {
        let HttpCoreConfig { clock, connect_timeout, read_timeout, .. } = &self.config;
        let wire = Arc::new(Wire::new(Arc::clone(clock), *connect_timeout, *read_timeout));
        let dial = Dial {
            way: Arc::clone(&self.way),
            lookup: Arc::clone(&self.lookup),
            wire: Arc::clone(&wire),
        };
        let sizes =
            Sizes { input_bytes: CORE_INPUT_BUFFER_BYTES, output_bytes: CORE_OUTPUT_BUFFER_BYTES };
        let connector = OnePiece { connector: dial, sizes };
        let agent = Agent::with_parts(self.agent_config.clone(), connector, NoLookup);
        Line { agent, wire, idle_since: Duration::ZERO }
    }
}

/// An answer to a request that the wire never saw means that the wire is not watched. Then "not sent" may be a lie, and a lie of
/// that kind pays twice: the whole process stops, not only this thread.
fn stop_unless_watched(call: Call) {
    if !call.sent {
        tracing::error!(
            "an answer came over a wire that saw no request: what was sent is not known any more"
        );
        std::process::abort();
    }
}

/// ureq by default follows redirects (a POST becomes a GET), reads proxy variables, takes a status for an error and waits for ever.
/// Its timeouts over several phases cost a thread per call, so only those of one phase are set; the [`Wire`] bounds them together.
fn agent_config(config: &HttpCoreConfig) -> ureq::config::Config {
    Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .http_status_as_error(false)
        .user_agent(concat!("oncegate/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .accept_encoding(AutoHeaderValue::None)
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
        .input_buffer_size(CORE_WIRE_BUFFER_BYTES)
        .output_buffer_size(CORE_WIRE_BUFFER_BYTES)
        .max_response_header_size(CORE_HEAD_BYTES_MAX)
        .max_idle_connections(usize::from(!config.idle_max.is_zero()))
        .max_idle_connections_per_host(1)
        .max_idle_age(config.idle_max)
        .timeout_connect(Some(config.connect_timeout))
        .timeout_send_request(Some(config.read_timeout))
        .timeout_send_body(Some(config.read_timeout))
        .timeout_recv_response(Some(config.read_timeout))
        .timeout_recv_body(Some(config.read_timeout))
        .build()
}

/// `{"guid","tx_code"}` and the fields of the request, in the layout's order. The layout has no other fields of these two names.
struct TransferJson<'a>(&'a Request);

impl Serialize for TransferJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TransferJson(request) = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("guid", request.guid().as_str())?;
        object.serialize_entry("tx_code", request.tx_code())?;
        for (name, value) in request.fields() {
            object.serialize_entry(name, value)?;
        }
        object.end()
    }
}

fn transfer_json(request: &Request) -> Vec<u8> {
    let mut json = Vec::with_capacity(CORE_BODY_BYTES_USUAL);
    serde_json::to_writer(&mut json, &TransferJson(request)).expect("memory takes every JSON");
    json
}

/// Everything but letters, digits, `-` and `_`: a `..` or a `/` must reach the core as a part of the GUID.
fn percent_encoded(guid: &Guid) -> String {
    let mut encoded = String::new();
    for byte in guid.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes any text");
        }
    }
    encoded
}

/// Whether the end of the body is told: by one length, or by chunks on HTTP/1.1. Two ways at once may be read in two ways.
fn is_framed(version: Version, headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (Some(length), None) => {
            lengths.next().is_none() && length.as_bytes().iter().all(u8::is_ascii_digit)
        }
        (None, Some(coding)) => {
            version == Version::HTTP_11
                && codings.next().is_none()
                && coding.as_bytes().eq_ignore_ascii_case(b"chunked")
        }
        (Some(_), Some(_)) | (None, None) => false,
    }
}

/// The body of an answer that can be definite.
fn whole(mut body: Body) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(CORE_BODY_BYTES_USUAL);
    body.with_config().limit(CORE_ANSWER_BYTES_MAX).reader().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What can be had of a body that is only looked at.
fn beginning(body: Body) -> Vec<u8> {
    let mut start = Vec::new();
    let mut reader = body.into_reader().take(SEEN_BYTES_MAX as u64);
    // An error only ends it: the status alone has decided.
    let _ = reader.read_to_end(&mut start);
    start
}

fn secs(timeout: Duration) -> String {
    format!("{:.1} s", timeout.as_secs_f64())
}
