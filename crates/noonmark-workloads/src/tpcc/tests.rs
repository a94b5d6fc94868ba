//! The workload as a whole, over a store: every test is written for any store and run on each.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::population::district_ids;
use super::request::{Kind, Line, NewOrderRequest, PaymentRequest, Request, Who};
use super::schema::*;
use super::*;
use crate::store::{Failure, Rows, Scan, Session, Table};

const SMALL: Scale = Scale { warehouses: 2, customers: 30, items: 200 };

fn options() -> Options {
    Options { scale: SMALL, seed: 7, apart: true, ..Options::default() }
}

/// TPC-C on a store of its own.
struct Ready<S: Store> {
    store: S,
    tpcc: Tpcc<S>,
}

impl<S: Store> Ready<S> {
    fn session(&self) -> S::Session {
        self.store.session().expect("a session")
    }

    fn check(&self, workers: Vec<Worker>) -> Vec<Condition> {
        self.tpcc.check(&mut self.session(), &mut { workers }).expect("checks")
    }

    fn worker(&self, number: usize, requests: usize) -> Worker {
        let random = crate::random::Random::new(self.tpcc.options.seed, number as u64 + 1);
        let epoch = std::time::Instant::now();
        self.tpcc.worker(Seat { number, count: 2, random, requests, epoch }).expect("a worker")
    }
}

fn loaded<S: Store>(store: &S, options: Options) -> Ready<S> {
    let tpcc = Tpcc::create(store, options).expect("a fresh store");
    for index in 0..2 {
        let mut session = store.session().expect("a session");
        tpcc.load(&mut session, Share { index, count: 2 }, &|_| {}).expect("loads");
    }
    Ready { store: store.clone(), tpcc }
}

/// All rows of everything that the five transactions change, in words.
fn snapshot<S: Store>(ready: &Ready<S>) -> BTreeMap<String, String> {
    let mut into = BTreeMap::new();
    let tables = &ready.tpcc.tables;
    add_rows(ready, "warehouse", &tables.warehouse, &mut into);
    add_rows(ready, "district", &tables.district, &mut into);
    add_rows(ready, "customer", &tables.customer, &mut into);
    add_rows(ready, "history", &tables.history, &mut into);
    add_rows(ready, "new_order", &tables.new_order, &mut into);
    add_rows(ready, "order", &tables.order, &mut into);
    add_rows(ready, "order_line", &tables.order_line, &mut into);
    add_rows(ready, "stock", &tables.stock, &mut into);
    into
}

fn add_rows<S: Store, T: Rows<S>>(ready: &Ready<S>, name: &str, rows: &T, into: &mut BTreeMap<String, String>)
where
    T::Value: std::fmt::Debug,
{
    change(ready, |tx| {
        rows.range(tx, .., Scan::ALL, |key, value| {
            into.insert(format!("{name} {key:?}"), format!("{value:?}"));
            ControlFlow::Continue(())
        })
    });
}

fn assert_consistent<S: Store>(ready: &Ready<S>, workers: Vec<Worker>) {
    for condition in ready.check(workers) {
        assert!(condition.holds, "{}", condition.words);
    }
}

/// The standard's conditions and that of STOCK only: where no worker has counted what was run.
fn assert_conditions<S: Store>(ready: &Ready<S>) {
    for condition in ready.check(Vec::new()) {
        assert!(condition.holds || condition.words.starts_with("besides: the number"), "{}", condition.words);
    }
}

