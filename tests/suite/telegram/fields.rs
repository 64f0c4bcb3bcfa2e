//! Writing values: the boundaries of the memo, every encoding, the core's answer.

use oncegate::telegram::{BadAnswer, EncodeError, ReplyBody, Unfit};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const CUT: &str = r#"{ name = "memo", length = 20, type = "X", on_overflow = "cut" }"#;
const MEMO: &str = r#"{ name = "memo",      length = 20, type = "X" }"#;

fn memo_bytes(layout: &Layout, memo: &str) -> Result<Vec<u8>, EncodeError> {
    let telegram = layout.encode_request("TRF00100", &with_memo(memo))?;
    Ok(telegram[173..193].to_vec())
}

fn fits(encoding: &str, memo: &str, expected: &[u8]) {
    let layout = std128_in(encoding);
    let mut padded = expected.to_vec();
    padded.resize(20, b' ');
    assert_eq!(memo_bytes(&layout, memo).unwrap(), padded, "{memo} in {encoding}");
    let telegram = layout.encode_request("TRF00100", &with_memo(memo)).unwrap();
    assert_eq!(layout.decode_request(&telegram).unwrap().fields()["memo"], memo);
}

fn is_refused(encoding: &str, memo: &str, why: &str) {
    let error = memo_bytes(&std128_in(encoding), memo).unwrap_err();
    assert_eq!(error.to_string(), format!("field memo: {why}"), "{memo} in {encoding}");
}

fn is_cut(encoding: &str, memo: &str, expected: &str) {
    let text = changed(STD128, MEMO, CUT);
    let text = changed(&text, "encoding = \"cp949\"", &format!("encoding = {encoding:?}"));
    let layout = Layout::parse(&text).unwrap();
    let bytes = memo_bytes(&layout, memo).unwrap();
    let telegram = layout.encode_request("TRF00100", &with_memo(memo)).unwrap();
    assert_eq!(layout.decode_request(&telegram).unwrap().fields()["memo"], expected);
    assert_eq!((bytes.len(), bytes[19]), (20, b' '), "19 bytes and a space");
}

#[test]
fn the_golden_memos_have_their_bytes() {
    fits("cp949", "월세 3월분", b"\xbf\xf9\xbc\xbc\x20\x33\xbf\xf9\xba\xd0");
    fits("shift_jis", "家賃3月分", b"\x89\xc6\x92\xc0\x33\x8c\x8e\x95\xaa");
    fits("cp949", "SLOW 월세", b"SLOW \xbf\xf9\xbc\xbc");
}

#[test]
fn rule_2_a_memo_of_exactly_its_twenty_bytes_fits() {
    let memo = "가나다라마바사아자차";
    let bytes = memo_bytes(&Layout::std128(), memo).unwrap();
    assert_eq!(bytes.len(), 20);
    fits("cp949", memo, &bytes);
    assert_eq!(bytes[18..], *b"\xc2\xf7");
}

#[test]
fn rule_2_a_memo_one_byte_too_long_is_refused_with_field_length_and_limit() {
    is_refused("cp949", "A가나다라마바사아자차", "21 bytes are more than its limit of 20");
    is_refused("shift_jis", "A家賃三月分家賃三月分", "21 bytes are more than its limit of 20");
    is_refused("utf-8", "가나다라마바사", "21 bytes are more than its limit of 20");
    is_refused("ascii", "123456789012345678901", "21 bytes are more than its limit of 20");
}

#[test]
fn rule_2_where_the_layout_says_so_it_is_cut_between_characters_and_padded() {
    is_cut("cp949", "A가나다라마바사아자차", "A가나다라마바사아자");
    is_cut("shift_jis", "A家賃三月分家賃三月分", "A家賃三月分家賃三月");
}

#[test]
fn rule_2_nothing_behind_the_cut_slips_into_the_gap() {
    is_cut("cp949", "A가나다라마바사아자차B", "A가나다라마바사아자");
}

#[test]
fn rule_3_strict_euc_kr_refuses_what_only_windows_949_has() {
    fits("cp949", "똠방각하", b"\x8c\x63\xb9\xe6\xb0\xa2\xc7\xcf");
    is_refused("euc-kr", "똠방각하", "character 1 of the value does not exist in euc-kr");
    fits("euc-kr", "방각하", b"\xb9\xe6\xb0\xa2\xc7\xcf");
}

#[test]
fn rule_3_an_unmappable_character_is_refused_and_never_written_as_a_reference() {
    for encoding in ["ascii", "cp949", "euc-kr", "shift_jis"] {
        let why = format!("character 3 of the value does not exist in {encoding}");
        is_refused(encoding, "ok😀", &why);
    }
    fits("utf-8", "😀", "😀".as_bytes());
}

#[test]
fn rule_3_a_character_that_would_come_back_as_another_is_refused() {
    // The web's encoders write a yen sign as 5c and an overline as 7e: they would be read as \ and ~.
    for memo in ["\u{a5}", "\u{203e}", "\u{2212}"] {
        is_refused("shift_jis", memo, "character 1 of the value does not exist in shift_jis");
    }
}

