//! The HTTP front: `POST /telegram`, the body is one telegram, the answer's body is its reply.

use std::sync::Arc;

use hyper::Method;
use tracing::warn;

use super::metrics::Metrics;
use crate::code::Code;
use crate::engine::relay::{Relay, Reply};
use crate::http_server::{Handler, Request, Response, Tell};

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

    fn answer(&self, request: Request, tell: Tell) {
        let (metrics, peer) = (Arc::clone(&self.metrics), request.peer);
        self.relay.answer(&request.body, move |reply| {
            let response = match reply {
                Ok(reply) => {
                    metrics.answered(&reply.code);
                    response(reply)
                }
                Err(error) => {
                    metrics.answered(Code::Malformed.as_str());
                    warn!(%peer, code = %Code::Malformed, "{error}");
                    Response::text(400, &error.to_string())
                }
            };
            tell.tell(response);
        });
    }
}

fn response(reply: Reply) -> Response {
    let mut response = Response::new(200, "application/octet-stream", reply.telegram);
    response.headers.push(("oncegate-code", header_text(&reply.code)));
    if reply.replayed {
        response.headers.push(("oncegate-replayed", "true".to_owned()));
    }
    response.after_sent = reply.permit.map(|permit| Box::new(permit) as _);
    response
}

/// A replayed code comes from the ledger, and another program may have written anything there.
fn header_text(code: &str) -> String {
    code.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}
