//! The HTTP front: `POST /telegram`, the body is one telegram, the answer's body is its reply.

use std::sync::Arc;

use hyper::Method;
use tracing::warn;

use super::metrics::Metrics;
use crate::code::Code;
use crate::engine::relay::Relay;
use crate::http_server::{Handler, Request, Response};

pub(super) struct HttpFront {
    pub(super) relay: Arc<Relay>,
    pub(super) metrics: Arc<Metrics>,
}

impl Handler for HttpFront {
    fn route(&self, method: &Method, path: &str) -> Result<(), Response> {
        match (path, method) {
            ("/telegram", &Method::POST) => Ok(()),
            ("/telegram", _) => Err(Response::method_not_allowed("POST")),
            _ => Err(Response::not_found()),
        }
    }

    fn answer(&self, request: Request) -> Response {
        match self.relay.answer(&request.body) {
            Ok(reply) => {
                self.metrics.answered(&reply.code);
                let mut response = Response::new(200, "application/octet-stream", reply.telegram);
                response.headers.push(("oncegate-code", header_text(&reply.code)));
                if reply.replayed {
                    response.headers.push(("oncegate-replayed", "true".to_owned()));
                }
                response.after_sent = reply.permit.map(|permit| Box::new(permit) as _);
                response
            }
            Err(error) => {
                self.metrics.answered(Code::Malformed.as_str());
                warn!(peer = %request.peer, code = %Code::Malformed, "{error}");
                Response::text(400, &error.to_string())
            }
        }
    }
}

/// A replayed code comes from the ledger, and another program may have written anything there.
fn header_text(code: &str) -> String {
    code.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}
