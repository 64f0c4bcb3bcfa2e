//! The plan and its confirmation; short lists to choose from.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Pen, boxed};
use crate::console::app::confirm::What;
use crate::console::app::{App, Confirm, Edit, Focus, Menu, MenuKind};
use crate::console::text::{age, fill, grouped, left, middle, right, shown, time, width, wrapped};
use crate::console::theme::symbol;
use crate::engine::desk::{Act, Plan, age_s};

/// Rows that are left out and shown one by one; the rest is counted.
const LEFT_OUT_SHOWN: usize = 3;

pub fn draw_menu(app: &App, buf: &mut Buffer, body: Rect, menu: &Menu) {
    let words = app.words();
    let name = |kind: MenuKind| match kind {
        MenuKind::States => words.menu_states,
        MenuKind::Ages => words.menu_ages,
        MenuKind::Export => words.menu_export,
    };
    let note = match menu.kind.other() {
        Some(other) => fill(words.menu_other, &[name(other)]),
        None => words.close.to_owned(),
    };
    let widest = menu.lines.iter().map(|line| width(line)).max().unwrap_or(0) + 8;
    let area = centred(body, widest.max(width(&note) + 6), menu.lines.len() + 2);
    let mut pen = boxed(app, buf, area, name(menu.kind), &note, true);
    for (at, line) in menu.lines.iter().enumerate() {
        let style = if at == menu.at { app.look.theme.cursor() } else { app.look.theme.plain() };
        pen.line(at, &format!(" {} {line} ", at + 1), style);
    }
}

fn centred(body: Rect, cells: usize, lines: usize) -> Rect {
    let width = u16::try_from(cells).unwrap_or(u16::MAX).min(body.width);
    let height = u16::try_from(lines).unwrap_or(u16::MAX).min(body.height);
    Rect {
        x: body.x + (body.width - width) / 2,
        y: body.y + (body.height - height) / 2,
        width,
        height,
    }
}

/// Draws the dialog; returns where the cursor belongs, if a text has the focus.
pub fn draw_confirm(
    app: &App,
    buf: &mut Buffer,
    body: Rect,
    confirm: &Confirm,
) -> Option<(u16, u16)> {
    let sheet = Sheet::of(app, confirm, body);
    let area = centred(body, sheet.cells, sheet.len() + 1 + sheet.acting + 2);
    let room = sheet.room(body);
    let top = confirm.top.min(sheet.len().saturating_sub(room));
    let note = super::more(app, top, room, sheet.len());
    let mut pen = boxed(app, buf, area, &title(app, confirm), &note, true);
    for row in 0..room.min(sheet.len() - top) {
        let (text, style) = sheet.line(top + row);
        pen.at(1, row, pen.width(), &text, style);
    }
    let row = pen.height().saturating_sub(sheet.acting);
    act(app, &mut pen, confirm, row)
}

/// How far the dialog that is open can be scrolled.
#[must_use]
pub fn confirm_top_max(app: &App, confirm: &Confirm) -> usize {
    let body = super::frame::body(app.size);
    let sheet = Sheet::of(app, confirm, body);
    sheet.len().saturating_sub(sheet.room(body))
}

/// Everything that is read before it is confirmed, as lines: what will be done, how many, what total, which rows are left out and
/// why, each row. Where it is longer than the dialog it is scrolled; the fields and buttons always stay.
struct Sheet<'a> {
    app: &'a App,
    confirm: &'a Confirm,
    cells: usize,
    above: Vec<(String, Style)>,
    below: Vec<(String, Style)>,
    /// Lines of the fields and buttons.
    acting: usize,
}

