//! Whether the claims of a study hold here. Figures of one cell are compared block with block, of
//! the slices that broke no rule; those of two cells, whose blocks have nothing in common but their
//! numbers, as those of two runs are. Without platforms a claim is about each broker by itself;
//! where it names a row that only variants of a broker can have, about these, beside the broker
//! that they are variants of.

use std::collections::BTreeSet;

use super::figures::by_block;
use super::point::is_at;
use super::predicate::{Predicate, Term, Which};
use super::study::{Claimed, Platform, RowKind, Study};
use bench_record::slice::Measured;
use bench_record::statistics::change::Change;
use bench_record::statistics::spread::{Spread, coverage};
use bench_record::suite::{
    Cell, CellOutcome, CellResult, Claim, ClaimVerdict, Figures, Metric, Profile, Role, TargetFacts, label,
};

/// Fewer blocks than this give no interval, and so no verdict.
const FEWEST_BLOCKS: usize = 5;
/// Everything that claims are judged by.
pub(crate) struct Bench<'a> {
    pub(crate) study: &'a Study,
    pub(crate) cells: &'a [Cell],
    pub(crate) targets: &'a [TargetFacts],
}

/// Whether one predicate holds, and the figures behind it.
type Judged = (ClaimVerdict, String);

impl Bench<'_> {
    /// All claims of the study: one verdict each, or one for each broker where no platform is
    /// named.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.study.claims.iter().flat_map(|claimed| self.claim(claimed)).collect()
    }

    fn claim(&self, claimed: &Claimed) -> Vec<Claim> {
        let left_out = self.left_out(claimed);
        if !left_out.is_empty() {
            let why = format!("left out of this run: {}", Vec::from_iter(left_out).join(", "));
            return vec![Claim { text: claimed.text.clone(), verdict: ClaimVerdict::Undecided, why }];
        }
        let named = claimed.holds.iter().flat_map(Predicate::terms).any(|term| term.platform.is_some());
        if named {
            let judged = self.all(claimed, None);
            return vec![Claim { text: claimed.text.clone(), verdict: judged.0, why: judged.1 }];
        }
        let needed: Vec<&str> =
            claimed.holds.iter().flat_map(Predicate::terms).filter_map(|term| self.needs(term)).collect();
        let brokers = || self.targets.iter().filter(|facts| facts.role == Role::Broker);
        let named = |facts: &&TargetFacts| needed.iter().all(|word| facts.target.name.contains(word));
        let can = |facts: &&TargetFacts| !self.lacks(claimed, &facts.target.name);
        let about = |facts: &TargetFacts| {
            let name = &facts.target.name;
            let (verdict, why) = self.all(claimed, Some(name));
            Claim { text: format!("{} ({name})", claimed.text), verdict, why }
        };
        let claims: Vec<Claim> = brokers().filter(named).filter(can).map(about).collect();
        if !claims.is_empty() || brokers().next().is_none() {
            return claims;
        }
        // What no target here can show is still one of the study's claims.
        let why = match brokers().any(|facts| named(&facts)) {
            true => "no target has what it is about".to_owned(),
            false => format!("no target has {} in its name", needed.join(" and ")),
        };
        vec![Claim { text: claimed.text.clone(), verdict: ClaimVerdict::Undecided, why }]
    }

    /// The figures of a claim that were not asked for: one line says so, whatever the
    /// targets are.
    fn left_out(&self, claimed: &Claimed) -> BTreeSet<String> {
        let missing =
            |term: &&Term| !self.cells.iter().any(|cell| cell.row == term.row && is_at(&cell.point, &term.at));
        let terms = claimed.holds.iter().flat_map(Predicate::terms).filter(missing);
        terms.map(|term| label(&term.row, &term.at)).collect()
    }

    /// True when `target` itself can't do one of the rows that a claim is about: that says nothing
    /// about the claim.
    fn lacks(&self, claimed: &Claimed, target: &str) -> bool {
        claimed.holds.iter().flat_map(Predicate::terms).any(|term| {
            let results = self.cells.iter().filter(|cell| cell.row == term.row).flat_map(|cell| &cell.results);
            let mut mine = results.filter(|result| result.target == target).peekable();
            mine.peek().is_some() && mine.all(|result| matches!(result.outcome, CellOutcome::NotApplicable { .. }))
        })
    }

    /// The verdict over all predicates: the first that does not hold decides, then the first that
    /// is undecided.
    fn all(&self, claimed: &Claimed, target: Option<&str>) -> Judged {
        let judged: Vec<Judged> = claimed.holds.iter().map(|one| self.judge(one, claimed.profile, target)).collect();
        let first = |verdict: ClaimVerdict| judged.iter().find(|(one, _)| *one == verdict).cloned();
        first(ClaimVerdict::DoesNotHold).or_else(|| first(ClaimVerdict::Undecided)).unwrap_or_else(|| {
            let whys: Vec<String> = judged.into_iter().map(|(_, why)| why).collect();
            (ClaimVerdict::Holds, whys.join("; "))
        })
    }

    fn judge(&self, predicate: &Predicate, profile: Option<Profile>, target: Option<&str>) -> Judged {
        if let Some(why) = self.same(predicate) {
            return (ClaimVerdict::Undecided, format!("{}: {why}", predicate.text));
        }
        let word = predicate.terms().find_map(|term| self.needs(term));
        let of = |term: &Term| match (word, target) {
            (Some(word), Some(variant)) if self.needs(term).is_none() => Some(self.without(word, variant)),
            _ => target,
        };
        let values: Result<Vec<Vec<(usize, f64)>>, String> =
            predicate.terms().map(|term| self.values(term, profile, of(term))).collect();
        let values = match values {
            Ok(values) => values,
            Err(why) => return (ClaimVerdict::Undecided, format!("{}: {why}", predicate.text)),
        };
        let estimate = match values.as_slice() {
            [above, below] if predicate.is_of_one_cell() => Estimate::of(within(above, below)),
            [above, below] => Estimate::across(above, below),
            [only] => Estimate::of(only.iter().map(|(_, value)| *value).collect()),
            _ => None,
        };
        let Some(mut estimate) = estimate else {
            return (ClaimVerdict::Undecided, format!("{}: no block has all of its figures", predicate.text));
        };
        if predicate.terms().all(|term| self.passes(term)) {
            estimate.interval = estimate.interval.map(|_| estimate.range);
        }
        let (verdict, certainty) = decide(&estimate, predicate.range);
        (verdict, format!("{}: {} ({certainty})", predicate.text, short(estimate.value)))
    }

    /// True when a figure is whether slices passed, which those say that broke a rule, too.
    fn passes(&self, term: &Term) -> bool {
        let row = self.study.rows.iter().find(|row| row.id == term.row);
        term.figure == Which::Own && row.is_some_and(|row| row.metric == Metric::Passed)
    }

    /// A figure by block, or why there is none.
    fn values(&self, term: &Term, profile: Option<Profile>, target: Option<&str>) -> Result<Vec<(usize, f64)>, String> {
        let target = match (&term.platform, target) {
            (Some(platform), _) => self.standing_for(platform)?,
            (None, Some(target)) => target,
            (None, None) => return Err("no platform is named".to_owned()),
        };
        let fits = |cell: &&Cell| {
            cell.row == term.row
                && profile.is_none_or(|profile| cell.profile == profile)
                && is_at(&cell.point, &term.at)
        };
        let mut cells: Vec<&Cell> = self.cells.iter().filter(fits).collect();
        cells.sort_by_key(|cell| cell.profile);
        let measured = cells.iter().flat_map(|cell| cell.results.iter().map(move |result| (cell, result)));
        let found = measured.filter(|(_, result)| result.target == target).find_map(|(cell, result)| {
            let CellOutcome::Measured(figures) = &result.outcome else { return None };
            let values = read(cell, result, figures, term.figure);
            (!values.is_empty()).then_some((values, figures.valid))
        });
        match found {
            None => Err(format!("{target} has no figure for {}", term.row)),
            Some((_, 0)) if !self.passes(term) => Err(format!("no slice of {target} was valid in {}", term.row)),
            Some((values, _)) => Ok(values),
        }
    }

    /// Why two platforms can't be compared: one target stands for both.
    fn same(&self, predicate: &Predicate) -> Option<String> {
        let (above, below) = (predicate.above.platform.as_ref()?, predicate.below.as_ref()?.platform.as_ref()?);
        let (one, other) = (self.standing_for(above).ok()?, self.standing_for(below).ok()?);
        (above != below && one == other).then(|| format!("{above} and {below} are both {one}"))
    }

    /// What a target must have in its name for the row of `term`.
    fn needs(&self, term: &Term) -> Option<&str> {
        match &self.study.rows.iter().find(|row| row.id == term.row)?.kind {
            RowKind::Needs(word) => Some(word),
            RowKind::Load | RowKind::Absent(_) => None,
        }
    }

    /// The broker that `variant` is compared with: the first of the same product and protocol
    /// without `word` in its name, else itself.
    fn without<'a>(&'a self, word: &str, variant: &'a str) -> &'a str {
        let known = self.targets.iter().find(|facts| facts.target.name == variant);
        let beside = |facts: &&TargetFacts| {
            let same = |own: &TargetFacts| own.product == facts.product && own.target.scheme == facts.target.scheme;
            facts.role == Role::Broker && !facts.target.name.contains(word) && known.is_some_and(same)
        };
        self.targets.iter().find(beside).map_or(variant, |facts| &facts.target.name)
    }

    /// The name of the target that stands for a platform: the one that is called as the product is,
    /// else the first that fits.
    fn standing_for(&self, platform: &str) -> Result<&str, String> {
        let Some(Platform { product: Some(product), unless, .. }) = self.study.platforms.get(platform) else {
            return Err(format!("{platform} is not to be had"));
        };
        let says = |facts: &TargetFacts, word: &str| {
            let names = [Some(&facts.target.name), facts.product.as_ref()];
            names.into_iter().flatten().any(|name| name.to_lowercase().contains(word))
        };
        let is_it = |facts: &&TargetFacts| {
            let other = unless.as_ref().is_some_and(|word| says(facts, word));
            facts.role == Role::Broker && says(facts, product) && !other
        };
        let fitting = || self.targets.iter().filter(is_it);
        let found = fitting().find(|facts| facts.target.name == *product).or_else(|| fitting().next());
        found.map(|facts| facts.target.name.as_str()).ok_or_else(|| format!("{platform} is not among the targets"))
    }
}

