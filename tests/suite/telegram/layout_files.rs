//! Layout files that do not hold together are refused, and say where and why.

use oncegate::telegram::{LayoutError, Records};

use super::framing::small_text;
use super::*;

/// What parsing std128 with `old` replaced by `new` says.
fn refused(old: &str, new: &str) -> String {
    let error = Layout::parse(&changed(STD128, old, new)).unwrap_err().to_string();
    assert!(!error.contains('\n'), "one line: {error:?}");
    assert!(!error.ends_with('.'), "{error}");
    error
}

fn says(old: &str, new: &str, expected: &str) {
    assert_eq!(refused(old, new), format!("layout std128: {expected}"));
}

#[test]
fn std128_is_compiled_in() {
    let layout = Layout::std128();
    assert_eq!(layout.name(), "std128");
    assert_eq!(layout.tx_codes().collect::<Vec<_>>(), ["TRF00100"]);
    assert_eq!(format!("{layout:?}"), "Layout(\"std128\")");
}

#[test]
fn the_threads_of_a_server_may_share_a_layout() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Layout>();
    shared::<Request>();
}

#[test]
fn fields_that_do_not_add_up_are_refused_with_both_sums() {
    says("length = 128", "length = 129", "header declares 129 bytes, its fields add up to 128");
    says(
        "length = 80",
        "length = 96",
        "transaction TRF00100: request declares 96 bytes, its fields add up to 80",
    );
    says(
        "length = 45",
        "length = 44",
        "transaction TRF00100: response declares 44 bytes, its fields add up to 45",
    );
}

#[test]
fn the_document_whose_fields_add_up_to_216_for_a_200_byte_body_is_refused() {
    let text = include_str!("../../layouts/b_payment_network.toml");
    let field = r#"{ name = "check",        length = 6,  type = "X" }"#;
    let wider = text.replacen(field, &field.replace("length = 6", "length = 22"), 1);
    assert_ne!(text, wider);
    assert_eq!(
        Layout::parse(&wider).unwrap_err().to_string(),
        "layout payment_network: transaction 100: request declares 200 bytes, its fields add up to 216"
    );
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let text = refused("amount = \"amount\"", "amonut = \"amount\"");
    assert!(text.starts_with("layout line 30: unknown field `amonut`"), "{text}");
    let text =
        refused("sensitive = true },\n    { name = \"to", "senstive = true },\n    { name = \"to");
    assert!(text.contains("unknown field `senstive`"), "{text}");
    let text = refused("counts = \"after\"", "counts = \"before\"");
    assert!(text.starts_with("layout line 5: unknown variant `before`"), "{text}");
    let text = refused("length = 128", "length = -128");
    assert!(text.starts_with("layout line 8: "), "{text}");
    let text = Layout::parse("name =\n").unwrap_err().to_string();
    assert!(text.starts_with("layout line 1: "), "{text}");
}

