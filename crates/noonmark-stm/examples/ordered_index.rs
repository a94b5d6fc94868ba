//! A market: offers by number, and the same offers by price, kept in step while many threads change them.
//!
//!     cargo run --release -p noonmark-stm --example ordered_index
//!
//! Shows: two maps changed in one transaction, so that whoever looks finds that they agree; an entry that moves from
//! one map to another, and is always in one of them; ranges; and queues that are drained by `retry` and `or_else`, an
//! item leaving its queue in the same transaction in which it appears in the maps. Who finds a queue full waits, too.
//!
//! Sellers put offers into two queues; clerks enter them; sellers also change their prices; a buyer buys the cheapest. All
//! the while somebody looks at everything, for whom the others wait now and then, so that there is something to see.

use noonmark_stm::{Interrupted, Snapshot, TQueue, TRavlMap, TVar, Tx, atomically, view};
use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;

const SELLERS: u64 = 2;
const OFFERS_EACH: u64 = 1_000;
const OFFERS: u64 = SELLERS * OFFERS_EACH;
const CLERKS: u64 = 2;
const BOUGHT: u64 = OFFERS / 2;
const CENTS_MAX: u64 = 1_000;
/// How many may wait in a queue.
const QUEUE_MAX: u64 = 4;
/// Who has sold or bought so many waits for the next look.
const DEALS_A_LOOK: u64 = 20;
const FAIR_CENTS: Range<u64> = 600..800;

noonmark_stm::plain_struct! {
    #[derive(Debug, PartialEq)]
    struct Offer { number: u64, cents: u64 }
}

#[derive(Default)]
struct Market {
    express: TQueue<Offer>,
    arrivals: TQueue<Offer>,
    /// Who may still put something into the queues.
    sellers: TVar<u64>,
    /// By number: the price.
    open: TRavlMap<u64, u64>,
    /// The index: price and number of all that is in `open`.
    by_price: TRavlMap<(u64, u64), ()>,
    /// What has been bought: number and price.
    sold: TRavlMap<u64, u64>,
    /// How often somebody has looked.
    looks: TVar<u64>,
}

/// Takes the first out of a queue, and waits if there is none.
fn first<'tx>(tx: Tx<'tx, '_>, queue: &'tx TQueue<Offer>) -> Result<Offer, Interrupted> {
    match queue.pop(tx)? {
        Some(offer) => Ok(offer),
        None => tx.retry(),
    }
}

impl Market {
    /// Enters an offer that has arrived, express ones first. Waits for one; false if there will be none any more.
    fn enter_next<'tx>(&'tx self, tx: Tx<'tx, '_>) -> Result<bool, Interrupted> {
        let offer = tx.or_else(
            |tx| first(tx, &self.express).map(Some),
            |tx| {
                tx.or_else(
                    |tx| first(tx, &self.arrivals).map(Some),
                    |tx| if self.sellers.get(tx)? == 0 { Ok(None) } else { tx.retry() },
                )
            },
        )?;
        let Some(Offer { number, cents }) = offer else { return Ok(false) };
        self.open.insert(tx, number, cents)?;
        self.by_price.insert(tx, (cents, number), ())?;
        Ok(true)
    }

    /// Changes the price of an offer, if it is open: where it stands in the index, too.
    fn reprice<'tx>(&'tx self, tx: Tx<'tx, '_>, number: u64, cents: u64) -> Result<bool, Interrupted> {
        let Some(before) = self.open.get(tx, &number)? else { return Ok(false) };
        self.by_price.remove(tx, &(before, number))?;
        self.by_price.insert(tx, (cents, number), ())?;
        self.open.insert(tx, number, cents)?;
        Ok(true)
    }

    /// Moves the cheapest offer from those that are open to those that are sold; waits if there is none.
    fn buy_cheapest<'tx>(&'tx self, tx: Tx<'tx, '_>) -> Result<Offer, Interrupted> {
        let Some(((cents, number), ())) = self.by_price.pop_first(tx)? else { return tx.retry() };
        self.open.remove(tx, &number)?;
        self.sold.insert(tx, number, cents)?;
        Ok(Offer { number, cents })
    }

    /// Before a deal: now and then waits until somebody has looked once more.
    fn be_seen(&self, deals: u64) {
        if deals.is_multiple_of(DEALS_A_LOOK) {
            let looks = self.looks.load();
            atomically(|tx| if self.looks.get(tx)? == looks { tx.retry() } else { Ok(()) });
        }
    }

    /// All that can be seen at one moment.
    fn look<'tx>(&'tx self, tx: Snapshot<'tx, '_>) -> Result<Seen, Interrupted> {
        type Entry<'tx, K, V> = Result<(&'tx K, V), Interrupted>;
        let offer = |entry: Entry<'tx, u64, u64>| entry.map(|(number, cents)| (cents, *number));
        let key = |entry: Entry<'tx, (u64, u64), ()>| entry.map(|(key, ())| *key);
        let fair = (FAIR_CENTS.start, 0)..(FAIR_CENTS.end, 0);
        Ok(Seen {
            open: self.open.iter(tx).map(offer).collect::<Result<_, _>>()?,
            by_price: self.by_price.iter(tx).map(key).collect::<Result<_, _>>()?,
            fair: self.by_price.range(tx, fair).map(key).collect::<Result<_, _>>()?,
            sold: self.sold.iter(tx).map(offer).collect::<Result<_, _>>()?,
        })
    }
}

