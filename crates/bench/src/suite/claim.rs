//! What a study says, as predicates over cells: `D1@EMS > D1@Apollo`, `M1:consumers=16/M1:consumers=8 in 0.8..1.25`,
//! `Q5 >= Q6`. A term names a row, perhaps a point of it, a platform of the study, and a figure other than the row's own.
//! Without platforms a claim is about each broker by itself; where it names a row that only variants of a broker can have, about
//! these, beside the broker that they are variants of.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::record::{Cell, CellOutcome, Claim, ClaimVerdict, Figures, Profile, Role, TargetFacts};
use super::study::{Claimed, RowKind, Study};
use crate::failure::{Context, Failure};
use crate::measure::statistics::Spread;
use crate::report::record::SliceRecord;

/// Fewer blocks than this give no interval, and so no verdict.
const FEWEST_BLOCKS: usize = 5;
/// What `~` allows around 1.
const ABOUT: (f64, f64) = (0.8, 1.25);

/// A figure of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    pub(crate) row: String,
    pub(crate) at: BTreeMap<String, f64>,
    pub(crate) platform: Option<String>,
    figure: Which,
}

/// Which figure of a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The one that the row is about.
    Own,
    /// Cores that the broker used.
    Cores,
    /// The broker's CPU for each message, microseconds.
    Cpu,
    /// Messages a second.
    Rate,
    /// The median latency, microseconds.
    Latency,
}

/// A quotient of two figures, or one figure, and where it must lie.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Predicate {
    text: String,
    above: Term,
    below: Option<Term>,
    /// Ends of the range; infinite where open.
    range: (f64, f64),
}

impl Predicate {
    /// All figures that it needs.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        [Some(&self.above), self.below.as_ref()].into_iter().flatten()
    }
}

impl TryFrom<String> for Predicate {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [left, sign, right] = words.as_slice() else {
            return Err(Failure::new(format!(
                "{text}: a predicate is FIGURE SIGN FIGURE, with spaces around the sign"
            )));
        };
        let (above, below) = match left.split_once('/') {
            Some((above, below)) => (Term::read(above)?, Some(Term::read(below)?)),
            None => (Term::read(left)?, None),
        };
        let range = match *sign {
            ">" | ">=" => (1.0, f64::INFINITY),
            "<" | "<=" => (f64::NEG_INFINITY, 1.0),
            "~" => ABOUT,
            "in" => {
                let (low, high) =
                    right.split_once("..").ok_or_else(|| Failure::new(format!("{text}: a range is LOW..HIGH")))?;
                (low.parse().context(&text)?, high.parse().context(&text)?)
            }
            _ => return Err(Failure::new(format!("{text}: the signs are > >= < <= ~ in"))),
        };
        match (*sign, below) {
            ("in", below) => Ok(Self { above, below, range, text }),
            (_, None) => Ok(Self { above, below: Some(Term::read(right)?), range, text }),
            _ => Err(Failure::new(format!("{text}: a quotient is compared with a range: `in LOW..HIGH`"))),
        }
    }
}

impl Term {
    /// `ROW[:AXIS=VALUE[,AXIS=VALUE]][@PLATFORM][.FIGURE]`
    fn read(text: &str) -> Result<Self, Failure> {
        let (text, figure) = match text.rsplit_once('.') {
            Some((rest, "cores")) => (rest, Which::Cores),
            Some((rest, "cpu")) => (rest, Which::Cpu),
            Some((rest, "rate")) => (rest, Which::Rate),
            Some((rest, "latency")) => (rest, Which::Latency),
            _ => (text, Which::Own),
        };
        let (place, platform) = match text.split_once('@') {
            Some((place, platform)) => (place, Some(platform.to_owned())),
            None => (text, None),
        };
        let (row, point) = place.split_once(':').unwrap_or((place, ""));
        let mut at = BTreeMap::new();
        for pair in point.split(',').filter(|pair| !pair.is_empty()) {
            let (axis, value) =
                pair.split_once('=').ok_or_else(|| Failure::new(format!("{text}: a point is AXIS=VALUE")))?;
            at.insert(axis.to_owned(), value.parse().context(text)?);
        }
        if row.is_empty() {
            return Err(Failure::new(format!("{text}: a row is missing")));
        }
        Ok(Self { row: row.to_owned(), at, platform, figure })
    }
}

