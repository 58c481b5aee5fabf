//! Plans from text: valid, invalid and random.

use proptest::prelude::*;

use super::*;
use crate::Figure;
use crate::limits::RATE_RPS_MAX;
use crate::load::Arrivals;
use crate::mesh::{Catalogue, Mtls, Placement};
use crate::text::one_of;

mod entry;
mod extend;
mod vary;
mod versions;

const SECOND_NS: u64 = 1_000_000_000;

fn no_files(path: &str) -> Result<String, String> {
    Err(format!("{path}: No such file or directory (os error 2)"))
}

fn with(text: &str, sets: &[&str]) -> Result<Plan, PlanErrors> {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    resolve("plan.yaml", text, &sets, &no_files)
}

fn good(text: &str, sets: &[&str]) -> Plan {
    with(text, sets).unwrap_or_else(|errors| panic!("{errors}"))
}

fn quick(sets: &[&str]) -> Plan {
    good(builtin("quick").unwrap().text, sets)
}

/// Each case of `errors.txt`: a title, the arguments of `--set` after `$`, the plan, and after the
/// last `---` its problems. If the title begins with `mesh:` or `graph:`, the text is a mesh file
/// or a graph file instead of a plan. `TARE_UPDATE=1` rewrites `errors.txt`.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test of a snapshot")]
fn every_kind_of_error_has_its_location_what_was_found_and_what_was_expected() {
    let meshes = Catalogue::default();
    let meshes = one_of(meshes.names());
    let graphs = crate::graph::builtins();
    let graphs = one_of(graphs.iter().map(|g| g.name));
    let mut current = String::new();
    let mut count = 0;
    let written = include_str!("errors.txt");
    for case in written.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (input, _) = rest.rsplit_once("---\nerror: ").unwrap();
        let sets: Vec<String> = input
            .lines()
            .filter_map(|l| l.strip_prefix("$ "))
            .map(str::to_owned)
            .collect();
        let text: String = input
            .split_inclusive('\n')
            .filter(|l| !l.starts_with("$ "))
            .collect();
        let file = |path: &str| match title.contains(": ") {
            true => Ok(text.clone()),
            false => no_files(path),
        };
        let plan = match title.split_once(": ") {
            Some(("mesh", _)) => "mesh_files: mine.yaml\nmeshes: bare\n",
            Some(("graph", _)) => "workload: {graph: {file: mine.yaml}}\n",
            _ => &text,
        };
        let errors = resolve("plan.yaml", plan, &sets, &file).expect_err(title);
        let errors = errors.to_string();
        let errors = errors
            .replace(&meshes, "{meshes}")
            .replace(&graphs, "{graphs}");
        current += &format!("=== {title}\n{input}---\n{}\n\n", errors.trim_end());
        count += 1;
    }
    assert!(count >= 90, "{count}");
    let current = format!("{}\n", current.trim_end());
    if std::env::var_os("TARE_UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/tests/errors.txt");
        std::fs::write(path, &current).unwrap();
        return;
    }
    for (current, written) in current.split("=== ").zip(written.split("=== ")) {
        assert_eq!(current.trim_end(), written.trim_end());
    }
}

#[test]
fn only_the_envoys_of_tare_can_be_on_one_side() {
    let plan = good(
        "meshes: [bare, envoy/client, envoy/server, envoy/entry]\n",
        &[],
    );
    let placements = plan.meshes.iter().map(|m| m.settings.placement);
    let expected = [
        Placement::Both,
        Placement::Client,
        Placement::Server,
        Placement::Entry,
    ];
    assert!(placements.eq(expected));
    let file =
        |_: &str| Ok("name: mine\ndata_plane: none\nsettings: {placement: entry}\n".to_owned());
    let text = "mesh_files: mine.yaml\nmeshes: [bare, mine]\n";
    let errors = resolve("plan.yaml", text, &[], &file).expect_err("no proxies to place");
    let errors = errors.to_string();
    assert!(errors.contains("`mine` has a `placement`"), "{errors}");
}

