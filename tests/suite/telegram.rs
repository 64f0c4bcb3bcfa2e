//! Telegrams: golden bytes, every rule of the layout engine, layouts from the field, framing.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod describe;
mod fields;
mod framing;
mod layout_files;
mod layouts;
mod replies;
mod requests;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};
use oncegate::telegram::{Layout, Request};

const STD128: &str = include_str!("../../assets/layouts/std128.toml");
const REQ_EUCKR: &[u8] = include_bytes!("../vectors/req_euckr.bin");
const RES_EUCKR: &[u8] = include_bytes!("../vectors/res_euckr.bin");
const RES_E901: &[u8] = include_bytes!("../vectors/res_e901.bin");
const REQ_SJIS: &[u8] = include_bytes!("../vectors/req_sjis.bin");

/// The golden request in which each `(offset, bytes)` has been written over.
fn golden_with(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = REQ_EUCKR.to_vec();
    for (offset, new) in changes {
        bytes[*offset..*offset + new.len()].copy_from_slice(new);
    }
    bytes
}

/// std128 in which a piece of its text, which must be there once, is another.
fn std128_with(old: &str, new: &str) -> Layout {
    Layout::parse(&changed(STD128, old, new)).unwrap()
}

fn changed(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old:?} stands once in the layout");
    text.replace(old, new)
}

fn std128_in(encoding: &str) -> Layout {
    std128_with("encoding = \"cp949\"", &format!("encoding = {encoding:?}"))
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A std128 request's values with this memo.
fn with_memo(memo: &str) -> BTreeMap<String, String> {
    values(&[("guid", "20260928MOBAP00100000000000123"), ("amount", "150000"), ("memo", memo)])
}

fn golden() -> Request {
    Layout::std128().decode_request(REQ_EUCKR).unwrap()
}

/// 2026-09-28 09:30:18.130 UTC.
fn at() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 9, 28, 9, 30, 18).unwrap() + TimeDelta::milliseconds(130)
}

/// What a refusal says.
fn refusal(layout: &Layout, bytes: &[u8]) -> String {
    layout.decode_request(bytes).unwrap_err().to_string()
}
