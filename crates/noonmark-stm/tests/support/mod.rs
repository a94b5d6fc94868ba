//! What the tests share: each test of each control runs in a world of its own.

/// Makes a test of each function and each control, each in a world of its own, where objects have their own locks. Some
/// controls are named once more after `in table`, for worlds where objects share the locks of a table.
macro_rules! for_each_control {
    ([$($control:ident),*] in table [$($in_table:ident),*]: $($test:ident,)*) => {
        $crate::support::for_each_control!(@place own Own [$($control),*] [$($test),*]);
        $crate::support::for_each_control!(@place in_table InTable [$($in_table),*] [$($test),*]);
    };
    (@place $module:ident $place:ident [$($control:ident),*] $tests:tt) => {
        mod $module {
            $( mod $control { $crate::support::for_each_control!(@control $control $place $tests); } )*
        }
    };
    (@control $control:ident $place:ident [$($test:ident),*]) => {
        $(
            #[test]
            fn $test() {
                noonmark_stm::world! {
                    struct Here: $crate::support::control!($control), noonmark_stm::Threads, noonmark_stm::$place =
                        noonmark_stm::Memory::new(
                            noonmark_stm::Settings::default().slots(16),
                            noonmark_stm::Threads::default(),
                        );
                }
                crate::$test::<Here>();
            }
        )*
    };
}

/// The control of a name.
macro_rules! control {
    (dctl) => {
        noonmark_stm::Dctl
    };
    (dcotl) => {
        noonmark_stm::Dcotl
    };
    (dctl_sf) => {
        noonmark_stm::DctlSf
    };
    (dcotl_sf) => {
        noonmark_stm::DcotlSf
    };
    (tl2_gv4) => {
        noonmark_stm::Tl2Gv4
    };
    (tl2_gv5) => {
        noonmark_stm::Tl2Gv5
    };
    (tinystm) => {
        noonmark_stm::TinyStm
    };
    (two_pl_sf) => {
        noonmark_stm::TwoPlSf
    };
}

pub(crate) use {control, for_each_control};
