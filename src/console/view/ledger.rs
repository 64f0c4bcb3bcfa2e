//! The list of rows, with the row under the cursor beside it where there is room.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{boxed, detail};
use crate::console::app::App;
use crate::console::filter::Filter;
use crate::console::text::{age, fill, grouped, left, middle, right, time, width, wrapped};
use crate::console::theme::symbol;
use crate::engine::desk::{Line, age_s};

/// From so many columns on there is room for two panes.
const TWO_PANES: u16 = 100;
/// The detail pane's width beside the list.
const DETAIL_COLUMNS: u16 = 34;

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    if app.looking.open {
        return detail::draw(app, buf, body);
    }
    if body.width < TWO_PANES || app.looking.zoom {
        return list(app, buf, body);
    }
    let beside = DETAIL_COLUMNS + (body.width - TWO_PANES) / 5;
    let list_area = Rect { width: body.width - beside, ..body };
    list(app, buf, list_area);
    let area = Rect { x: body.x + list_area.width, width: beside, ..body };
    detail::draw_facts(app, buf, area, false);
}

fn list(app: &App, buf: &mut Buffer, area: Rect) {
    let words = app.words();
    let note = app.list.as_of.map(|at| time(at, app.look.local)).unwrap_or_default();
    let mut pen = boxed(app, buf, area, words.rows, &note, true);
    if app.list.lines.rows.is_empty() {
        return empty(app, &mut pen);
    }
    let theme = app.look.theme;
    let shown: Vec<&Line> =
        app.list.lines.rows.iter().skip(app.list.top).take(app.page()).collect();
    let columns = Columns::fit(pen.width(), &shown);
    pen.line(0, &columns.heads(app), theme.title());
    for (row, line) in shown.into_iter().enumerate() {
        let is_cursor = app.list.cursor.as_ref() == Some(&line.guid);
        let is_marked = app.list.marks.contains(&line.guid);
        let text = columns.line(app, line, is_cursor, is_marked);
        let style = if is_marked { theme.marked() } else { theme.plain() };
        pen.line(row + 1, &text, style);
        pen.at(3, row + 1, STATE, &state(line), theme.state(line.state));
        if is_cursor {
            pen.style(row + 1, theme.cursor());
        }
    }
}

fn state(line: &Line) -> String {
    format!("{} {}", symbol(line.state), line.state)
}

/// Cells of the longest state with its letter and symbol.
const STATE: usize = 12;
/// Cells that a reason needs to say something.
const REASON_LEAST: usize = 14;

/// How wide the columns are.
struct Columns {
    guid: usize,
    tx: usize,
    code: usize,
    attempts: usize,
    amount: usize,
    reason: usize,
}

impl Columns {
    /// State, age and GUID always; then amount, code, attempts, transaction, and the reason takes what is left.
    fn fit(cells: usize, lines: &[&Line]) -> Columns {
        let widest = |of: &dyn Fn(&Line) -> usize, least: usize, most: usize| {
            lines.iter().map(|line| of(line)).max().unwrap_or(0).clamp(least, most)
        };
        let guid = widest(&|line| width(line.guid.as_str()), 8, 30);
        let amount = widest(&|line| line.amount.map_or(1, |a| width(&grouped(a))), 8, 26);
        let tx = widest(&|line| width(&line.tx_code), 7, 12);
        // The beginning and the end of a GUID tell more than all of it, if the reason has no room otherwise.
        let short =
            guid > 22 && cells < 3 + STATE + 1 + 7 + guid + 1 + amount + 1 + 5 + 3 + REASON_LEAST;
        let guid = if short { 22 } else { guid };
        let mut room = cells.saturating_sub(3 + STATE + 1 + 7 + guid + 1);
        let mut take = |cells: usize, keep: usize| {
            if room < cells + 1 + keep {
                return 0;
            }
            room -= cells + 1;
            cells
        };
        let amount = take(amount, 0);
        let code = take(4, 0);
        let attempts = take(2, 0);
        let tx = take(tx, REASON_LEAST + 4);
        let reason = if room >= 8 { room } else { 0 };
        Columns { guid, tx, code, attempts, amount, reason }
    }

    fn heads(&self, app: &App) -> String {
        let words = app.words();
        joined(
            "   ",
            &left(words.col_state, STATE),
            &right(words.col_age, 6),
            &left(words.col_guid, self.guid),
            &[
                (left(words.col_tx, self.tx), self.tx),
                (left(words.col_code, self.code), self.code),
                (right(words.col_attempts, self.attempts), self.attempts),
                (right(words.col_amount, self.amount), self.amount),
                (left(words.col_reason, self.reason), self.reason),
            ],
        )
    }

    fn line(&self, app: &App, line: &Line, is_cursor: bool, is_marked: bool) -> String {
        let cursor = if is_cursor { '>' } else { ' ' };
        let mark = if is_marked { '*' } else { ' ' };
        let old = age_s(&line.updated_at, app.now).map_or("?".to_owned(), age);
        let shown = crate::console::text::shown;
        let amount = line.amount.map_or("-".to_owned(), grouped);
        let code = line.code.as_deref().unwrap_or("-");
        joined(
            &format!("{cursor}{mark} "),
            &left(&state(line), STATE),
            &right(&old, 6),
            &left(&middle(&shown(line.guid.as_str()), self.guid), self.guid),
            &[
                (left(&shown(&line.tx_code), self.tx), self.tx),
                (left(&shown(code), self.code), self.code),
                (right(&line.attempts.to_string(), self.attempts), self.attempts),
                (right(&amount, self.amount), self.amount),
                (left(&shown(line.seen.as_deref().unwrap_or("-")), self.reason), self.reason),
            ],
        )
    }
}

/// The columns that are there, side by side.
fn joined(head: &str, state: &str, age: &str, guid: &str, others: &[(String, usize)]) -> String {
    let mut text = format!("{head}{state} {age} {guid}");
    for (column, cells) in others {
        if *cells > 0 {
            text.push(' ');
            text.push_str(column);
        }
    }
    text
}

fn empty(app: &App, pen: &mut super::Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    let Some(as_of) = app.list.as_of else {
        return pen.line(pen.height() / 2, &format!("  {}", words.loading), theme.dim());
    };
    let filter = app.list.filter.to_string();
    let template = if app.list.filter == Filter::default() {
        words.nothing_stuck
    } else {
        words.nothing_matches
    };
    let all: u64 = app.counts.as_ref().map_or(0, |counts| counts.rows.iter().sum());
    let texts = [
        (fill(template, &[&filter]), theme.header()),
        (fill(words.counted, &[&time(as_of, app.look.local), &all.to_string()]), theme.plain()),
        (String::new(), theme.plain()),
        (words.empty_next.to_owned(), theme.dim()),
    ];
    let mut row = pen.height().saturating_sub(6) / 2;
    for (text, style) in texts {
        for line in wrapped(&text, pen.width().saturating_sub(6)) {
            pen.at(3, row, pen.width(), &line, style);
            row += 1;
        }
    }
}
