//! All meshes that a plan can name.

use super::decode;
use super::definition::{Mesh, MeshDefinition};
use crate::builtin_files::MESHES;
use crate::source::{Decoder, Problems};

/// The definitions of the meshes that come with tare.
///
/// # Errors
/// Never, as long as the files under `meshes/` are good: a test holds them to it.
pub fn builtins() -> Result<Vec<MeshDefinition>, Problems> {
    let mut decoder = Decoder::default();
    let catalogue = Catalogue::builtin(&mut decoder);
    if decoder.count() > 0 {
        return Err(decoder.into_problems());
    }
    Ok(catalogue.definitions)
}

/// Meshes by name.
pub(crate) struct Catalogue {
    definitions: Vec<MeshDefinition>,
}

impl Catalogue {
    /// The meshes that come with tare.
    pub(crate) fn builtin(decoder: &mut Decoder) -> Self {
        let mut catalogue = Self {
            definitions: Vec::new(),
        };
        for (name, text) in MESHES {
            catalogue.add(decoder, name, text);
        }
        catalogue
    }

    /// Adds the mesh of a file; problems go to `decoder`.
    pub(crate) fn add(&mut self, decoder: &mut Decoder, file: &str, text: &str) {
        let Some(node) = decoder.read_file(file, text) else {
            return;
        };
        let Some(definition) = decode::definition(decoder, &node) else {
            return;
        };
        if self.definitions.iter().any(|m| m.name == definition.name) {
            let place = node.entry("name").map_or(node.place, |e| e.node.place);
            decoder
                .problem(place, format!("a second mesh `{}`", definition.name))
                .expected("a name that no other mesh has");
            return;
        }
        self.definitions.push(definition);
    }

    /// Every name that a plan can use: meshes, and variants as `mesh/variant`.
    pub(crate) fn names(&self) -> Vec<String> {
        let of = |m: &MeshDefinition| {
            let variants = m.variants.keys().map(|v| format!("{}/{v}", m.name));
            std::iter::once(m.name.clone())
                .chain(variants)
                .collect::<Vec<_>>()
        };
        self.definitions.iter().flat_map(of).collect()
    }

    /// The mesh or variant of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Mesh> {
        let (mesh, variant) = match name.split_once('/') {
            Some((mesh, variant)) => (mesh, Some(variant)),
            None => (name, None),
        };
        let definition = self.definitions.iter().find(|m| m.name == mesh)?;
        let (title, data_plane, settings, kubernetes) = match variant {
            None => (
                &definition.title,
                definition.data_plane,
                &definition.settings,
                &definition.kubernetes,
            ),
            Some(variant) => {
                let variant = definition.variants.get(variant)?;
                let data_plane = variant.data_plane.unwrap_or(definition.data_plane);
                (
                    &variant.title,
                    data_plane,
                    &variant.settings,
                    &variant.kubernetes,
                )
            }
        };
        Some(Mesh {
            name: name.to_owned(),
            title: title.clone(),
            data_plane,
            settings: settings.clone(),
            kubernetes: kubernetes.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_files::stem;
    use crate::mesh::{DataPlaneKind, Mtls};

    #[test]
    fn every_mesh_file_is_valid_and_holds_the_mesh_of_its_name() {
        for ((file, _), mesh) in MESHES.iter().zip(builtins().unwrap()) {
            assert_eq!(stem(file), mesh.name);
        }
    }

    #[test]
    fn a_variant_changes_only_what_it_lists() {
        let catalogue = Catalogue::builtin(&mut Decoder::default());
        let plain = catalogue.get("envoy").unwrap();
        let mtls = catalogue.get("envoy/mtls").unwrap();
        assert_eq!(plain.data_plane, DataPlaneKind::EnvoySidecar);
        assert_eq!(plain.settings.mtls, Mtls::Off);
        assert_eq!(mtls.settings.mtls, Mtls::Strict);
        let mut back = mtls.settings;
        back.mtls = Mtls::Off;
        assert_eq!(back, plain.settings);
        assert_eq!(catalogue.names()[..3], ["bare", "envoy", "envoy/mtls"]);
        assert!(catalogue.get("envoy/no").is_none());
    }

    #[test]
    fn every_shipped_mesh_of_a_cluster_is_complete_and_pinned() {
        let catalogue = Catalogue::builtin(&mut Decoder::default());
        let mut seen = 0;
        for name in catalogue.names() {
            let mesh = catalogue.get(&name).unwrap();
            if !mesh.data_plane.is_on_kubernetes() {
                continue;
            }
            let k = mesh
                .kubernetes
                .unwrap_or_else(|| panic!("{name} has no section"));
            k.check().unwrap();
            assert!(
                !k.tried.is_empty(),
                "{name} does not say how far it was tried"
            );
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
            assert_eq!(!k.proxy_config.is_empty(), sidecars, "{name}");
        }
        assert!(seen >= 9, "{seen} meshes");
    }

    #[test]
    fn variants_of_istio_differ_in_what_their_names_say() {
        let catalogue = Catalogue::builtin(&mut Decoder::default());
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
        let mode =
            |name: &str| of(name).kubernetes.unwrap().manifests[0]["spec"]["mtls"]["mode"].clone();
        assert_eq!(mode("istio/minimal"), "STRICT");
        assert_eq!(mode("istio/no-mtls"), "DISABLE");
        assert_eq!(of("istio/minimal").settings.mtls, Mtls::Strict);
        assert_eq!(of("istio/no-mtls").settings.mtls, Mtls::Off);
        let mut without = of("istio/no-mtls").kubernetes.unwrap();
        let mesh_config = &mut without.values.get_mut("istiod").unwrap()["meshConfig"];
        let auto = mesh_config
            .as_object_mut()
            .unwrap()
            .remove("enableAutoMtls");
        assert_eq!(auto, Some(false.into()));
        without.manifests[0]["spec"]["mtls"]["mode"] = "STRICT".into();
        let minimal = of("istio/minimal").kubernetes.unwrap();
        assert_eq!(
            *without, *minimal,
            "they differ in mutual TLS and nothing else"
        );
        let ambient = of("istio/ambient");
        assert_eq!(ambient.data_plane, DataPlaneKind::NodeProxy);
        let join = ambient.kubernetes.unwrap().join;
        assert!(
            !join.namespace_labels.contains_key("istio-injection"),
            "no sidecar beside ztunnel"
        );
    }

    #[test]
    fn every_mistake_in_a_mesh_file_is_reported() {
        let mut decoder = Decoder::default();
        let mut catalogue = Catalogue::builtin(&mut decoder);
        let text = "name: envoy\ndata_plane: envoy-sidecars\nsettings: {mtls: on}\nvariants:\n  a b: {}\n  c: {settings: {concurency: 2}}\n";
        catalogue.add(&mut decoder, "mine.yaml", text);
        let problems = decoder.into_problems();
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
        let mut decoder = Decoder::default();
        catalogue.add(&mut decoder, "mine.yaml", "name: envoy\ndata_plane: none\n");
        assert_eq!(
            decoder.into_problems().list()[0].found,
            "a second mesh `envoy`"
        );
    }
}
