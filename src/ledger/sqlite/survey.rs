//! What [`Survey`] does on SQLite. Each text names one state, so that its partial index is used; windows are cut by key.

use std::fmt::Write;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use super::ballast::Need;
use super::statements::{ROW_COLUMNS, counts_within, has_table, line, prepare, read};
use super::{SqliteLedger, open, unreadable};
use crate::guid::Guid;
use crate::ledger::survey::{
    AGE_BOUNDS_S, Browse, Column, Noted, Numbers, Part, Reason, Spot, Survey, Told, TrailQuery,
    Watch, Window, minute,
};
use crate::ledger::{Counts, HistoryLine, LedgerError, Trail, ledger_time, parse_ledger_time};
use crate::limits;
use crate::state::State;

const LAST_SEEN: &str = "
SELECT seen
  FROM history
 WHERE guid = ?1
   AND seen IS NOT NULL
 ORDER BY id DESC
 LIMIT 1";

const HISTORY_COLUMNS: &str =
    "id, at, guid, from_state, to_state, attempt, cause, who, reason, seen";

/// The way back through the last hour: ids ascend with time, `at` has no index.
const NEWEST_TURNS: &str = "
SELECT at, to_state
  FROM history
 ORDER BY id DESC
 LIMIT ?1";

const NEWEST_REASONS: &str = "
SELECT h.guid, h.at, h.seen
  FROM (SELECT guid, at, to_state, attempt, seen
          FROM history
         ORDER BY id DESC
         LIMIT ?1) AS h
  JOIN tx ON tx.guid = h.guid
 WHERE h.seen IS NOT NULL
   AND h.to_state IN ('UNKNOWN', 'FAILED')
   AND tx.state = h.to_state
   AND tx.attempts = h.attempt";

const NOTE: &str = "
INSERT INTO history (at, guid, attempt, cause, who, reason, seen)
SELECT ?1, guid, attempts, ?3, ?4, ?5, ?6
  FROM tx
 WHERE guid = ?2";

/// With both ends as they are: behind an OR the upper one would end no search.
const NARROW: &str = "
SELECT count(*)
  FROM (SELECT 1
          FROM tx
         WHERE guid >= ?1
           AND guid < ?2
         LIMIT ?3)";

/// A prefix of the greatest characters only, which nothing can come after.
const NARROW_AT_THE_END: &str = "
SELECT count(*)
  FROM (SELECT 1
          FROM tx
         WHERE guid >= ?1
         LIMIT ?2)";

type Values = Vec<Box<dyn ToSql>>;

impl Survey for SqliteLedger {
    fn window(&self, browse: &Browse, part: &Part, rows_max: usize) -> Result<Window, LedgerError> {
        self.read(|con| {
            let snapshot = con.unchecked_transaction()?;
            let window = window(&snapshot, browse, part, rows_max)?;
            snapshot.finish()?;
            Ok(window)
        })
    }

