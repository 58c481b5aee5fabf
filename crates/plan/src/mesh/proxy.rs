//! Proxies that a mesh file describes: how they start, their configuration, what they count.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definition::{MeshSettings, Mtls};
use crate::graph::ServiceProtocol;
use crate::source::Problem;

/// The address on which a sidecar listens, in its arguments.
const LISTEN: &str = "{listen}";
/// The address of its application, in its arguments.
const UPSTREAM: &str = "{upstream}";
/// A directory of its own, in its arguments.
const DIR: &str = "{dir}";
/// Its name, in its arguments.
const NAME: &str = "{name}";

/// A program that forwards each connection, or each request, to the application beside it, and with `files` also those of
/// its application to others: the section `proxy` of a mesh file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyProgram {
    /// The program and its arguments. `{dir}` stands for a directory of this sidecar alone, which is removed after the trial,
    /// `{name}` for a name such as `shop-0-front`; `{listen}` and `{upstream}` for addresses such as `127.64.0.2:15006`. A
    /// relative path of the program starts from the working directory.
    pub command: Vec<String>,
    /// The Debian package that has the program. `command` begins with its name then: tare searches it on the PATH, and
    /// otherwise unpacks the package into its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The arguments with which the program prints its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version: Vec<String>,
    /// The protocols that it can carry; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ServiceProtocol>,
    /// Files that tare writes into `{dir}`: names, and templates (Jinja) of their content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// How to ask how many requests it has carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<ProxyCounters>,
}

/// How to ask a proxy how many requests it has carried. Each pattern is a regular expression whose first group is a number; the
/// numbers of all its matches are added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyCounters {
    /// Its Unix socket; `{dir}` stands for the directory.
    pub socket: String,
    /// What to send, such as `show stat`; the answer ends with the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// Or the path of a request by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
    /// Requests that arrived from other pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<String>,
    /// Requests of its own application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound: Option<String>,
    /// Or both together, of a proxy that does not tell them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
}

/// The values of the templates of one sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SidecarValues {
    /// Name of its pod, such as `shop-0/front`.
    pub name: String,
    /// Path of its directory.
    pub dir: String,
    /// Worker threads.
    pub workers: u32,
    /// Path of its access log; none if the settings want no access log.
    pub access_log: Option<String>,
    /// Where requests for its application arrive; none if it has no such side.
    pub inbound: Option<InboundValues>,
    /// The services that its application calls; empty if it has no such side.
    pub outbound: Vec<OutboundValues>,
    /// Its certificate; none without mutual TLS.
    pub tls: Option<TlsValues>,
}

/// The inbound side of a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InboundValues {
    /// Address on which it listens, such as `127.64.0.2:15006`.
    pub listen: String,
    /// Address of its application.
    pub application: String,
    /// Protocol of its application.
    pub protocol: ServiceProtocol,
    /// Names (CN) in the certificates that it accepts. Never empty.
    pub callers: Vec<String>,
}

/// A service that the application of a sidecar calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutboundValues {
    /// Its name, such as `back.shop-0`: also that in its certificate (CN and DNS).
    pub service: String,
    /// Address on which the sidecar listens for these calls.
    pub listen: String,
    /// Protocol of the service.
    pub protocol: ServiceProtocol,
    /// Where its replicas, or their sidecars, listen.
    pub servers: Vec<String>,
    /// Whether these calls have mutual TLS.
    pub tls: bool,
}

/// Files of a sidecar's certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsValues {
    /// Path of the certificate.
    pub certificate: String,
    /// Path of its key.
    pub key: String,
    /// Path of a file with both.
    pub both: String,
    /// Path of the certificate of the authority that issued all of them.
    pub authority: String,
}

impl SidecarValues {
    /// The sidecar of a service that is called and calls another one, for a check.
    fn example(settings: &MeshSettings, protocol: ServiceProtocol) -> Self {
        let tls = settings.mtls == Mtls::Strict;
        let path = |name: &str| format!("/tmp/{name}");
        Self {
            name: "shop-0/front".to_owned(),
            dir: path("front"),
            workers: settings.concurrency,
            access_log: settings.access_log.then(|| path("access.log")),
            inbound: Some(InboundValues {
                listen: "127.64.0.2:15006".to_owned(),
                application: "127.64.0.2:15080".to_owned(),
                protocol,
                callers: vec!["generator.tare".to_owned()],
            }),
            outbound: vec![OutboundValues {
                service: "back.shop-0".to_owned(),
                listen: "127.64.0.2:15100".to_owned(),
                protocol,
                servers: vec!["127.64.0.3:15006".to_owned()],
                tls,
            }],
            tls: tls.then(|| TlsValues {
                certificate: path("front.crt"),
                key: path("front.key"),
                both: path("front.pem"),
                authority: path("authority.crt"),
            }),
        }
    }
}

