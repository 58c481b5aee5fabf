//! From text to [`Plan`]: what no key can tell by itself.

use super::decode;
use super::file::{MeshEntry, PLAN};
use super::kubernetes::KubernetesSettings;
use super::loads::{self, PlacedLoad};
use super::repeats;
use super::resolved::{EnvironmentKind, Load, Plan, Workload};
use super::workload;
use crate::mesh::{Catalogue, DataPlaneKind, Mesh, Mtls};
use crate::source::{At, Decoder, Node, Part, Place, Problems, apply_set};

/// Reads the files that a plan names: path as written to text, or a fragment that
/// says why not.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Most meshes, and most loads, of a plan.
const LIST_MAX: usize = 64;
/// Most trials of a plan.
const TRIALS_MAX: u64 = 10_000;

/// Resolves a plan file: `text`, called `source_name` in messages, with each of
/// `sets` (`path=value`) applied to it. `read_file` gives the files it names.
///
/// # Errors
/// Everything that is wrong with it, each with its place, what was found, what was
/// expected, and the nearest valid name.
pub fn resolve(
    source_name: &str,
    text: &str,
    sets: &[String],
    read_file: &ReadFile<'_>,
) -> Result<Plan, Problems> {
    let mut decoder = Decoder::default();
    let plan = read(&mut decoder, source_name, text, sets, read_file);
    match plan {
        Some(plan) if decoder.count() == 0 => Ok(plan),
        _ => Err(decoder.into_problems()),
    }
}

/// A plan, complete only if `d` has no problem.
fn read(
    d: &mut Decoder,
    source_name: &str,
    text: &str,
    sets: &[String],
    read_file: &ReadFile<'_>,
) -> Option<Plan> {
    let mut root = d.read_file(source_name, text)?;
    for set in sets {
        apply_set(d, &mut root, &PLAN, set);
    }
    let file = decode::plan(d, &root)?;

    let workload = workload::resolve(d, file.workload, read_file);
    let catalogue = catalogue(d, file.mesh_files, read_file);
    let environment_place = decode::place_of(&file.environment, &root);
    let environment = file.environment.or_else(EnvironmentKind::default);
    let kubernetes = kubernetes(file.kubernetes, environment);
    let meshes = meshes(d, file.meshes, &catalogue, &root).and_then(|m| {
        placed(
            d,
            m,
            (environment?, environment_place),
            kubernetes.as_ref()?,
        )
    });
    let baseline = baseline(d, file.baseline, meshes.as_deref());
    let load_entries = loads::resolve(d, file.load, file.loads, &root, read_file);
    let loads = checked_loads(d, load_entries, workload.as_ref());
    let repeats_place = decode::place_of(&file.repeats, &root);
    let repeats = repeats::resolve(d, file.repeats, repeats_place);

    let (blocks, until) = repeats?;
    let plan = Plan {
        schema_version: crate::SCHEMA_VERSION,
        name: file.name.or_else(|| stem(source_name))?,
        description: file.description.or_else(String::new)?,
        environment: environment?,
        kubernetes: kubernetes?,
        workload: workload?,
        meshes: meshes?,
        baseline: baseline?,
        loads: loads?,
        repeats: blocks,
        until,
        seed: file.seed.or(1)?,
        prices: match file.prices {
            Part::Absent => None,
            given => Some(given.or_else(Default::default)?.resolve()?),
        },
    };
    let trials = plan.trial_count();
    if trials > TRIALS_MAX {
        d.problem(
            repeats_place,
            format!("{trials} trials: meshes x loads x repeats"),
        )
        .expected(format!("at most {TRIALS_MAX}"))
        .help("divide the plan");
    }
    if let Some(bodies) = plan.excess_body_bytes() {
        d.problem(
            environment_place,
            format!("request bodies of {bodies} bytes: endpoints x instances x generators"),
        )
        .expected(format!("at most {} on Kubernetes", Plan::BODY_BYTES_MAX))
        .help("lower `request_bytes` of the mix, or the number of instances");
    }
    Some(plan)
}

