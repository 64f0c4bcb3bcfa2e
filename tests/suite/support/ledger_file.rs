//! A ledger's file as other tools see it: plain SQL, no code of the program.

use std::path::{Path, PathBuf};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params};

/// A ledger's file, which may not be there yet.
#[derive(Clone, Debug)]
pub struct LedgerFile(PathBuf);

/// A row of `tx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxRow {
    pub state: String,
    pub rsp_code: Option<String>,
    pub attempts: i64,
    pub tx_code: String,
    pub request: Vec<u8>,
    pub response: Option<Vec<u8>>,
    pub updated_at: String,
}

/// A connection that is kept.
pub struct Look(Connection);

/// While it lives nobody else can write the ledger.
pub struct Locked(Connection);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.execute_batch("ROLLBACK");
    }
}

impl TxRow {
    /// State, code and attempts in one line: `DONE 0000 1`.
    pub fn told(&self) -> String {
        format!("{} {} {}", self.state, self.rsp_code.as_deref().unwrap_or("-"), self.attempts)
    }
}

impl LedgerFile {
    /// The ledger at `path`.
    pub fn at(path: PathBuf) -> LedgerFile {
        LedgerFile(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A connection of its own.
    pub fn open(&self) -> Connection {
        let con = Connection::open(&self.0).expect("the ledger's file");
        con.busy_timeout(super::wait::PATIENCE).expect("a timeout");
        con
    }

    /// A look into it that lasts: for thousands of questions.
    pub fn look(&self) -> Look {
        Look(self.open())
    }

    /// The row of this GUID.
    pub fn find(&self, guid: &str) -> Option<TxRow> {
        self.look().find(guid)
    }

    /// The row of this GUID, which is there.
    pub fn row(&self, guid: &str) -> TxRow {
        self.find(guid).unwrap_or_else(|| panic!("the ledger has no row {guid}"))
    }

    /// State, code and attempts in one line, or `nothing`.
    pub fn told(&self, guid: &str) -> String {
        self.look().told(guid)
    }

    /// The history of this GUID, a word a line: `relay SENT>FAILED`.
    pub fn history(&self, guid: &str) -> Vec<String> {
        self.look().history(guid)
    }

    /// What was seen of the core, in the last line of this GUID's history.
    pub fn last_seen(&self, guid: &str) -> String {
        let sql =
            "SELECT coalesce(seen, '-') FROM history WHERE guid = ?1 ORDER BY id DESC LIMIT 1";
        self.open().query_row(sql, [guid], |row| row.get(0)).expect("a line of history")
    }

    /// One number.
    pub fn number(&self, sql: &str) -> i64 {
        self.look().number(sql)
    }

    /// Changes it behind the program's back.
    pub fn change(&self, sql: &str, values: impl Params) -> usize {
        self.open().execute(sql, values).expect("a change")
    }

    /// Makes the row `seconds` older.
    pub fn age(&self, guid: &str, seconds: i64) {
        let sql = "UPDATE tx SET updated_at = datetime('now', ?1) WHERE guid = ?2";
        assert_eq!(self.change(sql, (format!("-{seconds} seconds"), guid)), 1);
    }

    /// Takes the write lock until the value is dropped.
    pub fn locked(&self) -> Locked {
        let con = self.open();
        con.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
        Locked(con)
    }

    /// Returns when a running relay has swept once more: an old SENT row of nobody is the canary.
    pub fn wait_for_sweep(&self, canary: &str) {
        let sql = "INSERT INTO tx (guid, tx_code, state, request, attempts, updated_at)
                   VALUES (?1, 'TRF00100', 'SENT', x'00', 1, datetime('now', '-1 day'))";
        self.change(sql, [canary]);
        super::wait::wait_until("a sweep", || self.row(canary).state == "UNKNOWN");
    }
}

impl Look {
    /// The row of this GUID.
    pub fn find(&self, guid: &str) -> Option<TxRow> {
        let sql = "SELECT state, rsp_code, attempts, tx_code, request, response, updated_at FROM tx WHERE guid = ?1";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(TxRow {
                state: row.get(0)?,
                rsp_code: row.get(1)?,
                attempts: row.get(2)?,
                tx_code: row.get(3)?,
                request: row.get(4)?,
                response: row.get(5)?,
                updated_at: row.get(6)?,
            })
        };
        self.statement(sql).query_row([guid], read).optional().expect("a row or none")
    }

    /// State, code and attempts in one line, or `nothing`.
    pub fn told(&self, guid: &str) -> String {
        self.find(guid).map_or_else(|| "nothing".to_owned(), |row| row.told())
    }

    /// The history of this GUID, as [`LedgerFile::history`] gives it.
    pub fn history(&self, guid: &str) -> Vec<String> {
        let sql = "SELECT cause || ' ' || from_state || '>' || coalesce(to_state, 'purged') FROM history WHERE guid = ?1 ORDER BY id";
        let mut statement = self.statement(sql);
        let lines = statement.query_map([guid], |row| row.get(0)).expect("the history");
        lines.map(|line| line.expect("a line")).collect()
    }

    /// One number.
    pub fn number(&self, sql: &str) -> i64 {
        self.statement(sql).query_row([], |row| row.get(0)).expect("a number")
    }

    fn statement(&self, sql: &str) -> CachedStatement<'_> {
        self.0.prepare_cached(sql).expect("a statement")
    }
}
