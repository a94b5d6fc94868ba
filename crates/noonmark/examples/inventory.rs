//! A shop's stock: orders take items while a buyer refills whatever runs low.
//!
//!     cargo run --release -p noonmark --example inventory
//!
//! Shows: keys that are tuples, a row of two column groups, a range scan over part of a key, and a
//! secondary index on one column group, which the transactions that change a row keep up.

use noonmark::{Abort, Database, SecondaryIndex, Table};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const WAREHOUSES: u16 = 3;
const ITEMS: u32 = 40;
const OPENING_PIECES: u32 = 30;
const LOW_PIECES: u32 = 10;
const REFILL_PIECES: u32 = 50;
const SHOPS: u64 = 3;
const ORDERS_EACH: u32 = 8_000;

noonmark::column_group! {
    /// What hardly changes. Reading it never meets an order.
    #[derive(Clone, Debug)]
    struct Product { price_cents: u32, weight_g: u32 }

    /// What every order changes.
    #[derive(Clone, Debug, PartialEq)]
    struct Stock { pieces: u32, sold: u64, refilled: u64 }
}

/// Warehouse and item.
type ItemKey = (u16, u32);
type Items = Table<ItemKey, (Product, Stock)>;
type ByPieces = SecondaryIndex<u32, ItemKey>;

fn name(key: ItemKey) -> String {
    format!("warehouse {}, item {}", key.0, key.1)
}

/// Sells up to so many pieces of one item; says how many, and for how much.
fn order(db: &Database, items: &Items, key: ItemKey, pieces: u32) -> Result<(u32, u64), Abort> {
    let (product, stock) = (items.group::<0>(), items.group::<1>());
    db.transact(|tx| {
        let price_cents = tx.need(&product, key)?.price_cents;
        let mut sold = 0;
        tx.update(&stock, key, |stock| {
            sold = pieces.min(stock.pieces);
            stock.pieces -= sold;
            stock.sold += u64::from(sold);
        })?;
        Ok((sold, u64::from(price_cents) * u64::from(sold)))
    })
}

/// Refills everything that runs low, in one transaction; says how many items.
///
/// The scan is part of the transaction: had an order made another item run low meanwhile, or refilling
/// one been somebody else's work, this transaction would not commit but run again.
fn refill(db: &Database, items: &Items, by_pieces: &ByPieces) -> Result<usize, Abort> {
    let stock = items.group::<1>();
    db.transact(|tx| {
        let low = tx.range_by(by_pieces, ..LOW_PIECES).collect()?;
        for (_, key) in &low {
            tx.update(&stock, key, |stock| {
                stock.pieces += REFILL_PIECES;
                stock.refilled += u64::from(REFILL_PIECES);
            })?;
        }
        Ok(low.len())
    })
}

fn shop(db: &Database, items: &Items, number: u64) -> Result<(u64, u64), Abort> {
    let mut state = number + 1;
    let (mut pieces, mut cents) = (0, 0);
    for _ in 0..ORDERS_EACH {
        // Knuth's linear congruential generator; its high bits are good enough for an example.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let warehouse = 1 + (state >> 60) as u16 % WAREHOUSES;
        let item = (state >> 40) as u32 % ITEMS;
        let (its_pieces, its_cents) = order(db, items, (warehouse, item), 1 + (state >> 33) as u32 % 3)?;
        pieces += u64::from(its_pieces);
        cents += its_cents;
    }
    Ok((pieces, cents))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let db = Database::in_memory();
    // The default options: `occ`, an ordered index, a timestamp for each column group.
    let items: Items = db.table("items")?;
    // Before there are rows. It depends on the stock only, so that changing a price passes it by.
    let by_pieces = items.group::<1>().create_index(&db, "by_pieces", |_, stock: &Stock| stock.pieces)?;
    db.transact(|tx| {
        for warehouse in 1..=WAREHOUSES {
            for item in 0..ITEMS {
                let product = Product { price_cents: 100 + 7 * item, weight_g: 50 * (item + 1) };
                let stock = Stock { pieces: OPENING_PIECES, sold: 0, refilled: 0 };
                tx.insert(&items, (warehouse, item), (product, stock))?;
            }
        }
        Ok(())
    })?;

    let done = AtomicBool::new(false);
    let (shops, refills) = thread::scope(|scope| {
        let buyer = scope.spawn(|| {
            let mut refills = 0;
            while !done.load(Ordering::Relaxed) {
                refills += refill(&db, &items, &by_pieces)?;
            }
            Ok::<_, Abort>(refills)
        });
        let (db, items) = (&db, &items);
        let threads: Vec<_> = (0..SHOPS).map(|number| scope.spawn(move || shop(db, items, number))).collect();
        let shops: Vec<_> = threads.into_iter().map(|t| t.join().expect("a shop panicked")).collect();
        done.store(true, Ordering::Relaxed);
        (shops, buyer.join().expect("the buyer panicked"))
    });
    let (mut pieces, mut cents) = (0, 0);
    for shop in shops {
        let (its_pieces, its_cents) = shop?;
        pieces += its_pieces;
        cents += its_cents;
    }
    println!(
        "{} orders sold {pieces} pieces for {}.{:02}",
        SHOPS * u64::from(ORDERS_EACH),
        cents / 100,
        cents % 100
    );
    println!("the buyer refilled an item {} times", refills?);

    // A range of the primary key: all items of one warehouse, whole rows, in order.
    let second = db.view(|tx| tx.range(&items, (2, 0)..=(2, u32::MAX)).collect())?;
    let worth: u64 = second.iter().map(|(_, (p, s))| u64::from(p.price_cents) * u64::from(s.pieces)).sum();
    let weight_g: u64 = second.iter().map(|(_, (p, s))| u64::from(p.weight_g) * u64::from(s.pieces)).sum();
    println!(
        "warehouse 2 has {} items, worth {}.{:02}, {} kg",
        second.len(),
        worth / 100,
        worth % 100,
        weight_g / 1000
    );

    // The secondary index, from the other end.
    println!("most in stock:");
    let most = db.view(|tx| tx.range_by(&by_pieces, ..).reverse().limit(3).collect())?;
    for (pieces, key) in most {
        println!("  {pieces:>3} pieces of {}", name(key));
    }
    print!("{}", db.conflicts());

    // The books agree: what came in is what went out and what is there; and the index is that of the rows.
    let (rows, entries) = db.view(|tx| {
        let rows = tx.range(&items.group::<1>(), ..).collect()?;
        Ok((rows, tx.range_by(&by_pieces, ..).collect()?))
    })?;
    for (key, stock) in &rows {
        let came = u64::from(OPENING_PIECES) + stock.refilled;
        assert_eq!(came, stock.sold + u64::from(stock.pieces), "{}", name(*key));
    }
    assert_eq!(rows.iter().map(|(_, stock)| stock.sold).sum::<u64>(), pieces);
    let mut expected: Vec<(u32, ItemKey)> = rows.iter().map(|(key, stock)| (stock.pieces, *key)).collect();
    expected.sort_unstable();
    assert_eq!(entries, expected);
    println!("every piece is accounted for");
    Ok(())
}
