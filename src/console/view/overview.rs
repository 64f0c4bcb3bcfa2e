//! The overview: numbers of one moment.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, boxed};
use crate::console::app::App;
use crate::console::text::{age, fill, left, right, time};
use crate::console::theme::symbol;
use crate::engine::desk::age_s;
use crate::ledger::survey::Numbers;
use crate::limits;
use crate::state::State;

const AGES: [&str; 6] = ["<1m", "1-5m", "5-30m", "30m-2h", "2-24h", ">1d"];

/// The blocks that can have the cursor.
const REASONS: usize = 1;
const LAST: usize = 2;

/// Lines that a block needs to say anything: its border and a line.
const LEAST: u16 = 3;

/// Where the blocks stand: states, how it flowed, reasons, last runs.
struct Areas {
    states: Rect,
    flow: Rect,
    reasons: Rect,
    last: Rect,
}

impl Areas {
    /// Where there is little room, what is stuck and why comes before how it flowed.
    fn of(body: Rect, reasons: usize) -> Areas {
        let states = Rect { height: 8.min(body.height), ..body };
        let rest = below(body, states.height);
        let flow = match rest.height {
            0..11 => 0,
            11..18 => 4,
            18.. => 5,
        };
        let flow = Rect { height: flow, ..rest };
        let rest = below(rest, flow.height);
        let lines = u16::try_from(reasons).unwrap_or(8).max(1);
        let reasons = Rect { height: (lines + 3).min(rest.height), ..rest };
        Areas { states, flow, reasons, last: below(rest, reasons.height) }
    }
}

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    let words = app.words();
    let Some((numbers, at)) = &app.numbers else {
        let mut pen = boxed(app, buf, body, words.states, "", true);
        return pen.line(0, words.loading, app.look.theme.dim());
    };
    let (focus, _) = app.overview_place();
    let mut areas = Areas::of(body, numbers.reasons.len());
    let nothing = Rect { height: 0, ..body };
    // A block that has the cursor is seen, if need be alone.
    match focus {
        REASONS if areas.reasons.height < LEAST + 1 => {
            areas = Areas { states: nothing, flow: nothing, reasons: body, last: nothing };
        }
        LAST if areas.last.height < LEAST => {
            areas = Areas { states: nothing, flow: nothing, reasons: nothing, last: body };
        }
        _ => {}
    }
    if areas.states.height >= LEAST {
        let note = fill(words.as_of, &[&time(*at, app.look.local)]);
        let mut pen = boxed(app, buf, areas.states, words.states, &note, focus == 0);
        draw_states(app, &mut pen, numbers);
    }
    if areas.flow.height >= LEAST {
        draw_flow(app, buf, areas.flow, numbers);
    }
    if areas.reasons.height >= LEAST {
        let count = limits::SURVEY_LINES_MAX.to_string();
        let title = fill(words.reasons, &[&count]);
        let mut pen = boxed(app, buf, areas.reasons, &title, "", focus == REASONS);
        draw_reasons(app, &mut pen, numbers);
    }
    if areas.last.height >= LEAST {
        let mut pen = boxed(app, buf, areas.last, words.last_lines, "", focus == LAST);
        draw_last(app, &mut pen, numbers);
    }
}

fn below(area: Rect, used: u16) -> Rect {
    Rect { y: area.y + used, height: area.height.saturating_sub(used), ..area }
}

/// Marks the line that has the cursor.
fn cursor(app: &App, pen: &mut Pen<'_>, row: usize) {
    pen.at(0, row, 1, ">", app.look.theme.plain());
    pen.style(row, app.look.theme.cursor());
}

fn draw_states(app: &App, pen: &mut Pen<'_>, numbers: &Numbers) {
    let (words, theme) = (app.words(), app.look.theme);
    let wide = pen.width() >= 84;
    let classes = if wide { AGES.len() } else { 0 };
    let histogram: String = AGES.iter().take(classes).map(|name| right(name, 8)).collect();
    let heads = format!(
        "  {} {} {} {histogram}",
        left(words.col_state, 12),
        right(words.col_rows, 12),
        right(words.col_oldest, 10)
    );
    pen.line(0, &heads, theme.title());
    for (at, state) in State::ALL.into_iter().enumerate() {
        let oldest = numbers.counts.oldest[at].as_deref().and_then(|since| age_s(since, app.now));
        let cells: String = (0..classes)
            .map(|class| match state {
                State::Done => right("-", 8),
                _ => right(&numbers.ages[at][class].to_string(), 8),
            })
            .collect();
        let text = format!(
            "  {} {} {} {cells}",
            left(&format!("{} {state}", symbol(state)), 12),
            right(&numbers.counts.rows[at].to_string(), 12),
            right(&oldest.map_or("-".to_owned(), age), 10)
        );
        pen.line(at + 1, &text, theme.plain());
        pen.at(2, at + 1, 12, &format!("{} {state}", symbol(state)), theme.state(state));
        if wide {
            // Room for words beside the numbers.
            pen.at(2 + 12 + 13 + 12 + 8 * 6 + 2, at + 1, 60, words.state(state), theme.dim());
        }
        if app.overview_place() == (0, at) {
            cursor(app, pen, at + 1);
        }
    }
}

