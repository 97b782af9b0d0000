//! A study as data: what was published, what was wrong with it, and its rows as loads that any
//! target can be given. The five studies that come with the program are files of this form too, so
//! that another one takes a file and no code.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Table;

use super::knobs::Knobs;
use super::predicate::Predicate;
use bench_record::failure::{Context, Failure};
use bench_record::suite::{Figure, Metric, Profile};
use bench_record::target::JMS_SCHEMES;

/// The studies that come with the program, by the names of their files.
pub(crate) const EMBEDDED: [(&str, &str); 5] = [
    ("kth2016", include_str!("../../suites/kth2016.toml")),
    ("dynabyte2018", include_str!("../../suites/dynabyte2018.toml")),
    ("mostlyuseless2007", include_str!("../../suites/mostlyuseless2007.toml")),
    ("osu2008", include_str!("../../suites/osu2008.toml")),
    ("crimson2003", include_str!("../../suites/crimson2003.toml")),
];

/// A study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    pub(crate) id: String,
    pub(crate) title: String,
    /// What was studied and what came of it, in three sentences.
    pub(crate) gist: String,
    pub(crate) citation: String,
    pub(crate) environment: String,
    /// What is wrong with the measurement, one sentence each.
    pub(crate) faults: Vec<String>,
    /// What was measured, by the short names that rows and claims use.
    pub(crate) platforms: BTreeMap<String, Platform>,
    /// The load of all rows, before each row's own.
    #[serde(default)]
    pub(crate) load: Knobs,
    /// What profiles and kinds of clients change in all rows.
    #[serde(default)]
    pub(crate) variants: Vec<Variant>,
    pub(crate) rows: Vec<Row>,
    #[serde(default, deserialize_with = "figures")]
    pub(crate) figures: Vec<Figure>,
    #[serde(default)]
    pub(crate) claims: Vec<Claimed>,
}

/// A product that was measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Platform {
    /// Product and version.
    pub(crate) title: String,
    /// A target stands for it whose product or name has this in it, in lower case; none: no target
    /// can.
    #[serde(default)]
    pub(crate) product: Option<String>,
    /// A target with this in its product or name, in lower case, is another product and does not.
    #[serde(default)]
    pub(crate) unless: Option<String>,
}

/// Changes of a load in one profile, or for one kind of clients, or for both together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    #[serde(default)]
    pub(crate) profile: Option<Profile>,
    #[serde(default)]
    pub(crate) client: Option<ClientKind>,
    pub(crate) load: Knobs,
}

/// Kinds of clients that studies treated differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientKind {
    /// AMQP 0-9-1.
    Amqp,
    /// STOMP.
    Stomp,
    /// JMS and what resembles it, such as AMQP 1.0 over this program's own client.
    Jms,
}

impl ClientKind {
    /// The kind that a target's scheme means; none where it is none of these.
    pub(crate) fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "amqp" => Some(Self::Amqp),
            "stomp" => Some(Self::Stomp),
            "amqp10" => Some(Self::Jms),
            jms if JMS_SCHEMES.contains(&jms) => Some(Self::Jms),
            _ => None,
        }
    }
}

/// One row of a study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) metric: Metric,
    #[serde(default)]
    pub(crate) kind: RowKind,
    #[serde(default)]
    pub(crate) load: Knobs,
    #[serde(default)]
    pub(crate) variants: Vec<Variant>,
    /// What is varied, and over which values; all combinations are points.
    #[serde(default)]
    pub(crate) axes: BTreeMap<String, Vec<f64>>,
    /// Fewest messages, however small the scale.
    #[serde(default = "Row::usual_floor")]
    pub(crate) floor: u64,
    /// Other counts for large bodies.
    #[serde(default)]
    pub(crate) large: Option<Large>,
    /// Profiles in which there is such a row.
    #[serde(default = "Row::all_profiles")]
    pub(crate) profiles: Vec<Profile>,
    #[serde(default)]
    pub(crate) published: Vec<PublishedPoint>,
}

impl Row {
    /// All combinations of its variables; the first variable changes slowest.
    pub(super) fn points(&self) -> Vec<BTreeMap<String, f64>> {
        let mut points = vec![BTreeMap::new()];
        for (axis, values) in &self.axes {
            let with = |point: &BTreeMap<String, f64>, value: &f64| {
                let mut point = point.clone();
                point.insert(axis.clone(), *value);
                point
            };
            points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
        }
        points
    }

    fn usual_floor() -> u64 {
        200
    }

    fn all_profiles() -> Vec<Profile> {
        vec![Profile::Faithful, Profile::Fair]
    }
}

/// How many messages there are of large bodies.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Large {
    /// Bytes; larger bodies are large.
    pub(crate) above: usize,
    pub(crate) messages: u64,
    /// Fewest of them, however small the scale.
    pub(crate) floor: u64,
}

/// How a row is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowKind {
    /// By a load.
    #[default]
    Load,
    /// Not at all: no broker can be given this, for this reason.
    Absent(String),
    /// By a load, on targets only whose name has this in it: a variant of a broker that must
    /// have been set up before.
    Needs(String),
}

