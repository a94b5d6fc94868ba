//! Transactional memories that others have made: a variable is a pointer to a value on the heap, with a lock and a list of who waits for it.
//!
//! `fast-stm` was made from `stm` and has the same interface, but not the same types.
//!
//! What it does not do: put variables into structures. Neither crate has any.

use noonmark_workloads::stm::reads::{START, Variables, VariablesSession, Which};

macro_rules! variables {
    ($($(#[$meta:meta])* $name:ident of $from:ident;)*) => { $(
        $(#[$meta])*
        pub struct $name(Box<[$from::TVar<u64>]>);

        impl $name {
            pub fn new(count: usize) -> Self {
                $name((0..count).map(|_| $from::TVar::new(START)).collect())
            }
        }

        impl Variables for $name {
            type Session<'a> = &'a $name;
            const VARIABLE_BYTES: u64 = 192;

            fn session(&self) -> &$name {
                self
            }

            fn audit(&self) -> u64 {
                self.0.iter().fold(0, |sum, var| sum.wrapping_add(var.read_atomic()))
            }
        }

        impl VariablesSession for &$name {
            fn sum(&mut self, of: &Which) -> u64 {
                $from::atomically(|tx| {
                    let mut sum = 0_u64;
                    for number in of {
                        sum = sum.wrapping_add(self.0[*number as usize].read(tx)?);
                    }
                    Ok(sum)
                })
            }

            fn sum_and_move(&mut self, of: &Which) -> u64 {
                $from::atomically(|tx| {
                    let mut sum = 0_u64;
                    for number in of {
                        sum = sum.wrapping_add(self.0[*number as usize].read(tx)?);
                    }
                    let [from, to, ..] = of.map(|number| &self.0[number as usize]);
                    from.modify(tx, |value| value.wrapping_sub(1))?;
                    to.modify(tx, |value| value.wrapping_add(1))?;
                    Ok(sum)
                })
            }
        }
    )* };
}

variables! {
    /// Of the crate `stm`.
    Stm of stm;
    /// Of the crate `fast-stm`.
    FastStm of fast_stm;
}