/// Runs a closure as a transaction that may change everything.
fn change<S: Store>(ready: &Ready<S>, mut body: impl FnMut(&mut S::Txn<'_>) -> Result<(), S::Abort>) {
    let done = ready.session().run(&ready.tpcc.tables.scopes.load, |tx| Ok(body(tx)?));
    assert!(done.is_ok(), "{:?}", done.err().map(|failure| failure.to_string()));
}

fn read<S: Store, T: Rows<S>>(ready: &Ready<S>, rows: &T, key: T::Key) -> Option<T::Value> {
    let mut value = None;
    change(ready, |tx| {
        value = rows.get(tx, &key)?;
        Ok(())
    });
    value
}

/// Ordered indexes everywhere, so that tests can read whole tables.
fn ordered() -> Options {
    Options { points: IndexKind::Ordered, ..options() }
}

fn the_population_is_whole_and_consistent<S: Store>(store: &S) {
    let tpcc = Tpcc::create(store, ordered()).expect("a fresh store");
    let done = std::cell::Cell::new(0);
    for index in 0..3 {
        let mut session = store.session().expect("a session");
        let share = Share { index, count: 3 };
        tpcc.load(&mut session, share, &|rows| done.set(done.get() + rows)).expect("loads");
    }
    let total = tpcc.rows();
    assert!(total.abs_diff(done.get()) < total / 20, "{} rows, foreseen {total}", done.get());
    let ready = Ready { store: store.clone(), tpcc };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for key in snapshot(&ready).into_keys() {
        *counts.entry(key.split(' ').next().expect("a name").to_owned()).or_default() += 1;
    }
    let population = Population::new(SMALL, 7);
    let mut lines = 0;
    for w_id in SMALL.warehouse_ids() {
        for d_id in district_ids() {
            for o_id in 1..=30 {
                lines += u32::from(population.order((w_id, d_id, o_id), 1).0.ol_cnt);
            }
        }
    }
    let expected = [
        ("customer", 600),
        ("district", 20),
        ("history", 600),
        ("new_order", 180),
        ("order", 600),
        ("order_line", lines),
        ("stock", 400),
        ("warehouse", 2),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected.map(|(name, n)| (name.to_owned(), n)));
    assert_consistent(&ready, Vec::new());
    let again = ready.tpcc.load(&mut ready.session(), Share { index: 0, count: 1 }, &|_| {});
    assert!(again.is_err_and(|error| error.to_string().contains("there are rows already")));
}

/// The first New-Order of a mix that does, or does not, roll itself back, with its lines.
fn an_order(rolls_back: bool) -> (NewOrderRequest, Vec<Line>) {
    let requests =
        Requests::draw(SMALL, Mix::Half, Items::NonUniform, Constants::of(1), Dice::at(1, 1, 1), 1, 10_000);
    let order = requests.iter().find_map(|request| match request {
        Request::NewOrder(order) => {
            let lines = requests.lines(order);
            let invalid = lines.iter().any(|line| line.i_id > SMALL.items);
            (invalid == rolls_back).then(|| (*order, lines.to_vec()))
        }
        _ => None,
    });
    order.expect("one in ten thousand")
}

fn tpcc_2_4_new_order_enters_an_order<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let mut session = ready.session();
    let (order, _) = an_order(false);
    // An item twice, and one from the other warehouse.
    let lines = [(5, 1, 3), (9, 2, 4), (5, 1, 2)].map(|(i_id, supply_w_id, quantity)| Line {
        i_id,
        supply_w_id,
        quantity,
    });
    for (access, o_id) in [(Access::OneByOne, 31), (Access::MultiGet, 32)] {
        let tables = &ready.tpcc.tables;
        let before = [(1, 5), (2, 9)].map(|key| read(&ready, &tables.stock_level, key).expect("a stock"));
        let mut answer = NewOrderAnswer::default();
        let run = tables.run_new_order(&mut session, access, 1, &order, &lines, &mut answer);
        assert!(run.is_ok() && !answer.duplicate);
        assert_eq!(answer.o_id, o_id);
        let after = [(1, 5), (2, 9)].map(|key| read(&ready, &tables.stock_level, key).expect("a stock"));
        assert_eq!(after[0].ytd, before[0].ytd + 5, "{access:?}: taken twice");
        assert_eq!((after[0].order_cnt, after[0].remote_cnt), (before[0].order_cnt + 2, 0));
        assert_eq!((after[1].ytd, after[1].remote_cnt), (before[1].ytd + 4, before[1].remote_cnt + 1));
        let key = (1, order.d_id, o_id);
        let (entry, carrier) = read(&ready, &tables.order, key).expect("the order");
        assert_eq!((entry.c_id, carrier.carrier_id, entry.ol_cnt), (order.c_id, 0, 3));
        assert!(read(&ready, &tables.new_order, key).is_some());
        let mut sum = 0;
        for (line, number) in lines.iter().zip(1..) {
            let row = read(&ready, &tables.order_line, (1, order.d_id, o_id, number)).expect("a line");
            let item = read(&ready, &tables.item, line.i_id).expect("an item");
            let info = read(&ready, &tables.stock_info, (line.supply_w_id, line.i_id)).expect("a stock");
            assert_eq!(row.amount_cents.get(), i64::from(item.price_cents) * i64::from(line.quantity));
            assert_eq!(row.dist_info, info.dist[usize::from(order.d_id) - 1]);
            assert_eq!((row.i_id, row.supply_w_id, row.delivery_ms.get()), (line.i_id, line.supply_w_id, 0));
            let shown = &answer.lines[usize::from(number) - 1];
            assert_eq!(shown.branded, is_original(&item.data) && is_original(&info.data));
            sum += row.amount_cents.get();
        }
        let customer = read(&ready, &tables.customer_info, (1, order.d_id, order.c_id)).expect("a customer");
        let district = read(&ready, &tables.district_orders, (1, order.d_id)).expect("a district");
        let warehouse = read(&ready, &tables.warehouse_info, 1).expect("a warehouse");
        let exact = sum as f64
            * (1.0 - f64::from(customer.discount_e4) / 1e4)
            * (1.0 + f64::from(warehouse.tax_e4 + district.tax_e4) / 1e4);
        assert!((answer.total_cents as f64 - exact).abs() <= 1.0);
        assert_eq!(district.next_o_id, o_id + 1);
    }
    // Three lines are fewer than the standard has, but consistent.
    assert_conditions(&ready);
}