/// A figure that was printed, at one point of a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedPoint {
    pub(crate) platform: String,
    /// The row's variables; those left away are meant at every value.
    #[serde(default)]
    pub(crate) at: BTreeMap<String, f64>,
    #[serde(default)]
    pub(crate) value: Option<f64>,
    #[serde(default)]
    pub(crate) low: Option<f64>,
    #[serde(default)]
    pub(crate) high: Option<f64>,
    /// Single runs in their order, of which `value` is the mean.
    #[serde(default)]
    pub(crate) runs: Vec<f64>,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

impl PublishedPoint {
    /// The figure: as printed, or the mean of the runs.
    pub(crate) fn mean(&self) -> Option<f64> {
        let runs = self.runs.len() as f64;
        self.value.or_else(|| (runs > 0.0).then(|| self.runs.iter().sum::<f64>() / runs))
    }
}

/// Something that the study says, and how to tell whether it holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claimed {
    pub(crate) text: String,
    /// All of these must hold.
    pub(crate) holds: Vec<Predicate>,
    /// The profile whose cells are looked at; none: the one that was measured, the faithful one
    /// before the fair one.
    #[serde(default)]
    pub(crate) profile: Option<Profile>,
}

/// Figures with no field but theirs. Their type can't refuse others, since records have it, whose
/// readers pass over what a later program added.
fn figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Figure>, D::Error> {
    let read = |table: Table| {
        let figure: Figure = table.clone().try_into().map_err(D::Error::custom)?;
        let known = Table::try_from(&figure).map_err(D::Error::custom)?;
        match table.keys().find(|name| !known.contains_key(*name)) {
            Some(name) => Err(D::Error::custom(format!("unknown field `{name}` of a figure"))),
            None => Ok(figure),
        }
    };
    Vec::<Table>::deserialize(deserializer)?.into_iter().map(read).collect()
}

impl Study {
    /// The study called `name`, or the one in the file of that name.
    pub(crate) fn find(name: &str) -> Result<Self, Failure> {
        if let Some((_, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
            return Self::read(text).context(name);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            return Self::read(&std::fs::read_to_string(path).context(name)?).context(name);
        }
        let known: Vec<&str> = EMBEDDED.iter().map(|(known, _)| *known).collect();
        Err(Failure::new(format!("{name}: no such suite; there are {}, and files that end in .toml", known.join(", "))))
    }

    /// Reads and checks a file.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let study: Self = toml::from_str(text).map_err(|error| Failure::new(error.to_string()))?;
        study.check()?;
        Ok(study)
    }

    /// Says what refers to nothing.
    fn check(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(text));
        for (at, row) in self.rows.iter().enumerate() {
            if self.rows[..at].iter().any(|other| other.id == row.id) {
                return refuse(format!("two rows are called {}", row.id));
            }
            for (axis, values) in &row.axes {
                if values.is_empty() {
                    return refuse(format!("row {}: the axis {axis} has no values", row.id));
                }
                for value in values {
                    Knobs::default().turned(axis, *value).context(format!("row {}", row.id))?;
                }
            }
            for point in &row.published {
                if !self.platforms.contains_key(&point.platform) {
                    return refuse(format!("row {}: no platform is called {}", row.id, point.platform));
                }
                if let Some(axis) = point.at.keys().find(|axis| !row.axes.contains_key(*axis)) {
                    return refuse(format!(
                        "row {}: a figure is published at {axis}, which the row does not vary",
                        row.id
                    ));
                }
                if point.mean().is_none() {
                    return refuse(format!("row {}: a published figure needs value or runs", row.id));
                }
            }
        }
        for id in self.figures.iter().flat_map(|figure| &figure.rows) {
            self.row(id).context("a figure")?;
        }
        for claim in &self.claims {
            for term in claim.holds.iter().flat_map(Predicate::terms) {
                let row = self.row(&term.row).context(&claim.text)?;
                if let Some(axis) = term.at.keys().find(|axis| !row.axes.contains_key(*axis)) {
                    return refuse(format!("{}: row {} does not vary {axis}", claim.text, row.id));
                }
                if let Some(platform) = term.platform.as_ref().filter(|name| !self.platforms.contains_key(*name)) {
                    return refuse(format!("{}: no platform is called {platform}", claim.text));
                }
            }
            // Judged with platforms, a figure without one would belong to none.
            let mut named = claim.holds.iter().flat_map(Predicate::terms).map(|term| term.platform.is_some());
            let first = named.next();
            if named.any(|one| Some(one) != first) {
                return refuse(format!("{}: all figures of a claim name a platform, or none does", claim.text));
            }
        }
        Ok(())
    }

    pub(crate) fn row(&self, id: &str) -> Result<&Row, Failure> {
        self.rows.iter().find(|row| row.id == id).ok_or_else(|| Failure::new(format!("no row is called {id}")))
    }
}
