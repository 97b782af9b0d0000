//! What Prometheus is told of a node that follows another, and of one that others follow.

use crate::exposition::Exposition;
use crate::report::{ClusterStatus, FollowerRow, StandbyRow};

/// The figures of a node that serves, and of those that follow it, for Prometheus.
pub(crate) fn of_cluster(cluster: &ClusterStatus) -> String {
    let mut out = Exposition::default();
    let (rows, waited) = (&cluster.followers, cluster.confirms_waited_ms as f64 / 1000.0);
    let alone = u8::from(cluster.confirms == "alone");
    out.gauge("hermod_confirms_alone", "Whether confirms rest on this node alone, although they should not", alone);
    let about = "How long the oldest confirm has waited for a node that follows";
    out.gauge("hermod_confirms_waiting_seconds", about, waited);
    let connected = rows.iter().filter(|row| row.state != "away").count();
    out.gauge("hermod_followers", "Nodes that follow this one and are connected", connected);
    for (name, help, value) in [
        ("hermod_follower_kept_bytes", "Bytes of the log that are kept for it", 3),
        ("hermod_follower_lag_entries", "Entries that are flushed here and not there, at most", 0),
        ("hermod_follower_lag_bytes", "Bytes that are flushed here and were not sent, at most", 1),
        ("hermod_follower_lag_seconds", "All that was flushed here so long ago is flushed there", 2),
    ] {
        out.family(name, "gauge", help);
        // While a copy is on its way, the lag says nothing; of one that is away, entries are not
        // counted.
        let shown = |row: &&FollowerRow| match row.state.as_str() {
            "copying" => value == 3,
            "away" => value != 0,
            _ => true,
        };
        for row in rows.iter().filter(shown) {
            let seconds = (row.lag_ms as f64 / 1000.0).to_string();
            let figures = [row.lag_entries.to_string(), row.lag_bytes.to_string(), seconds, row.kept_bytes.to_string()];
            out.sample(name, &[("name", &row.name), ("node", &row.node)], &figures[value]);
        }
    }
    out.into_text()
}

/// Its figures, for Prometheus.
pub(super) fn metrics(row: &StandbyRow) -> String {
    let seconds = |ms: Option<u64>| ms.map_or(f64::NAN, |ms| ms as f64 / 1000.0);
    let figures = [
        (
            "hermod_standby_following",
            "Whether entries of the leader come.",
            f64::from(u8::from(row.state == "following")),
        ),
        (
            "hermod_standby_whole",
            "Whether there is a whole copy, which could be promoted.",
            f64::from(u8::from(row.whole)),
        ),
        ("hermod_standby_lag_entries", "Entries that the leader had flushed and not sent.", row.lag_entries as f64),
        ("hermod_standby_lag_bytes", "The bytes of these.", row.lag_bytes as f64),
        ("hermod_standby_lag_seconds", "All that the leader had flushed so long ago is here.", seconds(row.lag_ms)),
        ("hermod_standby_heard_seconds", "Time since the leader was heard.", seconds(row.heard_ms)),
        ("hermod_standby_term", "How often a node of the cluster was promoted.", row.term as f64),
        ("hermod_standby_copied_bytes", "Bytes of the copy that came.", row.copied_bytes as f64),
        ("hermod_standby_copy_bytes", "Size of the copy.", row.copy_bytes as f64),
        ("hermod_scrub_damaged", "Segments found damaged by the scrub.", row.damaged_segments as f64),
    ];
    let totals = [
        ("hermod_standby_entries_total", "Entries taken.", row.entries as f64),
        ("hermod_standby_copies_total", "Copies begun.", row.copies as f64),
    ];
    let of = |kind: &'static str| {
        move |(name, help, value): (&str, &str, f64)| {
            let value = if value.is_nan() { "NaN".to_owned() } else { value.to_string() };
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n")
        }
    };
    figures.into_iter().map(of("gauge")).chain(totals.into_iter().map(of("counter"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_shown_with_their_lag_once_they_follow() {
        let row = FollowerRow {
            name: "b".into(),
            node: "7".into(),
            state: "copying".into(),
            lag_ms: 1500,
            kept_bytes: 7000,
            ..Default::default()
        };
        let shown = |row: FollowerRow| of_cluster(&ClusterStatus { followers: vec![row], ..ClusterStatus::default() });
        let text = shown(row.clone());
        assert!(text.contains("hermod_followers 1\n") && !text.contains("hermod_follower_lag_seconds{"), "{text}");
        assert!(text.contains("hermod_follower_kept_bytes{name=\"b\",node=\"7\"} 7000\n"), "{text}");
        let away = shown(FollowerRow { state: "away".into(), ..row.clone() });
        assert!(away.contains("hermod_followers 0\n") && away.contains("hermod_follower_lag_seconds{"), "{away}");
        assert!(!away.contains("hermod_follower_lag_entries{"), "{away}");
        let text = shown(FollowerRow { state: "following".into(), ..row });
        assert!(text.contains("hermod_follower_lag_seconds{name=\"b\",node=\"7\"} 1.5\n"), "{text}");
    }

    #[test]
    fn confirms_that_rest_on_one_node_are_an_alarm() {
        for (confirms, alone, alarm) in
            [("local", 0, None), ("replicated", 0, None), ("waiting", 0, Some("wait for")), ("alone", 1, Some("alone"))]
        {
            let confirms = confirms.to_owned();
            let cluster = ClusterStatus { confirms, confirms_waited_ms: 2500, ..ClusterStatus::default() };
            assert!(of_cluster(&cluster).contains(&format!("\nhermod_confirms_alone {alone}\n")), "{cluster:?}");
            assert!(of_cluster(&cluster).contains("\nhermod_confirms_waiting_seconds 2.5\n"), "{cluster:?}");
            assert_eq!(cluster.alarm().is_some_and(|text| text.contains(alarm.unwrap())), alarm.is_some());
        }
    }
}