/// Settings of the cluster, where there is one.
fn kubernetes(
    written: Part<KubernetesSettings>,
    environment: Option<EnvironmentKind>,
) -> Option<Option<Box<KubernetesSettings>>> {
    let settings = written.or_else(KubernetesSettings::default)?;
    let on_cluster = environment? == EnvironmentKind::Kubernetes;
    Some(on_cluster.then(|| Box::new(settings)))
}

/// The meshes as they are in this environment: each must be able to run there, and the
/// cluster's own overlays apply.
fn placed(
    d: &mut Decoder,
    mut meshes: Vec<Mesh>,
    (environment, place): (EnvironmentKind, Place),
    settings: &Option<Box<KubernetesSettings>>,
) -> Option<Vec<Mesh>> {
    let before = d.count();
    for mesh in &mut meshes {
        if mesh.data_plane == DataPlaneKind::EnvoySidecar && mesh.settings.mtls == Mtls::Permissive
        {
            d.problem(place, format!("`{}` with mtls permissive", mesh.name))
                .expected("`off` or `strict` for Envoys that tare itself sets up");
        }
        let Some(settings) = settings else {
            if environment == EnvironmentKind::Local && mesh.data_plane.is_on_kubernetes() {
                d.problem(place, format!("`{}` runs on Kubernetes only", mesh.name))
                    .expected("`environment: kubernetes`")
                    .help("`--environment kubernetes`; without a cluster, `envoy` weighs sidecars");
            }
            mesh.kubernetes = None;
            continue;
        };
        if let Err(found) = settings.apply(mesh) {
            d.problem(place, format!("`{}` on Kubernetes: {found}", mesh.name))
                .expected("a mesh with a section `kubernetes`");
        }
    }
    (d.count() == before).then_some(meshes)
}

/// A plan's name from its file's.
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

/// The built-in meshes and those of the plan's files. `None` when one of them is
/// broken: then a name that is missing says nothing.
fn catalogue(
    d: &mut Decoder,
    mesh_files: Part<Vec<At<String>>>,
    read_file: &ReadFile<'_>,
) -> Option<Catalogue> {
    let before = d.count();
    let mut catalogue = Catalogue::builtin(d);
    for path in mesh_files.or_else(Vec::new)? {
        match read_file(&path.value) {
            Ok(text) => catalogue.add(d, &path.value, &text),
            Err(reason) => {
                d.problem(path.place, format!("cannot read the mesh file: {reason}"))
                    .expected("a path, seen from the plan");
            }
        }
    }
    (d.count() == before).then_some(catalogue)
}

fn meshes(
    d: &mut Decoder,
    entries: Part<Vec<At<MeshEntry>>>,
    catalogue: &Option<Catalogue>,
    root: &Node,
) -> Option<Vec<Mesh>> {
    let default = || {
        let given = |name: &str| At {
            value: MeshEntry {
                mesh: Part::Given(At {
                    value: name.to_owned(),
                    place: root.place,
                }),
                ..MeshEntry::default()
            },
            place: root.place,
        };
        ["bare", "envoy", "envoy/mtls"].map(given).into()
    };
    let entries = entries.or_else(default)?;
    let catalogue = catalogue.as_ref()?;
    if let Some(first_too_many) = entries.get(LIST_MAX) {
        d.problem(first_too_many.place, format!("{} meshes", entries.len()))
            .expected(format!("at most {LIST_MAX}"));
        return None;
    }
    let mut meshes: Vec<Mesh> = Vec::new();
    let mut complete = true;
    for At { value, place } in entries {
        let Some(mesh) = mesh(d, value, place, catalogue) else {
            complete = false;
            continue;
        };
        if meshes.iter().any(|m| m.name == mesh.name) {
            let name = &mesh.name;
            d.problem(place, format!("a second mesh named `{name}`"))
                .expected("each name once")
                .help(format!(
                    "give one of them another name: `{{name: {name}-again, mesh: {name}}}`"
                ));
            complete = false;
        }
        meshes.push(mesh);
    }
    complete.then_some(meshes)
}