#[test]
fn an_empty_plan_is_the_defaults() {
    let plan = good("", &[]);
    assert_eq!(plan.name, "plan");
    assert_eq!(plan.workload.graph.name, "emojivoto");
    assert_eq!(plan.workload.instances, 1);
    assert_eq!(plan.baseline, "bare");
    let names: Vec<&str> = plan.meshes.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["bare", "envoy", "envoy/mtls"]);
    assert_eq!(plan.loads.len(), 1);
    assert_eq!(plan.loads[0].name, "200rps");
    assert_eq!(plan.loads[0].duration_ns, 10 * SECOND_NS);
    assert_eq!((plan.repeats, plan.reruns, plan.seed), (5, 1, 1));
    assert_eq!(plan.loads[0].arrivals, Arrivals::Poisson);
    assert_eq!(plan.margins, Margins::default());
}

#[test]
fn the_built_in_plans_are_valid_and_match_their_descriptions() {
    for builtin in builtins() {
        let plan = good(builtin.text, &[]);
        assert_eq!(plan.name, builtin.name);
        assert!(!plan.description.is_empty(), "{}", builtin.name);
        let on_cluster = plan.environment == EnvironmentKind::Kubernetes;
        assert_eq!(plan.kubernetes.is_some(), on_cluster, "{}", builtin.name);
        assert_eq!(
            crate::trial::order(&plan).len() as u64,
            plan.trial_count(),
            "{}",
            builtin.name
        );
    }
    let plan = quick(&[]);
    assert_eq!((plan.trial_count(), plan.pairing), (24, Pairing::Slices));
    assert_eq!(plan.workload.instances, 2);
    assert_eq!(plan.meshes[1].settings.mtls, Mtls::Off);
    assert_eq!(plan.meshes[2].settings.mtls, Mtls::Strict);
    let rates: Vec<f64> = plan.loads.iter().map(|l| l.rate_rps().unwrap()).collect();
    assert_eq!(rates, [200.0]);
    // Tests for drift need 8 seconds.
    let blocks = &plan.block_groups()[0];
    let of_trial = plan.trial_time_ns(&plan.loads[0], blocks);
    assert!(of_trial * u64::from(plan.trials_together(blocks)) > 8 * SECOND_NS);
    let aa = good(builtin("aa").unwrap().text, &[]);
    assert_eq!(aa.meshes[0].settings, aa.meshes[1].settings);
    assert_eq!(aa.meshes[0].data_plane, aa.meshes[1].data_plane);
    assert_eq!(aa.meshes[1].name, "bare-again");
    assert_eq!(aa.meshes[1].title, "bare-again (No mesh)");
    assert_eq!((aa.loads, aa.pairing), (plan.loads, plan.pairing));
}

#[test]
fn a_mesh_that_cannot_run_in_the_environment_is_refused() {
    let errors = |text: &str| {
        let none = |_: &str| Err("no file".to_owned());
        resolve("plan.yaml", text, &[], &none)
            .unwrap_err()
            .to_string()
    };
    let found = errors("meshes: [bare, istio/minimal]\n");
    assert!(
        found.contains("the mesh `istio/minimal` needs Kubernetes"),
        "{found}"
    );
    let found = errors("environment: kubernetes\nmeshes: [bare, envoy]\n");
    assert!(
        found.contains("the mesh `envoy` does not run on Kubernetes"),
        "{found}"
    );
    let found = errors("meshes: [{name: e, mesh: envoy, settings: {mtls: permissive}}]\n");
    assert!(found.contains("permissive"), "{found}");
    let found = errors("environment: kubernetes\nmeshes: [bare]\nkubernetes: {generators: 0}\n");
    assert!(found.contains("1 to 64"), "{found}");
    let found = errors(
        "environment: kubernetes\nmeshes: [bare]\n\
         kubernetes: {pod: {resources: {agent: {requests: {cpu: 2 cores}}}}}\n",
    );
    let expected = "pod.resources.agent: found `2 cores` for cpu";
    assert!(found.contains(expected), "{found}");
    let found = errors(
        "environment: kubernetes\nmeshes: [bare]\n\
         kubernetes: {pod: {tolerations: [{key: a, effect: NoSchedul}]}}\n",
    );
    assert!(found.contains("`NoSchedule`"), "{found}");
}

