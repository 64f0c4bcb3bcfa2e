//! Framing: the same frames however a stream is split, and nothing beyond its limits.

use oncegate::limits::TELEGRAM_BYTES_MAX;
use oncegate::telegram::{Frame, Framer, FramingError, Reading};
use proptest::prelude::*;

use super::*;

/// A small layout: 12 bytes of header with its length first, 4 of request, 6 of response.
fn small(framing: &str, length: &str) -> Layout {
    Layout::parse(&small_text(framing, length)).unwrap()
}

pub(super) fn small_text(framing: &str, length: &str) -> String {
    format!(
        r#"
name = "small"
encoding = "ascii"
framing = {framing}
[header]
length = 14
msg_type = {{ request = ["S"], response = "R" }}
fields = [
    {length}
    {{ name = "key", length = 4, type = "X", role = "guid" }},
    {{ name = "code", length = 1, type = "X", role = "tx_code" }},
    {{ name = "kind", length = 1, type = "X", role = "msg_type" }},
    {{ name = "result", length = 4, type = "X", role = "rsp_code" }},
]
[[transaction]]
tx_code = "T"
call = "/v1/t"
request = {{ length = 4, fields = [{{ name = "n", length = 4, type = "N" }}] }}
response = {{ length = 6, fields = [{{ name = "m", length = 6, type = "N" }}] }}
"#
    )
}

const DIGITS: &str = r#"{ name = "len", length = 4, type = "N", role = "length" },"#;
const U32: &str = r#"{ name = "len", length = 4, type = "F", role = "length" },"#;
const U16: &str = r#"{ name = "len", length = 2, type = "F", role = "length" },
    { name = "spare", length = 2, type = "F" },"#;

fn ascii(counts: &str) -> Layout {
    small(&format!("{{ at = 0, digits = 4, {counts} }}"), DIGITS)
}

/// All frames of a stream pushed in these pieces, and the error it ended with.
fn frames<'a>(
    layout: &Layout,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Frame>, Option<FramingError>) {
    let mut framer = layout.framer(TELEGRAM_BYTES_MAX);
    let mut taken = Vec::new();
    for piece in pieces {
        framer.push(piece);
        loop {
            match framer.next() {
                Ok(Some(frame)) => taken.push(frame),
                Ok(None) => break,
                Err(error) => return (taken, Some(error)),
            }
        }
    }
    (taken, None)
}

fn telegrams(layout: &Layout, stream: &[u8]) -> Vec<Vec<u8>> {
    let (frames, error) = frames(layout, [stream]);
    assert_eq!(error, None);
    frames
        .into_iter()
        .map(|frame| match frame {
            Frame::Telegram(bytes) | Frame::Poll(bytes) => bytes,
        })
        .collect()
}

fn failure(layout: &Layout, stream: &[u8]) -> String {
    frames(layout, [stream]).1.unwrap().to_string()
}

#[test]
fn a_connection_carries_any_number_of_telegrams_one_after_the_other() {
    let stream = [REQ_EUCKR, RES_EUCKR, REQ_SJIS, RES_E901].concat();
    assert_eq!(telegrams(&Layout::std128(), &stream), [REQ_EUCKR, RES_EUCKR, REQ_SJIS, RES_E901]);
}

#[test]
fn a_length_of_zero_is_an_idle_poll_and_comes_out_as_it_came() {
    let stream = [b"00000000", REQ_EUCKR, b"0000000000000000"].concat();
    let poll = || Frame::Poll(b"00000000".to_vec());
    assert_eq!(
        frames(&Layout::std128(), [&stream[..]]).0,
        [poll(), Frame::Telegram(REQ_EUCKR.to_vec()), poll(), poll()]
    );
}

