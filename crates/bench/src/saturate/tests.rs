//! Searches on a broker whose capacity is known.

use super::*;
use crate::cli::{Verb, verb};
use crate::simulate::behaviour::{Behaviour, Delay};
use crate::simulate::local;

const OPTIONS: &str = "--size 64 --window 100 --ack each --queue transient --warmup 0.3 --duration 1 --seed 3";

fn args(target: &str, more: &str) -> SaturateArgs {
    match verb(&format!("saturate --target {target} {OPTIONS} {more}")) {
        Verb::Saturate(args) => *args,
        _ => panic!("not a search"),
    }
}

fn study(args: &SaturateArgs) -> Study {
    let targets = args.targets.iter().map(|text| text.parse().unwrap()).collect();
    Study::new(args, targets, args.load.scenario(None).unwrap(), Progress::silent())
}

#[test]
fn a_programmed_capacity_is_found() {
    let behaviour = Behaviour { capacity: Some(2000.0), ..Behaviour::default() };
    let args = args(&local(&behaviour).target, "--precision 10% --slo 300ms");
    let mut study = study(&args);
    study.search().unwrap();
    let found = &study.found[0];
    let sustained = found.sustained_per_s.unwrap_or_default();
    // A busy machine may make a trial fail that would have gone well; none goes well above the
    // capacity.
    assert!((800.0..=2020.0).contains(&sustained), "{found:?}");
    assert!(found.trials.iter().any(|trial| !trial.sustained), "{found:?}");
}

#[test]
fn a_curve_has_every_share_of_every_block_and_the_bound_is_kept() {
    let delay = Delay::Fixed(Duration::from_millis(50));
    let args = args(&local(&Behaviour { delivery: delay, ..Behaviour::default() }).target, "--slo 10ms --duration 0.2");
    let mut study = study(&args);
    study.found[0].sustained_per_s = Some(400.0);
    study.curve(1);
    assert!(study.found[0].is_good());
    let points = &study.found[0].curve;
    let mut shares: Vec<f64> = points.iter().map(|point| point.share).collect();
    shares.sort_by(f64::total_cmp);
    assert_eq!(shares, SHARES);
    for point in points {
        assert!((point.trial.rate - 400.0 * point.share).abs() < 1e-9);
        assert!(point.trial.reasons.iter().any(|reason| reason.contains("p99")), "{point:?}");
    }
}

#[test]
fn a_curve_of_a_broker_that_is_not_there_is_not_good() {
    let mut study = study(&args("amqp://127.0.0.1:1", "--duration 0.2"));
    study.found[0].sustained_per_s = Some(400.0);
    study.curve(1);
    assert!(!study.found[0].is_good());
}