impl<'a> Sheet<'a> {
    fn of(app: &'a App, confirm: &'a Confirm, body: Rect) -> Sheet<'a> {
        let cells = usize::from(body.width).min(100);
        let inside = cells.saturating_sub(4);
        let (above, below) = (above(app, confirm, inside), below(app, confirm, inside));
        let acting = if confirm.rows() == 0 { 2 } else { 4 };
        Sheet { app, confirm, cells, above, below, acting }
    }

    fn len(&self) -> usize {
        self.above.len() + 1 + self.confirm.rows() + 1 + self.below.len()
    }

    /// Lines of it that are seen at once.
    fn room(&self, body: Rect) -> usize {
        let inside = usize::from(body.height).saturating_sub(2 + self.acting);
        if self.len() < inside { self.len() } else { inside }
    }

    fn line(&self, at: usize) -> (String, Style) {
        let theme = self.app.look.theme;
        if let Some(line) = self.above.get(at) {
            return line.clone();
        }
        // A line is free before the rows and one behind them.
        let rows = self.confirm.rows();
        match (at - self.above.len()).checked_sub(1) {
            Some(row) if row < rows => (row_line(self.app, self.confirm, row), theme.plain()),
            Some(row) if row > rows => self.below.get(row - rows - 1).cloned().unwrap_or_default(),
            Some(_) | None => (String::new(), theme.plain()),
        }
    }
}

fn title(app: &App, confirm: &Confirm) -> String {
    let words = app.words();
    match &confirm.what {
        What::Rows(plan) => {
            let made = time(plan.made_at, app.look.local);
            fill(words.plan_title, &[words.act(plan.act), &made])
        }
        What::Batch(_) => {
            fill(words.plan_title, &[words.act_dispatch, &time(app.now, app.look.local)])
        }
    }
}

/// What will be done, how many rows, what total, which rows are left out.
fn above(app: &App, confirm: &Confirm, cells: usize) -> Vec<(String, Style)> {
    let (words, theme) = (app.words(), app.look.theme);
    let mut lines = Vec::new();
    let mut add = |text: String, style: Style| {
        lines.extend(wrapped(&shown(&text), cells).into_iter().map(|line| (line, style)));
    };
    match &confirm.what {
        What::Batch(events) => {
            add(words.button(None, events.len()), theme.header());
            add(words.plan_dispatch.to_owned(), theme.plain());
        }
        What::Rows(plan) => {
            let (rows, left_out) = (plan.rows.len(), plan.left_out.len());
            let all = (rows + left_out).to_string();
            let mut numbers = vec![fill(words.plan_takes, &[&rows.to_string(), &all])];
            if left_out > 0 {
                numbers.push(fill(words.plan_left_out, &[&left_out.to_string()]));
            }
            if rows > 0 {
                numbers.push(total(app, plan));
            }
            add(numbers.join("   "), theme.header());
            for (guid, why) in plan.left_out.iter().take(LEFT_OUT_SHOWN) {
                let guid = middle(&shown(guid.as_str()), guid_cells(app));
                add(format!("  {guid}  {}", app.why_not(plan.act, why)), theme.warning());
            }
            if left_out > LEFT_OUT_SHOWN {
                add(format!("  +{}", left_out - LEFT_OUT_SHOWN), theme.warning());
            }
            add(doing(app, plan.act), theme.plain());
        }
    }
    lines
}

fn total(app: &App, plan: &Plan) -> String {
    let words = app.words();
    let mut text = fill(words.plan_total, &[&grouped(plan.total)]);
    if plan.without_amount > 0 {
        text.push(' ');
        text.push_str(&fill(words.plan_no_amount, &[&plan.without_amount.to_string()]));
    }
    text
}

fn doing(app: &App, act: Act) -> String {
    let words = app.words();
    match act {
        Act::Resolve => words.plan_resolve.to_owned(),
        Act::Reprocess => words.plan_reprocess.to_owned(),
        Act::Purge => {
            let days = app.facts.days.unwrap_or_default().to_string();
            fill(words.plan_purge, &[&days])
        }
    }
}

/// Cells of a GUID: where there is little room, amount and reason matter more than its middle.
fn guid_cells(app: &App) -> usize {
    if app.size.0 < 100 { 20 } else { 30 }
}

