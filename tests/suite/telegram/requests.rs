//! Reading requests: golden bytes, and what is refused.

use serde_json::json;

use super::*;

#[test]
fn the_golden_request_decodes_field_by_field() {
    let request = golden();
    assert_eq!(request.guid().as_str(), "20260928MOBAP00100000000000123");
    assert_eq!(request.tx_code(), "TRF00100");
    assert_eq!(request.call(), "/v1/transfers");
    assert_eq!(request.amount(), Some(150_000));
    assert_eq!(request.bytes(), REQ_EUCKR);
    let expected = json!({
        "from_acct": "110123456789", "to_acct": "3020987654321",
        "amount": 150_000, "memo": "월세 3월분",
    });
    assert_eq!(serde_json::Value::Object(request.fields().clone()), expected);
}

#[test]
fn the_golden_japanese_request_decodes_in_shift_jis() {
    let request = std128_in("shift_jis").decode_request(REQ_SJIS).unwrap();
    assert_eq!(request.fields()["memo"], "家賃3月分");
    assert_eq!(request.guid().as_str(), "20260928WEBAP00200000000000777");
    assert_eq!(request.amount(), Some(98_000));
}

#[test]
fn the_golden_requests_are_made_again_byte_for_byte() {
    for (encoding, bytes) in [("cp949", REQ_EUCKR), ("shift_jis", REQ_SJIS)] {
        let layout = std128_in(encoding);
        assert_eq!(made_again(&layout, "TRF00100", bytes), bytes, "{encoding}");
    }
}

