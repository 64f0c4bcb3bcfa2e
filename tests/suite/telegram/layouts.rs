//! Layouts from the field: each is a file, and none needs code.

use oncegate::code::Code;
use oncegate::telegram::{Records, Request};
use serde_json::{Value, json};

use super::requests::made_again;
use super::*;

macro_rules! sample {
    ($name:literal) => {
        (
            Layout::parse(include_str!(concat!("../../layouts/", $name, ".toml"))).unwrap(),
            &include_bytes!(concat!("../../vectors/", $name, ".bin"))[..],
        )
    };
}

pub(super) fn trailer() -> Layout {
    sample!("d_trailer").0
}

fn decoded(layout: &Layout, sample: &[u8]) -> Request {
    layout.decode_request(sample).unwrap()
}

/// The sample with these bytes written over, as its error reply's header is.
fn header_with(sample: &[u8], size: usize, changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut header = sample[..size].to_vec();
    for (at, bytes) in changes {
        header[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    header
}

#[test]
fn a_firm_banking_link_keyed_by_company_number_and_date() {
    let (layout, sample) = sample!("a_firm_banking");
    let request = decoded(&layout, sample);
    assert_eq!(request.guid().as_str(), "ACME0001000123260928");
    assert_eq!((request.tx_code(), request.amount()), ("100", Some(70_000)));
    assert_eq!(request.fields()["holder"], "월세 3월분");
    assert_eq!(made_again(&layout, "100", sample), sample);
    let changes: [(usize, &[u8]); 3] = [(0, b"0130"), (23, b"0210"), (49, b"E901")];
    let mut expected = header_with(sample, 104, &changes);
    expected.extend_from_slice(b"              0000000000000   ");
    assert_eq!(layout.error_reply(&request, Code::Unknown, at()), expected);
}

#[test]
fn a_key_of_several_fields_has_no_blanks_inside() {
    let (layout, sample) = sample!("a_firm_banking");
    let mut bytes = sample.to_vec();
    bytes[20] = b' ';
    let text = refusal(&layout, &bytes);
    assert!(text.starts_with("field company at offset 13: byte 20 at 7 of the GUID"), "{text}");
}

#[test]
fn the_payment_networks_three_hundred_bytes_without_a_length() {
    let (layout, sample) = sample!("b_payment_network");
    let request = decoded(&layout, sample);
    assert_eq!(request.guid().as_str(), "KFTC00012000471120260928");
    assert_eq!(request.fields()["memo"], "가나다라마바사아자차");
    assert_eq!(request.fields()["balance"], Value::Null);
    assert_eq!(made_again(&layout, "100", sample), sample);
    let sensitive: Vec<String> = layout
        .describe(sample)
        .into_iter()
        .filter(|field| field.sensitive)
        .map(|field| field.name)
        .collect();
    assert_eq!(sensitive, ["from_acct", "password", "to_acct", "identity"]);
    let reply = layout.error_reply(&request, Code::Refused, at());
    let header = header_with(sample, 100, &[(19, b"0110"), (47, b"E905")]);
    assert_eq!((reply.len(), &reply[..100]), (300, &header[..]));
}

#[test]
fn the_payment_networks_send_count_is_always_one() {
    let (layout, sample) = sample!("b_payment_network");
    let mut bytes = sample.to_vec();
    bytes[26] = b'2';
    assert_eq!(
        refusal(&layout, &bytes),
        "field send_count at offset 26: bytes 32 are not the layout's constant"
    );
}

#[test]
fn an_exchange_header_whose_progress_number_is_no_part_of_the_key() {
    let (layout, sample) = sample!("c_exchange");
    let request = decoded(&layout, sample);
    assert_eq!(request.guid().as_str(), "260928MOBBANK10000000000000042");
    assert_eq!((request.tx_code(), request.amount()), ("BANKING PAY1", None));
    assert_eq!(made_again(&layout, "BANKING PAY1", sample), sample);
    let changes: [(usize, &[u8]); 5] =
        [(0, b"00000276"), (38, b"04"), (87, b"R"), (88, b"20260928093018"), (102, b"E902    ")];
    let mut expected = header_with(sample, 270, &changes);
    expected.extend_from_slice(b"              ");
    assert_eq!(layout.error_reply(&request, Code::NotSent, at()), expected);
}

#[test]
fn a_transaction_without_a_body() {
    let (layout, _) = sample!("c_exchange");
    let bytes = layout.encode_request("BANKING PING", &values(&[("key", "K1")])).unwrap();
    assert_eq!((bytes.len(), &bytes[40..52]), (270, &b"BANKING PING"[..]));
    let request = decoded(&layout, &bytes);
    assert_eq!((request.call(), request.fields().len()), ("/v1/pings", 0));
    let body = layout.encode_answer(&request, &serde_json::Map::new()).unwrap();
    assert_eq!(layout.done_reply(&request, &body, at()).len(), 270);
}

#[test]
fn a_client_with_an_end_mark_that_its_length_counts() {
    let (layout, sample) = sample!("d_trailer");
    let request = decoded(&layout, sample);
    assert_eq!(request.guid().as_str(), "260928CHANNEL100000000000000009");
    assert_eq!(request.fields()["memo"], "똠방각하");
    assert_eq!(made_again(&layout, "TRANSFER", sample), sample);
    let changes: [(usize, &[u8]); 4] =
        [(0, b"00000714"), (77, b"9999"), (204, b"R"), (232, b"E905  COR")];
    let mut expected = header_with(sample, 700, &changes);
    expected.extend_from_slice(b"                    @@");
    assert_eq!(layout.error_reply(&request, Code::Refused, at()), expected);
    let end = layout.describe(sample).pop().unwrap();
    assert_eq!((end.name.as_str(), end.offset, end.text), ("end", 740, Ok("@@".to_owned())));
}

#[test]
fn a_batch_header_whose_length_stands_inside() {
    let (layout, sample) = sample!("e_length_inside");
    let request = decoded(&layout, sample);
    assert_eq!(request.amount(), Some(9_999_999_999_999_999_999));
    assert_eq!(request.fields()["holder"], "홍길동");
    assert_eq!(made_again(&layout, "B001", sample), sample);
    let answer = json!({"balance": 9_999_999_999_999_999_999_u64});
    let body = layout.encode_answer(&request, answer.as_object().unwrap()).unwrap();
    let changes: [(usize, &[u8]); 3] = [(12, b"0000000099"), (46, b"2"), (47, b"0000")];
    let mut expected = header_with(sample, 80, &changes);
    expected.extend_from_slice(b"9999999999999999999");
    assert_eq!(layout.done_reply(&request, &body, at()), expected);
}

fn zengin() -> (Records, &'static [u8]) {
    let records = Records::parse(include_str!("../../layouts/f_zengin.toml")).unwrap();
    (records, include_bytes!("../../vectors/f_zengin.bin"))
}

#[test]
fn zengin_records_are_recognised_read_and_written_byte_for_byte() {
    let (records, file) = zengin();
    let mut names = Vec::new();
    for line in file.chunks(120) {
        let name = records.recognise(line).unwrap();
        let values = records.decode(name, line).unwrap();
        assert_eq!(records.encode(name, &values).unwrap(), line, "{name}");
        names.push(name);
    }
    assert_eq!(names, ["header", "data", "trailer", "end"]);
}

#[test]
fn zengin_voiced_marks_are_bytes_of_their_own() {
    let (records, file) = zengin();
    let data = records.decode("data", &file[120..240]).unwrap();
    assert_eq!((data["payee"].as_str(), data["amount"].as_str()), ("ﾀﾅｶ ｶﾞｸ", "98000"));
    assert_eq!(file[120 + 54..120 + 57], *b"\xb6\xde\xb8");
    let mut data = data;
    data.insert("payee".to_owned(), "ｶﾞ".repeat(15));
    assert!(records.encode("data", &data).is_ok(), "fifteen voiced kana are thirty bytes");
    data.insert("payee".to_owned(), "ｶﾞ".repeat(15) + "ｱ");
    assert_eq!(
        records.encode("data", &data).unwrap_err().to_string(),
        "field payee: 31 bytes are more than its limit of 30"
    );
}

#[test]
fn a_record_that_is_none_is_refused() {
    let (records, file) = zengin();
    assert_eq!(records.recognise(&file[..119]), None);
    assert_eq!(records.recognise(&[b'5'; 120]), None);
    let text = |name, bytes: &[u8]| records.decode(name, bytes).unwrap_err().to_string();
    assert_eq!(text("data", &file[..119]), "119 bytes, a data record has 120");
    assert_eq!(
        text("data", &file[..120]),
        "field data_class at offset 0: bytes 31 are not the layout's constant"
    );
    assert_eq!(text("dta", &file[..120]), "there is no record \"dta\"");
    let encode =
        |pairs: &[(&str, &str)]| records.encode("trailer", &values(pairs)).unwrap_err().to_string();
    assert_eq!(encode(&[("count", "1")]), "field total has no value");
    assert_eq!(encode(&[("cuont", "1")]), "record trailer has no field \"cuont\"");
    assert_eq!(
        encode(&[("count", "1"), ("total", "1"), ("data_class", "9")]),
        "field data_class has a constant"
    );
}
