//! Every limit and default: the unit in the name, the reason beside it.

use std::time::Duration;

/// The longest telegram a stream may announce. Bank telegrams are a few hundred bytes, the longest kilobytes; a stream that announces more is not one.
pub const TELEGRAM_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of the core that is read. A transfer's answer is a few hundred bytes; more is not an answer, and must not eat memory.
pub const CORE_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How much of an answer that was none is kept in the history: enough to recognise a proxy's error page.
pub const SEEN_BYTES_MAX: usize = 512;

/// How long a claim waits for another process's write lock. A channel waits for its answer; after a second it is better told E909.
pub const CLAIM_TRY_MS: u64 = 1_000;

/// How long a result is tried: the money may have moved, so it is worth more patience than a claim, but the channel waits too.
pub const RECORD_TRY_MS: u64 = 5_000;

/// Pause between two tries of a result when the disk is full or fails: long enough for room to appear, short beside the five seconds.
pub const RECORD_PAUSE_MS: u64 = 50;

/// Pause between two looks at another process's write lock. SQLite's own handler sleeps up to 100 ms; two relays on one file would starve each other.
pub const LOCK_POLL_MS: u64 = 1;

/// How often opening tries for the write lock, a [`LOCK_POLL_MS`] apart: about five seconds. Nobody's payment waits for it.
pub const OPEN_TRIES_MAX: i32 = 5_000;

/// Operations that share one commit. More gains nothing (the sync is paid for many times over) and makes the first one wait.
pub const BATCH_OPERATIONS_MAX: usize = 512;

/// Operations that wait for the writer. Each belongs to a thread that waits for its answer, so threads bound it too.
pub const WRITER_QUEUE_OPERATIONS_MAX: usize = 4_096;

/// How long the writer sleeps when nobody asks: so often it looks after the ballast unasked.
pub const WRITER_IDLE_SECS: u64 = 1;

/// Pause between two looks of the writer at what lies beside the ledger (the ballast, the length of the log): each costs microseconds, a commit a few hundred of them.
pub const LOOK_PAUSE_MS: u64 = 100;

/// Room kept on the disk for results: a thousand calls in flight at four pages of 4 KiB each (row, index, count, history), as if each were committed alone and the log never cut.
pub const BALLAST_BYTES: u64 = 16 * 1024 * 1024;

/// Pause between two tries to lay the ballast: a full disk must not be written full again and again while results need what is left.
pub const BALLAST_RETRY_SECS: u64 = 5;

/// Pause between two moves of the mark while transfers are claimed: what an old copy may have forgotten without being recognised. Each costs two syncs.
pub const MARK_PAUSE_SECS: u64 = 5;

/// What is read of a mark: it is one line of 53 bytes.
pub const MARK_BYTES_MAX: u64 = 256;

/// Connections that read the ledger at once: two cores answer tens of thousands of look-ups a second, and each costs up to 2 MB.
pub const READERS_MAX: usize = 4;

/// How long a reader waits for SQLite; in WAL mode readers wait only while a file is recovered.
pub const READER_BUSY_MS: u64 = 1_000;

/// The WAL is cut back to this after a checkpoint (a long reader may have let it grow), and the writer empties one that is longer.
pub const WAL_BYTES_KEPT: u64 = 64 * 1024 * 1024;

/// How long the writer waits for readers to leave a log that it empties: claims wait meanwhile, and reads take milliseconds.
pub const WAL_CUT_TRY_MS: u64 = 100;

/// Pause between two tries to empty a long log: while somebody reads for long, claims are not to be held up again and again.
pub const WAL_CUT_PAUSE_SECS: u64 = 5;

/// Rows that a purge deletes in one transaction: claims wait for it, so it takes milliseconds, not seconds.
pub const PURGE_BATCH_ROWS: usize = 500;

/// Rows of the table that a purge looks at in one read: bounds the read transaction, so that the WAL can be cut.
pub const PURGE_SCAN_ROWS: i64 = 20_000;

/// Rows in one page: bounds memory and the read transaction.
pub const PAGE_ROWS_MAX: usize = 1_000;

/// Lines of history shown of one transfer. A transfer has a handful; the bound is for one that was reprocessed for years.
pub const HISTORY_LINES_MAX: usize = 1_000;
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

/// The receiver answers on its server's own thread: it makes one commit at a time anyway, and two changes of thread would cost an event a tenth of its time.
pub const RECEIVER_WORKERS_MAX: usize = 0;

/// Connections of the receiver: dispatchers, not customers.
pub const RECEIVER_CONNECTIONS_MAX: usize = 64;

