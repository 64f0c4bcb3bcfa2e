//! The plan and its confirmation; short lists to choose from.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Pen, boxed};
use crate::console::app::confirm::What;
use crate::console::app::{App, Confirm, Edit, Focus, Menu};
use crate::console::text::{age, fill, grouped, left, right, shown, time, width, wrapped};
use crate::console::theme::symbol;
use crate::engine::desk::{Act, Plan, age_s};

/// Rows that are left out and shown one by one; the rest is counted.
const LEFT_OUT_SHOWN: usize = 3;

pub fn draw_menu(app: &App, buf: &mut Buffer, body: Rect, menu: &Menu) {
    let cells = menu.lines.iter().map(|line| width(line)).max().unwrap_or(0) + 8;
    let area = centred(body, cells, menu.lines.len() + 2);
    let mut pen = boxed(app, buf, area, "", app.words().close, true);
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
    let cells = usize::from(body.width).min(100);
    let rows = rows(app, confirm);
    let mut above = above(app, confirm, cells - 4);
    let mut below = below(app, confirm, cells - 4);
    let acting = if rows.is_empty() { 2 } else { 4 };
    // Where room is short, the general remarks go first, then what stands last above; never the fields and buttons.
    let room = usize::from(body.height).saturating_sub(2 + acting + rows.len().min(2));
    if above.len() + below.len() > room && !rows.is_empty() {
        below.clear();
    }
    above.truncate(room.saturating_sub(below.len()));
    let wanted = above.len() + 1 + rows.len() + below.len() + acting + 1;
    let area = centred(body, cells, wanted + 2);
    let title = title(app, confirm);
    let mut pen = boxed(app, buf, area, &title, "", true);
    for (row, (text, style)) in above.iter().enumerate() {
        pen.at(1, row, pen.width(), text, *style);
    }
    let last = pen.height().saturating_sub(below.len() + acting);
    let gap = usize::from(last > above.len() + 1 + rows.len().min(3));
    let room = last.saturating_sub(above.len() + gap);
    for (row, text) in rows.iter().take(room).enumerate() {
        pen.at(1, above.len() + gap + row, pen.width(), text, app.look.theme.plain());
    }
    for (at, (text, style)) in below.iter().enumerate() {
        pen.at(1, last + at, pen.width(), text, *style);
    }
    let row = pen.height().saturating_sub(acting);
    act(app, &mut pen, confirm, row)
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
            let (rows, all) = (plan.rows.len(), plan.rows.len() + plan.left_out.len());
            add(fill(words.plan_takes, &[&rows.to_string(), &all.to_string()]), theme.header());
            if rows > 0 {
                add(total(app, plan), theme.header());
            }
            if !plan.left_out.is_empty() {
                let count = plan.left_out.len().to_string();
                add(fill(words.plan_left_out, &[&count]), theme.warning());
                for (guid, why) in plan.left_out.iter().take(LEFT_OUT_SHOWN) {
                    add(format!("  {guid}  {}", app.why_not(plan.act, why)), theme.plain());
                }
                if plan.left_out.len() > LEFT_OUT_SHOWN {
                    add(format!("  +{}", plan.left_out.len() - LEFT_OUT_SHOWN), theme.dim());
                }
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

/// Each row.
fn rows(app: &App, confirm: &Confirm) -> Vec<String> {
    match &confirm.what {
        What::Batch(events) => events
            .iter()
            .skip(confirm.top)
            .map(|event| {
                format!(
                    "{} {} {}",
                    right(&event.seq.to_string(), 8),
                    right(&event.qty.to_string(), 5),
                    shown(&event.id)
                )
            })
            .collect(),
        What::Rows(plan) => plan
            .rows
            .iter()
            .skip(confirm.top)
            .take(200)
            .map(|row| {
                let old = age_s(&row.updated_at, app.now).map_or("?".to_owned(), age);
                let amount = row.amount.map_or("-".to_owned(), grouped);
                format!(
                    "{} {} {} {} {}",
                    left(&shown(row.planned.guid.as_str()), 30),
                    left(&format!("{} {}", symbol(row.state), row.state), 11),
                    right(&old, 6),
                    right(&amount, 15),
                    shown(row.seen.as_deref().unwrap_or("-"))
                )
            })
            .collect(),
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