#[test]
fn fields_that_can_not_be_are_refused() {
    let memo = r#"{ name = "memo",      length = 20, type = "X" }"#;
    let request = |field: &str, expected: &str| {
        says(memo, field, &format!("transaction TRF00100: request field {expected}"));
    };
    request(r#"{ name = "memo", length = 0, type = "X" }"#, "memo: its length is zero");
    request(r#"{ name = "memo", length = 20, type = "N" }"#, "memo: 20 digits are more than 19");
    request(
        r#"{ name = "memo", length = 99999999999, type = "X", const = "" }"#,
        "memo: 99999999999 bytes are more than 65536",
    );
    request(r#"{ name = "amount", length = 20, type = "X" }"#, "amount is there twice");
    request(
        r#"{ name = "", length = 20, type = "X" }"#,
        ": a name is made of letters, digits, `_`, `-` and `.`",
    );
    request(
        r#"{ name = "memo", length = 20, type = "X", const = "123456789012345678901" }"#,
        r#"memo: const "123456789012345678901": 21 bytes are more than its limit of 20"#,
    );
    request(
        r#"{ name = "memo", length = 20, type = "X", default = "😀" }"#,
        "memo: default \"😀\": character 1 of the value does not exist in cp949",
    );
    request(
        r#"{ name = "memo", length = 20, type = "X", default = "a", const = "a" }"#,
        "memo: const and default exclude each other",
    );
    request(
        r#"{ name = "memo", length = 20, type = "X", blank_ok = true }"#,
        "memo: blank_ok is for type N",
    );
    request(
        r#"{ name = "memo", length = 20, type = "F", on_overflow = "cut" }"#,
        "memo: on_overflow is for type X",
    );
    request(
        r#"{ name = "memo", length = 20, type = "X", role = "hop" }"#,
        "memo: role hop stands in the header only",
    );
    request(
        r#"{ name = "req_dtm", length = 20, type = "X" }"#,
        "req_dtm: the header has a field of this name",
    );
}

#[test]
fn a_const_is_not_cut_where_values_are() {
    let memo = r#"{ name = "memo",      length = 20, type = "X" }"#;
    let cut = r#"{ name = "memo", length = 20, type = "X", on_overflow = "cut", const = "123456789012345678901" }"#;
    assert!(refused(memo, cut).contains("21 bytes are more than its limit of 20"));
}

#[test]
fn the_names_of_the_cores_own_keys_are_reserved() {
    for name in ["guid", "tx_code"] {
        says(
            r#"{ name = "core_tx_id", "#,
            &format!("{{ name = {name:?}, "),
            &format!(
                "transaction TRF00100: response field {name}: the core's JSON has its own of this name"
            ),
        );
    }
}

#[test]
fn a_response_field_is_never_cut_and_has_no_default() {
    let status = r#"{ name = "status",     length = 1,  type = "X" }"#;
    says(
        status,
        r#"{ name = "status", length = 1, type = "X", on_overflow = "cut" }"#,
        "transaction TRF00100: response field status: the core's answer is never cut",
    );
    says(
        status,
        r#"{ name = "status", length = 1, type = "X", default = "C" }"#,
        "transaction TRF00100: response field status: the core gives the value, not a default",
    );
}

#[test]
fn a_constant_of_the_response_is_written_and_not_asked_of_the_core() {
    let status = r#"{ name = "status",     length = 1,  type = "X" }"#;
    let layout = std128_with(status, r#"{ name = "status", length = 1, type = "X", const = "C" }"#);
    let request = layout.decode_request(REQ_EUCKR).unwrap();
    let answer = serde_json::json!({
        "core_tx_id": "T", "posted_dtm": "", "bal_sign": "+", "balance": 1,
    });
    let body = layout.encode_answer(&request, answer.as_object().unwrap()).unwrap();
    assert_eq!(body.0[42], b'C');
    let reply = layout.error_reply(&request, oncegate::code::Code::Unknown, at());
    assert_eq!(reply[128..], RES_E901[128..], "an error's body is blank all the same");
}

#[test]
fn the_needed_roles_are_needed() {
    for role in ["length", "guid", "tx_code", "msg_type", "rsp_code"] {
        let role_key = format!(", role = {role:?}");
        says(&role_key, "", &format!("no header field has the role {role}"));
    }
}

#[test]
fn a_layout_without_hop_time_and_origin_leaves_them_as_they_came() {
    let text = changed(STD128, ", role = \"hop\"", "");
    let text = changed(&text, ", role = \"rsp_time\"", "");
    let text = changed(&text, ", role = \"err_sys\"", "");
    let layout = Layout::parse(&text).unwrap();
    let request = layout.decode_request(REQ_EUCKR).unwrap();
    let reply = layout.error_reply(&request, oncegate::code::Code::Unknown, at());
    assert_eq!(reply[40..42], *b"01");
    assert_eq!(reply[72..89], *b"                 ");
    assert_eq!(reply[92..99], *b"E901   ");
}

#[test]
fn a_role_is_given_once() {
    for role in ["length", "hop", "msg_type", "rsp_code", "rsp_time", "err_sys"] {
        let kind = if role == "hop" || role == "length" { "N" } else { "X" };
        let (old, length) = match role {
            "rsp_time" => (r#"{ name = "req_dtm",    length = 17, type = "X" }"#, 17),
            _ => (r#"{ name = "channel_id", length = 3,  type = "X" }"#, 3),
        };
        if role == "rsp_code" {
            continue;
        }
        let new =
            format!(r#"{{ name = "twin", length = {length}, type = "{kind}", role = "{role}" }}"#);
        says(old, &new, &format!("role {role} is given to more than one header field"));
    }
}

#[test]
fn a_role_asks_something_of_its_field() {
    let cases = [
        (
            r#"length = 2,  type = "N", role = "hop", default = "1""#,
            r#"length = 2,  type = "X", role = "hop", default = "1""#,
            "header field guid_hop: role hop needs type N",
        ),
        (
            r#"length = 4,  type = "X", role = "rsp_code""#,
            r#"length = 4,  type = "N", role = "rsp_code""#,
            "header field resp_code: role rsp_code needs type X and at least 4 bytes, and has 4",
        ),
        (
            r#"length = 17, type = "X", role = "rsp_time""#,
            r#"length = 17, type = "F", role = "rsp_time""#,
            "header field rsp_dtm: role rsp_time needs 14 or 17 bytes of type X or N, and has 17",
        ),
        (
            r#"length = 30, type = "X", role = "guid""#,
            r#"length = 30, type = "F", role = "guid""#,
            "header field guid: role guid needs type X or N",
        ),
        (
            r#"length = 1,  type = "X", role = "msg_type""#,
            r#"length = 1,  type = "X", role = "msg_type", const = "S""#,
            "header field msg_type: role msg_type is set by the relay and takes no const",
        ),
        (
            r#"length = 8,  type = "X", role = "tx_code""#,
            r#"length = 8,  type = "X", role = "tx_code", default = "T""#,
            "header field tx_code: role tx_code is computed and takes no default",
        ),
        (
            r#"length = 8,  type = "N", role = "length""#,
            r#"length = 8,  type = "X", role = "length""#,
            "header field tgrm_len: role length needs type N, never blank",
        ),
    ];
    for (old, new, expected) in cases {
        says(old, new, expected);
    }
}

#[test]
fn framing_and_the_length_field_agree() {
    let framing = r#"{ at = 0, digits = 8, counts = "after" }"#;
    let cases = [
        (
            r#"{ at = 1, digits = 8, counts = "after" }"#,
            "framing has 8 bytes at 1, but field tgrm_len has 8 at 0",
        ),
        (
            r#"{ at = 0, digits = 4, counts = "after" }"#,
            "framing has 4 bytes at 0, but field tgrm_len has 8 at 0",
        ),
        (r#"{ digits = 8, counts = "after" }"#, "framing: at is missing"),
        (r#"{ at = 0, counts = "after" }"#, "framing: digits is missing"),
        ("{ at = 0, digits = 8 }", "framing: counts is missing"),
        (
            r#"{ kind = "u32be", at = 0, digits = 4, counts = "after" }"#,
            "framing: digits = 4 is for kind ascii",
        ),
        (r#"{ kind = "fixed" }"#, "framing: kind fixed, and field tgrm_len has the role length"),
        (
            r#"{ kind = "fixed", at = 0 }"#,
            "framing: kind fixed takes no at, digits, counts or adjust",
        ),
        (
            r#"{ at = 0, digits = 8, counts = "after", end = "" }"#,
            "framing: end \"\" is empty or not ASCII",
        ),
        (
            r#"{ at = 0, digits = 8, counts = "after", adjust = 165 }"#,
            "framing: a telegram of 173 bytes would declare 0, not 1 to 99999999",
        ),
    ];
    for (new, expected) in cases {
        says(framing, new, expected);
    }
    says(&format!("framing = {framing}\n"), "", "framing is missing");
}

#[test]
fn telegrams_too_long_for_their_length_field_are_refused() {
    let digit = r#"{ name = "len", length = 1, type = "N", role = "length" },
        { name = "spare", length = 3, type = "F" },"#;
    let text = small_text(r#"{ at = 0, digits = 1, counts = "all" }"#, digit);
    assert_eq!(
        Layout::parse(&text).unwrap_err().to_string(),
        "layout small: framing: a telegram of 18 bytes would declare 18, not 1 to 9"
    );
}

#[test]
fn telegrams_of_several_sizes_need_a_length() {
    let spare = r#"{ name = "spare", length = 4, type = "F" },"#;
    let text = small_text(r#"{ kind = "fixed" }"#, spare);
    assert_eq!(
        Layout::parse(&text).unwrap_err().to_string(),
        "layout small: framing: kind fixed, and the telegrams have [18, 20] bytes"
    );
}

#[test]
fn message_types_and_transactions_are_told_apart() {
    says(r#"request = ["S"]"#, "request = []", "msg_type names no request value");
    says(
        r#"request = ["S"]"#,
        r#"request = ["S", "R"]"#,
        "msg_type \"R\" is a request and the response",
    );
    says(
        r#"request = ["S"]"#,
        r#"request = ["SS"]"#,
        "msg_type \"SS\": 2 bytes are more than its limit of 1",
    );
    says(
        r#"tx_code = "TRF00100""#,
        r#"tx_code = "TRF001000""#,
        "transaction TRF001000: the tx code has 9 bytes, its field 8",
    );
    says(
        r#"tx_code = "TRF00100""#,
        r#"tx_code = " ""#,
        "transaction  : the tx code is not printable ASCII, or ends in a blank",
    );
    says(
        r#"call = "/v1/transfers""#,
        r#"call = "v1/transfers""#,
        "transaction TRF00100: call \"v1/transfers\" is no path like \"/v1/transfers\"",
    );
    says(
        r#"amount = "amount""#,
        r#"amount = "memo""#,
        "transaction TRF00100: amount \"memo\" is no request field of type N",
    );
    let (_, transaction) = STD128.split_once("[[transaction]]").unwrap();
    let twice = format!("{STD128}\n[[transaction]]{transaction}");
    assert_eq!(
        Layout::parse(&twice).unwrap_err().to_string(),
        "layout std128: tx code \"TRF00100\" is there twice"
    );
    let none = STD128.split_once("[[transaction]]").unwrap().0;
    assert_eq!(
        Layout::parse(none).unwrap_err().to_string(),
        "layout std128: it has no transaction"
    );
}

#[test]
fn a_file_of_records_is_no_layout_and_a_layout_is_no_file_of_records() {
    let zengin = include_str!("../../layouts/f_zengin.toml");
    assert_eq!(
        Layout::parse(zengin).unwrap_err().to_string(),
        "layout zengin: it has no header: a relay can't carry its telegrams"
    );
    assert_eq!(
        Records::parse(STD128).unwrap_err().to_string(),
        "layout std128: a file of records has no header, framing or transaction"
    );
    let both = format!("{STD128}\n[[record]]\nname = \"r\"\nlength = 0\nfields = []\n");
    assert_eq!(
        Layout::parse(&both).unwrap_err().to_string(),
        "layout std128: a layout with a header has transactions and no [[record]]"
    );
    let twice = changed(zengin, "name = \"trailer\"", "name = \"data\"");
    assert_eq!(
        Records::parse(&twice).unwrap_err().to_string(),
        "layout zengin: record data is there twice"
    );
}

#[test]
fn a_layout_is_read_from_a_file_of_bounded_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.toml");
    assert!(matches!(Layout::read(&path), Err(LayoutError::Read { .. })));
    std::fs::write(&path, STD128).unwrap();
    assert_eq!(Layout::read(&path).unwrap().name(), "std128");
    std::fs::write(&path, format!("{STD128}#{}", "-".repeat(1024 * 1024))).unwrap();
    assert!(matches!(Layout::read(&path), Err(LayoutError::TooLong { limit: 1_048_576, .. })));
}
