//! What the tests share: each test of each control runs in a world of its own.

/// Makes two tests of each function and each control, each in a world of its own: one where objects have their own locks,
/// and one where they share those of a table.
macro_rules! for_each_control {
    ([$($control:ident),*]: $($test:ident,)*) => {
        $crate::support::for_each_control!(@each [$($control),*] [$($test),*]);
    };
    (@each [$($control:ident),*] $tests:tt) => {
        $( mod $control {
            mod own { $crate::support::for_each_control!(@control $control Own $tests); }
            mod in_table { $crate::support::for_each_control!(@control $control InTable $tests); }
        } )*
    };
    (@control $control:ident $place:ident [$($test:ident),*]) => {
        $(
            #[test]
            fn $test() {
                noonmark_stm::world! {
                    struct Here: $crate::support::control!($control), noonmark_stm::Threads,
                        noonmark_stm::$place =
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
}

pub(crate) use {control, for_each_control};
// The same, for tests that not every control can pass.
#[allow(unused_imports, reason = "not every test file has some")]
pub(crate) use for_each_control as for_each_starvation_free_control;
