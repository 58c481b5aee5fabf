//! Resolves the text of a plan into a [`Plan`]: the rules that involve several keys.

use std::collections::BTreeMap;

use super::churn;
use super::file::{Environment, MeshEntry, PlanFile, ReadFile};
use super::kubernetes::KubernetesSettings;
use super::loads::{self, PlacedLoad};
use super::margins::MarginsFile;
use super::overload;
use super::pairing;
use super::placed;
use super::repeats;
use super::resolved::{EnvironmentKind, Load, Plan, Workload};
use super::sweep::Sweep;
use super::vary::{self, VariedLoads};
use super::workload;
use super::{entry, tcp};
use crate::limits::LIST_MAX;
use crate::mesh::{Catalogue, DataPlaneKind, Mesh, name_and_version};
use crate::source::{
    Count, Field, Line, List, Location, Name, Problems, SET, Short, Spanned, apply_set,
};

/// Most trials of a plan.
const TRIALS_MAX: u64 = 10_000;

/// Resolves a plan file: `text`, called `source_name` in messages, with each of `sets`
/// (`path=value`) applied to it. `read_file` returns the files that the plan names.
///
/// # Errors
/// All problems of the plan, each with its location, what was found, what was expected, and the
/// nearest valid name.
pub fn resolve(
    source_name: &str,
    text: &str,
    sets: &[String],
    read_file: &ReadFile<'_>,
) -> Result<Plan, Problems> {
    let mut problems = Problems::default();
    let plan = read(&mut problems, source_name, text, sets, read_file);
    problems.check(plan)
}