impl ProxyProgram {
    /// Whether tare configures it: else it is only on the side of the called service, and has no settings.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether it can carry a protocol.
    #[must_use]
    pub fn carries(&self, protocol: ServiceProtocol) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&protocol)
    }

    /// Checks a section `proxy`.
    ///
    /// # Errors
    /// What was found and what was expected, as a fragment of a sentence.
    pub(crate) fn check(&self, settings: &MeshSettings) -> Result<(), Problem> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Problem::new(
                "found no `command`",
                "a program and its arguments",
            ));
        }
        if self.package.is_some() && self.program().contains('/') {
            return Err(Problem::new(
                format!("found the path `{}` with a `package`", self.program()),
                "the name of the program that the package has",
            ));
        }
        if let Some(counters) = &self.counters {
            counters.check()?;
            if self.carries(ServiceProtocol::Tcp) {
                return Err(Problem::new(
                    "found `counters`, and `tcp` among the `protocols`",
                    "`protocols` without it: `counters` are of requests, which TCP has not",
                ));
            }
        }
        if self.is_configured() {
            let is_name = |name: &String| !name.is_empty() && !name.contains('/') && name != "..";
            if let Some(wrong) = self.files.keys().find(|name| !is_name(name)) {
                return Err(Problem::new(
                    format!("found the file `{wrong}` in `files`"),
                    "a name without a folder: the file lies in `{dir}`",
                ));
            }
            return self.check_templates(settings);
        }
        let is_in = |a: &String, word: &str| fill(a, &[(word, "")]) != *a;
        let missing = |word: &&&str| !self.command[1..].iter().any(|a| is_in(a, word));
        match [LISTEN, UPSTREAM].iter().find(missing) {
            None => Ok(()),
            Some(word) => Err(Problem::new(
                format!("found no `{word}` in the arguments of `command`, and no `files`"),
                format!("`{LISTEN}` and `{UPSTREAM}`, or `files` with a configuration"),
            )),
        }
    }

    /// Renders each template with and without each side and, so that mistakes in all of its parts are found, each protocol.
    fn check_templates(&self, settings: &MeshSettings) -> Result<(), Problem> {
        for protocol in ServiceProtocol::ALL
            .into_iter()
            .filter(|p| self.carries(*p))
        {
            let both = SidecarValues::example(settings, protocol);
            let (mut caller, mut called) = (both.clone(), both.clone());
            caller.inbound = None;
            called.outbound.clear();
            for values in [both, caller, called] {
                self.render(&values)?;
            }
        }
        Ok(())
    }

    /// The content of the files of a sidecar, by name.
    ///
    /// # Errors
    /// What is wrong with a template, with the place in it.
    pub fn render(&self, values: &SidecarValues) -> Result<Vec<(&str, String)>, Problem> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build();
        environment.set_syntax(syntax.unwrap_or_default());
        environment.set_debug(true);
        // Values are text and numbers, so both conversions succeed.
        let values = serde_json::to_value(values).and_then(serde_json::from_value);
        let values: minijinja::Value = values.unwrap_or_default();
        let render = |(name, template): (&'_ String, &'_ String)| {
            let rendered = environment.render_named_str(name, template, values.clone());
            rendered.map_err(|error| problem(name, template, &error))
        };
        let named = self.files.iter();
        named
            .map(|(name, template)| Ok((name.as_str(), render((name, template))?)))
            .collect()
    }

    /// The path of the program, or its name if it is in a package.
    #[must_use]
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The program and the arguments of a sidecar. `found` is where a program of a package was found.
    #[must_use]
    pub fn run(&self, found: Option<&str>, places: &ProxyPlaces<'_>) -> Vec<String> {
        let program = match found {
            Some(found) => found.to_owned(),
            None if self.program().contains('/') => self.program().to_owned(),
            // Without a slash, the program would be searched in the PATH.
            None => format!("./{}", self.program()),
        };
        let arguments = self.command.iter().skip(1).map(|a| places.fill(a));
        std::iter::once(program).chain(arguments).collect()
    }
}

