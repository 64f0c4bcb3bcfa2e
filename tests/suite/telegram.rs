//! Telegrams: golden bytes, every rule of the layout engine, layouts from the field, framing.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use chrono::{DateTime, TimeZone as _, Utc};
use oncegate::code::Code;
use oncegate::telegram::Layout;

const REQ_EUCKR: &[u8] = include_bytes!("../vectors/req_euckr.bin");
const RES_E901: &[u8] = include_bytes!("../vectors/res_e901.bin");

fn at() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 9, 28, 9, 30, 18).unwrap() + chrono::Duration::milliseconds(130)
}

#[test]
fn the_golden_request_gets_the_golden_e901_but_for_its_longer_chain() {
    let layout = Layout::std128();
    let request = layout.decode_request(REQ_EUCKR).unwrap();
    let mut expected = RES_E901.to_vec();
    expected[40..42].copy_from_slice(b"02");
    assert_eq!(layout.error_reply(&request, Code::Unknown, at()), expected);
}