fn tpcc_2_4_1_4_a_rolled_back_order_leaves_nothing<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let before = snapshot(&ready);
    let mut session = ready.session();
    let (order, lines) = an_order(true);
    for access in [Access::OneByOne, Access::MultiGet] {
        let mut answer = NewOrderAnswer::default();
        let run = ready.tpcc.tables.run_new_order(&mut session, access, 1, &order, &lines, &mut answer);
        assert!(matches!(run, Err(Failure::Rollback)));
    }
    assert_eq!(snapshot(&ready), before);
    assert_eq!((session.counts().user_rollbacks, session.counts().commits), (2, 0));
}

fn tpcc_2_5_payment_pays_by_number_and_by_name<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let mut session = ready.session();
    let tables = &ready.tpcc.tables;
    let population = Population::new(SMALL, 7);
    let bad = (1..=30).find(|&c| population.customer((2, 4, c)).0.credit == *b"BC").expect("bad credit");
    for (number, updates, taking) in [
        (0, Updates::Plain, Taking::Groups),
        (1, Updates::CommitTime, Taking::Groups),
        (2, Updates::Plain, Taking::Rows),
    ] {
        let payment = PaymentRequest {
            d_id: 3,
            c_d_id: 4,
            c_w_id: 2,
            who: Who::Number(bad),
            amount_cents: 123_45,
            date_ms: 99,
        };
        let before = read(&ready, &tables.customer_account, (2, 4, bad)).expect("a customer");
        let w_before = read(&ready, &tables.warehouse_ytd, 1).expect("a warehouse").ytd_cents;
        let options = Options { totals: updates.into(), taking, ..options() };
        let run = tables.run_payment(&mut session, &options, 1, (9, number), &payment, &mut Vec::new());
        let Ok(answer) = run else { panic!("{updates:?}") };
        let after = read(&ready, &tables.customer_account, (2, 4, bad)).expect("a customer");
        assert_eq!(after.balance_cents, before.balance_cents - 123_45);
        assert_eq!(after.ytd_payment_cents, before.ytd_payment_cents + 123_45);
        assert_eq!(after.payment_cnt, before.payment_cnt + 1);
        let expected = format!("{bad} 4 2 3 1 123.45|");
        let notes = read(&ready, &tables.customer_data, (2, 4, bad)).expect("a customer").data;
        assert!(notes.starts_with(expected.as_bytes()));
        assert_eq!(answer.data.as_ref().map(|data| &data[..]), notes.get(..200));
        assert_eq!((answer.balance_cents, answer.c_id, answer.duplicate), (after.balance_cents, bad, false));
        let w_after = read(&ready, &tables.warehouse_ytd, 1).expect("a warehouse").ytd_cents;
        assert_eq!(w_after, w_before + 123_45, "{updates:?}");
        let row = read(&ready, &tables.history, (9, number)).expect("a row of history");
        assert_eq!((row.w_id, row.d_id, row.c_w_id, row.c_d_id, row.c_id), (1, 3, 2, 4, bad));
        assert_eq!((row.amount_cents, row.date_ms), (123_45, 99));
    }
    assert_conditions(&ready);
    // A key of history that is taken is told.
    let payment = PaymentRequest {
        d_id: 3,
        c_d_id: 4,
        c_w_id: 2,
        who: Who::LastName(dice::last_name(7)),
        amount_cents: 1,
        date_ms: 1,
    };
    let run = tables.run_payment(&mut session, &options(), 1, (9, 0), &payment, &mut Vec::new());
    assert!(run.is_ok_and(|answer| answer.duplicate));
}

