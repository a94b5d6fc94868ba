//! Writing results: to standard output and to files.

use crate::error::Failure;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes to standard output. A reader that has gone away (`| head`) is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Says on standard error what is odd, but no reason to stop.
pub fn warn(what: &str) {
    let _ = writeln!(io::stderr(), "noonmark: warning: {what}");
}

/// Columns that a table on standard output may take: the terminal's, or those of a wide page.
pub fn columns() -> usize {
    const PAGE: usize = 120;
    let term = console::Term::stdout();
    term.size_checked().map_or(PAGE, |(_, columns)| usize::from(columns))
}

/// Makes sure that a file can be written, before minutes are spent on what goes into it.
///
/// Leaves an existing file as it is, and no file where there was none.
pub fn can_write(file: &Path) -> Result<(), Failure> {
    let was_there = file.exists();
    OpenOptions::new().append(true).create(true).open(file).map_err(|e| cannot_write(file, &e))?;
    if !was_there {
        fs::remove_file(file).map_err(|e| cannot_write(file, &e))?;
    }
    Ok(())
}

/// Writes a file, replacing what was there.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|e| cannot_write(file, &e))
}

fn cannot_write(file: &Path, why: &io::Error) -> Failure {
    Failure::run(format!("cannot write {}: {why}", file.display()))
}
