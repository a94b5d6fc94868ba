//! What the keys of a recorded run are: a file beside its history, a line for each key, in the order of their numbers.
//!
//! ```text
//! 0   warehouse   0 WarehouseInfo   1
//! 1   warehouse   1 WarehouseYtd   1
//! 7   customer_by_name   -   ((1, 3, "BAR", "anna"), (1, 3, 7))
//! ```
//!
//! Between tabs: the key's number; the table, or the secondary index; the column group's number and name, or `-` for an entry
//! of a secondary index; the key of the row, or the entry, in words.

use std::fmt;
use std::io::BufRead;

/// What one key of a history stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    /// The table, or the secondary index.
    pub table: String,
    /// The number and the name of the column group; none of an entry of a secondary index.
    pub group: Option<(u8, String)>,
    /// The row's key, or the entry, in words.
    pub key: String,
}

impl fmt::Display for KeyName {
    /// The line, without the key's number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is shown of a key escapes tabs and ends of lines; names are the program's own.
        match &self.group {
            Some((number, name)) => write!(f, "{}\t{number} {name}\t{}", self.table, self.key),
            None => write!(f, "{}\t-\t{}", self.table, self.key),
        }
    }
}

/// Why a file is not one of keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LegendError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is not like those of the module's page.
    #[error("line {0} is not a key's: its number, its table, its group and what it is, between tabs")]
    Line(usize),
}

/// Reads what [`KeyName`]s were written, in the order of their numbers, from 0.
///
/// # Errors
/// [`LegendError`], with the first line that is wrong.
pub fn read_legend(input: impl BufRead) -> Result<Vec<KeyName>, LegendError> {
    let mut keys = Vec::new();
    for line in input.lines() {
        let line = line?;
        let wrong = LegendError::Line(keys.len() + 1);
        let Some(key) = parsed(&line, keys.len()) else { return Err(wrong) };
        keys.push(key);
    }
    Ok(keys)
}

fn parsed(line: &str, number: usize) -> Option<KeyName> {
    let mut parts = line.splitn(4, '\t');
    let mut part = || parts.next();
    if part()?.parse() != Ok(number) {
        return None;
    }
    let table = part()?.to_owned();
    let group = match part()? {
        "-" => None,
        group => {
            let (number, name) = group.split_once(' ')?;
            let number = number.parse().ok().filter(|number| usize::from(*number) < noonmark::GROUPS_MAX)?;
            Some((number, name.to_owned()))
        }
    };
    Some(KeyName { table, group, key: part()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let key = |table: &str, group: Option<(u8, &str)>, key: &str| KeyName {
            table: table.into(),
            group: group.map(|(number, name)| (number, name.into())),
            key: key.into(),
        };
        let keys = [
            key("a table", Some((0, "[[u8; 10]; 5]")), "(1, \"x\\ty\")"),
            key("usertable", Some((7, "u64")), "18"),
            key("by_name", None, "((1, 2), 3)"),
        ];
        let lines: String = (0..).zip(&keys).map(|(number, key)| format!("{number}\t{key}\n")).collect();
        assert_eq!(read_legend(lines.as_bytes()).unwrap(), keys);
        for wrong in ["1\ta\t-\tb", "0\ta\t-", "0\ta\tx u64\t1", "0\ta\t8 u64\t1", "0 a.u64 1", "\u{0}"] {
            let error = read_legend(format!("{wrong}\n").as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("line 1 "), "{wrong}: {error}");
        }
        assert!(read_legend(&b"\xff\n"[..]).is_err());
    }
}