/// A mistake in a template, with its line and column.
fn problem(name: &str, template: &str, error: &minijinja::Error) -> Problem {
    let line = error.line().unwrap_or(1);
    let column = error.range().map(|range| {
        let before = template.get(..range.start).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        before[start..].chars().count() + 1
    });
    let of = |range: std::ops::Range<usize>| template.get(range).map(|text| format!(" `{text}`"));
    let what = error.range().and_then(of).unwrap_or_default();
    let place = match column {
        Some(column) => format!("line {line}, column {column}"),
        None => format!("line {line}"),
    };
    let why = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    Problem::new(
        format!("found{what} in the file `{name}`, {place}: {why}"),
        "a template with the values that docs/proxies.md lists",
    )
}

impl ProxyCounters {
    fn check(&self) -> Result<(), Problem> {
        if self.send.is_some() == self.get.is_some() {
            return Err(Problem::new(
                "found both or none of `send` and `get` in `counters`",
                "one of them",
            ));
        }
        let split = self.inbound.is_some() && self.outbound.is_some();
        if split == self.all.is_some() || self.inbound.is_some() != self.outbound.is_some() {
            return Err(Problem::new(
                "found patterns in `counters` that do not fit together",
                "`inbound` and `outbound`, or `all`",
            ));
        }
        Ok(())
    }
}

/// Replaces each place in an argument by its value. After `$` it is a variable of a shell:
/// `${dir}`.
fn fill(argument: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), argument);
    while let Some(start) = rest.find('{') {
        filled += &rest[..start];
        rest = &rest[start..];
        let mut places = values.iter().filter(|_| !filled.ends_with('$'));
        let (length, value) = match places.find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => (place.len(), *value),
            None => (1, "{"),
        };
        filled += value;
        rest = &rest[length..];
    }
    filled + rest
}