/// The n-th row.
fn row_line(app: &App, confirm: &Confirm, at: usize) -> String {
    match &confirm.what {
        What::Batch(events) => events.get(at).map_or(String::new(), |event| {
            format!(
                "{} {} {}",
                right(&event.seq.to_string(), 8),
                right(&event.qty.to_string(), 5),
                shown(&event.id)
            )
        }),
        What::Rows(plan) => plan.rows.get(at).map_or(String::new(), |row| {
            let old = age_s(&row.updated_at, app.now).map_or("?".to_owned(), age);
            let amount = row.amount.map_or("-".to_owned(), grouped);
            let cells = guid_cells(app);
            format!(
                "{} {} {} {} {}",
                left(&middle(&shown(row.planned.guid.as_str()), cells), cells),
                left(&format!("{} {}", symbol(row.state), row.state), 11),
                right(&old, 6),
                right(&amount, 13),
                shown(row.seen.as_deref().unwrap_or("-"))
            )
        }),
    }
}

fn below(app: &App, confirm: &Confirm, cells: usize) -> Vec<(String, Style)> {
    let (words, theme) = (app.words(), app.look.theme);
    if confirm.rows() == 0 {
        return vec![(words.nothing_to_do.to_owned(), theme.warning())];
    }
    let checked = match confirm.what {
        What::Rows(_) => words.plan_checked,
        What::Batch(_) => "",
    };
    wrapped(checked, cells).into_iter().map(|line| (line, theme.dim())).collect()
}

/// Reason, number, buttons.
fn act(app: &App, pen: &mut Pen<'_>, confirm: &Confirm, row: usize) -> Option<(u16, u16)> {
    let (words, theme) = (app.words(), app.look.theme);
    let rows = confirm.rows();
    let cancel = format!("[ {} ]", words.cancel);
    if rows == 0 {
        pen.at(2, row + 1, 40, &cancel, theme.cursor());
        return None;
    }
    let count = fill(words.ask_count, &[&rows.to_string()]);
    let label_cells = width(words.ask_reason).max(width(&count)) + 2;
    let mut cursor = None;
    let fields = [
        (words.ask_reason, &confirm.reason, Focus::Reason),
        (count.as_str(), &confirm.count, Focus::Count),
    ];
    for (at, (label, edit, focus)) in fields.into_iter().enumerate() {
        let has_focus = confirm.focus == focus;
        let head = format!("{} {label}", if has_focus { '>' } else { ' ' });
        pen.at(0, row + at, label_cells + 2, &head, theme.plain());
        let column = label_cells + 1;
        let end = field(
            pen,
            column,
            row + at,
            edit,
            if has_focus { theme.cursor() } else { theme.plain() },
        );
        if has_focus {
            cursor = Some((
                pen.area.x + u16::try_from(end).ok()?,
                pen.area.y + u16::try_from(row + at).ok()?,
            ));
        }
    }
    let style = |focus| if confirm.focus == focus { theme.cursor() } else { theme.plain() };
    let end = pen.at(2, row + 3, 40, &cancel, style(Focus::Cancel));
    let act = match &confirm.what {
        What::Rows(plan) => Some(plan.act),
        What::Batch(_) => None,
    };
    let button = format!("( {} )", words.button(act, rows));
    let end = pen.at(end + 3, row + 3, 60, &button, style(Focus::Act));
    let (text, style) = if confirm.is_armed() {
        (words.armed, theme.warning())
    } else {
        (words.not_yet, theme.dim())
    };
    pen.at(end + 2, row + 3, 40, text, style);
    cursor
}

/// A text field; returns the column of its cursor.
fn field(pen: &mut Pen<'_>, column: usize, row: usize, edit: &Edit, style: Style) -> usize {
    let room = pen.width().saturating_sub(column + 2);
    let (before, after) = edit.parts();
    let before = super::frame::tail(&shown(before), room.saturating_sub(1));
    let cursor = column + width(&before);
    let text = left(&format!("{before}{}", shown(after)), room.min(60).max(width(&before) + 1));
    pen.at(column, row, room, &text, style);
    cursor
}
