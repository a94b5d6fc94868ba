//! Loom's atomics, with sequentially consistent accesses spelled out: see [`crate::sync`].
//!
//! # What loom passes over, and how loads take turns
//!
//! Loom runs a thread as long as it can, and then goes back to where two accesses to one atomic, of different
//! threads and at least one of them a write, could have come the other way round. For a write it looks at the *last* access
//! before it only. If that is a load of the writer's own, then loads of others before that are not seen, and a reader
//! who comes before such a writer in the first run comes before it in all: of *load, then store* against *load* loom 0.7.2
//! explores one order of two. That is what every compare-and-swap from a word that was loaded looks like.
//!
//! [`check_every_order`] mends it: each load is preceded by a compare-and-swap that fails, on an atomic beside the
//! real one, which nobody ever writes. To loom such a step conflicts with its like, so that loads are tried in both orders,
//! and with them what the loading thread does next. It synchronizes nothing, since nothing is written, so that no stale
//! value is lost. It makes more runs of a model; [`check_both_ways`] goes without.

use loom::sync::atomic::{self, Ordering, fence};
use std::cell::Cell;

/// How a sequentially consistent access is made of a fence and a weaker access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeqCstAs {
    /// The fence, then the access.
    FenceBefore,
    /// The access, then the fence.
    FenceAfter,
}

std::thread_local! {
    // Loom runs the threads of a model as coroutines on the thread that called it, so that this is
    // one setting for each model that runs.
    static SEQ_CST_AS: Cell<SeqCstAs> = const { Cell::new(SeqCstAs::FenceBefore) };
    // The same.
    static LOADS_TAKE_TURNS: Cell<bool> = const { Cell::new(false) };
}

/// Explores the model both ways, with at most this many preemptions. None given: all of them, or as
/// many as the environment's `LOOM_MAX_PREEMPTIONS` says.
pub fn check_both_ways(preemptions: Option<usize>, model: impl Fn() + Clone + Send + Sync + 'static) {
    for way in [SeqCstAs::FenceBefore, SeqCstAs::FenceAfter] {
        SEQ_CST_AS.set(way);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions.or(builder.preemption_bound);
        builder.check(model.clone());
    }
}

/// As [`check_both_ways`], with loads that take turns: see the module's page.
pub fn check_every_order(preemptions: Option<usize>, model: impl Fn() + Clone + Send + Sync + 'static) {
    /// Also when the model panics, as other models run on the same thread.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            LOADS_TAKE_TURNS.set(false);
        }
    }
    LOADS_TAKE_TURNS.set(true);
    let _reset = Reset;
    check_both_ways(preemptions, model);
}

/// Where the loads of one atomic take turns, if they do.
#[derive(Debug)]
struct Turns(Option<atomic::AtomicUsize>);

impl Turns {
    fn new() -> Self {
        Turns(LOADS_TAKE_TURNS.get().then(|| atomic::AtomicUsize::new(0)))
    }

    fn take(&self) {
        if let Some(turns) = &self.0 {
            let never = turns.compare_exchange(1, 2, Ordering::Relaxed, Ordering::Relaxed);
            debug_assert!(never.is_err());
        }
    }
}

/// Runs an access that is sequentially consistent if `seq_cst`.
fn spelled_out<R>(seq_cst: bool, access: impl FnOnce() -> R) -> R {
    let way = SEQ_CST_AS.get();
    if seq_cst && way == SeqCstAs::FenceBefore {
        fence(Ordering::SeqCst);
    }
    let result = access();
    if seq_cst && way == SeqCstAs::FenceAfter {
        fence(Ordering::SeqCst);
    }
    result
}

fn is_seq_cst(ordering: Ordering) -> bool {
    ordering == Ordering::SeqCst
}

fn for_load(ordering: Ordering) -> Ordering {
    if is_seq_cst(ordering) { Ordering::Acquire } else { ordering }
}

fn for_store(ordering: Ordering) -> Ordering {
    if is_seq_cst(ordering) { Ordering::Release } else { ordering }
}

fn for_update(ordering: Ordering) -> Ordering {
    if is_seq_cst(ordering) { Ordering::AcqRel } else { ordering }
}

macro_rules! atomic {
    ($name:ident $(<$generic:ident>)?, $value:ty, [$($update:ident),*]) => {
        /// As in the standard library.
        #[derive(Debug)]
        pub struct $name$(<$generic>)?(atomic::$name$(<$generic>)?, Turns);

        #[allow(missing_docs, reason = "as in the standard library")]
        impl$(<$generic>)? $name$(<$generic>)? {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value), Turns::new())
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.1.take();
                spelled_out(is_seq_cst(order), || self.0.load(for_load(order)))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                spelled_out(is_seq_cst(order), || self.0.store(value, for_store(order)));
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                spelled_out(is_seq_cst(order), || self.0.swap(value, for_update(order)))
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                // Which of the two it will be is not known before; the stronger one is what the
                // machine does, too.
                spelled_out(is_seq_cst(success) || is_seq_cst(failure), || {
                    self.0.compare_exchange(current, new, for_update(success), for_load(failure))
                })
            }

            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            $(pub fn $update(&self, value: $value, order: Ordering) -> $value {
                spelled_out(is_seq_cst(order), || self.0.$update(value, for_update(order)))
            })*
        }
    };
}

atomic!(AtomicU64, u64, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicU32, u32, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicU8, u8, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicUsize, usize, [fetch_add, fetch_sub, fetch_and, fetch_or, fetch_xor, fetch_max, fetch_min]);
atomic!(AtomicBool, bool, [fetch_and, fetch_or, fetch_xor]);
atomic!(AtomicPtr<T>, *mut T, []);
