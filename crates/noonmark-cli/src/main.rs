//! The `noonmark` program.
fn main() {}