fn mesh(d: &mut Decoder, entry: MeshEntry, place: Place, catalogue: &Catalogue) -> Option<Mesh> {
    let mesh_place = entry.mesh.place().unwrap_or(place);
    let wanted = entry.mesh.or_else(String::new)?;
    let Some(mut mesh) = catalogue.get(&wanted) else {
        let names = catalogue.names();
        let names = names.iter().map(String::as_str);
        d.problem(mesh_place, format!("there is no mesh `{wanted}`"))
            .one_of(names.clone())
            .nearest(&wanted, names);
        return None;
    };
    if let Some(place) = entry.settings.place() {
        if mesh.data_plane.is_on_kubernetes() {
            d.problem(place, format!("settings for `{wanted}`"))
                .expected("Helm values under `kubernetes`");
            return None;
        }
        if mesh.data_plane == DataPlaneKind::None {
            d.problem(
                place,
                format!("settings for `{wanted}`, which has no proxies"),
            )
            .expected("no settings here");
            return None;
        }
        if matches!(entry.name, Part::Absent) {
            d.problem(
                place,
                format!("settings that differ from those of `{wanted}`, without a name"),
            )
            .expected("a `name` beside them")
            .help(format!(
                "the results would be taken for those of `{wanted}`"
            ));
            return None;
        }
    }
    mesh.settings = entry
        .settings
        .or_else(Default::default)?
        .over(&mesh.settings)?;
    if let Part::Given(At { value, place }) = &entry.kubernetes {
        if matches!(entry.name, Part::Absent) {
            d.problem(*place, format!("another `{wanted}`, without a name"))
                .expected("a `name` beside it");
            return None;
        }
        let base = mesh.kubernetes.take().unwrap_or_default();
        mesh.kubernetes = Some(crate::mesh::kubernetes(d, value, &base)?);
    }
    let name = entry.name.or(mesh.name.clone())?;
    // Under its parent's title an alias would be taken for its parent.
    let title = if name == mesh.name {
        mesh.title
    } else {
        format!("{name} ({})", mesh.title)
    };
    mesh.title = entry.title.or(title)?;
    mesh.name = name;
    Some(mesh)
}

fn baseline(d: &mut Decoder, written: Part<String>, meshes: Option<&[Mesh]>) -> Option<String> {
    let place = written.place();
    let names = meshes?.iter().map(|m| m.name.as_str());
    let name = written.or_else(|| names.clone().next().unwrap_or("").to_owned())?;
    if let Some(place) = place
        && !names.clone().any(|n| n == name)
    {
        d.problem(
            place,
            format!("the baseline `{name}` is not among the plan's meshes"),
        )
        .one_of(names.clone())
        .nearest(&name, names);
        return None;
    }
    Some(name)
}

/// Loads held against each other and against the workload.
fn checked_loads(
    d: &mut Decoder,
    loads: Option<Vec<PlacedLoad>>,
    workload: Option<&Workload>,
) -> Option<Vec<Load>> {
    let loads = loads?;
    let before = d.count();
    if let Some(first_too_many) = loads.get(LIST_MAX) {
        d.problem(first_too_many.place, format!("{} loads", loads.len()))
            .expected(format!("at most {LIST_MAX}"));
    }
    for (i, PlacedLoad { load, place, .. }) in loads.iter().enumerate() {
        if loads[..i].iter().any(|l| l.load.name == load.name) {
            d.problem(*place, format!("a second load named `{}`", load.name))
                .expected("each name once")
                .help("give one of them a `name`");
        }
    }
    if let Some(workload) = workload {
        let origins = workload.origins();
        let too_few = |l: &&PlacedLoad| u64::from(l.load.connections) < origins;
        if let Some(found) = loads.iter().find(too_few) {
            let connections = found.load.connections;
            d.problem(
                found.connections_place,
                format!("too few connections: {connections} for {origins} origins"),
            )
            .expected(format!("at least {origins}"))
            .help(format!(
                "each of the {} instances of `{}` needs a connection to every service in the mix",
                workload.instances, workload.graph.name
            ));
        }
    }
    (d.count() == before).then(|| loads.into_iter().map(|l| l.load).collect())
}
