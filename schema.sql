-- The ledger of oncegate (SQLite). Can be applied any number of times; what is there is kept.
--
-- Other tools read `tx` with plain sqlite3: its first eight columns and their meanings are fixed.
-- Written by oncegate alone; states change only with the expected state and attempt in the WHERE.

PRAGMA application_id = 0x6f6e6365; -- "once"
PRAGMA user_version = 1;

-- One row per transfer. A rowid table on purpose: WITHOUT ROWID costs two thirds of the writing speed.
CREATE TABLE IF NOT EXISTS tx (
    guid       TEXT PRIMARY KEY,
    tx_code    TEXT,
    -- One by one: for an IN of more than two SQLite builds a table of them at each change, a tenth of all its work.
    state      TEXT NOT NULL CHECK (state = 'RECEIVED' OR state = 'SENT' OR state = 'DONE' OR state = 'UNKNOWN' OR state = 'FAILED'),
    rsp_code   TEXT,                -- the code of `response`; NULL in SENT and RECEIVED
    request    BLOB,                -- the first telegram under this GUID, as it came
    response   BLOB,                -- the reply telegram that goes with the state; NULL in SENT and RECEIVED
    attempts   INTEGER NOT NULL DEFAULT 1,
    updated_at TEXT NOT NULL,       -- datetime('now'), UTC
    owner      TEXT                 -- who holds the claim: the process that locks <ledger>.owner.<id>
);

-- One small index per state that is not final: they cost nothing on the way to DONE and find what is stuck at once.
CREATE INDEX IF NOT EXISTS tx_received ON tx (updated_at, guid) WHERE state = 'RECEIVED';
CREATE INDEX IF NOT EXISTS tx_sent     ON tx (updated_at, guid) WHERE state = 'SENT';
CREATE INDEX IF NOT EXISTS tx_unknown  ON tx (updated_at, guid) WHERE state = 'UNKNOWN';
CREATE INDEX IF NOT EXISTS tx_failed   ON tx (updated_at, guid) WHERE state = 'FAILED';

-- How many rows are in each state: kept by triggers, because counting ten million rows takes seconds.
CREATE TABLE IF NOT EXISTS tx_count (
    state TEXT PRIMARY KEY,
    rows  INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO tx_count (state, rows)
SELECT s.state, (SELECT count(*) FROM tx WHERE tx.state = s.state)
  FROM (SELECT 'RECEIVED' AS state UNION ALL SELECT 'SENT' UNION ALL SELECT 'DONE'
        UNION ALL SELECT 'UNKNOWN' UNION ALL SELECT 'FAILED') AS s
 WHERE NOT EXISTS (SELECT 1 FROM tx_count);

CREATE TRIGGER IF NOT EXISTS tx_count_insert AFTER INSERT ON tx
BEGIN
    UPDATE tx_count SET rows = rows + 1 WHERE state = NEW.state;
END;
CREATE TRIGGER IF NOT EXISTS tx_count_delete AFTER DELETE ON tx
BEGIN
    UPDATE tx_count SET rows = rows - 1 WHERE state = OLD.state;
END;
CREATE TRIGGER IF NOT EXISTS tx_count_update AFTER UPDATE OF state ON tx WHEN OLD.state IS NOT NEW.state
BEGIN
    UPDATE tx_count SET rows = rows - 1 WHERE state = OLD.state;
    UPDATE tx_count SET rows = rows + 1 WHERE state = NEW.state;
END;

-- Every change of state but the plain way SENT -> DONE of a first attempt. Nothing updates or deletes it.
CREATE TABLE IF NOT EXISTS history (
    id         INTEGER PRIMARY KEY,
    at         TEXT NOT NULL,       -- UTC
    guid       TEXT NOT NULL,
    from_state TEXT,
    to_state   TEXT,                -- NULL: purged
    attempt    INTEGER,
    cause      TEXT NOT NULL,       -- relay, orphan, resolve, reprocess, purge; note, reveal
    who        TEXT NOT NULL,       -- user@host, or relay
    reason     TEXT,                -- the operator's
    seen       TEXT                 -- what was seen of the core
);
CREATE INDEX IF NOT EXISTS history_guid ON history (guid);

CREATE TRIGGER IF NOT EXISTS history_keeps_its_rows BEFORE DELETE ON history
BEGIN
    SELECT RAISE(ABORT, 'history is append-only: it deletes nothing');
END;
CREATE TRIGGER IF NOT EXISTS history_keeps_its_words BEFORE UPDATE ON history
BEGIN
    SELECT RAISE(ABORT, 'history is append-only: it changes nothing');
END;
CREATE TRIGGER IF NOT EXISTS history_replaces_nothing BEFORE INSERT ON history
WHEN EXISTS (SELECT 1 FROM history WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'history is append-only: it replaces nothing');
END;

-- Which ledger this is and how far it has come (ledger_id, mark): compared with <ledger>.mark, to recognise an old copy.
CREATE TABLE IF NOT EXISTS setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What remains of a purged row, so that a late resend is told E906 and is not paid again.
CREATE TABLE IF NOT EXISTS purged (
    guid     TEXT PRIMARY KEY,
    rsp_code TEXT,
    at       TEXT NOT NULL
) WITHOUT ROWID;

-- What the wall clock did: ages are counted by it, and a jump forward would make a fresh row old. The first look of each run of
-- the machine leaves a row with 0 seconds, each jump that somebody sees later one with its length.
CREATE TABLE IF NOT EXISTS clock_jump (
    id       INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,         -- when it was seen, by the clock that had jumped; UTC
    seconds  INTEGER NOT NULL,      -- forward; negative: back
    run      TEXT NOT NULL,         -- the run of the machine
    ahead_ms INTEGER NOT NULL,      -- by how much the wall clock is ahead of the time since the machine's start
    seen_by  TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS clock_jump_run ON clock_jump (run, id);
