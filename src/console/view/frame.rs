//! What is on every screen: the header, the tabs, the bar of keys and the last line.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Pen;
use crate::console::app::{App, Mode, Prompt, PromptKind, Tab};
use crate::console::keys::{Action, BAR, binding};
use crate::console::text::{cut, fill, shown, stamp, time, width};
use crate::console::theme::symbol;
use crate::engine::desk::Act;
use crate::state::State;

/// Lines above the body: header, tabs, filter.
const ABOVE: u16 = 3;
/// Lines below the body: bar, last line.
const BELOW: u16 = 2;

/// The rows that a list has room for: the body without its border and its heads.
#[must_use]
pub fn body_lines((_, lines): (u16, u16)) -> usize {
    usize::from(lines.saturating_sub(ABOVE + BELOW + 3))
}

/// The area between the lines above and below.
#[must_use]
pub fn body((columns, lines): (u16, u16)) -> Rect {
    Rect::new(0, ABOVE, columns, lines.saturating_sub(ABOVE + BELOW))
}

/// Draws everything but the body; returns the body's area.
pub fn draw(app: &App, buf: &mut Buffer, area: Rect) -> Rect {
    let line = |y: u16| Rect { y, height: 1, ..area };
    header(app, &mut Pen { buf, area: line(0) });
    tabs(app, &mut Pen { buf, area: line(1) });
    filter(app, &mut Pen { buf, area: line(2) });
    bar(app, &mut Pen { buf, area: line(area.height - 2) });
    last(app, &mut Pen { buf, area: line(area.height - 1) });
    body((area.width, area.height))
}

/// Puts parts at the right end, as many as there is room for, the first ones first; returns the first column that they take.
fn from_the_right(pen: &mut Pen<'_>, from: usize, parts: &[(String, Style)]) {
    let mut kept = Vec::new();
    let mut room = pen.width().saturating_sub(from);
    for (text, style) in parts.iter().filter(|(text, _)| !text.is_empty()) {
        let cells = width(&shown(text)) + 2;
        if cells > room {
            continue;
        }
        room -= cells;
        kept.push((text, style, cells));
    }
    let mut column = pen.width() - kept.iter().map(|(_, _, cells)| cells).sum::<usize>();
    // The first part, the most important one, stands outermost.
    for (text, style, cells) in kept.into_iter().rev() {
        pen.at(column + 1, 0, cells - 1, text, *style);
        column += cells;
    }
}

fn header(app: &App, pen: &mut Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    let columns = pen.width();
    let mode = if app.facts.read_only { words.read_only } else { words.operate };
    let left = format!(" ONCEGATE {}", app.facts.ledger);
    let at = pen.at(0, 0, columns / 2, &cut(&shown(&left), columns / 2), theme.header());
    let now =
        if columns >= 100 { stamp(app.now, app.look.local) } else { time(app.now, app.look.local) };
    let mode_style = if app.facts.read_only { theme.warning() } else { theme.header() };
    let pace = if app.paused { words.paused } else { words.live };
    let pace_style = if app.paused { theme.warning() } else { theme.dim() };
    let mouse = if app.look.mouse { words.mouse_on } else { "" };
    from_the_right(
        pen,
        at,
        &[
            (now, theme.header()),
            (mode.to_owned(), mode_style),
            (pace.to_owned(), pace_style),
            (mouse.to_owned(), theme.warning()),
            (app.facts.who.clone(), theme.dim()),
        ],
    );
}

