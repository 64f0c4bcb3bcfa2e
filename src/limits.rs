//! Every limit and default: the unit in the name, the reason beside it.

use std::time::Duration;

/// The longest telegram a stream may announce. Bank telegrams are a few hundred bytes, the longest kilobytes; a stream that announces more is not one.
pub const TELEGRAM_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of the core that is read. A transfer's answer is a few hundred bytes; more is not an answer, and must not eat memory.
pub const CORE_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How much of an answer that was none is kept in the history: enough to recognise a proxy's error page.
pub const SEEN_BYTES_MAX: usize = 512;

/// Open connections of one HTTP server. Each holds a few KiB of buffers and one file; a thousand is far beyond what a bank's channels open, far below what a process may have.
pub const HTTP_CONNECTIONS_MAX: usize = 1024;

/// Threads that answer HTTP requests at the same time. Enough for admin pages and the receiver, whose work is one commit after the other anyway; the relay's front sets its own.
pub const HTTP_WORKERS_MAX: usize = 16;

/// The stack of such a thread. Handlers are shallow; a thousand of them must still fit into a small machine.
pub const HTTP_STACK_BYTES: usize = 512 * 1024;

/// The longest request body, as long as the longest telegram.
pub const HTTP_BODY_BYTES_MAX: usize = TELEGRAM_BYTES_MAX;

/// Fields in a request's head: clients and proxies send a dozen.
pub const HTTP_HEADERS_MAX: usize = 64;

/// Bytes in a request's head, its first line included: what the usual proxies allow.
pub const HTTP_HEADER_BYTES_MAX: usize = 16 * 1024;

/// What one connection may buffer, reading and writing: a head and a piece of a body.
pub const HTTP_BUFFER_BYTES_MAX: usize = 32 * 1024;

/// A head comes in one packet or two; who needs longer is stuck or means harm.
pub const HTTP_HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// A body of some KiB comes with its head; see there.
pub const HTTP_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two requests of a client that keeps its connection: longer than a scrape interval would hold files for nothing.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A response of some KiB fits into the socket's buffer at once; only a client that does not read at all needs longer.
pub const HTTP_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// After an answer to a request that was not read whole (413 and its like): so long, and so many bytes, are read and thrown away, so that the client sees the answer and not a reset.
pub const HTTP_LINGER: Duration = Duration::from_millis(500);

/// See [`HTTP_LINGER`].
pub const HTTP_LINGER_BYTES_MAX: usize = 256 * 1024;

/// After a failed accept (out of files, mostly): the next try. Short enough not to be felt, long enough not to spin.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The accept loop hears of its end within an accept pause; a second without an answer means that the runtime is gone.
pub const HTTP_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// An event's id: the contract's.
pub const EVENT_ID_BYTES_MAX: usize = 64;

/// An event's quantity: the contract's.
pub const EVENT_QTY_MAX: i64 = 1000;

/// An event as JSON text, on stdin or by HTTP: the contract's; a real one has about a hundred bytes.
pub const EVENT_BYTES_MAX: usize = 1024;

/// An acknowledgement as JSON text: the contract's.
pub const ACK_BYTES_MAX: usize = 1024;

/// Events in one batch of dispatch: the contract's. Also what a killed dispatcher sends again at most.
pub const OUTBOX_LIMIT_MAX: i64 = 16;

/// Events in one batch if nothing else is said: the contract's.
pub const OUTBOX_LIMIT_DEFAULT: usize = 8;

/// How long an outbox store waits for another writer: the contract's.
pub const OUTBOX_BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest a step of sending may be allowed to take, in seconds: the contract's.
pub const SEND_TIMEOUT_S_MAX: f64 = 5.0;

/// What a step of sending may take if nothing else is said, in seconds: the contract's.
pub const SEND_TIMEOUT_S_DEFAULT: f64 = 1.0;

/// A connection of the sender's is used again only if it was idle for less: a receiver that closes idle connections must not do so just when the next event leaves.
pub const SEND_IDLE: Duration = Duration::from_secs(1);

/// The sender's buffers, for a head and a body of an acknowledgement; ureq's own are 2 × 128 KiB.
pub const SEND_BUFFER_BYTES: usize = 8 * 1024;

/// Threads of the receiver: one commit is made at a time, the others wait for it.
pub const RECEIVER_WORKERS_MAX: usize = 4;

/// Connections of the receiver: dispatchers, not customers.
pub const RECEIVER_CONNECTIONS_MAX: usize = 64;

/// How long a stopping receiver lets a commit under way end: the busy timeout and then some.
pub const RECEIVER_GRACE: Duration = Duration::from_secs(3);
