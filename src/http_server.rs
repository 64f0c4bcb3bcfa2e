//! The one small HTTP/1.1 server at the edge: the relay's HTTP front, the admin pages and the outbox's receiver stand on it.
//!
//! hyper reads and writes on a runtime of its own with one thread; handlers are blocking functions on threads of their own, or on
//! that thread where there is nothing to gain from several. It knows connections, limits and times; never what a request means.
//! Invariants: a handler that was called runs to its end, whatever its client does; nothing a client sends or leaves out holds a
//! connection, memory or a thread for longer than the limits say.

mod line;

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};

use crate::limits;
use line::{Line, Watch, Whole, Wire};

/// What one server takes. `Limits::default()` holds the product's values; each is explained in `limits.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections; one more is closed as soon as it is accepted.
    pub connections_max: usize,
    /// Threads that run [`Handler::answer`]; more requests wait for one of them. 0: the server's own thread does, one request after the
    /// other, without the two changes of thread that cost more than a short handler; all connections wait meanwhile, and their times.
    /// For handlers that are quick, or answer later.
    pub workers_max: usize,
    /// The longest body; a longer one is answered with 413 and its connection closes.
    pub body_bytes_max: usize,
    /// From the first byte of a head (on a new connection: from its accept) to its end.
    pub header_timeout: Duration,
    /// From the end of the head to the end of the body; then 408, and the connection closes.
    pub body_timeout: Duration,
    /// How long a connection that is kept alive may wait for its next request.
    pub idle_timeout: Duration,
    /// How long a client may take to accept a whole response.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: limits::HTTP_CONNECTIONS_MAX,
            workers_max: limits::HTTP_WORKERS_MAX,
            body_bytes_max: limits::HTTP_BODY_BYTES_MAX,
            header_timeout: limits::HTTP_HEADER_TIMEOUT,
            body_timeout: limits::HTTP_BODY_TIMEOUT,
            idle_timeout: limits::HTTP_IDLE_TIMEOUT,
            write_timeout: limits::HTTP_WRITE_TIMEOUT,
        }
    }
}

/// A request that was read whole.
#[derive(Debug)]
pub struct Request {
    /// GET, POST …
    pub method: Method,
    /// The path as it was sent: percent-encoded, without the query.
    pub path: String,
    /// What stands behind the `?`, as it was sent.
    pub query: Option<String>,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body; empty if there was none.
    pub body: Bytes,
    /// Who sent it.
    pub peer: SocketAddr,
}

/// An answer. The length, the date and, where the connection has to end, `connection: close` are added on sending.
pub struct Response {
    /// The status code, 200-599.
    pub status: u16,
    /// The media type of `body`.
    pub content_type: &'static str,
    /// Further header fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body, sent with its length.
    pub body: Vec<u8>,
    /// Dropped once every byte of this response was handed to the socket, or once it is certain that this will not happen.
    pub after_sent: Option<Box<dyn Any + Send>>,
}

impl Response {
    /// One line of text; a line break is added.
    #[must_use]
    pub fn text(status: u16, line: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", format!("{line}\n").into_bytes())
    }

    /// A JSON text.
    #[must_use]
    pub fn json(status: u16, json: Vec<u8>) -> Response {
        Response::new(status, "application/json", json)
    }

    /// A body of any type.
    #[must_use]
    pub fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Response {
        Response { status, content_type, headers: Vec::new(), body, after_sent: None }
    }

    /// 404.
    #[must_use]
    pub fn not_found() -> Response {
        Response::text(404, "there is nothing here")
    }

