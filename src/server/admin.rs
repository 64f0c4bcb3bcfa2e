//! The admin pages: `/healthz` (alive), `/readyz` (the ledger can be written), `/metrics` (Prometheus).

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::Method;

use super::metrics::{Metrics, Moment};
use super::tcp_front::Counter;
use crate::engine::relay::Relay;
use crate::http_server::{Handler, HttpServer, Limits, Request, Response, Tell};

/// What the pages look at.
pub(super) struct Seen {
    pub(super) relay: Arc<Relay>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) wal: PathBuf,
    pub(super) tcp: Option<Counter>,
    pub(super) http: Option<Arc<HttpServer>>,
}

pub(super) fn start(listener: TcpListener, seen: Seen) -> io::Result<HttpServer> {
    HttpServer::start(listener, Limits::default(), Arc::new(seen))
}

impl Handler for Seen {
    fn route(&self, method: &Method, path: &str) -> Result<(), Response> {
        match (path, method) {
            ("/healthz" | "/readyz" | "/metrics", &Method::GET) => Ok(()),
            ("/healthz" | "/readyz" | "/metrics", _) => Err(Response::method_not_allowed("GET")),
            _ => Err(Response::not_found()),
        }
    }

    fn answer(&self, request: Request, tell: Tell) {
        tell.tell(match request.path.as_str() {
            "/healthz" => Response::text(200, "alive"),
            "/readyz" => self.readiness(),
            _ => self.numbers(),
        });
    }
}

impl Seen {
    fn readiness(&self) -> Response {
        if self.relay.gate.is_closed() {
            return Response::text(503, "stopping");
        }
        match self.relay.ledger.probe() {
            Ok(()) => Response::text(200, "ready"),
            Err(error) => Response::text(503, &error.to_string()),
        }
    }

    fn numbers(&self) -> Response {
        let counts = match self.relay.ledger.counts() {
            Ok(counts) => counts,
            Err(error) => return Response::text(503, &error.to_string()),
        };
        let moment = Moment {
            counts,
            now: self.relay.clock.now(),
            in_flight: self.relay.gate.inside(),
            tcp: self.tcp.as_ref().map(Counter::open),
            http: self.http.as_ref().map(|server| server.connections()),
            wal_bytes: std::fs::metadata(&self.wal).map_or(0, |meta| meta.len()),
        };
        let text = self.metrics.text(&moment);
        Response::new(200, Metrics::CONTENT_TYPE, text.into_bytes())
    }
}
