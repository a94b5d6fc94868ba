//! Sessions: where transactions run, one after another.

use crate::abort::{Abort, AbortKind};
use crate::context::{Context, SessionStatistics};
use crate::database::Shared;
use crate::lines;
use crate::policy::Policy;
use crate::protocol::Order;
use crate::transaction::{ReadTransaction, Transaction};
use noonmark_core::sync::Ordering;
use noonmark_core::{Access, Host, SlotId, Threads};
use std::sync::Arc;
use std::time::Duration;

/// A client of the database that runs one transaction at a time.
///
/// It keeps buffers, so that a transaction allocates nothing once they have grown, and its last commit
/// time, so that its transactions are in order also in a [logical](Order::Logical) database: each comes
/// after the one before. `Send`: it may move between threads, also between transactions of an async
/// task; not `Sync`. A [`Transaction`] borrows its session, and is `Send` as well.
pub struct Session<H: Host = Threads> {
    context: Context<H>,
    /// For one transaction only: takes its floor from, and leaves its time with, the database.
    passing: bool,
}

impl<H: Host> Session<H> {
    pub(crate) fn new(context: Context<H>) -> Self {
        Session { context, passing: false }
    }

    pub(crate) fn into_context(self) -> Context<H> {
        self.context
    }

    pub(crate) fn passing(context: Context<H>) -> Self {
        Session { context, passing: true }
    }

