//! The list: a window of rows, a cursor and marks that are GUIDs. A refresh moves neither.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};

use crate::console::filter::Filter;
use crate::engine::desk::{Line, Lines};
use crate::guid::Guid;
use crate::ledger::survey::{Browse, Column, Part, Spot};
use crate::limits;

/// The list's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Which rows.
    pub filter: Filter,
    /// The order.
    pub column: Column,
    /// The other way round.
    pub descending: bool,
    /// The rows that are loaded.
    pub lines: Lines,
    /// The row under the cursor.
    pub cursor: Option<Guid>,
    /// Where that row stood, should it go.
    pub spot: Option<Spot>,
    /// The first loaded row that is shown.
    pub top: usize,
    /// The rows that are marked.
    pub marks: BTreeSet<Guid>,
    /// Where a range began.
    pub range: Option<Guid>,
    /// Rows that came while there were marks: they wait for a refresh that is asked for.
    pub waiting: u64,
    /// When the rows were read; none: not yet.
    pub as_of: Option<DateTime<Utc>>,
    /// The question whose answer is awaited.
    pub asked: Option<u64>,
    /// The question was asked by hand: its rows come in even where there are marks.
    pub by_hand: bool,
    /// Rows that the cursor has still to move, once they are loaded; negative: up.
    pub owed: isize,
}

impl Default for List {
    fn default() -> List {
        List {
            filter: Filter::default(),
            column: Column::Age,
            descending: false,
            lines: Lines::default(),
            cursor: None,
            spot: None,
            top: 0,
            marks: BTreeSet::new(),
            range: None,
            waiting: 0,
            as_of: None,
            asked: None,
            by_hand: true,
            owed: 0,
        }
    }
}

/// The place of a line in every order.
#[must_use]
pub fn spot(line: &Line) -> Spot {
    Spot { guid: line.guid.clone(), updated_at: line.updated_at.clone(), attempts: line.attempts }
}

/// Whether the place of `line` is within the loaded rows, or beyond them at an end where there are no others.
fn covers(lines: &Lines, line: &Line, browse: &Browse) -> bool {
    let (place, rows) = (spot(line), &lines.rows);
    let compare = |end: &Line| browse.compare(&place, &spot(end));
    let is_last = lines.before + rows.len() as u64 >= lines.total;
    (lines.before == 0 || rows.first().is_some_and(|first| compare(first).is_ge()))
        && (is_last || rows.last().is_some_and(|last| compare(last).is_le()))
}

impl List {
    /// The place of the cursor among the loaded rows.
    #[must_use]
    pub fn at(&self) -> Option<usize> {
        let cursor = self.cursor.as_ref()?;
        self.lines.rows.iter().position(|line| line.guid == *cursor)
    }

    /// The row under the cursor.
    #[must_use]
    pub fn line(&self) -> Option<&Line> {
        self.lines.rows.get(self.at()?)
    }

    /// Which part of the rows to load so that the cursor stays where it is.
    #[must_use]
    pub fn part(&self) -> Part {
        self.spot.clone().map_or(Part::Start, Part::Around)
    }

    /// Puts the cursor on a loaded row and keeps it on the screen.
    pub fn go(&mut self, at: usize, page: usize) {
        let at = at.min(self.lines.rows.len().saturating_sub(1));
        let Some(line) = self.lines.rows.get(at) else {
            (self.cursor, self.spot, self.top) = (None, None, 0);
            return;
        };
        self.cursor = Some(line.guid.clone());
        self.spot = Some(spot(line));
        self.keep_in_sight(at, page);
    }

    /// Moves the cursor by so many rows. What lies beyond the loaded ones is owed, at most a window of it: a key that is held
    /// down must neither stop at the window's end nor run on for long after it was let go.
    pub fn move_by(&mut self, by: isize, page: usize) {
        let end = self.lines.rows.len().saturating_sub(1).cast_signed();
        let is_more_after = self.lines.before + (self.lines.rows.len() as u64) < self.lines.total;
        let at = self.at().unwrap_or(0).cast_signed();
        let wanted = at.saturating_add(self.owed).saturating_add(by);
        let reached = wanted.clamp(0, end);
        let is_loaded_later =
            (wanted > end && is_more_after) || (wanted < 0 && self.lines.before > 0);
        let most = limits::WINDOW_ROWS.cast_signed();
        self.owed = if is_loaded_later { (wanted - reached).clamp(-most, most) } else { 0 };
        self.go(reached.cast_unsigned(), page);
    }