/// How long a stopping receiver lets a commit under way end: the busy timeout and then some.
pub const RECEIVER_GRACE: Duration = Duration::from_secs(3);

/// Connect failures in a row after which reprocess stops: the core is down, and each further row would only use up an attempt.
pub const REPROCESS_FAILURES_MAX: u32 = 3;

/// The longest pause between two batches of a purge: even a slow disk's purge ends some day.
pub const PURGE_PAUSE_MS_MAX: u64 = 500;
/// The most digits of a number field: 19 nines still fit a u64, so no sum of money ever goes through a float.
pub const NUMBER_DIGITS_MAX: usize = 19;

/// The longest layout file that is read. The widest real one has a few hundred fields, some tens of kilobytes.
pub const LAYOUT_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How many bytes of a field an error shows: a number field whole, never much of a telegram.
pub const FOUND_BYTES_MAX: usize = 32;
/// Connect timeout to the core: look-up, all its addresses and TLS together. Within a data centre a connect takes milliseconds; a lost SYN is repeated after one second.
pub const CORE_CONNECT_TIMEOUT_S: &str = "1";

/// Read timeout to the core: the whole answer, from the last byte of the request. Longer than a healthy core's slowest transfer, shorter than a channel's patience.
pub const CORE_READ_TIMEOUT_S: &str = "3";

/// How long an unused connection to the core is kept for the next call. Servers close idle ones after 5 s and more; well below that, a close seldom meets a call.
pub const CORE_IDLE_S: &str = "1";

/// How many unused connections to the core are kept at most: no more than calls in flight, and a bound on open files.
pub const CORE_IDLE_CONNECTIONS_MAX: usize = 8192;

/// The longest head (status line and headers) of an answer. Some hundred bytes are usual. Less than the input buffer, which has to hold it whole.
pub const CORE_HEAD_BYTES_MAX: usize = 6 * 1024;

/// How much of an answer is looked at at once: a head has to fit.
pub const CORE_INPUT_BUFFER_BYTES: usize = 8 * 1024;

/// How much of a request is composed at once: its head has to fit.
pub const CORE_OUTPUT_BUFFER_BYTES: usize = 4 * 1024;

/// Room for the body of a usual request or answer. A buffer that grows piece by piece leaves its pieces in the allocator's cache of its thread, and there is a thread for each call in flight.
pub const CORE_BODY_BYTES_USUAL: usize = 1024;

/// What is read from the core or written to it at once. Each call in flight holds this twice, ureq's own 128 KiB would be gigabytes at 5,000; one transfer's request and answer fit, a longer one takes several writes.
pub const CORE_WIRE_BUFFER_BYTES: usize = 2 * 1024;

/// How many addresses of one name are tried: as many as ureq takes.
pub const CORE_ADDRESSES_MAX: usize = 16;

/// Tries to get a lock file under its name. One is enough unless a relay sweeps in just that moment, and it sweeps every
/// [`SWEEP_PAUSE`]: a hundred times in a row says that something else is wrong.
pub const OWNER_TAKES_MAX: usize = 100;

/// Pause between two orphan sweeps: a resend after a crash is told E903 for so long at most.
pub const SWEEP_PAUSE: Duration = Duration::from_secs(2);

/// What calls in flight may take beyond their timeouts when the relay stops: five seconds for a stubborn ledger, and some for slow channels.
pub const STOP_MARGIN: Duration = Duration::from_secs(10);

/// Pause after a connection that could not be taken (no files, no threads): trying at once would spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The stack of a thread that calls the core. Virtual until it is used; TLS and JSON of the core's client need the most.
pub const CALLER_STACK_BYTES: usize = 512 * 1024;

/// How long a caller may have nothing to do before it ends: a burst's threads need not outlive it, and the next burst of the same
/// minute finds them.
pub const CALLER_IDLE: Duration = Duration::from_secs(30);

/// What is read at once from a channel: a telegram is a few hundred bytes.
pub const CHANNEL_READ_BYTES: usize = 4 * 1024;

/// How long a channel may take to accept a reply: one that never reads must not hold its connection for ever.
pub const CHANNEL_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the rest of a telegram may take once its first byte is there.
pub const TELEGRAM_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a channel's connection may say nothing, unless configured: channels keep connections open all day and poll every minute or so.
pub const CHANNEL_IDLE_TIMEOUT_S: u64 = 3_600;

/// Connections of channels at once, unless configured: each costs a file and some KiB.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Calls of the core at once, unless configured.
pub const IN_FLIGHT_MAX: usize = 1_024;

/// The longest time the core may take to execute a transfer it has heard, unless configured. An inquiry before that time proves nothing.
pub const CORE_LATE_MAX_S: &str = "60";

