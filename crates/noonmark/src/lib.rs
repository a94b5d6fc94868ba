//! Serializable transactions for data that many want at once.
//!
//! (The front page is being written.)

mod abort;
mod commit;
mod conflicts;
mod context;
mod database;
mod gate;
mod group;
mod index;
mod key;
mod many;
mod operations;
pub mod order;
mod policy;
mod protocol;
mod reclaim;
mod record;
mod scan;
mod secondary;
mod session;
mod table;
mod transaction;
mod typed;
mod update;
mod write_set;

pub use abort::{Abort, AbortKind};
pub use commit::Commit;
pub use conflicts::{ConflictReport, RuleConflicts};
pub use context::SessionStatistics;
pub use database::{
    BuildError, Builder, Database, SESSIONS_DEFAULT, SESSIONS_MAX, SchemaError, TooManySessions,
};
pub use group::{Field, GROUPS_MAX, Group, HasGroup, Row, RowReader, RowWriter, Size};
pub use key::{AsKey, KEY_BYTES_MAX, Key, KeyBytes};
pub use noonmark_core::{Host, Threads, Timestamp, TxnId};
pub use policy::Policy;
pub use protocol::{Order, Protocol, UnknownProtocol};
pub use scan::{Scan, SecondaryScan};
pub use session::Session;
pub use table::{Granularity, IndexKind, SECONDARIES_MAX, TableOptions};
pub use transaction::{ReadTransaction, Transaction};
pub use typed::{ColumnGroup, GroupTarget, SecondaryIndex, Table, Target};
pub use update::Number;
