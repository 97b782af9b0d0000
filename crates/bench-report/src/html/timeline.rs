//! The rate over the time of one slice of each target: how it rises, stalls, or sinks as a queue
//! fills.

use super::book::{Book, figures};
use super::chart::lines::{Line, Point};
use super::quantity::amount;
use bench_record::over_time::OverTime;
use bench_record::scenario::Scenario;
use bench_record::slice::SliceRecord;
use bench_record::suite::{Cell, Figures};

/// A line has at most this many points: neighbouring windows are joined beyond.
const MOST_POINTS: usize = 160;

/// A line for each target that has one.
pub(super) fn lines(book: &Book<'_>, cell: &Cell) -> Vec<Line> {
    let players = book.players.iter().enumerate();
    let drawn = players.filter_map(|(index, player)| {
        let slice = typical(figures(cell, index)?)?;
        let series = &slice.measured.as_ref()?.over_time;
        let points = points(series, moved(series, &cell.load), player.name());
        let line = Line { name: player.name().to_owned(), look: player.look.clone(), points };
        (!line.points.is_empty()).then_some(line)
    });
    drawn.collect()
}

/// The slice whose rate is in the middle: of the valid ones, or of all where none is valid.
fn typical(found: &Figures) -> Option<&SliceRecord> {
    let mut by_rate: Vec<(f64, &SliceRecord)> =
        found.usable().map(|(slice, measured)| (measured.rates.messages_per_s, slice)).collect();
    by_rate.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(by_rate.get(by_rate.len() / 2)?.1)
}

/// What a load is about: received, or confirmed (or sent) where there is no consumer.
fn moved<'a>(series: &'a OverTime, load: &Scenario) -> &'a [u64] {
    match (load.copies(), load.clients.window) {
        (0, 0) => &series.sent,
        (0, _) => &series.confirmed,
        _ => &series.received,
    }
}

fn points(series: &OverTime, moved: &[u64], name: &str) -> Vec<Point> {
    let windows = series.until_s.iter().zip(&series.seconds).zip(moved);
    let measured: Vec<(f64, f64, u64)> = windows
        .filter(|((until, _), _)| **until > 0.0)
        .map(|((until, length), moved)| (*until, *length, *moved))
        .collect();
    let joined = measured.chunks(measured.len().div_ceil(MOST_POINTS).max(1));
    let point = |windows: &[(f64, f64, u64)]| {
        let (until, _, _) = windows.last()?;
        let (seconds, count) = windows.iter().fold((0.0, 0), |(s, n), (_, length, moved)| (s + length, n + moved));
        let rate = (seconds > 0.0).then(|| count as f64 / seconds)?;
        let title = format!("{name}, {until:.1} s: {} msg/s", amount(rate));
        Some(Point { x: until - seconds / 2.0, y: rate, band: None, title, doubtful: false })
    };
    joined.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_joined_without_losing_a_message_and_the_warm_up_is_left_out() {
        let windows = 1000;
        let series = OverTime {
            until_s: (0..windows).map(|n| f64::from(n) / 10.0 - 10.0).collect(),
            seconds: vec![0.1; windows as usize],
            sent: vec![7; windows as usize],
            ..OverTime::default()
        };
        let points = points(&series, &series.sent, "a");
        assert!(points.len() <= MOST_POINTS && points.len() > MOST_POINTS / 2, "{}", points.len());
        assert!(points.iter().all(|point| (point.y - 70.0).abs() < 1e-6 && point.x > 0.0));
        assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x));
    }
}
