//! Counters in a Prometheus text, as the definition of a mesh names them: `request_total{direction="inbound"` is a
//! name and, after the brace, some of its labels.

/// Returns the value of a line if the line belongs to `counter`.
fn value(line: &str, counter: &str) -> Option<f64> {
    let (name, labels) = counter.split_once('{').unwrap_or((counter, ""));
    let rest = line.strip_prefix(name)?;
    let mut labels = labels.trim_end_matches('}').split(',');
    let fits = rest.starts_with(['{', ' ']) && labels.all(|l| rest.contains(l));
    fits.then(|| rest.rsplit(' ').next()?.parse().ok())?
}

/// Returns the sum of the first of `counters` that a text contains; 0 if it contains none.
#[must_use]
pub fn sum_of_counters(text: &str, counters: &[String]) -> f64 {
    for counter in counters {
        let values: Vec<f64> = text.lines().filter_map(|l| value(l, counter)).collect();
        if !values.is_empty() {
            return values.iter().sum();
        }
    }
    0.0
}

/// Returns the lines of a text that belong to one of `counters`.
#[must_use]
pub fn lines_of_counters(text: &str, counters: &[String]) -> String {
    let is_kept = |line: &&str| counters.iter().any(|c| value(line, c).is_some());
    let kept = text.lines().filter(is_kept);
    kept.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE request_total counter\n\
        request_total{direction=\"inbound\",tls=\"true\",a=\"1\"} 3\n\
        request_total{direction=\"outbound\",tls=\"true\"} 50\n\
        request_total{tls=\"true\",direction=\"inbound\"} 4\n\
        request_total_other{direction=\"inbound\",tls=\"true\"} 9\n\
        plain 7\n";

    fn list(counters: &[&str]) -> Vec<String> {
        counters.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn counters_are_summed_by_name_and_labels() {
        let of = |counters: &[&str]| sum_of_counters(TEXT, &list(counters));
        let inbound = "request_total{direction=\"inbound\",tls=\"true\"";
        assert_eq!(of(&[inbound]), 7.0);
        assert_eq!(of(&["absent", "plain"]), 7.0);
        assert_eq!(of(&["absent"]), 0.0);
    }

    #[test]
    fn the_kept_lines_have_the_same_sums() {
        let inbound = "request_total{direction=\"inbound\"}";
        let kept = lines_of_counters(TEXT, &list(&["plain", inbound]));
        assert_eq!(kept.lines().count(), 3, "{kept}");
        for counter in ["plain", inbound] {
            let counter = list(&[counter]);
            assert_eq!(
                sum_of_counters(&kept, &counter),
                sum_of_counters(TEXT, &counter)
            );
        }
    }
}