fn tabs(app: &App, pen: &mut Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    let names =
        [words.tab_overview, words.tab_ledger, words.tab_runs, words.tab_outbox, words.tab_history];
    let mut column = 0;
    let narrow = pen.width() < 100;
    for (at, (tab, name)) in Tab::ALL.into_iter().zip(names).enumerate() {
        let going = app.runs.len();
        let count =
            if tab == Tab::Runs && going > 0 { format!("({going})") } else { String::new() };
        let (open, close) = if tab == app.tab { ("[", "]") } else { (" ", " ") };
        let gap = if narrow { "" } else { " " };
        let text = format!("{open}{} {name}{count}{close}{gap}", at + 1);
        let style = if tab == app.tab { theme.title() } else { theme.plain() };
        column = pen.at(column, 0, 40, &text, style);
    }
    if let Some(counts) = &app.counts {
        // The first one is the last that has to go where there is little room.
        let in_order = [State::Unknown, State::Failed, State::Sent, State::Received, State::Done];
        let parts: Vec<(String, Style)> = in_order
            .into_iter()
            .map(|state| {
                let rows = counts.of(state);
                let style = if rows > 0 { theme.state(state) } else { theme.dim() };
                (format!("{}{rows}", &symbol(state)[2..]), style)
            })
            .collect();
        from_the_right(pen, column, &parts);
    }
}

fn filter(app: &App, pen: &mut Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    if let Some(broken) = &app.broken {
        pen.line(0, &format!(" ! {}", fill(words.broken, &[broken])), theme.warning());
        return;
    }
    if let Some((what, since)) = &app.trouble {
        let read =
            app.list.as_of.map_or(words.never_read.to_owned(), |at| time(at, app.look.local));
        let what = words.ledger(what);
        let text = fill(words.trouble, &[&time(*since, app.look.local), &what, &read]);
        pen.line(0, &format!(" ! {text}"), theme.warning());
        return;
    }
    match app.tab {
        Tab::Ledger => list_filter(app, pen),
        Tab::History => {
            let column = pen.at(1, 0, 20, words.filter, theme.dim());
            pen.at(column + 1, 0, 200, &app.trail.filter, theme.plain());
        }
        Tab::Overview | Tab::Runs | Tab::Outbox => {}
    }
}

fn list_filter(app: &App, pen: &mut Pen<'_>) {
    let (words, theme, list) = (app.words(), app.look.theme, &app.list);
    let (lines, rows) = (&list.lines, list.lines.rows.len());
    let from = lines.before + list.top as u64 + u64::from(rows > 0);
    let to = lines.before + (list.top + app.page()).min(rows) as u64;
    let numbers = [from.to_string(), to.to_string(), lines.total.to_string()];
    let range = if rows > 0 {
        fill(words.of_rows, &numbers.each_ref().map(String::as_str))
    } else {
        words.no_rows.to_owned()
    };
    let marks = list.marks.len();
    let marked = if marks > 0 { fill(words.marked, &[&marks.to_string()]) } else { String::new() };
    let waiting = if list.waiting > 0 {
        fill(words.new_rows, &[&list.waiting.to_string()])
    } else {
        String::new()
    };
    let parts = [
        (range, theme.plain()),
        (marked, theme.key()),
        (waiting, theme.warning()),
        (order(app), theme.dim()),
    ];
    let reserved: usize = parts
        .iter()
        .take(3)
        .map(|(text, _)| if text.is_empty() { 0 } else { width(text) + 2 })
        .sum();
    let column = pen.at(1, 0, 20, words.filter, theme.dim());
    let room = pen.width().saturating_sub(column + 1 + reserved);
    let column = pen.at(column + 1, 0, room, &list.filter.to_string(), theme.plain());
    from_the_right(pen, column, &parts);
}

fn order(app: &App) -> String {
    use crate::ledger::survey::Column;
    let (words, list) = (app.words(), &app.list);
    let reversed = if list.descending { words.reversed } else { "" };
    match (list.column, list.descending) {
        (Column::Age, false) => words.oldest_first.to_owned(),
        (Column::Age, true) => words.newest_first.to_owned(),
        (Column::Guid, _) => format!("{}{reversed}", words.by_guid),
        (Column::Attempts, _) => format!("{}{reversed}", words.by_attempts),
    }
}

