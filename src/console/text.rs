//! The one way from data to the screen: what would drive the terminal is made visible, widths are counted in cells by grapheme,
//! cuts never split a character.

use chrono::{DateTime, Local, Utc};
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::visible::visible;

/// `text` without a character that a terminal acts upon or swallows: those of [`visible`], and marks that have nothing to stand on.
#[must_use]
pub fn shown(text: &str) -> String {
    let visible = visible(text);
    if visible.is_ascii() {
        return visible;
    }
    let mut out = String::with_capacity(visible.len());
    for grapheme in visible.graphemes(true) {
        if grapheme.width() == 0 {
            out.extend(grapheme.chars().map(|c| format!("\\u{{{:x}}}", u32::from(c))));
        } else {
            out.push_str(grapheme);
        }
    }
    out
}

/// How many cells `text` takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// `text` in at most `cells` cells, with `…` where something is missing.
#[must_use]
pub fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        let wide = grapheme.width();
        if used + wide + 1 > cells {
            break;
        }
        out.push_str(grapheme);
        used += wide;
    }
    if used < cells {
        out.push('…');
    }
    out
}

/// `text` in exactly `cells` cells, to the left.
#[must_use]
pub fn left(text: &str, cells: usize) -> String {
    let mut text = cut(text, cells);
    text.extend(std::iter::repeat_n(' ', cells - width(&text)));
    text
}

/// `text` in exactly `cells` cells, to the right.
#[must_use]
pub fn right(text: &str, cells: usize) -> String {
    let text = cut(text, cells);
    format!("{}{text}", " ".repeat(cells - width(&text)))
}

