//! What the tests of the ledger share: a clock that is moved by hand, both ledgers behind one face, and short ways to say
//! what is claimed, recorded and settled.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use oncegate::clock::Clock;
use oncegate::guid::{Attempt, Guid};
use oncegate::ledger::memory::MemoryLedger;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::ledger::{
    CallResult, Cause, Claim, ClaimFailed, Claimed, Found, Ledger, Orphan, OwnerId, Record, Row,
    Settle, Settled, Trail, ledger_time,
};
use oncegate::state::State;
use rusqlite::Connection;
use tempfile::TempDir;

/// A clock that stands still until it is moved.
pub struct HandClock(AtomicI64);

impl HandClock {
    /// A summer's day.
    pub fn new() -> Arc<HandClock> {
        Arc::new(HandClock(AtomicI64::new(1_785_000_000)))
    }

    /// Moves it on (or back).
    pub fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The time as the ledger writes it.
    pub fn text(&self) -> String {
        ledger_time(self.now())
    }
}

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.0.load(Ordering::SeqCst), 0).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A directory that vanishes; in memory where there is such a place, since most tests do not wait for a disk.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A new, empty ledger file, made once and copied: making one takes a dozen commits.
pub fn empty_ledger(dir: &Path) -> PathBuf {
    static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let dir = scratch();
        let path = dir.path().join("l.db");
        let serve = Access::Serve { must_exist: false };
        drop(SqliteLedger::open(&path, serve, HandClock::new(), Hooks::default()).unwrap());
        std::fs::read(path).unwrap()
    });
    let path = dir.join("l.db");
    std::fs::write(&path, &*EMPTY).unwrap();
    path
}

/// A ledger under test, its clock, and a back door through which another program writes.
pub struct Subject {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<HandClock>,
    pub back_door: BackDoor,
}

pub enum BackDoor {
    Memory(Arc<MemoryLedger>),
    File { con: Mutex<Connection>, _dir: TempDir },
}

impl Subject {
    pub fn memory() -> Subject {
        let clock = HandClock::new();
        let ledger = Arc::new(MemoryLedger::new(clock.clone()));
        let back_door = BackDoor::Memory(Arc::clone(&ledger));
        Subject { ledger, clock, back_door }
    }

    pub fn sqlite() -> Subject {
        let (clock, dir) = (HandClock::new(), scratch());
        let path = empty_ledger(dir.path());
        let (ledger, _) =
            SqliteLedger::open(&path, Access::Routine, clock.clone(), Hooks::default()).unwrap();
        let back_door =
            BackDoor::File { con: Mutex::new(Connection::open(&path).unwrap()), _dir: dir };
        Subject { ledger: Arc::new(ledger), clock, back_door }
    }

    /// Writes a row as another program would.
    pub fn put(&self, row: &Row) {
        match &self.back_door {
            BackDoor::Memory(ledger) => ledger.put(row.clone()),
            BackDoor::File { con, .. } => put(&con.lock().unwrap(), row),
        }
    }

    /// A row in `state` under `guid`, changed now, with this attempt.
    pub fn row(&self, guid: &str, state: State, attempt: i64) -> Row {
        let code = match state {
            State::Received | State::Sent => None,
            State::Done => Some("0000"),
            State::Unknown => Some("E901"),
            State::Failed => Some("E902"),
        };
        Row {
            guid: id(guid),
            tx_code: "TRF00100".to_owned(),
            state,
            rsp_code: code.map(str::to_owned),
            request: request(guid),
            response: code.map(|code| code.as_bytes().to_vec()),
            attempt: Attempt(attempt),
            updated_at: self.clock.text(),
            owner: None,
        }
    }

    /// The row under `guid`, which must be there.
    pub fn get(&self, guid: &str) -> Row {
        match self.ledger.find(&id(guid)).unwrap() {
            Found::Row(row) => *row,
            other => panic!("{guid}: {other:?}"),
        }
    }

    /// The history under `guid`: from, to, attempt, cause.
    pub fn story(&self, guid: &str) -> Vec<String> {
        let word = |state: Option<String>| state.unwrap_or_else(|| "-".to_owned());
        let lines = self.ledger.history(&id(guid)).unwrap();
        let tell = |line: oncegate::ledger::HistoryLine| {
            let (from, to) = (word(line.from_state), word(line.to_state));
            format!("{from}>{to} {} {}", line.attempt.unwrap(), line.cause)
        };
        lines.into_iter().map(tell).collect()
    }
}

/// Writes a row through plain SQL.
pub fn put(con: &Connection, row: &Row) {
    con.execute(
        "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at, owner)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (guid) DO UPDATE
            SET tx_code = ?2, state = ?3, rsp_code = ?4, request = ?5, response = ?6, attempts = ?7,
                updated_at = ?8, owner = ?9",
        rusqlite::params![
            row.guid.as_str(),
            row.tx_code,
            row.state.as_str(),
            row.rsp_code,
            row.request,
            row.response,
            row.attempt.0,
            row.updated_at,
            row.owner.as_ref().map(OwnerId::as_str),
        ],
    )
    .unwrap();
}

pub fn id(guid: &str) -> Guid {
    Guid::from_ledger(guid.to_owned())
}

pub fn request(guid: &str) -> Vec<u8> {
    format!("request {guid}").into_bytes()
}

pub fn owner(name: &str) -> OwnerId {
    OwnerId::from_ledger(name.to_owned())
}

pub fn trail(cause: Cause) -> Trail {
    Trail {
        cause,
        who: "op@host".to_owned(),
        reason: Some("because".to_owned()),
        seen: Some("seen".to_owned()),
    }
}

pub fn claim(guid: &str) -> Claim {
    Claim {
        guid: id(guid),
        tx_code: "TRF00100".to_owned(),
        request: request(guid),
        owner: owner("1-a-1"),
    }
}

/// Claims a GUID that is not there.
pub fn claimed(ledger: &dyn Ledger, guid: &str) {
    assert_eq!(ledger.claim(&claim(guid)).unwrap(), Claimed::Claimed(Attempt::FIRST), "{guid}");
}

pub fn again(guid: &str) -> ClaimFailed {
    ClaimFailed { guid: id(guid), owner: owner("2-b-1"), only: None, trail: trail(Cause::Relay) }
}

pub fn record(guid: &str, attempt: i64, result: CallResult) -> Record {
    Record {
        guid: id(guid),
        attempt: Attempt(attempt),
        result,
        response: format!("reply {}", result.code()).into_bytes(),
        trail: trail(Cause::Relay),
    }
}

pub fn settle(guid: &str, attempt: i64, result: Settled) -> Settle {
    Settle {
        guid: id(guid),
        attempt: Attempt(attempt),
        result,
        response: format!("{result:?}").into_bytes(),
        trail: trail(Cause::Resolve),
    }
}

/// The orphan that a look at `row` would report.
pub fn orphan(row: &Row) -> Orphan {
    Orphan {
        guid: row.guid.clone(),
        from: row.state,
        attempt: row.attempt,
        owner: row.owner.clone(),
        updated_at: row.updated_at.clone(),
        response: Some(b"swept".to_vec()),
        trail: trail(Cause::Orphan),
    }
}

/// Polls until `condition` holds; fails after ten seconds.
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
