//! A request that decodes is made again, byte for byte, from what was decoded and its own bytes; and each reply to it has the layout's form.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use oncegate::code::Code;
use oncegate::telegram::{Layout, Part, Request, Role};
use serde_json::Value;

/// The layout compiled in, and those of the tests; the first byte chooses.
static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let files = [
        include_str!("../../tests/layouts/a_firm_banking.toml"),
        include_str!("../../tests/layouts/b_payment_network.toml"),
        include_str!("../../tests/layouts/c_exchange.toml"),
        include_str!("../../tests/layouts/d_trailer.toml"),
        include_str!("../../tests/layouts/e_length_inside.toml"),
    ];
    let mut layouts = vec![Layout::std128()];
    layouts.extend(files.into_iter().filter_map(|file| Layout::parse(file).ok()));
    layouts
});

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let layout = &LAYOUTS[usize::from(*choice) % LAYOUTS.len()];
    let described = layout.describe(bytes);
    let shown: Vec<u8> = described.iter().flat_map(|field| field.bytes.clone()).collect();
    assert_eq!(shown, bytes, "its fields, one after the other, are the telegram");
    let at = DateTime::UNIX_EPOCH;
    let request = match layout.decode_request(bytes) {
        Ok(request) => request,
        Err(malformed) => {
            let _ = malformed.to_string();
            if let Some(reply) = layout.malformed_reply(bytes, at) {
                assert_eq!(layout.reply_code(&reply).as_deref(), Some("E900"));
            }
            return;
        }
    };
    assert_eq!(request.bytes(), bytes);
    let again = layout.decode_request(bytes).expect("what was read once is read again");
    assert!(request.same_content(&again) && layout.same_content(&request, bytes));
    assert_eq!((request.guid(), request.fields()), (again.guid(), again.fields()));
    for code in [Code::NotSent, Code::Unknown, Code::InProgress, Code::OtherContent] {
        let reply = layout.error_reply(&request, code, at);
        assert_eq!(layout.reply_code(&reply).as_deref(), Some(code.as_str()));
        let mut framer = layout.framer(64 * 1024);
        framer.push(&reply);
        let frame = framer.next().expect("a reply is a telegram").expect("and a whole one");
        assert!(framer.next().expect("nothing is left").is_none(), "{frame:?}");
    }
    made_again(layout, &request);
});

/// What was decoded makes a telegram that says the same.
fn made_again(layout: &Layout, request: &Request) {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut values: BTreeMap<String, String> =
        request.fields().iter().map(|(name, value)| (name.clone(), text(value))).collect();
    for field in layout.describe(request.bytes()) {
        if field.part == Part::Header && field.role == Some(Role::Guid) {
            values.insert(field.name, field.text.expect("it was a GUID"));
        }
    }
    // A const of the header, say, may have another value in the telegram; then nothing is made.
    let Ok(made) = layout.encode_request(request.tx_code(), &values) else { return };
    let read = layout.decode_request(&made).expect("what was made can be read");
    assert_eq!((read.guid(), read.fields()), (request.guid(), request.fields()));
}
