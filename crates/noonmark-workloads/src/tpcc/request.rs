//! What terminals ask for: the inputs of the five transactions, drawn before the clock starts
//! [TPC-C 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1], in the proportions of a [`Mix`].
//!
//! A worker stands for the terminals of its home warehouse, so its districts are drawn evenly. Kinds are dealt
//! from a deck of cards [TPC-C 5.2.4.2]: every deck holds each kind in its exact proportion, in a random order.
//! Requests lie one after another in memory, and the lines of all orders in one list of their own: reading them
//! during the run is a walk through memory, and allocates nothing.
//!
//! What it does not do: no keying and think times; workers ask again as soon as they have been answered.

use super::Items;
use super::dice::{Constants, Dice, last_name};
use super::population::{EPOCH_MS, Scale};
use super::schema::{DISTRICTS, LINES_MAX};

/// The five kinds of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Enters an order [TPC-C 2.4].
    NewOrder,
    /// Pays [TPC-C 2.5].
    Payment,
    /// Looks at a customer's last order [TPC-C 2.6].
    OrderStatus,
    /// Delivers the oldest order of each district [TPC-C 2.7].
    Delivery,
    /// Counts what is short in stock [TPC-C 2.8].
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];
}

/// Which transactions are run, in which proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// All five, 45 : 43 : 4 : 4 : 4 [TPC-C 5.2.3].
    Full,
    /// New-Order, Payment and Order-Status, 45 : 43 : 4 [Granularity §3.3].
    Granularity,
    /// New-Order and Payment, half and half.
    Half,
}

impl Mix {
    /// Every mix.
    pub const ALL: [Mix; 3] = [Mix::Full, Mix::Granularity, Mix::Half];

    /// How many cards of each kind a deck holds, in the order of [`Kind::ALL`].
    pub const fn cards(self) -> [u32; 5] {
        match self {
            Mix::Full => [45, 43, 4, 4, 4],
            Mix::Granularity => [45, 43, 4, 0, 0],
            Mix::Half => [50, 50, 0, 0, 0],
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mix::Full => "full",
            Mix::Granularity => "granularity",
            Mix::Half => "half",
        })
    }
}

/// How a customer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// By `C_ID`: 40 of a hundred.
    Number(u32),
    /// By `C_LAST`: 60 of a hundred.
    LastName([u8; 16]),
}

/// A line of an order to be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// `OL_I_ID`; one above the last item where the order is to be rolled back.
    pub i_id: u32,
    /// `OL_SUPPLY_W_ID`.
    pub supply_w_id: u16,
    /// `OL_QUANTITY`: 1 to 10.
    pub quantity: u8,
}

/// An order to be entered [TPC-C 2.4.1]. Its lines are in [`Requests::lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderRequest {
    /// `D_ID`.
    pub d_id: u8,
    /// `C_ID`.
    pub c_id: u32,
    /// `O_ENTRY_D`.
    pub entry_ms: i64,
    /// Whether all lines are supplied by the home warehouse.
    pub all_local: bool,
    /// How many lines there are: 5 to 15.
    ol_cnt: u8,
    /// Where they begin.
    lines_at: u32,
}

/// A payment [TPC-C 2.5.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentRequest {
    /// `D_ID`: where it is paid.
    pub d_id: u8,
    /// `C_D_ID`: where the customer belongs.
    pub c_d_id: u8,
    /// `C_W_ID`: where the customer belongs.
    pub c_w_id: u16,
    /// The customer.
    pub who: Who,
    /// `H_AMOUNT`.
    pub amount_cents: i64,
    /// `H_DATE`.
    pub date_ms: i64,
}

/// One request of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Enter an order.
    NewOrder(NewOrderRequest),
    /// Pay.
    Payment(PaymentRequest),
    /// Look at a customer's last order [TPC-C 2.6.1].
    OrderStatus {
        /// `D_ID`.
        d_id: u8,
        /// The customer.
        who: Who,
    },
    /// Deliver the oldest orders [TPC-C 2.7.1].
    Delivery {
        /// `O_CARRIER_ID`: 1 to 10.
        carrier_id: u8,
        /// `OL_DELIVERY_D`.
        date_ms: i64,
    },
    /// Count what is short in stock [TPC-C 2.8.1].
    StockLevel {
        /// `D_ID`.
        d_id: u8,
        /// What counts as short: 10 to 20.
        threshold: i32,
    },
}

impl Request {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Request::NewOrder(_) => Kind::NewOrder,
            Request::Payment(_) => Kind::Payment,
            Request::OrderStatus { .. } => Kind::OrderStatus,
            Request::Delivery { .. } => Kind::Delivery,
            Request::StockLevel { .. } => Kind::StockLevel,
        }
    }
}