#[test]
fn a_5c_inside_a_character_is_no_backslash() {
    fits("shift_jis", "表示", b"\x95\x5c\x8e\xa6");
    fits("shift_jis", "\\表\\", b"\x5c\x95\x5c\x5c");
}

#[test]
fn a_field_may_have_an_encoding_of_its_own() {
    let own = r#"{ name = "memo", length = 20, type = "X", encoding = "shift_jis" }"#;
    let layout = std128_with(MEMO, own);
    assert_eq!(memo_bytes(&layout, "表示").unwrap()[..4], *b"\x95\x5c\x8e\xa6");
}

#[test]
fn control_characters_have_no_place_in_what_is_written() {
    for memo in ["a\nb", "a\0b", "a\x7f", "a\u{85}"] {
        is_refused("utf-8", memo, "character 2 of the value is a control character");
    }
}

#[test]
fn numbers_are_written_right_aligned_and_never_cut() {
    let layout = Layout::std128();
    let amount = |text: &str| {
        let mut values = with_memo("");
        values.insert("amount".to_owned(), text.to_owned());
        layout.encode_request("TRF00100", &values).map(|bytes| bytes[160..173].to_vec())
    };
    assert_eq!(amount("0").unwrap(), b"0000000000000");
    assert_eq!(amount("9999999999999").unwrap(), b"9999999999999");
    let unfit = |why| EncodeError::Unfit { field: "amount".to_owned(), why };
    assert_eq!(amount("10000000000000"), Err(unfit(Unfit::TooLong { bytes: 14, limit: 13 })));
    for text in ["", "-1", "+1", " 1", "1.0", "１", "1e3"] {
        assert_eq!(amount(text), Err(unfit(Unfit::NotDigits)), "{text:?}");
    }
}

#[test]
fn a_request_is_made_of_values_defaults_and_blanks() {
    let layout = Layout::std128();
    let bytes = layout.encode_request("TRF00100", &with_memo("")).unwrap();
    let mut expected = b"000002000120260928MOBAP0010000000000012301TRF00100S1".to_vec();
    expected.resize(89, b' ');
    expected.extend_from_slice(b"000");
    expected.resize(160, b' ');
    expected.extend_from_slice(b"0000000150000");
    expected.resize(208, b' ');
    assert_eq!(bytes, expected);
}

#[test]
fn a_request_without_a_guid_or_an_amount_is_not_made() {
    let layout = Layout::std128();
    for missing in ["guid", "amount"] {
        let mut values = with_memo("");
        values.remove(missing);
        assert_eq!(
            layout.encode_request("TRF00100", &values),
            Err(EncodeError::Missing { field: missing.to_owned() })
        );
    }
}

#[test]
fn values_for_computed_or_unknown_fields_are_refused() {
    let layout = Layout::std128();
    let with = |name: &str| {
        let mut values = with_memo("");
        values.insert(name.to_owned(), "1".to_owned());
        layout.encode_request("TRF00100", &values).unwrap_err().to_string()
    };
    for name in ["tgrm_len", "tx_code", "msg_type"] {
        assert_eq!(with(name), format!("field {name} is set by the layout and takes no value"));
    }
    assert_eq!(with("amonut"), "there is no field \"amonut\" in a TRF00100 request");
    assert_eq!(
        layout.encode_request("TRF00999", &with_memo("")).unwrap_err().to_string(),
        "tx code \"TRF00999\" is none of this layout"
    );
}

fn answer() -> Map<String, Value> {
    let answer = json!({
        "guid": "20260928MOBAP00100000000000123", "core_tx_id": "T2026092800017",
        "posted_dtm": "20260928093015", "bal_sign": "+", "balance": 2_350_000,
        "status": "C", "more": {"ignored": [1, 2.5, null]},
    });
    answer.as_object().unwrap().clone()
}

fn encode(name: &str, value: Value) -> Result<ReplyBody, BadAnswer> {
    let mut answer = answer();
    answer.insert(name.to_owned(), value);
    Layout::std128().encode_answer(&golden(), &answer)
}

#[test]
fn the_cores_answer_makes_the_golden_body() {
    let body = Layout::std128().encode_answer(&golden(), &answer()).unwrap();
    let mut expected = b"T202609280001720260928093015+0000002350000C  ".to_vec();
    assert_eq!(body.0, expected);
    expected[..14].copy_from_slice(&RES_EUCKR[128..142]);
    assert_eq!(body.0[14..], expected[14..]);
}

#[test]
fn an_answer_without_one_of_its_fields_is_none() {
    for field in ["core_tx_id", "posted_dtm", "bal_sign", "balance", "status"] {
        let mut answer = answer();
        answer.remove(field);
        assert_eq!(
            Layout::std128().encode_answer(&golden(), &answer),
            Err(BadAnswer::Missing { field: field.to_owned() })
        );
    }
}

