//! Dining philosophers: a fork lies between each two at the table, and who eats needs both of his.
//!
//!     cargo run --release -p noonmark-stm --example philosophers
//!
//! Shows: two variables changed in one transaction, so that nobody ever holds one fork and waits for the other; `retry`,
//! which sleeps until something that was read has changed; and a rule of fairness that is one more line of the transaction:
//! nobody begins a meal while a neighbour has had fewer. So neighbours are never more than one meal apart, and nobody
//! starves, by the rules of the table and not by chance.
//!
//! Somebody looks on, who sleeps until there is something new to see, and tells whether that is so.

use noonmark_stm::{Global, Host, Interrupted, Reads, TVar, Threads, Tx, atomically, view};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PHILOSOPHERS: usize = 5;
const MEALS_EACH: u64 = 1_000;

#[derive(Default)]
struct Place {
    /// The fork at its left: who has it. The one at its right is the next place's.
    fork: TVar<Option<usize>>,
    meals: TVar<u64>,
    /// Whether somebody eats with the fork. Not in the transactional memory: it checks what that promises.
    is_fork_in_a_mouth: AtomicBool,
}

struct Table([Place; PHILOSOPHERS]);

impl Table {
    fn left_of(&self, seat: usize) -> &Place {
        &self.0[(seat + PHILOSOPHERS - 1) % PHILOSOPHERS]
    }

    fn right_of(&self, seat: usize) -> &Place {
        &self.0[(seat + 1) % PHILOSOPHERS]
    }

    /// Takes both forks, when they are there and it is one's turn.
    fn pick_up<'tx>(&'tx self, tx: Tx<'tx, '_>, seat: usize) -> Result<(), Interrupted> {
        let (left, right) = (&self.0[seat].fork, &self.right_of(seat).fork);
        if left.get(tx)?.is_some() || right.get(tx)?.is_some() {
            return tx.retry();
        }
        let meals = self.0[seat].meals.get(tx)?;
        if self.left_of(seat).meals.get(tx)? < meals || self.right_of(seat).meals.get(tx)? < meals {
            return tx.retry();
        }
        left.set(tx, Some(seat))?;
        right.set(tx, Some(seat))
    }

    /// Puts both back, after a meal.
    fn put_down<'tx>(&'tx self, tx: Tx<'tx, '_>, seat: usize) -> Result<(), Interrupted> {
        self.0[seat].meals.update(tx, |meals| meals + 1)?;
        self.0[seat].fork.set(tx, None)?;
        self.right_of(seat).fork.set(tx, None)
    }

    /// Between picking up and putting down, outside of any transaction. Whether both forks were in nobody else's mouth.
    fn eat(&self, seat: usize, host: &Threads) -> bool {
        let forks = [&self.0[seat], self.right_of(seat)].map(|place| &place.is_fork_in_a_mouth);
        // Relaxed: the forks hand it on from one to the next.
        let were_free = forks.map(|fork| !fork.swap(true, Ordering::Relaxed));
        (0..8).for_each(|turn| host.spin(turn));
        forks.iter().for_each(|fork| fork.store(false, Ordering::Relaxed));
        were_free == [true, true]
    }

    /// What can be seen at one moment: who has which fork, and who has had how many meals.
    fn look<'tx>(&'tx self, tx: impl Reads<'tx, Global>) -> Result<Seen, Interrupted> {
        let mut seen = ([None; PHILOSOPHERS], [0; PHILOSOPHERS]);
        for (seat, place) in self.0.iter().enumerate() {
            seen.0[seat] = place.fork.get(tx)?;
            seen.1[seat] = place.meals.get(tx)?;
        }
        Ok(seen)
    }
}

type Seen = ([Option<usize>; PHILOSOPHERS], [u64; PHILOSOPHERS]);

fn check((forks, meals): Seen) {
    for seat in 0..PHILOSOPHERS {
        let right = (seat + 1) % PHILOSOPHERS;
        let holds = [forks[seat], forks[right]].map(|holder| holder == Some(seat));
        assert_eq!(holds[0], holds[1], "philosopher {seat} holds one fork: {forks:?}");
        assert!(meals[seat].abs_diff(meals[right]) <= 1, "some wait while others eat: {meals:?}");
    }
}

fn main() {
    let table = Table(Default::default());
    let mut looks = 0u64;
    let all_had_both = thread::scope(|scope| {
        let table = &table;
        let dine = |seat| {
            let host = Threads::default();
            (0..MEALS_EACH).fold(true, |so_far, _| {
                atomically(|tx| table.pick_up(tx, seat));
                let had_both = table.eat(seat, &host);
                atomically(|tx| table.put_down(tx, seat));
                so_far && had_both
            })
        };
        let diners: Vec<_> = (0..PHILOSOPHERS).map(|seat| scope.spawn(move || dine(seat))).collect();
        let mut last = Seen::default();
        while last != ([None; PHILOSOPHERS], [MEALS_EACH; PHILOSOPHERS]) {
            last = atomically(|tx| {
                let seen = table.look(tx)?;
                if seen == last { tx.retry() } else { Ok(seen) }
            });
            check(last);
            looks += 1;
        }
        diners.into_iter().all(|diner| diner.join().expect("a philosopher panicked"))
    });
    assert!(all_had_both, "two ate with one fork");

    let (forks, meals) = view(|tx| table.look(tx));
    assert_eq!(forks, [None; PHILOSOPHERS], "a fork was not put back");
    assert_eq!(meals, [MEALS_EACH; PHILOSOPHERS], "somebody has starved");
    for (seat, meals) in meals.iter().enumerate() {
        println!("philosopher {seat} has had {meals} meals");
    }
    println!(
        "{looks} times somebody saw something new: each fork was where it belonged, and neighbours had eaten alike"
    );
}
