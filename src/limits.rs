//! Every limit and default: the unit in the name, the reason beside it.

/// The longest telegram a stream may announce. Bank telegrams are a few hundred bytes, the longest kilobytes; a stream that announces more is not one.
pub const TELEGRAM_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of the core that is read. A transfer's answer is a few hundred bytes; more is not an answer, and must not eat memory.
pub const CORE_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// How much of an answer that was none is kept in the history: enough to recognise a proxy's error page.
pub const SEEN_BYTES_MAX: usize = 512;

/// The most digits of a number field: 19 nines still fit a u64, so no sum of money ever goes through a float.
pub const NUMBER_DIGITS_MAX: usize = 19;

/// The longest layout file that is read. The widest real one has a few hundred fields, some tens of kilobytes.
pub const LAYOUT_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How many bytes of a field an error shows: a number field whole, never much of a telegram.
pub const FOUND_BYTES_MAX: usize = 32;
