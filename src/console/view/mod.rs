//! Drawing: pure, from `&App` into a buffer. What comes from data goes through [`super::text::put`].
//!
//! Only what is in the window is drawn: a million rows cost as much as forty. Never fails, whatever the size.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::{App, Mode, Tab};
use super::text::{fill, put, shown};

mod ascii;
pub(super) mod detail;
pub(super) mod dialog;
pub mod frame;
pub(super) mod help;
pub mod hex;
mod history;
mod ledger;
mod outbox;
mod overview;
mod runs;

/// The smallest terminal that shows everything that has to be seen.
pub const COLUMNS_MIN: u16 = 60;
/// See [`COLUMNS_MIN`].
pub const LINES_MIN: u16 = 15;

/// Draws the whole screen. Returns where the terminal's cursor belongs, if text is being typed.
pub fn draw(app: &App, buf: &mut Buffer) -> Option<(u16, u16)> {
    let area = *buf.area();
    let cursor = if area.width < COLUMNS_MIN || area.height < LINES_MIN {
        let size = [area.width.to_string(), area.height.to_string()];
        let text = fill(app.words().too_small, &size.each_ref().map(String::as_str));
        put(buf, 0, 0, area.width.into(), &text, app.look.theme.warning());
        None
    } else {
        draw_whole(app, buf, area)
    };
    if app.look.ascii {
        ascii::plain(buf);
    }
    cursor
}

fn draw_whole(app: &App, buf: &mut Buffer, area: Rect) -> Option<(u16, u16)> {
    let body = frame::draw(app, buf, area);
    match app.tab {
        Tab::Overview => overview::draw(app, buf, body),
        Tab::Ledger => ledger::draw(app, buf, body),
        Tab::Runs => runs::draw(app, buf, body),
        Tab::Outbox => outbox::draw(app, buf, body),
        Tab::History => history::draw(app, buf, body),
    }
    match &app.mode {
        Mode::Normal | Mode::Planning(_) | Mode::AskQuit => None,
        Mode::Typing(prompt) => frame::draw_prompt(app, buf, area, prompt),
        Mode::Choosing(menu) => {
            dialog::draw_menu(app, buf, body, menu);
            None
        }
        Mode::Confirming(confirm) => dialog::draw_confirm(app, buf, body, confirm),
        Mode::Help { search, top } => {
            help::draw(app, buf, body, search, *top);
            None
        }
    }
}

/// Which of all lines are seen, where not all are; and that the others can be scrolled to.
fn more(app: &App, top: usize, rows: usize, all: usize) -> String {
    if all <= rows {
        return String::new();
    }
    let (from, to) = ((top + 1).to_string(), (top + rows).min(all).to_string());
    fill(app.words().more_lines, &[&from, &to, &all.to_string(), "↑↓"])
}

/// A part of the buffer, written line by line.
struct Pen<'a> {
    buf: &'a mut Buffer,
    area: Rect,
}

impl Pen<'_> {
    /// Writes a line; outside the area nothing happens.
    fn line(&mut self, row: usize, text: &str, style: Style) {
        self.at(0, row, usize::from(self.area.width), text, style);
    }

    /// Writes at a column, in at most `cells` cells; returns the column behind it.
    fn at(&mut self, column: usize, row: usize, cells: usize, text: &str, style: Style) -> usize {
        let width = usize::from(self.area.width);
        if row >= usize::from(self.area.height) || column >= width {
            return column;
        }
        let x = self.area.x + u16::try_from(column).unwrap_or(u16::MAX);
        let y = self.area.y + u16::try_from(row).unwrap_or(u16::MAX);
        column + usize::from(put(self.buf, x, y, cells.min(width - column), text, style))
    }

    /// Gives a line's cells a style.
    fn style(&mut self, row: usize, style: Style) {
        if row < usize::from(self.area.height) {
            let y = self.area.y + u16::try_from(row).unwrap_or(u16::MAX);
            self.buf.set_style(Rect { y, height: 1, ..self.area }, style);
        }
    }

    fn width(&self) -> usize {
        self.area.width.into()
    }

    fn height(&self) -> usize {
        self.area.height.into()
    }
}

/// Draws a box with a title above and a note below; returns a pen for its inside. Whatever was there is gone, wide characters whole.
fn boxed<'a>(
    app: &App,
    buf: &'a mut Buffer,
    area: Rect,
    title: &str,
    note: &str,
    focus: bool,
) -> Pen<'a> {
    let area = area.intersection(*buf.area());
    wipe(buf, area);
    let theme = app.look.theme;
    let border = if focus { theme.title() } else { theme.border() };
    let (w, h) = (area.width, area.height);
    if w >= 2 && h >= 2 {
        let horizontal = "─".repeat(usize::from(w) - 2);
        put(buf, area.x, area.y, w.into(), &format!("┌{horizontal}┐"), border);
        put(buf, area.x, area.bottom() - 1, w.into(), &format!("└{horizontal}┘"), border);
        for y in area.y + 1..area.bottom() - 1 {
            put(buf, area.x, y, 1, "│", border);
            put(buf, area.right() - 1, y, 1, "│", border);
        }
        let room = usize::from(w).saturating_sub(4);
        if !title.is_empty() {
            put(buf, area.x + 2, area.y, room, &format!(" {} ", shown(title)), theme.title());
        }
        if !note.is_empty() {
            let note = super::text::cut(&format!(" {} ", shown(note)), room);
            let cells = u16::try_from(super::text::width(&note)).unwrap_or(w);
            let x = (area.right() - 1).saturating_sub(cells + 1).max(area.x);
            put(buf, x, area.bottom() - 1, room, &note, theme.dim());
        }
    }
    let inside = Rect {
        x: area.x + 1.min(w),
        y: area.y + 1.min(h),
        width: w.saturating_sub(2),
        height: h.saturating_sub(2),
    };
    Pen { buf, area: inside }
}

/// Empties an area. A wide character that is half inside goes whole: half of one is no character.
fn wipe(buf: &mut Buffer, area: Rect) {
    for y in area.top()..area.bottom() {
        if area.left() > buf.area().left()
            && let Some(cell) = buf.cell_mut((area.left() - 1, y))
            && super::text::width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
}
