//! Writes metrics in Prometheus' text format (version 0.0.4).

use std::fmt::{Display, Write};

/// The content type of the format.
pub(crate) const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Collects the lines of one scrape.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
}

impl Exposition {
    /// Goes on behind this text.
    pub(crate) fn after(text: String) -> Self {
        Self { text }
    }

    /// Adds these lines.
    pub(crate) fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// A number that only grows. `name` ends in `_total`.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    /// A number that goes up and down.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// Starts a family whose samples have labels. All its samples must follow at once.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}\n# HELP {name} {help}");
    }

    /// One sample of the family just started.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escaped(text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Observations in classes: the bound of each class but the last, how many are in each class,
    /// and the sum of all observations.
    pub(crate) fn histogram(
        &mut self,
        [name, help]: [&str; 2],
        bounds: impl Iterator<Item = String>,
        counts: &[u64],
        sum: impl Display,
    ) {
        self.family(name, "histogram", help);
        let (bucket, mut up_to) = (format!("{name}_bucket"), 0);
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(counts) {
            up_to += count;
            self.sample(&bucket, &[("le", &bound)], up_to);
        }
        self.sample(&format!("{name}_sum"), &[], sum);
        self.sample(&format!("{name}_count"), &[], up_to);
    }

    /// The whole scrape. It is charged by its length while it is written, so it takes no more.
    pub(crate) fn into_text(mut self) -> String {
        self.text.shrink_to_fit();
        self.text
    }

    fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_a_histogram_include_the_smaller_ones() {
        let mut exposition = Exposition::default();
        exposition.histogram(["h", "Some."], ["0.5", "1"].map(str::to_owned).into_iter(), &[2, 0, 3], 7.25);
        assert_eq!(
            exposition.into_text(),
            "# TYPE h histogram\n# HELP h Some.\nh_bucket{le=\"0.5\"} 2\nh_bucket{le=\"1\"} 2\n\
             h_bucket{le=\"+Inf\"} 5\nh_sum 7.25\nh_count 5\n"
        );
    }

    #[test]
    fn samples_follow_their_family_and_labels_are_escaped() {
        let mut exposition = Exposition::default();
        exposition.gauge("a", "An a.", 1);
        exposition.family("b_total", "counter", "Some b.");
        exposition.sample("b_total", &[("queue", "x\"y\\z\n"), ("vhost", "/")], 2);
        assert_eq!(
            exposition.into_text(),
            "# TYPE a gauge\n# HELP a An a.\na 1\n# TYPE b_total counter\n# HELP b_total Some b.\n\
             b_total{queue=\"x\\\"y\\\\z\\n\",vhost=\"/\"} 2\n"
        );
    }
}