/// Everything that claims are judged by.
pub(crate) struct Bench<'a> {
    pub(crate) study: &'a Study,
    pub(crate) cells: &'a [Cell],
    pub(crate) targets: &'a [TargetFacts],
}

/// Whether one predicate holds, and the figures behind it.
type Judged = (ClaimVerdict, String);

impl Bench<'_> {
    /// All claims of the study: one verdict each, or one for each broker where no platform is named.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.study.claims.iter().flat_map(|claimed| self.claim(claimed)).collect()
    }

    fn claim(&self, claimed: &Claimed) -> Vec<Claim> {
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
        // What nobody here can show is still one of the study's claims.
        let why = match brokers().any(|facts| named(&facts)) {
            true => "no target has what it is about".to_owned(),
            false => format!("no target has {} in its name", needed.join(" and ")),
        };
        vec![Claim { text: claimed.text.clone(), verdict: ClaimVerdict::Undecided, why }]
    }

    /// True when `target` itself can't do one of the rows that a claim is about: that says nothing about the claim.
    fn lacks(&self, claimed: &Claimed, target: &str) -> bool {
        claimed.holds.iter().flat_map(Predicate::terms).any(|term| {
            let results = self.cells.iter().filter(|cell| cell.row == term.row).flat_map(|cell| &cell.results);
            let mut mine = results.filter(|result| result.target == target).peekable();
            mine.peek().is_some() && mine.all(|result| matches!(result.outcome, CellOutcome::NotApplicable { .. }))
        })
    }

    /// The verdict over all predicates: the first that does not hold decides, then the first that is undecided.
    fn all(&self, claimed: &Claimed, target: Option<&str>) -> Judged {
        let judged: Vec<Judged> = claimed.holds.iter().map(|one| self.judge(one, claimed.profile, target)).collect();
        let first = |verdict: ClaimVerdict| judged.iter().find(|(one, _)| *one == verdict).cloned();
        first(ClaimVerdict::DoesNotHold).or_else(|| first(ClaimVerdict::Undecided)).unwrap_or_else(|| {
            let whys: Vec<String> = judged.into_iter().map(|(_, why)| why).collect();
            (ClaimVerdict::Holds, whys.join("; "))
        })
    }

    fn judge(&self, predicate: &Predicate, profile: Option<Profile>, target: Option<&str>) -> Judged {
        let word = predicate.terms().find_map(|term| self.needs(term));
        let of = |term: &Term| match (word, target) {
            (Some(word), Some(variant)) if self.needs(term).is_none() => Some(self.without(word, variant)),
            _ => target,
        };
        let values: Result<Vec<Vec<f64>>, String> =
            predicate.terms().map(|term| self.values(term, profile, of(term))).collect();
        let values = match values {
            Ok(values) => values,
            Err(why) => return (ClaimVerdict::Undecided, format!("{}: {why}", predicate.text)),
        };
        let quotients = match values.as_slice() {
            [above, below] if above.len() == below.len() => {
                above.iter().zip(below).map(|(above, below)| above / below).collect()
            }
            [above, below] => vec![middle(above) / middle(below)],
            [only] => only.clone(),
            _ => Vec::new(),
        };
        let Some(spread) = Spread::of(quotients.into_iter().filter(|value| value.is_finite()).collect()) else {
            return (ClaimVerdict::Undecided, format!("{}: nothing to compare", predicate.text));
        };
        let (verdict, certainty) = decide(&spread, predicate.range);
        (verdict, format!("{}: {} ({certainty})", predicate.text, short(spread.median)))
    }

    /// A figure over the blocks, or why there is none.
    fn values(&self, term: &Term, profile: Option<Profile>, target: Option<&str>) -> Result<Vec<f64>, String> {
        let target = match (&term.platform, target) {
            (Some(platform), _) => self.standing_for(platform)?,
            (None, Some(target)) => target,
            (None, None) => return Err("no platform is named".to_owned()),
        };
        let fits = |cell: &&Cell| {
            cell.row == term.row
                && profile.is_none_or(|profile| cell.profile == profile)
                && term.at.iter().all(|(axis, value)| cell.point.get(axis) == Some(value))
        };
        let mut cells: Vec<&Cell> = self.cells.iter().filter(fits).collect();
        cells.sort_by_key(|cell| cell.profile);
        let results = cells.iter().flat_map(|cell| &cell.results).filter(|result| result.target == target);
        let figures = results.filter_map(|result| match &result.outcome {
            CellOutcome::Measured(figures) => Some(figures.as_ref()),
            _ => None,
        });
        let values = figures.map(|figures| read(figures, term.figure)).find(|values| !values.is_empty());
        values.ok_or_else(|| format!("{target} has no figure for {}", term.row))
    }

    /// What a target must have in its name for the row of `term`.
    fn needs(&self, term: &Term) -> Option<&str> {
        match &self.study.rows.iter().find(|row| row.id == term.row)?.kind {
            RowKind::Needs(word) => Some(word),
            RowKind::Load | RowKind::Absent(_) => None,
        }
    }

    /// The broker that `variant` is compared with: the first of the same product and protocol without `word` in its name, else
    /// itself.
    fn without<'a>(&'a self, word: &str, variant: &'a str) -> &'a str {
        let known = self.targets.iter().find(|facts| facts.target.name == variant);
        let beside = |facts: &&TargetFacts| {
            let same = |own: &TargetFacts| own.product == facts.product && own.target.scheme == facts.target.scheme;
            facts.role == Role::Broker && !facts.target.name.contains(word) && known.is_some_and(same)
        };
        self.targets.iter().find(beside).map_or(variant, |facts| &facts.target.name)
    }

    /// The name of the target that stands for a platform.
    fn standing_for(&self, platform: &str) -> Result<&str, String> {
        let product = self.study.platforms.get(platform).and_then(|known| known.product.as_deref());
        let Some(product) = product else { return Err(format!("{platform} is not to be had")) };
        let is_it = |facts: &&TargetFacts| {
            let names = [Some(&facts.target.name), facts.product.as_ref()];
            facts.role == Role::Broker && names.into_iter().flatten().any(|name| name.to_lowercase().contains(product))
        };
        let found = self.targets.iter().find(is_it).map(|facts| facts.target.name.as_str());
        found.ok_or_else(|| format!("{platform} is not among the targets"))
    }
}

