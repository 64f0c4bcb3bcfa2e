//! The outbox: what waits, in order, and what the other side has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::boxed;
use crate::console::app::App;
use crate::console::text::{fill, right, shown, time};

pub fn draw(app: &App, buf: &mut Buffer, body: Rect) {
    let (words, theme) = (app.words(), app.look.theme);
    let Some((outbox, at)) = app.outbox.as_ref().filter(|_| app.facts.outbox) else {
        let mut pen = boxed(app, buf, body, words.tab_outbox, "", true);
        let text = if app.facts.outbox { words.loading } else { words.no_outbox };
        let row = pen.height() / 3;
        pen.at(3, row, pen.width(), text, theme.header());
        return;
    };
    let mut pen = boxed(app, buf, body, words.tab_outbox, &time(*at, app.look.local), true);
    let counts = [outbox.waiting.to_string(), outbox.orders.to_string()];
    let mut text = fill(words.outbox_counts, &counts.each_ref().map(String::as_str));
    if let Some((received, stock)) = outbox.inbox {
        let counts = [received.to_string(), stock.to_string()];
        let other = fill(words.inbox_counts, &counts.each_ref().map(String::as_str));
        text = format!("{text}   {other}");
    }
    pen.line(0, &format!(" {text}"), theme.header());
    if outbox.pending.is_empty() {
        let row = pen.height() / 3;
        return pen.line(row, &format!("   {}", words.no_pending), theme.header());
    }
    let heads =
        format!("  {} {} {}", right(words.col_seq, 10), right(words.col_qty, 6), words.col_id);
    pen.line(1, &heads, theme.title());
    let rows = pen.height().saturating_sub(3);
    let top = (app.outbox_at + 1).saturating_sub(rows);
    for (row, (at, event)) in outbox.pending.iter().enumerate().skip(top).take(rows).enumerate() {
        let text = format!(
            "  {} {} {}",
            right(&event.seq.to_string(), 10),
            right(&event.qty.to_string(), 6),
            shown(&event.id)
        );
        pen.line(row + 2, &text, theme.plain());
        if at == app.outbox_at {
            pen.at(0, row + 2, 1, ">", theme.plain());
            pen.style(row + 2, theme.cursor());
        }
    }
    let last = pen.height().saturating_sub(1);
    pen.line(last, &format!(" {}", words.no_age), theme.dim());
}
