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

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    let words = app.words();
    let Some((numbers, at)) = &app.numbers else {
        let mut pen = boxed(app, buf, body, words.states, "", true);
        return pen.line(0, words.loading, app.look.theme.dim());
    };
    let states = Rect { height: 8.min(body.height), ..body };
    let note = fill(words.as_of, &[&time(*at, app.look.local)]);
    draw_states(app, &mut boxed(app, buf, states, words.states, &note, true), numbers);
    let mut rest = below(body, states.height);
    if rest.height < 3 {
        return;
    }
    // Where there is little room, what is stuck and why comes before how it flowed.
    if rest.height >= 11 {
        let flow = Rect { height: if rest.height >= 18 { 5 } else { 4 }, ..rest };
        draw_flow(app, buf, flow, numbers);
        rest = below(rest, flow.height);
    }
    let lines = u16::try_from(numbers.reasons.len()).unwrap_or(8).max(1);
    let reasons = Rect { height: (lines + 3).min(rest.height), ..rest };
    let count = limits::SURVEY_LINES_MAX.to_string();
    let title = fill(words.reasons, &[&count]);
    draw_reasons(app, &mut boxed(app, buf, reasons, &title, "", false), numbers);
    let rest = below(rest, reasons.height);
    if rest.height >= 3 {
        draw_last(app, &mut boxed(app, buf, rest, words.last_lines, "", false), numbers);
    }
}

fn below(area: Rect, used: u16) -> Rect {
    Rect { y: area.y + used, height: area.height.saturating_sub(used), ..area }
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
        if app.overview_at == at {
            pen.at(0, at + 1, 1, ">", theme.plain());
            pen.style(at + 1, theme.cursor());
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
        if pen.height() > 2 {
            let begin = app.now - chrono::TimeDelta::hours(1);
            let from = time(begin, app.look.local);
            pen.line(1, &from, app.look.theme.dim());
            let to = time(app.now, app.look.local);
            pen.at(cells.saturating_sub(to.len()), 1, cells, &to, app.look.theme.dim());
        }
    }
}

/// A bar for each minute, the newest last; where there is less room, several minutes share one.
fn spark(minutes: &[u64], cells: usize) -> String {
    const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let share = minutes.len().div_ceil(cells.max(1)).max(1);
    let sums: Vec<u64> = minutes.chunks(share).map(|chunk| chunk.iter().sum()).collect();
    let peak = sums.iter().max().copied().unwrap_or(0).max(1);
    sums.into_iter()
        .map(|sum| BARS[usize::try_from((sum * 7).div_ceil(peak)).unwrap_or(7).min(7)])
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
    for (at, reason) in numbers.reasons.iter().enumerate() {
        let oldest = age_s(&reason.oldest, app.now).map_or("?".to_owned(), age);
        let text = format!(
            "  {}{}{}",
            left(&crate::console::text::shown(&reason.seen), room),
            right(&reason.rows.to_string(), 9),
            right(&oldest, 11)
        );
        pen.line(at + 1, &text, theme.plain());
        if app.overview_at == State::ALL.len() + at {
            pen.at(0, at + 1, 1, ">", theme.plain());
            pen.style(at + 1, theme.cursor());
        }
    }
}

fn draw_last(app: &App, pen: &mut Pen<'_>, numbers: &Numbers) {
    let theme = app.look.theme;
    if numbers.last_lines.is_empty() {
        pen.line(0, "  -", theme.dim());
    }
    for (row, line) in numbers.last_lines.iter().take(pen.height()).enumerate() {
        let reason = line.reason.as_deref().unwrap_or("-");
        let text = format!(
            "  {} {} {} {} {} {reason}",
            line.at,
            left(&crate::console::text::shown(&line.who), 16),
            left(&line.cause, 9),
            left(&super::detail::change(line), 18),
            line.guid
        );
        pen.line(row, &text, theme.plain());
    }
}
