//! Every preset of the transactional memory at a small size, under everything that can run it.

use noonmark_stm::{Bug, DcotlSf, Dctl, Memory, Own, Threads, TinyStm, TwoPlSf, World, world};
use noonmark_workloads::driver::Length;
use noonmark_workloads::report::RunReport;
use noonmark_workloads::stm::{Contender, Preset, Settings, Structure, fits, recorded, run, stage};

fn small(preset: Preset, structure: Structure, updates_percent: u8, threads: usize) -> Settings {
    Settings {
        keys: 500,
        threads,
        length: Length::transactions(2000),
        warm_up_s: 0.0,
        requests: Some(1000),
        ..Settings::new(preset, structure, updates_percent)
    }
}

fn ran(settings: &Settings, contender: Contender) -> RunReport {
    let report = run(settings, contender, &mut |_| ())
        .unwrap_or_else(|error| panic!("{contender} on {settings:?}: {error}"));
    assert_eq!(report.consistent, Some(true), "{contender} on {settings:?}: {:?}", report.consistency);
    assert_eq!(Some(report.committed), settings.length.transactions);
    assert_eq!((report.protocol.as_str(), report.workload.as_str()), (contender.name(), "stm"));
    report
}

#[test]
fn every_preset_runs_under_all_that_fit_it() {
    for preset in Preset::ALL {
        for structure in preset.structures() {
            for updates in preset.updates_percent() {
                for threads in [1, 3] {
                    let settings = small(preset, *structure, *updates, threads);
                    let fitting: Vec<_> =
                        preset.contenders().iter().filter(|one| fits(&settings, **one).is_ok()).collect();
                    assert!(fitting.len() >= 4, "{settings:?}");
                    for contender in fitting {
                        ran(&settings, *contender);
                    }
                }
            }
        }
    }
}

#[test]
fn a_growing_hash_map_and_updates_of_variables_run_too() {
    for contender in &Contender::ALL[1..9] {
        ran(&small(Preset::Hash, Structure::HashGrowing, 100, 2), *contender);
        ran(&small(Preset::SixteenReads, Structure::Variables, 50, 2), *contender);
    }
    ran(&small(Preset::SixteenReads, Structure::Fixed, 0, 2), Contender::TicToc);
    ran(&small(Preset::SixteenReads, Structure::Variables, 50, 1), Contender::Plain);
    let serial = Settings { pace: stage::Pace::Serial, ..small(Preset::Maps, Structure::Ravl, 10, 1) };
    assert_eq!(ran(&serial, Contender::Plain).parameters["pace"], "serial");
    for contender in &Contender::ALL[10..] {
        ran(&small(Preset::KSweep, Structure::Ravl, 100, 2), *contender);
    }
}

/// [SlowClocks §7.1]: who advances the clock, and how often, is what Figure 6 is about.
#[test]
fn disjoint_writes_of_one_thread_advance_the_clock_never_or_each_time() {
    for structure in [Structure::Records, Structure::Fixed] {
        let settings = small(Preset::Disjoint, structure, 100, 1);
        let clock = |contender| ran(&settings, contender).clock_increments;
        for quiet in [Contender::Dctl, Contender::Dcotl, Contender::DctlSf, Contender::DcotlSf] {
            assert_eq!(clock(quiet), Some(0), "{quiet} on {structure}");
        }
        for loud in [Contender::Tl2Gv4, Contender::TinyStm] {
            assert_eq!(clock(loud), Some(2000), "{loud} on {structure}");
        }
        assert_eq!(clock(Contender::TwoPlSf), Some(0));
        assert_eq!(clock(Contender::Plain), None);
    }
    assert_eq!(
        ran(&small(Preset::Disjoint, Structure::Fixed, 100, 1), Contender::TicToc).clock_increments,
        None
    );
}

/// The same on two threads: those that defer advance it by orders of magnitude less often.
#[test]
fn disjoint_writes_of_two_threads_advance_the_clock_seldom_or_each_time() {
    let settings = Settings {
        length: Length::transactions(20_000),
        ..small(Preset::Disjoint, Structure::Records, 100, 2)
    };
    let clock = |contender| ran(&settings, contender).clock_increments.unwrap();
    // Two that commit at once under GV4 may share a time.
    let loud = clock(Contender::Tl2Gv4).min(clock(Contender::TinyStm));
    assert!(loud >= 10_000, "{loud}");
    for quiet in
        [Contender::Dctl, Contender::Dcotl, Contender::DctlSf, Contender::DcotlSf, Contender::TwoPlSf]
    {
        let advanced = clock(quiet);
        assert!(advanced < loud / 20, "{quiet}: {advanced}, the others {loud}");
    }
}