#[test]
fn nothing_comes_out_before_a_telegrams_last_byte() {
    let mut framer = Layout::std128().framer(TELEGRAM_BYTES_MAX);
    for (count, byte) in REQ_EUCKR.iter().enumerate() {
        assert_eq!((framer.next(), framer.pending_bytes()), (Ok(None), count));
        framer.push(&[*byte]);
    }
    assert_eq!(framer.next(), Ok(Some(Frame::Telegram(REQ_EUCKR.to_vec()))));
    assert_eq!((framer.next(), framer.pending_bytes()), (Ok(None), 0));
}

#[test]
fn a_length_that_is_no_number_ends_the_stream_and_says_what_was_found() {
    let layout = Layout::std128();
    assert_eq!(
        failure(&layout, b"GET / HTTP/1.1\r\n"),
        "declared length: bytes 474554202f204854 are not digits"
    );
    for found in [b"+0000200", b"-0000200", b"     200", b"0000020\0"] {
        assert!(failure(&layout, found).ends_with("are not digits"));
    }
}

#[test]
fn a_declared_length_over_the_limit_ends_the_stream_before_anything_is_kept() {
    let layout = Layout::std128();
    let mut framer = layout.framer(1000);
    framer.push(b"00000993");
    let expected = "declared length 993 (bytes 3030303030393933) makes a telegram of 1001 bytes, more than 1000";
    assert_eq!(framer.next().unwrap_err().to_string(), expected);
    let mut framer = layout.framer(1000);
    framer.push(b"00000992");
    assert_eq!(framer.next(), Ok(None));
    assert!(failure(&layout, b"99999999").contains("more than 65536"));
}

#[test]
fn after_an_error_a_stream_gives_nothing_more_and_keeps_nothing() {
    let mut framer = Layout::std128().framer(TELEGRAM_BYTES_MAX);
    framer.push(b"garbage!");
    let error = framer.next().unwrap_err();
    framer.push(REQ_EUCKR);
    assert_eq!((framer.next(), framer.pending_bytes()), (Err(error), 0));
}

#[test]
fn telegrams_before_the_error_come_out_first() {
    let stream = [REQ_EUCKR, b"garbage!"].concat();
    let (taken, error) = frames(&Layout::std128(), [&stream[..]]);
    assert_eq!(taken, [Frame::Telegram(REQ_EUCKR.to_vec())]);
    assert!(error.is_some());
}

#[test]
fn a_framed_telegram_shorter_than_the_header_comes_out_for_the_caller_to_judge() {
    assert_eq!(telegrams(&Layout::std128(), b"00000003abc"), [b"00000003abc"]);
}

#[test]
fn counts_say_what_a_length_counts() {
    let layout = ascii("counts = \"after\"");
    assert_eq!(telegrams(&layout, b"0014KEY1TS    0007"), [b"0014KEY1TS    0007"]);
    let layout = ascii("counts = \"all\"");
    assert_eq!(telegrams(&layout, b"0018KEY1TS    0007"), [b"0018KEY1TS    0007"]);
    assert!(layout.decode_request(b"0018KEY1TS    0007").is_ok());
    assert!(layout.decode_request(b"0014KEY1TS    0007").is_err());
    assert_eq!(telegrams(&layout, b"00000000"), [b"0000", b"0000"], "idle polls");
    assert_eq!(
        failure(&layout, b"0003"),
        "declared length 3 (bytes 30303033) makes a telegram of 3 bytes, which ends inside its length field"
    );
}

#[test]
fn adjust_is_added_to_what_is_declared() {
    for (counts, sent, answered) in [
        ("counts = \"after\", adjust = 2", b"0012KEY1TS    0007", b"0014KEY1TRE900000000"),
        ("counts = \"all\", adjust = -4", b"0022KEY1TS    0007", b"0024KEY1TRE900000000"),
    ] {
        let layout = ascii(counts);
        assert_eq!(telegrams(&layout, sent), [sent]);
        let request = layout.decode_request(sent).unwrap();
        let reply = layout.error_reply(&request, oncegate::code::Code::Malformed, at());
        assert_eq!(reply, answered, "{counts}");
        assert_eq!(telegrams(&layout, &reply), [answered]);
    }
}

