//! From the rows of a study to cells: every combination of its variables in every profile, and the
//! load of each, scaled.

use std::collections::BTreeMap;

use super::choice::Choice;
use super::knobs::Knobs;
use super::point::is_at;
use super::study::{ClientKind, Row, Study, Variant};
use bench_record::failure::{Context, Failure};
use bench_record::scenario::{Scenario, Tail};
use bench_record::suite::{Metric, Profile, Published, label};

/// Warm-ups are at least this part of the fewest measured messages.
const WARMUP_PART: u64 = 10;

/// How much of a study is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sizing {
    /// Message counts are multiplied by this.
    pub(crate) scale: f64,
    /// Seconds after which a slice ends; none: when all messages are through.
    pub(crate) cap: Option<f64>,
    /// Seconds that a slice is to last at least; none: as long as its messages take.
    pub(crate) least: Option<f64>,
}

impl Sizing {
    /// Seconds that a slice of a cell with this metric is to last at least; none: to pass takes as
    /// long as it takes.
    pub(crate) fn least(&self, metric: Metric) -> Option<f64> {
        self.least.filter(|_| metric != Metric::Passed)
    }
}

/// A cell to measure.
#[derive(Debug, Clone)]
pub(crate) struct Planned<'a> {
    pub(crate) row: &'a Row,
    pub(crate) profile: Profile,
    pub(crate) point: BTreeMap<String, f64>,
}

/// A load, and in words what was left out of it.
#[derive(Debug, Clone)]
pub(crate) struct Sized {
    pub(crate) scenario: Scenario,
    pub(crate) scaled: Option<String>,
}

impl Study {
    /// All cells that are `wanted`, in the order of the file.
    pub(crate) fn cells(&self, profiles: &[Profile], wanted: &Choice) -> Vec<Planned<'_>> {
        let cells = self.rows.iter().flat_map(|row| {
            let profiles = profiles.iter().filter(|profile| row.profiles.contains(*profile));
            profiles.flat_map(move |profile| {
                row.points().into_iter().map(move |point| Planned { row, profile: *profile, point })
            })
        });
        cells.filter(|cell| wanted.takes(&cell.row.id, &cell.point)).collect()
    }

    /// The load of a cell for one kind of clients.
    pub(crate) fn load(
        &self,
        cell: &Planned<'_>,
        client: Option<ClientKind>,
        sizing: &Sizing,
    ) -> Result<Sized, Failure> {
        let place = || format!("{} {}", self.id, cell.row.id);
        let turned = cell.point.iter().map(|(axis, value)| Knobs::default().turned(axis, *value));
        let turned: Vec<Knobs> = turned.collect::<Result<_, _>>()?;
        let fits = |variant: &&Variant| {
            variant.profile.is_none_or(|profile| profile == cell.profile)
                && variant.client.is_none_or(|kind| client == Some(kind))
        };
        let layers = [&self.load].into_iter().chain(self.variants.iter().filter(fits).map(|variant| &variant.load));
        let layers = layers.chain([&cell.row.load]).chain(cell.row.variants.iter().filter(fits).map(|one| &one.load));
        let scenario = Knobs::scenario(layers.chain(&turned)).context(place())?;
        let sized = scaled(scenario, cell.row, sizing);
        sized.scenario.check().context(place())?;
        Ok(sized)
    }
}

impl Planned<'_> {
    /// What was published at this point.
    pub(crate) fn published(&self, study: &Study) -> Vec<Published> {
        let here = self.row.published.iter().filter(|one| is_at(&self.point, &one.at));
        let figure = |value: f64, one: &super::study::PublishedPoint| {
            let least = one.runs.iter().copied().reduce(f64::min);
            let most = one.runs.iter().copied().reduce(f64::max);
            let platform = study.platforms.get(&one.platform).map_or(&one.platform, |known| &known.title);
            Published {
                platform: platform.clone(),
                value,
                low: one.low.or(least),
                high: one.high.or(most),
                note: one.note.clone(),
            }
        };
        here.filter_map(|one| Some(figure(one.mean()?, one))).collect()
    }

    /// The row and its point in a few characters: `M1 consumers=4`.
    pub(crate) fn label(&self) -> String {
        label(&self.row.id, &self.point)
    }
}

/// Cuts message counts down to the scale, and says so.
fn scaled(mut scenario: Scenario, row: &Row, sizing: &Sizing) -> Sized {
    let mut floor = row.floor;
    if let Some(large) = row.large.filter(|large| scenario.message.size > large.above) {
        (scenario.length.messages, floor) = (Some(large.messages), large.floor);
    }
    let cut = |full: u64, least: u64| ((full as f64 * sizing.scale).round() as u64).max(least.min(full));
    let full = scenario.length.messages;
    scenario.length.messages = full.map(|full| cut(full, floor));
    scenario.length.warmup_messages = cut(scenario.length.warmup_messages, floor / WARMUP_PART);
    scenario.message.tail =
        scenario.message.tail.map(|tail| Tail { messages: cut(tail.messages, floor / WARMUP_PART), ..tail });
    scenario.length.cap = sizing.cap;
    let scaled = match (full, scenario.length.messages) {
        (Some(full), Some(now)) if now != full => Some(format!("{now} messages instead of {full}")),
        _ => None,
    };
    Sized { scenario, scaled }
}