/// §5: after K failed attempts there is one that cannot fail. How many do fail here is chance; `threads.rs` of the memory sees to it that all of them do.
#[test]
fn no_transaction_of_a_k_sweep_takes_more_attempts_than_k_and_one() {
    for (contender, k) in [(Contender::DcotlSfK1, 1), (Contender::DcotlSfK10, 10), (Contender::DctlSfK1, 1)] {
        let settings = Settings { keys: 4, ..small(Preset::KSweep, Structure::Ravl, 100, 4) };
        let report = ran(&settings, contender);
        assert!(report.attempts_max <= k + 1, "{contender}: {} attempts", report.attempts_max);
        assert!(report.irrevocable.is_some());
    }
    let settings = small(Preset::KSweep, Structure::Ravl, 100, 2);
    assert_eq!(ran(&settings, Contender::Dcotl).irrevocable, None);
}

#[test]
fn the_same_seed_does_the_same_on_one_thread() {
    let settings = small(Preset::Trees, Structure::Zip, 100, 1);
    let conditions = |contender| ran(&settings, contender).consistency;
    assert_eq!(conditions(Contender::Dctl), conditions(Contender::TwoPlSf));
}

/// A check that cannot fail proves nothing.
fn is_refused<W: World>(preset: Preset) {
    let refused = (1..=60).any(|seed| {
        let settings = Settings { seed, ..small(preset, Structure::Variables, 100, 4) };
        let report = recorded::run_in::<W>(&settings, "broken", &Default::default, &mut |_| ()).unwrap();
        assert!(report.consistent == Some(true) || report.consistency[0].contains("not opaque"));
        report.consistent == Some(false)
    });
    assert!(refused, "sixty histories of a broken control are opaque");
}

fn broken<W: World<Host = Threads>>(bug: Bug) -> Memory<W> {
    Memory::new(noonmark_stm::Settings::default().slots(8).plant(bug), Threads::default())
}

#[test]
fn histories_of_broken_controls_are_refused() {
    world! {
        struct WithoutValidation: Dctl, Threads, Own = broken(Bug::SkipValidation);
        struct WithoutPostValidation: DcotlSf, Threads, Own = broken(Bug::SkipPostValidation);
        struct AtTheOldTime: TinyStm, Threads, Own = broken(Bug::CommitKeepsTime);
        struct AtTheOldTimeDeferred: Dctl, Threads, Own = broken(Bug::CommitKeepsTime);
        struct BesideReaders: TwoPlSf, Threads, Own = broken(Bug::SkipReaders);
    }
    is_refused::<WithoutValidation>(Preset::Register);
    is_refused::<WithoutPostValidation>(Preset::Append);
    is_refused::<AtTheOldTime>(Preset::Register);
    is_refused::<AtTheOldTimeDeferred>(Preset::Append);
    is_refused::<BesideReaders>(Preset::Register);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let refused = |contender, change: fn(&mut Settings)| {
        let mut settings = small(Preset::Trees, Structure::Ravl, 10, 1);
        assert!(settings.check().is_ok());
        change(&mut settings);
        let why = run(&settings, contender, &mut |_| ()).unwrap_err().to_string();
        assert!(!why.contains('\n'), "{why}");
        why
    };
    let by_dctl = |change| refused(Contender::Dctl, change);
    assert!(by_dctl(|it| it.keys = 1).contains("keys must be"));
    assert!(by_dctl(|it| it.keys = u64::MAX).contains("keys must be"));
    assert!(by_dctl(|it| it.updates_percent = 101).contains("per cent"));
    assert!(by_dctl(|it| it.threads = 0).contains("threads must be"));
    assert!(by_dctl(|it| it.threads = 121).contains("threads must be"));
    assert!(by_dctl(|it| it.length = Length::seconds(f64::NAN)).contains("seconds"));
    assert!(by_dctl(|it| it.structure = Structure::Fixed).contains("does not run on"));
    assert!(by_dctl(|it| it.history = Some("h.jsonl".into())).contains("append"));
    let recorded = |it: &mut Settings| {
        (it.preset, it.structure, it.updates_percent) = (Preset::Append, Structure::Variables, 100);
    };
    let by_dctl_recorded = |change: fn(&mut Settings)| {
        let mut settings = small(Preset::Append, Structure::Variables, 100, 2);
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    };
    assert!(by_dctl_recorded(|it| it.length = Length::seconds(1.0)).contains("transactions"));
    assert!(by_dctl_recorded(|it| it.length.seconds = Some(1.0)).contains("seconds"));
    assert!(by_dctl_recorded(|it| it.updates_percent = 10).contains("100"));
    assert!(refused(Contender::Plain, recorded).contains("judged"));
    assert!(by_dctl(|it| (it.preset, it.structure) = (Preset::Disjoint, Structure::Records)).contains("100"));
    assert!(
        by_dctl(|it| (it.preset, it.structure) = (Preset::SixteenReads, Structure::Fixed))
            .contains("0 per cent")
    );
    assert!(refused(Contender::Plain, |it| it.threads = 2).contains("one thread"));
    assert!(refused(Contender::Plain, |it| it.structure = Structure::Skip).contains("no plain form"));
    assert!(refused(Contender::TicToc, |_| ()).contains("not opaque"));
    assert!(refused(Contender::DcotlSfK1, |it| it.structure = Structure::Zip).contains("ravl only"));
}
