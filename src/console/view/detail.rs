//! One row: what it is in words, what can be done with it, its history, and its telegrams.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{boxed, hex};
use crate::console::app::{App, Pane};
use crate::console::keys::Action;
use crate::console::text::{age, fill, grouped, middle, shown, width, wrapped};
use crate::console::theme::symbol;
use crate::console::words::{Lang, Words};
use crate::engine::desk::{Act, Detail, Shown, age_s};
use crate::ledger::HistoryLine;

/// From so many columns on the facts stand beside the telegram.
const BESIDE: u16 = 100;
/// What hex needs, border included.
const HEX_COLUMNS: u16 = 6 + 16 * 3 + 2 + 16 + 2;

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    if body.width < BESIDE || app.looking.zoom {
        return match app.looking.pane {
            Pane::Facts => draw_facts(app, buf, body, true),
            Pane::Request | Pane::Response => telegram(app, buf, body),
        };
    }
    let facts = facts_area(app, body);
    draw_facts(app, buf, facts, app.looking.pane == Pane::Facts);
    telegram(app, buf, Rect { x: body.x + facts.width, width: HEX_COLUMNS, ..body });
}

/// Where the facts stand: beside the telegram, or alone.
fn facts_area(app: &App, body: Rect) -> Rect {
    let beside = body.width >= BESIDE && !app.looking.zoom;
    Rect { width: body.width - if beside { HEX_COLUMNS } else { 0 }, ..body }
}

/// The facts of the row that is looked at.
pub fn draw_facts(app: &App, buf: &mut Buffer, area: Rect, focus: bool) {
    let words = app.words();
    let guid = app.looking.guid.as_ref().map(ToString::to_string).unwrap_or_default();
    let all = facts_lines(app, usize::from(area.width.saturating_sub(2)));
    let rows = usize::from(area.height.saturating_sub(2));
    let top = app.looking.top.min(all.len().saturating_sub(rows));
    let room = usize::from(area.width).saturating_sub(width(words.detail) + 7);
    let title = format!("{} {}", words.detail, middle(&shown(&guid), room));
    // Beside the list it has no keys of its own: there is nothing to scroll with.
    let note =
        if app.looking.open { super::more(app, top, rows, all.len()) } else { String::new() };
    let mut pen = boxed(app, buf, area, &title, &note, focus);
    for (row, (text, style)) in all.into_iter().skip(top).take(rows).enumerate() {
        pen.line(row, &text, style);
    }
}

/// How far the facts can be scrolled.
#[must_use]
pub fn facts_top_max(app: &App) -> usize {
    let (columns, lines) = app.size;
    let area = facts_area(app, super::frame::body((columns, lines)));
    let all = facts_lines(app, usize::from(area.width.saturating_sub(2)));
    all.len().saturating_sub(usize::from(area.height.saturating_sub(2)))
}

/// The facts, broken into lines.
fn facts_lines(app: &App, cells: usize) -> Vec<(String, Style)> {
    let words = app.words();
    let lines = match &app.looking.shown {
        None if app.looking.guid.is_none() => Vec::new(),
        None => vec![(words.loading.to_owned(), app.look.theme.dim())],
        Some(Shown::Nothing) => vec![(words.fact_nothing.to_owned(), app.look.theme.warning())],
        Some(Shown::Purged(history)) => {
            let mut lines = vec![(words.fact_purged.to_owned(), app.look.theme.header())];
            lines.extend(history_lines(app, history));
            lines
        }
        Some(Shown::Row(detail)) => facts(app, detail),
    };
    lines
        .into_iter()
        .flat_map(|(text, style)| {
            wrapped(&shown(&text), cells).into_iter().map(move |l| (l, style))
        })
        .collect()
}

