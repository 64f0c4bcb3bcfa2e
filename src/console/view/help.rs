//! The help: the table of keys, searchable. What is off here says why.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::boxed;
use crate::console::app::App;
use crate::console::keys::{Action, Group, TABLE};
use crate::console::text::{left, wrapped};
use crate::engine::desk::Act;

pub fn draw(app: &App, buf: &mut Buffer, body: Rect, search: &str, top: usize) {
    let words = app.words();
    let area = area(body);
    let lines = lines(app, search, usize::from(area.width.saturating_sub(2)));
    let room = room(area);
    let top = top.min(lines.len().saturating_sub(room));
    let more = super::more(app, top, room, lines.len());
    let note =
        if more.is_empty() { words.close.to_owned() } else { format!("{more}  {}", words.close) };
    let mut pen = boxed(app, buf, area, words.help, &note, true);
    let field = format!(" {}: {search}_", words.help_search);
    pen.line(0, &field, app.look.theme.header());
    for (row, (text, style)) in lines.into_iter().skip(top).take(room).enumerate() {
        pen.line(row + 1, &text, style);
    }
}

/// How far the help can be scrolled.
#[must_use]
pub fn top_max(app: &App, search: &str) -> usize {
    let area = area(super::frame::body(app.size));
    let lines = lines(app, search, usize::from(area.width.saturating_sub(2)));
    lines.len().saturating_sub(room(area))
}

fn area(body: Rect) -> Rect {
    let margin = if body.width >= 90 { 8 } else { 0 };
    Rect { x: body.x + margin, width: body.width - 2 * margin, ..body }
}

/// Lines of keys that are seen at once: all but the border and the search.
fn room(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(3)
}

fn lines(app: &App, search: &str, cells: usize) -> Vec<(String, Style)> {
    let (words, theme) = (app.words(), app.look.theme);
    let groups = [
        (Group::Move, words.group_move),
        (Group::Look, words.group_look),
        (Group::Find, words.group_find),
        (Group::Mark, words.group_mark),
        (Group::Act, words.group_act),
        (Group::Take, words.group_take),
        (Group::Program, words.group_program),
    ];
    let search = search.to_lowercase();
    let mut lines = Vec::new();
    for (group, name) in groups {
        let mut of_group = Vec::new();
        for binding in TABLE.iter().filter(|binding| binding.group == group) {
            let label = binding.label(app.look.lang);
            let keys = app.keys.spelled(binding.action);
            let found = [label, binding.name, &keys]
                .iter()
                .any(|text| text.to_lowercase().contains(&search));
            if !found {
                continue;
            }
            let here = binding.is_in(app.place());
            let style = if here { theme.plain() } else { theme.dim() };
            let off =
                why_off(app, binding.action).map(|why| format!("  {why}")).unwrap_or_default();
            let text = format!(
                "  {} {} {label}{off}",
                left(&keys, 14),
                left(&format!(":{}", binding.name), 16)
            );
            of_group.push((text, style));
        }
        if !of_group.is_empty() {
            lines.push((format!(" {name}"), theme.title()));
            lines.extend(of_group);
        }
    }
    lines.push((String::new(), theme.plain()));
    lines.extend(
        wrapped(words.help_filter, cells.saturating_sub(2))
            .into_iter()
            .map(|line| (format!(" {line}"), theme.dim())),
    );
    lines
}

/// Why an action is off now.
fn why_off(app: &App, action: Action) -> Option<String> {
    let act = match action {
        Action::Resolve => Act::Resolve,
        Action::Reprocess => Act::Reprocess,
        Action::Purge => Act::Purge,
        Action::Dispatch if !app.facts.outbox => return Some(app.words().no_outbox.to_owned()),
        Action::Note | Action::Reveal if app.facts.read_only => {
            return Some(app.words().off_read_only.to_owned());
        }
        _ => return None,
    };
    app.off(act).map(|off| app.why_off(off))
}
