//! A ledger of a million rows, half of them UNKNOWN, with the history that such rows leave. Made once, in one transaction.

use std::path::{Path, PathBuf};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::telegram::Layout;
use rusqlite::{Connection, params};

use crate::Anyhow;

/// Changes with whatever makes the ledger another one.
const NAME: &str = "million-1.db";
const ROWS: u64 = 1_000_000;
/// What the console opens on: UNKNOWN, FAILED, and SENT that is old.
pub const STUCK: u64 = 530_000;
/// Seconds between two of them: a month in all.
const PACE_S: f64 = 2.6;
const SEEN: [&str; 4] = [
    "read timeout after 3.0 s",
    "connection reset by peer after 61 bytes",
    "the answer names another GUID",
    "an empty answer",
];

/// Where it is; it is made if it is not there.
pub fn million() -> Anyhow<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-console");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(NAME);
    if path.exists() {
        return Ok(path);
    }
    let begun = Instant::now();
    let unfinished = directory.join("unfinished.db");
    let _ = std::fs::remove_file(&unfinished);
    fill(&unfinished)?;
    std::fs::rename(&unfinished, &path)?;
    println!("a ledger of {ROWS} rows made in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(path)
}

/// The GUID of the n-th row.
pub fn guid(n: u64) -> String {
    format!("20260928MOB{n:019}")
}

fn fill(path: &Path) -> Anyhow<()> {
    let mut con = Connection::open(path)?;
    con.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    con.execute_batch(include_str!("../../schema.sql"))?;
    let pattern = telegram(&guid(0));
    let guid_at = pattern.windows(30).position(|part| part == guid(0).as_bytes());
    let guid_at = guid_at.ok_or("the GUID is not in the telegram")?;
    let first = Utc::now() - TimeDelta::milliseconds((ROWS as f64 * PACE_S * 1e3) as i64);
    let all = con.transaction()?;
    for n in 0..ROWS {
        let at = ledger_time(first + TimeDelta::milliseconds((n as f64 * PACE_S * 1e3) as i64));
        let mut request = pattern.clone();
        request[guid_at..guid_at + 30].copy_from_slice(guid(n).as_bytes());
        put(&all, n, &at, &request)?;
    }
    all.commit()?;
    con.execute_batch("PRAGMA journal_mode = WAL")?;
    Ok(())
}

fn put(con: &Connection, n: u64, at: &str, request: &[u8]) -> rusqlite::Result<()> {
    let attempts = 1 + n.cast_signed() % 3;
    let (state, code) = match n % 100 {
        0..50 => ("UNKNOWN", Some("E901")),
        50..52 => ("FAILED", Some("E902")),
        52 => ("SENT", None),
        53 if n.is_multiple_of(10) => ("RECEIVED", None),
        _ => ("DONE", Some("0000")),
    };
    let response = code.map(|_| &request[..128]);
    con.prepare_cached(
        "INSERT INTO tx (guid, tx_code, state, rsp_code, request, response, attempts, updated_at)
         VALUES (?1, 'TRF00100', ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![guid(n), state, code, request, response, attempts, at])?;
    let seen = match state {
        "UNKNOWN" => SEEN[n as usize / 7 % SEEN.len()],
        "FAILED" => "connect refused: 10.9.0.4:9201",
        _ => return Ok(()),
    };
    con.prepare_cached(
        "INSERT INTO history (at, guid, from_state, to_state, attempt, cause, who, seen)
         VALUES (?1, ?2, 'SENT', ?3, ?4, 'relay', 'relay', ?5)",
    )?
    .execute(params![at, guid(n), state, attempts, seen])?;
    Ok(())
}

fn ledger_time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

fn telegram(guid: &str) -> Vec<u8> {
    let values = [
        ("guid", guid),
        ("std_ver", "01"),
        ("guid_hop", "1"),
        ("send_cnt", "1"),
        ("channel_id", "MOB"),
        ("req_dtm", "20260928093015123"),
        ("from_acct", "110123456789"),
        ("to_acct", "3020987654321"),
        ("amount", "150000"),
        ("memo", "RENT"),
        ("ttl_sec", "0"),
    ];
    let values =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Layout::std128().encode_request("TRF00100", &values).expect("our own telegram is well-formed")
}
