//! Opening: is this file a ledger, is it ours to write, and does SQLite do what it was told?
//!
//! A wrong path opens as an empty database, and every GUID would be forgotten; so a file is looked at before anything is
//! written to it, a new ledger gets its name only when it is whole, and each PRAGMA is read back.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::writer::{self, Writer};
use crate::ledger::LedgerError;
use crate::limits;

const SCHEMA: &str = include_str!("../../../schema.sql");
/// "once": what `PRAGMA application_id` says of a ledger of ours.
const APPLICATION_ID: i64 = 0x6f6e_6365;
/// The schema's version; a newer one was written by a newer program.
const USER_VERSION: i64 = 1;
/// What every ledger has, whoever made it.
const COLUMNS: [&str; 8] =
    ["guid", "tx_code", "state", "rsp_code", "request", "response", "attempts", "updated_at"];

/// What a ledger is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By the relay: a missing ledger is created, unless `must_exist`.
    Serve {
        /// Refuse a missing ledger.
        must_exist: bool,
    },
    /// By a routine: read and write, never create.
    Routine,
    /// To look at: SQLite itself refuses to write.
    Read,
}

/// Whether the ledger is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was not there: every GUID is new to it.
    New,
    /// It was there.
    Existing,
}

/// Why a file was not opened as a ledger. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing at the path.
    #[error("no ledger at {}: the file does not exist", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// There is a file, and it is none.
    #[error("{} is no ledger: {why}", path.display())]
    NotALedger {
        /// The path.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Written by a newer program.
    #[error("{} has schema version {version}, this program knows {USER_VERSION}: use a newer oncegate", path.display())]
    TooNew {
        /// The path.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file or its directory refused.
    #[error("can't open the ledger {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It can't be written (or read) just now.
    #[error("can't use the ledger {}: {source}{}", path.display(), remedy(source))]
    Ledger {
        /// The path.
        path: PathBuf,
        /// Why.
        source: LedgerError,
    },
    /// SQLite did not do as it was told.
    #[error("{}: PRAGMA {pragma} is {found}, not {wanted}", path.display())]
    Pragma {
        /// The path.
        path: PathBuf,
        /// Which.
        pragma: &'static str,
        /// What it says.
        found: String,
        /// What it has to say.
        wanted: &'static str,
    },
}

fn remedy(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::ReadOnly(_) => {
            "; the file, its directory and its -wal and -shm files must be writable by this user (a program of another user may have left them)"
        }
        LedgerError::Busy => "; another program holds its write lock: see who has the file open",
        LedgerError::Full => "; make room first",
        LedgerError::Moved
        | LedgerError::SyncFailed(_)
        | LedgerError::Failed(_)
        | LedgerError::Closed => "",
    }
}

/// Which file it is, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<FileId> {
        fs::metadata(path).map(|meta| FileId(meta.dev(), meta.ino()))
    }

    /// Whether this file still has that name. A ledger that was deleted or replaced takes commits as if nothing had happened.
    pub(super) fn is_at(self, path: &Path) -> bool {
        FileId::of(path).is_ok_and(|now| now == self)
    }
}

/// Makes sure that there is a ledger at `path`: creates one where that is allowed, and refuses what is none.
pub(super) fn prepare(path: &Path, access: Access) -> Result<Created, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(_) => check(path).map(|()| Created::Existing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match access {
            Access::Serve { must_exist: false } => create(path),
            Access::Serve { must_exist: true } | Access::Routine | Access::Read => {
                Err(OpenError::Missing { path: path.to_owned() })
            }
        },
        Err(error) => Err(io(error)),
    }
}

/// A new ledger is made whole under another name and then linked to its own: whoever is killed meanwhile leaves no half ledger.
fn create(path: &Path) -> Result<Created, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let mut unnamed = path.as_os_str().to_owned();
    unnamed.push(format!(".new-{}", std::process::id()));
    let unnamed = PathBuf::from(unnamed);
    let _ = fs::remove_file(&unnamed);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unnamed).map_err(io)?;
    let made = make(&unnamed).map_err(|error| ledger_error(path, &error));
    let linked = made.and_then(|()| match fs::hard_link(&unnamed, path) {
        Ok(()) => Ok(Created::New),
        // Another relay was quicker: then that is the ledger.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check(path).map(|()| Created::Existing)
        }
        Err(error) => Err(io(error)),
    });
    fs::remove_file(&unnamed).map_err(io)?;
    let created = linked?;
    sync_directory(path).map_err(io)?;
    Ok(created)
}

