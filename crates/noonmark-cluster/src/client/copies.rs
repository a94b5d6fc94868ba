//! Copies of other servers' rows: what a client reads out of them, and what it learns for them.

use super::{Client, Link, MISLED_MAX};
use crate::cache::{Copy, Look, Place, RangeCopy};
use crate::coordinator::CopyRead;
use crate::message::{Outcome, Purpose, TableLease};
use crate::partition::{ServerId, TableId};
use noonmark::Timestamp;
use noonmark::branch::{KeptScan, Lease, Node, Values};
use std::ops::{Bound, Range};

/// What a transaction has done with other servers' rows.
#[derive(Default)]
pub(super) struct Remote {
    /// Read, and not written since.
    pub(super) seen: Vec<(Place, Values)>,
    /// Written; with the new values, if the row is there and they are known. Each row is there once: of one that was written group by
    /// group, no values are known.
    written: Vec<(Place, Option<Values>)>,
}

impl Remote {
    fn has_written(&self, place: &Place) -> bool {
        self.written.iter().any(|(written, _)| written.table == place.table && written.key == place.key)
    }

    /// Whether a row has been written that an index node has no record for.
    fn has_put_into(&self, server: ServerId, table: TableId, node: &Node) -> bool {
        let is_put_in = |written: &Place| {
            (written.server, written.table) == (server, table) && node.excludes(&written.key)
        };
        self.written.iter().any(|(written, _)| is_put_in(written))
    }

    pub(super) fn write(&mut self, place: Place, values: Option<Values>) {
        self.seen.retain(|(seen, _)| (seen.table, &seen.key) != (place.table, &place.key));
        let same_row =
            |(written, _): &&mut (Place, _)| (written.table, &written.key) == (place.table, &place.key);
        match self.written.iter_mut().find(same_row) {
            Some((written, before)) => *before = values.filter(|_| written.groups == place.groups),
            None => self.written.push((place, values)),
        }
    }
}

/// A scan of one server's rows.
pub(super) struct RangeScan<'a> {
    pub(super) server: ServerId,
    pub(super) table: TableId,
    pub(super) bounds: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    pub(super) groups: &'a Range<usize>,
    pub(super) reverse: bool,
    pub(super) limit: usize,
}

/// How to come by what is to be read.
pub(super) enum Way {
    /// Here it is, or it is known that there is none.
    Have(Option<Values>),
    /// By asking for it.
    Ask(Purpose, Option<Copy>),
}

impl<L: Link> Client<L> {
    /// What has been said of whole tables: for those of the last answers.
    pub(super) fn learn_of_tables(&mut self) -> Vec<(ServerId, TableId, TableLease)> {
        let tables = self.coordinator.take_tables();
        if let Some(cache) = &self.cache {
            tables.iter().for_each(|(server, table, lease)| cache.extend_table(*server, *table, *lease));
        }
        tables
    }

    /// Copies that were looked at hold until the commit time. (What the transaction has written itself held until before it, and what it
    /// has written takes its place.)
    pub(super) fn learn_from_commit(&mut self, at: Timestamp) {
        self.learn_of_tables();
        let renewed = self.coordinator.take_renewed();
        let Some(cache) = &self.cache else { return };
        for (CopyRead { place, lease, node }, table) in renewed {
            match node {
                Some(node) if !self.remote.has_put_into(place.server, place.table, &node) => {
                    cache.renew_node(place.server, place.table, &node, at);
                }
                None if !self.remote.has_written(&place) => cache.renew(&place, &lease.written, at, table),
                _ => {}
            }
        }
    }

    /// What the transaction, which has committed, has written is in the copies, too.
    pub(super) fn write_copies(&mut self, at: Timestamp) {
        let Some(cache) = &self.cache else { return };
        for (place, values) in self.remote.written.drain(..) {
            match values {
                Some(values) => cache.write(&place, values, at),
                None => {
                    cache.remove(place.table, &place.key);
                    cache.remove_node(place.server, place.table, &place.key);
                }
            }
        }
    }

    /// Where a row is asked for.
    pub(super) fn place(&self, table: TableId, key: &[u8], groups: &Range<usize>) -> Place {
        let server = self.map.reader(table, key, self.coordinator.client().server);
        Place { server, table, key: key.to_vec(), groups: groups.clone() }
    }

