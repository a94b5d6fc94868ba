//! Moving money between accounts: the total must stay what it was.
//!
//! A transaction reads some accounts, takes an amount from the first, and gives it to the others in equal parts
//! of whole units. With `overdraft` off it rolls back when the first account has too little, as a bank would. The
//! classic form is two of a thousand accounts; [DistTicToc §2.2]'s money-moving form is this too, with string
//! keys, accounts drawn uniformly, every balance written back, and no refusals.
//!
//! With commit-time updates the balances are added to without being read, so nothing can be refused.
//!
//! Some accounts may be asked for that were never opened ([`BankSpec::unopened`]). A transfer that touches one must come to nothing, as a whole.
//!
//! Invariants, checked after every run: the sum of all balances is what was loaded; without overdrafts no balance
//! is negative.

use std::fmt;

use crate::distribution::Chooser;
use crate::random::Random;
use crate::store::{
    Column, Failure, Granularity, Group, IndexKind, Rows, Scope, Session, Store, StoreKey, Table, TableSpec,
    TxnResult,
};
use crate::workload::{Condition, Ring, RunError, Seat, Share, Workload};

/// What names an account.
pub trait AccountKey: StoreKey {
    /// The name of account `number`.
    fn of(number: u64) -> Self;
}

impl AccountKey for u64 {
    fn of(number: u64) -> Self {
        number
    }
}

impl AccountKey for String {
    fn of(number: u64) -> Self {
        format!("account{number}")
    }
}

/// How balances are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Updates {
    /// Read, then written.
    #[default]
    Plain,
    /// Added to at commit time, without being read.
    CommitTime,
}

impl fmt::Display for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Updates::Plain => "plain",
            Updates::CommitTime => "commit-time",
        })
    }
}

/// The settings of the bank.
#[derive(Clone, Debug, PartialEq)]
pub struct BankSpec {
    /// Accounts there are.
    pub accounts: u64,
    /// Accounts that transfers touch besides, and that are not there.
    pub unopened: u64,
    /// Accounts that a transfer touches.
    pub touched: usize,
    /// The skew of the accounts; 0 is uniform.
    pub theta: f64,
    /// Whether balances may become negative.
    pub overdraft: bool,
    /// How balances are changed.
    pub updates: Updates,
    /// Whether a transfer's accounts are handed over together.
    pub multi_get: bool,
}

impl BankSpec {
    /// Two of a thousand accounts.
    pub fn classic() -> Self {
        BankSpec {
            accounts: 1000,
            unopened: 0,
            touched: 2,
            theta: 0.0,
            overdraft: false,
            updates: Updates::Plain,
            multi_get: false,
        }
    }

    /// [DistTicToc §2.2]'s read-modify-update, on four of a million accounts; the paper says neither number.
    pub fn disttictoc() -> Self {
        BankSpec { accounts: 1_000_000, touched: 4, overdraft: true, ..Self::classic() }
    }

    /// That the settings go together.
    pub fn check(&self) -> Result<(), RunError> {
        let wrong = |what: String| Err(RunError::Setting(what));
        if self.touched < 2 || self.touched > 1024 {
            return wrong(format!("a transfer touches 2 to 1024 accounts, not {}", self.touched));
        }
        if self.accounts < 2 * self.touched as u64 || self.accounts > 1 << 40 {
            let fewest = 2 * self.touched;
            return wrong(format!("{} accounts, where {fewest} to {} can be", self.accounts, 1u64 << 40));
        }
        if self.updates == Updates::CommitTime && (!self.overdraft || self.multi_get) {
            let what = "commit-time updates read nothing: allow overdrafts, and go one by one";
            return wrong(what.into());
        }
        Ok(())
    }
}

/// What every account begins with.
const OPENING_BALANCE: i64 = 1000;
/// The most that one account is given.
const PART_MAX: u64 = 50;

/// What a worker of the bank keeps.
pub struct BankWorker<K> {
    accounts: Ring<K>,
    parts: Ring<i64>,
    /// Of each transfer, whether it touches an account that is not there.
    are_in_vain: Ring<bool>,
    balances: Vec<i64>,
}

/// The bank on a store.
pub struct Bank<S: Store, K: AccountKey> {
    spec: BankSpec,
    table: S::Table<K, i64>,
    balance: S::Group<K, i64, 0>,
    transfer: S::Scope,
    chooser: Chooser,
}

