//! Every limit and default: the unit in the name, the reason beside it.

/// The longest telegram a stream may announce. Bank telegrams are a few hundred bytes, the longest kilobytes; a stream that announces more is not one.
pub const TELEGRAM_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of the core that is read. A transfer's answer is a few hundred bytes; more is not an answer, and must not eat memory.
pub const CORE_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How much of an answer that was none is kept in the history: enough to recognise a proxy's error page.
pub const SEEN_BYTES_MAX: usize = 512;

/// Connect timeout to the core: look-up, all its addresses and TLS together. Within a data centre a connect takes milliseconds; a lost SYN is repeated after one second.
pub const CORE_CONNECT_TIMEOUT_SECS: u64 = 3;

/// Read timeout to the core: the whole answer, from the last byte of the request. Longer than a healthy core's slowest transfer, shorter than a channel's patience.
pub const CORE_READ_TIMEOUT_SECS: u64 = 10;

/// How long an unused connection to the core is kept for the next call. Servers close idle ones after 5 s and more; well below that, a close seldom meets a call.
pub const CORE_IDLE_SECS: u64 = 1;

/// How many unused connections to the core are kept at most: no more than calls in flight, and a bound on open files.
pub const CORE_IDLE_CONNECTIONS_MAX: usize = 8192;

/// The longest head (status line and headers) of an answer. Some hundred bytes are usual. Less than the input buffer, which has to hold it whole.
pub const CORE_HEAD_BYTES_MAX: usize = 6 * 1024;

/// What is read from the core at once. ureq's own 128 KiB would be gigabytes at 5,000 calls in flight.
pub const CORE_INPUT_BUFFER_BYTES: usize = 8 * 1024;

/// What is written to the core at once: head and body of a request are some hundred bytes each.
pub const CORE_OUTPUT_BUFFER_BYTES: usize = 8 * 1024;

/// How many addresses of one name are tried: as many as ureq takes.
pub const CORE_ADDRESSES_MAX: usize = 16;