fn tpcc_2_5_2_2_a_name_means_the_customer_in_the_middle<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let last = *b"MIDDLEMOST\0\0\0\0\0\0";
    let firsts: [&[u8; 16]; 5] = [
        b"d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    // Of a, ab, b, c, d so far: with one a; with a, d the first; with three ab; with four ab; with five b.
    let expected: [&[u8]; 5] = [b"d", b"a", b"ab", b"ab", b"b"];
    let mut session = ready.session();
    for (at, (first, expected)) in firsts.into_iter().zip(expected).enumerate() {
        let (mut info, account, data) = Population::new(SMALL, 7).customer((1, 1, 1));
        (info.first, info.last) = (*first, last);
        let key = (1, 1, 1000 + at as u32);
        change(&ready, |tx| {
            ready.tpcc.tables.customer.insert(tx, &key, (info.clone(), account.clone(), data.clone()))?;
            Ok(())
        });
        let (mut lines, mut found) = (Vec::new(), Vec::new());
        let who = Who::LastName(last);
        let run = ready.tpcc.tables.run_order_status(&mut session, (1, 1), who, &mut lines, &mut found);
        let Ok(answer) = run else { panic!("the customer is there") };
        assert_eq!(text(&answer.customer.first), expected);
        assert_eq!((answer.order, lines.len()), (None, 0), "has never ordered");
    }
    let nobody = Who::LastName(*b"NOBODY\0\0\0\0\0\0\0\0\0\0");
    let run =
        ready.tpcc.tables.run_order_status(&mut session, (1, 1), nobody, &mut Vec::new(), &mut Vec::new());
    assert!(matches!(run, Err(Failure::Rollback)));
}

fn tpcc_2_6_order_status_finds_the_last_order<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let mut session = ready.session();
    let (order, lines) = an_order(false);
    let district = (1, order.d_id);
    let (mut shown, mut found) = (Vec::new(), Vec::new());
    let mut status = |session: &mut S::Session| {
        let who = Who::Number(order.c_id);
        let run = ready.tpcc.tables.run_order_status(session, district, who, &mut shown, &mut found);
        let Ok(answer) = run else { panic!("the customer is there") };
        (answer, shown.clone())
    };
    let of_population = Population::new(SMALL, 7).order_customers(district);
    let first = of_population.iter().position(|&c_id| c_id == order.c_id).expect("each has one") as u32 + 1;
    let (answer, shown) = status(&mut session);
    let (o_id, (row, _)) = answer.order.expect("an order");
    assert_eq!((o_id, answer.balance_cents), (first, -10_00));
    assert_eq!(shown.len(), usize::from(row.ol_cnt));

    let mut entered = NewOrderAnswer::default();
    let run =
        ready.tpcc.tables.run_new_order(&mut session, Access::OneByOne, 1, &order, &lines, &mut entered);
    assert!(run.is_ok());
    let (answer, shown) = status(&mut session);
    assert_eq!(answer.order.expect("an order").0, 31);
    let items = |lines: &[OrderLine]| lines.iter().map(|line| line.i_id).collect::<Vec<_>>();
    assert_eq!(items(&shown), lines.iter().map(|line| line.i_id).collect::<Vec<_>>());
}