/// What the places in the arguments of a sidecar stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyPlaces<'a> {
    /// Address on which it listens.
    pub listen: &'a str,
    /// Address to which it forwards.
    pub upstream: &'a str,
    /// Path of its directory.
    pub dir: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl ProxyPlaces<'_> {
    /// Fills the places of a text.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let values = [
            (LISTEN, self.listen),
            (UPSTREAM, self.upstream),
            (DIR, self.dir),
            (NAME, self.name),
        ];
        fill(text, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(command: &[&str]) -> ProxyProgram {
        ProxyProgram {
            command: command.iter().map(|&a| a.to_owned()).collect(),
            package: None,
            version: Vec::new(),
            protocols: Vec::new(),
            files: BTreeMap::new(),
            counters: None,
        }
    }

    fn check(proxy: &ProxyProgram) -> Result<(), Problem> {
        proxy.check(&MeshSettings::default())
    }

    #[test]
    fn a_command_needs_both_addresses() {
        let complete = proxy(&["./proxy", "--from={listen}", "{upstream}", "{dir}/{name}"]);
        let places = ProxyPlaces {
            listen: "127.0.0.1:1",
            upstream: "127.0.0.1:2",
            dir: "/tmp/a",
            name: "shop-0-front",
        };
        assert_eq!(check(&complete), Ok(()));
        assert_eq!(complete.program(), "./proxy");
        assert_eq!(
            complete.run(None, &places),
            [
                "./proxy",
                "--from=127.0.0.1:1",
                "127.0.0.1:2",
                "/tmp/a/shop-0-front"
            ]
        );
        let inner = proxy(&[
            "proxy",
            "sh -c 'p ${dir} {{dir}} ${{name} {other}' {",
            "${listen}",
        ]);
        assert_eq!(
            inner.run(None, &places),
            [
                "./proxy",
                "sh -c 'p ${dir} {/tmp/a} ${shop-0-front {other}' {",
                "${listen}"
            ]
        );
        assert!(check(&inner).is_err());
        let found = check(&proxy(&["./proxy", "{listen}"]))
            .unwrap_err()
            .to_string();
        assert!(found.starts_with("found no `{upstream}`"), "{found}");
        assert!(check(&proxy(&[])).is_err());
    }

    /// The problems of a plan with this mesh file.
    fn problems(file: &str) -> String {
        let plan =
            "workload: chain-2\nmesh_files: [mine.yaml]\nmeshes: [bare, mine]\nload: {rate: 100}";
        let read = |_: &str| Ok(file.to_owned());
        let resolved = crate::plan::resolve("p.yaml", plan, &[], &read);
        resolved.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn a_mesh_has_both_the_kind_and_the_command_and_no_settings() {
        let command = "proxy: {command: [./proxy, '{listen}', '{upstream}']}";
        let complete = format!("name: mine\ndata_plane: proxy\n{command}");
        assert_eq!(problems(&complete), "");
        // The words of earlier versions.
        let earlier = complete
            .replace("proxy:", "exec:")
            .replace(": proxy\n", ": exec\n");
        assert_eq!(problems(&earlier), "");
        let one = "has only one of `data_plane: proxy` and a section `proxy`";
        let found = problems("name: mine\ndata_plane: proxy");
        assert!(found.contains(one), "{found}");
        let found = problems(&format!("name: mine\ndata_plane: envoy-sidecar\n{command}"));
        assert!(found.contains(one), "{found}");
        let found = problems(&format!("{complete}\nsettings: {{mtls: strict}}"));
        assert!(found.contains("`mine` has settings"), "{found}");
        let found = problems("name: mine\ndata_plane: proxy\nproxy: {command: [./proxy]}");
        assert!(found.contains("found no `{listen}`"), "{found}");
    }

    fn configured(template: &str) -> ProxyProgram {
        let mut proxy = proxy(&["./proxy", "{dir}/a.cfg"]);
        proxy.files.insert("a.cfg".to_owned(), template.to_owned());
        proxy
    }

    #[test]
    fn a_template_is_filled_for_each_side() {
        let proxy = configured(
            "{% if inbound %}\nfrom {{ inbound.listen }} {{ inbound.protocol }}\n{% endif %}\n\
             {% for to in outbound %}\nto {{ to.service }}: {{ to.servers | join(' ') }}\n{% endfor %}\n",
        );
        check(&proxy).unwrap();
        let mut values = SidecarValues::example(&MeshSettings::default(), ServiceProtocol::Grpc);
        let rendered = proxy.render(&values).unwrap();
        let both = "from 127.64.0.2:15006 grpc\nto back.shop-0: 127.64.0.3:15006\n";
        assert_eq!(rendered, [("a.cfg", both.to_owned())]);
        values.inbound = None;
        let outbound = "to back.shop-0: 127.64.0.3:15006\n";
        assert_eq!(proxy.render(&values).unwrap()[0].1, outbound);
    }

    #[test]
    fn a_mistake_in_a_template_has_its_place() {
        let found = |template: &str| check(&configured(template)).unwrap_err().to_string();
        let wrong = found("ok\n  bind {{ inbound.listn }}\n");
        assert!(wrong.contains("`a.cfg`, line 2, column"), "{wrong}");
        // Without a certificate, what needs one is a mistake.
        let wrong = found("{{ tls.key }}");
        assert!(wrong.contains("line 1"), "{wrong}");
        let wrong = found("a\nb\n{% if inbound %}");
        assert!(wrong.contains("line 3"), "{wrong}");
        // A mistake on one side only.
        let wrong = found("{% for to in outbound %}{{ to.server }}{% endfor %}");
        assert!(wrong.contains("`a.cfg`, line 1"), "{wrong}");
    }

    #[test]
    fn counters_are_asked_in_one_way_with_patterns_for_both_sides() {
        let of = |send: bool, get: bool, patterns: [bool; 3]| {
            let text = |is: bool| is.then(|| "(1)".to_owned());
            let [inbound, outbound, all] = patterns.map(text);
            let counters = ProxyCounters {
                socket: "{dir}/s".to_owned(),
                send: text(send),
                get: text(get),
                inbound,
                outbound,
                all,
            };
            counters.check().is_ok()
        };
        assert!(of(true, false, [true, true, false]) && of(false, true, [false, false, true]));
        assert!(!of(true, true, [true, true, false]) && !of(false, false, [true, true, false]));
        assert!(!of(true, false, [true, false, false]) && !of(true, false, [true, true, true]));
        assert!(!of(true, false, [true, false, true]) && !of(true, false, [false; 3]));
    }
}