#[test]
fn quantities_of_pods_may_be_numbers_or_text() {
    let text = "environment: kubernetes\nmeshes: [bare]\n\
                kubernetes: {pod: {resources: {generator: {requests: {cpu: 2, memory: 64Mi}}}}}\n";
    let plan = good(text, &[]);
    let requests = &plan.kubernetes.unwrap().pod.resources.generator.requests;
    let expected = serde_json::json!({"cpu": 2, "memory": "64Mi"});
    assert_eq!(serde_json::to_value(requests).unwrap(), expected);
}

#[test]
fn overlays_of_mesh_entry_and_cluster_reach_the_mesh() {
    let text = "environment: kubernetes\nmeshes: [bare, istio, {name: istio/mine, mesh: istio, kubernetes: {values: {istiod: {a: 1}}}}]\n\
                kubernetes: {meshes: {istio: {values: {istiod: {b: 2}}}}}\n";
    let plan = good(text, &[]);
    let values = |i: usize| plan.meshes[i].kubernetes.as_ref().unwrap().values["istiod"].clone();
    assert_eq!(values(1), serde_json::json!({"b": 2}));
    assert_eq!(values(2), serde_json::json!({"a": 1, "b": 2}));
    assert!(plan.meshes[0].kubernetes.is_none());
}

#[test]
fn arrivals_with_a_rate_of_their_own_name_the_load() {
    let steps = &good("", &["load.arrivals=steps:100:5s,400:15s"]).loads[0];
    assert_eq!(steps.duration_ns, 20_000_000_000);
    assert_eq!(steps.rate_rps(), Some(325.0));
    assert_eq!(steps.name, "steps-325rps");
    let ramp = &good("load: {arrivals: ramp:0..1krps, duration: 4s}", &[]).loads[0];
    assert_eq!(
        (ramp.rate_rps(), ramp.duration_ns),
        (Some(500.0), 4_000_000_000)
    );
    let bursts = &good("load: {arrivals: bursts:10, rate: 50}", &[]).loads[0];
    assert_eq!(bursts.arrivals, Arrivals::Bursts { slots: 10 });
    assert_eq!(bursts.name, "50rps");
}

#[test]
fn set_changes_written_keys_and_adds_missing_ones() {
    let plan = quick(&[
        "load.rate=1.5krps",
        "workload.instances=30",
        "meshes=envoy, bare",
        "repeats=5",
        "load.arrivals=poisson",
        "description=a, b and c",
        "load.connections=90",
    ]);
    assert_eq!(plan.loads.len(), 1);
    assert_eq!(plan.loads[0].name, "1500rps");
    assert_eq!(plan.loads[0].arrivals, Arrivals::Poisson);
    assert_eq!(plan.workload.instances, 30);
    assert_eq!(plan.meshes[0].name, "envoy");
    assert_eq!(plan.baseline, "bare", "the plan names its baseline");
    assert_eq!(plan.repeats, 5);
    assert_eq!(plan.description, "a, b and c");

    let added = good("", &["load.rate=5", "workload=echo", "meshes=bare"]);
    assert_eq!(added.loads[0].rate_rps(), Some(5.0));
    assert_eq!(added.workload.graph.name, "echo");
    assert_eq!(added.meshes.len(), 1);
}