fn tpcc_2_7_delivery_takes_the_oldest_order_of_each_district<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let mut session = ready.session();
    let tables = &ready.tpcc.tables;
    // Nine open orders in each district: 22 to 30. District 4 loses one and so runs out one round earlier.
    for (round, o_id) in (22..=30).enumerate() {
        let access = if round % 2 == 0 { Access::OneByOne } else { Access::MultiGet };
        let due: i64 = read_lines(&ready, (1, 4, o_id)).iter().map(|line| line.amount_cents.get()).sum();
        let c_id = read(&ready, &tables.order_entry, (1, 4, o_id)).expect("an order").c_id;
        let run = tables.run_delivery(&mut session, access, 1, 6, 77);
        assert!(run.is_ok_and(|answer| answer == DeliveryAnswer { delivered: [o_id; 10], skipped: 0 }));
        assert_eq!(read(&ready, &tables.order_carrier, (1, 4, o_id)).expect("an order").carrier_id, 6);
        assert!(read(&ready, &tables.new_order, (1, 4, o_id)).is_none());
        assert!(read_lines(&ready, (1, 4, o_id)).iter().all(|line| line.delivery_ms.get() == 77));
        let account = read(&ready, &tables.customer_account, (1, 4, c_id)).expect("a customer");
        assert_eq!((account.balance_cents, account.delivery_cnt), (due - 10_00, 1));
        assert_conditions(&ready);
    }
    let run = tables.run_delivery(&mut session, Access::OneByOne, 1, 6, 77);
    assert!(run.is_ok_and(|answer| answer == DeliveryAnswer { delivered: [0; 10], skipped: 10 }));
    // The other warehouse has kept its own.
    assert!(read(&ready, &tables.new_order, (2, 4, 22)).is_some());
    assert_conditions(&ready);
}

fn read_lines<S: Store>(ready: &Ready<S>, (w_id, d_id, o_id): OrderKey) -> Vec<OrderLine> {
    (1..=15)
        .filter_map(|number| read(ready, &ready.tpcc.tables.order_line, (w_id, d_id, o_id, number)))
        .collect()
}

fn tpcc_2_8_stock_level_counts_each_item_of_the_last_twenty_orders_once<S: Store>(store: &S) {
    let ready = loaded(store, ordered());
    let mut session = ready.session();
    let mut met = Met::default();
    for threshold in [10, 15, 50, 101] {
        let mut items = std::collections::BTreeSet::new();
        for o_id in 11..=30 {
            items.extend(read_lines(&ready, (2, 5, o_id)).iter().map(|line| line.i_id));
        }
        let stocks = items.iter().map(|&i_id| read(&ready, &ready.tpcc.tables.stock_level, (2, i_id)));
        let expected = stocks.filter(|level| level.as_ref().is_some_and(|l| l.quantity < threshold)).count();
        assert!(threshold < 101 || expected == items.len());
        for access in [Access::OneByOne, Access::MultiGet] {
            let (tables, room) = (&ready.tpcc.tables, &mut Vec::new());
            let run = tables.run_stock_level(&mut session, access, (2, 5), threshold, room, &mut met);
            assert!(run.is_ok_and(|short| short as usize == expected), "{access:?} {threshold}");
        }
    }
}

