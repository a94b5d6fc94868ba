//! The steps of a recorded transaction: drawn, run, and recorded.

use super::keys::{FoundKeys, Keys};
use super::{RecordedSpec, draw_steps};
use crate::history::{Key, MicroOp, Recorder, Value};
use crate::random::Random;
use crate::store::{Appends, Scan, Store, TxnResult};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Read,
    Write,
    Delete,
    Scan,
}

/// A step with its key; the value counts for writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) kind: StepKind,
    pub(super) key: u64,
    pub(super) value: i64,
}

/// A request: which slots, not which keys, as keys are retired while the run goes on.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    steps: Vec<(u16, StepKind)>,
    /// Bit n: give the processor away before step n (of the first 64).
    yields: u64,
    pub(super) rolls_back: bool,
}

impl Drawn {
    pub(super) fn new(spec: &RecordedSpec, random: &mut Random) -> Self {
        let steps = draw_steps(spec, random);
        let yields = (0..64).fold(0, |bits, bit| bits | u64::from(random.happens(spec.yield_share)) << bit);
        Drawn { steps, yields, rolls_back: random.happens(spec.rollback_share) }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = (u16, StepKind)> {
        self.steps.iter().copied()
    }

    pub(super) fn yields_before(&self, step: usize) -> bool {
        self.yields >> (step % 64) & 1 == 1
    }
}

/// A list's values, eight bytes each. What is left over would be the engine's doing: it is kept as a value that
/// was never written, for the checker to find.
fn values(bytes: &[u8]) -> Vec<Value> {
    let mut chunks = bytes.chunks_exact(8);
    let mut values: Vec<Value> = chunks
        .by_ref()
        .map(|chunk| Value(chunk.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte))))
        .collect();
    if !chunks.remainder().is_empty() {
        values.push(Value(i64::MIN));
    }
    values
}

/// Runs a step on lists, appending at commit time where that is asked for.
pub(super) fn list_step<S: Appends>(
    tx: &mut S::Txn<'_>,
    keys: &Keys<S, Vec<u8>>,
    found: &FoundKeys<'_, '_, S>,
    at_commit: bool,
    step: &Step,
    recorder: &mut Recorder,
) -> TxnResult<S, ()> {
    let key = Key(step.key as i64);
    if step.kind == StepKind::Read {
        let list = keys.get(tx, found, step.key)?.map_or_else(Vec::new, |bytes| values(&bytes));
        recorder.op(MicroOp::ReadList { key, list: Some(list) });
        return Ok(());
    }
    recorder.op(MicroOp::Append { key, value: Value(step.value) });
    let bytes = step.value.to_le_bytes();
    if at_commit {
        keys.append(tx, step.key, &bytes)?;
    } else if keys.get(tx, found, step.key)?.is_some() || !keys.insert(tx, step.key, bytes.to_vec())? {
        // Absent a moment ago, and then not: only a transaction that cannot commit comes here that way.
        keys.update(tx, found, step.key, |list| list.extend_from_slice(&bytes))?;
    }
    Ok(())
}

/// What a register holds that is there for its sibling's sake only: as good as absent.
const NOTHING: i64 = 0;

/// Reads a register.
fn read<S: Store>(
    tx: &mut S::Txn<'_>,
    keys: &Keys<S, i64>,
    found: &FoundKeys<'_, '_, S>,
    key: u64,
    recorder: &mut Recorder,
) -> TxnResult<S, Option<i64>> {
    let value = keys.get(tx, found, key)?.filter(|&value| value != NOTHING);
    recorder.op(MicroOp::ReadRegister { key: Key(key as i64), value: value.map(Value) });
    Ok(value)
}

/// Runs a step on registers. Writes take turns among the ways to write, by their value.
pub(super) fn register_step<S: Store>(
    tx: &mut S::Txn<'_>,
    keys: &Keys<S, i64>,
    found: &FoundKeys<'_, '_, S>,
    step: &Step,
    recorder: &mut Recorder,
) -> TxnResult<S, ()> {
    let &Step { kind, key, value } = step;
    match kind {
        StepKind::Read => {
            read::<S>(tx, keys, found, key, recorder)?;
        }
        StepKind::Write => {
            // An upsert writes the whole row: what the sibling holds, it is to hold on.
            let sibling = match value % 4 {
                3 => Some(read::<S>(tx, keys, found, keys.sibling(key), recorder)?),
                _ => None,
            };
            recorder.op(MicroOp::Write { key: Key(key as i64), value: Some(Value(value)) });
            let written = match value % 4 {
                0 => keys.insert(tx, key, value)?,
                1 if keys.get(tx, found, key)?.is_some() => {
                    keys.update(tx, found, key, |held| *held = value)?;
                    true
                }
                _ => false,
            };
            if let Some(sibling) = sibling {
                keys.upsert(tx, key, value, sibling.unwrap_or(NOTHING))?;
            } else if !written && !keys.write(tx, key, value)? && !keys.insert(tx, key, value)? {
                // Absent a moment ago, and then not: only a transaction that cannot commit comes here.
                keys.upsert(tx, key, value, NOTHING)?;
            }
        }
        StepKind::Delete => {
            // The row goes, and the sibling with it.
            let sibling = keys.sibling(key);
            let held = read::<S>(tx, keys, found, sibling, recorder)?;
            recorder.op(MicroOp::Write { key: Key(key as i64), value: None });
            if held.is_some() {
                recorder.op(MicroOp::Write { key: Key(sibling as i64), value: None });
            }
            keys.delete(tx, key)?;
        }
        StepKind::Scan => {
            // The slots that lie around the key, and some keys that are retired or yet to come.
            let (low, high) = (key.saturating_sub(4), key + 4);
            let mut held = Vec::new();
            // Each third one goes no further than a few rows.
            let limit = (value % 3 == 0).then_some(1 + (value / 6 % 3) as usize);
            let scan = Scan { reverse: value % 2 == 1, limit };
            let (low, high) = keys.look_through(tx, (low, high), scan, |key, value| {
                if value != NOTHING {
                    held.push((key, value));
                }
            })?;
            held.retain(|(key, _)| (low..=high).contains(key));
            held.sort_unstable();
            let found = held.into_iter().map(|(key, value)| (Key(key as i64), Value(value))).collect();
            let (low, high) = (Key(low as i64), Key(high as i64));
            recorder.op(MicroOp::Scan { low, high, found: Some(found) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for value in [1_i64, 60, i64::MAX, -2] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        assert_eq!(values(&bytes), [Value(1), Value(60), Value(i64::MAX), Value(-2)]);
        bytes.truncate(9);
        assert_eq!(values(&bytes), [Value(1), Value(i64::MIN)]);
    }

    #[test]
    fn steps_are_as_many_and_as_mixed_as_asked() {
        let spec = RecordedSpec::new(super::super::Kind::Scan);
        let mut random = Random::new(1, 1);
        let drawn: Vec<Drawn> = (0..2000).map(|_| Drawn::new(&spec, &mut random)).collect();
        let all: Vec<StepKind> = drawn.iter().flat_map(|drawn| drawn.steps().map(|(_, kind)| kind)).collect();
        for kind in [StepKind::Read, StepKind::Write, StepKind::Delete, StepKind::Scan] {
            assert!(all.contains(&kind), "{kind:?}");
        }
        assert!(drawn.iter().all(|drawn| (1..=5).contains(&drawn.steps.len())));
        let rolled = drawn.iter().filter(|drawn| drawn.rolls_back).count();
        assert!(rolled.abs_diff(60) < 40, "{rolled}");
    }
}