    /// Keeps the cursor's line on a page of `page` lines.
    pub fn keep_in_sight(&mut self, at: usize, page: usize) {
        let top_max = self.lines.rows.len().saturating_sub(page);
        self.top = self.top.clamp((at + 1).saturating_sub(page), at).min(top_max);
    }

    /// Whether rows beyond the loaded ones are near enough to be wanted.
    #[must_use]
    pub fn wants_more(&self, page: usize) -> bool {
        let Some(at) = self.at() else { return false };
        let (rows, before) = (self.lines.rows.len(), self.lines.before);
        let after = self.lines.total.saturating_sub(before + rows as u64);
        let margin = page.max(limits::WINDOW_ROWS / 8);
        (before > 0 && at < margin) || (after > 0 && at + margin >= rows)
    }

    /// Takes loaded rows in. The cursor stays on its row; if that is gone, it goes to the row above its place. Rows that are
    /// new wait while there are marks, unless they were asked for.
    pub fn take(&mut self, lines: Lines, now: DateTime<Utc>, page: usize) {
        let shift = self.at().map(|at| at.saturating_sub(self.top));
        let old_at = self.at();
        let browse = self.filter.browse(now, self.column, self.descending);
        if self.by_hand || self.marks.is_empty() || self.lines.rows.is_empty() {
            self.lines = lines;
            self.waiting = 0;
        } else {
            self.merge(&lines, &browse);
        }
        self.by_hand = false;
        self.as_of = Some(now);
        let above = |spot: &Spot| {
            let rows = &self.lines.rows;
            let after = rows.partition_point(|line| {
                let line = self::spot(line);
                browse.compare(&line, spot).is_lt()
            });
            after.saturating_sub(1)
        };
        let at = self.at().or_else(|| self.spot.as_ref().map(above)).or(old_at).unwrap_or(0);
        self.top = at.saturating_sub(shift.unwrap_or(0));
        self.go(at, page);
    }

    /// Renews the rows that are there; those that came stay out, those that went go. The new window may lie elsewhere than the
    /// old one, for the cursor has moved: of what only one of them covers, nothing is judged by its absence in the other.
    fn merge(&mut self, new: &Lines, browse: &Browse) {
        let old = std::mem::take(&mut self.lines);
        let renewed: HashMap<&Guid, &Line> =
            new.rows.iter().map(|line| (&line.guid, line)).collect();
        let known: BTreeSet<&Guid> = old.rows.iter().map(|line| &line.guid).collect();
        let kept = old.rows.iter().filter_map(|line| match renewed.get(&line.guid) {
            Some(line) => Some((*line).clone()),
            None => (!covers(new, line, browse)).then(|| line.clone()),
        });
        let mut rows: Vec<Line> = kept.collect();
        rows.sort_by(|a, b| browse.compare(&spot(a), &spot(b)));
        let is_new = |line: &&Line| !known.contains(&line.guid) && covers(&old, line, browse);
        self.waiting = new.rows.iter().filter(is_new).count() as u64;
        let first = rows.first().and_then(|f| new.rows.iter().position(|l| l.guid == f.guid));
        let before = first.map_or(old.before, |at| {
            let others = new.rows[..at].iter().filter(|line| !is_new(line)).count();
            new.before + others as u64
        });
        let total = new.total.saturating_sub(self.waiting);
        self.lines = Lines { rows, total, before, counts: new.counts.clone() };
    }

    /// Marks or unmarks a row.
    pub fn toggle(&mut self, guid: Guid) {
        if !self.marks.remove(&guid) && self.marks.len() < limits::MARKS_MAX {
            self.marks.insert(guid);
        }
    }

    /// Marks the rows between the beginning of a range and the cursor.
    pub fn end_range(&mut self) -> bool {
        let begun = self.range.take();
        let from = begun.and_then(|guid| self.lines.rows.iter().position(|line| line.guid == guid));
        let (Some(from), Some(to)) = (from, self.at()) else { return false };
        for line in &self.lines.rows[from.min(to)..=from.max(to)] {
            self.marks.insert(line.guid.clone());
        }
        true
    }

    /// The rows that an action is for: the marked ones, else the one under the cursor.
    #[must_use]
    pub fn chosen(&self) -> Vec<Guid> {
        if self.marks.is_empty() {
            self.cursor.iter().cloned().collect()
        } else {
            self.marks.iter().cloned().collect()
        }
    }
}
