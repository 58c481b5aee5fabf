//! Load generators that an application brings along: their requests would be a part of the measurement.

use serde_json::Value;

use super::instance::{containers, template};
use super::{text, title};

/// Names of programs that send load.
const PROGRAMS: [&str; 23] = [
    "k6",
    "locust",
    "fortio",
    "wrk",
    "wrk2",
    "hey",
    "vegeta",
    "jmeter",
    "artillery",
    "gatling",
    "siege",
    "oha",
    "ghz",
    "h2load",
    "nighthawk",
    "tsung",
    "bombardier",
    "autocannon",
    "votebot",
    "loadgen",
    "loadgenerator",
    "loadtest",
    "trafficgenerator",
];
/// One more, whose name is too short to be looked for in the names of objects and images: `web-ab`.
const AB: &str = "ab";
/// The same in several words.
const PHRASES: [&str; 9] = [
    "vote-bot",
    "load-gen",
    "load-generator",
    "load-test",
    "load-tester",
    "slow-cooker",
    "traffic-gen",
    "traffic-generator",
    "synthetic-load",
];

/// Returns a note for each object that sends load of its own: the object, and what shows it.
pub(super) fn notes(objects: &[Value]) -> Vec<(String, String)> {
    let notes = objects.iter().filter_map(|object| {
        let found = sign(object)?;
        let note = format!(
            "seems to send load of its own ({found}), which would be a part of the measurement; if it does, add {} to \
             `exclude`",
            title(object)
        );
        Some((title(object), note))
    });
    notes.collect()
}

/// What shows that the pods of an object send load.
fn sign(object: &Value) -> Option<String> {
    let template = template(object)?;
    let name = text(object, "/metadata/name");
    if is_generator(name) {
        return Some("its name".to_owned());
    }
    containers(template).find_map(|container| {
        let image = text(container, "/image");
        let last = image.split('@').next()?.rsplit('/').next()?;
        let image_name = last.split(':').next()?;
        if is_generator(image_name) {
            return Some(format!("the image {image}"));
        }
        if is_generator(text(container, "/name")) {
            return Some(format!("the container {}", text(container, "/name")));
        }
        let program = ["command", "args"].into_iter().find_map(|list| {
            let words = container.get(list)?.as_array()?.iter();
            let words = words.filter_map(Value::as_str);
            let mut words = words.flat_map(|w| w.split([' ', '\n', ';', '&', '|']));
            words.find(|word| {
                // The name of a program, not of a flag or a host.
                let program = word.rsplit('/').next().unwrap_or(word);
                program == AB || is_generator(program)
            })
        });
        program.map(|program| format!("the program {program}"))
    })
}

/// Whether a name is, or ends with, that of a load generator: `k6`, `web-loadgenerator`, `emojivoto-vote-bot`.
fn is_generator(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    let mut parts = name.split('-');
    parts.any(|part| PROGRAMS.contains(&part))
        || PHRASES.iter().any(|phrase| {
            let end = name.find(phrase).map(|at| (at, at + phrase.len()));
            end.is_some_and(|(from, to)| {
                let is_edge = |b: Option<&u8>| b.is_none_or(|b| *b == b'-');
                let bytes = name.as_bytes();
                let before = from.checked_sub(1).and_then(|at| bytes.get(at));
                is_edge(before) && is_edge(bytes.get(to))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(name: &str, image: &str, command: &[&str]) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image, "command": command}]}}}})
    }

    #[test]
    fn programs_that_send_load_are_noted() {
        for (name, image, command) in [
            (
                "vote-bot",
                "docker.l5d.io/buoyantio/emojivoto-web:v11",
                &[][..],
            ),
            ("bot", "emojivoto-web:v11", &["emojivoto-vote-bot"]),
            (
                "loadgenerator",
                "us-docker.pkg.dev/google-samples/loadgenerator:v0.10.3",
                &[],
            ),
            ("a", "docker.io/grafana/k6@sha256:ab", &[]),
            ("a", "locustio/locust:2", &[]),
            ("a", "localhost:5000/fortio", &[]),
            (
                "a",
                "alpine",
                &["sh", "-c", "while true; do wrk2 -R100 http://web; done"],
            ),
            ("a", "httpd:2.4", &["/usr/bin/ab", "-n100", "http://web/"]),
            ("a", "alpine", &["k6", "run", "a.js"]),
        ] {
            let notes = notes(&[deployment(name, image, command)]);
            assert_eq!(notes.len(), 1, "{name} {image}");
            assert!(
                notes[0]
                    .1
                    .contains(&format!("add Deployment/{name} to `exclude`")),
                "{notes:?}"
            );
        }
        for (name, image, command) in [
            ("web", "acme/web:v1", &["web", "--listen", ":80"][..]),
            ("they", "acme/monkey", &[]),
            ("download-generator", "acme/upload-tests", &[]),
            ("httpbin", "localhost:5000/load-balancer", &[]),
            ("web-ab", "acme/ab:1", &["web", "--mode=ab"]),
        ] {
            assert_eq!(
                notes(&[deployment(name, image, command)]),
                [],
                "{name} {image}"
            );
        }
    }
}
