//! For terminals without box characters: every cell becomes one byte of 20-7e. What has no likeness becomes `?`, cell by cell.

use ratatui::buffer::Buffer;

use crate::console::text::width;

/// Turns the whole buffer into plain characters.
pub fn plain(buf: &mut Buffer) {
    let area = *buf.area();
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let symbol = buf[(x, y)].symbol().to_owned();
            let wide = width(&symbol).max(1);
            if !symbol.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) || symbol.is_empty() {
                let likeness = like(&symbol);
                for at in 0..u16::try_from(wide).unwrap_or(1) {
                    if let Some(cell) = buf.cell_mut((x + at, y)) {
                        cell.set_symbol(likeness);
                    }
                }
            }
            x += u16::try_from(wide).unwrap_or(1);
        }
    }
}

fn like(symbol: &str) -> &'static str {
    match symbol {
        "" => " ",
        "─" => "-",
        "│" => "|",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" => "+",
        "█" => "#",
        "░" | "·" | "▁" => ".",
        "▂" | "▃" => ":",
        "▄" | "▅" => "+",
        "▆" | "▇" => "*",
        "…" => "~",
        "↑" => "^",
        "↓" => "v",
        "←" => "<",
        "→" => ">",
        _ => "?",
    }
}
