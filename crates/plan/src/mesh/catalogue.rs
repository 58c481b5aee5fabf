//! All meshes that a plan can name.

use std::sync::LazyLock;

use super::decode;
use super::definition::Mesh;
use crate::builtin_files::MESHES;
use crate::source::Problems;

/// The meshes that come with tare. A test shows that their files have no problems.
static BUILTIN: LazyLock<Vec<Mesh>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        let mut problems = Problems::default();
        let node = problems.read_file(name, text)?;
        decode::meshes(&mut problems, &node)
    };
    MESHES.iter().filter_map(read).flatten().collect()
});

/// Meshes and their variants, which are named `mesh/variant`: those that come with tare, and those of files.
#[derive(Default)]
pub(crate) struct Catalogue {
    added: Vec<Mesh>,
}

impl Catalogue {
    /// Adds the mesh of a file with its variants.
    pub(crate) fn add(&mut self, problems: &mut Problems, file: &str, text: &str) {
        let Some(node) = problems.read_file(file, text) else {
            return;
        };
        let Some(meshes) = decode::meshes(problems, &node) else {
            return;
        };
        if let Some(name) = meshes.first().map(|m| &m.name)
            && self.get(name).is_some()
        {
            problems
                .add(
                    node.find("name").location,
                    format!("duplicate mesh name `{name}`"),
                )
                .expected("a name that no other mesh has");
            return;
        }
        self.added.extend(meshes);
    }

    fn all(&self) -> impl Iterator<Item = &Mesh> + Clone {
        BUILTIN.iter().chain(&self.added)
    }

