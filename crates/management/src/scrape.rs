//! A scrape of the figures of each queue, written a piece at a time.
//!
//! The format wants all samples of a metric together, so each queue's figures are read once, at the
//! beginning, and kept as numbers until the last piece. Names are those that lists share.

use std::sync::Arc;

use broker::{Causes, QueueReport};

use crate::exposition::Exposition;
use crate::pieces::{self, PIECE, Pieces};

/// The most queues that a scrape shows one by one. A longer scrape would take too long; it is cut,
/// and says so.
pub(crate) const MOST_QUEUES: usize = 10_000;

/// Reads a figure; a queue without it has no sample.
type Read = Box<dyn Fn(&QueueReport) -> Option<f64> + Send>;

/// A metric of queues.
pub(crate) struct Metric {
    name: String,
    kind: &'static str,
    help: &'static str,
    read: Read,
}

impl Metric {
    /// A metric of this name, type and help.
    pub(crate) fn new(
        name: String,
        [kind, help]: [&'static str; 2],
        read: impl Fn(&QueueReport) -> Option<f64> + Send + 'static,
    ) -> Self {
        Self { name, kind, help, read: Box::new(read) }
    }
}

/// Whether a scrape tells what keeps queues from moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stalls {
    Told,
    Untold,
}

/// One queue.
struct Row {
    vhost: Arc<str>,
    name: Arc<str>,
    causes: Causes,
}

/// See the module.
pub(crate) struct Scrape {
    /// What comes before the metrics of queues; taken when it has been written.
    head: Exposition,
    metrics: Vec<Metric>,
    stalls: Stalls,
    rows: Vec<Row>,
    /// The figures of all rows, row by row; not a number where a row has none.
    figures: Vec<f64>,
    is_cut: bool,
    /// The metric and the row that come next. The last metric is that of the stalls.
    at: (usize, usize),
}

impl Scrape {
    /// A scrape of no queues yet.
    pub(crate) fn new(head: Exposition, metrics: Vec<Metric>, stalls: Stalls) -> Self {
        Self { head, metrics, stalls, rows: Vec::new(), figures: Vec::new(), is_cut: false, at: (0, 0) }
    }

    /// Bytes that so many queues take until the scrape has been written.
    pub(crate) fn weight(&self, queues: usize) -> usize {
        queues.min(MOST_QUEUES) * (size_of::<Row>() + self.metrics.len() * size_of::<f64>())
    }

    /// Adds a queue; false if it shows as many as it may.
    pub(crate) fn add(&mut self, vhost: &Arc<str>, name: &Arc<str>, queue: &QueueReport) -> bool {
        if self.rows.len() == MOST_QUEUES {
            self.is_cut = true;
            return false;
        }
        self.figures.extend(self.metrics.iter().map(|metric| (metric.read)(queue).unwrap_or(f64::NAN)));
        self.rows.push(Row { vhost: Arc::clone(vhost), name: Arc::clone(name), causes: queue.figures.causes });
        true
    }

    /// All of a scrape without queues, which is short.
    pub(crate) fn into_text(mut self) -> String {
        let (mut text, mut more) = pieces::next(&mut self);
        while more {
            let (piece, rest) = pieces::next(&mut self);
            text.push_str(&piece);
            more = rest;
        }
        text
    }

    /// Writes what is next of a metric: its head, or the sample of one queue.
    fn step(&mut self, out: &mut Exposition) -> bool {
        let (metric, row) = self.at;
        if metric > self.metrics.len() || metric == self.metrics.len() && self.stalls == Stalls::Untold {
            let help = "1 when there are more queues than are shown";
            out.gauge("hermod_metrics_truncated", help, u64::from(self.is_cut));
            return false;
        }
        if row == 0 {
            self.family(metric, out);
        }
        match self.rows.get(row) {
            Some(queue) => {
                self.sample(metric, row, queue, out);
                self.at.1 += 1;
            }
            None => self.at = (metric + 1, 0),
        }
        true
    }

    fn family(&self, metric: usize, out: &mut Exposition) {
        match self.metrics.get(metric) {
            Some(Metric { name, kind, help, .. }) => out.family(name, kind, help),
            None => out.family("hermod_queue_stalled", "gauge", "1 for each cause that keeps the queue from moving"),
        }
    }

    fn sample(&self, metric: usize, row: usize, queue: &Row, out: &mut Exposition) {
        let of = [("vhost", &*queue.vhost), ("queue", &*queue.name)];
        if let Some(of_all) = self.metrics.get(metric) {
            let figure = self.figures[row * self.metrics.len() + metric];
            if !figure.is_nan() {
                out.sample(&of_all.name, &of, figure);
            }
            return;
        }
        for cause in queue.causes.iter().filter(|cause| cause.is_trouble()) {
            out.sample("hermod_queue_stalled", &[of[0], of[1], ("reason", cause.name())], 1);
        }
    }
}

impl Pieces for Scrape {
    fn write(&mut self, text: &mut String) -> bool {
        let mut out = Exposition::after(std::mem::take(text));
        out.append(std::mem::take(&mut self.head));
        let mut more = true;
        while more && out.len() < PIECE {
            more = self.step(&mut out);
        }
        *text = out.into_text();
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(names: impl Iterator<Item = String>) -> Scrape {
        let waits = Metric::new("waits".to_owned(), ["gauge", "Waits"], |queue| Some(queue.ready as f64));
        let age = Metric::new("age".to_owned(), ["gauge", "Age"], |queue| (queue.unacked > 0).then_some(0.5));
        let mut scrape = Scrape::new(Exposition::default(), vec![waits, age], Stalls::Told);
        for (number, name) in names.enumerate() {
            let queue = QueueReport { ready: number as u64, unacked: number as u64 % 2, ..QueueReport::default() };
            scrape.add(&"/".into(), &name.into(), &queue);
        }
        scrape
    }

    fn all(mut scrape: Scrape) -> (String, usize) {
        let (mut all, mut count) = (String::new(), 0);
        loop {
            let (text, more) = pieces::next(&mut scrape);
            assert!(text.len() < PIECE + pieces::BEYOND, "{} bytes", text.len());
            all += &text;
            count += 1;
            if !more {
                return (all, count);
            }
        }
    }

    #[test]
    fn each_metric_has_all_its_queues_together_and_a_figure_that_is_not_there_no_sample() {
        let (text, count) = all(scrape(["a\"b", "c"].map(str::to_owned).into_iter()));
        let expected = "# TYPE waits gauge\n# HELP waits Waits\n\
             waits{vhost=\"/\",queue=\"a\\\"b\"} 0\nwaits{vhost=\"/\",queue=\"c\"} 1\n\
             # TYPE age gauge\n# HELP age Age\nage{vhost=\"/\",queue=\"c\"} 0.5\n\
             # TYPE hermod_queue_stalled gauge\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("hermod_metrics_truncated 0\n"), "{text}");
        assert_eq!(count, 1);
    }

    #[test]
    fn a_long_scrape_is_made_in_pieces_and_one_of_too_many_queues_says_that_it_is_cut() {
        let (text, count) = all(scrape((0..=MOST_QUEUES).map(|number| format!("q{number}"))));
        assert!(count > 5, "{count} pieces");
        assert_eq!(text.matches("waits{").count(), MOST_QUEUES);
        assert!(text.contains("waits{vhost=\"/\",queue=\"q9999\"} 9999\n"));
        assert!(text.ends_with("hermod_metrics_truncated 1\n"));
    }
}
