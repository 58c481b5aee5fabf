//! From a mesh's file to its definition.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::definition::{DataPlaneKind, MeshDefinition, MeshSettings, Mtls, Variant};
use super::kubernetes::MeshKubernetes;
use crate::source::{Decoder, Node, Part, Shape, Value};

/// Keys of `settings`.
pub(crate) static SETTINGS: Shape = Shape::Map {
    keys: &[
        ("concurrency", &Shape::Scalar),
        ("mtls", &Shape::Scalar),
        ("l7_stats", &Shape::Scalar),
        ("access_log", &Shape::Scalar),
    ],
    shorthand: None,
};

static VARIANT: Shape = Shape::Map {
    keys: &[
        ("title", &Shape::Scalar),
        ("data_plane", &Shape::Scalar),
        ("settings", &SETTINGS),
        ("kubernetes", &Shape::Any),
    ],
    shorthand: None,
};

static MESH_FILE: Shape = Shape::Map {
    keys: &[
        ("name", &Shape::Scalar),
        ("title", &Shape::Scalar),
        ("data_plane", &Shape::Scalar),
        ("settings", &SETTINGS),
        ("kubernetes", &Shape::Any),
        ("variants", &Shape::Any),
    ],
    shorthand: None,
};

/// Most worker threads of one proxy.
const CONCURRENCY_MAX: u32 = 256;

/// Settings as they were written: only those that change.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema)]
#[schemars(rename = "Settings", deny_unknown_fields, default)]
pub(crate) struct SettingsFile {
    /// Worker threads of each proxy, 1 to 256.
    #[schemars(range(min = 1, max = CONCURRENCY_MAX))]
    concurrency: Part<u32>,
    /// Mutual TLS between proxies.
    mtls: Part<Mtls>,
    /// The proxies' HTTP statistics per cluster and listener.
    l7_stats: Part<bool>,
    /// Access log of every request, to the trial's log folder.
    access_log: Part<bool>,
}

impl SettingsFile {
    pub(crate) fn decode(d: &mut Decoder, node: &Node) -> Option<Self> {
        let fields = d.fields(node, &SETTINGS, "the settings of a mesh")?;
        Some(Self {
            concurrency: d.part(&fields, "concurrency", |d, n| {
                d.count_of(n, 1, CONCURRENCY_MAX)
            }),
            mtls: d.part(&fields, "mtls", |d, n| {
                let words = [
                    ("off", Mtls::Off),
                    ("permissive", Mtls::Permissive),
                    ("strict", Mtls::Strict),
                ];
                d.choice(n, &words)
            }),
            l7_stats: d.part(&fields, "l7_stats", Decoder::boolean),
            access_log: d.part(&fields, "access_log", Decoder::boolean),
        })
    }

    /// These settings over `base`; `None` when one of them is broken.
    pub(crate) fn over(self, base: &MeshSettings) -> Option<MeshSettings> {
        Some(MeshSettings {
            concurrency: self.concurrency.or(base.concurrency)?,
            mtls: self.mtls.or(base.mtls)?,
            l7_stats: self.l7_stats.or(base.l7_stats)?,
            access_log: self.access_log.or(base.access_log)?,
        })
    }
}

/// Decodes a mesh file. `None` after a problem.
pub(super) fn definition(d: &mut Decoder, node: &Node) -> Option<MeshDefinition> {
    let fields = d.fields(node, &MESH_FILE, "a mesh file")?;
    for key in ["name", "data_plane"] {
        if fields.get(key).is_none() {
            d.problem(node.place, format!("the mesh file has no `{key}`"))
                .expected(format!("`{key}: ...`"));
        }
    }
    let name = fields.get("name").and_then(|n| d.name(n, ""));
    let title = d.part(&fields, "title", Decoder::text);
    let data_plane = fields.get("data_plane").and_then(|n| data_plane_kind(d, n));
    let settings = d
        .part(&fields, "settings", SettingsFile::decode)
        .or_else(SettingsFile::default)
        .and_then(|s| s.over(&MeshSettings::default()));
    let base = settings.clone().unwrap_or_default();
    let kubernetes = match fields.get("kubernetes") {
        None => Some(None),
        Some(node) => kubernetes(d, node, &MeshKubernetes::default()).map(Some),
    };
    let base_kubernetes = kubernetes.clone().flatten();
    let variants = match fields.get("variants") {
        None => Some(BTreeMap::new()),
        Some(node) => variants(d, node, (&base, base_kubernetes.as_deref())),
    };
    let name = name?;
    Some(MeshDefinition {
        title: title.or_else(|| name.clone())?,
        name,
        data_plane: data_plane?,
        settings: settings?,
        kubernetes: kubernetes?,
        variants: variants?,
    })
}

fn variants(d: &mut Decoder, node: &Node, base: Base<'_>) -> Option<BTreeMap<String, Variant>> {
    let Value::Map(entries) = &node.value else {
        d.problem(node.place, format!("found {}", node.describe()))
            .expected("names of variants, each with a `title` and `settings`");
        return None;
    };
    let mut all = Some(BTreeMap::new());
    for entry in entries {
        let name_node = Node {
            place: entry.key_place,
            value: Value::Scalar {
                text: entry.key.clone(),
                plain: true,
            },
        };
        let decoded = d
            .name(&name_node, "")
            .and_then(|name| Some((name, variant(d, &entry.node, base, &entry.key)?)));
        match (&mut all, decoded) {
            (Some(map), Some((name, variant))) => {
                map.insert(name, variant);
            }
            _ => all = None,
        }
    }
    all
}

fn variant(d: &mut Decoder, node: &Node, base: Base<'_>, name: &str) -> Option<Variant> {
    let fields = d.fields(node, &VARIANT, "a variant")?;
    let title = d.part(&fields, "title", Decoder::text);
    let settings = d
        .part(&fields, "settings", SettingsFile::decode)
        .or_else(SettingsFile::default)
        .and_then(|s| s.over(base.0));
    let kubernetes = match (fields.get("kubernetes"), base.1) {
        (None, base) => base.cloned().map(Box::new),
        (Some(node), base) => Some(kubernetes(
            d,
            node,
            base.unwrap_or(&MeshKubernetes::default()),
        )?),
    };
    let data_plane = match fields.get("data_plane") {
        None => None,
        Some(node) => Some(data_plane_kind(d, node)?),
    };
    Some(Variant {
        data_plane,
        title: title.or_else(|| name.to_owned())?,
        settings: settings?,
        kubernetes,
    })
}

fn data_plane_kind(d: &mut Decoder, node: &Node) -> Option<DataPlaneKind> {
    let kinds = [
        ("none", DataPlaneKind::None),
        ("envoy-sidecar", DataPlaneKind::EnvoySidecar),
        ("sidecar", DataPlaneKind::Sidecar),
        ("node-proxy", DataPlaneKind::NodeProxy),
        ("installed", DataPlaneKind::Installed),
    ];
    d.choice(node, &kinds)
}

/// What a variant changes: settings, and what the mesh is on Kubernetes.
type Base<'a> = (&'a MeshSettings, Option<&'a MeshKubernetes>);

/// The section `kubernetes` of a mesh, a variant or a plan's entry over `base`.
pub(crate) fn kubernetes(
    d: &mut Decoder,
    node: &Node,
    base: &MeshKubernetes,
) -> Option<Box<MeshKubernetes>> {
    match base.overlaid(&node.to_json()) {
        Ok(merged) => Some(Box::new(merged)),
        Err(found) => {
            d.problem(node.place, format!("in `kubernetes`: {found}"))
                .expected("what docs/meshes.md describes");
            None
        }
    }
}
