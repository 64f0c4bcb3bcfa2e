//! A telegram for people, whatever its bytes are.

use oncegate::telegram::{Part, Role};
use proptest::prelude::*;

use super::*;

/// Name, offset and text of each field.
fn lines(layout: &Layout, bytes: &[u8]) -> Vec<String> {
    let line = |field: oncegate::telegram::DescribedField| match field.text {
        Ok(text) => format!("{} {} {text}", field.name, field.offset),
        Err(why) => format!("{} {} ! {why}", field.name, field.offset),
    };
    layout.describe(bytes).into_iter().map(line).collect()
}

#[test]
fn the_golden_request_is_described_field_by_field() {
    let expected = [
        "tgrm_len 0 200",
        "std_ver 8 01",
        "guid 10 20260928MOBAP00100000000000123",
        "guid_hop 40 1",
        "tx_code 42 TRF00100",
        "msg_type 50 S",
        "send_cnt 51 1",
        "channel_id 52 MOB",
        "req_dtm 55 20260928093015123",
        "rsp_dtm 72 ",
        "ttl_sec 89 30",
        "resp_code 92 ",
        "err_sys 96 ",
        "filler 99 ",
        "from_acct 128 110123456789",
        "to_acct 144 3020987654321",
        "amount 160 150000",
        "memo 173 월세 3월분",
        "filler 193 ",
    ];
    assert_eq!(lines(&Layout::std128(), REQ_EUCKR), expected);
}

#[test]
fn the_golden_replies_are_described_with_their_response_records() {
    let layout = Layout::std128();
    let body = |bytes| lines(&layout, bytes).split_off(14);
    let done = [
        "core_tx_id 128 T2026092800017",
        "posted_dtm 142 20260928093015",
        "bal_sign 156 +",
        "balance 157 2350000",
        "status 170 C",
        "filler 171 ",
    ];
    assert_eq!(body(RES_EUCKR), done);
    let blank = [
        "core_tx_id 128 ",
        "posted_dtm 142 ",
        "bal_sign 156 ",
        "balance 157 0",
        "status 170 ",
        "filler 171 ",
    ];
    assert_eq!(body(RES_E901), blank);
    assert_eq!(lines(&layout, RES_E901)[11..13], ["resp_code 92 E901", "err_sys 96 RLY"]);
}

#[test]
fn sensitive_fields_and_roles_are_marked() {
    let fields = Layout::std128().describe(REQ_EUCKR);
    let sensitive: Vec<&str> =
        fields.iter().filter(|field| field.sensitive).map(|field| &*field.name).collect();
    assert_eq!(sensitive, ["from_acct", "to_acct"]);
    let roles: Vec<Role> = fields.iter().filter_map(|field| field.role).collect();
    let expected = [
        Role::Length,
        Role::Guid,
        Role::Hop,
        Role::TxCode,
        Role::MsgType,
        Role::RspTime,
        Role::RspCode,
        Role::ErrSys,
    ];
    assert_eq!(roles, expected);
}

#[test]
fn a_field_that_says_nothing_says_why_and_shows_no_byte() {
    let bytes = golden_with(&[(128, b"\xff"), (160, b"12A"), (173, b"\xbf")]);
    let lines = lines(&Layout::std128(), &bytes[..180]);
    let expected = [
        "from_acct 128 ! no cp949 text at byte 0",
        "to_acct 144 3020987654321",
        "amount 160 ! not digits",
        "memo 173 ! 7 of its 20 bytes are there",
        "filler 193 ! 0 of its 15 bytes are there",
    ];
    assert_eq!(lines[14..], expected);
}

#[test]
fn bytes_that_belong_to_no_field_may_be_anything_and_count_as_sensitive() {
    let layout = Layout::std128();
    let longer = [REQ_EUCKR, b"4111111111111111"].concat();
    let unknown = golden_with(&[(42, b"TRF00999")]);
    for (bytes, at) in [(&longer, 208), (&unknown, 128)] {
        let fields = layout.describe(bytes);
        let rest = fields.last().unwrap();
        assert_eq!((rest.part, rest.offset, rest.sensitive), (Part::Rest, at, true));
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_no_byte_is_lost(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        never_panics(&Layout::std128(), &bytes)?;
        never_panics(&super::layouts::trailer(), &bytes)?;
    }

    #[test]
    fn nothing_panics_on_a_telegram_with_damage(
        encoding in prop::sample::select(vec!["ascii", "cp949", "euc-kr", "shift_jis", "utf-8"]),
        size in 0..260_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = REQ_EUCKR.to_vec();
        bytes.resize(size, 0xc2);
        for (index, byte) in damage {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
        }
        never_panics(&std128_in(encoding), &bytes)?;
    }
}

fn never_panics(layout: &Layout, bytes: &[u8]) -> Result<(), TestCaseError> {
    let described: Vec<u8> =
        layout.describe(bytes).into_iter().flat_map(|field| field.bytes).collect();
    prop_assert_eq!(&described, bytes);
    let _ = layout.reply_code(bytes);
    if let Ok(request) = layout.decode_request(bytes) {
        prop_assert_eq!(request.bytes(), bytes);
        prop_assert!(layout.same_content(&request, bytes));
    }
    prop_assert!(!layout.same_content(&golden(), bytes) || bytes[128..] == REQ_EUCKR[128..]);
    if let Some(reply) = layout.malformed_reply(bytes, at()) {
        prop_assert_eq!(layout.reply_code(&reply), Some("E900".to_owned()));
    }
    Ok(())
}