/// A figure of a result by block.
fn read(cell: &Cell, result: &CellResult, figures: &Figures, which: Which) -> Vec<(usize, f64)> {
    let of = |read: &dyn Fn(&Measured) -> Option<f64>| {
        figures.usable().filter_map(|(slice, measured)| Some((slice.block, read(measured)?))).collect()
    };
    match which {
        Which::Own => by_block(cell.metric, &cell.load, &result.target, &figures.all),
        Which::Cores => of(&|measured| Some(measured.costs.broker?.cores)),
        Which::Cpu => of(&|measured| Some(measured.costs.broker?.cpu_us_per_message)),
        Which::Rate => of(&|measured| Some(measured.rates.messages_per_s)),
        Which::Latency => of(&|measured| Some(measured.latencies.latency_us.as_ref()?.p50)),
    }
}

/// The quotients in the blocks that both have.
fn within(above: &[(usize, f64)], below: &[(usize, f64)]) -> Vec<f64> {
    let quotient = |(block, above): &(usize, f64)| {
        let (_, below) = below.iter().find(|(other, _)| other == block)?;
        Some(above / below).filter(|value| value.is_finite())
    };
    above.iter().filter_map(quotient).collect()
}

/// A figure or a quotient over blocks, and how far it may be trusted.
#[derive(Debug)]
struct Estimate {
    value: f64,
    interval: Option<(f64, f64)>,
    /// How sure the interval is, per cent.
    certainty: f64,
    blocks: usize,
    /// The least and the most; a pass or fail has no noise, so that nothing holds before all blocks
    /// agree.
    range: (f64, f64),
}