impl<S: Store, K: AccountKey> Bank<S, K> {
    /// Makes its table.
    pub fn new(
        store: &S,
        spec: BankSpec,
        index: IndexKind,
        granularity: Granularity,
    ) -> Result<Self, RunError> {
        spec.check()?;
        let chooser = Chooser::zipfian(spec.accounts + spec.unopened, spec.theta);
        let chooser = chooser.map_err(|error| RunError::Setting(error.to_string()))?;
        let table =
            TableSpec::new("accounts").index(index).granularity(granularity).expected_rows(spec.accounts);
        let table = store.table::<K, i64>(&table)?;
        let balance = store.group(&table);
        let transfer = store.scope().writes::<K, i64>(&table);
        Ok(Bank { spec, table, balance, transfer, chooser })
    }

    /// What is taken from the first account when each of the others is given a part.
    fn taken(&self, part: i64) -> i64 {
        part * (self.spec.touched as i64 - 1)
    }

    /// The change of the account at this place of a transfer.
    #[inline]
    fn change(&self, place: usize, part: i64) -> i64 {
        if place == 0 { -self.taken(part) } else { part }
    }

    #[inline]
    fn refused(&self, first_balance: i64, part: i64) -> bool {
        !self.spec.overdraft && first_balance < self.taken(part)
    }
}

impl<S: Store, K: AccountKey> Workload<S> for Bank<S, K> {
    type Worker = BankWorker<K>;

    fn rows(&self) -> u64 {
        self.spec.accounts
    }

    fn load_bytes(&self) -> u64 {
        self.spec.accounts.saturating_mul(128)
    }

    fn load(&self, session: &mut S::Session, share: Share, loaded: &dyn Fn(u64)) -> Result<(), RunError> {
        let range = share.of(self.spec.accounts);
        let mut first = range.start;
        while first < range.end {
            let end = range.end.min(first + 64);
            let made = session.run(&self.transfer, |tx| {
                for number in first..end {
                    self.table.insert(tx, &K::of(number), OPENING_BALANCE)?;
                }
                Ok(())
            });
            made.map_err(|failure| RunError::transaction("opening accounts", failure))?;
            loaded(end - first);
            first = end;
        }
        Ok(())
    }

    fn worker(&self, seat: Seat) -> Result<BankWorker<K>, RunError> {
        let Seat { mut random, requests, .. } = seat;
        let touched = self.spec.touched;
        let mut chooser = self.chooser.clone();
        let mut accounts = Vec::with_capacity(requests * touched);
        let mut are_in_vain = Vec::with_capacity(requests);
        let mut drawn: Vec<u64> = Vec::with_capacity(touched);
        for _ in 0..requests {
            drawn.clear();
            while drawn.len() < touched {
                let account = chooser.draw(&mut random);
                if !drawn.contains(&account) {
                    drawn.push(account);
                }
            }
            are_in_vain.push(drawn.iter().any(|&number| number >= self.spec.accounts));
            accounts.extend(drawn.iter().map(|&number| K::of(number)));
        }
        let none = || RunError::Setting("at least one request must be drawn ahead".into());
        let accounts = Ring::from_items(accounts, touched).ok_or_else(none)?;
        let are_in_vain = Ring::from_items(are_in_vain, 1).ok_or_else(none)?;
        let part = |random: &mut Random| random.between(1, PART_MAX) as i64;
        Ok(BankWorker {
            accounts,
            parts: Ring::of(requests, 1, || part(&mut random)),
            are_in_vain,
            balances: vec![0; touched],
        })
    }

    #[inline]
    fn execute(&self, session: &mut S::Session, worker: &mut BankWorker<K>) -> TxnResult<S, ()> {
        let accounts = worker.accounts.take();
        let part = *worker.parts.take_one();
        let is_in_vain = *worker.are_in_vain.take_one();
        let balances = &mut worker.balances;
        let done = session.run(&self.transfer, |tx| {
            if self.spec.updates == Updates::CommitTime {
                for (place, account) in accounts.iter().enumerate() {
                    self.balance.add(tx, account, Column::whole(), self.change(place, part))?;
                }
                return Ok(());
            }
            if self.spec.multi_get {
                let mut all_there = true;
                self.balance.get_many(tx, accounts, |place, balance| {
                    all_there &= balance.is_some();
                    balances[place] = balance.unwrap_or_default();
                })?;
                if all_there && self.refused(balances[0], part) {
                    return Err(Failure::Rollback);
                }
                self.balance.update_many(tx, accounts, |place, balance| {
                    *balance = balance.wrapping_add(self.change(place, part));
                })?;
                return Ok(());
            }
            for (account, balance) in accounts.iter().zip(balances.iter_mut()) {
                *balance = self.balance.need(tx, account)?;
            }
            if self.refused(balances[0], part) {
                return Err(Failure::Rollback);
            }
            for (place, (account, balance)) in accounts.iter().zip(balances.iter()).enumerate() {
                self.balance.write(tx, account, balance.wrapping_add(self.change(place, part)))?;
            }
            Ok(())
        });
        // Whatever a store says of it: what it has done shows in the sum.
        done.map_err(|failure| if is_in_vain { Failure::Rollback } else { failure })
    }

