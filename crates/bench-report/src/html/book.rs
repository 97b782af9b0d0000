//! The report as its sections read it: targets with the look that each keeps over the whole page,
//! cells with the comparison of each target to the first.

use super::super::standing::{self, Comparison, Load, Standing};
use super::quantity::{printed, size};
use bench_record::durability::Durability;
use bench_record::failure::Failure;
use bench_record::statistics::ratio::Ratio;
use bench_record::suite::{
    Cell, CellOutcome, CellResult, Figures, Metric, Profile, Report, Role, SuiteRecord, TargetFacts, VERSION,
};

/// Looks that a reader tells apart; more brokers than this begin again.
const LOOKS: usize = 10;
/// Shapes of markers, in the order of the style sheet's colours.
const SHAPES: [Shape; LOOKS] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::Cross,
    Shape::Kite,
    Shape::Hexagon,
    Shape::Star,
    Shape::Bow,
    Shape::Bar,
];

/// The shape of a marker: what tells targets apart without colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Kite,
    Hexagon,
    Star,
    Bow,
    Bar,
}

/// How a target is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    /// A class of the style sheet, which sets its colour.
    pub(super) class: String,
    pub(super) shape: Shape,
    pub(super) dashed: bool,
}

impl Look {
    /// How the platform at `index` of a study is drawn.
    pub(super) fn published(index: usize) -> Self {
        Self { class: "study".to_owned(), shape: SHAPES[index % LOOKS], dashed: true }
    }
}

/// One target and its look.
#[derive(Debug)]
pub(super) struct Player<'a> {
    pub(super) facts: &'a TargetFacts,
    pub(super) look: Look,
}

impl Player<'_> {
    pub(super) fn name(&self) -> &str {
        &self.facts.target.name
    }
}

/// A report that was found whole.
#[derive(Debug)]
pub(super) struct Book<'a> {
    pub(super) report: &'a Report,
    pub(super) players: Vec<Player<'a>>,
}

impl<'a> Book<'a> {
    /// Refuses a record that does not hold together.
    pub(super) fn open(report: &'a Report) -> Result<Self, Failure> {
        if report.version != VERSION {
            return Err(Failure::new(format!(
                "the record is of version {}, this program reads version {VERSION}: use the program that wrote it",
                report.version
            )));
        }
        for suite in &report.suites {
            for cell in &suite.cells {
                let names = cell.results.iter().map(|result| &result.target);
                if !names.eq(report.targets.iter().map(|facts| &facts.target.name)) {
                    return Err(Failure::new(format!(
                        "{} {}: its results are not those of the record's targets, in their order",
                        suite.id, cell.row
                    )));
                }
            }
        }
        let mut brokers = 0;
        let players =
            report.targets.iter().map(|facts| Player { facts, look: look(facts.role, &mut brokers) }).collect();
        Ok(Self { report, players })
    }

    /// The broker that all others are compared with.
    pub(super) fn first(&self) -> Option<&Player<'a>> {
        self.players.iter().find(|player| player.facts.role == Role::Broker)
    }

    /// The other brokers.
    pub(super) fn others(&self) -> impl Iterator<Item = (usize, &Player<'a>)> {
        let brokers = self.players.iter().enumerate().filter(|(_, player)| player.facts.role == Role::Broker);
        brokers.skip(1)
    }

    /// All cells with their suite.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&'a SuiteRecord, &'a Cell)> {
        self.report.suites.iter().flat_map(|suite| suite.cells.iter().map(move |cell| (suite, cell)))
    }

    /// How the first target compares with the one at `index` in `cell`; none where there is no
    /// ratio.
    pub(super) fn comparison(&self, cell: &Cell, index: usize) -> Option<Comparison> {
        let mut found = standing::compare(cell.metric, &self.to_first(cell, index)?);
        let first = self.players.iter().position(|player| player.facts.role == Role::Broker)?;
        if let (Some(mine), Some(theirs)) = (self.promise(cell, first), self.promise(cell, index))
            && mine != theirs
        {
            found.standing = Standing::OtherPromise;
        }
        Some(found)
    }

    /// The ratio to the first target, judged by what the first target differs from itself in the
    /// same cell.
    pub(super) fn to_first(&self, cell: &Cell, index: usize) -> Option<Ratio> {
        let control = self.players.iter().position(|player| player.facts.role == Role::Control);
        let noise = control.filter(|at| *at != index).and_then(|at| self.to_first(cell, at)?.interval);
        let blocks = &figures(cell, index)?.to_first.as_ref()?.values;
        Ratio::of(blocks.iter().map(|ratio| (*ratio, 1.0)), noise)
    }

    /// What a confirm promises in `cell` on the target at `index`.
    pub(super) fn promise(&self, cell: &Cell, index: usize) -> Option<Durability> {
        // What is taken from a queue was put there before, and confirmed.
        let confirmed = cell.load.clients.window > 0 || cell.load.clients.drain;
        standing::promise(self.players[index].facts, Load { kept: cell.load.is_kept(), confirmed })
    }
}