    /// Runs a transaction until it commits: calls `body`, commits, and after a conflict does so again,
    /// with the default [`Policy`].
    ///
    /// The body may be called several times, so it should have no effect of its own that matters if it
    /// is. In an attempt that will not commit it may see values that no committed state had together:
    /// it must not loop for ever on what it takes to be impossible. It can break nothing else by acting
    /// on them. An error of an operation ends the attempt: return it, with `?`. Do not run another
    /// transaction of the same database inside the body: it could wait for this one for ever.
    ///
    /// # Errors
    /// An [`Abort`] that is no conflict, such as a missing row.
    pub fn transact<T>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.transact_with(&Policy::default(), body)
    }

    /// As [`Session::transact`], with a policy.
    ///
    /// # Errors
    /// Also an [`Abort`] of kind [`Attempts`](AbortKind::Attempts) or [`Deadline`](AbortKind::Deadline) that
    /// explains the last conflict, when the policy gives up.
    pub fn transact_with<T>(
        &mut self,
        policy: &Policy,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.run(policy, body, |mut abort, attempts, gave_up| {
            abort.inner_mut().attempts = attempts;
            if let Some(kind) = gave_up {
                abort.inner_mut().kind = kind;
            }
            abort
        })
    }

    /// Runs a transaction whose body has errors of its own, which `?` also turns aborts into.
    ///
    /// When the body returns an error of its own, what it has read is validated, the transaction is
    /// rolled back and the error returned; it is thus one that a serial execution could have given.
    /// A conflict is retried whatever the body has made of it.
    ///
    /// ```
    /// # use noonmark::{Abort, Database};
    /// #[derive(Debug)]
    /// enum Refused { Poor { balance: i64 }, Abort(Abort) }
    /// impl From<Abort> for Refused { fn from(abort: Abort) -> Self { Refused::Abort(abort) } }
    ///
    /// let db = Database::in_memory();
    /// let balances = db.table::<u64, i64>("balances")?;
    /// db.transact(|tx| tx.insert(&balances, 1, 20))?;
    /// let refused = db.try_transact(|tx| {
    ///     let balance = tx.need(&balances, 1)?;
    ///     if balance < 30 { return Err(Refused::Poor { balance }) }
    ///     Ok(tx.update(&balances, 1, |b| *b -= 30)?)
    /// });
    /// assert!(matches!(refused, Err(Refused::Poor { balance: 20 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The body's own, and those of [`Session::transact`].
    pub fn try_transact<T, E: From<Abort>>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(&Policy::default(), body)
    }

    /// As [`Session::try_transact`], with a policy.
    ///
    /// # Errors
    /// As [`Session::try_transact`]; when the policy gives up, the error of the last attempt, as the body
    /// or the commit made it. (Its [`AbortKind`] is that of the conflict: what `E` is made of cannot be
    /// changed from here.)
    pub fn try_transact_with<T, E: From<Abort>>(
        &mut self,
        policy: &Policy,
        body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(policy, body, |error, _, _| error)
    }

    /// Runs a transaction that only reads, as [`Session::transact`] does.
    ///
    /// # Errors
    /// As [`Session::transact`].
    pub fn view<T>(
        &mut self,
        mut body: impl FnMut(&mut ReadTransaction<'_, '_, H>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        let policy = Policy { reads_only: true, ..Policy::default() };
        self.transact_with(&policy, |tx| body(&mut ReadTransaction::new(tx)))
    }

    // Not made a part of its caller, who may have too few registers left for the closure: see docs/cost-of-a-transaction.md.
    #[inline(never)]
    fn run<T, E: From<Abort>>(
        &mut self,
        policy: &Policy,
        mut body: impl FnMut(&mut Transaction<'_, H>) -> Result<T, E>,
        finish: impl FnOnce(E, u32, Option<AbortKind>) -> E,
    ) -> Result<T, E> {
        let context = &mut self.context;
        context.age = None;
        context.shared.slots.get(context.slot).set_open_ended(false);
        context.deadline_ns = policy.deadline.map(|d| context.shared.host.now_ns().saturating_add(nanos(d)));
        let mut attempts = 0;
        let mut pass = None;
        let mut last = None;
        loop {
            // What marks would have kept for it has been replaced: from the second attempt on it leaves some.
            context.spares_marks = policy.reads_only && attempts == 0;
            if !context.begin() {
                let error = last.unwrap_or_else(|| Abort::plain(AbortKind::Deadline).into());
                return Err(finish(error, attempts, Some(AbortKind::Deadline)));
            }
            attempts += 1;
            let mut tx = Transaction::new(context);
            let answer = body(&mut tx);
            let error = match tx.conclude(answer) {
                Ok(value) => {
                    context.statistics.attempts_max = context.statistics.attempts_max.max(attempts.into());
                    leave_floor(context, self.passing);
                    return Ok(value);
                }
                Err(Concluded::Final(error)) => {
                    // What it rests on has been told, too.
                    leave_floor(context, self.passing);
                    return Err(finish(error, attempts, None));
                }
                Err(Concluded::Conflict(error)) => error,
            };
            context.statistics.aborts += 1;
            if policy.attempts_max.is_some_and(|max| attempts >= max) {
                return Err(finish(error, attempts, Some(AbortKind::Attempts)));
            }
            if context.deadline_ns.is_some_and(|deadline| context.shared.host.now_ns() >= deadline) {
                return Err(finish(error, attempts, Some(AbortKind::Deadline)));
            }
            if pass.is_some() {
                // Nobody begins before us: no reason to step back.
            } else if policy.escape_after.is_some_and(|after| attempts >= after) {
                context.statistics.escapes += 1;
                context.shared.gate.enter(context.slot);
                pass = Some(Pass { shared: context.shared.clone(), slot: context.slot });
            } else {
                let longest =
                    policy.backoff_max.min(policy.backoff_min.saturating_mul(1 << (attempts - 1).min(20)));
                let longest_ns = nanos(longest);
                if longest_ns > 0 {
                    let pause_ns = context.next_random() % longest_ns;
                    let now_ns = context.shared.host.now_ns();
                    let left_ns =
                        context.deadline_ns.map_or(pause_ns, |until_ns| until_ns.saturating_sub(now_ns));
                    context.shared.host.sleep_ns(pause_ns.min(left_ns));
                }
            }
            last = Some(error);
        }
    }

    /// Begins a transaction that the caller commits, or rolls back by dropping it. It is not retried.
    ///
    /// While it is open, nothing that others delete is freed, and under protocols that lock while
    /// executing it may keep others waiting: do not leave it lying about.
    pub fn begin(&mut self) -> Transaction<'_, H> {
        self.context.age = None;
        self.context.spares_marks = false;
        self.context.deadline_ns = None;
        self.context.shared.slots.get(self.context.slot).set_open_ended(true);
        let begun = self.context.begin();
        debug_assert!(begun, "there is no deadline");
        Transaction::new(&mut self.context)
    }

    /// Counts of this session's transactions so far.
    pub fn statistics(&self) -> SessionStatistics {
        self.context.statistics
    }
}

impl<H: Host> std::fmt::Debug for Session<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("slot", &self.context.slot).finish_non_exhaustive()
    }
}

/// Whatever passing session comes next is not to be before what this one has been told.
#[inline]
fn leave_floor<H: Host>(context: &Context<H>, passing: bool) {
    if passing && context.order == Some(Order::Logical) {
        context.shared.host.touch(|| lines::PASSING, Access::ReadModifyWrite);
        // Release: pairs with the load when the next passing session begins.
        context.shared.passing_floor.fetch_max(context.floor.ticks(), Ordering::AcqRel);
    }
}

/// A place in the line at the gate, left when dropped, also by a panic.
struct Pass<H: Host> {
    shared: Arc<Shared<H>>,
    slot: SlotId,
}

impl<H: Host> Drop for Pass<H> {
    fn drop(&mut self) {
        self.shared.gate.leave(self.slot, &self.shared.slots, &self.shared.room);
    }
}

/// How an attempt ended, if it did not commit.
pub(crate) enum Concluded<E> {
    /// By something that would only happen again.
    Final(E),
    /// By a conflict.
    Conflict(E),
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