/// Reads a plan. The result is complete only if `problems` is empty.
fn read(
    problems: &mut Problems,
    source_name: &str,
    text: &str,
    sets: &[String],
    read_file: &ReadFile<'_>,
) -> Option<Plan> {
    let mut root = problems.read_file(source_name, text)?;
    for set in sets {
        apply_set(problems, &mut root, SET, set);
    }
    let file: PlanFile = problems.decode(&root)?;

    let workload = workload::resolve(
        problems,
        file.workload,
        (&root, folder(source_name)),
        read_file,
    );
    let catalogue = catalogue(problems, file.mesh_files, read_file);
    let environment_location = file.environment.location().unwrap_or(root.location);
    let environment = file.environment.or(Environment::Local);
    let on_cluster = matches!(environment, Some(Environment::Kubernetes));
    if on_cluster && workload.as_ref().is_some_and(|w| w.graph.has_commands()) {
        problems
            .add(
                environment_location,
                "the workload has services with `command`",
            )
            .expected("`environment: local` with them");
    }
    let has_application = |w: &Workload| w.graph.application.is_some();
    if !on_cluster && workload.as_ref().is_some_and(has_application) {
        problems
            .add(environment_location, "the workload has an `application`")
            .expected("`environment: kubernetes` with it")
            .help("on this machine, a service can be a program of yours: `command`");
    }
    if on_cluster
        && workload
            .as_ref()
            .is_some_and(|w| w.graph.stores().next().is_some())
    {
        problems
            .add(
                environment_location,
                "the workload has services with `store`",
            )
            .expected("`environment: local` with them");
    }
    let kubernetes = kubernetes(problems, file.kubernetes, environment);
    let meshes_location = file.meshes.location().unwrap_or(root.location);
    let meshes = meshes(
        problems,
        file.meshes,
        catalogue.as_ref(),
        environment_location,
    );
    let varied = vary::resolve(problems, file.vary);
    let vary = varied.as_ref().and_then(Option::as_ref);
    let mut baseline = baseline(problems, file.baseline, meshes.as_deref());
    let mut swept = BTreeMap::new();
    let meshes = match vary {
        None => meshes,
        Some(vary) => meshes
            .and_then(|m| vary.meshes(problems, m))
            .map(|(meshes, of)| {
                // The baseline with all anchors comes first among those made of it.
                let first = meshes.iter().map(|m| &m.value.name);
                let mut first = first.filter(|n| of.get(*n).map(|s| &s.mesh) == baseline.as_ref());
                if let Some(anchor) = first.next().cloned() {
                    baseline = Some(anchor);
                }
                swept = of;
                meshes
            }),
    };
    if let Some(workload) = &workload {
        meshes
            .iter()
            .flatten()
            .for_each(|m| placed::refuse_proxy(problems, m, &workload.graph));
    }
    let meshes = meshes.and_then(|m| placed::placed(problems, m, kubernetes.as_ref()?));
    let loads = loads::resolve(problems, file.load, file.loads, &root, read_file);
    let (loads, workload, sweep) = match (vary, loads, workload) {
        (Some(vary), Some(loads), Some(workload)) => {
            let VariedLoads {
                loads,
                workload,
                mut sweep,
            } = vary.loads(problems, loads, &workload)?;
            sweep.meshes = swept;
            (Some(loads), Some(workload), Some(sweep))
        }
        (_, loads, workload) => (loads, workload, None),
    };
    let loads = checked_loads(problems, loads, workload.as_ref(), sweep.as_ref());
    varied?;
    let paired = file.pairing.location().or(file.at_once.location());
    let pairing_location = paired.unwrap_or(root.location);
    let paired = pairing::resolve(problems, file.pairing, file.at_once, file.slice);
    let (pairing, slice) = paired?;
    let repeats_location = file.repeats.location().unwrap_or(root.location);
    let (repeats, until) = repeats::resolve(problems, file.repeats, repeats_location)?;

    let mut plan = Plan {
        schema_version: crate::SCHEMA_VERSION,
        name: file.name.or_else(|| Name(stem(source_name)))?.0,
        description: file.description.or_else(Line::default)?.0,
        environment: match environment? {
            Environment::Local => EnvironmentKind::Local,
            Environment::Kubernetes => EnvironmentKind::Kubernetes,
        },
        kubernetes: kubernetes?,
        workload: workload?,
        meshes: meshes?,
        baseline: baseline?,
        loads: loads?,
        sweep,
        block_groups: Vec::new(),
        repeats,
        until,
        gate: None,
        reruns: file.reruns.or(Count(1))?.0,
        pairing: pairing.unwrap_or_default(),
        slice,
        margins: file.margins.or_else(MarginsFile::default)?.resolve()?,
        seed: file.seed.or(1)?,
        prices: match file.prices.optional()? {
            None => None,
            Some(prices) => Some(prices.resolve()?),
        },
    };
    if pairing.is_none() {
        pairing::choose(&mut plan);
    }
    let has_churn = plan.has_churn();
    plan.kubernetes
        .iter_mut()
        .for_each(|k| k.has_churn = has_churn);
    overload::split_blocks(&mut plan);
    pairing::split_blocks(problems, &mut plan, pairing_location);
    check_without_rate(problems, &plan, repeats_location, environment_location);
    check_size(problems, &plan, repeats_location, environment_location);
    tcp::check(problems, &plan, meshes_location);
    entry::check(problems, &plan, meshes_location);
    pairing::check(problems, &plan, pairing_location);
    churn::check(problems, &plan, environment_location);
    Some(plan)
}

/// Checks the number of trials, and the request bodies on a cluster.
pub(super) fn check_size(
    problems: &mut Problems,
    plan: &Plan,
    of_trials: Location,
    of_bodies: Location,
) {
    let trials = plan.trial_count();
    if trials > TRIALS_MAX {
        problems
            .add(
                of_trials,
                format!("{trials} trials: meshes x loads x repeats"),
            )
            .expected(format!("at most {TRIALS_MAX}"))
            .help("split the plan into several");
    }
    if let Some(bodies) = plan.excess_body_bytes() {
        problems
            .add(
                of_bodies,
                format!("request bodies of {bodies} bytes: endpoints x instances x generators"),
            )
            .expected(format!("at most {} on Kubernetes", Plan::BODY_BYTES_MAX))
            .help("lower `request_bytes` of the mix, or the number of instances");
    }
}

/// The rules of plans whose loads have no rate of their own.
fn check_without_rate(
    problems: &mut Problems,
    plan: &Plan,
    repeats: Location,
    environment: Location,
) {
    if plan.loads.iter().all(Load::is_open) {
        return;
    }
    if plan.loads.iter().any(Load::is_open) {
        problems
            .add(
                environment,
                "found loads with a rate and loads without one (`capacity`, `users`, `overload`)",
            )
            .expected("only one of the two kinds")
            .help("split the plan: their latencies are of different rates, and cannot be compared");
    }
    if plan.until.is_some() {
        problems
            .add(repeats, "`until` does not work with `capacity` or `users`")
            .expected("a number of repeats");
    }
}

