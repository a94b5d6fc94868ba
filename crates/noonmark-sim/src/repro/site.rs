//! Where the servers of a cluster are, and how far that is.

use crate::Picoseconds;
use crate::network::latency::Latency;

/// Where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In one room.
    Room,
    /// In one room, over a network that others crowd: some messages are on their way for far longer than most.
    Crowded,
    /// Each in a datacenter of its own, on four continents: the eight of Sundial §6.8. More servers than these are in them in turn.
    World,
}

/// Round trips between Amazon's regions in milliseconds: North Virginia, North California, Ireland, Frankfurt, Singapore,
/// Sydney, Tokyo, Mumbai. Means of both directions, from measurements that were published in 2017
/// (acomputerscientistlearnsaws.blogspot.com/2017/04/aws-regions.html), which was when the paper's were made. They lack Mumbai:
/// its row is about what monitors of later years show.
const ROUND_TRIPS_MS: [[u16; 8]; 8] = [
    [0, 72, 81, 89, 217, 230, 145, 185],
    [72, 0, 153, 167, 174, 158, 103, 235],
    [81, 153, 0, 20, 239, 310, 212, 122],
    [89, 167, 20, 0, 326, 323, 237, 112],
    [217, 174, 239, 326, 0, 175, 74, 62],
    [230, 158, 310, 323, 175, 0, 104, 225],
    [145, 103, 212, 237, 74, 104, 0, 128],
    [185, 235, 122, 112, 62, 225, 128, 0],
];

/// The tail that messages have on a crowded network: so many of a thousand are on their way for no longer than so many times
/// the median. Nobody's measurement: its shape is what matters, that the few slow ones are slower by an order of magnitude.
const CROWDED: [(u16, f64); 6] =
    [(0, 5.0 / 6.0), (500, 1.0), (900, 1.25), (990, 3.0), (999, 10.0), (1_000, 30.0)];

impl Site {
    /// How long a message is on its way to a server in the same place, if that is mostly so long.
    pub(super) fn latency(self, mostly_ns: u64) -> Latency {
        let a_sixth_more_or_less =
            Latency::Uniform { min_ns: mostly_ns - mostly_ns / 6, max_ns: mostly_ns + mostly_ns / 6 };
        match self {
            Site::Room | Site::World => a_sixth_more_or_less,
            Site::Crowded => {
                let points = CROWDED
                    .map(|(permille, times)| (f64::from(permille) / 1e3, (mostly_ns as f64 * times) as u64));
                Latency::quantiles(&points).unwrap_or(a_sixth_more_or_less)
            }
        }
    }

    /// How many times as long as half of the messages take so many of a thousand on a crowded network, at most.
    pub(super) fn of_crowded(permille: u16) -> f64 {
        CROWDED.iter().find(|point| point.0 == permille).map_or(1.0, |point| point.1)
    }

    /// The least and the most time of a round trip between two different places, in milliseconds.
    pub(super) fn round_trips_ms(self) -> (u16, u16) {
        let trips = || ROUND_TRIPS_MS.iter().flatten().copied().filter(|&ms| ms > 0);
        match self {
            Site::Room | Site::Crowded => (0, 0),
            Site::World => (trips().min().unwrap_or(0), trips().max().unwrap_or(0)),
        }
    }

    /// How much longer a message is on its way than in a room, by the numbers of the sender and of the receiver.
    pub(super) fn between_ns(self, servers: u16) -> Vec<Vec<u64>> {
        let place = |server: u16| usize::from(server) % ROUND_TRIPS_MS.len();
        let half_ns = |from, to| u64::from(ROUND_TRIPS_MS[place(from)][place(to)]) * 500_000;
        match self {
            Site::Room | Site::Crowded => Vec::new(),
            Site::World => {
                (0..servers).map(|from| (0..servers).map(|to| half_ns(from, to)).collect()).collect()
            }
        }
    }

    /// How many times longer a run is than one on virtual cores, as transactions take so much longer.
    pub(super) fn slower(self) -> Picoseconds {
        match self {
            Site::Room | Site::Crowded => 25,
            Site::World => 25_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_as_far() {
        for (from, trips) in ROUND_TRIPS_MS.iter().enumerate() {
            for (to, &ms) in trips.iter().enumerate() {
                assert_eq!(ms, ROUND_TRIPS_MS[to][from]);
                assert_eq!(ms == 0, from == to);
            }
        }
        assert_eq!(Site::World.round_trips_ms(), (20, 326));
    }

    #[test]
    fn a_crowded_network_has_the_same_median_and_a_tail() {
        let latency = Site::Crowded.latency(30_000);
        assert!(matches!(latency, Latency::Quantiles(_)));
        assert_eq!((latency.min_ns(), latency.max_ns()), (25_000, 900_000));
        let elsewhere = Latency::Uniform { min_ns: 25_000, max_ns: 35_000 };
        assert_eq!((Site::Room.latency(30_000), Site::World.latency(30_000)), (elsewhere.clone(), elsewhere));
    }

    #[test]
    fn nine_servers_are_at_eight_places() {
        let between_ns = Site::World.between_ns(9);
        assert_eq!((between_ns[0][4], between_ns[8][4], between_ns[0][8]), (108_500_000, 108_500_000, 0));
        assert!(Site::Room.between_ns(9).is_empty());
    }
}
