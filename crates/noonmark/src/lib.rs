//! Serializable transactions for data that many want at once. (Being built.)
mod index;
mod record;
