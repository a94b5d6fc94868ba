//! A value with the number of its write beside it.
//!
//! A history names what was read by the write that made it, so every write needs a number that no other has.
//! Values as the workloads have them repeat: two transfers may leave a balance at the same sum. A recorded run
//! therefore keeps a number in the same column group as each value: same lock, same timestamps, same bytes, so
//! that whoever reads the value reads the number with it, or neither.
//!
//! What it does not do: give out numbers ([`crate::recording`] does), or appear in a run that is not recorded.

use crate::store::StoreGroup;

/// The number of a write; no two writes of a run have the same.
pub type WriteId = i64;

/// A group's value and the write that made it.
#[derive(Clone, Debug)]
pub struct Stamped<G> {
    /// The write.
    pub id: WriteId,
    /// The value.
    pub value: G,
}

const ID_BYTES: usize = size_of::<WriteId>();

impl<G: noonmark::Group> noonmark::Group for Stamped<G> {
    const SIZE: noonmark::Size = match G::SIZE {
        noonmark::Size::Fixed(bytes) => noonmark::Size::Fixed(ID_BYTES + bytes),
        noonmark::Size::Variable => noonmark::Size::Variable,
    };

    fn name() -> &'static str {
        G::name()
    }

    fn encoded_bytes(&self) -> usize {
        ID_BYTES + self.value.encoded_bytes()
    }

    fn encode(&self, out: &mut [u8]) {
        let (id, value) = out.split_at_mut(ID_BYTES);
        id.copy_from_slice(&self.id.to_le_bytes());
        self.value.encode(value);
    }

    fn decode(bytes: &[u8]) -> Self {
        let (id, value) = bytes.split_at(ID_BYTES);
        let mut own = [0; ID_BYTES];
        own.copy_from_slice(id);
        Stamped { id: WriteId::from_le_bytes(own), value: G::decode(value) }
    }
}

noonmark::single_group_row!(Stamped<G>, G: noonmark::Group);

impl<G: StoreGroup> StoreGroup for Stamped<G> {}

#[cfg(test)]
mod tests {
    use super::*;
    use noonmark::Group as _;

    #[test]
    fn a_stamped_value_comes_back_as_it_was() {
        let stamped = Stamped { id: -7, value: vec![1_u8, 2, 3] };
        let mut bytes = vec![0; stamped.encoded_bytes()];
        stamped.encode(&mut bytes);
        let back = Stamped::<Vec<u8>>::decode(&bytes);
        assert_eq!((back.id, back.value), (-7, vec![1, 2, 3]));
        assert_eq!(Stamped::<[u8; 1000]>::SIZE, noonmark::Size::Fixed(1008));
    }
}