    /// How to come by what is there.
    pub(super) fn way(&mut self, place: &Place) -> Way {
        let Some(cache) = self.cache.as_ref().filter(|_| place.server != self.coordinator.client().server)
        else {
            return Way::Ask(Purpose::Read, None);
        };
        if let Some((_, values)) = self.remote.seen.iter().find(|(seen, _)| seen == place) {
            return Way::Have(Some(values.clone()));
        }
        if self.remote.has_written(place) {
            return Way::Ask(Purpose::Read, None);
        }
        if self.misled >= MISLED_MAX {
            return Way::Ask(Purpose::Keep, None);
        }
        match cache.look(place) {
            Look::Reuse(Copy { values, lease }) => {
                self.read_copy(place, &values, lease);
                Way::Have(Some(values))
            }
            Look::Request(copy) => Way::Ask(Purpose::Confirm(copy.lease.written.clone()), Some(copy)),
            Look::Miss => match cache.look_absent(place) {
                Some(node) if !self.remote.has_put_into(place.server, place.table, &node) => {
                    self.coordinator.read_copy(CopyRead::of_node(place.server, place.table, node));
                    Way::Have(None)
                }
                _ => Way::Ask(Purpose::Keep, None),
            },
        }
    }

    /// A row is read out of a copy.
    fn read_copy(&mut self, place: &Place, values: &Values, lease: Lease) {
        self.coordinator.read_copy(CopyRead { place: place.clone(), lease, node: None });
        self.remote.seen.push((place.clone(), values.clone()));
    }

    /// The rows of a range at another server, out of copies, if there are copies of all of it.
    pub(super) fn look_range(&mut self, scan: &RangeScan<'_>) -> Option<Vec<(Vec<u8>, Values)>> {
        let RangeScan { server, table, bounds, groups, reverse, limit } = *scan;
        let cache = self.cache.as_ref().filter(|_| self.misled < MISLED_MAX)?;
        // What the transaction itself has written, its server knows.
        let has_written =
            self.remote.written.iter().any(|(place, _)| (place.server, place.table) == (server, table));
        if has_written {
            return None;
        }
        let RangeCopy { nodes, rows } = cache.look_range((server, table), bounds, groups, reverse, limit)?;
        for node in nodes {
            self.coordinator.read_copy(CopyRead::of_node(server, table, node));
        }
        let read = |(place, Copy { values, lease }): (Place, Copy)| {
            let seen =
                self.remote.seen.iter().find(|(seen, _)| *seen == place).map(|(_, values)| values.clone());
            let values = seen.unwrap_or_else(|| {
                self.read_copy(&place, &values, lease);
                values
            });
            (place.key, values)
        };
        Some(rows.into_iter().map(read).collect())
    }

    /// The rows of a range, as its server has told them, perhaps to be kept.
    pub(super) fn take_range(
        &mut self,
        scan: &RangeScan<'_>,
        outcome: Outcome,
    ) -> Option<Vec<(Vec<u8>, Values)>> {
        let KeptScan { rows, nodes } = match outcome {
            Outcome::Rows(rows) => return Some(rows),
            Outcome::Kept(kept) => kept,
            _ => return None,
        };
        let (server, table) = (scan.server, scan.table);
        let cache = self.cache.clone();
        if let Some(cache) = &cache {
            nodes.into_iter().for_each(|node| cache.keep_node(server, table, node));
        }
        let keep = |(key, values, lease): (Vec<u8>, Values, Option<Lease>)| {
            if let (Some(cache), Some(lease)) = (&cache, lease) {
                let place = Place { server, table, key: key.clone(), groups: scan.groups.clone() };
                cache.keep(&place, Copy { values: values.clone(), lease }, None, None);
            }
            (key, values)
        };
        Some(rows.into_iter().map(keep).collect())
    }

    /// What was read, whether it was told or is as in the copy.
    pub(super) fn take_read(
        &mut self,
        place: Place,
        had: Option<Copy>,
        outcome: Outcome,
        tables: &[(ServerId, TableId, TableLease)],
    ) -> Outcome {
        let (values, lease, had) = match (outcome, had) {
            (Outcome::Copy(values, lease), had) => (values, lease, had.map(|_| false)),
            (Outcome::Current(lease), Some(had)) => (had.values, Some(lease), Some(true)),
            (Outcome::Absent(node), had) => {
                if let Some(cache) = &self.cache {
                    if had.is_some() {
                        cache.drop_stale(place.server, place.table, &place.key);
                    }
                    cache.keep_node(place.server, place.table, node);
                }
                return Outcome::Row(None);
            }
            (Outcome::Row(None), Some(_)) => {
                if let Some(cache) = &self.cache {
                    cache.drop_stale(place.server, place.table, &place.key);
                }
                return Outcome::Row(None);
            }
            (outcome, _) => return outcome,
        };
        if let (Some(cache), Some(lease)) = (&self.cache, lease) {
            let of_table = |(server, table, _): &&(ServerId, TableId, TableLease)| {
                (*server, *table) == (place.server, place.table)
            };
            let table = tables.iter().find(of_table).map(|(.., lease)| *lease);
            cache.keep(&place, Copy { values: values.clone(), lease }, table, had);
            self.remote.seen.push((place, values.clone()));
        }
        Outcome::Row(Some(values))
    }
}
