//! Values of maps: how they lie in nodes.
//!
//! A [`Plain`] value lies in its node as words, and is read as a copy. Any other lies on the heap, behind a pointer in
//! its node, when the map's type of values is [`Boxed`]; it is read by reference, for as long as the transaction lasts, and never
//! copied, so that it needs not be `Clone`.
//!
//! What it does not do: a boxed value cannot be changed in place; a new one is put in its stead.

use crate::cell::TBox;
use crate::node::{TField, TRef};
use crate::plain::Plain;
use crate::transaction::{Interrupted, Reads, Writes};
use crate::world::World;
use std::marker::PhantomData;

/// The type of a map's values: any [`Plain`] one, or [`Boxed`] for any other. Sealed.
pub trait Value: sealed::Sealed + 'static {
    /// What is put into a map.
    type Given;
    /// What is found there: the value if it is plain, or a reference to it.
    type Lent<'tx>: Copy;
    /// How it lies in a node.
    #[doc(hidden)]
    type Stored: Send + Sync + 'static;

    /// In a node that is yet to be made.
    #[doc(hidden)]
    fn store(value: Self::Given) -> Self::Stored;

    /// What it is in a node.
    #[doc(hidden)]
    fn get<'tx, N: Send + Sync + 'static, W: World, X: Reads<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n Self::Stored,
    ) -> Result<Self::Lent<'tx>, Interrupted>;

    /// Makes it something else in a node.
    #[doc(hidden)]
    fn set<'tx, N: Send + Sync + 'static, W: World, X: Writes<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n Self::Stored,
        value: Self::Given,
    ) -> Result<(), Interrupted>;
}

/// As the type of a map's values: values of any type that threads may share, on the heap.
///
/// ```
/// use noonmark_stm::{Boxed, TRavlMap, atomically};
///
/// let names = TRavlMap::<u32, Boxed<String>>::new();
/// atomically(|tx| names.insert(tx, 1, "Ada".to_string()).map(drop));
/// atomically(|tx| {
///     // What is found is lent for as long as the transaction lasts.
///     let longer = names.get(tx, &1)?.map(|name| format!("{name} Lovelace"));
///     if let Some(longer) = longer {
///         names.insert(tx, 1, longer)?;
///     }
///     Ok(())
/// });
/// assert_eq!(atomically(|tx| Ok(names.get(tx, &1)?.cloned())).as_deref(), Some("Ada Lovelace"));
/// ```
#[derive(Debug)]
pub struct Boxed<T>(PhantomData<T>);

mod sealed {
    pub trait Sealed {}
    impl<T: super::Plain> Sealed for T {}
    impl<T: Send + Sync + 'static> Sealed for super::Boxed<T> {}
}

impl<T: Plain> Value for T {
    type Given = T;
    type Lent<'tx> = T;
    type Stored = TField<T>;

    #[inline(always)]
    fn store(value: T) -> TField<T> {
        TField::new(value)
    }

    #[inline(always)]
    fn get<'tx, N: Send + Sync + 'static, W: World, X: Reads<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n TField<T>,
    ) -> Result<T, Interrupted> {
        node.get(tx, of)
    }

    #[inline(always)]
    fn set<'tx, N: Send + Sync + 'static, W: World, X: Writes<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n TField<T>,
        value: T,
    ) -> Result<(), Interrupted> {
        node.set(tx, of, value)
    }
}

impl<T: Send + Sync + 'static> Value for Boxed<T> {
    type Given = T;
    type Lent<'tx> = &'tx T;
    type Stored = TBox<T>;

    fn store(value: T) -> TBox<T> {
        TBox::new(value)
    }

    #[inline(always)]
    fn get<'tx, N: Send + Sync + 'static, W: World, X: Reads<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n TBox<T>,
    ) -> Result<&'tx T, Interrupted> {
        node.read(tx, of)
    }

    fn set<'tx, N: Send + Sync + 'static, W: World, X: Writes<'tx, W>>(
        tx: X,
        node: TRef<'tx, N, W>,
        of: impl for<'n> FnOnce(&'n N) -> &'n TBox<T>,
        value: T,
    ) -> Result<(), Interrupted> {
        node.put(tx, of, value)
    }
}
