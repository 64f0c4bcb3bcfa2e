//! The history: append-only, newest first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::boxed;
use crate::console::app::App;
use crate::console::text::{left, middle, shown, time, width};
use crate::ledger::HistoryLine;

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    let (words, theme, trail) = (app.words(), app.look.theme, &app.trail);
    let note = trail.as_of.map(|at| time(at, app.look.local)).unwrap_or_default();
    let mut pen = boxed(app, buf, body, words.tab_history, &note, true);
    if trail.lines.is_empty() {
        let texts = if trail.as_of.is_some() {
            [words.no_history, words.no_history_next]
        } else {
            [words.loading, ""]
        };
        let row = pen.height() / 3;
        pen.at(3, row, pen.width(), texts[0], theme.header());
        pen.at(3, row + 1, pen.width(), texts[1], theme.dim());
        return;
    }
    let shown_lines: Vec<&HistoryLine> =
        trail.lines.iter().skip(trail.top).take(app.page()).collect();
    let columns = Columns::fit(pen.width(), &shown_lines);
    let rest = format!("{}; {}", words.col_why, words.col_seen);
    let heads = columns.line([
        &format!("{} (UTC)", words.col_when),
        words.col_cause,
        &if columns.is_narrow { letters(words.col_change) } else { words.col_change.to_owned() },
        words.col_guid,
        words.col_who,
        &rest,
    ]);
    pen.line(0, &format!("  {heads}"), theme.title());
    for (row, line) in shown_lines.into_iter().enumerate() {
        let why: Vec<String> =
            [&line.reason, &line.seen].into_iter().flatten().map(|text| shown(text)).collect();
        let change = super::detail::change(words, line);
        let text = columns.line([
            columns.time(&shown(&line.at)),
            &shown(&line.cause),
            &if columns.is_narrow { letters(&change) } else { shown(&change) },
            &middle(&shown(line.guid.as_str()), columns.guid),
            &shown(&line.who),
            &why.join("; "),
        ]);
        let is_cursor = trail.cursor == Some(line.id);
        let head = if is_cursor { '>' } else { ' ' };
        pen.line(row + 1, &format!("{head} {text}"), theme.plain());
        if is_cursor {
            pen.style(row + 1, theme.cursor());
        }
    }
}

/// How wide the columns are. Where there is little room: a time without its year, states as their letters, of a GUID both ends.
struct Columns {
    is_narrow: bool,
    when: usize,
    change: usize,
    guid: usize,
    who: usize,
}

/// From so many cells on there is room for everything.
const WIDE: usize = 98;

impl Columns {
    fn fit(cells: usize, lines: &[&HistoryLine]) -> Columns {
        let widest = |of: &dyn Fn(&HistoryLine) -> usize, least: usize, most: usize| {
            lines.iter().map(|line| of(line)).max().unwrap_or(0).clamp(least, most)
        };
        let is_narrow = cells < WIDE;
        let most = if is_narrow { 16 } else { 30 };
        let guid = widest(&|line| width(line.guid.as_str()), 8, most);
        let who = widest(&|line| width(&shown(&line.who)), 5, if is_narrow { 8 } else { 18 });
        let (when, change) = if is_narrow { (14, 6) } else { (19, 18) };
        Columns { is_narrow, when, change, guid, who }
    }

    /// As much of a time as there is room for.
    fn time<'a>(&self, at: &'a str) -> &'a str {
        if self.is_narrow { at.get("2026-".len()..).unwrap_or(at) } else { at }
    }

    fn line(&self, [when, cause, change, guid, who, why]: [&str; 6]) -> String {
        format!(
            "{} {} {} {} {} {why}",
            left(when, self.when),
            left(cause, 9),
            left(change, self.change),
            left(guid, self.guid),
            left(who, self.who)
        )
    }
}

/// `SENT -> UNKNOWN` as `S -> U`.
fn letters(change: &str) -> String {
    let first = |word: &str| word.chars().next().map(String::from).unwrap_or_default();
    match change.split_once(" -> ") {
        Some((from, to)) => format!("{} -> {}", first(&shown(from)), first(&shown(to))),
        None => shown(change),
    }
}