#[test]
fn an_answer_with_a_field_of_another_type_is_none() {
    let numbers = [json!("2350000"), json!(-1), json!(2.0), json!(1e3), json!(null), json!(true)];
    for value in numbers {
        assert_eq!(
            encode("balance", value.clone()).unwrap_err().to_string(),
            "field balance is not an integer of 0 or more",
            "{value}"
        );
    }
    for value in [json!(5), json!(null), json!(["C"]), json!({"a": "C"}), json!(false)] {
        assert_eq!(
            encode("status", value.clone()).unwrap_err().to_string(),
            "field status is not text",
            "{value}"
        );
    }
}

#[test]
fn an_answer_that_does_not_fit_is_none_and_nothing_is_cut() {
    let cases = [
        ("balance", json!(10_000_000_000_000_u64), "14 bytes are more than its limit of 13"),
        ("balance", json!(u64::MAX), "20 bytes are more than its limit of 13"),
        ("status", json!("CC"), "2 bytes are more than its limit of 1"),
        ("core_tx_id", json!("T20260928000170"), "15 bytes are more than its limit of 14"),
        ("core_tx_id", json!("가나다라마바사아"), "16 bytes are more than its limit of 14"),
        ("core_tx_id", json!("T😀"), "character 2 of the value does not exist in cp949"),
        ("core_tx_id", json!("T\n"), "character 2 of the value is a control character"),
    ];
    for (field, value, why) in cases {
        let error = encode(field, value).unwrap_err();
        assert_eq!(error.to_string(), format!("field {field}: {why}"));
    }
}

#[test]
fn an_answers_largest_and_smallest_values_fit() {
    assert_eq!(encode("balance", json!(0)).unwrap().0[29..42], *b"0000000000000");
    let largest = encode("balance", json!(9_999_999_999_999_u64)).unwrap();
    assert_eq!(largest.0[29..42], *b"9999999999999");
    assert_eq!(encode("core_tx_id", json!("")).unwrap().0[..14], *b"              ");
    assert!(encode("core_tx_id", json!("가나다라마바사")).is_ok());
}

/// Characters that an encoding has, more or less: the test judges by what is returned.
fn alphabet(encoding: &str) -> BoxedStrategy<char> {
    let ascii = prop::char::range(' ', '~');
    match encoding {
        "ascii" => ascii.boxed(),
        "cp949" => prop_oneof![ascii, prop::char::range('가', '힣')].boxed(),
        // The compatibility letters, and a few syllables, all of KS X 1001.
        "euc-kr" => prop_oneof![
            ascii,
            prop::char::range('\u{3131}', '\u{3163}'),
            prop::sample::select(vec!['가', '각', '간', '힝', '월', '伽', '詰'])
        ]
        .boxed(),
        "shift_jis" => prop_oneof![
            ascii,
            prop::char::range('ぁ', 'ん'),
            prop::char::range('ァ', 'ヶ'),
            prop::char::range('\u{ff61}', '\u{ff9f}'),
            prop::sample::select(vec!['表', '示', '家', '賃', 'ソ', '能'])
        ]
        .boxed(),
        _ => prop::char::any().prop_filter("no control", |c| !c.is_control()).boxed(),
    }
}

fn text_in(encoding: &'static str) -> impl Strategy<Value = (&'static str, String)> {
    prop::collection::vec(alphabet(encoding), 0..24)
        .prop_map(move |chars| (encoding, chars.into_iter().collect()))
}

fn any_text() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        text_in("ascii"),
        text_in("cp949"),
        text_in("euc-kr"),
        text_in("shift_jis"),
        text_in("utf-8")
    ]
}

fn trimmed<'a>(encoding: &str, text: &'a str) -> &'a str {
    match encoding {
        "ascii" | "utf-8" => text.trim_end_matches(' '),
        _ => text.trim_end_matches([' ', '\u{3000}']),
    }
}

proptest! {
    #[test]
    fn what_fits_is_read_as_it_was_written((encoding, memo) in any_text()) {
        let layout = std128_in(encoding);
        match layout.encode_request("TRF00100", &with_memo(&memo)) {
            Ok(bytes) => {
                let request = layout.decode_request(&bytes).unwrap();
                prop_assert_eq!(&request.fields()["memo"], trimmed(encoding, &memo));
            }
            Err(EncodeError::Unfit { why: Unfit::TooLong { bytes, limit: 20 }, .. }) => {
                prop_assert!(bytes > 20 && memo.len() > 20);
            }
            Err(other) => prop_assert!(false, "{encoding} {memo:?}: {other}"),
        }
    }

    #[test]
    fn any_text_at_all_comes_back_or_is_refused(memo in any::<String>(), which in 0..5_usize) {
        let encoding = ["ascii", "cp949", "euc-kr", "shift_jis", "utf-8"][which];
        let layout = std128_with(MEMO, CUT);
        let layouts = [std128_in(encoding), layout];
        for (layout, whole) in layouts.iter().zip([true, false]) {
            if let Ok(bytes) = layout.encode_request("TRF00100", &with_memo(&memo)) {
                let request = layout.decode_request(&bytes).unwrap();
                let read = request.fields()["memo"].as_str().unwrap();
                if whole {
                    prop_assert_eq!(read, trimmed(encoding, &memo));
                } else {
                    prop_assert!(memo.starts_with(read));
                }
            }
        }
    }
}
