//! The one way in which text from data becomes text for people: what would drive a terminal, hide or reorder is made visible.

use std::fmt::Write;

/// `text` with control characters as `^[`, and bidirectional, zero-width and other invisible characters as `\u{202e}`. What
/// comes out holds no character that a terminal acts upon.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_visible(&mut out, c);
    }
    out
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\0'..='\x1f' => {
            out.push('^');
            out.push(char::from(c as u8 + b'@'));
        }
        '\x7f' => out.push_str("^?"),
        _ if is_hidden(c) => {
            write!(out, "\\u{{{:x}}}", u32::from(c))
                .expect("a String takes whatever is written to it");
        }
        _ => out.push(c),
    }
}

/// Whether a terminal would act upon the character or show nothing of it: C1 controls, format characters (zero width,
/// bidirectional, tags), line and paragraph separators, surrogate halves can't be chars, variation selectors, fillers.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    matches!(u32::from(c),
        0x80..=0x9f | 0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x110bd
        | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_shown_and_not_done() {
        assert_eq!(visible("a\x1b[2J\x7f\u{9b}b"), "a^[[2J^?\\u{9b}b");
        assert_eq!(visible("x\u{202e}y\u{200b}z\u{feff}"), "x\\u{202e}y\\u{200b}z\\u{feff}");
        assert_eq!(visible("월세 3월분 家賃 😀"), "월세 3월분 家賃 😀");
        assert_eq!(visible("line\nnext\ttab\r"), "line^Jnext^Itab^M");
    }
}