/// The requests of one worker.
#[derive(Clone, Debug)]
pub struct Requests {
    list: Vec<Request>,
    lines: Vec<Line>,
}

impl Requests {
    /// Draws `count` requests for a worker at home in `w_id`.
    pub fn draw(
        scale: Scale,
        mix: Mix,
        items: Items,
        constants: Constants,
        dice: Dice,
        w_id: u16,
        count: usize,
    ) -> Requests {
        let mut draw = Draw { scale, items, constants, dice, w_id, lines: Vec::with_capacity(count * 5) };
        let mut deck: Vec<Kind> = Vec::new();
        for (kind, cards) in Kind::ALL.into_iter().zip(mix.cards()) {
            deck.extend(std::iter::repeat_n(kind, cards as usize));
        }
        let mut list = Vec::with_capacity(count);
        while list.len() < count {
            draw.dice.shuffle(&mut deck);
            for &kind in deck.iter().take(count - list.len()) {
                let date_ms = EPOCH_MS + 1 + list.len() as i64;
                list.push(draw.request(kind, date_ms));
            }
        }
        Requests { list, lines: draw.lines }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Request> {
        self.list.iter()
    }

    /// The request at this place.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&Request> {
        self.list.get(at)
    }

    /// The lines of an order that is one of these requests.
    #[inline]
    pub fn lines(&self, order: &NewOrderRequest) -> &[Line] {
        &self.lines[order.lines_at as usize..][..usize::from(order.ol_cnt)]
    }
}

/// The state of drawing.
struct Draw {
    scale: Scale,
    items: Items,
    constants: Constants,
    dice: Dice,
    w_id: u16,
    lines: Vec<Line>,
}

impl Draw {
    fn request(&mut self, kind: Kind, date_ms: i64) -> Request {
        match kind {
            Kind::NewOrder => Request::NewOrder(self.new_order(date_ms)),
            Kind::Payment => Request::Payment(self.payment(date_ms)),
            Kind::OrderStatus => Request::OrderStatus { d_id: self.district(), who: self.who() },
            Kind::Delivery => Request::Delivery { carrier_id: self.dice.uniform(1, 10) as u8, date_ms },
            Kind::StockLevel => {
                Request::StockLevel { d_id: self.district(), threshold: self.dice.uniform(10, 20) as i32 }
            }
        }
    }

    fn district(&mut self) -> u8 {
        self.dice.uniform(1, u32::from(DISTRICTS)) as u8
    }

    fn customer(&mut self) -> u32 {
        self.dice.non_uniform(1023, self.constants.customer, 1, self.scale.customers)
    }

    fn who(&mut self) -> Who {
        if self.dice.percent(60) {
            let names = self.scale.last_names();
            Who::LastName(last_name(self.dice.non_uniform(255, self.constants.last_run, 0, names - 1)))
        } else {
            Who::Number(self.customer())
        }
    }

    /// A warehouse that is not the home one. There must be two.
    fn remote_warehouse(&mut self) -> u16 {
        let drawn = self.dice.uniform(1, u32::from(self.scale.warehouses) - 1) as u16;
        if drawn < self.w_id { drawn } else { drawn + 1 }
    }

    fn new_order(&mut self, entry_ms: i64) -> NewOrderRequest {
        let (d_id, c_id) = (self.district(), self.customer());
        let ol_cnt = self.dice.uniform(5, LINES_MAX as u32) as u8;
        let rolls_back = self.dice.percent(1);
        let lines_at = self.lines.len() as u32;
        let mut all_local = true;
        for number in 1..=ol_cnt {
            let i_id = if rolls_back && number == ol_cnt {
                self.scale.items + 1
            } else {
                match self.items {
                    Items::NonUniform => {
                        self.dice.non_uniform(8191, self.constants.item, 1, self.scale.items)
                    }
                    Items::Uniform => self.dice.uniform(1, self.scale.items),
                }
            };
            let remote = self.scale.warehouses > 1 && self.dice.percent(1);
            let supply_w_id = if remote { self.remote_warehouse() } else { self.w_id };
            all_local &= !remote;
            self.lines.push(Line { i_id, supply_w_id, quantity: self.dice.uniform(1, 10) as u8 });
        }
        NewOrderRequest { d_id, c_id, entry_ms, all_local, ol_cnt, lines_at }
    }