/// Runs some thousand transactions on two threads, and holds the database to every condition and to the tallies.
fn a_mixed_run_stays_consistent<S: Store>(store: &S, options: Options) {
    const EACH: u64 = 1500;
    let (cards, numbers) = (options.mix.cards(), options.order_numbers);
    let ready = loaded(store, options);
    let workers: Vec<Worker> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..2)
            .map(|number| {
                let (mut worker, mut session) = (ready.worker(number, 1000), ready.session());
                let tpcc = &ready.tpcc;
                scope.spawn(move || {
                    let mut committed = 0;
                    for _ in 0..EACH {
                        match tpcc.execute(&mut session, &mut worker) {
                            Ok(()) => committed += 1,
                            Err(Failure::Rollback) => {}
                            Err(Failure::Abort(abort)) => panic!("{abort}"),
                        }
                    }
                    let counts = session.counts();
                    assert_eq!((counts.commits, counts.user_rollbacks), (committed, EACH - committed));
                    worker
                })
            })
            .collect();
        running.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let tables = &ready.tpcc.tables;
    let mut entered = 0;
    for w_id in SMALL.warehouse_ids() {
        for d_id in district_ids() {
            let district = read(&ready, &tables.district_orders, (w_id, d_id)).expect("a district");
            entered += u64::from(district.next_o_id - 31);
        }
    }
    let mut open = 0;
    change(&ready, |tx| {
        open = 0;
        tables.new_order.range(tx, .., Scan::ALL, |_, _| {
            open += 1;
            ControlFlow::Continue(())
        })
    });
    let tally = Tpcc::<S>::total(&workers);
    let orders = tally.committed[Kind::NewOrder as usize];
    let entered_due = if numbers == OrderNumbers::Column { orders } else { 0 };
    assert_eq!(
        entered, entered_due,
        "each committed New-Order has drawn one number, from the district or not"
    );
    assert_eq!(open, 180 + orders - tally.delivered);
    assert_eq!(tally.delivered + tally.skipped, 10 * tally.committed[Kind::Delivery as usize]);
    assert_eq!(tally.committed.iter().sum::<u64>() + tally.rolled_back, 2 * EACH);
    assert!(tally.rolled_back > 0);
    for (kind, cards) in Kind::ALL.into_iter().zip(cards) {
        assert_eq!(tally.committed[kind as usize] > 0, cards > 0, "{kind:?}");
    }
    assert_consistent(&ready, workers);
}

/// What breaks a condition: its number, what is done in words, and the doing.
type Corruption<S> =
    (u8, &'static str, fn(&Tables<S>, &mut <S as Store>::Txn<'_>) -> Result<(), <S as Store>::Abort>);

/// For each condition, changes that break it: most in district 3 of warehouse 1, where orders 1 to 21 are
/// delivered and 22 to 30 open. Payment 17 of the population is that of customer 18 in district 1.
fn corruptions<S: Store>() -> Vec<Corruption<S>> {
    vec![
        (1, "a warehouse's total is raised", |t, tx| t.warehouse_ytd.update(tx, &1, |w| w.ytd_cents += 1)),
        (1, "a warehouse vanishes", |t, tx| t.warehouse.delete(tx, &1).map(drop)),
        (1, "a district vanishes", |t, tx| t.district.delete(tx, &(1, 3)).map(drop)),
        (2, "a number is skipped", |t, tx| t.district_orders.update(tx, &(1, 3), |d| d.next_o_id += 1)),
        (2, "a number is given back", |t, tx| t.district_orders.update(tx, &(1, 3), |d| d.next_o_id -= 1)),
        (2, "numbers run wild", |t, tx| t.district_orders.update(tx, &(1, 3), |d| d.next_o_id = u32::MAX)),
        (2, "the last new order vanishes", |t, tx| t.new_order.delete(tx, &(1, 3, 30)).map(drop)),
        (3, "a new order in between vanishes", |t, tx| t.new_order.delete(tx, &(1, 3, 25)).map(drop)),
        (3, "a new order comes back", |t, tx| {
            t.new_order.insert(tx, &(1, 3, 7), NewOrder { open: 1 }).map(drop)
        }),
        (4, "a line vanishes", |t, tx| t.order_line.delete(tx, &(1, 3, 5, 1)).map(drop)),
        (4, "an order vanishes", |t, tx| t.order.delete(tx, &(1, 3, 5)).map(drop)),
        (4, "an order says one line more", |t, tx| t.order_entry.update(tx, &(1, 3, 5), |o| o.ol_cnt += 1)),
        (5, "an open order has a carrier", |t, tx| {
            t.order_carrier.update(tx, &(1, 3, 26), |o| o.carrier_id = 3)
        }),
        (5, "a delivered order has none", |t, tx| {
            t.order_carrier.update(tx, &(1, 3, 9), |o| o.carrier_id = 0)
        }),
        (5, "an order vanishes, its new order stays", |t, tx| t.order.delete(tx, &(1, 3, 30)).map(drop)),
        (6, "a line changes its order", |t, tx| {
            let line = t.order_line.need(tx, &(1, 3, 5, 1))?;
            t.order_line.delete(tx, &(1, 3, 5, 1))?;
            t.order_line.insert(tx, &(1, 3, 6, 99), line).map(drop)
        }),
        (6, "a line of no order", |t, tx| {
            let line = t.order_line.need(tx, &(1, 3, 5, 1))?;
            t.order_line.insert(tx, &(1, 3, 4_000_000_000, 1), line).map(drop)
        }),
        (7, "a delivered line loses its date", |t, tx| {
            t.order_line.update(tx, &(1, 3, 5, 2), |line| line.delivery_ms = Narrow::new(0))
        }),
        (7, "an open line gets a date", |t, tx| {
            t.order_line.update(tx, &(1, 3, 24, 2), |line| line.delivery_ms = Narrow::new(5))
        }),
        (8, "a payment vanishes from history", |t, tx| t.history.delete(tx, &(0, 17)).map(drop)),
        (8, "a payment moves to another warehouse", |t, tx| t.history.update(tx, &(0, 17), |h| h.w_id = 2)),
        (9, "a payment moves to another district", |t, tx| t.history.update(tx, &(0, 17), |h| h.d_id = 9)),
        (9, "a district's total is raised", |t, tx| t.district_ytd.update(tx, &(1, 3), |d| d.ytd_cents += 1)),
        (10, "a payment changes its customer", |t, tx| t.history.update(tx, &(0, 17), |h| h.c_id = 1)),
        (10, "a payment of nobody", |t, tx| t.history.update(tx, &(0, 17), |h| h.c_id = 77)),
        (10, "a balance is raised", |t, tx| {
            t.customer_account.update(tx, &(1, 3, 4), |account| account.balance_cents += 1)
        }),
        (11, "an order too many", |t, tx| {
            let order = t.order.need(tx, &(1, 3, 5))?;
            t.order.insert(tx, &(1, 3, 31), order).map(drop)
        }),
        (11, "a delivery is not counted", |t, tx| {
            t.customer_account.update(tx, &(1, 3, 4), |account| account.delivery_cnt += 1)
        }),
        (12, "a total paid is raised", |t, tx| {
            t.customer_account.update(tx, &(1, 3, 4), |account| account.ytd_payment_cents += 1)
        }),
        (12, "a delivered line is dearer", |t, tx| {
            t.order_line.update(tx, &(1, 3, 5, 2), |line| {
                line.amount_cents = Narrow::new(line.amount_cents.get() + 1)
            })
        }),
        (0, "a stock has given a piece more", |t, tx| {
            t.stock_level.update(tx, &(1, 50), |level| level.ytd += 1)
        }),
        (0, "a line has taken from no stock", |t, tx| {
            let line = t.order_line.need(tx, &(1, 3, 5, 1))?;
            t.order_line.insert(tx, &(1, 3, 31, 1), line).map(drop)
        }),
    ]
}

