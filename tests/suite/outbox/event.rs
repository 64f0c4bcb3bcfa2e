//! What is an event.

use oncegate::outbox::{Event, OutboxError, parse_event, validate_event};
use serde_json::{Value, json};

fn refused<T: std::fmt::Debug>(result: &Result<T, OutboxError>, what: &str) {
    assert!(matches!(result, Err(OutboxError::Value(_))), "{what}: {result:?}");
}

#[test]
fn an_event_has_exactly_an_id_and_a_quantity() {
    let long = "x".repeat(64);
    for (id, qty) in [("a", 1), ("A-z_09", 1000), ("-", 7), (long.as_str(), 500)] {
        let input = json!({"id": id, "qty": qty});
        let before = input.clone();
        assert_eq!(validate_event(&input).unwrap(), Event { id: id.to_owned(), qty });
        assert_eq!(input, before, "the input is unchanged");
    }
    assert_eq!(validate_event(&json!({"qty": 2, "id": "b"})).unwrap().qty, 2);
    for input in [
        json!(null),
        json!([]),
        json!("a"),
        json!({}),
        json!({"id": "a"}),
        json!({"qty": 1}),
        json!({"id": "a", "qty": 1, "z": 1}),
        json!({"ID": "a", "qty": 1}),
    ] {
        refused(&validate_event(&input), &input.to_string());
    }
}

#[test]
fn an_id_is_1_to_64_ascii_letters_digits_underscores_and_hyphens() {
    let long = "x".repeat(65);
    for id in ["", "a b", "a\n", "\na", "a\0", "é", "한글", "a.b", "a/b", "a:b", "a'b", &long] {
        refused(&validate_event(&json!({"id": id, "qty": 1})), id);
        refused(&Event::new(id, 1), id);
    }
    for id in [json!(1), json!(null), json!(true), json!(["a"])] {
        refused(&validate_event(&json!({"id": id, "qty": 1})), "an id that is no string");
    }
}

#[test]
fn a_quantity_is_an_integer_from_1_to_1000_and_nothing_that_looks_like_one() {
    for text in
        ["0", "1001", "-1", "true", "false", "1.0", "1e0", "1.5", "\"1\"", "null", "[1]", "9e99"]
    {
        let qty: Value = serde_json::from_str(text).unwrap();
        refused(&validate_event(&json!({"id": "a", "qty": qty})), text);
        refused(&parse_event(format!(r#"{{"id":"a","qty":{text}}}"#).as_bytes()), text);
    }
    for text in ["18446744073709551616", "9223372036854775808", "-9223372036854775809"] {
        refused(&parse_event(format!(r#"{{"id":"a","qty":{text}}}"#).as_bytes()), text);
    }
}

#[test]
fn a_json_text_is_one_object_without_a_key_twice() {
    assert_eq!(
        parse_event(b" {\"id\": \"a\", \"qty\": 3}\n").unwrap(),
        Event::new("a", 3).unwrap()
    );
    assert_eq!(parse_event(br#"{"\u0069d":"a","qty":3}"#).unwrap().id, "a");
    for text in [
        r#"{"id":"a","qty":1,"qty":1}"#,
        r#"{"id":"a","id":"a","qty":1}"#,
        r#"{"id":"a","\u0069d":"a","qty":1}"#,
        r#"{"id":"a","qty":1} {}"#,
        r#"{"id":"a","qty":1"#,
        r#"{"id":"a","qty":1,}"#,
        r#"{"id":"a","qty":01}"#,
        r"{'id':'a','qty':1}",
        "",
        "[]",
        "null",
        "\u{feff}{\"id\":\"a\",\"qty\":1}",
    ] {
        refused(&parse_event(text.as_bytes()), text);
    }
    refused(&parse_event(b"{\"id\":\"a\xff\",\"qty\":1}"), "not UTF-8");
    refused(&parse_event("[".repeat(100_000).as_bytes()), "very deep");
}

#[test]
fn an_event_is_written_as_it_is_read() {
    let event = Event::new("a-1", 12).unwrap();
    assert_eq!(event.to_json(), r#"{"id":"a-1","qty":12}"#);
    assert_eq!(parse_event(event.to_json().as_bytes()).unwrap(), event);
}