    /// 405 with the methods that are allowed, as in `GET, HEAD`.
    #[must_use]
    pub fn method_not_allowed(allow: &str) -> Response {
        let mut response = Response::text(405, &format!("only {allow} here"));
        response.headers.push((ALLOW.as_str(), allow.to_owned()));
        response
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What a server serves.
pub trait Handler: Send + Sync + 'static {
    /// Whether there is something at `path` for `method`; otherwise the 404 or 405. Called before the body is read, on the runtime's
    /// thread: it must not block.
    fn route(&self, method: &Method, path: &str) -> Result<(), Response>;

    /// Answers a request that [`Handler::route`] let pass: now, or later and on another thread. May block, and always runs to its end,
    /// also when the client has gone. A panic becomes a 500. [`Limits::workers_max`] says on which thread.
    fn answer(&self, request: Request, tell: Tell);
}

/// Whom an answer is told. Dropped without one, it becomes a 500.
pub struct Tell {
    to: oneshot::Sender<Response>,
    /// Until then its connection keeps its place.
    _session: Arc<Session>,
}

impl Tell {
    /// Tells it; nobody, if the client has gone.
    pub fn tell(self, response: Response) {
        let _ = self.to.send(response);
    }
}

/// A server that runs until it is shut down or dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    house: Arc<House>,
    accepting: watch::Sender<bool>,
    serving: watch::Sender<bool>,
    runtime: Mutex<Option<Runtime>>,
}

impl HttpServer {
    /// Serves what comes on `listener`. Errors: the listener can't be used, or no thread can be made.
    pub fn start(
        listener: std::net::TcpListener,
        limits: Limits,
        handler: Arc<dyn Handler>,
    ) -> io::Result<HttpServer> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = runtime(limits)?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (accepting, accept_until) = watch::channel(true);
        let (serving, serve_until) = watch::channel(true);
        let house = Arc::new(House::default());
        let front = Front { limits, handler, house: Arc::clone(&house), serve_until };
        runtime.spawn(accept(listener, front, accept_until));
        Ok(HttpServer { address, house, accepting, serving, runtime: Mutex::new(Some(runtime)) })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open now, counting those whose client has gone and whose handler has not ended.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.house.count().connections
    }

    /// Accepts no more connections; those that are open go on. When it returns the listening socket is closed. Not to be called from
    /// [`Handler::route`].
    pub fn stop_accepting(&self) {
        self.accepting.send_replace(false);
        self.house.wait_until(limits::HTTP_STOP_TIMEOUT, |count| count.deaf);
    }

    /// Stops accepting, lets requests under way end for at most `grace`, closes the rest. Returns how many connections were still busy
    /// then: a handler that is not over goes on, and its answer reaches nobody.
    pub fn shutdown(&self, grace: Duration) -> usize {
        self.stop_accepting();
        self.serving.send_replace(false);
        let busy = self.house.wait_until(grace, |count| count.connections == 0);
        if let Some(runtime) = self.take_runtime() {
            runtime.shutdown_background();
        }
        busy.connections
    }

    fn take_runtime(&self) -> Option<Runtime> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.take_runtime() {
            runtime.shutdown_background();
        }
    }
}

fn runtime(limits: Limits) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // tokio wants at least one; it makes them when they are needed.
        .max_blocking_threads(limits.workers_max.max(1))
        .thread_stack_size(limits::HTTP_STACK_BYTES)
        .thread_name("http")
        .enable_io()
        .enable_time()
        .build()
}

/// Who is in: what `shutdown` waits for.
#[derive(Debug, Default)]
struct House {
    count: Mutex<Count>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    connections: usize,
    /// The listening socket is closed.
    deaf: bool,
}

impl House {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.count());
        self.changed.notify_all();
    }

    /// Waits until `done` holds or `patience` is over; returns the count then.
    fn wait_until(&self, patience: Duration, done: impl Fn(&Count) -> bool) -> Count {
        let end = Instant::now() + patience;
        let mut count = self.count();
        while !done(&count) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            count =
                self.changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *count
    }
}

/// One place in the house; it is free again on drop. A connection and the handler it has called share it: clients that hang up at once
/// must not queue more handlers than there are places.
struct Guest(Arc<House>);

