//! Families of metrics, and their text in the formats of OpenMetrics and Prometheus.
//!
//! Source: OpenMetrics 1.0 (`draft-richih-opsawg-openmetrics`).

use std::fmt::Write as _;

/// Type of a family, as OpenMetrics defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A figure that can rise and fall.
    Gauge,
    /// A count since the start of the measurement.
    Counter,
    /// Cumulative counts below boundaries.
    Histogram,
    /// Labels that describe the whole; the value is 1.
    Info,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// One number with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Text after the family's name: `_bucket`, `_total`, or nothing.
    pub suffix: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
    /// When it was measured, in seconds since 1970; without it, the reader takes the time of reading. Only
    /// OpenMetrics text has it.
    pub at_s: Option<f64>,
}

impl Sample {
    /// A sample of a gauge.
    #[must_use]
    pub fn new(labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Self {
            suffix: "",
            labels,
            value,
            at_s: None,
        }
    }
}

/// All samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Name without suffix. It ends in the unit, if there is one.
    pub name: String,
    /// Type of the family.
    pub kind: Kind,
    /// `seconds`, `bytes`, or nothing.
    pub unit: &'static str,
    /// Description, without a full stop.
    pub help: &'static str,
    /// Samples of the family.
    pub samples: Vec<Sample>,
}

impl Family {
    /// A family without samples.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kind: Kind,
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            unit,
            help,
            samples: Vec::new(),
        }
    }

    /// Returns the family with these samples.
    #[must_use]
    pub fn with(self, samples: impl IntoIterator<Item = Sample>) -> Self {
        Self {
            samples: samples.into_iter().collect(),
            ..self
        }
    }
}

/// The families as one OpenMetrics text. Families without samples are omitted.
#[must_use]
pub fn openmetrics(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|f| !f.samples.is_empty()) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# TYPE {} {}", family.name, family.kind.word());
        if !family.unit.is_empty() {
            let _ = writeln!(out, "# UNIT {} {}", family.name, family.unit);
        }
        let _ = writeln!(out, "# HELP {} {}", family.name, family.help);
        samples(&mut out, family, |s| s.at_s);
    }
    out += "# EOF\n";
    out
}

/// The families in the older text format of Prometheus, which push gateways read. In it, the names
/// of counters and infos include the suffix, and there are no units.
#[must_use]
pub fn prometheus(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|f| !f.samples.is_empty()) {
        let (suffix, kind) = match family.kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Info => ("_info", "gauge"),
            kind => ("", kind.word()),
        };
        let _ = writeln!(out, "# HELP {}{suffix} {}", family.name, family.help);
        let _ = writeln!(out, "# TYPE {}{suffix} {kind}", family.name);
        samples(&mut out, family, |_| None);
    }
    out
}

fn samples(out: &mut String, family: &Family, at_s: fn(&Sample) -> Option<f64>) {
    for sample in &family.samples {
        out.push_str(&family.name);
        out.push_str(sample.suffix);
        for (i, (name, value)) in sample.labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(out, "{before}{name}=\"{}\"", escape(value));
        }
        if !sample.labels.is_empty() {
            out.push('}');
        }
        let _ = match at_s(sample) {
            Some(at_s) => writeln!(out, " {} {at_s}", sample.value),
            None => writeln!(out, " {}", sample.value),
        };
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_the_end_is_marked() {
        let family = Family {
            name: "tare_x_seconds".into(),
            kind: Kind::Gauge,
            unit: "seconds",
            help: "How long",
            samples: vec![Sample::new(vec![("a", "q\"\\\n".to_owned())], 0.25)],
        };
        assert_eq!(
            openmetrics(std::slice::from_ref(&family)),
            "# TYPE tare_x_seconds gauge\n# UNIT tare_x_seconds seconds\n\
             # HELP tare_x_seconds How long\ntare_x_seconds{a=\"q\\\"\\\\\\n\"} 0.25\n# EOF\n"
        );
        let empty = Family {
            samples: Vec::new(),
            ..family
        };
        assert_eq!(openmetrics(&[empty]), "# EOF\n");
    }
}
