//! A channel as this program plays one: sends a telegram, waits for its reply. For `oncegate send` and the demo.
//!
//! Says only what a channel can know: nothing was sent, or it was sent and no answer came. It never sends anything twice by
//! itself. Knows no ledger.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::limits;
use crate::telegram::{Frame, FramingError, Layout};

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    /// Not one byte was sent.
    #[error("nothing was sent: can't connect to {address}")]
    NotSent {
        /// Whom.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// It may have arrived.
    #[error(
        "no answer ({why}): the outcome is unknown to this channel; send the same GUID again, never a new one for the same transfer"
    )]
    Unknown {
        /// What was seen instead.
        why: String,
    },
    /// The HTTP front answered, but with no telegram.
    #[error("no reply telegram: HTTP {status}: {text}")]
    Refused {
        /// Its status.
        status: u16,
        /// Its text.
        text: String,
    },
}

/// A TCP connection to a relay.
pub struct Channel {
    stream: TcpStream,
    layout: Layout,
}

impl Channel {
    /// Connects within `timeout`.
    pub fn connect(address: &str, layout: &Layout, timeout: Duration) -> Result<Channel, NoReply> {
        let stream = connect(address, timeout)?;
        Ok(Channel { stream, layout: layout.clone() })
    }

    /// Sends one telegram and waits for one. After an error the connection is not to be used again: a late reply would be
    /// paired with the next telegram.
    pub fn ask(&mut self, telegram: &[u8], timeout: Duration) -> Result<Vec<u8>, NoReply> {
        let end = Instant::now() + timeout;
        let unknown = |why: String| NoReply::Unknown { why };
        write(&mut self.stream, telegram, end).map_err(|error| unknown(told(&error)))?;
        let mut framer = self.layout.framer(limits::TELEGRAM_BYTES_MAX);
        let mut bytes = [0; limits::CHANNEL_READ_BYTES];
        loop {
            let frame = framer.next().map_err(|error: FramingError| unknown(error.to_string()))?;
            if let Some(Frame::Telegram(reply) | Frame::Poll(reply)) = frame {
                return Ok(reply);
            }
            match read(&mut self.stream, &mut bytes, end) {
                Ok(0) => return Err(unknown("the connection was closed".to_owned())),
                Ok(n) => framer.push(&bytes[..n]),
                Err(error) => return Err(unknown(told(&error))),
            }
        }
    }
}

/// The same over `POST` of an `http://` URL, once.
pub fn post(url: &HttpUrl, telegram: &[u8], timeout: Duration) -> Result<Vec<u8>, NoReply> {
    let end = Instant::now() + timeout;
    let unknown = |why: String| NoReply::Unknown { why };
    let mut stream = connect(&url.authority, timeout)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority,
        telegram.len()
    );
    let request = [head.as_bytes(), telegram].concat();
    write(&mut stream, &request, end).map_err(|error| unknown(told(&error)))?;
    let mut answer = Vec::new();
    let mut bytes = [0; limits::CHANNEL_READ_BYTES];
    loop {
        match read(&mut stream, &mut bytes, end) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&bytes[..n]),
            Err(error) => return Err(unknown(told(&error))),
        }
        if answer.len() > limits::TELEGRAM_BYTES_MAX + limits::HTTP_HEADER_BYTES_MAX {
            return Err(unknown("the answer is longer than any telegram".to_owned()));
        }
    }
    match Answer::parse(&answer) {
        Some(Answer { status: 200, body }) => Ok(body.to_vec()),
        Some(Answer { status, body }) => {
            Err(NoReply::Refused { status, text: String::from_utf8_lossy(body).trim().to_owned() })
        }
        None => Err(unknown("the answer is no whole HTTP answer".to_owned())),
    }
}

/// Where telegrams are posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// `host:port`.
    pub authority: String,
    /// Begins with `/`.
    pub path: String,
}

impl HttpUrl {
    /// The URL in `text`: `http://host:port/path`.
    #[must_use]
    pub fn parse(text: &str) -> Option<HttpUrl> {
        let rest = text.strip_prefix("http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = text.bytes().all(|b| b.is_ascii_graphic());
        let named = !host.is_empty() && !host.contains(['@', '?', '#']);
        let authority =
            if has_port(host) { host.to_owned() } else { format!("{host}:{HTTP_PORT}") };
        (plain && named).then(|| HttpUrl { authority, path: format!("/{path}") })
    }
}

/// What `http://host/` means.
const HTTP_PORT: u16 = 80;

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// An answer whose declared length has come whole. The relay always declares it.
struct Answer<'a> {
    status: u16,
    body: &'a [u8],
}

impl<'a> Answer<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        })?;
        let length: usize = length.trim().parse().ok()?;
        let body = &bytes[end + 4..];
        (body.len() == length).then_some(Answer { status, body })
    }
}

/// A GUID as std128 has it: the date, the system `ONCEGATE`, and a serial of 14 digits: time of day to the microsecond and
/// two of `serial`, so that two processes, or two channels of one, don't meet.
#[must_use]
pub fn new_guid(at: DateTime<Utc>, serial: u32) -> String {
    format!("{}ONCEGATE{}{:02}", at.format("%Y%m%d"), at.format("%H%M%S%6f"), serial % 100)
}

fn connect(address: &str, timeout: Duration) -> Result<TcpStream, NoReply> {
    let failed = |source| NoReply::NotSent { address: address.to_owned(), source };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn write(stream: &mut TcpStream, bytes: &[u8], end: Instant) -> io::Result<()> {
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(bytes)
}

fn read(stream: &mut TcpStream, bytes: &mut [u8], end: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(end)?))?;
    stream.read(bytes)
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "timeout".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_has_thirty_characters_and_no_blank() {
        let at = DateTime::from_timestamp(1_796_000_000, 123_456_789).unwrap_or_default();
        assert_eq!(new_guid(at, 107), "20261130ONCEGATE00532012345607");
        assert_eq!(new_guid(at, 107).len(), 30);
    }

    #[test]
    fn an_answer_counts_only_when_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!(Answer::parse(whole).is_some_and(|a| a.status == 200 && a.body == b"abc"));
        assert!(Answer::parse(&whole[..whole.len() - 1]).is_none());
        assert!(Answer::parse(b"HTTP/1.1 200 OK\r\n\r\nabc").is_none());
        assert!(Answer::parse(b"\x00\x01garbage\r\n\r\n").is_none());
    }

    #[test]
    fn a_url_has_a_host_and_perhaps_a_port_and_a_path() {
        let url = |text| HttpUrl::parse(text).map(|url| (url.authority, url.path));
        let some = |a: &str, p: &str| Some((a.to_owned(), p.to_owned()));
        assert_eq!(url("http://h:9102/telegram"), some("h:9102", "/telegram"));
        assert_eq!(url("http://h"), some("h:80", "/"));
        assert_eq!(url("http://[::1]:1/x"), some("[::1]:1", "/x"));
        for bad in ["https://h/", "h:1", "http://", "http:///x", "http://u@h/", "http://h/a b"] {
            assert_eq!(url(bad), None, "{bad}");
        }
    }
}