/// Prices and numbers, each in the order of its map.
struct Seen {
    open: Vec<(u64, u64)>,
    by_price: Vec<(u64, u64)>,
    fair: Vec<(u64, u64)>,
    sold: Vec<(u64, u64)>,
}

impl Seen {
    /// What is wrong, if anything is.
    fn fault(&self) -> Option<&'static str> {
        let mut open = self.open.clone();
        open.sort_unstable();
        if self.by_price != open {
            return Some("the index is not that of the offers");
        }
        open.retain(|(cents, _)| FAIR_CENTS.contains(cents));
        if self.fair != open {
            return Some("a range is not that of the offers");
        }
        let numbers: BTreeSet<u64> = self.open.iter().chain(&self.sold).map(|(_, number)| *number).collect();
        let is_one_place_each = numbers.len() == self.open.len() + self.sold.len();
        (!is_one_place_each).then_some("an offer is both open and sold")
    }
}

/// Puts its offers into the queues, every fourth of them express, and now and then changes the price of an earlier one.
/// Answers how many prices it has changed.
fn sell(market: &Market, seller: u64) -> u64 {
    // Knuth's linear congruential generator; its high bits are good enough for an example.
    let mut state = seller;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut changed = 0;
    for round in 0..OFFERS_EACH {
        market.be_seen(round);
        let offer = Offer { number: round * SELLERS + seller, cents: random(CENTS_MAX) };
        let queue = if round % 4 == 0 { &market.express } else { &market.arrivals };
        atomically(|tx| if queue.len(tx)? < QUEUE_MAX { queue.push(tx, offer) } else { tx.retry() });
        let (number, cents) = (random(round + 1) * SELLERS + seller, random(CENTS_MAX));
        changed += u64::from(atomically(|tx| market.reprice(tx, number, cents)));
    }
    atomically(|tx| market.sellers.update(tx, |sellers| sellers - 1));
    changed
}

fn main() {
    let market = Market { sellers: TVar::new(SELLERS), ..Market::default() };
    let (changed, entered, bought, faults) = thread::scope(|scope| {
        let market = &market;
        let sellers: Vec<_> = (0..SELLERS).map(|seller| scope.spawn(move || sell(market, seller))).collect();
        let clerk = move || {
            let mut entered = 0u64;
            while atomically(|tx| market.enter_next(tx)) {
                entered += 1;
            }
            entered
        };
        let clerks: Vec<_> = (0..CLERKS).map(|_| scope.spawn(clerk)).collect();
        let buy = move |deals| {
            market.be_seen(deals);
            atomically(|tx| market.buy_cheapest(tx))
        };
        let buyer = scope.spawn(move || (0..BOUGHT).map(buy).collect::<Vec<_>>());
        let mut faults = Vec::new();
        while !buyer.is_finished() || !clerks.iter().all(|clerk| clerk.is_finished()) {
            faults.extend(view(|tx| market.look(tx)).fault());
            atomically(|tx| market.looks.update(tx, |looks| looks + 1));
        }
        let changed: u64 = sellers.into_iter().map(|one| one.join().expect("a seller panicked")).sum();
        let entered: u64 = clerks.into_iter().map(|one| one.join().expect("a clerk panicked")).sum();
        (changed, entered, buyer.join().expect("the buyer panicked"), faults)
    });
    let seen = view(|tx| market.look(tx));
    assert_eq!((faults.first(), seen.fault()), (None, None));
    println!("{entered} offers entered, {changed} prices changed, {} offers bought", bought.len());
    let looks = market.looks.load();
    assert!(looks >= BOUGHT / DEALS_A_LOOK);
    println!("{looks} times somebody looked: both indexes agreed, and each offer was in one place");

    assert_eq!(entered, OFFERS);
    assert_eq!((seen.open.len() as u64, seen.sold.len() as u64), (OFFERS - BOUGHT, BOUGHT));
    assert!(
        view(|tx| Ok(market.express.is_empty(tx)? && market.arrivals.is_empty(tx)?)),
        "an offer was left behind"
    );
    // The buyer's own list says the same as the map.
    let mut bought: Vec<_> = bought.iter().map(|offer| (offer.number, offer.cents)).collect();
    bought.sort_unstable();
    assert!(bought.into_iter().eq(seen.sold.iter().map(|(cents, number)| (*number, *cents))));
    println!("open now: {}, of which {} at a fair price", seen.open.len(), seen.fair.len());
    println!("no offer was lost, and none was sold twice");
}