    fn check(
        &self,
        session: &mut S::Session,
        _workers: &mut Vec<BankWorker<K>>,
    ) -> Result<Vec<Condition>, RunError> {
        let (mut sum, mut least) = (0_i128, i64::MAX);
        for number in 0..self.spec.accounts {
            let balance = session.run(&self.transfer, |tx| Ok(self.balance.need(tx, &K::of(number))?));
            let balance =
                balance.map_err(|failure| RunError::transaction("adding up the accounts", failure))?;
            sum += i128::from(balance);
            least = least.min(balance);
        }
        let opened = i128::from(self.spec.accounts) * i128::from(OPENING_BALANCE);
        let mut conditions = vec![Condition::equal("the sum of all balances", sum, opened)];
        if !self.spec.overdraft {
            conditions
                .push(Condition::that(least >= 0, format!("no balance is negative: the least is {least}")));
        }
        Ok(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Length, Plan, drive};
    use crate::mutex::MutexStore;

    fn plan() -> Plan {
        Plan {
            threads: 4,
            length: Length::transactions(4000),
            warm_up_s: 0.0,
            seed: 1,
            requests: 500,
            count_allocations: false,
        }
    }

    #[test]
    fn every_form_keeps_the_total_on_four_threads() {
        let forms = [
            BankSpec { accounts: 20, ..BankSpec::classic() },
            BankSpec { accounts: 20, multi_get: true, theta: 0.9, ..BankSpec::classic() },
            BankSpec { accounts: 20, ..BankSpec::disttictoc() },
            BankSpec { accounts: 18, unopened: 2, overdraft: false, ..BankSpec::disttictoc() },
            BankSpec { accounts: 20, updates: Updates::CommitTime, ..BankSpec::disttictoc() },
        ];
        for spec in forms {
            let store = MutexStore::new();
            let bank: Bank<_, String> =
                Bank::new(&store, spec.clone(), IndexKind::Ordered, Granularity::Fine).unwrap();
            let measured = drive(&store, &bank, &plan(), &mut |_| {}).unwrap();
            assert_eq!(measured.committed + measured.user_rollbacks, 4000, "{spec:?}");
            // Each account begins with enough for some twenty transfers out, so some are refused in the end.
            assert_eq!(measured.user_rollbacks > 0, !spec.overdraft, "{spec:?}");
            assert!(measured.conditions.iter().all(|condition| condition.holds), "{spec:?}");
        }
    }

    #[test]
    fn a_lost_unit_is_found() {
        let store = MutexStore::new();
        let spec = BankSpec { accounts: 20, ..BankSpec::classic() };
        let bank: Bank<_, u64> = Bank::new(&store, spec, IndexKind::Hash, Granularity::Fine).unwrap();
        let mut session = store.session().unwrap();
        bank.load(&mut session, Share { index: 0, count: 1 }, &|_| {}).unwrap();
        session.run(&bank.transfer, |tx| Ok(bank.table.update(tx, &3, |balance| *balance -= 1)?)).unwrap();
        let conditions = bank.check(&mut session, &mut Vec::new()).unwrap();
        assert_eq!(conditions[0].words, "the sum of all balances should be 20000 but is 19999");
        assert!(!conditions[0].holds && conditions[1].holds);
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        let refused = |spec: BankSpec| {
            let bank = Bank::<_, u64>::new(&MutexStore::new(), spec, IndexKind::Hash, Granularity::Fine);
            bank.err().unwrap().to_string()
        };
        let classic = BankSpec::classic();
        assert!(refused(BankSpec { accounts: 3, ..classic.clone() }).contains("where 4 to"));
        assert!(refused(BankSpec { touched: 1, ..classic.clone() }).contains("2 to 1024"));
        assert!(refused(BankSpec { theta: 1.5, ..classic.clone() }).contains("theta"));
        assert!(refused(BankSpec { updates: Updates::CommitTime, ..classic }).contains("overdrafts"));
    }
}
