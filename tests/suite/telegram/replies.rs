//! Replies: golden bytes, what is set, what is copied.

use oncegate::code::{Code, CoreCode};
use oncegate::telegram::ReplyBody;

use super::*;

#[test]
fn the_golden_request_gets_the_golden_e901_but_for_its_longer_chain() {
    let mut expected = RES_E901.to_vec();
    expected[40..42].copy_from_slice(b"02");
    assert_eq!(Layout::std128().error_reply(&golden(), Code::Unknown, at()), expected);
}

#[test]
fn the_golden_request_gets_the_golden_answer_but_for_its_longer_chain() {
    let time = Utc.with_ymd_and_hms(2026, 9, 28, 9, 30, 15).unwrap();
    let body = ReplyBody(RES_EUCKR[128..].to_vec());
    let mut expected = RES_EUCKR.to_vec();
    expected[40..42].copy_from_slice(b"02");
    let reply = Layout::std128().done_reply(&golden(), &body, time + TimeDelta::milliseconds(987));
    assert_eq!(reply, expected);
}

#[test]
fn rule_6_what_is_not_set_comes_back_byte_for_byte() {
    let layout = Layout::std128();
    let sent = golden_with(&[
        (8, b"\xffZ"),
        (51, b"9"),
        (52, b"\xb0A\x01"),
        (55, b"not a time at all"),
        (72, b"stale time here.."),
        (92, b"STAL"),
        (96, b"XYZ"),
        (99, b"\x01\x02keep\xfe"),
        (193, b"\xff\xfe\0"),
    ]);
    let request = layout.decode_request(&sent).unwrap();
    let reply = layout.error_reply(&request, Code::NotSent, at());
    let mut expected = sent[..128].to_vec();
    expected[..8].copy_from_slice(b"00000165");
    expected[40..42].copy_from_slice(b"02");
    expected[50] = b'R';
    expected[72..89].copy_from_slice(b"20260928093018130");
    expected[92..99].copy_from_slice(b"E902RLY");
    expected.extend_from_slice(&RES_E901[128..]);
    assert_eq!(reply, expected);
}

#[test]
fn the_hop_rises_by_one_and_stays_at_all_nines() {
    let layout = Layout::std128();
    for (hop, next) in [("00", "01"), ("01", "02"), ("09", "10"), ("98", "99"), ("99", "99")] {
        let sent = golden_with(&[(40, hop.as_bytes())]);
        let request = layout.decode_request(&sent).unwrap();
        let reply = layout.error_reply(&request, Code::Unknown, at());
        assert_eq!(reply[40..42], *next.as_bytes(), "after {hop}");
    }
}

#[test]
fn err_sys_says_who_raised_the_code() {
    let layout = Layout::std128();
    let core = Code::Core(CoreCode::parse("C051").unwrap());
    let words = Code::OURS.into_iter().chain([core]).map(|code| {
        let reply = layout.error_reply(&golden(), code, at());
        assert_eq!(layout.reply_code(&reply), Some(code.to_string()));
        (code.to_string(), String::from_utf8(reply[96..99].to_vec()).unwrap())
    });
    let expected = [
        ("E900", "RLY"),
        ("E904", "RLY"),
        ("E906", "RLY"),
        ("E903", "RLY"),
        ("E907", "RLY"),
        ("E909", "RLY"),
        ("0000", "   "),
        ("E905", "COR"),
        ("E901", "RLY"),
        ("E902", "RLY"),
        ("C051", "COR"),
    ];
    let expected = expected.map(|(code, who)| (code.to_owned(), who.to_owned()));
    assert_eq!(words.collect::<Vec<_>>(), expected);
}

#[test]
fn a_malformed_telegram_gets_e900_on_whatever_header_there_is() {
    let layout = Layout::std128();
    let mut sent = golden_with(&[(0, b"garbage!"), (10, b" \xff\0"), (42, b"????????")]);
    sent.truncate(128);
    let mut expected = sent.clone();
    expected[..8].copy_from_slice(b"00000165");
    expected[40..42].copy_from_slice(b"02");
    expected[50] = b'R';
    expected[72..89].copy_from_slice(b"20260928093018130");
    expected[92..99].copy_from_slice(b"E900RLY");
    expected.extend_from_slice(&RES_E901[128..]);
    assert_eq!(layout.malformed_reply(&sent, at()), Some(expected));
}

#[test]
fn a_hop_that_is_no_number_is_copied_into_the_e900() {
    let reply = Layout::std128().malformed_reply(&golden_with(&[(40, b"x9")]), at()).unwrap();
    assert_eq!(reply[40..42], *b"x9");
}

#[test]
fn less_than_a_header_gets_no_reply() {
    let layout = Layout::std128();
    for size in [0, 8, 127] {
        assert_eq!(layout.malformed_reply(&REQ_EUCKR[..size], at()), None);
    }
    assert!(layout.malformed_reply(&REQ_EUCKR[..128], at()).is_some());
}

#[test]
fn an_e900_has_the_body_of_its_transaction_or_of_the_first_one() {
    let ping = "[[transaction]]\ntx_code = \"PING\"\ncall = \"/v1/pings\"\n\
        request = { length = 0, fields = [] }\n\
        response = { length = 1, fields = [{ name = \"n\", length = 1, type = \"N\" }] }\n";
    let layout = Layout::parse(&format!("{STD128}\n{ping}")).unwrap();
    let size = |tx_code: &[u8]| {
        layout.malformed_reply(&golden_with(&[(42, tx_code)]), at()).unwrap().len()
    };
    assert_eq!(size(b"PING    "), 129);
    assert_eq!(size(b"TRF00100"), 173);
    assert_eq!(size(b"PONG    "), 173);
}

#[test]
fn a_strange_clock_breaks_no_reply() {
    let layout = Layout::std128();
    let leap = Utc.with_ymd_and_hms(2016, 12, 31, 23, 59, 59).unwrap() + TimeDelta::seconds(0);
    let leap = chrono::Timelike::with_nanosecond(&leap, 1_999_999_999).unwrap();
    for (time, expected) in [
        (leap, &b"20161231235959999"[..]),
        (DateTime::<Utc>::MAX_UTC, b"99991231235959999"),
        (DateTime::<Utc>::MIN_UTC, b"00000101000000000"),
    ] {
        assert_eq!(layout.error_reply(&golden(), Code::Unknown, time)[72..89], *expected);
    }
}

#[test]
fn the_code_of_a_reply_is_read_without_trusting_it() {
    let layout = Layout::std128();
    assert_eq!(layout.reply_code(RES_E901).as_deref(), Some("E901"));
    assert_eq!(layout.reply_code(RES_EUCKR).as_deref(), Some("0000"));
    assert_eq!(layout.reply_code(REQ_EUCKR), None, "spaces");
    assert_eq!(layout.reply_code(&RES_E901[..95]), None);
    assert_eq!(layout.reply_code(b""), None);
    assert_eq!(layout.reply_code(&golden_with(&[(92, b"E\x1b[m")])), None);
}