impl Guest {
    /// `None`: the house is full.
    fn enter(house: &Arc<House>, connections_max: usize) -> Option<Guest> {
        let mut count = house.count();
        if count.connections >= connections_max {
            return None;
        }
        count.connections += 1;
        drop(count);
        Some(Guest(Arc::clone(house)))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.change(|count| count.connections -= 1);
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Front {
    limits: Limits,
    handler: Arc<dyn Handler>,
    house: Arc<House>,
    serve_until: watch::Receiver<bool>,
}

async fn accept(listener: TcpListener, front: Front, until: watch::Receiver<bool>) {
    let mut stopped = pin!(ended(until));
    let mut well = true;
    loop {
        let next = poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        });
        let trouble = match next.await {
            None => break,
            Some(Ok((stream, peer))) => admit(stream, peer, &front),
            Some(Err(error)) => Some(Trouble::Accept(error)),
        };
        if let Some(trouble) = &trouble {
            // One line per spell of trouble, not one per connection.
            if well {
                trouble.log(front.limits);
            }
            if let Trouble::Accept(_) = trouble {
                // The kernel keeps the connection: without a pause, being out of files would spin.
                tokio::time::sleep(limits::HTTP_ACCEPT_PAUSE).await;
            }
        }
        well = trouble.is_none();
    }
    drop(listener);
    front.house.change(|count| count.deaf = true);
}

/// Why a connection could not be taken.
enum Trouble {
    Full,
    Accept(io::Error),
}

impl Trouble {
    fn log(&self, limits: Limits) {
        match self {
            Trouble::Full => tracing::warn!(
                connections_max = limits.connections_max,
                "all connections are taken: new ones are closed at once"
            ),
            Trouble::Accept(error) => {
                tracing::warn!(%error, "connections can't be accepted; trying on");
            }
        }
    }
}

fn admit(stream: TcpStream, peer: SocketAddr, front: &Front) -> Option<Trouble> {
    let Some(guest) = Guest::enter(&front.house, front.limits.connections_max) else {
        return Some(Trouble::Full);
    };
    let line = Arc::new(Line::new(front.limits));
    let session = Session { front: front.clone(), peer, line, _guest: guest };
    tokio::spawn(attend(stream, Arc::new(session)));
    None
}

/// One connection: shared by its task and the handler that it has called.
struct Session {
    front: Front,
    peer: SocketAddr,
    line: Arc<Line>,
    _guest: Guest,
}

/// Ready once the flag has turned false or its sender is gone.
async fn ended(mut flag: watch::Receiver<bool>) {
    // An error says that the sender is gone, which means the same.
    let _ = flag.wait_for(|on| !on).await;
}

type Answering = Pin<Box<dyn Future<Output = Result<hyper::Response<Whole>, hyper::Error>> + Send>>;

