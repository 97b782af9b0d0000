//! How latency is spread in a cell: a line for each target over the share of messages that are
//! faster.

use super::book::{Book, Soundness, figures, soundness};
use super::chart::lines::{Line, Point};
use super::quantity::amount;
use bench_record::latency::Summary;
use bench_record::statistics::spread::Spread;
use bench_record::suite::Cell;

/// One of how many messages is slower, and the latency that says so.
type Percentile = (f64, fn(&Summary) -> f64);

const PERCENTILES: [Percentile; 4] = [
    (2.0, |latency| latency.p50),
    (10.0, |latency| latency.p90),
    (100.0, |latency| latency.p99),
    (1000.0, |latency| latency.p999),
];
/// A percentile beyond which there are fewer samples than this says nothing.
const FEWEST_SLOWER: f64 = 3.0;

/// A line for each target that has latencies: medians over its slices.
pub(super) fn lines(book: &Book<'_>, cell: &Cell) -> Vec<Line> {
    let players = book.players.iter().enumerate();
    let drawn = players.filter_map(|(index, player)| {
        let found = figures(cell, index)?;
        let doubtful = soundness(cell.metric, found) != Soundness::Sound;
        let latencies: Vec<&Summary> =
            found.usable().filter_map(|(_, measured)| measured.latencies.latency_us.as_ref()).collect();
        let point = |(one_in, place): &Percentile| {
            let known = latencies.iter().filter(|latency| latency.samples as f64 >= FEWEST_SLOWER * one_in);
            let spread = Spread::of(known.map(|latency| place(latency)).collect())?;
            let title = format!("{}, {} are faster than {} µs", player.name(), share(*one_in), amount(spread.median));
            Some(Point { x: *one_in, y: spread.median, band: spread.interval, title, doubtful })
        };
        let points: Vec<Point> = PERCENTILES.iter().filter_map(point).collect();
        let line = Line { name: player.name().to_owned(), look: player.look.clone(), points };
        (line.points.len() > 1).then_some(line)
    });
    drawn.collect()
}

/// `99 %` where one of 100 is slower.
pub(super) fn share(one_in: f64) -> String {
    let percent = 100.0 - 100.0 / one_in;
    // Beyond two digits it is nines, of which each is told.
    format!("{} %", (percent * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;

    #[test]
    fn shares_are_told_to_the_last_nine() {
        assert_eq!(PERCENTILES.map(|(one_in, _)| share(one_in)), ["50 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn slower_messages_are_further_right_and_what_too_few_samples_say_is_left_out() {
        let mut report = sample::large();
        let few = report.suites.iter_mut().flat_map(|suite| &mut suite.cells).find(|cell| cell.row == "O3");
        let bench_record::suite::CellOutcome::Measured(figures) = &mut few.unwrap().results[0].outcome else {
            panic!("it is measured")
        };
        for measured in figures.all.iter_mut().filter_map(|slice| slice.measured.as_mut()) {
            measured.latencies.latency_us.as_mut().unwrap().samples = 300;
        }
        let book = Book::open(&report).unwrap();
        let cell = report.suites.iter().flat_map(|suite| &suite.cells).find(|cell| cell.row == "O3").unwrap();
        let lines = lines(&book, cell);
        assert_eq!(lines[0].points.iter().map(|point| point.x).collect::<Vec<_>>(), [2.0, 10.0, 100.0]);
        assert_eq!(lines[1].points.len(), 4);
        assert!(
            lines.iter().all(|line| line.points.windows(2).all(|pair| pair[0].x < pair[1].x && pair[0].y <= pair[1].y))
        );
    }
}