fn make(unnamed: &Path) -> rusqlite::Result<()> {
    let con = Connection::open_with_flags(unnamed, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    con.execute_batch("PRAGMA synchronous = FULL")?;
    con.pragma_update(None, "journal_mode", "WAL")?;
    con.execute_batch(SCHEMA)?;
    con.close().map_err(|(_, error)| error)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Looks at a file without changing a byte of it: is it a ledger?
fn check(path: &Path) -> Result<(), OpenError> {
    let not = |why: String| OpenError::NotALedger { path: path.to_owned(), why };
    let meta =
        fs::metadata(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    if !meta.is_file() {
        return Err(not("it is no file".to_owned()));
    }
    if meta.len() == 0 {
        return Err(not("it is empty".to_owned()));
    }
    let con = reader(path)?;
    let columns = columns(&con).map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => not("it is no SQLite database".to_owned()),
        _ => ledger_error(path, &error),
    })?;
    if columns.is_empty() {
        return Err(not("it has no table tx".to_owned()));
    }
    if let Some(missing) = COLUMNS.iter().find(|name| !columns.iter().any(|c| c == *name)) {
        return Err(not(format!("its table tx has no column {missing}")));
    }
    check_version(path, &con)
}

fn check_version(path: &Path, con: &Connection) -> Result<(), OpenError> {
    let number = |pragma| {
        con.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|error| ledger_error(path, &error))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    // A bare ledger of another program has neither; a file that names another application is that one's.
    if application != 0 && application != APPLICATION_ID {
        let why = format!("it belongs to another application (application_id {application:#x})");
        return Err(OpenError::NotALedger { path: path.to_owned(), why });
    }
    if application == APPLICATION_ID && version > USER_VERSION {
        return Err(OpenError::TooNew { path: path.to_owned(), version });
    }
    Ok(())
}

fn columns(con: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = con.prepare("SELECT name FROM pragma_table_info('tx')")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// The connection that writes: schema applied, PRAGMAs read back, one real write done.
pub(super) fn writer(path: &Path, hooks: super::Hooks) -> Result<Writer, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let file = FileId::of(path).map_err(io)?;
    let con = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    con.busy_timeout(Duration::from_millis(limits::CLAIM_TRY_MS))
        .and_then(|()| upgrade(&con))
        .map_err(|error| ledger_error(path, &error))?;
    settings(path, &con)?;
    // From here on the writer's own loop waits for locks, job by job.
    con.busy_timeout(Duration::ZERO).map_err(|error| ledger_error(path, &error))?;
    if !file.is_at(path) {
        return Err(OpenError::Ledger { path: path.to_owned(), source: LedgerError::Moved });
    }
    Ok(Writer::start(con, path.to_owned(), file, hooks))
}

/// Applies the schema, adds the column that a bare ledger lacks, and rewrites `user_version`: a real write, which fails here
/// and not at the first payment.
fn upgrade(con: &Connection) -> rusqlite::Result<()> {
    con.pragma_update(None, "journal_mode", "WAL")?;
    con.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")?;
    if !columns(con)?.iter().any(|name| name == "owner") {
        con.execute_batch("ALTER TABLE tx ADD COLUMN owner TEXT")?;
    }
    con.execute_batch(SCHEMA)?;
    con.execute_batch("UPDATE tx_count SET rows = rows; COMMIT")
}

fn settings(path: &Path, con: &Connection) -> Result<(), OpenError> {
    let set = |pragma, value: &str| {
        con.pragma_update(None, pragma, value).map_err(|error| ledger_error(path, &error))
    };
    set("journal_size_limit", &limits::WAL_BYTES_KEPT.to_string())?;
    set("trusted_schema", "OFF").or_else(|_| set("trusted_schema", "0"))?;
    for (pragma, wanted) in [("journal_mode", "wal"), ("synchronous", "2"), ("user_version", "1")] {
        let found = con
            .pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0))
            .map_err(|error| ledger_error(path, &error))?;
        let found = match found {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        if found != wanted {
            return Err(OpenError::Pragma { path: path.to_owned(), pragma, found, wanted });
        }
    }
    Ok(())
}

/// A connection that reads; SQLite itself refuses writes on it.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let con = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    con.busy_timeout(Duration::from_millis(limits::READER_BUSY_MS))
        .map_err(|error| ledger_error(path, &error))?;
    Ok(con)
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| ledger_error(path, &error))
}

fn ledger_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    OpenError::Ledger { path: path.to_owned(), source: writer::name(error) }
}