/// The keys that matter here, from the table.
fn bar(app: &App, pen: &mut Pen<'_>) {
    let theme = app.look.theme;
    if matches!(app.mode, Mode::Confirming(_)) {
        pen.line(0, &format!(" {}", app.words().confirm_keys), theme.plain());
        return;
    }
    let pending = app.may_follow();
    let place = app.place();
    let first = |action: &Action| Some((*action, app.keys.first(*action)?));
    let (shown, last) = if pending.is_empty() {
        let is_here = |action: &&Action| binding(**action).is_in_bar(place) && is_on(app, **action);
        (BAR.iter().filter(is_here).filter_map(first).collect(), first(&Action::Help))
    } else {
        (pending, None)
    };
    let label = |action: Action| binding(action).label(app.look.lang);
    let cells = |(action, key): &(Action, String)| width(key) + 1 + width(label(*action)) + 2;
    let mut room = pen.width().saturating_sub(last.as_ref().map_or(0, cells));
    let mut column = 1;
    for item in shown.iter().filter(|item| {
        let fits = cells(item) <= room;
        room -= if fits { cells(item) } else { 0 };
        fits
    }) {
        column = pen.at(column, 0, 20, &item.1, theme.key()) + 1;
        column = pen.at(column, 0, 80, label(item.0), theme.plain()) + 2;
    }
    if let Some((action, key)) = last {
        column = pen.at(column, 0, 20, &key, theme.key()) + 1;
        pen.at(column, 0, 80, label(action), theme.plain());
    }
}

/// Whether a routine can be planned at all: what is off says why when its key is pressed, and takes no room before.
fn is_on(app: &App, action: Action) -> bool {
    match action {
        Action::Resolve => app.off(Act::Resolve).is_none(),
        Action::Reprocess => app.off(Act::Reprocess).is_none(),
        Action::Purge => app.off(Act::Purge).is_none(),
        Action::Dispatch => app.facts.outbox && !app.facts.read_only,
        Action::Note => !app.facts.read_only,
        _ => true,
    }
}

fn last(app: &App, pen: &mut Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    match (&app.mode, &app.said) {
        (Mode::AskQuit, _) => pen.line(0, &format!(" {}", words.quit_running), theme.warning()),
        (Mode::Planning(plans), _) => {
            let far = match plans.rows {
                0 => String::new(),
                rows => format!("   {}/{rows}", plans.done),
            };
            pen.line(0, &format!(" {}{far}", words.planning), theme.header());
        }
        (_, Some(said)) => {
            let style = if said.warning { theme.warning() } else { theme.header() };
            pen.line(0, &format!(" {}", said.text), style);
        }
        _ => {}
    }
}

/// The line being typed, in the last line; returns where the cursor belongs.
pub fn draw_prompt(app: &App, buf: &mut Buffer, area: Rect, prompt: &Prompt) -> Option<(u16, u16)> {
    let (words, theme) = (app.words(), app.look.theme);
    let y = area.height.checked_sub(1)?;
    let area = Rect { y, height: 1, ..area };
    super::wipe(buf, area);
    let mut pen = Pen { buf, area };
    let head = match &prompt.kind {
        PromptKind::Filter => format!(" {}: ", words.prompt_filter),
        PromptKind::Command => ":".to_owned(),
        PromptKind::Note(guid) => format!(" {}: ", fill(words.prompt_note, &[guid.as_str()])),
    };
    let column = pen.at(0, 0, 50, &head, theme.title());
    let (before, after) = prompt.edit.parts();
    let (before, after) = (shown(before), shown(after));
    let room = pen.width().saturating_sub(column + 1);
    let tail = tail(&before, room);
    let cursor = pen.at(column, 0, room, &tail, theme.plain());
    let end = pen.at(cursor, 0, room, &after, theme.plain());
    if let Some(complaint) = &prompt.complaint {
        pen.at(end + 2, 0, 200, complaint, theme.warning());
    }
    Some((u16::try_from(cursor).ok()?.min(area.width - 1), y))
}

/// The end of a text, in at most `cells` cells: what is typed last is seen.
#[must_use]
pub fn tail(text: &str, cells: usize) -> String {
    use unicode_segmentation::UnicodeSegmentation;
    let mut used = 0;
    let kept: Vec<&str> = text
        .graphemes(true)
        .rev()
        .take_while(|grapheme| {
            used += width(grapheme);
            used <= cells
        })
        .collect();
    kept.into_iter().rev().collect()
}