#[test]
fn set_changes_items_of_lists_and_keys_of_short_forms() {
    let plan = quick(&[
        "load.rate=[200, 400]",
        "load.rate[1]=600",
        "meshes[1].name=two",
        "meshes[1].settings.concurrency=2",
        "meshes[2]={mesh: envoy, name: three, settings: {concurrency: 3}}",
    ]);
    assert_eq!(plan.loads[1].rate_rps(), Some(600.0));
    assert_eq!(plan.meshes[1].name, "two");
    assert_eq!(plan.meshes[1].settings.concurrency, 2);
    assert_eq!(plan.meshes[2].settings.concurrency, 3);
    let listed = good(
        "workload: echo\nloads: [{rate: 1}, {rate: 2}]\n",
        &["loads[1].duration=20s", "workload.instances=2"],
    );
    assert_eq!(listed.loads[0].duration_ns, 10 * SECOND_NS);
    assert_eq!(listed.loads[1].duration_ns, 20 * SECOND_NS);
    assert_eq!(listed.workload.instances, 2);
}

#[test]
fn margins_and_reruns_are_read() {
    let plan = good("margins: {p50: 2%, cpu: 10 %}\nreruns: 0", &[]);
    let of = [
        Figure::P50,
        Figure::P99,
        Figure::P99_9,
        Figure::ProxyCpu,
        Figure::Memory,
    ]
    .map(|what| plan.margins.of(what));
    assert_eq!(of, [0.02, 0.10, 0.10, 0.10, 0.05]);
    assert_eq!(plan.reruns, 0);
    let error = |text: &str| with(text, &[]).unwrap_err().to_string();
    assert!(
        error("reruns: 4").contains("0 to 3"),
        "{}",
        error("reruns: 4")
    );
    assert!(error("margins: {p98: 5%}").contains("unknown key `p98`"));
    assert!(error("margins: {p50: 5}").contains("has no unit"));
}

#[test]
fn lists_of_rates_and_connections_make_loads_of_all_pairs() {
    let plan = good("load: {rate: [100, 0.5krps], connections: [8, 64]}", &[]);
    let names: Vec<&str> = plan.loads.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        ["100rps-8c", "100rps-64c", "500rps-8c", "500rps-64c"]
    );
    assert_eq!(plan.loads[1].connections, 64);
    let named = good("load: {name: x, rate: [1, 2.5]}", &[]);
    let names: Vec<&str> = named.loads.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["x-1rps", "x-2.5rps"]);
    assert_eq!(good("load: {name: low}", &[]).loads[0].name, "low");
}

#[test]
fn a_graph_may_be_inline_or_in_a_file() {
    let graph = serde_json::to_string(&crate::graph::builtin("echo").unwrap()).unwrap();
    let inline = good(&format!("workload: {{graph: {graph}}}"), &[]);
    let read = |path: &str| match path {
        "my/graph.yaml" => Ok(graph.clone()),
        _ => no_files(path),
    };
    let text = "workload: {graph: {file: my/graph.yaml}}";
    let from_file = resolve("p.yaml", text, &[], &read).unwrap();
    let named = good("workload: echo", &[]);
    assert_eq!(inline.workload, named.workload);
    assert_eq!(from_file.workload, named.workload);
}

#[test]
fn a_plan_makes_the_datastores_of_a_graph_real() {
    let plan = good("workload: {graph: acme-air, store: postgresql}", &[]);
    let graph = &plan.workload.graph;
    let stores: Vec<_> = graph.stores().map(|(_, s)| &*s.name).collect();
    let all = ["booking-db", "customer-db", "flight-db", "session-db"];
    assert_eq!(stores, all);
    assert!(!plan.workload.replicable().contains("booking-db"));
    let writes = graph.stores().flat_map(|(_, s)| &s.endpoints);
    let writes = writes.filter(|e| e.operation == crate::graph::Operation::Write);
    assert_eq!(writes.count(), 4);
}