fn tpcc_3_3_2_each_condition_fails_where_it_is_violated<S: Store>(make: impl Fn() -> S) {
    let mut covered = std::collections::BTreeSet::new();
    for (number, what, corrupt) in corruptions::<S>() {
        let scale = Scale { items: 100, ..SMALL };
        let ready = loaded(&make(), Options { scale, ..ordered() });
        change(&ready, |tx| corrupt(&ready.tpcc.tables, tx));
        let (findings, _) =
            check::check(&ready.tpcc.tables, &mut ready.session(), scale, OrderNumbers::Column)
                .expect("checks");
        let violated: Vec<_> = findings.iter().filter(|finding| !finding.holds()).collect();
        assert!(violated.iter().any(|finding| finding.number == number), "{what}: {violated:?}");
        let told = ready.check(Vec::new());
        for finding in violated {
            assert!(told.iter().any(|c| !c.holds && c.words == finding.to_string()), "{finding}");
        }
        covered.insert(number);
    }
    assert_eq!(covered, (0..=12).collect());
}

/// What the suite runs on.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn population() {
                the_population_is_whole_and_consistent(&$make);
            }

            #[test]
            fn new_order() {
                tpcc_2_4_new_order_enters_an_order(&$make);
            }

            #[test]
            fn rollback() {
                tpcc_2_4_1_4_a_rolled_back_order_leaves_nothing(&$make);
            }

            #[test]
            fn payment() {
                tpcc_2_5_payment_pays_by_number_and_by_name(&$make);
            }

            #[test]
            fn last_name() {
                tpcc_2_5_2_2_a_name_means_the_customer_in_the_middle(&$make);
            }

            #[test]
            fn order_status() {
                tpcc_2_6_order_status_finds_the_last_order(&$make);
            }

            #[test]
            fn delivery() {
                tpcc_2_7_delivery_takes_the_oldest_order_of_each_district(&$make);
            }

            #[test]
            fn stock_level() {
                tpcc_2_8_stock_level_counts_each_item_of_the_last_twenty_orders_once(&$make);
            }

            #[test]
            fn conditions() {
                tpcc_3_3_2_each_condition_fails_where_it_is_violated(|| $make);
            }

            #[test]
            fn mixed_runs() {
                let variants = [
                    (Mix::Full, Split::Fine, Updates::Plain, Access::OneByOne, IndexKind::Hash),
                    (Mix::Full, Split::Fine, Updates::CommitTime, Access::MultiGet, IndexKind::Hash),
                    (Mix::Granularity, Split::Paper, Updates::Plain, Access::OneByOne, IndexKind::Ordered),
                    (Mix::Half, Split::Coarse, Updates::CommitTime, Access::OneByOne, IndexKind::Hash),
                    (Mix::Half, Split::Coarse, Updates::Plain, Access::MultiGet, IndexKind::Hash),
                ];
                for (mix, split, updates, access, points) in variants {
                    let options = Options { mix, split, totals: updates.into(), access, points, ..options() };
                    a_mixed_run_stays_consistent(&$make, options);
                }
                a_mixed_run_stays_consistent(&$make, Options { taking: Taking::Rows, ..options() });
            }

            /// As [Granularity §3] has it: numbers from a sequence, the warehouse's total added at commit.
            #[test]
            fn runs_with_numbers_from_a_sequence() {
                let options = Options {
                    mix: Mix::Granularity,
                    split: Split::Warehouse,
                    totals: Totals { warehouse: Updates::CommitTime, district: Updates::Plain },
                    order_numbers: OrderNumbers::Sequence,
                    items: Items::Uniform,
                    homes: Homes::Blocks,
                    ..options()
                };
                a_mixed_run_stays_consistent(&$make, options);
            }
        }
    };
}