/// `text` broken into lines of at most `cells` cells: at spaces, and between characters that are written without any.
#[must_use]
pub fn wrapped(text: &str, cells: usize) -> Vec<String> {
    let cells = cells.max(1);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for unit in units(text) {
        if used > 0 && used + width(unit.trim_end()) > cells {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        for grapheme in unit.graphemes(true) {
            if used + grapheme.width() > cells && grapheme != " " {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0;
            }
            line.push_str(grapheme);
            used += grapheme.width();
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// What a line is not broken within: a word with the spaces behind it, or one kanji or kana with the marks that may not begin a
/// line. Hangul has spaces between its words.
fn units(text: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let mut begin = 0;
    let mut graphemes = text.grapheme_indices(true).peekable();
    while let Some((at, grapheme)) = graphemes.next() {
        let Some((next_at, next)) = graphemes.peek().copied() else { break };
        let breaks = if grapheme == " " {
            next != " "
        } else {
            next != " "
                && (is_unspaced(grapheme) || is_unspaced(next))
                && !NOT_FIRST.contains(next)
                && !NOT_LAST.contains(grapheme)
        };
        if breaks && at >= begin {
            units.push(&text[begin..next_at]);
            begin = next_at;
        }
    }
    units.push(&text[begin..]);
    units
}

/// Marks that begin no line.
const NOT_FIRST: &str =
    "。、・」』）】〉》！？：；，．ーぁぃぅぇぉっゃゅょァィゥェォッャュョ)]}:;,.!?";
/// Marks that end no line.
const NOT_LAST: &str = "「『（【〈《([{";

/// Kana, kanji and their marks.
fn is_unspaced(grapheme: &str) -> bool {
    grapheme.chars().next().is_some_and(|c| {
        matches!(c, '\u{3000}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff60}')
    })
}

/// A text in at most `cells` cells, its beginning and its end: of a GUID both tell more than all but the end.
#[must_use]
pub fn middle(text: &str, cells: usize) -> String {
    if width(text) <= cells || !text.is_ascii() || cells < 8 {
        return text.to_owned();
    }
    let tail = cells / 3;
    format!("{}…{}", &text[..cells - tail - 1], &text[text.len() - tail..])
}

/// Writes data at (`x`, `y`) in at most `cells` cells; outside the buffer nothing happens. Returns how many cells it took.
pub fn put(buf: &mut Buffer, x: u16, y: u16, cells: usize, text: &str, style: Style) -> u16 {
    let area = *buf.area();
    if y < area.top() || y >= area.bottom() || x < area.left() || x >= area.right() {
        return 0;
    }
    let cells = cells.min(usize::from(area.right() - x));
    let text = cut(&shown(text), cells);
    let (end, _) = buf.set_stringn(x, y, &text, cells, style);
    end - x
}

/// A number with its digits in groups of three.
#[must_use]
pub fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An age in at most six cells: `8s`, `51m09s`, `2h14m`, `3d04h`.
#[must_use]
pub fn age(seconds: i64) -> String {
    let s = seconds.max(0);
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        _ if s < 86_400 * 100 => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3_600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A time with its zone: UTC, or local time with its offset.
#[must_use]
pub fn stamp(at: DateTime<Utc>, local: bool) -> String {
    if local {
        at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S %:z").to_string()
    } else {
        at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
    }
}

/// A time of day with its zone.
#[must_use]
pub fn time(at: DateTime<Utc>, local: bool) -> String {
    if local {
        at.with_timezone(&Local).format("%H:%M:%S %:z").to_string()
    } else {
        at.format("%H:%M:%S UTC").to_string()
    }
}

/// The text of one language with its places filled in: `{}` takes the next value, `{1}` the second one wherever it stands.
#[must_use]
pub fn fill(template: &str, values: &[&str]) -> String {
    let mut text = template.to_owned();
    let mut rest: Vec<&str> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let place = format!("{{{at}}}");
        // What a value says is never filled again: places are told apart before any is filled.
        if text.contains(&place) {
            text = text.replace(&place, &format!("\u{0}{at}\u{0}"));
        } else {
            rest.push(value);
        }
    }
    let mut parts = text.split("{}");
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut rest = rest.into_iter();
    for part in parts {
        out.push_str(rest.next().unwrap_or_default());
        out.push_str(part);
    }
    for (at, value) in values.iter().enumerate() {
        out = out.replace(&format!("\u{0}{at}\u{0}"), value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_never_splits_a_wide_character() {
        assert_eq!(cut("한글이다", 5), "한글…");
        assert_eq!(cut("한글이다", 4), "한…");
        assert_eq!(cut("한글", 4), "한글");
        assert_eq!(cut("한", 1), "…");
        assert_eq!(cut("한", 0), "");
        assert_eq!(left("漢字", 5), "漢字 ");
        assert_eq!(right("漢字", 5), " 漢字");
    }

    #[test]
    fn of_a_long_key_both_ends_are_shown() {
        assert_eq!(middle("20261129MOB0000000000000004711", 22), "20261129MOB000…0004711");
        assert_eq!(middle("short", 22), "short");
    }

    #[test]
    fn what_a_terminal_would_swallow_is_shown() {
        assert_eq!(shown("a\u{200d}b\u{1b}"), "a\\u{200d}b^[");
        assert_eq!(shown("\u{301}a"), "\\u{301}a");
        assert_eq!(shown("e\u{301}"), "e\u{301}");
    }

    #[test]
    fn amounts_are_exact_at_every_size() {
        assert_eq!(grouped(0_u64), "0");
        assert_eq!(grouped(1_250_000_u64), "1,250,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn ages_are_short() {
        let ages: Vec<String> = [0, 59, 60, 3_069, 8_040, 273_600, 10_000_000].map(age).to_vec();
        assert_eq!(ages, ["0s", "59s", "1m00s", "51m09s", "2h14m", "3d04h", "115d"]);
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("send it again now", 8), ["send it", "again", "now"]);
        assert_eq!(wrapped("가나다라", 5), ["가나", "다라"]);
        assert_eq!(wrapped("가나 다라마", 8), ["가나", "다라마"]);
        assert_eq!(wrapped("UNKNOWN: 結果未確定、先に", 14), ["UNKNOWN: 結果", "未確定、先に"]);
        assert_eq!(wrapped("取り消せます。はい", 12), ["取り消せま", "す。はい"]);
        assert_eq!(wrapped("これは「引用」です", 8), ["これは", "「引用」", "です"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
