//! What can go wrong at the two boundaries and between them: one enum.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use super::{Point, Role};
use crate::visible::visible;

/// An error of this module, or one that is passed on as it was.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// A value is outside the contract; nothing was done. Says which value and what is allowed.
    #[error("{0}")]
    Value(String),
    /// This id is there with another quantity; nothing was changed.
    #[error("id `{id}` is there with qty {held}, not {given}")]
    Conflict {
        /// The id.
        id: String,
        /// The quantity that is stored.
        held: i64,
        /// The quantity that was given.
        given: i64,
    },
    /// The other side did not acknowledge: it may have the event, or not. The event stays pending.
    #[error("no acknowledgement: {0}")]
    Delivery(String),
    /// A store is not what it should be: the other role's, with other columns, incomplete. It was left as it was.
    #[error("store {}: {why}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A row of a store contradicts what this module writes; nothing was changed.
    #[error("the {role} holds {what}")]
    Row {
        /// The store.
        role: Role,
        /// The contradiction.
        what: String,
    },
    /// A borrowed connection was not in autocommit; nothing was done, and its transaction was left to whoever began it.
    #[error("the connection is inside a transaction")]
    NotAutocommit,
    /// The transaction was over when the caller's function at this point returned: SQLite or that function had ended it.
    #[error("the transaction was ended at {0}, before its commit")]
    TransactionLost(Point),
    /// The transaction could not be committed, and neither be rolled back in any way that SQLite has (something forbids it: an
    /// authorizer, an interrupt). Nothing is committed. The connection is still inside the transaction: close it, which rolls back.
    #[error("the transaction can't be rolled back ({rollback}): close the connection")]
    Stuck {
        /// Why it had to be rolled back.
        #[source]
        first: Box<OutboxError>,
        /// Why that failed.
        rollback: rusqlite::Error,
    },
    /// SQLite's error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The HTTP client's error; [`ureq::Error::StatusCode`] for a status that is not 200. The other side may have the event, or not.
    #[error(transparent)]
    Http(#[from] ureq::Error),
    /// The system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An error of the caller's own function.
    #[error(transparent)]
    Fault(Box<dyn Error + Send + Sync>),
}

impl OutboxError {
    /// An error of the caller's own function, for [`super::Fault`] and [`super::Send`].
    pub fn fault(error: impl Into<Box<dyn Error + Send + Sync>>) -> OutboxError {
        OutboxError::Fault(error.into())
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // SQLite's bare code says again what the error above it has said in words.
        if !cause.is::<rusqlite::ffi::Error>() {
            line = format!("{line}: {cause}");
        }
        next = cause.source();
    }
    visible(&line)
}
