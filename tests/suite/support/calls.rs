//! Requests to a core, its answers, and outcomes as one line.

use oncegate::core_api::{Inquiry, Transfer};
use oncegate::telegram::{Layout, Request};

/// A transfer of the default layout.
pub fn request(guid: &str, memo: &str) -> Request {
    let header = format!(
        "00000200{:2}{guid:30}{:2}{:8}S1{:3}{:17}{:17}{:3}{:4}{:3}{:29}",
        "01", "01", "TRF00100", "MOB", "20261129093015123", "", "000", "", "", ""
    );
    let body =
        format!("{:16}{:16}{:013}{memo:20}{:15}", "110123456789", "3020987654321", 150_000, "");
    let telegram = header + &body;
    Layout::std128().decode_request(telegram.as_bytes()).expect("a request")
}

/// A good answer to it.
pub fn answer_json(guid: &str) -> String {
    format!(
        r#"{{"guid":"{guid}","core_tx_id":"T0000000000001","posted_dtm":"20261129093015","bal_sign":"+","balance":2350000,"status":"C"}}"#
    )
}

/// An answer over HTTP.
pub fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// An outcome as one line; the encoded body of an answer is the codec's affair.
pub fn told(outcome: &Transfer) -> String {
    match outcome {
        Transfer::Done(_) => "done".to_owned(),
        Transfer::Refused(code) => format!("refused {code}"),
        Transfer::NotSent(why) => format!("not sent: {}", why.0),
        Transfer::Unknown(why) => format!("unknown: {}", why.0),
    }
}

/// The same for an inquiry.
pub fn told_inquiry(outcome: &Inquiry) -> String {
    match outcome {
        Inquiry::Known(_) => "known".to_owned(),
        Inquiry::Absent => "absent".to_owned(),
        Inquiry::NoAnswer(why) => format!("no answer: {}", why.0),
    }
}