#[test]
fn a_mesh_of_the_user_is_read_from_a_file() {
    let mesh =
        "name: mine\ndata_plane: envoy-sidecar\nvariants:\n  big: {settings: {concurrency: 4}}\n";
    let read = |_: &str| Ok(mesh.to_owned());
    let text = "mesh_files: [mine.yaml]\nmeshes: [bare, mine, mine/big]\n";
    let plan = resolve("p.yaml", text, &[], &read).unwrap();
    assert_eq!(plan.meshes[1].settings.concurrency, 1);
    assert_eq!(plan.meshes[2].settings.concurrency, 4);

    let broken = |_: &str| Ok("name: mine\ndata_plane: envoy\n".to_owned());
    let errors = resolve("p.yaml", text, &[], &broken).unwrap_err();
    assert_eq!(errors.list().len(), 1, "{errors}");
    assert!(
        errors.to_string().contains("--> mine.yaml:2:13"),
        "{errors}"
    );
}

/// The plans in docs/plans.md are valid, and so is the mesh file.
#[test]
fn the_examples_in_the_documentation_are_valid() {
    let page = include_str!("../../../../../docs/plans.md");
    let blocks: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|b| b.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 6);
    assert_eq!(good(blocks[0], &[]).loads.len(), 2);
    for (block, resolved) in [(blocks[1], true), (blocks[2], false)] {
        let until = good(block, &[]).until.unwrap();
        assert_eq!((until.min, until.resolved), (5, resolved));
        assert_eq!(good(block, &["repeats=3"]).until, None);
    }
    let prices = good(blocks[3], &[]).prices.unwrap();
    assert_eq!((prices.core_hour, prices.proxies), (0.04, Some(600.0)));
    assert_eq!(good(blocks[4], &[]).meshes[1].settings.concurrency, 2);
    let read = |_: &str| Ok(blocks[5].to_owned());
    let text = "mesh_files: [mine.yaml]\nmeshes: [bare, mine, mine/mtls]\n";
    let plan = resolve("p.yaml", text, &[], &read).unwrap();
    assert!(plan.meshes[2].settings.access_log);
    assert_eq!(plan.meshes[2].settings.mtls, Mtls::Strict);
}

#[test]
fn huge_and_deep_texts_are_refused() {
    let long = format!("name: a\n#{}", "x".repeat(TEXT_BYTES_MAX));
    assert!(
        with(&long, &[])
            .unwrap_err()
            .to_string()
            .contains("at most 262144")
    );
    for many in [
        "- a\n".repeat(50_000),
        (0..30_000).map(|n| format!("k{n}:\n")).collect(),
    ] {
        let message = with(&many, &[]).unwrap_err().to_string();
        assert!(message.contains("too large"), "{message}");
    }
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        let deep = format!("meshes: \n  {}x{}", open.repeat(3000), close.repeat(3000));
        let message = with(&deep, &[]).unwrap_err().to_string();
        assert!(
            message.contains("nesting") || message.contains("invalid YAML"),
            "{message}"
        );
    }
}

#[test]
fn windows_line_ends_and_byte_order_marks_are_accepted() {
    let text = "\u{feff}name: a\r\nrepeats: 2\r\nload:\r\n  rate: 5\r\n";
    let plan = good(text, &[]);
    assert_eq!((plan.name.as_str(), plan.repeats), ("a", 2));
    assert_eq!(plan.loads[0].rate_rps(), Some(5.0));
}

