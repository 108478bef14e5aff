//! Figures in families, as Prometheus has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Labels and a value.
pub type Figure = (Vec<(&'static str, String)>, f64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// It only grows, until kilnd is started again.
    Counter,
    Gauge,
}

/// What is told under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub name: &'static str,
    pub kind: FigureKind,
    pub help: &'static str,
    pub samples: Vec<Figure>,
}

impl Figures {
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<Figure>) -> Self {
        Figures { name, kind: FigureKind::Gauge, help, samples }
    }

    pub fn counter(name: &'static str, help: &'static str, samples: Vec<Figure>) -> Self {
        Figures { name, kind: FigureKind::Counter, help, samples }
    }
}

/// A figure without labels.
pub fn one(value: f64) -> Vec<Figure> {
    vec![(Vec::new(), value)]
}

/// How often each set of labels is there.
pub fn counted(all: impl Iterator<Item = Vec<(&'static str, String)>>) -> Vec<Figure> {
    let mut counts: BTreeMap<Vec<(&'static str, String)>, u32> = BTreeMap::new();
    for labels in all {
        *counts.entry(labels).or_default() += 1;
    }
    counts.into_iter().map(|(labels, count)| (labels, f64::from(count))).collect()
}

/// In Prometheus' text format.
pub fn text(all: &[Figures]) -> String {
    let mut text = String::new();
    for Figures { name, kind, help, samples } in all {
        let kind = match kind {
            FigureKind::Counter => "counter",
            FigureKind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_prometheus_reads_them() {
        let all = [
            Figures::counter("a_total", "All.", one(3.0)),
            Figures::gauge("b", "Some.", vec![(vec![("x", "a\"b\\c\nd".into()), ("y", "z".into())], 0.25)]),
            Figures::gauge("c", "None.", Vec::new()),
        ];
        assert_eq!(
            text(&all),
            "# HELP a_total All.\n# TYPE a_total counter\na_total 3\n\
             # HELP b Some.\n# TYPE b gauge\nb{x=\"a\\\"b\\\\c\\nd\",y=\"z\"} 0.25\n\
             # HELP c None.\n# TYPE c gauge\n"
        );
    }
}
