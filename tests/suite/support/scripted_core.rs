//! A core of bare sockets that does on each connection what its script says, and notes what it was sent. It knows no HTTP but where a
//! request ends.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a test waits for something that is sure to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// One thing that the core does on a connection.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads a request whole.
    Read,
    /// Reads one byte of a request.
    ReadByte,
    /// Writes these bytes.
    Say(Vec<u8>),
    /// Writes these bytes one by one, each after this pause, until the other side hangs up.
    Drip(Vec<u8>, Duration),
    /// Waits until the test has opened this many gates.
    Gate(usize),
    /// Notes that it came this far.
    Mark,
    /// Waits until the other side hangs up.
    Hold,
    /// Closes with a reset.
    Reset,
    /// Closes in order. So does the end of a script.
    Close,
}

/// What has happened so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The requests that came whole, head and body.
    pub requests: Vec<String>,
    /// How many connections were accepted.
    pub connections: usize,
    /// How many connections were served to the end of their script and closed.
    pub closed: usize,
    /// How many marks were passed.
    pub marks: usize,
    gates: usize,
}

/// A running scripted core. Its threads end with the test's process.
pub struct ScriptedCore {
    address: SocketAddr,
    shared: Arc<(Mutex<Seen>, Condvar)>,
}

impl ScriptedCore {
    /// A core whose first connection follows the first script, and so on; a connection without a script is closed at once.
    pub fn start(scripts: Vec<Vec<Step>>) -> ScriptedCore {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let core = ScriptedCore { address, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            let mut scripts = scripts.into_iter();
            for stream in listener.incoming().map_while(Result::ok) {
                note(&shared, |seen| seen.connections += 1);
                let (script, shared) = (scripts.next().unwrap_or_default(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, script, &shared));
            }
        });
        core
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has happened so far.
    pub fn seen(&self) -> Seen {
        self.shared.0.lock().expect("no test panics while it holds this").clone()
    }

    /// Lets scripts pass one more gate.
    pub fn open_gate(&self) {
        note(&self.shared, |seen| seen.gates += 1);
    }

    /// Waits until `condition` holds.
    pub fn wait_until(&self, condition: impl Fn(&Seen) -> bool) {
        wait(&self.shared, condition);
    }
}

fn note(shared: &(Mutex<Seen>, Condvar), change: impl FnOnce(&mut Seen)) {
    change(&mut shared.0.lock().expect("no test panics while it holds this"));
    shared.1.notify_all();
}

fn wait(shared: &(Mutex<Seen>, Condvar), condition: impl Fn(&Seen) -> bool) {
    let seen = shared.0.lock().expect("no test panics while it holds this");
    let (seen, wait) = shared
        .1
        .wait_timeout_while(seen, PATIENCE, |seen| !condition(seen))
        .expect("no test panics while it holds this");
    assert!(!wait.timed_out(), "did not happen: {seen:?}");
}

fn serve(mut stream: TcpStream, script: Vec<Step>, shared: &(Mutex<Seen>, Condvar)) {
    for step in script {
        match step {
            Step::Read => {
                let Some(request) = read_request(&mut stream) else { break };
                note(shared, |seen| seen.requests.push(request));
            }
            Step::ReadByte => drop(stream.read(&mut [0])),
            Step::Say(bytes) => drop(stream.write_all(&bytes)),
            Step::Drip(bytes, pause) => drip(&mut stream, &bytes, pause),
            Step::Gate(gates) => wait(shared, |seen| seen.gates >= gates),
            Step::Mark => note(shared, |seen| seen.marks += 1),
            Step::Hold => while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {},
            Step::Reset => {
                let linger = Some(Duration::ZERO);
                socket2::SockRef::from(&stream).set_linger(linger).expect("a socket option");
                break;
            }
            Step::Close => drop(stream.shutdown(Shutdown::Both)),
        }
    }
    drop(stream);
    note(shared, |seen| seen.closed += 1);
}

/// Head and body, or `None` if the other side hung up before.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
    }
    Some(String::from_utf8(bytes).expect("a request in UTF-8"))
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, length)| length.trim().parse().expect("a length"));
    bytes.len() == head.len() + 4 + length
}

fn drip(stream: &mut TcpStream, bytes: &[u8], pause: Duration) {
    stream.set_read_timeout(Some(pause)).expect("a timeout");
    for byte in bytes {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        match stream.read(&mut [0]) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(_) | Err(_) => break,
        }
    }
}