/// Resolves the settings of the cluster; `Some(None)` for a plan that runs elsewhere.
fn kubernetes(
    problems: &mut Problems,
    written: Field<KubernetesSettings>,
    environment: Option<Environment>,
) -> Option<Option<Box<KubernetesSettings>>> {
    let location = written.location().unwrap_or_default();
    let settings = written.or_else(KubernetesSettings::default)?;
    if let Err(problem) = settings.check() {
        problems.add_at(location, problem.within("in `kubernetes`"));
        return None;
    }
    let on_cluster = environment? == Environment::Kubernetes;
    Some(on_cluster.then(|| Box::new(settings)))
}

/// Returns the folder of a file with a slash at its end; empty for a file without one.
fn folder(source_name: &str) -> &str {
    let end = source_name.rfind('/').map_or(0, |slash| slash + 1);
    &source_name[..end]
}

/// Makes the name of a plan from its file name.
fn stem(source_name: &str) -> String {
    let file = source_name.rsplit(['/', '\\']).next().unwrap_or("");
    let stem = file.split('.').next().unwrap_or("");
    let clean: String = stem
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
        .take(64)
        .collect();
    let clean = clean.trim_start_matches(['_', '-']);
    if clean.is_empty() { "plan" } else { clean }.to_owned()
}

/// The built-in meshes and those of the plan's files. `None` if one of them is invalid, because an
/// unknown name may then be a consequence.
fn catalogue(
    problems: &mut Problems,
    mesh_files: Field<List<String>>,
    read_file: &ReadFile<'_>,
) -> Option<Catalogue> {
    let before = problems.list().len();
    let mut catalogue = Catalogue::default();
    for path in mesh_files.optional()?.map_or_else(Vec::new, |list| list.0) {
        match read_file(&path.value) {
            Ok(text) => catalogue.add(problems, &path.value, &text),
            Err(reason) => {
                problems
                    .add(
                        path.location,
                        format!("cannot read the mesh file: {reason}"),
                    )
                    .expected("a path, relative to the plan");
            }
        }
    }
    (problems.list().len() == before).then_some(catalogue)
}

fn meshes(
    problems: &mut Problems,
    entries: Field<List<Short<String, MeshEntry>>>,
    catalogue: Option<&Catalogue>,
    default_location: Location,
) -> Option<Vec<Spanned<Mesh>>> {
    let entries = entries.optional()?.map(|list| list.0);
    let catalogue = catalogue?;
    let Some(entries) = entries else {
        return ["bare", "envoy", "envoy/mtls"]
            .map(|name| {
                let value = catalogue.get(name)?;
                let location = default_location;
                Some(Spanned { value, location })
            })
            .into_iter()
            .collect();
    };
    if let Some(first_too_many) = entries.get(LIST_MAX) {
        let found = format!("{} meshes", entries.len());
        problems
            .add(first_too_many.location, found)
            .expected(format!("at most {LIST_MAX}"));
        return None;
    }
    let mut meshes: Vec<Spanned<Mesh>> = Vec::new();
    let mut complete = true;
    for Spanned { value, location } in entries {
        let Some(mesh) = mesh(problems, value.0, catalogue) else {
            complete = false;
            continue;
        };
        if meshes.iter().any(|m| m.value.name == mesh.name) {
            let name = &mesh.name;
            problems
                .add(location, format!("duplicate mesh name `{name}`"))
                .expected("each name once")
                .help(format!(
                    "give one of them another name: `{{name: {name}-again, mesh: {name}}}`"
                ));
            complete = false;
        }
        let value = mesh;
        meshes.push(Spanned { value, location });
    }
    complete.then_some(meshes)
}