fn facts(app: &App, detail: &Detail) -> Vec<(String, Style)> {
    let (words, theme, row) = (app.words(), app.look.theme, &detail.row);
    let old = age_s(&row.updated_at, app.now).map_or("?".to_owned(), age);
    let head = fill(words.fact_for, &[&format!("{} {}", symbol(row.state), row.state), &old]);
    // The word of the ledger, and what it means where that is another language.
    let head = match app.look.lang {
        Lang::En => head,
        Lang::Ko | Lang::Ja => format!("{head}: {}", words.state(row.state)),
    };
    let seen = detail.history.iter().rev().find_map(|line| line.seen.as_deref());
    let fact = match seen {
        Some(seen) => format!("{seen}; {}", words.fact(row.state)),
        None => words.fact(row.state).to_owned(),
    };
    let mut lines =
        vec![(head, theme.state(row.state)), (fact, theme.plain()), (String::new(), theme.plain())];
    let amount = detail.amount.map_or("-".to_owned(), grouped);
    let owner = row.owner.as_ref().map(|owner| match owner.pid() {
        Some(pid) => format!("{owner} (pid {pid})"),
        None => owner.to_string(),
    });
    let facts = [
        (words.fact_amount, Some(amount)),
        (words.fact_tx, Some(row.tx_code.clone())),
        (words.fact_code, row.rsp_code.clone()),
        (words.fact_attempts, Some(row.attempt.to_string())),
        (words.fact_changed, Some(format!("{} UTC", row.updated_at))),
        (words.fact_owner, owner),
    ];
    for (name, value) in facts {
        let Some(value) = value else { continue };
        lines.push((format!("{} {value}", crate::console::text::left(name, 11)), theme.plain()));
    }
    lines.push((String::new(), theme.plain()));
    lines.extend(actions(app, detail));
    lines.extend(history_lines(app, &detail.history));
    lines
}

/// What each routine would do, or why it would not.
fn actions(app: &App, detail: &Detail) -> Vec<(String, Style)> {
    let (words, theme) = (app.words(), app.look.theme);
    let mut lines = vec![(format!("── {} ──", words.what_can), theme.title())];
    for (act, why) in Act::ALL.into_iter().zip(&detail.can) {
        let action = match act {
            Act::Resolve => Action::Resolve,
            Act::Reprocess => Action::Reprocess,
            Act::Purge => Action::Purge,
        };
        let head = format!("{} {}", app.keys.spelled(action), words.act(act));
        let off = app.off(act).map(|off| app.why_off(off));
        let why = why.as_ref().map(|why| format!("{}: {}", words.off, app.why_not(act, why)));
        // Why this row is left out says more than why the whole routine is off.
        lines.push(match why.or(off) {
            Some(why) => (format!("{head}  {why}"), theme.dim()),
            None => (format!("{head}  {}", words.can(act)), theme.good()),
        });
    }
    lines.push((String::new(), theme.plain()));
    lines
}

fn history_lines(app: &App, history: &[HistoryLine]) -> Vec<(String, Style)> {
    let (words, theme) = (app.words(), app.look.theme);
    let mut lines = vec![(format!("── {} ──", words.history_of), theme.title())];
    if history.is_empty() {
        lines.push((words.no_line.to_owned(), theme.dim()));
    }
    for line in history.iter().rev() {
        let change = change(words, line);
        lines.push((format!("{} {} {change} {}", line.at, line.cause, line.who), theme.plain()));
        for text in [&line.reason, &line.seen].into_iter().flatten() {
            lines.push((format!("  {text}"), theme.dim()));
        }
    }
    lines
}

/// From where to where.
pub fn change(words: &Words, line: &HistoryLine) -> String {
    match (&line.from_state, &line.to_state) {
        (None, None) => "-".to_owned(),
        (from, to) => {
            format!(
                "{} -> {}",
                from.as_deref().unwrap_or("-"),
                to.as_deref().unwrap_or(words.purged_state)
            )
        }
    }
}

fn telegram(app: &App, buf: &mut Buffer, area: Rect) {
    let (words, looking) = (app.words(), &app.looking);
    let name = if looking.response { words.response } else { words.request };
    let bytes = app.bytes().len();
    let per_line = hex::per_line(usize::from(area.width.saturating_sub(2)));
    let lines = u16::try_from(bytes.div_ceil(per_line)).unwrap_or(u16::MAX);
    let hex_height = (lines.max(1) + 2).min(area.height * 3 / 5).min(area.height);
    let at = [(looking.at + 1).min(bytes).to_string(), bytes.to_string()];
    let note = fill(words.byte_at, &at.each_ref().map(String::as_str));
    let encoding = hex::ENCODINGS[app.encoding % hex::ENCODINGS.len()].as_str();
    let title = format!("{name} {bytes} B  {encoding}");
    let focus = looking.pane != Pane::Facts;
    let top = Rect { height: hex_height, ..area };
    let mut pen = boxed(app, buf, top, &title, &note, focus);
    if bytes == 0 {
        pen.line(0, words.no_response, app.look.theme.dim());
    }
    hex::draw(app, &mut pen);
    let rest = Rect { y: area.y + hex_height, height: area.height - hex_height, ..area };
    let note = if app.looking.guid.as_ref().is_some_and(|guid| app.revealed.contains(guid)) {
        ""
    } else {
        words.masked
    };
    let mut pen = boxed(app, buf, rest, words.fields, note, focus);
    hex::draw_fields(app, &mut pen);
}