/// A request made of what is seen in `bytes`.
pub(super) fn made_again(layout: &Layout, tx_code: &str, bytes: &[u8]) -> Vec<u8> {
    use oncegate::telegram::{Part, Role};
    let computed = [Some(Role::Length), Some(Role::TxCode), Some(Role::MsgType)];
    let seen = layout
        .describe(bytes)
        .into_iter()
        .filter(|field| field.part != Part::End && !computed.contains(&field.role))
        .filter(|field| field.name != "send_count")
        .map(|field| (field.name, field.text.unwrap()))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    layout.encode_request(tx_code, &seen).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn debug_prints_no_content() {
    let printed = format!("{:?}", golden());
    for content in ["110123456789", "3020987654321", "월세", "150000", "bytes: ["] {
        assert!(!printed.contains(content), "{printed}");
    }
}

#[test]
fn rule_1_a_lone_lead_byte_at_a_fields_end_never_takes_its_neighbour() {
    // Together with the A that begins the filler, C2 would decode as a syllable, without an error.
    let bytes = golden_with(&[(173, b"AAAAAAAAAAAAAAAAAAA\xc2"), (193, b"A")]);
    assert_eq!(
        refusal(&Layout::std128(), &bytes),
        "field memo at offset 192: bytes c2 are no cp949 text"
    );
}

#[test]
fn rule_1_a_lone_lead_byte_in_shift_jis_is_refused_too() {
    let bytes = golden_with(&[(173, b"AAAAAAAAAAAAAAAAAAA\x95"), (193, b"\x5c")]);
    assert_eq!(
        refusal(&std128_in("shift_jis"), &bytes),
        "field memo at offset 192: bytes 95 are no shift_jis text"
    );
}

#[test]
fn strict_euc_kr_refuses_the_extension_of_windows_949_on_reading() {
    let bytes = golden_with(&[(173, b"\x8c\x63\xb9\xe6\xb0\xa2\xc7\xcf  ")]);
    let request = Layout::std128().decode_request(&bytes).unwrap();
    assert_eq!(request.fields()["memo"], "똠방각하");
    assert_eq!(
        refusal(&std128_in("euc-kr"), &bytes),
        "field memo at offset 173: bytes 8c63 are no euc-kr text"
    );
}

#[test]
fn ascii_and_utf_8_refuse_what_they_can_not_spell() {
    let bytes = golden_with(&[(175, b"\xff")]);
    assert_eq!(
        refusal(&std128_in("ascii"), &golden_with(&[(173, b"rent \xff    ")])),
        "field memo at offset 178: bytes ff are no ascii text"
    );
    assert!(refusal(&std128_in("utf-8"), &bytes).ends_with("are no utf-8 text"));
}

#[test]
fn rule_4_a_number_is_the_bytes_30_to_39_and_nothing_else() {
    let wrong: [&[u8]; 9] = [
        b"+000000150000",
        b"-000000150000",
        b"       150000",
        b"150000       ",
        b"             ",
        b"000000150,000",
        b"000000150.000",
        b"00000015000\xb3\xb0",
        b"000000150000\0",
    ];
    for amount in wrong {
        let found = hex(amount);
        assert_eq!(
            refusal(&Layout::std128(), &golden_with(&[(160, amount)])),
            format!("field amount at offset 160: bytes {found} are not digits")
        );
    }
}

#[test]
fn rule_4_an_all_space_number_is_allowed_only_where_the_layout_says_blank_ok() {
    let blank = golden_with(&[(160, b"             ")]);
    let amount = r#"{ name = "amount",    length = 13, type = "N" }"#;
    let layout =
        std128_with(amount, r#"{ name = "amount", length = 13, type = "N", blank_ok = true }"#);
    let request = layout.decode_request(&blank).unwrap();
    assert_eq!((&request.fields()["amount"], request.amount()), (&json!(null), None));
    let half = golden_with(&[(160, b"            1")]);
    assert!(refusal(&layout, &half).ends_with("are not digits"));
}

#[test]
fn header_numbers_are_checked_like_any_other() {
    for (offset, name, bytes) in
        [(40, "guid_hop", &b"x1"[..]), (51, "send_cnt", b" "), (89, "ttl_sec", b"+30")]
    {
        let found = hex(bytes);
        assert_eq!(
            refusal(&Layout::std128(), &golden_with(&[(offset, bytes)])),
            format!("field {name} at offset {offset}: bytes {found} are not digits")
        );
    }
}

#[test]
fn the_most_that_nineteen_digits_hold_is_read_exactly() {
    let bytes = golden_with(&[(160, b"9999999999999")]);
    let request = Layout::std128().decode_request(&bytes).unwrap();
    assert_eq!(request.fields()["amount"], json!(9_999_999_999_999_u64));
}

#[test]
fn rule_5_trailing_blanks_of_both_widths_are_padding_and_halves_of_characters_are_not() {
    let cases: [(&str, &[u8; 20], &str); 7] = [
        ("cp949", b"\xb0\xa1\xa1\xa1\xa1\xa1              ", "가"),
        ("cp949", b"\xb0\xa1 \xa1\xa1 \xa1\xa1            ", "가"),
        ("euc-kr", b"\xb0\xa1\xa1\xa1                ", "가"),
        ("shift_jis", b"\x82\xa0\x81\x40\x81\x40              ", "あ"),
        // The bytes a1 a1 in the middle end one character and begin another.
        ("cp949", b"\xb0\xa1\xa1\xa2                ", "가、"),
        // 8f81 40: no blank, though the bytes end in 81 40.
        ("shift_jis", b"\x8f\x81\x40                 ", "潤@"),
        // Padding at the end only.
        ("cp949", b" \xa1\xa1x \xa1\xa1\xb0\xa1 \xa1\xa1        ", " \u{3000}x \u{3000}가"),
    ];
    for (encoding, memo, expected) in cases {
        let bytes = golden_with(&[(173, memo)]);
        let request = std128_in(encoding).decode_request(&bytes).unwrap();
        assert_eq!(request.fields()["memo"], expected, "{encoding} {memo:x?}");
    }
}

#[test]
fn rule_5_a_wide_blank_in_utf_8_is_text() {
    let bytes = golden_with(&[(173, "가\u{3000}              ".as_bytes())]);
    let request = std128_in("utf-8").decode_request(&bytes).unwrap();
    assert_eq!(request.fields()["memo"], "가\u{3000}");
}

#[test]
fn control_characters_that_came_go_on_as_text() {
    let bytes = golden_with(&[(173, b"a\nb\0c      ")]);
    let request = Layout::std128().decode_request(&bytes).unwrap();
    assert_eq!(request.fields()["memo"], "a\nb\0c");
}

#[test]
fn rule_7_a_guid_is_printable_ascii_without_blanks_inside() {
    let cases: [(&[u8], &str); 6] = [
        (b"                              ", "the GUID is blank"),
        (b" 0260928MOBAP00100000000000123", "byte 20 at 0"),
        (b"20260928 OBAP00100000000000123", "byte 20 at 8"),
        (b"20260928MOBAP0010000000000012\x7f", "byte 7f at 29"),
        (b"20260928\xb0\xa1BAP00100000000000123", "byte b0 at 8"),
        (b"20260928MOBAP00100000000000\x00  ", "byte 00 at 27"),
    ];
    for (guid, why) in cases {
        let text = refusal(&Layout::std128(), &golden_with(&[(10, guid)]));
        assert!(text.starts_with(&format!("field guid at offset 10: {why}")), "{text}");
    }
}

#[test]
fn rule_7_a_guid_of_one_character_is_one_and_its_padding_is_no_part_of_it() {
    let bytes = golden_with(&[(10, b"~                             ")]);
    assert_eq!(Layout::std128().decode_request(&bytes).unwrap().guid().as_str(), "~");
}

#[test]
fn rule_8_a_telegram_longer_or_shorter_than_its_transaction_says_is_refused() {
    let layout = Layout::std128();
    for (size, declared) in [(207, "00000199"), (209, "00000201"), (128, "00000120")] {
        let mut bytes = golden_with(&[(0, declared.as_bytes())]);
        bytes.resize(size, b' ');
        assert_eq!(refusal(&layout, &bytes), format!("{size} bytes, a TRF00100 request has 208"));
    }
}

#[test]
fn rule_8_a_declared_length_that_is_not_the_telegrams_is_refused() {
    let layout = Layout::std128();
    for declared in ["00000199", "00000201", "00000208", "00000000", "99999999"] {
        let text = refusal(&layout, &golden_with(&[(0, declared.as_bytes())]));
        let number: u64 = declared.parse().unwrap();
        assert_eq!(
            text,
            format!(
                "field tgrm_len at offset 0: it declares {number}, which is wrong for a telegram of 208 bytes"
            )
        );
    }
    assert_eq!(
        refusal(&layout, &golden_with(&[(0, b"+0000200")])),
        "field tgrm_len at offset 0: bytes 2b30303030323030 are not digits"
    );
}

#[test]
fn rule_8_nothing_is_read_past_the_end_however_short_the_telegram_is() {
    let layout = Layout::std128();
    for size in 0..REQ_EUCKR.len() {
        let text = refusal(&layout, &REQ_EUCKR[..size]);
        if size < 128 {
            assert_eq!(text, format!("{size} bytes are shorter than the header of 128"));
        }
    }
}

#[test]
fn an_unknown_tx_code_and_a_msg_type_that_is_no_request_are_refused() {
    let layout = Layout::std128();
    assert_eq!(
        refusal(&layout, &golden_with(&[(42, b"TRF00999")])),
        "field tx_code at offset 42: bytes 5452463030393939 name no transaction of this layout"
    );
    for (msg_type, hex) in [(b"R", "52"), (b"Q", "51"), (b" ", "20"), (b"s", "73")] {
        assert_eq!(
            refusal(&layout, &golden_with(&[(50, msg_type)])),
            format!("field msg_type at offset 50: bytes {hex} are no request value")
        );
    }
}

#[test]
fn a_layout_may_have_several_request_values() {
    let layout = std128_with(r#"request = ["S"]"#, r#"request = ["Q", "S"]"#);
    for msg_type in [b"S", b"Q"] {
        assert!(layout.decode_request(&golden_with(&[(50, msg_type)])).is_ok());
    }
    let made = layout.encode_request("TRF00100", &with_memo("")).unwrap();
    assert_eq!(made[50], b'Q', "the first is what we send");
}

#[test]
fn a_constant_of_the_header_is_checked_and_std_ver_is_none() {
    let layout = Layout::std128();
    assert!(layout.decode_request(&golden_with(&[(8, b"02")])).is_ok());
    let fixed = std128_with(r#"type = "X", default = "01""#, r#"type = "X", const = "01""#);
    assert_eq!(
        refusal(&fixed, &golden_with(&[(8, b"02")])),
        "field std_ver at offset 8: bytes 3032 are not the layout's constant"
    );
}

#[test]
fn a_refusal_shows_no_byte_of_a_sensitive_field() {
    let layout = Layout::std128();
    let text = refusal(&layout, &golden_with(&[(128, b"110123456789\xff")]));
    assert_eq!(text, "field from_acct at offset 128: its bytes (sensitive) are no cp949 text");
    let pin = r#"{ name = "amount",    length = 13, type = "N", sensitive = true }"#;
    let layout = std128_with(r#"{ name = "amount",    length = 13, type = "N" }"#, pin);
    let error = layout.decode_request(&golden_with(&[(160, b"12345678901 x")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field amount at offset 160: its bytes (sensitive) are not digits"
    );
    assert!(!format!("{error:?}").contains("49, 50"), "{error:?}");
}

#[test]
fn the_same_content_is_the_tx_code_and_the_body_whatever_the_header_says() {
    let layout = Layout::std128();
    let request = golden();
    let header: &[(usize, &[u8])] = &[
        (8, b"02"),
        (10, b"OTHER                         "),
        (40, b"07"),
        (51, b"2"),
        (55, b"20260928093015999"),
        (99, b"\xff\x01"),
    ];
    let resend = golden_with(header);
    assert!(layout.same_content(&request, &resend));
    assert!(request.same_content(&layout.decode_request(&resend).unwrap()));
    for body in [128, 147, 172, 173, 192, 193, 207] {
        let mut other = resend.clone();
        other[body] = if other[body] == b'1' { b'2' } else { b'1' };
        assert!(!layout.same_content(&request, &other), "byte {body}");
        if let Ok(other) = layout.decode_request(&other) {
            assert!(!request.same_content(&other), "byte {body}");
        }
    }
    assert!(!layout.same_content(&request, &golden_with(&[(42, b"TRF00101")])));
}

#[test]
fn junk_from_the_ledger_is_never_the_same_content() {
    let layout = Layout::std128();
    let request = golden();
    let longer = [REQ_EUCKR, b" "].concat();
    for junk in [&b""[..], b"junk", &REQ_EUCKR[..207], &longer, &[0xff; 208]] {
        assert!(!layout.same_content(&request, junk));
    }
}
