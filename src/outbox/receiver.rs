//! The receiver: `POST /events` on the one HTTP server, one event a request, acknowledged after its commit and never before.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use rusqlite::Connection;
use serde_json::json;

use super::error::chain;
use super::{Event, OutboxError, Point, Role, no_fault, open_store, parse_event, receive};
use crate::http_server::{Handler, HttpServer, Limits, Request, Response, Tell};
use crate::limits::{EVENT_BYTES_MAX, RECEIVER_CONNECTIONS_MAX, RECEIVER_WORKERS_MAX};

/// The path of events.
pub const EVENTS_PATH: &str = "/events";

/// A receiver that serves a sink until it is shut down.
///
/// Answers: 200 `{"id":…,"accepted":true}` once the event is committed, now or before; 400 for a bad event; 409 for a conflict; 404, 405,
/// and 413 over 1024 bytes; 500 if the store fails: then the event may be sent again.
#[derive(Debug)]
pub struct Receiver {
    server: HttpServer,
}

/// A fault for the receiver's threads.
type SharedFault = dyn Fn(Point) -> Result<(), OutboxError> + std::marker::Send + Sync;

impl Receiver {
    /// Opens (creates) the sink at `path` and serves it on `listener`. Errors: those of [`open_store`], and `Io`.
    pub fn start(path: &Path, listener: TcpListener) -> Result<Receiver, OutboxError> {
        Receiver::start_with_fault(path, listener, Arc::new(no_fault))
    }

    /// As [`Receiver::start`], with a fault for every event that is received.
    pub fn start_with_fault(
        path: &Path,
        listener: TcpListener,
        fault: Arc<SharedFault>,
    ) -> Result<Receiver, OutboxError> {
        let con = open_store(path, Role::Sink)?;
        let file = FileId::of(path)?;
        let inbox = Inbox { path: path.to_owned(), file, con: Mutex::new(con), fault };
        let limits = Limits {
            connections_max: RECEIVER_CONNECTIONS_MAX,
            workers_max: RECEIVER_WORKERS_MAX,
            body_bytes_max: EVENT_BYTES_MAX,
            ..Limits::default()
        };
        Ok(Receiver { server: HttpServer::start(listener, limits, Arc::new(inbox))? })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Takes no more events and lets those under way end, for at most `grace`. Returns how many were still under way then: each of them
    /// is committed or not, and unacknowledged.
    pub fn shutdown(&self, grace: Duration) -> usize {
        self.server.shutdown(grace)
    }
}

/// Which file a path names. SQLite goes on committing into a file that was deleted or replaced meanwhile, as if nothing had happened.
#[derive(Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<FileId> {
        let file = std::fs::metadata(path)?;
        Ok(FileId { device: file.dev(), inode: file.ino() })
    }
}

struct Inbox {
    path: PathBuf,
    file: FileId,
    con: Mutex<Connection>,
    fault: Arc<SharedFault>,
}

impl Inbox {
    fn receive(&self, body: &[u8]) -> Result<Event, OutboxError> {
        let event = parse_event(body)?;
        // After a panic the connection is in autocommit all the same.
        let con = self.con.lock().unwrap_or_else(PoisonError::into_inner);
        receive(&con, &event, &mut |point| (self.fault)(point))?;
        // Only now: a file that was replaced before the commit has taken the commit with it.
        if FileId::of(&self.path).is_ok_and(|file| file == self.file) {
            return Ok(event);
        }
        Err(OutboxError::Store {
            path: self.path.clone(),
            why: "the file was moved, deleted or replaced while it was open".to_owned(),
        })
    }
}

impl Handler for Inbox {
    fn route(&self, method: &Method, path: &str) -> Result<(), Response> {
        match (path, method) {
            (EVENTS_PATH, &Method::POST) => Ok(()),
            (EVENTS_PATH, _) => Err(Response::method_not_allowed("POST")),
            _ => Err(Response::not_found()),
        }
    }

    fn answer(&self, request: Request, tell: Tell) {
        tell.tell(match self.receive(&request.body) {
            Ok(event) => {
                let ack = json!({"id": event.id, "accepted": true});
                Response::json(200, ack.to_string().into_bytes())
            }
            Err(error @ OutboxError::Value(_)) => Response::text(400, &error.to_string()),
            Err(error @ OutboxError::Conflict { .. }) => Response::text(409, &error.to_string()),
            Err(error) => {
                tracing::error!(error = %chain(&error), "an event was not acknowledged");
                Response::text(500, "the store failed: send it again later")
            }
        });
    }
}
