//! Decodes a mesh file into the mesh itself and its variants.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use super::definition::{DataPlaneKind, External, Mesh, MeshSettings, Mtls, Placement};
use super::envoy::EnvoyProgram;
use super::feature::Feature;
use super::names::MeshNames;
use super::proxy::ProxyProgram;
use crate::source::{Count, Field, Location, Name, Node, Problems, Value};

/// Most worker threads of one proxy.
pub(crate) const CONCURRENCY_MAX: u32 = 256;

/// Settings as written in a file: only those that change.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Settings",
    deny_unknown_fields,
    default,
    expecting = "the settings of a mesh"
)]
pub(crate) struct SettingsFile {
    /// Worker threads of each proxy, 1 to 256.
    concurrency: Field<Count<1, CONCURRENCY_MAX>>,
    /// Mutual TLS between proxies.
    mtls: Field<Mtls>,
    /// The proxies' HTTP statistics per cluster and listener.
    l7_stats: Field<bool>,
    /// Access log of every request, to the trial's log folder.
    access_log: Field<bool>,
    /// Which sides of a call have a proxy in the path; mutual TLS needs both.
    placement: Field<Placement>,
    /// How services call those outside the mesh (`external: true` in the graph).
    external: Field<External>,
    /// The Envoy: a version that tare installs, such as `1.39.3`, or the path of a program.
    #[schemars(with = "String")]
    envoy: Field<EnvoyProgram>,
}

impl SettingsFile {
    /// Applies these settings over `base`. `None` if one of them is invalid.
    pub(crate) fn over(self, base: &MeshSettings) -> Option<MeshSettings> {
        Some(MeshSettings {
            concurrency: self.concurrency.or(Count(base.concurrency))?.0,
            mtls: self.mtls.or(base.mtls)?,
            l7_stats: self.l7_stats.or(base.l7_stats)?,
            access_log: self.access_log.or(base.access_log)?,
            placement: self.placement.or(base.placement)?,
            external: self.external.or(base.external)?,
            envoy: self.envoy.optional()?.or_else(|| base.envoy.clone()),
            version: base.version.clone(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mesh file")]
struct MeshFile {
    name: Field<Name>,
    data_plane: Field<DataPlaneKind>,
    #[serde(default)]
    title: Field<String>,
    #[serde(default)]
    settings: Field<SettingsFile>,
    #[serde(default, alias = "exec")]
    proxy: Field<Box<ProxyProgram>>,
    #[serde(default)]
    kubernetes: Field<Json>,
    /// Read by [`super::known_names`].
    #[serde(default, rename = "names")]
    _names: Field<MeshNames>,
    /// Decoded one by one by [`variants`].
    #[serde(default)]
    variants: Field<serde::de::IgnoredAny>,
}

/// What a variant changes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a variant")]
struct VariantFile {
    title: Field<String>,
    data_plane: Field<DataPlaneKind>,
    settings: Field<SettingsFile>,
    #[serde(alias = "exec")]
    proxy: Field<Box<ProxyProgram>>,
    kubernetes: Field<Json>,
    feature: Field<Json>,
}

/// Decodes a mesh file: the mesh, then its variants. `None` after a problem.
pub(super) fn meshes(problems: &mut Problems, node: &Node) -> Option<Vec<Mesh>> {
    let before = problems.list().len();
    let file: MeshFile = problems.decode(node)?;
    let variants = file.variants.location().map(|_| node.find("variants"));
    let name = file.name.or_else(|| Name(String::new()));
    let changes = VariantFile {
        title: file.title,
        data_plane: file.data_plane,
        settings: file.settings,
        proxy: file.proxy,
        kubernetes: file.kubernetes,
        feature: Field::Absent,
    };
    let plain = Mesh {
        name: String::new(),
        title: String::new(),
        data_plane: DataPlaneKind::None,
        settings: MeshSettings::default(),
        proxy: None,
        kubernetes: None,
        feature: None,
    };
    let mesh = changes.over(
        problems,
        &plain,
        name.map_or_else(String::new, |name| name.0),
    );
    let base = mesh.as_ref().unwrap_or(&plain);
    let mut all: Vec<Mesh> = mesh.iter().cloned().collect();
    if let Some(node) = variants {
        all.extend(self::variants(problems, node, base));
    }
    (problems.list().len() == before).then_some(all)
}

fn variants(problems: &mut Problems, node: &Node, base: &Mesh) -> Vec<Mesh> {
    let Value::Map(entries) = &node.value else {
        problems
            .add(node.location, format!("found {}", node.describe()))
            .expected("names of variants, each with a `title` and `settings`");
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        if let Err(message) = Name::<false>::new(&entry.key) {
            problems.add_message(entry.key_location, &message);
        }
        let file: Option<VariantFile> = problems.decode(&entry.node);
        all.extend(file.and_then(|file| file.over(problems, base, entry.key.clone())));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl VariantFile {
    /// Applies these changes over `base`. The result is the mesh `name` or, if `base` has a name,
    /// the variant `name` of that mesh.
    fn over(self, problems: &mut Problems, base: &Mesh, name: String) -> Option<Mesh> {
        let mut mesh = Mesh {
            title: self.title.or_else(|| name.clone())?,
            data_plane: self.data_plane.or(base.data_plane)?,
            name: match base.name.as_str() {
                "" => name,
                mesh => format!("{mesh}/{name}"),
            },
            ..base.clone()
        };
        if let Some(settings) = self.settings.optional()? {
            mesh.settings = settings.over(&base.settings)?;
        }
        if let Field::Given(proxy) = self.proxy {
            if let Err(problem) = proxy.value.check(&mesh.settings) {
                problems.add_at(proxy.location, problem.within("in `proxy`"));
                return None;
            }
            mesh.proxy = Some(proxy.value);
        }
        if let Field::Given(kubernetes) = self.kubernetes {
            mesh.overlay(problems, &kubernetes.value, kubernetes.location)?;
        }
        if let Field::Given(feature) = self.feature {
            match Feature::decode(&feature.value, mesh.settings != base.settings) {
                Ok(feature) => mesh.feature = Some(Box::new(feature)),
                Err(found) => {
                    let message = format!("in `feature`: {found}");
                    let problem = problems.add_message(feature.location, &message);
                    problem.help("docs/features.md describes the section `feature`");
                    return None;
                }
            }
        }
        Some(mesh)
    }
}

impl Mesh {
    /// Merges `overlay` over the section `kubernetes`. `None` after a problem.
    pub(crate) fn overlay(
        &mut self,
        problems: &mut Problems,
        overlay: &Json,
        location: Location,
    ) -> Option<()> {
        match self
            .kubernetes
            .clone()
            .unwrap_or_default()
            .overlaid(overlay)
        {
            Ok(merged) => self.kubernetes = Some(Box::new(merged)),
            Err(problem) => {
                let problem = problems.add_at(location, problem.within("in `kubernetes`"));
                problem.help("docs/meshes.md describes the section `kubernetes`");
                return None;
            }
        }
        Some(())
    }
}