fn draw_flow(app: &App, buf: &mut Buffer, area: Rect, numbers: &Numbers) {
    let words = app.words();
    let half = area.width / 2;
    let parts = [
        (words.flow_unknown, &numbers.unknown_per_minute, Rect { width: half, ..area }),
        (
            words.flow_failed,
            &numbers.failed_per_minute,
            Rect { x: area.x + half, width: area.width - half, ..area },
        ),
    ];
    for (title, minutes, area) in parts {
        let peak = minutes.iter().max().copied().unwrap_or(0);
        let note = fill(words.peak, &[&peak.to_string()]);
        let mut pen = boxed(app, buf, area, title, &note, false);
        let cells = pen.width();
        pen.line(0, &spark(minutes, cells), app.look.theme.header());
        if pen.height() > 1 {
            let begin = app.now - chrono::TimeDelta::hours(1);
            let from = time(begin, app.look.local);
            pen.line(1, &from, app.look.theme.dim());
            let to = time(app.now, app.look.local);
            let end = cells.min(minutes.len());
            pen.at(end.saturating_sub(to.len()), 1, cells, &to, app.look.theme.dim());
        }
    }
}

/// A bar for each minute, the newest last; where there is less room, several minutes share one, and the worst of them is shown.
fn spark(minutes: &[u64], cells: usize) -> String {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let peak = minutes.iter().max().copied().unwrap_or(0).max(1);
    let bars = cells.clamp(1, minutes.len());
    let minute_of = |bar: usize| bar * minutes.len() / bars;
    (0..bars)
        .map(|bar| {
            let worst = minutes[minute_of(bar)..minute_of(bar + 1)].iter().max().copied();
            let height = (worst.unwrap_or(0) * 7).div_ceil(peak);
            BARS[usize::try_from(height).unwrap_or(7).min(7)]
        })
        .collect()
}

fn draw_reasons(app: &App, pen: &mut Pen<'_>, numbers: &Numbers) {
    let (words, theme) = (app.words(), app.look.theme);
    let room = pen.width().saturating_sub(2 + 9 + 11);
    let heads = format!(
        "  {}{}{}",
        left(words.col_reason, room),
        right(words.col_rows, 9),
        right(words.col_oldest, 11)
    );
    pen.line(0, &heads, theme.title());
    if numbers.reasons.is_empty() {
        pen.line(1, "  -", theme.dim());
    }
    let (block, cursor_at) = app.overview_place();
    let rows = pen.height().saturating_sub(1);
    let top = if block == REASONS { (cursor_at + 1).saturating_sub(rows) } else { 0 };
    for (row, (at, reason)) in numbers.reasons.iter().enumerate().skip(top).take(rows).enumerate() {
        let oldest = age_s(&reason.oldest, app.now).map_or("?".to_owned(), age);
        let text = format!(
            "  {}{}{}",
            left(&crate::console::text::shown(&reason.seen), room),
            right(&reason.rows.to_string(), 9),
            right(&oldest, 11)
        );
        pen.line(row + 1, &text, theme.plain());
        if (block, cursor_at) == (REASONS, at) {
            cursor(app, pen, row + 1);
        }
    }
}

fn draw_last(app: &App, pen: &mut Pen<'_>, numbers: &Numbers) {
    let theme = app.look.theme;
    if numbers.last_lines.is_empty() {
        pen.line(0, "  -", theme.dim());
    }
    let (block, cursor_at) = app.overview_place();
    let rows = pen.height();
    let top = if block == LAST { (cursor_at + 1).saturating_sub(rows) } else { 0 };
    for (row, (at, line)) in numbers.last_lines.iter().enumerate().skip(top).take(rows).enumerate()
    {
        let reason = line.reason.as_deref().unwrap_or("-");
        let text = format!(
            "  {} {} {} {} {} {reason}",
            line.at,
            left(&crate::console::text::shown(&line.who), 16),
            left(&line.cause, 9),
            left(&super::detail::change(app.words(), line), 18),
            line.guid
        );
        pen.line(row, &text, theme.plain());
        if (block, cursor_at) == (LAST, at) {
            cursor(app, pen, row);
        }
    }
}
