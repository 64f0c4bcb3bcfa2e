//! A telegram as hex with a column of text, and as fields; one cursor, highlighted in both.

use ratatui::style::Style;

use super::Pen;
use crate::console::app::App;
use crate::console::export::{field_text, is_masked};
use crate::console::text::{left, right, shown, width};
use crate::telegram::Encoding;
use crate::visible::is_hidden;

/// What the text column can be read as.
pub const ENCODINGS: [Encoding; 4] =
    [Encoding::Ascii, Encoding::Cp949, Encoding::ShiftJis, Encoding::Utf8];

/// What stands in the text column for a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glyph {
    /// The first byte of a character, which takes this and the next byte's cell if it is wide.
    Char(char, usize),
    /// A further byte of a character.
    Rest,
    /// No character.
    Dot,
    /// A masked byte.
    Mask,
}

/// The glyphs of all bytes. A character has as many bytes as its encoding gives it, and never more cells than bytes.
#[must_use]
pub fn glyphs(bytes: &[u8], encoding: Encoding, masked: impl Fn(usize) -> bool) -> Vec<Glyph> {
    let mut glyphs = Vec::with_capacity(bytes.len());
    while glyphs.len() < bytes.len() {
        let at = glyphs.len();
        if masked(at) {
            glyphs.push(Glyph::Mask);
            continue;
        }
        let found = (1..=4.min(bytes.len() - at)).find_map(|length| {
            let text = encoding.decode(&bytes[at..at + length]).ok()?;
            let mut chars = text.chars();
            let (c, None) = (chars.next()?, chars.next()) else { return None };
            Some((c, length))
        });
        match found {
            Some((c, length)) => {
                let cells = width(&c.to_string());
                let fits = (1..=length).contains(&cells) && !is_hidden(c) && !c.is_control();
                let split = (at..at + length).any(&masked);
                glyphs.push(if fits && !split { Glyph::Char(c, cells) } else { Glyph::Dot });
                glyphs.extend((1..length).map(|_| Glyph::Rest));
            }
            None => glyphs.push(Glyph::Dot),
        }
    }
    glyphs
}

/// Bytes in one line: sixteen, or eight where there is less room.
#[must_use]
pub fn per_line(cells: usize) -> usize {
    if cells >= 6 + 16 * 3 + 2 + 16 { 16 } else { 8 }
}

/// Draws the hex dump; the cursor's line is always in sight.
pub(super) fn draw(app: &App, pen: &mut Pen<'_>) {
    let (bytes, fields, theme) = (app.bytes(), app.fields(), app.look.theme);
    let per_line = per_line(pen.width());
    let revealed = app.looking.guid.as_ref().is_some_and(|guid| app.revealed.contains(guid));
    let encoding = ENCODINGS[app.encoding % ENCODINGS.len()];
    let glyphs = glyphs(bytes, encoding, |at| is_masked(fields, at, revealed));
    let field = app.field_at().and_then(|at| fields.get(at));
    let style = |at: usize| -> Style {
        let in_field = field.is_some_and(|f| (f.offset..f.offset + f.length).contains(&at));
        if in_field { theme.field() } else { theme.plain() }
    };
    let cursor_line = app.looking.at / per_line;
    let top = (cursor_line + 1).saturating_sub(pen.height());
    for row in 0..pen.height() {
        let begin = (top + row) * per_line;
        if begin >= bytes.len() {
            break;
        }
        pen.at(0, row, 6, &format!("{begin:04x}"), theme.dim());
        let end = (begin + per_line).min(bytes.len());
        for at in begin..end {
            let text = match glyphs[at] {
                Glyph::Mask => "**".to_owned(),
                Glyph::Char(..) | Glyph::Rest | Glyph::Dot => format!("{:02x}", bytes[at]),
            };
            pen.at(6 + (at - begin) * 3, row, 2, &text, style(at));
        }
        let text_column = 6 + per_line * 3 + 1;
        pen.at(text_column - 1, row, 1, "│", theme.border());
        for at in begin..end {
            let column = text_column + (at - begin);
            // A wide character that would cross the line's end shows its bytes as dots.
            let glyph = match &glyphs[at] {
                Glyph::Char(c, cells) if at + cells <= end => c.to_string(),
                Glyph::Mask => "*".to_owned(),
                Glyph::Rest if is_second_cell(&glyphs, begin, at) => continue,
                Glyph::Rest => " ".to_owned(),
                Glyph::Char(..) | Glyph::Dot => ".".to_owned(),
            };
            pen.at(column, row, 2, &glyph, style(at));
        }
    }
}

/// Whether the cell of this byte belongs to the wide character before it, on the same line.
fn is_second_cell(glyphs: &[Glyph], begin: usize, at: usize) -> bool {
    at > begin && matches!(glyphs[at - 1], Glyph::Char(_, 2))
}

/// Draws the fields; the one under the cursor is always in sight.
pub(super) fn draw_fields(app: &App, pen: &mut Pen<'_>) {
    let (fields, theme, words) = (app.fields(), app.look.theme, app.words());
    let revealed = app.looking.guid.as_ref().is_some_and(|guid| app.revealed.contains(guid));
    let cursor = app.field_at();
    let name_cells = fields.iter().map(|field| width(&field.name)).max().unwrap_or(4).clamp(4, 16);
    let top = cursor.map_or(0, |at| (at + 1).saturating_sub(pen.height()));
    for (row, (at, field)) in fields.iter().enumerate().skip(top).take(pen.height()).enumerate() {
        let is_cursor = cursor == Some(at);
        let style = if is_cursor { theme.field() } else { theme.plain() };
        let place = format!("{}+{}", field.offset, field.length);
        let note = if field.sensitive && !revealed { words.masked_field } else { "" };
        let text = format!(
            "{} {} {} {}  {note}",
            if is_cursor { '>' } else { ' ' },
            right(&place, 7),
            left(&shown(&field.name), name_cells),
            shown(&field_text(field, revealed, words)),
        );
        let style = if field.text.is_err() && !is_cursor { theme.dim() } else { style };
        pen.line(row, &text, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], encoding: Encoding) -> String {
        glyphs(bytes, encoding, |_| false)
            .into_iter()
            .map(|glyph| match glyph {
                Glyph::Char(c, _) => c,
                Glyph::Rest => '_',
                Glyph::Dot => '.',
                Glyph::Mask => '*',
            })
            .collect()
    }

    #[test]
    fn a_character_of_two_bytes_takes_two_cells() {
        assert_eq!(text(b"\xb0\xa1A", Encoding::Cp949), "가_A");
        assert_eq!(text(b"\xb0\xa1A", Encoding::Ascii), "..A");
        assert_eq!(text("가A".as_bytes(), Encoding::Utf8), "가__A");
        assert_eq!(text(b"\x89\xc6A", Encoding::ShiftJis), "家_A");
    }

    #[test]
    fn nothing_that_drives_a_terminal_gets_a_glyph() {
        let bytes: Vec<u8> = (0..=255).collect();
        for encoding in ENCODINGS {
            for glyph in glyphs(&bytes, encoding, |_| false) {
                if let Glyph::Char(c, cells) = glyph {
                    assert!(!is_hidden(c) && !c.is_control() && cells > 0, "{c:?}");
                }
            }
        }
        assert_eq!(text("\u{202e}x".as_bytes(), Encoding::Utf8), ".__x");
    }

    #[test]
    fn masked_bytes_have_no_glyph() {
        assert_eq!(
            glyphs(b"ab", Encoding::Ascii, |at| at == 0),
            [Glyph::Mask, Glyph::Char('b', 1)]
        );
    }
}