#[test]
fn a_resolved_plan_round_trips_through_json() {
    for builtin in builtins() {
        let plan = good(builtin.text, &[]);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}

#[test]
fn the_estimate_includes_the_windows_and_grows_with_the_sidecars() {
    let bare = quick(&["meshes=bare"]);
    let windows = 2 * 5 * (3 * SECOND_NS + SECOND_NS);
    assert!(bare.estimated_duration_ns() > windows);
    let envoy = quick(&["meshes=envoy", "baseline=envoy"]);
    assert!(envoy.estimated_duration_ns() > bare.estimated_duration_ns());
}

/// Checks that any text resolves either to a valid plan or to problems that can be displayed.
fn resolves_or_reports(text: &str, sets: &[String]) -> Result<(), TestCaseError> {
    match resolve("plan.yaml", text, sets, &no_files) {
        Ok(plan) => {
            let mut names: Vec<&str> = plan.meshes.iter().map(|m| m.name.as_str()).collect();
            prop_assert!(names.contains(&plan.baseline.as_str()));
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), plan.meshes.len());
            prop_assert!(plan.workload.graph.mix(&plan.workload.mix).is_some());
            prop_assert!(plan.workload.instances >= 1 && plan.repeats >= 1);
            for load in &plan.loads {
                if let Some(rate_rps) = load.rate_rps() {
                    prop_assert!(rate_rps > 0.0 && rate_rps <= RATE_RPS_MAX);
                    prop_assert!(rate_rps * load.duration_ns as f64 >= 1e9);
                }
                prop_assert!(load.threads >= 1 && load.threads <= load.connections);
            }
        }
        Err(errors) => {
            prop_assert!(!errors.list().is_empty());
            prop_assert!(errors.to_string().starts_with("error: "));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        resolves_or_reports(&text, &[])?;
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        resolves_or_reports(&String::from_utf8_lossy(&bytes), &[])?;
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "[a-c:&*!|>{}\\[\\],\"'#%@?\\- \n\t]{0,80}") {
        resolves_or_reports(&text, &[])?;
    }

    #[test]
    fn no_change_of_a_good_plan_makes_it_panic(
        which in 0usize..4,
        at in any::<prop::sample::Index>(),
        length in 0usize..12,
        new in "[ -~\n\t\u{e9}]{0,6}",
    ) {
        let text = builtins()[which].text;
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        // The built-in plans are ASCII: every byte is a boundary.
        let changed = format!("{}{new}{}", &text[..start], &text[end..]);
        resolves_or_reports(&changed, &[])?;
    }

    #[test]
    fn no_set_makes_it_panic(
        path in "(load|loads|meshes|workload|seed|repeats|baseline)(\\[[0-3]\\])?(\\.(rate|graph|name|settings|mtls))?(\\[[0-3x]\\])?",
        value in "[ -~]{0,12}",
        noise in "\\PC{0,20}",
    ) {
        let text = builtin("quick").unwrap().text;
        resolves_or_reports(text, &[format!("{path}={value}"), noise])?;
    }

    #[test]
    fn a_number_in_range_is_kept(
        rate in 1u32..10_000, connections in 2u32..1000, seconds in 1u64..1000, seed: u64,
    ) {
        let text = format!(
            "seed: {seed}\nload: {{rate: {rate}, connections: {connections}, duration: {seconds}s}}"
        );
        let plan = good(&text, &[]);
        prop_assert_eq!(plan.seed, seed);
        prop_assert_eq!(plan.loads[0].rate_rps(), Some(f64::from(rate)));
        prop_assert_eq!(plan.loads[0].connections, connections);
        prop_assert_eq!(plan.loads[0].duration_ns, seconds * SECOND_NS);
    }
}

#[test]
fn programs_of_the_user_have_no_exec_proxies_in_front() {
    let mesh =
        "name: mine\ndata_plane: exec\nexec: {command: [./proxy, \"{listen}\", \"{upstream}\"]}\n";
    let read = |_: &str| Ok(mesh.to_owned());
    let plan = |command: &str| {
        let text = format!(
            "mesh_files: mine.yaml\nmeshes: [bare, mine]\nworkload: {{graph: {{name: shop, services: [{{name: front, \
             protocol: http, {command}endpoints: [{{path: /}}]}}], \
             mixes: [{{name: default, endpoints: [{{name: home, service: front, path: /}}]}}]}}}}\n"
        );
        resolve("plan.yaml", &text, &[], &read)
    };
    assert!(plan("").is_ok());
    let error = plan("command: {run: [./front]}, ").unwrap_err().to_string();
    assert!(error.contains("plan.yaml:2:16"), "{error}");
    assert!(
        error.contains("`mine` has `data_plane: proxy`, and the workload has services with"),
        "{error}"
    );
}