    fn keys(&self, browse: &Browse, rows_max: usize) -> Result<Vec<Guid>, LedgerError> {
        self.read(|con| {
            let snapshot = con.unchecked_transaction()?;
            let look = Look::new(&snapshot, browse)?;
            let mut spots = Vec::new();
            for state in &browse.states {
                let by = look.by(*state, rows_max);
                let columns = spot_columns(browse.column);
                let (mut sql, mut values) = select(columns, *state, browse, by);
                order(&mut sql, &mut values, browse, by, false, rows_max);
                let mut statement = prepare(&snapshot, &sql)?;
                let found = statement.query_map(params_from_iter(values.iter()), spot)?;
                spots.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            snapshot.finish()?;
            spots.sort_by(|a, b| browse.compare(a, b));
            spots.truncate(rows_max);
            Ok(spots.into_iter().map(|spot| spot.guid).collect())
        })
    }

    fn trail(&self, query: &TrailQuery) -> Result<Vec<HistoryLine>, LedgerError> {
        self.read(|con| trail(con, query))
    }

    fn numbers(&self, now: DateTime<Utc>) -> Result<Numbers, LedgerError> {
        self.read(|con| numbers(con, now))
    }

    fn note(&self, guid: &Guid, trail: &Trail) -> Result<Noted, LedgerError> {
        let (guid, trail) = (guid.clone(), trail.clone());
        self.write(Need::Upkeep, limits::CLAIM_TRY_MS, move |con, now| {
            let written = con.prepare_cached(NOTE)?.execute(params![
                now,
                guid.as_str(),
                trail.cause.as_str(),
                trail.who,
                trail.reason,
                trail.seen,
            ])?;
            Ok(if written == 1 { Noted::Written } else { Noted::Gone })
        })
    }

    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError> {
        let failed = |error: &dyn std::fmt::Display| LedgerError::Failed(error.to_string());
        let con = open::reader(self.path()).map_err(|error| failed(&error))?;
        let files = open::Files::of(&self.readers.place).map_err(|error| failed(&error))?;
        Ok(Box::new(DataVersion { con, files, last: None }))
    }
}

/// `PRAGMA data_version` of a connection of its own: it changes with every commit of anybody else, and costs a look at the WAL's index.
struct DataVersion {
    con: Connection,
    files: open::Files,
    last: Option<i64>,
}

impl Watch for DataVersion {
    fn changed(&mut self) -> Result<bool, LedgerError> {
        // A file that was deleted or replaced answers as if nothing had happened.
        if !self.files.in_place() {
            return Err(LedgerError::Moved);
        }
        let version = self
            .con
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(|error| unreadable(&error))?;
        Ok(self.last.replace(version) != Some(version))
    }
}

/// What the order needs: the attempts stand in no index, and a hundred thousand rows are not read for them without need.
fn spot_columns(column: Column) -> &'static str {
    match column {
        Column::Age | Column::Guid => "guid, updated_at, 0",
        Column::Attempts => "guid, updated_at, attempts",
    }
}

fn spot(row: &rusqlite::Row<'_>) -> rusqlite::Result<Spot> {
    Ok(Spot {
        guid: Guid::from_ledger(row.get(0)?),
        updated_at: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
        attempts: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
    })
}

/// What is looked for, and what decides by which index.
struct Look<'a> {
    browse: &'a Browse,
    /// So few rows begin with the prefix that the key's own index finds them sooner than the state's.
    narrow: bool,
    counts: Counts,
}

/// By which index. SQLite keeps no statistics of a ledger: it would take any range of keys for a small one, and any order of keys
/// for a quick one, and read a million rows for a window of some hundred. So it is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The key's.
    Key,
    /// The state's; DONE has none.
    State,
}