/// The look of the next target: brokers have a colour each, the control that of the first.
fn look(role: Role, brokers: &mut usize) -> Look {
    match role {
        Role::Broker => {
            let index = *brokers % LOOKS;
            *brokers += 1;
            Look { class: format!("t{index}"), shape: SHAPES[index], dashed: false }
        }
        Role::Control => Look { class: "control".to_owned(), shape: Shape::Circle, dashed: true },
        Role::Limit => Look { class: "limit".to_owned(), shape: Shape::Cross, dashed: true },
    }
}

/// The figures of the target at `index`, where there are any.
pub(super) fn figures(cell: &Cell, index: usize) -> Option<&Figures> {
    match &cell.results.get(index)?.outcome {
        CellOutcome::Measured(figures) => Some(figures),
        _ => None,
    }
}

/// Why there is no figure: a word and the reason.
pub(super) fn absence(result: &CellResult) -> Option<(&'static str, &str)> {
    match &result.outcome {
        CellOutcome::Measured(_) => None,
        CellOutcome::NotApplicable { lacks } => Some(("not applicable", lacks)),
        CellOutcome::Failed { error } => Some(("failed", error)),
        CellOutcome::Pending => Some(("not run", "the run ended before its turn came")),
    }
}

/// Whether a cell's figure may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Soundness {
    /// At least one slice broke no rule; only such slices count.
    Sound,
    /// Every slice broke a rule of the measurement.
    Doubtful,
    /// Every slice broke a rule, and messages were lost, duplicated, reordered or corrupted: the
    /// figure is of another task.
    Violated,
}

/// Judges the figure of a cell. Whether slices passed is believed of those too that broke a rule:
/// that is what it says.
pub(super) fn soundness(metric: Metric, figures: &Figures) -> Soundness {
    if metric == Metric::Passed {
        return Soundness::Sound;
    }
    let harmed = figures.all.iter().filter_map(|slice| slice.measured.as_ref()).any(|measured| {
        let found = &measured.integrity;
        found.lost + found.duplicated + found.reordered + found.corrupted > 0
    });
    match (figures.valid, harmed) {
        (1.., _) => Soundness::Sound,
        (0, false) => Soundness::Doubtful,
        (0, true) => Soundness::Violated,
    }
}

/// A name for the place of a cell that can stand in a link: letters, digits and dashes.
pub(super) fn anchor(parts: &[&str]) -> String {
    let joined = parts.join("-");
    joined.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// The word for a profile.
pub(super) fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Faithful => "faithful",
        Profile::Fair => "fair",
    }
}

/// The point of a cell in words: `size 1 KiB, pairs 4`; empty where the row has one point.
pub(super) fn point(cell: &Cell) -> String {
    let value = |name: &str, value: f64| match name {
        "size" => size(value),
        _ => printed(value),
    };
    let parts: Vec<String> = cell.point.iter().map(|(name, at)| format!("{name} {}", value(name, *at))).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seventh target once looked like the first.
    #[test]
    fn ten_brokers_look_different() {
        let mut brokers = 0;
        let looks: Vec<Look> = (0..LOOKS).map(|_| look(Role::Broker, &mut brokers)).collect();
        for (at, one) in looks.iter().enumerate() {
            assert!(looks[..at].iter().all(|other| other.shape != one.shape && other.class != one.class), "{one:?}");
            assert!(include_str!("page.css").contains(&format!("\n.{}", one.class)), "{one:?}");
        }
    }
}