suite!(mutex, crate::mutex::MutexStore::new());

#[test]
fn a_scale_that_cannot_be_is_refused() {
    let store = crate::mutex::MutexStore::new();
    let scale = Scale { warehouses: 0, ..SMALL };
    let refused = Tpcc::create(&store, Options { scale, ..options() });
    assert!(matches!(refused.err(), Some(RunError::Setting(_))));
}

#[test]
fn workers_live_in_warehouses_in_turn_and_never_repeat_a_history_key() {
    let ready = loaded(&crate::mutex::MutexStore::new(), options());
    let (mut session, mut workers) = (ready.session(), Vec::new());
    // Three generations of workers on one database.
    for _ in 0..3 {
        for number in 0..3 {
            let mut worker = ready.worker(number, 50);
            for _ in 0..120 {
                let run = ready.tpcc.execute(&mut session, &mut worker);
                assert!(matches!(run, Ok(()) | Err(Failure::Rollback)));
            }
            workers.push(worker);
        }
    }
    assert_consistent(&ready, workers);
}

#[test]
fn what_the_workers_counted_is_compared() {
    let ready = loaded(&crate::mutex::MutexStore::new(), options());
    let (mut session, mut worker) = (ready.session(), ready.worker(0, 300));
    for _ in 0..300 {
        let run = ready.tpcc.execute(&mut session, &mut worker);
        assert!(matches!(run, Ok(()) | Err(Failure::Rollback)));
    }
    // The worker is kept from the check, so its orders, payments and deliveries are of nobody.
    let failed = ready.check(Vec::new()).into_iter().filter(|condition| !condition.holds).count();
    assert_eq!(failed, 3);
    assert_consistent(&ready, vec![worker]);
}

#[test]
fn parameters_name_the_split() {
    let tpcc = Tpcc::create(&crate::mutex::MutexStore::new(), options()).expect("a fresh store");
    let parameters = tpcc.parameters();
    assert_eq!(parameters["timestamps"], "warehouse 2, district 3, customer 3, other rows 1");
    assert_eq!((parameters["warehouses"].as_str(), parameters["items"].as_str()), ("2", "200"));
}