    /// Every name that a plan can use.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.all().map(|m| m.name.as_str())
    }

    /// The mesh or variant of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Mesh> {
        self.all().find(|m| m.name == name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_files::stem;
    use crate::mesh::{DataPlaneKind, MeshKubernetes, Mtls};

    #[test]
    fn every_mesh_file_is_valid_and_holds_the_mesh_of_its_name() {
        for (file, text) in MESHES {
            let mut problems = Problems::default();
            let node = problems.read_file(file, text).unwrap();
            let meshes = decode::meshes(&mut problems, &node);
            assert_eq!(problems.list(), []);
            assert_eq!(meshes.unwrap()[0].name, stem(file));
        }
    }

    #[test]
    fn a_variant_changes_only_what_it_lists() {
        let catalogue = Catalogue::default();
        let plain = catalogue.get("envoy").unwrap();
        let mtls = catalogue.get("envoy/mtls").unwrap();
        assert_eq!(plain.data_plane, DataPlaneKind::EnvoySidecar);
        assert_eq!(plain.settings.mtls, Mtls::Off);
        assert_eq!(mtls.settings.mtls, Mtls::Strict);
        let mut back = mtls.settings;
        back.mtls = Mtls::Off;
        assert_eq!(back, plain.settings);
        assert_eq!(
            catalogue.names().take(3).collect::<Vec<_>>(),
            ["bare", "envoy", "envoy/client"]
        );
        assert!(catalogue.get("envoy/no").is_none());
    }

    #[test]
    fn every_shipped_mesh_of_a_cluster_is_complete_and_pinned() {
        let catalogue = Catalogue::default();
        let mut seen = 0;
        for name in catalogue.names() {
            let mesh = catalogue.get(name).unwrap();
            if !mesh.data_plane.is_on_kubernetes() {
                continue;
            }
            let k = mesh
                .kubernetes
                .unwrap_or_else(|| panic!("{name} has no section `kubernetes`"));
            k.check().unwrap();
            assert!(!k.tried.is_empty(), "{name} has an empty `tried`");
            if mesh.data_plane == DataPlaneKind::Installed {
                assert!(k.releases.is_empty());
                continue;
            }
            seen += 1;
            for release in &k.releases {
                assert!(
                    release.version.is_some() && release.repo.is_some(),
                    "{name}: {}",
                    release.name
                );
            }
            assert!(
                !k.parts.ready.is_empty() && !k.parts.control_plane.is_empty(),
                "{name}"
            );
            assert!(
                !k.gone.crd_groups.is_empty() && !k.gone.name_prefixes.is_empty(),
                "{name}"
            );
            let proof = k.proof.unwrap_or_else(|| panic!("{name} has no proof"));
            assert!(!proof.counters.is_empty() && proof.port > 0, "{name}");
            let sidecars = mesh.data_plane == DataPlaneKind::Sidecar;
            assert_eq!(k.parts.sidecar.is_some(), sidecars, "{name}");
            assert_eq!(k.parts.node_proxies.is_empty(), sidecars, "{name}");
            assert_eq!(proof.of_node_proxies, !sidecars, "{name}");
            // Kuma serves the administration of its Envoys on a Unix socket.
            let on_loopback = sidecars && !name.starts_with("kuma");
            assert_eq!(!k.proxy_config.is_empty(), on_loopback, "{name}");
        }
        assert!(seen >= 11, "{seen} meshes");
    }

    #[test]
    fn kuma_with_mutual_tls_allows_requests_and_has_the_same_metrics() {
        let catalogue = Catalogue::default();
        let [plain, mtls] = ["kuma", "kuma/mtls"].map(|name| catalogue.get(name).unwrap());
        let modes = [&plain, &mtls].map(|m| m.settings.mtls);
        assert_eq!(modes, [Mtls::Off, Mtls::Strict]);
        let [plain, mtls] = [plain, mtls].map(|m| m.kubernetes.unwrap());
        let backend = &mtls.manifests[0]["spec"]["mtls"]["enabledBackend"];
        assert_eq!(backend, "ca");
        assert!(plain.manifests[0]["spec"]["mtls"].is_null());
        assert_eq!(plain.manifests[1], mtls.manifests[1], "the MeshMetric");
        assert_eq!(mtls.manifests[2]["kind"], "MeshTrafficPermission");
        assert!(plain.join.service_account_token && mtls.join.service_account_token);
    }

    #[test]
    fn variants_of_istio_change_the_settings_in_their_names() {
        let catalogue = Catalogue::default();
        let of = |name: &str| catalogue.get(name).unwrap();
        let values = |name: &str| of(name).kubernetes.unwrap().values.clone();
        assert!(values("istio/stock").is_empty());
        let tuned = values("istio/tuned");
        assert!(tuned["istiod"]["global"]["proxy"]["resources"]["limits"].is_null());
        assert_eq!(tuned["istiod"]["meshConfig"]["enableTracing"], false);
        assert_eq!(
            values("istio/no-telemetry")["istiod"]["telemetry"]["enabled"],
            false
        );
        let mtls = |mesh: &MeshKubernetes| mesh.join.manifests[0]["spec"]["mtls"]["mode"].clone();
        let minimal = of("istio/minimal").kubernetes.unwrap();
        assert_eq!(mtls(&minimal), "STRICT");
        assert_eq!(of("istio/minimal").settings.mtls, Mtls::Strict);
        assert_eq!(of("istio/no-mtls").settings.mtls, Mtls::Off);
        let mut without = of("istio/no-mtls").kubernetes.unwrap();
        assert_eq!(mtls(&without), "DISABLE");
        assert!(without.is_installed_as(&minimal));
        without.join.manifests[0]["spec"]["mtls"]["mode"] = "STRICT".into();
        without.tried.clone_from(&minimal.tried);
        assert_eq!(*without, *minimal, "they must differ in mutual TLS only");
        let ambient = of("istio/ambient");
        assert_eq!(ambient.data_plane, DataPlaneKind::NodeProxy);
        let join = ambient.kubernetes.unwrap().join;
        assert!(
            !join.namespace_labels.contains_key("istio-injection"),
            "ambient pods must not get a sidecar"
        );
    }

    #[test]
    fn meshes_collide_if_their_installations_change_the_same_objects() {
        let catalogue = Catalogue::default();
        let of = |name: &str| catalogue.get(name).unwrap().kubernetes.unwrap();
        let collision = |a: &str, b: &str| of(a).collision(&of(b));
        assert_eq!(collision("istio/minimal", "istio/no-mtls"), None);
        assert_eq!(collision("istio/minimal", "linkerd"), None);
        assert_eq!(collision("istio", "installed"), None);
        let namespace = Some("the namespace istio-system".to_owned());
        assert_eq!(collision("istio/minimal", "istio/tuned"), namespace);
        let mut elsewhere = of("istio");
        elsewhere.namespaces.clear();
        for release in &mut elsewhere.releases {
            release.namespace = "mine".to_owned();
        }
        let kinds = Some("kinds of istio.io".to_owned());
        assert_eq!(elsewhere.collision(&of("istio")), kinds);
    }

    #[test]
    fn every_mistake_in_a_mesh_file_is_reported() {
        let mut problems = Problems::default();
        let mut catalogue = Catalogue::default();
        let text = "name: envoy\ndata_plane: envoy-sidecars\nsettings: {mtls: on}\nvariants:\n  a b: {}\n  c: {settings: {concurency: 2}}\n";
        catalogue.add(&mut problems, "mine.yaml", text);
        let problems = problems.check(None::<()>).unwrap_err();
        let found: Vec<&str> = problems.list().iter().map(|p| p.found.as_str()).collect();
        assert_eq!(
            found,
            [
                "found `envoy-sidecars`",
                "found `on`",
                "found `a b`",
                "unknown key `concurency` in the settings of a mesh",
            ]
        );
        let mut problems = Problems::default();
        catalogue.add(
            &mut problems,
            "mine.yaml",
            "name: envoy\ndata_plane: none\n",
        );
        assert_eq!(problems.list()[0].found, "duplicate mesh name `envoy`");
    }
}
