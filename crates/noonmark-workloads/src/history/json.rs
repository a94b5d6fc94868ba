//! Micro-operations as JSON arrays whose first element says what the others are.
//!
//! `["r", k, x]` with a `null` is read as a register; [`super::HistoryBuilder`] makes it a list
//! once the history has shown that it is one of lists.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::{Key, MicroOp, Value};

impl Serialize for MicroOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(3)?;
        match self {
            Self::Append { key, value } => {
                tuple.serialize_element("append")?;
                tuple.serialize_element(key)?;
                tuple.serialize_element(value)?;
            }
            Self::ReadList { key, list } => {
                tuple.serialize_element("r")?;
                tuple.serialize_element(key)?;
                tuple.serialize_element(list)?;
            }
            Self::Write { key, value } => {
                tuple.serialize_element("w")?;
                tuple.serialize_element(key)?;
                tuple.serialize_element(value)?;
            }
            Self::ReadRegister { key, value } => {
                tuple.serialize_element("r")?;
                tuple.serialize_element(key)?;
                tuple.serialize_element(value)?;
            }
            Self::Scan { low, high, found } => {
                tuple.serialize_element("scan")?;
                tuple.serialize_element(&(low, high))?;
                tuple.serialize_element(found)?;
            }
        }
        tuple.end()
    }
}

/// The first element of a micro-operation.
#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Tag {
    Append,
    R,
    W,
    Scan,
}

/// The third element of a read.
enum Seen {
    Nothing,
    One(Value),
    List(Vec<Value>),
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeenVisitor;
        impl<'de> Visitor<'de> for SeenVisitor {
            type Value = Seen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("null, an integer of 64 bits or an array of such")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Seen, E> {
                Ok(Seen::Nothing)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Seen, E> {
                Ok(Seen::One(Value(value)))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Seen, E> {
                i64::try_from(value)
                    .map(|value| Seen::One(Value(value)))
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Seen, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Seen::List(list))
            }
        }
        deserializer.deserialize_any(SeenVisitor)
    }
}

impl<'de> Deserialize<'de> for MicroOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MicroOpVisitor;
        impl<'de> Visitor<'de> for MicroOpVisitor {
            type Value = MicroOp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a micro-operation: an array of \"append\", \"r\", \"w\" or \"scan\", a key and a value",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<MicroOp, A::Error> {
                let tag: Tag = element(&mut seq, 0, &self)?;
                let op = match tag {
                    Tag::Append => MicroOp::Append {
                        key: element(&mut seq, 1, &self)?,
                        value: element(&mut seq, 2, &self)?,
                    },
                    Tag::W => MicroOp::Write {
                        key: element(&mut seq, 1, &self)?,
                        value: element(&mut seq, 2, &self)?,
                    },
                    Tag::R => {
                        let key = element(&mut seq, 1, &self)?;
                        match element(&mut seq, 2, &self)? {
                            Seen::Nothing => MicroOp::ReadRegister { key, value: None },
                            Seen::One(value) => MicroOp::ReadRegister { key, value: Some(value) },
                            Seen::List(list) => MicroOp::ReadList { key, list: Some(list) },
                        }
                    }
                    Tag::Scan => {
                        let (low, high): (Key, Key) = element(&mut seq, 1, &self)?;
                        MicroOp::Scan { low, high, found: element(&mut seq, 2, &self)? }
                    }
                };
                match seq.next_element::<de::IgnoredAny>()? {
                    None => Ok(op),
                    Some(_) => Err(de::Error::invalid_length(4, &self)),
                }
            }
        }
        deserializer.deserialize_seq(MicroOpVisitor)
    }
}

/// The next element, which is the `place`th.
fn element<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    seq: &mut A,
    place: usize,
    expected: &dyn de::Expected,
) -> Result<T, A::Error> {
    seq.next_element()?.ok_or_else(|| de::Error::invalid_length(place, expected))
}

/// The steps of an operation, none for `null`.
pub(super) fn steps_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MicroOp>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
