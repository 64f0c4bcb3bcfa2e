//! What is made visible holds nothing that a terminal acts upon, and stays as it is when it is made visible again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oncegate::visible::{is_hidden, visible};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let shown = visible(&text);
    assert!(shown.chars().all(|c| !c.is_control() && !is_hidden(c)), "{shown:?}");
    assert_eq!(visible(&shown), shown);
    if text.chars().all(|c| !c.is_control() && !is_hidden(c)) {
        assert_eq!(shown, text);
    }
});
