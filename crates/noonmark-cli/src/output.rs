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

/// Makes sure that each of these files can be written, and that none would overwrite another, or what is `read`.
pub fn can_write_all<P: AsRef<Path>>(
    files: impl IntoIterator<Item = P>,
    read: Option<&Path>,
) -> Result<(), Failure> {
    // By the file itself where there is one, or a link to the same would pass for another.
    let identity = |file: &Path| fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    let mut taken: Vec<_> = read.into_iter().filter_map(|file| identity(file).ok()).collect();
    for file in files {
        let file = file.as_ref();
        can_write(file)?;
        let Ok(identity) = identity(file) else { continue };
        // What is no file of its own takes whatever is written to it (a pipe, a terminal, /dev/null).
        let is_file = file.metadata().map_or(true, |metadata| metadata.is_file());
        if is_file && taken.contains(&identity) {
            let why = "it would overwrite another file of this command";
            return Err(Failure::usage(format!("cannot write {}: {why}", file.display())));
        }
        taken.push(identity);
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_a_command_overwrites_another() {
        let folder = std::env::temp_dir().join(format!("noonmark-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.join(name));
        fs::write(&b, "kept").unwrap();
        can_write_all([&a, &b], None).unwrap();
        let refused = can_write_all([&a, &a], None).unwrap_err();
        assert_eq!(refused.status(), 2);
        assert!(refused.to_string().contains("overwrite"), "{refused}");
        can_write_all([&a, &b], Some(&b)).unwrap_err();
        can_write_all([&a, &folder.join(".").join("a")], None).unwrap_err();
        can_write_all([Path::new("/dev/null"), Path::new("/dev/null")], None).unwrap();
        assert_eq!((a.exists(), fs::read_to_string(&b).unwrap()), (false, "kept".into()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