#[test]
fn binary_lengths_are_big_endian() {
    for (kind, length, sent) in [
        ("u16be", U16, b"\x00\x10  KEY1TS    0007"),
        ("u32be", U32, b"\x00\x00\x00\x0eKEY1TS    0007"),
    ] {
        let layout = small(&format!("{{ kind = {kind:?}, at = 0, counts = \"after\" }}"), length);
        assert_eq!(telegrams(&layout, sent), [sent], "{kind}");
        let request = layout.decode_request(sent).unwrap();
        let reply = layout.error_reply(&request, oncegate::code::Code::Full, at());
        let mut answered = sent[..4].to_vec();
        let low = if kind == "u16be" { 1 } else { 3 };
        answered[low] += 2;
        answered.extend_from_slice(b"KEY1TRE907000000");
        assert_eq!(reply, answered, "{kind}");
        let values = values(&[("key", "KEY1"), ("n", "7")]);
        assert_eq!(layout.encode_request("T", &values).unwrap(), sent, "{kind}");
    }
}

#[test]
fn a_binary_length_over_the_limit_ends_the_stream_too() {
    let layout = small(r#"{ kind = "u32be", at = 0, counts = "after" }"#, U32);
    assert_eq!(
        failure(&layout, b"\xff\xff\xff\xff"),
        "declared length 4294967295 (bytes ffffffff) makes a telegram of 4294967299 bytes, more than 65536"
    );
}

fn readings(layout: &Layout, stream: &[u8]) -> Vec<(Vec<u8>, Option<Reading>)> {
    let mut framer: Framer = layout.framer(TELEGRAM_BYTES_MAX);
    framer.push(stream);
    let mut taken = Vec::new();
    while let Some(frame) = framer.next().unwrap() {
        let Frame::Telegram(bytes) = frame else { panic!("no poll was sent") };
        taken.push((bytes, framer.reading()));
    }
    taken
}

#[test]
fn where_either_is_allowed_the_reading_that_makes_a_known_record_is_taken_and_told() {
    let layout = ascii("counts = \"either\"");
    let (all, after) = (b"0018KEY1TS    0007", b"0014KEY1TS    0007");
    let stream = [&all[..], after, all].concat();
    let expected = [
        (all.to_vec(), Some(Reading::All)),
        (after.to_vec(), Some(Reading::After)),
        (all.to_vec(), Some(Reading::All)),
    ];
    assert_eq!(readings(&layout, &stream), expected);
}

#[test]
fn where_both_readings_make_a_known_record_the_shorter_one_wins() {
    let ping = "[[transaction]]\ntx_code = \"P\"\ncall = \"/v1/p\"\n\
        request = { length = 0, fields = [] }\nresponse = { length = 0, fields = [] }\n";
    let text = small_text(r#"{ at = 0, digits = 4, counts = "either" }"#, DIGITS);
    let layout = Layout::parse(&format!("{text}{ping}")).unwrap();
    // 14 is the whole of a ping, or what follows the length field of a T.
    let expected = [(b"0014KEY1PS    ".to_vec(), Some(Reading::All))];
    assert_eq!(readings(&layout, b"0014KEY1PS    "), expected);
}

#[test]
fn where_neither_reading_makes_a_known_record_the_stream_ends() {
    assert_eq!(
        failure(&ascii("counts = \"either\""), b"0015KEY1TS    0007"),
        "declared length 15 (bytes 30303135) makes no known record, counting the length field or not"
    );
}

#[test]
fn a_reply_counts_as_its_request_did() {
    let layout = ascii("counts = \"either\"");
    for (sent, answered) in [
        (b"0018KEY1TS    0007", b"0020KEY1TRE901000000"),
        (b"0014KEY1TS    0007", b"0016KEY1TRE901000000"),
    ] {
        let request = layout.decode_request(sent).unwrap();
        let reply = layout.error_reply(&request, oncegate::code::Code::Unknown, at());
        assert_eq!(reply, answered);
        assert_eq!(layout.malformed_reply(sent, at()).unwrap()[..4], answered[..4]);
    }
}

#[test]
fn a_length_at_an_offset_that_counts_the_whole_telegram() {
    let sample = include_bytes!("../../vectors/e_length_inside.bin");
    let layout = Layout::parse(include_str!("../../layouts/e_length_inside.toml")).unwrap();
    let poll = b"BATCHTRANSFR0000000000";
    let stream = [&sample[..], poll, sample].concat();
    assert_eq!(telegrams(&layout, &stream), [&sample[..], poll, sample]);
}

#[test]
fn a_missing_end_mark_ends_the_stream() {
    let mut sample = include_bytes!("../../vectors/d_trailer.bin").to_vec();
    let layout = super::layouts::trailer();
    assert_eq!(telegrams(&layout, &sample), [&sample[..]]);
    sample[740..].copy_from_slice(b"@ ");
    assert_eq!(
        failure(&layout, &sample),
        "end mark of a telegram of 742 bytes: bytes 4020 instead of 4040"
    );
    let text = refusal(&layout, &sample);
    assert_eq!(text, "end mark at offset 740: bytes 4020 instead of 4040");
}

#[test]
fn telegrams_of_one_size_need_no_length() {
    let sample = include_bytes!("../../vectors/b_payment_network.bin");
    let layout = Layout::parse(include_str!("../../layouts/b_payment_network.toml")).unwrap();
    let stream = [&sample[..], sample, &sample[..100]].concat();
    assert_eq!(telegrams(&layout, &stream), [sample, sample]);
    let mut framer = layout.framer(299);
    let error = framer.next().unwrap_err();
    assert_eq!(error.to_string(), "telegrams of 300 bytes are more than 299");
}

/// A stream of telegrams, polls and, at its end perhaps, junk.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(REQ_EUCKR.to_vec()),
        2 => Just(RES_E901.to_vec()),
        2 => Just(b"00000000".to_vec()),
        1 => Just(b"00000003abc".to_vec()),
        1 => Just(b"00066000".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_stream_gives_the_same_frames_wherever_it_is_split(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let layout = Layout::std128();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(stream.len());
        let mut from = 0;
        let pieces = cuts.iter().map(|to| &stream[std::mem::replace(&mut from, *to)..*to]);
        let pieces: Vec<&[u8]> = pieces.collect();
        let whole = frames(&layout, [&stream[..]]);
        prop_assert_eq!(&frames(&layout, pieces), &whole);
        prop_assert_eq!(&frames(&layout, stream.chunks(1)), &whole);
    }

    #[test]
    fn frames_and_what_is_pending_are_the_stream(stream in stream()) {
        let mut framer = Layout::std128().framer(TELEGRAM_BYTES_MAX);
        framer.push(&stream);
        let mut taken = Vec::new();
        while let Ok(Some(Frame::Telegram(bytes) | Frame::Poll(bytes))) = framer.next() {
            taken.extend(bytes);
        }
        prop_assert!(stream.starts_with(&taken));
        if framer.next().is_ok() {
            prop_assert_eq!(taken.len() + framer.pending_bytes(), stream.len());
        }
    }
}

#[test]
fn a_long_stream_is_cut_in_linear_time() {
    // A framer that moved its buffer at every telegram would move 4 TB here, and this test would not end.
    let stream = REQ_EUCKR.repeat(200_000);
    let mut framer = Layout::std128().framer(TELEGRAM_BYTES_MAX);
    framer.push(&stream);
    let mut count = 0;
    while let Ok(Some(Frame::Telegram(_))) = framer.next() {
        count += 1;
    }
    assert_eq!((count, framer.pending_bytes()), (200_000, 0));
}
