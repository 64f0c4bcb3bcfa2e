//! A server on this machine that answers each request with what the fuzzer has made.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

static NEXT_ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The next request gets these bytes.
pub fn answer_with(bytes: &[u8]) {
    bytes.clone_into(&mut NEXT_ANSWER.lock().expect("no panic under this lock"));
}

/// Serves: reads until the request is whole, answers and hangs up.
pub fn serve(is_whole: fn(&[u8]) -> bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
            while !is_whole(&heard) {
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
