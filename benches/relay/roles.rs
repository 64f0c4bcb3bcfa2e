//! The other processes of the benchmark, made of this same program: the core, (a) forwarding without a ledger, (b) a ledger
//! connection per thread with autocommit.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chrono::Utc;
use oncegate::clock::{Clock, SystemClock};
use oncegate::code::Code;
use oncegate::core_api::simulated::{SimulatedConfig, SimulatedCore};
use oncegate::core_api::{Core, HttpCore, HttpCoreConfig, Transfer};
use oncegate::http_server::{Handler, HttpServer, Limits, Request, Response, Tell};
use oncegate::server::scheduling;
use oncegate::telegram::{Frame, Layout};
use rusqlite::{Connection, params};

/// Runs a role until the process is killed.
pub fn run(words: &[String]) -> ExitCode {
    rlimit::increase_nofile_limit(u64::MAX).expect("the limit of open files can be raised");
    match words {
        [role, slow] if role == "core" => core(slow),
        [role, core] if role == "forward" => serve(core, None),
        [role, core, db] if role == "autocommit" => serve(core, Some(Path::new(db))),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket2::SockRef::from(&listener).listen(4096).expect("a longer queue");
    listener
}

fn core(slow: &str) {
    let slow = Duration::from_secs_f64(slow.parse().expect("seconds"));
    let clock = Arc::new(SystemClock::new());
    let core = SimulatedCore::start(listener(), SimulatedConfig { slow, db: None, clock })
        .expect("a core");
    println!("ready http={}", core.url().trim_start_matches("http://"));
    loop {
        thread::park();
    }
}

/// A call and the reply to it: what every subject does, with or without a ledger.
struct Forward {
    layout: Layout,
    core: HttpCore,
}

impl Forward {
    fn answer(&self, telegram: &[u8], mut ledger: Option<&mut Connection>) -> Vec<u8> {
        let request = self.layout.decode_request(telegram).expect("a good telegram");
        if let Some(ledger) = ledger.as_deref_mut() {
            claim(ledger, &request).expect("a claim");
        }
        let reply = match self.core.transfer(&request) {
            Transfer::Done(body) => self.layout.done_reply(&request, &body, Utc::now()),
            _ => self.layout.error_reply(&request, Code::Unknown, Utc::now()),
        };
        if let Some(ledger) = ledger {
            record(ledger, &request, &reply).expect("a result");
        }
        reply
    }
}

impl Handler for Forward {
    fn route(&self, _: &hyper::Method, _: &str) -> Result<(), Response> {
        Ok(())
    }

    fn answer(&self, request: Request, tell: Tell) {
        let reply = Forward::answer(self, &request.body, None);
        let code = self.layout.reply_code(&reply).unwrap_or_default();
        let mut response = Response::new(200, "application/octet-stream", reply);
        response.headers.push(("oncegate-code", code));
        tell.tell(response);
    }
}

fn serve(core: &str, db: Option<&Path>) {
    // As the relay does for itself.
    scheduling::push_nobody_aside();
    let layout = Layout::std128();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let core = HttpCore::new(HttpCoreConfig {
        url: core.parse().expect("a URL"),
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(10),
        idle_max: Duration::from_secs(1),
        layout: layout.clone(),
        clock,
    })
    .expect("a core client");
    let forward = Arc::new(Forward { layout, core });
    let (tcp, http) = (listener(), listener());
    let limits = Limits { connections_max: 16_384, workers_max: 1_100, ..Limits::default() };
    println!(
        "ready tcp={} http={}",
        tcp.local_addr().expect("bound"),
        http.local_addr().expect("bound")
    );
    let _http = HttpServer::start(http, limits, Arc::clone(&forward) as _).expect("an HTTP server");
    if let Some(db) = db {
        ledger(db).expect("a ledger");
    }
    for stream in tcp.incoming() {
        let (forward, db) = (Arc::clone(&forward), db.map(Path::to_owned));
        let stream = stream.expect("a connection");
        let channel = move || {
            let ledger = db.map(|db| ledger(&db).expect("a ledger"));
            let _ = talk(&forward, stream, ledger);
        };
        thread::Builder::new().stack_size(512 * 1024).spawn(channel).expect("a thread");
    }
}

fn talk(
    forward: &Forward,
    mut stream: TcpStream,
    mut ledger: Option<Connection>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut framer = forward.layout.framer(65_536);
    let mut bytes = [0; 4096];
    loop {
        match framer.next().map_err(io::Error::other)? {
            Some(Frame::Telegram(telegram)) => {
                stream.write_all(&forward.answer(&telegram, ledger.as_mut()))?;
            }
            Some(Frame::Poll(poll)) => stream.write_all(&poll)?,
            None => match stream.read(&mut bytes)? {
                0 => return Ok(()),
                n => framer.push(&bytes[..n]),
            },
        }
    }
}

/// A connection as every thread of (b) has one: WAL, FULL, autocommit, SQLite's own busy handler.
fn ledger(db: &Path) -> rusqlite::Result<Connection> {
    let con = Connection::open(db)?;
    con.busy_timeout(Duration::from_secs(30))?;
    con.pragma_update(None, "journal_mode", "WAL")?;
    con.pragma_update(None, "synchronous", "FULL")?;
    con.execute_batch(include_str!("../../schema.sql"))?;
    Ok(con)
}

fn claim(con: &Connection, request: &oncegate::telegram::Request) -> rusqlite::Result<()> {
    let mut insert = con.prepare_cached(
        "INSERT INTO tx (guid, tx_code, state, request, attempts, updated_at) VALUES (?1, ?2, 'SENT', ?3, 1, datetime('now')) ON CONFLICT (guid) DO NOTHING",
    )?;
    let won =
        insert.execute(params![request.guid().as_str(), request.tx_code(), request.bytes()])?;
    assert_eq!(won, 1, "every GUID of the load is new");
    Ok(())
}

fn record(
    con: &Connection,
    request: &oncegate::telegram::Request,
    reply: &[u8],
) -> rusqlite::Result<()> {
    let mut update = con.prepare_cached(
        "UPDATE tx SET state = 'DONE', rsp_code = '0000', response = ?2, updated_at = datetime('now') WHERE guid = ?1 AND attempts = 1 AND state <> 'DONE'",
    )?;
    assert_eq!(update.execute(params![request.guid().as_str(), reply])?, 1, "the claim is ours");
    Ok(())
}