fn read(figures: &Figures, which: Which) -> Vec<f64> {
    let of = |read: &dyn Fn(&SliceRecord) -> Option<f64>| figures.all.iter().filter_map(read).collect();
    match which {
        Which::Own => figures.value.values.clone(),
        Which::Cores => of(&|slice| Some(slice.measured.as_ref()?.broker?.cores)),
        Which::Cpu => of(&|slice| Some(slice.measured.as_ref()?.broker?.cpu_us_per_message)),
        Which::Rate => of(&|slice| Some(slice.measured.as_ref()?.messages_per_s)),
        Which::Latency => of(&|slice| Some(slice.measured.as_ref()?.latency_us.as_ref()?.p50)),
    }
}

/// Whether values lie within a range, by their interval. Without one nothing is decided: a single block may be off by any factor.
fn decide(spread: &Spread, (low, high): (f64, f64)) -> (ClaimVerdict, String) {
    let blocks = spread.values.len();
    let Some((least, most)) = spread.interval.filter(|_| blocks >= FEWEST_BLOCKS) else {
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
    (verdict, format!("{}-{} at 95 %", short(least), short(most)))
}

fn middle(values: &[f64]) -> f64 {
    Spread::of(values.to_vec()).map_or(f64::NAN, |spread| spread.median)
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::super::record::{CellResult, Metric};
    use super::*;
    use crate::scenario::Scenario;

    fn read(text: &str) -> Result<Predicate, Failure> {
        Predicate::try_from(text.to_owned())
    }

    #[test]
    fn predicates_are_read_and_mistakes_are_named() {
        let predicate = read("O5:bindings=1024,size=1@Qpid.cores/O5:bindings=1,size=1 in 0.4..0.7").unwrap();
        assert_eq!(predicate.range, (0.4, 0.7));
        assert_eq!(predicate.above.at, BTreeMap::from([("bindings".to_owned(), 1024.0), ("size".to_owned(), 1.0)]));
        assert_eq!((predicate.above.platform.as_deref(), predicate.above.figure), (Some("Qpid"), Which::Cores));
        assert_eq!(predicate.below.unwrap().platform, None);
        assert_eq!(read("Q5 >= Q6").unwrap().terms().count(), 2);
        for (text, part) in [
            ("Q5>Q6", "with spaces"),
            ("Q5 = Q6", "the signs are"),
            ("Q5 in 3", "LOW..HIGH"),
            ("Q5/Q6 > Q7", "compared with a range"),
            (":a=1 > Q6", "a row is missing"),
            ("Q5:a > Q6", "AXIS=VALUE"),
        ] {
            let failure = read(text).unwrap_err().to_string();
            assert!(failure.contains(part), "{text}: {failure}");
        }
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
            assert_eq!(decide(&Spread::of(values.to_vec()).unwrap(), *range).0, *verdict, "{values:?}");
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
        let result = |(target, rate): &(&str, f64)| CellResult {
            target: (*target).to_owned(),
            outcome: CellOutcome::Measured(Box::new(Figures {
                value: Spread::of(vec![*rate; FEWEST_BLOCKS]).unwrap(),
                to_first: None,
                of_limit: None,
                slices: FEWEST_BLOCKS,
                valid: FEWEST_BLOCKS,
                remarks: Vec::new(),
                all: Vec::new(),
            })),
        };
        Cell {
            row: row.to_owned(),
            title: String::new(),
            profile: Profile::Fair,
            point: BTreeMap::new(),
            metric: Metric::MessagesPerSecond,
            load: Scenario::default(),
            scaled: None,
            published: Vec::new(),
            results: rates.iter().map(result).collect(),
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
        // Over its second broker the variant is as slow in M0: beside itself it would have lost nothing.
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
        let cells = [cell("M0", &[("amq", 1e4), ("hermod", 9e5)])];
        let claims = Bench { study: &study, cells: &cells, targets: &targets }.claims();
        let halves: Vec<_> = claims.iter().filter(|claim| claim.text.starts_with("A second broker")).collect();
        let [only] = halves.as_slice() else { panic!("{halves:?}") };
        assert_eq!((only.verdict, only.why.as_str()), (ClaimVerdict::Undecided, "no target has networked in its name"));
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
        let about = |cells: &[Cell]| {
            let claims = Bench { study: &study, cells, targets: &targets }.claims();
            claims
                .into_iter()
                .filter(|claim| claim.why.contains("Q9") || claim.why.contains("about"))
                .collect::<Vec<_>>()
        };
        let claims = about(&[selecting.clone()]);
        assert!(!claims.is_empty() && claims.iter().all(|claim| claim.text.ends_with("(amq)")), "{claims:?}");
        selecting.results = vec![lacking("amq"), lacking("js")];
        let claims = about(&[selecting]);
        assert!(claims.iter().all(|claim| claim.why == "no target has what it is about"), "{claims:?}");
        assert!(!claims.is_empty());
    }
}