impl Estimate {
    /// Over the blocks of one cell.
    fn of(values: Vec<f64>) -> Option<Self> {
        let spread = Spread::of(values)?;
        let blocks = spread.values.len();
        Some(Self {
            value: spread.median,
            interval: spread.interval,
            certainty: 100.0 * coverage(blocks),
            blocks,
            range: (spread.min, spread.max),
        })
    }

    /// Over those of two cells, which were not measured at the same time.
    fn across(above: &[(usize, f64)], below: &[(usize, f64)]) -> Option<Self> {
        let values = |side: &[(usize, f64)]| side.iter().map(|(_, value)| *value).collect::<Vec<_>>();
        let change = Change::between(&values(below), &values(above))?;
        let blocks = above.len().min(below.len());
        Some(Self {
            value: change.ratio,
            interval: change.interval,
            certainty: 95.0,
            blocks,
            range: (change.ratio, change.ratio),
        })
    }
}

/// Whether a figure lies within a range, by its interval. Without one nothing is decided: a single
/// block may be off by any factor.
fn decide(estimate: &Estimate, (low, high): (f64, f64)) -> (ClaimVerdict, String) {
    let Estimate { blocks, certainty, .. } = *estimate;
    let Some((least, most)) = estimate.interval.filter(|_| blocks >= FEWEST_BLOCKS) else {
        let certainty = format!("{blocks} block(s), {FEWEST_BLOCKS} are needed to decide");
        return (ClaimVerdict::Undecided, certainty);
    };
    let verdict = if least >= low && most <= high {
        ClaimVerdict::Holds
    } else if most < low || least > high {
        ClaimVerdict::DoesNotHold
    } else {
        ClaimVerdict::Undecided
    };
    (verdict, format!("{}-{} at {certainty:.0} %", short(least), short(most)))
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::slice;
    use super::*;
    use bench_record::failure::Failure;
    use bench_record::scenario::Scenario;
    use bench_record::slice::SliceRecord;

    fn read(text: &str) -> Result<Predicate, Failure> {
        Predicate::try_from(text.to_owned())
    }

    #[test]
    fn an_interval_decides_and_fewer_blocks_do_not() {
        use ClaimVerdict::{DoesNotHold, Holds, Undecided};
        let more = (1.0, f64::INFINITY);
        let cases: &[(&[f64], (f64, f64), ClaimVerdict)] = &[
            (&[1.2], more, Undecided),
            (&[2.0, 2.0, 2.0, 2.0], more, Undecided),
            (&[1.02, 1.03, 1.04, 1.02, 1.03], more, Holds),
            (&[0.98, 0.97, 0.96, 0.98, 0.97], more, DoesNotHold),
            (&[0.9, 1.1, 1.2, 0.8, 1.0], more, Undecided),
            (&[0.5, 0.5, 0.51, 0.49, 0.5], (0.4, 0.7), Holds),
            (&[0.9, 0.9, 0.91, 0.89, 0.9], (0.4, 0.7), DoesNotHold),
        ];
        for (values, range, verdict) in cases {
            assert_eq!(decide(&Estimate::of(values.to_vec()).unwrap(), *range).0, *verdict, "{values:?}");
        }
    }

    /// A broker of a product, named and reached by `uri`.
    fn broker(uri: &str, product: &str) -> TargetFacts {
        TargetFacts {
            target: uri.parse().unwrap(),
            role: Role::Broker,
            product: Some(product.to_owned()),
            version: None,
            declared: None,
            audited: None,
            start_s: None,
            idle_bytes: None,
        }
    }

    /// A row with the rates of some targets, the same in five blocks.
    fn cell(row: &str, rates: &[(&str, f64)]) -> Cell {
        let result = |(target, rate): &(&str, f64)| result(target, (1..=FEWEST_BLOCKS).map(|block| (block, *rate)));
        cell_of(row, rates.iter().map(result).collect())
    }

    /// A target's rates by block.
    fn result(target: &str, rates: impl Iterator<Item = (usize, f64)>) -> CellResult {
        let all: Vec<SliceRecord> = rates
            .map(|(block, rate)| {
                let mut slice = slice(target, block);
                slice.measured.as_mut().unwrap().rates.messages_per_s = rate;
                slice
            })
            .collect();
        let figures = Figures {
            value: Spread::of(vec![0.0]).unwrap(),
            to_first: None,
            of_limit: None,
            slices: all.len(),
            valid: all.len(),
            remarks: Vec::new(),
            all,
        };
        CellResult { target: target.to_owned(), outcome: CellOutcome::Measured(Box::new(figures)) }
    }

    fn cell_of(row: &str, results: Vec<CellResult>) -> Cell {
        Cell {
            row: row.to_owned(),
            title: String::new(),
            profile: Profile::Fair,
            point: BTreeMap::new(),
            metric: Metric::MessagesPerSecond,
            load: Scenario::default(),
            scaled: None,
            published: Vec::new(),
            results,
        }
    }

    /// Makes the first result's slices of some blocks break a rule, by `change`.
    fn invalidated(cell: &mut Cell, which: &[usize], change: fn(&mut Measured)) {
        let CellOutcome::Measured(figures) = &mut cell.results[0].outcome else { panic!("no figures") };
        for slice in figures.all.iter_mut().filter(|slice| which.contains(&slice.block)) {
            let measured = slice.measured.as_mut().unwrap();
            measured.verdict.valid = false;
            change(measured);
            figures.valid -= 1;
        }
    }

    /// What `holds` comes to over some cells of two brokers of kth2016.
    fn judged(cells: &[Cell], holds: &str) -> Judged {
        let study = Study::find("kth2016").unwrap();
        let targets =
            [broker("rabbitmq=amqp://127.0.0.1:1", "RabbitMQ"), broker("amq=stomp://127.0.0.1:2", "ActiveMQ")];
        let bench = Bench { study: &study, cells, targets: &targets };
        bench.judge(&read(holds).unwrap(), None, None)
    }

    /// Rates rise from block to block, and one of the targets is always twice as fast.
    #[test]
    fn figures_are_compared_within_the_blocks_that_both_have() {
        let rate = |block: usize| 2f64.powi(block as i32);
        let fast = result("rabbitmq", [1, 3, 4, 5, 6, 7].into_iter().map(|block| (block, 2.0 * rate(block))));
        for blocks in [vec![1, 2, 3, 4, 5, 6], (1..=10).collect()] {
            let slow = result("amq", blocks.into_iter().map(|block| (block, rate(block))));
            let (verdict, why) =
                judged(&[cell_of("K1", vec![fast.clone(), slow])], "K1@RabbitMQ/K1@ActiveMQ in 1.9..2.1");
            assert_eq!((verdict, why.contains(": 2.00 (2.00-2.00 at ")), (ClaimVerdict::Holds, true), "{why}");
        }
    }

    /// Block 3 of one row was an hour before block 3 of the other: which of them stand side by side
    /// must not matter.
    #[test]
    fn figures_of_two_rows_are_compared_as_those_of_two_runs() {
        let rates = [1000.0, 1100.0, 1200.0, 1300.0, 1400.0];
        let row =
            |id: &str, rates: &mut dyn Iterator<Item = f64>| cell_of(id, vec![result("rabbitmq", (1..).zip(rates))]);
        let below = row("K1", &mut rates.into_iter());
        let mut verdicts = Vec::new();
        for order in [rates.to_vec(), rates.into_iter().rev().collect()] {
            let above = row("K3", &mut order.iter().map(|rate| rate * 1.1));
            verdicts.push(judged(&[below.clone(), above], "K3@RabbitMQ > K1@RabbitMQ"));
        }
        assert_eq!(verdicts[0], verdicts[1]);
        assert_eq!(verdicts[0].0, ClaimVerdict::Undecided, "{}", verdicts[0].1);
        assert!(verdicts[0].1.ends_with("at 95 %)"), "{}", verdicts[0].1);
    }

    #[test]
    fn slices_that_broke_a_rule_decide_nothing() {
        let absurd = |measured: &mut Measured| measured.costs.broker.as_mut().unwrap().cpu_us_per_message = 1e9;
        let rates = |count: usize| (1..=count).map(|block| (block, 1e3));
        for (valid, expected) in [(6, ClaimVerdict::Holds), (4, ClaimVerdict::Undecided), (0, ClaimVerdict::Undecided)]
        {
            let mut cell = cell_of("K1", vec![result("rabbitmq", rates(10)), result("amq", rates(10))]);
            invalidated(&mut cell, &(valid + 1..=10).collect::<Vec<_>>(), absurd);
            for figure in [".cpu", ""] {
                let holds = format!("K1@RabbitMQ{figure} in 0..1e6");
                let (verdict, why) = judged(std::slice::from_ref(&cell), &holds);
                assert_eq!(verdict, expected, "{why}");
                assert_eq!(why.contains("no slice of rabbitmq was valid"), valid == 0, "{why}");
            }
        }
    }

    #[test]
    fn what_is_survived_is_so_in_every_block_and_slices_that_broke_a_rule_say_so() {
        use ClaimVerdict::{DoesNotHold, Holds, Undecided};
        let study = Study::find("mostlyuseless2007").unwrap();
        let targets = [broker("amq=stomp://127.0.0.1:1", "ActiveMQ")];
        for (lossy, expected) in [(0, Holds), (1, Undecided), (5, Undecided), (10, DoesNotHold)] {
            let mut cell = cell_of("M3p", vec![result("amq", (1..=10).map(|block| (block, 1e3)))]);
            (cell.metric, cell.point) = (Metric::Passed, BTreeMap::from([("queues".to_owned(), 1024.0)]));
            invalidated(&mut cell, &(1..=lossy).collect::<Vec<_>>(), |measured| measured.integrity.lost = 1);
            let claims = Bench { study: &study, cells: &[cell], targets: &targets }.claims();
            let survived = claims.iter().find(|claim| claim.text.starts_with("1024")).unwrap();
            assert_eq!(survived.verdict, expected, "{lossy}: {}", survived.why);
        }
    }

    /// Artemis calls itself ActiveMQ-Artemis, and was compared with itself.
    #[test]
    fn one_target_does_not_stand_for_two_products() {
        let artemis = || broker("artemis=stomp://127.0.0.1:1", "ActiveMQ-Artemis");
        let classic = || broker("classic=stomp://127.0.0.1:2", "ActiveMQ");
        let networked = || broker("activemq/networked=stomp://127.0.0.1:3", "ActiveMQ");
        let exact = || broker("activemq=stomp://127.0.0.1:4", "ActiveMQ");
        let missing = || Err::<&str, _>("ActiveMQ is not among the targets".to_owned());
        let cases = [
            (vec![artemis()], missing()),
            (vec![artemis(), classic()], Ok("classic")),
            (vec![artemis(), networked(), exact()], Ok("activemq")),
        ];
        let study = Study::find("kth2016").unwrap();
        for (targets, expected) in cases {
            let bench = Bench { study: &study, cells: &[], targets: &targets };
            assert_eq!(bench.standing_for("ActiveMQ"), expected);
            assert_eq!(bench.standing_for("Artemis"), Ok("artemis"));
        }
        let (targets, cells) = ([artemis()], [cell("K1", &[("artemis", 1e3)])]);
        let bench = Bench { study: &study, cells: &cells, targets: &targets };
        let (verdict, why) = bench.judge(&read("K1@Artemis >= K1@ActiveMQ").unwrap(), None, None);
        assert_eq!((verdict, why.ends_with(&missing().unwrap_err())), (ClaimVerdict::Undecided, true), "{why}");
    }

    #[test]
    fn a_target_is_not_compared_with_itself_under_two_names() {
        let study = Study::find("dynabyte2018").unwrap();
        let targets = [broker("amq=stomp://127.0.0.1:1", "ActiveMQ")];
        let cells = [cell("D1", &[("amq", 1e3)])];
        let bench = Bench { study: &study, cells: &cells, targets: &targets };
        let (verdict, why) = bench.judge(&read("D1@ActiveMQ_AMQP ~ D1@ActiveMQ_OpenWire").unwrap(), None, None);
        assert_eq!((verdict, why.ends_with("are both amq")), (ClaimVerdict::Undecided, true), "{why}");
    }

    #[test]
    fn more_and_less_do_not_hold_of_what_is_equal() {
        use ClaimVerdict::{DoesNotHold, Holds};
        let equal = Estimate::of(vec![1.0; FEWEST_BLOCKS]).unwrap();
        for (sign, expected) in [(">", DoesNotHold), ("<", DoesNotHold), (">=", Holds), ("<=", Holds), ("~", Holds)] {
            let predicate = read(&format!("Q5 {sign} Q6")).unwrap();
            assert_eq!(decide(&equal, predicate.range).0, expected, "{sign}");
        }
    }

    #[test]
    fn a_claim_about_a_variant_compares_it_with_the_broker_that_it_is_a_variant_of() {
        let study = Study::find("mostlyuseless2007").unwrap();
        let targets = [
            broker("hermod=stomp://127.0.0.1:1", "Hermod"),
            broker("amq-networked=stomp://127.0.0.1:2", "ActiveMQ"),
            broker("amq=stomp://127.0.0.1:3", "ActiveMQ"),
        ];
        // Over its second broker the variant is as slow in M0: beside itself it would have lost
        // nothing.
        let cells = [
            cell("M0", &[("hermod", 9e5), ("amq-networked", 5e3), ("amq", 1e4)]),
            cell("M4", &[("amq-networked", 5e3)]),
        ];
        let claims = Bench { study: &study, cells: &cells, targets: &targets }.claims();
        let halves: Vec<_> = claims.iter().filter(|claim| claim.text.starts_with("A second broker")).collect();
        let [only] = halves.as_slice() else { panic!("{halves:?}") };
        assert!(only.text.ends_with("(amq-networked)"));
        assert_eq!(
            (only.verdict, only.why.as_str()),
            (ClaimVerdict::Holds, "M4/M0 in 0.4..0.7: 0.50 (0.50-0.50 at 95 %)")
        );
    }

    /// It once vanished from the report.
    #[test]
    fn a_claim_about_a_variant_that_is_not_there_is_undecided_and_says_what_is_missing() {
        let study = Study::find("mostlyuseless2007").unwrap();
        let targets = [broker("amq=stomp://127.0.0.1:1", "ActiveMQ"), broker("hermod=stomp://127.0.0.1:2", "Hermod")];
        let cells = [cell("M0", &[("amq", 1e4), ("hermod", 9e5)]), cell("M4", &[])];
        let claims = Bench { study: &study, cells: &cells, targets: &targets }.claims();
        let halves: Vec<_> = claims.iter().filter(|claim| claim.text.starts_with("A second broker")).collect();
        let [only] = halves.as_slice() else { panic!("{halves:?}") };
        assert_eq!((only.verdict, only.why.as_str()), (ClaimVerdict::Undecided, "no target has networked in its name"));
    }

    /// A run of one row said of each claim about the others, for each broker, that there was no
    /// figure.
    #[test]
    fn a_claim_about_rows_that_a_run_left_out_is_one_line() {
        let study = Study::find("crimson2003").unwrap();
        let targets = [broker("amq=stomp://127.0.0.1:1", "ActiveMQ"), broker("hermod=stomp://127.0.0.1:2", "Hermod")];
        let cells = [cell("Q5", &[("amq", 1e3), ("hermod", 2e3)]), cell("Q6", &[("amq", 1e3), ("hermod", 2e3)])];
        let claims = Bench { study: &study, cells: &cells, targets: &targets }.claims();
        let lacking: Vec<_> = claims.iter().filter(|claim| claim.why.contains("Q9")).collect();
        let [only] = lacking.as_slice() else { panic!("{lacking:?}") };
        assert_eq!((only.verdict, only.why.as_str()), (ClaimVerdict::Undecided, "left out of this run: Q10, Q9"));
    }

    #[test]
    fn a_claim_is_not_about_brokers_that_lack_its_row() {
        let study = Study::find("crimson2003").unwrap();
        let targets = [broker("amq=stomp://127.0.0.1:1", "ActiveMQ"), broker("js=jetstream://127.0.0.1:2", "NATS")];
        let lacking = |target: &str| CellResult {
            target: target.to_owned(),
            outcome: CellOutcome::NotApplicable { lacks: "selector".to_owned() },
        };
        let mut selecting = cell("Q9", &[("amq", 1e3)]);
        selecting.results.push(lacking("js"));
        let about = |selecting: Cell| {
            let others = ["Q5", "Q6", "Q10"].map(|row| cell(row, &[]));
            let cells: Vec<Cell> = others.into_iter().chain([selecting]).collect();
            let claims = Bench { study: &study, cells: &cells, targets: &targets }.claims();
            claims
                .into_iter()
                .filter(|claim| claim.why.contains("Q9") || claim.why.contains("about"))
                .collect::<Vec<_>>()
        };
        let claims = about(selecting.clone());
        assert!(!claims.is_empty() && claims.iter().all(|claim| claim.text.ends_with("(amq)")), "{claims:?}");
        selecting.results = vec![lacking("amq"), lacking("js")];
        let claims = about(selecting);
        assert!(claims.iter().all(|claim| claim.why == "no target has what it is about"), "{claims:?}");
        assert!(!claims.is_empty());
    }
}