impl<'a> Look<'a> {
    fn new(con: &Connection, browse: &'a Browse) -> rusqlite::Result<Look<'a>> {
        Ok(Look { browse, narrow: is_narrow(con, browse)?, counts: counts_within(con)? })
    }

    /// The index for `rows_max` rows of a state, in order.
    fn by(&self, state: State, rows_max: usize) -> By {
        let (rows, all) = (self.counts.of(state), self.counts.rows.iter().sum::<u64>());
        // In the key's order every all-th of rows is one of them; by the state's index all of them have to be sorted.
        let is_dense = self.browse.column == Column::Guid
            && self.browse.has_no_words()
            && u128::from(rows).pow(2) > rows_max as u128 * u128::from(all);
        if self.narrow || is_dense || state == State::Done { By::Key } else { By::State }
    }
}

fn window(
    con: &Connection,
    browse: &Browse,
    part: &Part,
    rows_max: usize,
) -> rusqlite::Result<Window> {
    let look = Look::new(con, browse)?;
    let mut rows = match part {
        Part::Start => side(con, &look, None, false, rows_max)?,
        Part::End => side(con, &look, None, true, rows_max)?,
        Part::Around(spot) => {
            let mut before = side(con, &look, Some(spot), true, rows_max)?;
            let after = side(con, &look, Some(spot), false, rows_max)?;
            // Half of them before the spot, more where the other side is short.
            let keep = (rows_max / 2).max(rows_max.saturating_sub(after.len()));
            before.drain(..before.len().saturating_sub(keep));
            before.extend(after);
            before
        }
    };
    rows.truncate(rows_max);
    let total = tally(con, &look, None)?;
    let before = match (rows.first(), part) {
        (Some(first), Part::Around(_)) => tally(con, &look, Some(&Spot::of(first)))?,
        (_, Part::End) => total.saturating_sub(rows.len() as u64),
        (_, Part::Start) | (None, _) => 0,
    };
    let rows = rows
        .into_iter()
        .map(|row| Ok(Told { seen: last_seen(con, &row.guid)?, row }))
        .collect::<rusqlite::Result<_>>()?;
    Ok(Window { rows, total, before, counts: look.counts })
}

/// At most `rows_max` rows in order: those at or after the spot, or (`back`) the last ones before it. No spot: from the end of the order.
fn side(
    con: &Connection,
    look: &Look<'_>,
    from: Option<&Spot>,
    back: bool,
    rows_max: usize,
) -> rusqlite::Result<Vec<crate::ledger::Row>> {
    let (mut rows, browse) = (Vec::new(), look.browse);
    for state in &browse.states {
        let by = look.by(*state, rows_max);
        let (mut sql, mut values) = select(ROW_COLUMNS, *state, browse, by);
        if let Some(spot) = from {
            beyond(&mut sql, &mut values, browse, by, spot, back);
        }
        order(&mut sql, &mut values, browse, by, back, rows_max);
        let mut statement = prepare(con, &sql)?;
        let found = statement.query_map(params_from_iter(values.iter()), read)?;
        rows.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    rows.sort_by(|a, b| browse.compare(&Spot::of(a), &Spot::of(b)));
    if back {
        rows.drain(..rows.len().saturating_sub(rows_max));
    } else {
        rows.truncate(rows_max);
    }
    Ok(rows)
}

/// Whether so few rows begin with the prefix that the key's own index finds them sooner than the state's.
fn is_narrow(con: &Connection, browse: &Browse) -> rusqlite::Result<bool> {
    let Some(prefix) = &browse.guid_prefix else { return Ok(false) };
    let most = limits::NARROW_ROWS_MAX;
    let rows: i64 = match super::statements::after_prefix(prefix) {
        Some(end) => {
            con.prepare_cached(NARROW)?.query_row(params![prefix, end, most], |row| row.get(0))?
        }
        None => con
            .prepare_cached(NARROW_AT_THE_END)?
            .query_row(params![prefix, most], |row| row.get(0))?,
    };
    Ok(rows < most)
}

impl By {
    /// What keeps a column out of the reach of an index: `+` before the state's, or before the key.
    fn pluses(self) -> (&'static str, &'static str) {
        match self {
            By::Key => ("+", ""),
            By::State => ("", "+"),
        }
    }
}

/// The text up to its conditions.
fn select(columns: &str, state: State, browse: &Browse, by: By) -> (String, Values) {
    let (plus, key_plus) = by.pluses();
    let mut sql = format!("SELECT {columns}\n  FROM tx\n WHERE {plus}state = '{state}'");
    let mut values: Values = Vec::new();
    let mut also = |clause: &str, value: String| {
        sql.push_str("\n   AND ");
        sql.push_str(clause);
        values.push(Box::new(value));
    };
    if let Some(until) = browse.until_of(state) {
        also("updated_at <= ?", until);
    }
    if let Some(since) = browse.since {
        also("updated_at > ?", ledger_time(since));
    }
    let key = format!("{key_plus}guid");
    for (column, prefix) in [(&*key, &browse.guid_prefix), ("tx_code", &browse.tx_prefix)] {
        let Some(prefix) = prefix else { continue };
        also(&format!("{column} >= ?"), prefix.clone());
        if let Some(end) = super::statements::after_prefix(prefix) {
            also(&format!("{column} < ?"), end);
        }
    }
    if let Some(code) = &browse.code {
        also("rsp_code = ?", code.clone());
    }
    if let Some(seen) = &browse.seen {
        let clause = "instr((SELECT h.seen FROM history AS h WHERE h.guid = tx.guid AND h.seen IS NOT NULL ORDER BY h.id DESC LIMIT 1), ?) > 0";
        also(clause, seen.clone());
    }
    (sql, values)
}

fn beyond(sql: &mut String, values: &mut Values, browse: &Browse, by: By, spot: &Spot, back: bool) {
    let compare = match (back, browse.descending) {
        (false, false) => ">=",
        (false, true) => "<=",
        (true, false) => "<",
        (true, true) => ">",
    };
    let guid = Box::new(spot.guid.as_str().to_owned());
    match browse.column {
        Column::Age => {
            let _ = write!(sql, "\n   AND (updated_at, guid) {compare} (?, ?)");
            values.push(Box::new(spot.updated_at.clone()));
        }
        Column::Guid => {
            let _ = write!(sql, "\n   AND {}guid {compare} ?", by.pluses().1);
        }
        Column::Attempts => {
            let _ = write!(sql, "\n   AND (attempts, guid) {compare} (?, ?)");
            values.push(Box::new(spot.attempts));
        }
    }
    values.push(guid);
}

fn order(
    sql: &mut String,
    values: &mut Values,
    browse: &Browse,
    by: By,
    back: bool,
    rows_max: usize,
) {
    let way = if browse.descending == back { "ASC" } else { "DESC" };
    let columns = match browse.column {
        Column::Age => format!("updated_at {way}, guid {way}"),
        Column::Guid => format!("{}guid {way}", by.pluses().1),
        Column::Attempts => format!("attempts {way}, guid {way}"),
    };
    let _ = write!(sql, "\n ORDER BY {columns}\n LIMIT ?");
    values.push(Box::new(i64::try_from(rows_max).unwrap_or(i64::MAX)));
}

/// How many rows there are, or stand before a spot. All rows of a state are counted by triggers; a part of them is counted in its index.
fn tally(con: &Connection, look: &Look<'_>, before: Option<&Spot>) -> rusqlite::Result<u64> {
    let (mut total, browse) = (0, look.browse);
    for (at, state) in State::ALL.into_iter().enumerate() {
        if !browse.states.contains(&state) {
            continue;
        }
        if before.is_none() && browse.is_whole(state) {
            total += look.counts.rows[at];
            continue;
        }
        // The state's index has the keys too: nothing but it is read.
        let by = if look.narrow || state == State::Done { By::Key } else { By::State };
        let (mut sql, mut values) = select("count(*)", state, browse, by);
        if let Some(spot) = before {
            beyond(&mut sql, &mut values, browse, by, spot, true);
        }
        let mut statement = con.prepare_cached(&sql)?;
        let rows: i64 = statement.query_row(params_from_iter(values.iter()), |row| row.get(0))?;
        total += u64::try_from(rows).unwrap_or(0);
    }
    Ok(total)
}

fn last_seen(con: &Connection, guid: &Guid) -> rusqlite::Result<Option<String>> {
    if !has_table(con, "history")? {
        return Ok(None);
    }
    con.prepare_cached(LAST_SEEN)?.query_row([guid.as_str()], |row| row.get(0)).optional()
}

fn trail(con: &Connection, query: &TrailQuery) -> rusqlite::Result<Vec<HistoryLine>> {
    if !has_table(con, "history")? {
        return Ok(Vec::new());
    }
    let mut sql = format!("SELECT {HISTORY_COLUMNS}\n  FROM history\n WHERE TRUE");
    let mut values: Values = Vec::new();
    for (column, prefix) in [("guid", &query.guid_prefix), ("who", &query.who_prefix)] {
        let Some(prefix) = prefix else { continue };
        let _ = write!(sql, "\n   AND {column} >= ?");
        values.push(Box::new(prefix.clone()));
        if let Some(end) = super::statements::after_prefix(prefix) {
            let _ = write!(sql, "\n   AND {column} < ?");
            values.push(Box::new(end));
        }
    }
    if let Some(cause) = &query.cause {
        sql.push_str("\n   AND cause = ?");
        values.push(Box::new(cause.clone()));
    }
    if let Some(before) = query.before {
        sql.push_str("\n   AND id < ?");
        values.push(Box::new(before));
    }
    sql.push_str("\n ORDER BY id DESC\n LIMIT ?");
    values.push(Box::new(i64::try_from(query.rows_max).unwrap_or(i64::MAX)));
    let mut statement = con.prepare_cached(&sql)?;
    statement.query_map(params_from_iter(values.iter()), line)?.collect()
}

fn numbers(con: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Numbers> {
    let snapshot = con.unchecked_transaction()?;
    let mut numbers = Numbers { counts: counts_within(&snapshot)?, ..Numbers::default() };
    for (at, state) in State::ALL.into_iter().enumerate().filter(|(_, s)| *s != State::Done) {
        // What is older than the last bound is the rest of what is kept: nobody counts a mountain that only grows.
        let sql = format!(
            "SELECT count(*) FROM tx WHERE state = '{state}' AND updated_at > ?1 AND updated_at <= ?2"
        );
        let mut statement = snapshot.prepare_cached(&sql)?;
        let (mut rest, mut until) = (numbers.counts.rows[at], char::MAX.to_string());
        for (class, bound) in AGE_BOUNDS_S.into_iter().enumerate() {
            let since = ledger_time(now - chrono::TimeDelta::seconds(bound));
            let rows: i64 = statement.query_row([&since, &until], |row| row.get(0))?;
            numbers.ages[at][class] = u64::try_from(rows).unwrap_or(0);
            rest = rest.saturating_sub(numbers.ages[at][class]);
            until = since;
        }
        numbers.ages[at][AGE_BOUNDS_S.len()] = rest;
    }
    if has_table(&snapshot, "history")? {
        per_minute(&snapshot, now, &mut numbers)?;
        numbers.reasons = reasons(&snapshot)?;
        numbers.last_lines = last_lines(&snapshot)?;
    }
    snapshot.finish()?;
    Ok(numbers)
}

fn per_minute(con: &Connection, now: DateTime<Utc>, numbers: &mut Numbers) -> rusqlite::Result<()> {
    let mut statement = con.prepare_cached(NEWEST_TURNS)?;
    let mut rows = statement.query([limits::SURVEY_LINES_MAX])?;
    while let Some(row) = rows.next()? {
        let (at, to): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let Some(at) = parse_ledger_time(&at) else { continue };
        let Some(minute) = minute(at, now) else { break };
        match to.as_deref() {
            Some("UNKNOWN") => numbers.unknown_per_minute[minute] += 1,
            Some("FAILED") => numbers.failed_per_minute[minute] += 1,
            _ => {}
        }
    }
    Ok(())
}

fn reasons(con: &Connection) -> rusqlite::Result<Vec<Reason>> {
    let mut found: std::collections::HashMap<String, Reason> = std::collections::HashMap::new();
    let mut guids = std::collections::HashSet::new();
    let mut statement = con.prepare_cached(NEWEST_REASONS)?;
    let mut rows = statement.query([limits::SURVEY_LINES_MAX])?;
    while let Some(row) = rows.next()? {
        let (guid, at, seen): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if !guids.insert(guid) {
            continue;
        }
        let reason = found.entry(seen.clone()).or_insert_with(|| Reason {
            seen,
            rows: 0,
            oldest: at.clone(),
        });
        reason.rows += 1;
        reason.oldest = at.min(std::mem::take(&mut reason.oldest));
    }
    let mut reasons: Vec<Reason> = found.into_values().collect();
    reasons.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| a.seen.cmp(&b.seen)));
    reasons.truncate(limits::REASONS_MAX);
    Ok(reasons)
}

fn last_lines(con: &Connection) -> rusqlite::Result<Vec<HistoryLine>> {
    let sql = format!(
        "SELECT {HISTORY_COLUMNS}\n  FROM (SELECT * FROM history ORDER BY id DESC LIMIT ?1)\n WHERE who <> 'relay'\n ORDER BY id DESC\n LIMIT ?2"
    );
    let mut statement = con.prepare_cached(&sql)?;
    let most = i64::try_from(limits::LAST_LINES_MAX).unwrap_or(i64::MAX);
    statement.query_map(params![limits::SURVEY_LINES_MAX, most], line)?.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    fn con() -> Connection {
        let con = Connection::open_in_memory().unwrap();
        con.execute_batch(include_str!("../../../schema.sql")).unwrap();
        con
    }

    /// How SQLite would answer: its plan, and whether it has to sort.
    fn plan(columns: &str, browse: &Browse, by: By, from: Option<&Spot>) -> (String, bool) {
        let (mut sql, mut values) = select(columns, browse.states[0], browse, by);
        if let Some(spot) = from {
            beyond(&mut sql, &mut values, browse, by, spot, false);
        }
        if columns != "count(*)" {
            order(&mut sql, &mut values, browse, by, false, 100);
        }
        let steps = explained(&sql, &values);
        (steps[0].clone(), steps.iter().any(|step| step.contains("TEMP B-TREE")))
    }

    fn explained(sql: &str, values: &Values) -> Vec<String> {
        let con = con();
        let mut statement = con.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map(params_from_iter(values.iter()), |row| row.get(3)).unwrap();
        steps.map(Result::unwrap).collect()
    }

    #[test]
    fn whether_a_prefix_is_narrow_is_seen_at_its_own_rows_only() {
        let texts = |texts: &[&str]| -> Values {
            texts.iter().map(|text| Box::new((*text).to_owned()) as Box<dyn ToSql>).collect()
        };
        let steps = explained(NARROW, &texts(&["a", "b", "9"]));
        assert!(steps.iter().any(|step| step.ends_with("(guid>? AND guid<?)")), "{steps:?}");
        let steps = explained(NARROW_AT_THE_END, &texts(&["a", "9"]));
        assert!(steps.iter().any(|step| step.ends_with("(guid>?)")), "{steps:?}");
    }

    #[test]
    fn each_question_is_answered_by_the_index_that_it_was_meant_for() {
        let spot = Spot {
            guid: Guid::from_ledger("G".to_owned()),
            updated_at: "2026-03-01 12:00:00".to_owned(),
            attempts: 1,
        };
        let all = Browse::of(&[State::Unknown]);
        let begins = Browse { guid_prefix: Some("2026".to_owned()), ..all.clone() };
        let by_key = Browse { column: Column::Guid, ..all.clone() };
        let cases = [
            // Marking all reads nothing but the index.
            (
                spot_columns(Column::Age),
                &all,
                By::State,
                None,
                "SCAN tx USING COVERING INDEX tx_unknown",
                false,
            ),
            (ROW_COLUMNS, &all, By::State, None, "SCAN tx USING INDEX tx_unknown", false),
            (
                ROW_COLUMNS,
                &all,
                By::State,
                Some(&spot),
                "SEARCH tx USING INDEX tx_unknown ((updated_at,guid)>(?,?))",
                false,
            ),
            // A wide prefix: the rows come in the order of their age and are left out one by one, none is sorted.
            (ROW_COLUMNS, &begins, By::State, None, "SCAN tx USING INDEX tx_unknown", false),
            (
                ROW_COLUMNS,
                &begins,
                By::Key,
                None,
                "SEARCH tx USING INDEX sqlite_autoindex_tx_1 (guid>? AND guid<?)",
                true,
            ),
            (
                ROW_COLUMNS,
                &by_key,
                By::Key,
                None,
                "SCAN tx USING INDEX sqlite_autoindex_tx_1",
                false,
            ),
            (ROW_COLUMNS, &by_key, By::State, None, "SCAN tx USING INDEX tx_unknown", true),
            // Counting reads nothing but the index.
            (
                "count(*)",
                &begins,
                By::State,
                None,
                "SCAN tx USING COVERING INDEX tx_unknown",
                false,
            ),
            (
                "count(*)",
                &all,
                By::State,
                Some(&spot),
                "SEARCH tx USING COVERING INDEX tx_unknown ((updated_at,guid)>(?,?))",
                false,
            ),
        ];
        for (columns, browse, by, from, step, sorts) in cases {
            assert_eq!(plan(columns, browse, by, from), (step.to_owned(), sorts), "{browse:?}");
        }
    }
}
