//! A channel: std128 telegrams built by hand, independent of the program's codec, and the sockets that carry them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::wait::PATIENCE;

/// The body of a reply that carries an error code: spaces, and zeros where a number stands.
pub const BLANK_BODY: &[u8] = b"                             0000000000000   ";

/// A std128 transfer.
#[derive(Clone, Debug)]
pub struct Telegram {
    pub guid: String,
    pub amount: u64,
    /// The memo's bytes, at most 20.
    pub memo: Vec<u8>,
    pub hop: &'static str,
    pub send_count: char,
}

impl Telegram {
    /// A transfer under a GUID that nobody has used.
    pub fn new(memo: &str) -> Telegram {
        Telegram::under(&guid(), memo)
    }

    /// A transfer under this GUID.
    pub fn under(guid: &str, memo: &str) -> Telegram {
        Telegram {
            guid: guid.to_owned(),
            amount: 150_000,
            memo: memo.as_bytes().to_vec(),
            hop: "01",
            send_count: '1',
        }
    }

    /// The same with another amount: other content.
    pub fn other_content(&self) -> Telegram {
        Telegram { amount: self.amount + 1, ..self.clone() }
    }

    /// The same sent once more, as a channel does: another hop, another send count, the same content.
    pub fn resent(&self) -> Telegram {
        Telegram { hop: "07", send_count: '2', ..self.clone() }
    }

    /// Its 208 bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let Telegram { guid, amount, memo, hop, send_count } = self;
        let mut bytes = format!(
            "0000020001{guid:30}{hop}TRF00100S{send_count}MOB20260928093015123{:17}000{:7}",
            "", ""
        )
        .into_bytes();
        bytes.extend_from_slice(b"\x01\x02keep\xfe");
        bytes.resize(128, b' ');
        bytes.extend(format!("{:16}{:16}{amount:013}", "110123456789", "3020987654321").bytes());
        bytes.extend_from_slice(memo);
        bytes.resize(208, b' ');
        bytes
    }
}

/// A GUID that nobody has used: its last digits count on from the microsecond of the first one, which no process can overtake.
pub fn guid() -> String {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        AtomicU64::new(u64::try_from(now.as_micros()).expect("this millennium"))
    });
    let serial = NEXT.fetch_add(1, Ordering::Relaxed) % 100_000_000_000_000;
    format!("20260928MOBAP001{serial:014}")
}

/// The code in a std128 reply.
pub fn code(reply: &[u8]) -> &str {
    std::str::from_utf8(&reply[92..96]).expect("a code")
}

/// Who raised it.
pub fn err_sys(reply: &[u8]) -> &str {
    std::str::from_utf8(&reply[96..99]).expect("three characters")
}

/// Where a relay listens: what its ready line says.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub tcp: SocketAddr,
    pub http: SocketAddr,
    pub admin: SocketAddr,
}

impl Addresses {
    /// Reads a ready line.
    pub fn parse(line: &str) -> Addresses {
        let at = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            let word = word.unwrap_or_else(|| panic!("no {name} in the ready line {line:?}"));
            word.parse().expect("an address")
        };
        assert!(line.starts_with("ready "), "no ready line: {line:?}");
        Addresses { tcp: at("tcp="), http: at("http="), admin: at("admin=") }
    }

    /// Opens a connection.
    pub fn connect(&self) -> Channel {
        Channel::connect(self.tcp).expect("the relay accepts")
    }

    /// One telegram over a connection of its own.
    pub fn ask(&self, telegram: &Telegram) -> Vec<u8> {
        self.connect().ask(&telegram.bytes())
    }

    /// The code that this telegram gets.
    pub fn code(&self, telegram: &Telegram) -> String {
        code(&self.ask(telegram)).to_owned()
    }
}

/// A channel's connection.
pub struct Channel(pub TcpStream);

impl Channel {
    /// Connects; the relay may be gone.
    pub fn connect(to: SocketAddr) -> std::io::Result<Channel> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Channel(stream))
    }

    /// Sends and reads one reply.
    pub fn ask(&mut self, telegram: &[u8]) -> Vec<u8> {
        self.try_ask(telegram).expect("a reply")
    }

    /// Sends and reads one reply; the relay may be killed meanwhile.
    pub fn try_ask(&mut self, telegram: &[u8]) -> std::io::Result<Vec<u8>> {
        self.0.write_all(telegram)?;
        self.read_with(8)
    }

    /// Reads the answer to an HTTP request, as far as the telegram in it.
    pub fn read_http(&mut self) -> Vec<u8> {
        self.try_read_http().expect("an answer")
    }

    /// The same; the relay may be gone.
    pub fn try_read_http(&mut self) -> std::io::Result<Vec<u8>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            head.extend(byte);
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        self.read_with(8)
    }

    /// Reads one telegram whose length stands in its first 8 digits.
    pub fn read(&mut self) -> Vec<u8> {
        self.read_with(8).expect("a telegram")
    }

    /// Reads one telegram whose length stands in its first `digits`.
    pub fn read_with(&mut self, digits: usize) -> std::io::Result<Vec<u8>> {
        let mut telegram = vec![0; digits];
        self.0.read_exact(&mut telegram)?;
        let length: usize =
            std::str::from_utf8(&telegram).expect("digits").parse().expect("a length");
        telegram.resize(digits + length, 0);
        self.0.read_exact(&mut telegram[digits..])?;
        Ok(telegram)
    }

    /// Whether something has come; does not wait.
    pub fn has_something_to_read(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket option");
        let come = self.0.peek(&mut [0]).is_ok();
        self.0.set_nonblocking(false).expect("a socket option");
        come
    }

    /// The other side has closed, in order or with a reset, and has said nothing more.
    pub fn is_closed_without_a_word(&mut self) -> bool {
        match self.0.read(&mut [0; 100]) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Hangs up with a reset.
    pub fn reset(self) {
        let linger = Some(Duration::ZERO);
        socket2::SockRef::from(&self.0).set_linger(linger).expect("a socket option");
    }
}

/// What an HTTP server said.
#[derive(Debug)]
pub struct HttpReply {
    pub status: u16,
    /// Header lines in lower-case letters.
    pub headers: Vec<String>,
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The value of a header, in lower-case letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.headers.iter().find_map(|line| line.strip_prefix(&prefix))
    }
}

/// The bytes of a telegram's HTTP request, over a connection that is kept.
pub fn http_request(telegram: &Telegram) -> Vec<u8> {
    let head = "POST /telegram HTTP/1.1\r\nHost: x\r\nContent-Length: 208\r\n\r\n";
    [head.as_bytes(), &telegram.bytes()].concat()
}

/// One HTTP exchange over a connection of its own.
pub fn http(to: SocketAddr, method: &str, path: &str, body: &[u8]) -> HttpReply {
    let mut stream = Channel::connect(to).expect("the server accepts").0;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it is taken");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    let mut lines = head.lines().map(str::to_owned);
    let first = lines.next().expect("a status line");
    let status = first.split(' ').nth(1).expect("a status").parse().expect("a number");
    HttpReply { status, headers: lines.collect(), body: all[end + 4..].to_vec() }
}