    fn payment(&mut self, date_ms: i64) -> PaymentRequest {
        let d_id = self.district();
        let remote = self.scale.warehouses > 1 && self.dice.percent(15);
        let (c_w_id, c_d_id) =
            if remote { (self.remote_warehouse(), self.district()) } else { (self.w_id, d_id) };
        let who = self.who();
        let amount_cents = i64::from(self.dice.uniform(1_00, 5000_00));
        PaymentRequest { d_id, c_d_id, c_w_id, who, amount_cents, date_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 100_000;

    fn draw(warehouses: u16, mix: Mix, seed: u64, worker: u64, count: usize) -> Requests {
        let dice = Dice::at(seed, 0, worker);
        Requests::draw(
            Scale::standard(warehouses),
            mix,
            Items::NonUniform,
            Constants::of(seed),
            dice,
            1,
            count,
        )
    }

    fn drawn(warehouses: u16, mix: Mix) -> Requests {
        draw(warehouses, mix, 42, 3, COUNT)
    }

    /// Within five deviations of a binomial; the seed is fixed, so this cannot flicker.
    fn assert_share(count: usize, of: usize, share: f64, what: &str) {
        let deviation = (of as f64 * share * (1.0 - share)).sqrt();
        assert!((count as f64 - of as f64 * share).abs() <= 5.0 * deviation, "{what}: {count} of {of}");
    }

    #[test]
    fn tpcc_5_2_3_every_deck_has_the_mix_exactly() {
        for mix in Mix::ALL {
            let requests = drawn(2, mix);
            let deck = mix.cards().iter().sum::<u32>() as usize;
            for hand in requests.list.chunks_exact(deck) {
                let counts = Kind::ALL.map(|kind| hand.iter().filter(|r| r.kind() == kind).count() as u32);
                assert_eq!(counts, mix.cards(), "{mix}");
            }
        }
    }

    #[test]
    fn tpcc_2_4_1_orders_have_their_shares_of_rollbacks_and_remote_lines() {
        let requests = drawn(4, Mix::Full);
        let (mut orders, mut rollbacks, mut lines, mut remote) = (0, 0, 0, 0);
        for request in requests.iter() {
            let Request::NewOrder(order) = request else { continue };
            let of_order = requests.lines(order);
            assert!((5..=15).contains(&of_order.len()));
            assert_eq!(order.all_local, of_order.iter().all(|line| line.supply_w_id == 1));
            orders += 1;
            lines += of_order.len();
            remote += of_order.iter().filter(|line| line.supply_w_id != 1).count();
            for (at, line) in of_order.iter().enumerate() {
                assert!((1..=4).contains(&line.supply_w_id) && (1..=10).contains(&line.quantity));
                if line.i_id == 100_001 {
                    rollbacks += 1;
                    assert_eq!(at, of_order.len() - 1, "only the last line has an unused item");
                } else {
                    assert!((1..=100_000).contains(&line.i_id));
                }
            }
        }
        assert_eq!(orders, COUNT * 45 / 100);
        assert_share(rollbacks, orders, 0.01, "rollbacks");
        assert_share(remote, lines, 0.01, "remote lines");
    }

    #[test]
    fn tpcc_2_5_1_payments_have_their_shares_of_remote_customers_and_last_names() {
        let requests = drawn(4, Mix::Half);
        let payments: Vec<&PaymentRequest> = requests
            .iter()
            .filter_map(|r| if let Request::Payment(p) = r { Some(p) } else { None })
            .collect();
        let remote = payments.iter().filter(|p| p.c_w_id != 1).count();
        let by_name = payments.iter().filter(|p| matches!(p.who, Who::LastName(_))).count();
        assert_share(remote, payments.len(), 0.15, "remote payments");
        assert_share(by_name, payments.len(), 0.60, "by last name");
        for payment in payments {
            assert!((1_00..=5000_00).contains(&payment.amount_cents));
            assert!((1..=10).contains(&payment.d_id) && (1..=10).contains(&payment.c_d_id));
            assert!(payment.c_w_id != 1 || payment.c_d_id == payment.d_id);
            assert!((1..=4).contains(&payment.c_w_id));
        }
    }

    #[test]
    fn one_warehouse_has_nothing_remote() {
        let requests = drawn(1, Mix::Full);
        for request in requests.iter() {
            match request {
                Request::NewOrder(order) => assert!(order.all_local),
                Request::Payment(payment) => assert_eq!(payment.c_w_id, 1),
                _ => {}
            }
        }
        assert!(requests.lines.iter().all(|line| line.supply_w_id == 1));
    }

    #[test]
    fn workers_draw_requests_of_their_own_and_the_same_ones_again() {
        let draw = |seed, worker| draw(1, Mix::Full, seed, worker, 100).list;
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }
}
