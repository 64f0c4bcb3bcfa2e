//! The history: append-only, newest first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::boxed;
use crate::console::app::App;
use crate::console::text::{left, shown, time, width};
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
    let widest = |of: &dyn Fn(&HistoryLine) -> usize, least: usize, most: usize| {
        shown_lines.iter().map(|line| of(line)).max().unwrap_or(0).clamp(least, most)
    };
    let guid = widest(&|line| width(line.guid.as_str()), 8, 30);
    let who = widest(&|line| width(&shown(&line.who)), 5, 18);
    let columns = |when: &str, cause: &str, change: &str, id: &str, name: &str, rest: &str| {
        format!(
            "{} {} {} {} {} {rest}",
            left(when, 19),
            left(cause, 9),
            left(change, 18),
            left(id, guid),
            left(name, who)
        )
    };
    let rest = format!("{}; {}", words.col_why, words.col_seen);
    let heads = columns(
        &format!("{} (UTC)", words.col_when),
        words.col_cause,
        words.col_change,
        words.col_guid,
        words.col_who,
        &rest,
    );
    pen.line(0, &format!("  {heads}"), theme.title());
    for (row, line) in shown_lines.into_iter().enumerate() {
        let why: Vec<String> =
            [&line.reason, &line.seen].into_iter().flatten().map(|text| shown(text)).collect();
        let text = columns(
            &shown(&line.at),
            &shown(&line.cause),
            &shown(&super::detail::change(line)),
            &shown(line.guid.as_str()),
            &shown(&line.who),
            &why.join("; "),
        );
        let is_cursor = trail.cursor == Some(line.id);
        let head = if is_cursor { '>' } else { ' ' };
        pen.line(row + 1, &format!("{head} {text}"), theme.plain());
        if is_cursor {
            pen.style(row + 1, theme.cursor());
        }
    }
}