fn mesh(problems: &mut Problems, entry: MeshEntry, catalogue: &Catalogue) -> Option<Mesh> {
    let (wanted, location) = match entry.mesh {
        Field::Given(mesh) => (mesh.value, mesh.location),
        _ => return None,
    };
    let (plain, version) = name_and_version(&wanted);
    let Some(mut mesh) = catalogue.get(plain) else {
        problems
            .add(location, format!("unknown mesh `{plain}`"))
            .one_of(plain, catalogue.names());
        return None;
    };
    if let Some(version) = version
        && let Err(problem) = mesh.at_version(version)
    {
        problems.add_at(location, problem);
        return None;
    }
    if let Some(location) = entry.settings.location() {
        let wrong = match mesh.data_plane {
            DataPlaneKind::EnvoySidecar => None,
            DataPlaneKind::None => Some(("which has no proxies", "no settings here")),
            DataPlaneKind::Proxy if mesh.proxy.as_ref().is_some_and(|p| p.is_configured()) => None,
            DataPlaneKind::Proxy => Some((
                "whose proxies are programs of yours",
                "the settings as arguments of its command",
            )),
            _ => Some(("which runs on Kubernetes", "Helm values under `kubernetes`")),
        };
        if let Some((why, expected)) = wrong {
            let found = format!("found settings for `{wanted}`, {why}");
            problems.add(location, found).expected(expected);
            return None;
        }
        if entry.name.is_absent() {
            let found = format!("settings that differ from those of `{wanted}`, without a name");
            problems
                .add(location, found)
                .expected("a `name` next to `settings`")
                .help(format!(
                    "without it, the results could be mistaken for those of `{wanted}`"
                ));
            return None;
        }
    }
    if let Some(settings) = entry.settings.optional()? {
        mesh.settings = settings.over(&mesh.settings)?;
    }
    if let Field::Given(Spanned { value, location }) = &entry.kubernetes {
        if entry.name.is_absent() {
            problems
                .add(*location, format!("changes to `{wanted}`, without a name"))
                .expected("a `name` next to `kubernetes`");
            return None;
        }
        mesh.overlay(problems, value, *location)?;
    }
    // An alias with an unchanged title could be mistaken for the mesh itself.
    if let Some(Name(name)) = entry.name.optional()?
        && name != mesh.name
    {
        mesh.title = format!("{name} ({})", mesh.title);
        mesh.name = name;
    }
    if let Some(Line(title)) = entry.title.optional()? {
        mesh.title = title;
    }
    Some(mesh)
}

fn baseline(
    problems: &mut Problems,
    written: Field<String>,
    meshes: Option<&[Spanned<Mesh>]>,
) -> Option<String> {
    let location = written.location();
    let names = meshes?.iter().map(|m| m.value.name.as_str());
    let name = written.or_else(|| names.clone().next().unwrap_or("").to_owned())?;
    if let Some(location) = location
        && !names.clone().any(|n| n == name)
    {
        let found = format!("the baseline `{name}` is not among the plan's meshes");
        problems.add(location, found).one_of(&name, names);
        return None;
    }
    Some(name)
}

/// The loads, checked against each other and against the workload.
pub(super) fn checked_loads(
    problems: &mut Problems,
    loads: Option<Vec<PlacedLoad>>,
    workload: Option<&Workload>,
    sweep: Option<&Sweep>,
) -> Option<Vec<Load>> {
    let loads = loads?;
    let before = problems.list().len();
    if let Some(first_too_many) = loads.get(LIST_MAX) {
        problems
            .add(first_too_many.location, format!("{} loads", loads.len()))
            .expected(format!("at most {LIST_MAX}"));
        return None;
    }
    for (i, PlacedLoad { load, location, .. }) in loads.iter().enumerate() {
        if loads[..i].iter().any(|l| l.load.name == load.name) {
            problems
                .add(*location, format!("duplicate load name `{}`", load.name))
                .expected("each name once")
                .help("give one of them a `name`");
        }
    }
    if let Some(workload) = workload {
        let of = |l: &PlacedLoad| {
            let own = sweep.and_then(|s| s.workloads.get(&l.load.name));
            own.unwrap_or(workload)
        };
        let too_few = |l: &&PlacedLoad| u64::from(l.load.connections) < of(l).origins();
        if let Some(found) = loads.iter().find(too_few) {
            let workload = of(found);
            let (connections, origins) = (found.load.connections, workload.origins());
            problems
                .add(
                    found.connections_location,
                    format!("too few connections: {connections} for {origins} origins"),
                )
                .expected(format!("at least {origins}"))
                .help(format!(
                    "each of the {} instances of `{}` needs a connection to every service in the mix",
                    workload.instances, workload.graph.name
                ));
        }
    }
    (problems.list().len() == before).then(|| loads.into_iter().map(|l| l.load).collect())
}