/// What `--orphan-after` is beyond the two timeouts, unless configured.
pub const ORPHAN_MARGIN_S: u64 = 30;

/// Reasons that the overview shows: what is rarer is found by filter.
pub const REASONS_MAX: usize = 8;

/// Lines of operators' work that the overview shows.
pub const LAST_LINES_MAX: usize = 8;

/// The newest lines of history that the overview looks through for rates and reasons: bounds the read transaction to some ten milliseconds.
pub const SURVEY_LINES_MAX: i64 = 20_000;

/// Rows that a console's window loads: some screens up and down, so that paging is felt as instant.
pub const WINDOW_ROWS: usize = 400;

/// Rows that can be marked, and so rows of one plan. A person can't answer for more at once; `oncegate resolve` and its like have no such bound.
pub const MARKS_MAX: usize = 100_000;

/// After so many rows of a plan the screen is told how far it is: some ten times a second.
pub const PLAN_TOLD_ROWS: usize = 5_000;

/// Lines of history that the console loads at once.
pub const TRAIL_ROWS: usize = 500;

/// Between two looks at whether the ledger has changed: quick enough for eyes, and it costs a look at the WAL's index.
pub const WATCH_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between two such looks, however much a refresh costs: what is on the screen is never older than this.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A refresh that took long is not repeated before so many times its cost has passed: what a console reads of a busy ledger must not be
/// felt in one transfer of a hundred, and so it reads for less than a hundredth of the time.
pub const REFRESH_REST_FACTOR: u32 = 200;

/// What OSC 52 may carry: terminals cut or drop more (limits from 75 KB on are known), and a cut copy would be a wrong one.
pub const COPY_BYTES_MAX: usize = 74_994;

/// Rows that one export writes.
pub const EXPORT_ROWS_MAX: usize = MARKS_MAX;

/// The longest text that an operator types: a reason, a note, a filter.
pub const TYPED_CHARS_MAX: usize = 200;

/// Runs that go at the same time in one console.
pub const RUNS_MAX: usize = 4;

/// Lines of a run that are kept for the screen.
pub const RUN_LINES_MAX: usize = MARKS_MAX;

/// A paste whose end does not come within this time has ended: a lost end mark must not swallow the keyboard.
pub const PASTE_SILENCE: Duration = Duration::from_millis(400);

/// How long an ESC may stand alone before it is the key Esc and not the beginning of a sequence.
pub const ESCAPE_SILENCE: Duration = Duration::from_millis(60);

/// Between two looks at whether the terminal is still there.
pub const HANG_UP_PAUSE: Duration = Duration::from_millis(500);

/// How long after a signal the console may take to leave by itself.
pub const CONSOLE_LEAVE: Duration = Duration::from_secs(2);

/// Threads of a simulated core: its calls wait, they don't compute.
pub const SIMULATED_THREADS: usize = 2;

/// The longest request that a simulated core takes: any telegram as JSON, whose escapes can make it six times as long.
pub const SIMULATED_BODY_BYTES_MAX: usize = 8 * TELEGRAM_BYTES_MAX;

/// How long a simulated core waits before it accepts again after a failure, which is mostly a lack of files.
pub const SIMULATED_ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How long a stopping simulated core waits for its threads. None of them blocks.
pub const SIMULATED_STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections that may wait to be accepted: after a network failure all channels come back at once. Linux cuts it to its own limit (4,096).
pub const ACCEPT_QUEUE: i32 = 8_192;

/// A wall clock that has moved by so much against the time since the machine's start has jumped. Corrections below it are the daily work of a time service; their sum counts, so ages are never wrong by more.
pub const CLOCK_JUMP_MS_MIN: i64 = 2_000;

/// Notes on the clock that are read: a few a year are usual. The newest count; older ones matter to nothing but rows that are older still.
pub const CLOCK_NOTES_MAX: usize = 1_000;

/// How often a note on the clock is tried anew because others were quicker: each of them has noted the same jump.
pub const CLOCK_NOTE_TRIES_MAX: usize = 5;

/// Waiting events that the console shows: a person reads the head of a queue, the count tells the rest.
pub const OUTBOX_SHOWN_MAX: usize = 400;

/// Rows that begin with a GUID prefix and are still sorted at once: below that the key's index is quicker than the state's.
pub const NARROW_ROWS_MAX: i64 = 2_000;

/// New GUIDs in a row after which the relay claims without looking first: a look costs a tenth of a transfer, and saves a resend the writer's work.
pub const LOOKS_AFTER_A_RESEND: u32 = 64;
