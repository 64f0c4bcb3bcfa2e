//! The runs of this console, and the rows of the one under the cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, boxed};
use crate::console::app::runs::Kind;
use crate::console::app::{App, Run, RunState};
use crate::console::text::{age, fill, left, right, shown, time};
use crate::engine::desk::Became;

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    let (words, theme) = (app.words(), app.look.theme);
    let Some(run) = app.runs.get(app.run_at) else {
        let mut pen = boxed(app, buf, body, words.tab_runs, "", true);
        let row = pen.height() / 3;
        pen.at(3, row, pen.width(), words.no_runs, theme.header());
        pen.at(3, row + 1, pen.width(), words.no_runs_next, theme.dim());
        return;
    };
    let lines = u16::try_from(app.runs.len()).unwrap_or(u16::MAX).saturating_add(3);
    let list = Rect { height: lines.min(body.height / 3).max(4), ..body };
    draw_list(app, &mut boxed(app, buf, list, words.tab_runs, "", true));
    let rest = Rect { y: body.y + list.height, height: body.height - list.height, ..body };
    let reason = run.reason.as_ref().map(|reason| format!("  \"{reason}\"")).unwrap_or_default();
    let title = format!("{} {}  {}{reason}", words.col_run, run.number, name(app, run.kind));
    draw_run(app, &mut boxed(app, buf, rest, &title, "", false), run);
}

/// What is run, in words.
fn name(app: &App, kind: Kind) -> &'static str {
    match kind {
        Kind::Rows(act) => app.words().act(act),
        Kind::Dispatch => app.words().act_dispatch,
    }
}

fn draw_list(app: &App, pen: &mut Pen<'_>) {
    let (words, theme) = (app.words(), app.look.theme);
    let heads = format!(
        "  {} {} {} {}",
        right(words.col_run, 4),
        left(words.col_action, 10),
        left(words.col_began, 12),
        words.col_result
    );
    pen.line(0, &heads, theme.title());
    let rows = pen.height().saturating_sub(1);
    let top = (app.run_at + 1).saturating_sub(rows);
    for (row, (at, run)) in app.runs.iter().enumerate().skip(top).take(rows).enumerate() {
        let text = format!(
            "  {} {} {} {}",
            right(&run.number.to_string(), 4),
            left(name(app, run.kind), 10),
            left(&time(run.began, app.look.local), 12),
            sum(app, run)
        );
        pen.line(row + 1, &text, theme.plain());
        if at == app.run_at {
            pen.at(0, row + 1, 1, ">", theme.plain());
            pen.style(row + 1, theme.cursor());
        }
    }
}

fn sum(app: &App, run: &Run) -> String {
    let sum = run.sum();
    let numbers = [sum.done, sum.left, sum.skipped, sum.failed, sum.open, run.planned.len()];
    let numbers = numbers.map(|number| number.to_string());
    fill(app.words().run_sum, &numbers.each_ref().map(String::as_str))
}

fn state(app: &App, run: &Run) -> String {
    let words = app.words();
    match &run.state {
        RunState::Going if run.stopping => words.run_stopping.to_owned(),
        RunState::Going => {
            let left = run.seconds_left(app.now).map_or("?".to_owned(), age);
            fill(words.run_going, &[&left])
        }
        RunState::Ended(_) => words.run_finished.to_owned(),
        RunState::Failed(_, broke) => fill(words.run_failed, &[&words.broke(broke)]),
    }
}

fn draw_run(app: &App, pen: &mut Pen<'_>, run: &Run) {
    let theme = app.look.theme;
    let (told, planned) = (run.told.len(), run.planned.len().max(1));
    let cells = pen.width().saturating_sub(34).clamp(10, 60);
    let full = cells * told / planned;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(cells - full));
    let percent = 100 * told / planned;
    let ended = match &run.state {
        RunState::Going => app.now,
        RunState::Ended(at) | RunState::Failed(at, _) => *at,
    };
    let took = age((ended - run.began).num_seconds());
    let text = format!(" {bar} {percent:>3}%  {told}/{}  {took}", run.planned.len());
    pen.line(0, &text, theme.header());
    pen.line(1, &format!(" {}   {}", state(app, run), sum(app, run)), theme.header());
    rows(app, pen, run);
}

fn rows(app: &App, pen: &mut Pen<'_>, run: &Run) {
    let (words, theme) = (app.words(), app.look.theme);
    // Where there is room, a line is free above them.
    let above = if pen.height() > 6 { 3 } else { 2 };
    let room = pen.height().saturating_sub(above);
    let in_hand = usize::from(run.in_hand().is_some());
    // The newest results are the ones that are watched.
    let top = run.told.len().saturating_sub(room.saturating_sub(in_hand));
    let mut row = above;
    for told in run.told.iter().skip(top) {
        let style = match told.became {
            Became::Done => theme.good(),
            Became::Failed | Became::Left => theme.warning(),
            Became::Skipped => theme.dim(),
        };
        let text = format!(
            "  {} {} {}",
            left(&shown(told.guid.as_str()), 30),
            left(words.became(told.became), 13),
            shown(&words.why(&told.why))
        );
        pen.line(row, &text, style);
        row += 1;
    }
    if let Some(guid) = run.in_hand() {
        let text = format!("> {} {} ...", left(&shown(guid.as_str()), 30), words.run_in_hand);
        pen.line(row, &text, theme.plain());
    }
}
