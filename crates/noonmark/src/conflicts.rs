//! Conflict statistics: which rules fail, where, and on which keys.
//!
//! Always on: a transaction that commits at its first attempt never comes here. Each slot counts for
//! itself, under a lock that only a report contends for. The hottest keys of a slot are kept by the
//! space-saving method: with `n` conflicts seen, a count is too high by at most `n / KEYS_KEPT`.

use crate::abort::TableInfo;
use noonmark_core::SlotId;
use noonmark_core::sync::{CachePadded, Mutex};
use std::fmt;
use std::sync::Arc;

const KEYS_KEPT: usize = 32;

#[derive(Default)]
struct SlotCounts {
    rules: Vec<RuleCount>,
    keys: Vec<HotKey>,
    /// Attempts that ended in a conflict.
    total: u64,
}

struct RuleCount {
    table: Arc<TableInfo>,
    cell: usize,
    rule: &'static str,
    count: u64,
}

struct HotKey {
    table: Arc<TableInfo>,
    key: Vec<u8>,
    count: u64,
}

/// The conflicts of a database.
pub(crate) struct Conflicts {
    slots: Box<[CachePadded<Mutex<SlotCounts>>]>,
}

impl Conflicts {
    pub(crate) fn new(slots: usize) -> Self {
        Conflicts { slots: (0..slots).map(|_| CachePadded(Mutex::new(SlotCounts::default()))).collect() }
    }

    /// Counts one conflict. Amortized constant time.
    pub(crate) fn count(
        &self,
        slot: SlotId,
        table: &Arc<TableInfo>,
        cell: usize,
        rule: &'static str,
        key: &[u8],
    ) {
        let mut guard = self.slots[slot.index()].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let counts = &mut *guard;
        counts.total += 1;
        let known = counts
            .rules
            .iter_mut()
            .find(|r| std::ptr::eq(r.rule, rule) && r.cell == cell && Arc::ptr_eq(&r.table, table));
        match known {
            Some(known) => known.count += 1,
            None => counts.rules.push(RuleCount { table: table.clone(), cell, rule, count: 1 }),
        }
        if let Some(hot) = counts.keys.iter_mut().find(|k| k.key == key && Arc::ptr_eq(&k.table, table)) {
            hot.count += 1;
        } else if counts.keys.len() < KEYS_KEPT {
            counts.keys.push(HotKey { table: table.clone(), key: key.to_vec(), count: 1 });
        } else if let Some(least) = counts.keys.iter_mut().min_by_key(|k| k.count) {
            least.table = table.clone();
            least.key.clear();
            least.key.extend_from_slice(key);
            least.count += 1;
        }
    }

    /// Adds up all slots.
    pub(crate) fn report(&self) -> ConflictReport {
        let mut report = ConflictReport::default();
        for slot in &self.slots {
            let counts = slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            report.total += counts.total;
            for rule in &counts.rules {
                let group = if rule.table.coarse || rule.table.groups.len() < 2 {
                    None
                } else {
                    rule.table.groups.get(rule.cell).map(|name| (*name).to_owned())
                };
                let place = (rule.table.name.as_str(), group.as_deref(), rule.rule);
                match report
                    .by_rule
                    .iter_mut()
                    .find(|r| (r.table.as_str(), r.group.as_deref(), r.rule) == place)
                {
                    Some(known) => known.count += rule.count,
                    None => report.by_rule.push(RuleConflicts {
                        table: rule.table.name.clone(),
                        group,
                        rule: rule.rule,
                        count: rule.count,
                    }),
                }
            }
            for hot in &counts.keys {
                let place = hot.table.place(Some(&hot.key), None);
                match report.hottest.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, count)) => *count += hot.count,
                    None => report.hottest.push((place, hot.count)),
                }
            }
        }
        report.by_rule.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.table.cmp(&b.table)));
        report.hottest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        report.hottest.truncate(KEYS_KEPT);
        report
    }
}

/// How often one rule failed in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleConflicts {
    /// The table.
    pub table: String,
    /// The column group, if the table has several with timestamps of their own.
    pub group: Option<String>,
    /// Protocol and rule, as in `tictoc: validate`.
    pub rule: &'static str,
    /// How many attempts ended there.
    pub count: u64,
}

/// The conflicts of a database since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictReport {
    /// How many attempts ended in a conflict.
    pub total: u64,
    /// By table, group and rule; the most frequent first.
    pub by_rule: Vec<RuleConflicts>,
    /// The keys with the most conflicts, as in `accounts[42]`, and about how many; at most 32.
    pub hottest: Vec<(String, u64)>,
}

impl fmt::Display for ConflictReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} attempts ended in a conflict", self.total)?;
        for rule in &self.by_rule {
            let group = rule.group.as_deref().map(|g| format!(".{g}")).unwrap_or_default();
            writeln!(f, "{:>12}  {}{group}  {}", rule.count, rule.table, rule.rule)?;
        }
        for (place, count) in self.hottest.iter().take(10) {
            writeln!(f, "{count:>12}  {place}")?;
        }
        Ok(())
    }
}
