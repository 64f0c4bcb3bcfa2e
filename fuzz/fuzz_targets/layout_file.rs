//! Any text is a layout or is refused in words; a layout that is accepted reads any bytes, and its records keep what they read.
#![no_main]

use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use oncegate::telegram::{Layout, Records};

/// Longer telegrams only cost time.
const TELEGRAM_BYTES_MAX: usize = 4 * 1024;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Layout::parse(text) {
        Ok(layout) => used(&layout, data),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(records) = Records::parse(text) {
        let _ = records.recognise(data);
    }
});

fn used(layout: &Layout, bytes: &[u8]) {
    let _ = layout.describe(bytes);
    let mut framer = layout.framer(TELEGRAM_BYTES_MAX);
    framer.push(bytes);
    let _ = framer.next();
    if let Ok(request) = layout.decode_request(bytes) {
        assert!(layout.same_content(&request, bytes));
    }
    let _ = layout.malformed_reply(bytes, DateTime::UNIX_EPOCH);
    for tx_code in layout.tx_codes() {
        let _ = layout.encode_request(tx_code, &std::collections::BTreeMap::new());
    }
}
