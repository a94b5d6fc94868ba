//! The order of sessions and of real time, in a number of edges that grows with the history
//! and not with its square.
//!
//! A transaction of unknown outcome may take effect at any time after it began: it comes after
//! what its process ran before and what had ended when it began, and before nothing.
//!
//! For real time, junctions stand in a row, each for a moment at which something begins after
//! something else has ended; who ended before that moment leads to it, who begins from it on
//! is led to. Equal times overlap.

use super::access::Accesses;
use super::graph::{EdgeKind, GraphBuilder};
use crate::history::Process;
use std::collections::HashMap;

/// Each transaction that counts before the next of its process.
pub(super) fn sessions(accesses: &Accesses<'_>, committed: &[bool], graph: &mut GraphBuilder) {
    let mut last: HashMap<Process, u32> = HashMap::new();
    for (number, transaction) in (0..).zip(accesses.history.transactions()) {
        if !committed[number as usize] {
            continue;
        }
        if let Some(&before) = last.get(&transaction.process) {
            graph.add(before, number, EdgeKind::Process, 0);
        }
        if transaction.finish_ns.is_some() {
            last.insert(transaction.process, number);
        }
    }
}

/// Each transaction that counts before all that began after it had ended.
pub(super) fn real_time(accesses: &Accesses<'_>, committed: &[bool], graph: &mut GraphBuilder) {
    let counting =
        || (0..).zip(accesses.history.transactions()).filter(|&(number, _)| committed[number as usize]);
    let mut finishes: Vec<(u64, u32)> =
        counting().filter_map(|(number, transaction)| Some((transaction.finish_ns?, number))).collect();
    finishes.sort_unstable();
    let mut starts: Vec<(u64, u32)> =
        counting().map(|(number, transaction)| (transaction.start_ns, number)).collect();
    starts.sort_unstable();

    let mut ended = 0;
    let mut junction = None;
    for (start_ns, number) in starts {
        let before = ended;
        let mut here = junction;
        while let Some(&(finish_ns, finished)) = finishes.get(ended)
            && finish_ns < start_ns
        {
            if ended == before {
                let new = graph.junctions(1);
                if let Some(junction) = junction {
                    graph.link(junction, new);
                }
                here = Some(new);
            }
            if let Some(here) = here {
                graph.add(finished, here, EdgeKind::RealTime, 0);
            }
            ended += 1;
        }
        junction = here;
        if let Some(junction) = junction {
            graph.link(junction, number);
        }
    }
}
