//! What every Noonmark host stands on.
//!
//! Read in this order:
//!
//! 1. [`time`]: timestamps, transaction ids, slots: the names of things.
//! 2. [`word`]: the version word, which is also the write lock.
//! 3. [`readers`]: who reads under a lock.
//! 4. [`step`]: what a rule may answer.
//! 5. [`slots`]: the transactions under way, by slot.
//! 6. [`room`]: where those that wait leave their wakers.
//! 7. [`host`]: who runs the rules: threads here, virtual cores elsewhere.
//! 8. [`label`]: what tells an object from others, for a host that is told of lines.
//! 9. [`epoch`]: when memory that was unlinked may be freed.
//! 10. [`mod@prefetch`]: memory that will be read soon.
//! 11. [`sync`]: the atomics that all of them use.
//!
//! Nothing here knows of tables, keys or transactions' contents.

pub mod epoch;
pub mod host;
pub mod label;
pub mod prefetch;
pub mod readers;
pub mod room;
pub mod slots;
pub mod step;
pub mod sync;
#[cfg(loom)]
mod sync_loom;
#[cfg(all(shuttle, not(loom)))]
mod sync_shuttle;
#[cfg(thread_sanitizer)]
mod sync_watched;
pub mod time;
pub mod word;

pub use epoch::{Epochs, Garbage, Limbo, Old, Peg, room_for};
pub use host::{Access, Host, Line, Threads, Work};
pub use label::{Label, Numbered, Unlabelled};
pub use prefetch::prefetch;
pub use readers::Readers;
pub use room::{LetGo, WaitingRoom};
pub use slots::{Slot, Slots, Wound};
pub use step::{Step, WaitFor};
pub use time::{Age, SlotId, Timestamp, TxnId};
pub use word::{MaybeWord, VersionWord, Word};
