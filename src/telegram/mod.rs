//! Telegrams: fixed-length records of bytes, and the layouts that say what the bytes mean.
//!
//! A layout is data (a TOML file); only this module knows an offset. It knows no sockets, no SQL and no clock: bytes and
//! times come in as values, bytes and values go out, and nothing here can fail because of the world.
//!
//! The way in: [`Framer`] cuts a stream into telegrams, [`Layout::decode_request`] makes a [`Request`] of one, and the
//! replies are built on that request's header. What is not set in a reply is copied byte for byte.

mod compose;
mod describe;
mod encoding;
mod field;
mod file;
mod framing;
mod layout;
mod records;
mod reply;
mod request;

pub use compose::EncodeError;
pub use describe::{DescribedField, NoText, Part};
pub use encoding::{Encoding, Undecodable};
pub use field::{FieldType, Role, Unfit};
pub use file::LayoutError;
pub use framing::{Frame, Framer, FramingError, Reading};
pub use layout::Layout;
pub use records::{RecordError, Records};
pub use reply::{BadAnswer, ReplyBody};
pub use request::{Found, Malformed, Request, Wrong};