/// One connection from its accept to its end.
async fn attend(stream: TcpStream, session: Arc<Session>) {
    // A response is one small write; waiting for more of it would only delay it. Without the option it merely comes later.
    let _ = stream.set_nodelay(true);
    let line = &session.line;
    let service = service_fn(|request| -> Answering {
        let session = Arc::clone(&session);
        Box::pin(async move { Ok(respond(request, &session).await) })
    });
    let mut connection = http1::Builder::new()
        .half_close(true)
        .max_headers(limits::HTTP_HEADERS_MAX)
        .max_header_size(limits::HTTP_HEADER_BYTES_MAX)
        .max_buf_size(limits::HTTP_BUFFER_BYTES_MAX)
        .header_read_timeout(None)
        .serve_connection(Wire::new(stream, Arc::clone(line)), service);
    let mut stopped = pin!(ended(session.front.serve_until.clone()));
    let (mut stopping, mut watch) = (false, Watch::new());
    let end = poll_fn(|cx| {
        if !stopping && stopped.as_mut().poll(cx).is_ready() {
            stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(end) = connection.poll_without_shutdown(cx) {
            return Poll::Ready(Some(end));
        }
        watch.poll(line.due(), cx).map(|()| None)
    });
    let unread = match end.await {
        Some(Ok(())) => line.is_unread(),
        // hyper has said what was wrong with the head (400, 431), if it was that.
        Some(Err(error)) => error.is_parse(),
        None => return,
    };
    if unread {
        linger(connection.into_parts().io.into_stream()).await;
    }
}

/// Reads on for a moment after the last response: closing with unread bytes resets the connection, and a reset takes the response away
/// from a client that has not read it yet.
async fn linger(mut stream: TcpStream) {
    use tokio::io::AsyncWrite;
    let drain = async {
        poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await?;
        let mut left = limits::HTTP_LINGER_BYTES_MAX;
        let mut sink = [0; 4096];
        while left > 0 {
            stream.readable().await?;
            match stream.try_read(&mut sink) {
                Ok(0) => break,
                Ok(read) => left = left.saturating_sub(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok::<(), io::Error>(())
    };
    // Whatever comes of it, the connection ends.
    let _ = tokio::time::timeout(limits::HTTP_LINGER, drain).await;
}

/// One request from its head to the response that hyper is to write.
async fn respond(
    request: hyper::Request<Incoming>,
    session: &Arc<Session>,
) -> hyper::Response<Whole> {
    let line = &session.line;
    line.answering();
    let (response, left_unread) = match read(request, session).await {
        Ok(request) => (answer(request, session).await, false),
        Err(refused) => refused,
    };
    if left_unread {
        line.leave_unread();
    }
    line.writing();
    // The connection's own task may hear of the end a moment later than this one.
    let is_last = !*session.front.serve_until.borrow();
    written(response, left_unread || is_last, Arc::clone(line))
}

/// Reads the request whole; otherwise the answer to give, and whether some of the request stays unread.
async fn read(
    request: hyper::Request<Incoming>,
    session: &Session,
) -> Result<Request, (Response, bool)> {
    let Front { limits, handler, .. } = &session.front;
    let bytes_max = limits.body_bytes_max;
    let (head, body) = request.into_parts();
    let has_body = !body.is_end_stream();
    match catch_unwind(AssertUnwindSafe(|| handler.route(&head.method, head.uri.path()))) {
        Ok(Ok(())) => {}
        Ok(Err(refused)) => return Err((refused, has_body)),
        Err(_) => return Err((panicked(), has_body)),
    }
    if body.size_hint().lower() > bytes_max as u64 {
        return Err((too_long(bytes_max), true));
    }
    let collected = Limited::new(body, bytes_max).collect();
    let body = match tokio::time::timeout(limits.body_timeout, collected).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err((too_long(bytes_max), true));
        }
        Ok(Err(_)) => return Err((Response::text(400, "the body is cut or malformed"), true)),
        Err(_) => return Err((Response::text(408, "the body did not come in time"), true)),
    };
    Ok(Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body,
        peer: session.peer,
    })
}

/// Runs the handler; on a thread of its own the call goes on also if this future is dropped.
async fn answer(request: Request, session: &Arc<Session>) -> Response {
    let (to, told) = oneshot::channel();
    let tell = Tell { to, _session: Arc::clone(session) };
    let handler = Arc::clone(&session.front.handler);
    let call = move || handler.answer(request, tell);
    if session.front.limits.workers_max == 0 {
        // What a panic means for the client is told below.
        let _ = catch_unwind(AssertUnwindSafe(call));
    } else {
        tokio::task::spawn_blocking(call);
    }
    told.await.unwrap_or_else(|_| panicked())
}

fn panicked() -> Response {
    // The panic hook has said where.
    tracing::error!("a handler panicked: its client is told 500");
    Response::text(500, "internal error")
}

fn too_long(bytes_max: usize) -> Response {
    Response::text(413, &format!("the body is longer than {bytes_max} bytes"))
}

fn written(response: Response, close: bool, line: Arc<Line>) -> hyper::Response<Whole> {
    let Response { status, content_type, headers, body, after_sent } = response;
    let mut out = hyper::Response::new(Whole::new(body, after_sent, line));
    *out.status_mut() = StatusCode::from_u16(status).expect("a handler answers with a status code");
    let fields = out.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(name, value);
        } else {
            tracing::error!(name, "a header's value is not printable: left out");
        }
    }
    if close {
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    out
}
