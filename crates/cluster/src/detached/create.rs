//! Creates the objects of a detached run.

use serde_json::Value;
use tare_plan::{EnvironmentKind, Hooks, Plan};

use super::objects::{PackedChart, before_job, job};
use super::{DetachedRun, JOB, NAME, Place, Volume, remove};
use crate::api::kinds::{Kind, role_yaml};
use crate::api::kubeconfig;
use crate::leftovers::{clean, refuse_other_runs};
use crate::mesh::Helm;
use crate::preview::Preview;
use crate::trial::pull_secrets;
use tare_run::environment::EnvironmentError;

/// Most bytes in a ConfigMap, a little less than the limit of Kubernetes.
const CONFIG_MAP_BYTES_MAX: usize = 1_000_000;

/// Starts a run on its cluster. The kubeconfig and the context of `run` are those with which the objects are created; the
/// orchestrator uses its service account. `say` gets the service account and its rights before anything is created.
///
/// # Errors
/// If a part of the plan cannot be used on the cluster, another run has objects there, or an object cannot be created. Then
/// all objects are removed again.
pub async fn create(
    mut run: DetachedRun,
    volume: &Volume,
    say: &mut dyn FnMut(&str),
) -> Result<(), EnvironmentError> {
    if run.plan.environment != EnvironmentKind::Kubernetes {
        let remedy = "add --environment kubernetes";
        return Err(EnvironmentError::missing(
            "--detach is only for plans on a cluster",
            remedy,
        ));
    }
    if let Some(found) = stays_here(&run.plan) {
        let remedy = "run this plan without --detach";
        return Err(EnvironmentError::missing(found, remedy));
    }
    let settings = run.settings();
    let plan = run.plan.clone();
    let api = kubeconfig::connect(&settings).await?;
    let version = api.version().await?;
    // Rendering the charts may take long, so a refusal comes first.
    refuse_other_runs(&api, &run.id, &settings).await?;
    let preview = Preview::on(api, version, &settings, &plan).await?;
    let api = &preview.api;
    let more = preview.role().map_err(EnvironmentError::Cluster)?;
    let roles = role_yaml(&settings) + &more.yaml();
    let charts = pack(&preview).await?;
    let place = Place::new(&settings, &run.id);
    // The kubeconfig and its contexts exist on this machine only.
    if let Some(own) = &mut run.plan.kubernetes {
        (own.kubeconfig, own.context) = (None, None);
    }
    let objects = before_job(&place, &run, &roles, volume, &charts);
    let objects = objects.map_err(|found| EnvironmentError::start("the detached run", found))?;
    let excess = objects.iter().map(|(_, o)| o.to_string().len()).max();
    if let Some(bytes) = excess.filter(|bytes| *bytes > CONFIG_MAP_BYTES_MAX) {
        let what = format!(
            "the plan or a chart has {bytes} bytes as a ConfigMap, expected at most {CONFIG_MAP_BYTES_MAX}"
        );
        return Err(EnvironmentError::missing(
            what,
            "run this plan without --detach",
        ));
    }
    for line in announcement(&place, volume, &objects) {
        say(&line);
    }
    let created = async {
        for (kind, object) in objects {
            api.apply(kind, &object).await?;
        }
        let to = [place.namespace.clone()];
        pull_secrets::copy(api, &settings, &place.labels(), &to).await?;
        let helm = preview.installed().next().is_some();
        let job = job(&place, &settings, charts.len(), helm);
        Ok(api.apply(JOB, &job).await?)
    };
    let created: Result<(), EnvironmentError> = created.await;
    if created.is_err() {
        // The API server may have created the Job although its response was lost, so all of it is removed. Without the
        // right to delete Jobs, none was created, and removing the other objects is enough.
        let cleaned = match clean(&settings, Some(&place.id), &mut |_| {}).await {
            Err(_) => remove(api, &place).await.map_err(EnvironmentError::from),
            cleaned => cleaned,
        };
        match cleaned {
            Ok(events) => events.iter().for_each(|event| say(&event.to_string())),
            Err(error) => say(&format!(
                "not removed: {error}; run `tare clean --run {}`",
                place.id
            )),
        }
    }
    created
}

/// Returns what the plan needs from this machine, which the orchestrator's pod does not have.
fn stays_here(plan: &Plan) -> Option<String> {
    if plan.workload.graph.application.is_some() {
        let found = "the application of this plan is rendered from files of this machine, which a detached run does not have";
        return Some(found.to_owned());
    }
    let settings = plan.kubernetes.as_ref()?;
    let found = "the plan has `hooks`: commands for this machine, which a detached run cannot call";
    (settings.hooks != Hooks::default()).then(|| found.to_owned())
}

/// Packs the charts of all meshes, each once.
async fn pack(preview: &Preview<'_>) -> Result<Vec<PackedChart>, EnvironmentError> {
    let mut charts: Vec<PackedChart> = Vec::new();
    for release in preview.installed().flat_map(|m| &m.releases) {
        let file = Helm::archive(release);
        if charts.iter().all(|c| c.file != file) {
            let archive = preview.helm.pack(release).await?;
            charts.push(PackedChart { file, archive });
        }
    }
    Ok(charts)
}

/// Describes what will be created, with one line for each rule of the roles.
fn announcement(place: &Place, volume: &Volume, objects: &[(Kind, Value)]) -> Vec<String> {
    let volume = match (&volume.name, &volume.storage_class) {
        (Some(name), _) => format!("the persistent volume {name}"),
        (None, Some(class)) => format!("{} of the storage class {class}", volume.size),
        (None, None) => format!("{} of the default storage class", volume.size),
    };
    let (id, namespace) = (&place.id, &place.namespace);
    let mut lines = vec![
        format!("creating run {id} in namespace {namespace}"),
        format!("volume: {volume}"),
        format!(
            "service account: {namespace}/{NAME}, bound to a role of its own with these rights:"
        ),
    ];
    let rules = objects.iter().filter_map(|(_, o)| o["rules"].as_array());
    lines.extend(rules.flatten().map(rule_line));
    lines
}

/// Formats a rule of a role, such as `jobs (batch): create, patch`.
fn rule_line(rule: &Value) -> String {
    let list = |key: &str| {
        let words = rule[key].as_array().into_iter().flatten();
        let words = words.filter_map(Value::as_str).filter(|w| !w.is_empty());
        words.collect::<Vec<_>>().join(", ")
    };
    let named = |text: String| match text.is_empty() {
        true => String::new(),
        false => format!(" ({text})"),
    };
    format!(
        "  {}{}{}{}: {}",
        list("resources"),
        list("nonResourceURLs"),
        named(list("resourceNames")),
        named(list("apiGroups")),
        list("verbs")
    )
}
