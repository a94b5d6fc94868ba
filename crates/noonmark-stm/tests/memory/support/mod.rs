//! What the tests share: worlds, one of each control and place for locks, in which tests run one after another.
//!
//! Whatever is generic is compiled once for each world, which takes long; so tests have no worlds of their own, unless they must. Who
//! counts what has happened takes the difference of two looks. A test finds all slots free, and nothing that waits to be freed;
//! but it does find a clock that others have advanced, and a table of locks that others have left their times in.

pub(crate) mod numbers;
pub(crate) mod run;

use noonmark_core::sync::Mutex;
use noonmark_stm::{Memory, Settings, Threads, World, world};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

/// So many transactions at a time, in each world.
const SLOTS: usize = 16;

/// The memory of a world.
pub(crate) fn memory<W: World<Host = Threads>>() -> Memory<W> {
    Memory::new(Settings::default().slots(SLOTS), Threads::default())
}

/// Runs a test when it is its turn in a world.
pub(crate) fn in_turn<W: World>(turn: &Mutex<()>, test: fn()) {
    // Who has failed has had his turn, too.
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    // And may have left what panics when it is dropped: no more than once at each slot, as all that is due there is dropped together.
    let is_clean = (0..=SLOTS).any(|_| catch_unwind(AssertUnwindSafe(W::collect)).is_ok());
    assert!(is_clean, "what earlier tests have left is freed");
    test();
}

/// Makes a test of each function and each control, in the world of that control where objects have their own locks. Some controls
/// are named once more after `in table`, for worlds where objects share the locks of a table.
///
/// A test with `afresh` before it has worlds of its own: it says why.
macro_rules! for_each_control {
    ([$($control:ident),*] in table [$($in_table:ident),*]: $($($test:ident)+,)*) => {
        $crate::support::for_each_control!(@place own [$($control),*] [$([$($test)+])*]);
        $crate::support::for_each_control!(@place in_table [$($in_table),*] [$([$($test)+])*]);
    };
    (@place $place:ident [$($control:ident),*] $tests:tt) => {
        mod $place {
            $( mod $control { $crate::support::for_each_control!(@control $place $control $tests); } )*
        }
    };
    (@control $place:ident $control:ident [$($test:tt)*]) => {
        $( $crate::support::for_each_control!(@test $place $control $test); )*
    };
    (@test $place:ident $control:ident [$test:ident]) => {
        #[test]
        fn $test() {
            use $crate::support::{$place::$control::{Shared, TURN}, in_turn};
            in_turn::<Shared>(&TURN, super::super::$test::<Shared>);
        }
    };
    (@test $place:ident $control:ident [afresh $test:ident]) => {
        #[test]
        fn $test() {
            use $crate::support::{$place::$control::Shared, memory};
            noonmark_stm::world! {
                struct Afresh: <Shared as noonmark_stm::World>::Control, noonmark_stm::Threads,
                    <Shared as noonmark_stm::World>::Place = memory();
            }
            super::super::$test::<Afresh>();
        }
    };
}

pub(crate) use for_each_control;

/// A world of each control, and whose turn it is.
macro_rules! shared_worlds {
    ($($module:ident: $place:ident [$($control:ident $type:ident,)*];)*) => { $(
        pub(crate) mod $module { $(
            pub(crate) mod $control {
                use super::super::*;

                world! {
                    pub(crate) struct Shared: noonmark_stm::$type, Threads, noonmark_stm::$place = memory();
                }

                pub(crate) static TURN: Mutex<()> = Mutex::new(());
            }
        )* }
    )* };
}

shared_worlds! {
    own: Own [
        dctl Dctl,
        dcotl Dcotl,
        dctl_sf DctlSf,
        dcotl_sf DcotlSf,
        tl2_gv4 Tl2Gv4,
        tl2_gv5 Tl2Gv5,
        tinystm TinyStm,
        two_pl_sf TwoPlSf,
    ];
    // Not each is tried there.
    in_table: InTable [
        dctl Dctl,
        dcotl Dcotl,
        dcotl_sf DcotlSf,
        tl2_gv4 Tl2Gv4,
        tinystm TinyStm,
        two_pl_sf TwoPlSf,
    ];
}
