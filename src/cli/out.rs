//! Standard output for commands: a reader that has gone (`| head`) is no error; any other failure to write is.

use std::io::{self, ErrorKind, Write};

/// Writes lines until the reader goes.
pub(super) struct Out {
    gone: bool,
    failed: Option<io::Error>,
}

impl Out {
    pub(super) fn new() -> Out {
        Out { gone: false, failed: None }
    }

    /// Writes one line at once, so that who reads along sees it.
    pub(super) fn line(&mut self, text: &str) {
        if self.gone {
            return;
        }
        let mut stdout = io::stdout().lock();
        let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        if let Err(error) = written {
            self.gone = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failed = Some(error);
            }
        }
    }

    /// The failure to write, if there was one.
    pub(super) fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}
