//! The simulated core's books: what was asked, what was posted, and the file in which postings survive.
//!
//! The file is a line of JSON per posting, appended before the posting counts. It is not synced: it has to survive the end of this
//! process, also by kill -9, and for that the bytes need only be written; a simulated core's power is not cut. A torn last line was
//! never answered and is cut off.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Clock;

/// What an account that was never seen holds.
const OPENING_BALANCE: i64 = 2_500_000;

/// The largest balance of 13 digits, as the default layout's field takes.
const BALANCE_MAX: i64 = 9_999_999_999_999;

/// A transfer as it was asked for. Fields that another layout does not have are empty.
pub(super) struct Order {
    pub guid: String,
    pub memo: String,
    from_acct: String,
    to_acct: String,
    amount: i64,
}

/// A posting as the core answers it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Posting {
    guid: String,
    core_tx_id: String,
    posted_dtm: String,
    bal_sign: String,
    balance: u64,
    status: String,
}

/// What a simulated core has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// POSTs received whole.
    pub calls: u64,
    /// Postings that took effect, those of earlier lives included.
    pub transfers: u64,
    /// Inquiries.
    pub inquiries: u64,
    /// POSTs received whole, by GUID.
    pub by_guid: BTreeMap<String, u64>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    from_acct: String,
    to_acct: String,
    amount: i64,
    posting: Posting,
}

/// The books of one core. Every method is one step: two threads never see half of another's.
pub(super) struct Books {
    clock: Arc<dyn Clock>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    calls: u64,
    transfers: u64,
    inquiries: u64,
    by_guid: HashMap<String, u64>,
    /// The last posting of each GUID.
    posted: HashMap<String, Posting>,
    balances: HashMap<String, i64>,
    file: Option<File>,
}

impl Order {
    /// The order in a request's JSON; `None` without a GUID.
    pub(super) fn parse(body: &[u8]) -> Option<Order> {
        let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let text =
            |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Order {
            guid: object.get("guid")?.as_str()?.to_owned(),
            memo: text("memo"),
            from_acct: text("from_acct"),
            to_acct: text("to_acct"),
            amount: object.get("amount").and_then(Value::as_i64).unwrap_or_default(),
        })
    }
}

impl Posting {
    /// The same under a GUID of the same length that is not this one.
    pub(super) fn with_another_guid(self) -> Posting {
        let guid = self.guid.chars().map(|c| if c == '9' { '8' } else { '9' }).collect();
        Posting { guid, ..self }
    }
}

impl Books {
    /// New books, or those in the file at `path`.
    pub(super) fn open(path: Option<&Path>, clock: Arc<dyn Clock>) -> io::Result<Books> {
        let mut open = Open::default();
        if let Some(path) = path {
            open.file = Some(
                open.read_file(path)
                    .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?,
            );
        }
        Ok(Books { clock, open: Mutex::new(open) })
    }

    /// Counts a POST that was received whole.
    pub(super) fn count_call(&self, order: Option<&Order>) {
        let mut open = self.lock();
        open.calls += 1;
        if let Some(order) = order {
            *open.by_guid.entry(order.guid.clone()).or_default() += 1;
        }
    }

    /// Makes the transfer, again if it was made before. Written before it counts; an error means that it was not made.
    pub(super) fn post(&self, order: &Order) -> io::Result<Posting> {
        let posted_dtm = self.clock.now().format("%Y%m%d%H%M%S").to_string();
        let mut open = self.lock();
        let entry = open.entry(order, posted_dtm);
        open.append(&entry)?;
        Ok(open.apply(entry))
    }

    /// Counts an inquiry, and answers it.
    pub(super) fn inquire(&self, guid: &str) -> Option<Posting> {
        let mut open = self.lock();
        open.inquiries += 1;
        open.posted.get(guid).cloned()
    }

    pub(super) fn stats(&self) -> Stats {
        let open = self.lock();
        Stats {
            calls: open.calls,
            transfers: open.transfers,
            inquiries: open.inquiries,
            by_guid: open.by_guid.iter().map(|(guid, calls)| (guid.clone(), *calls)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nothing panics while it holds this lock")
    }
}

impl Open {
    fn balance(&self, account: &str) -> i64 {
        self.balances.get(account).copied().unwrap_or(OPENING_BALANCE)
    }

    fn entry(&self, order: &Order, posted_dtm: String) -> Entry {
        let balance = added(self.balance(&order.from_acct), -order.amount);
        Entry {
            from_acct: order.from_acct.clone(),
            to_acct: order.to_acct.clone(),
            amount: order.amount,
            posting: Posting {
                guid: order.guid.clone(),
                core_tx_id: format!("T{:013}", self.transfers + 1),
                posted_dtm,
                bal_sign: if balance < 0 { "-" } else { "+" }.to_owned(),
                balance: balance.unsigned_abs(),
                status: "C".to_owned(),
            },
        }
    }

    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let before = file.metadata()?.len();
        file.write_all(&line).inspect_err(|_| {
            // Half a line must not run into the next one; if this fails too, the next start names the line.
            let _ = file.set_len(before);
        })
    }

    fn apply(&mut self, entry: Entry) -> Posting {
        let from = added(self.balance(&entry.from_acct), -entry.amount);
        self.balances.insert(entry.from_acct, from);
        let to = added(self.balance(&entry.to_acct), entry.amount);
        self.balances.insert(entry.to_acct, to);
        self.transfers += 1;
        self.posted.insert(entry.posting.guid.clone(), entry.posting.clone());
        entry.posting
    }

    /// Applies what the file at `path` holds, and returns it open for appending, locked against a second core.
    fn read_file(&mut self, path: &Path) -> io::Result<File> {
        let mut file = File::options().read(true).append(true).create(true).open(path)?;
        file.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => {
                io::Error::new(ErrorKind::ResourceBusy, "another core is using it")
            }
            TryLockError::Error(e) => e,
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for (n, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let entry = serde_json::from_slice(line).map_err(|e| {
                io::Error::new(ErrorKind::InvalidData, format!("line {}: no posting: {e}", n + 1))
            })?;
            self.apply(entry);
        }
        if whole < bytes.len() && !is_torn_entry(&bytes[whole..]) {
            return Err(io::Error::new(ErrorKind::InvalidData, "its end is no posting"));
        }
        file.set_len(whole as u64)?;
        Ok(file)
    }
}

/// Whether this may be the beginning of a line of ours: another file must not be cut.
fn is_torn_entry(line: &[u8]) -> bool {
    const START: &[u8] = br#"{"from_acct":"#;
    line.starts_with(START) || START.starts_with(line)
}

fn added(balance: i64, amount: i64) -> i64 {
    balance.saturating_add(amount).clamp(-BALANCE_MAX, BALANCE_MAX)
}
