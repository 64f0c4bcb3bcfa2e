//! Every limit and default: the unit in the name, the reason beside it.

/// The longest telegram a stream may announce. Bank telegrams are a few hundred bytes, the longest kilobytes; a stream that announces more is not one.
pub const TELEGRAM_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of the core that is read. A transfer's answer is a few hundred bytes; more is not an answer, and must not eat memory.
pub const CORE_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How much of an answer that was none is kept in the history: enough to recognise a proxy's error page.
pub const SEEN_BYTES_MAX: usize = 512;
