//! Profile trials. A role that somebody else creates while the mesh is installed survives its removal.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use tare_analysis::formats::pprof;
use tare_records::worker::Plane;

use crate::judged::judged;
use crate::kubectl::kubectl;

/// Named as the roles of the mesh are.
const ROLE: &str = "istio-of-a-colleague";

/// Creates the role when the run has begun to install the mesh. Returns whether it was created before the run ended.
fn create_role(run: &mut Child) -> bool {
    let namespace = ["get", "namespace", "istio-system"];
    while run.try_wait().unwrap().is_none() {
        if kubectl(&namespace).is_some() {
            let rights = ["--verb=get", "--resource=pods"];
            return kubectl(&[&["create", "clusterrole", ROLE], &rights[..]].concat()).is_some();
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    false
}

/// Starts a run with profile trials, waits for its end, and checks that it left the role of somebody else.
pub(crate) fn run_beside_a_role_of_a_colleague(mut run: Command) -> ExitStatus {
    let _ = kubectl(&["delete", "--ignore-not-found", "clusterrole", ROLE]);
    let mut run = run.arg("--profile").spawn().unwrap();
    let created = create_role(&mut run);
    let ended = run.wait().unwrap();
    let removed = kubectl(&["delete", "clusterrole", ROLE]).is_some();
    assert!(created, "the run ended before the role was created");
    assert!(removed, "the run removed the role");
    ended
}

/// Checks that a run with one mesh, Istio, has profiles of its applications, its proxies and its control plane.
pub(crate) fn assert_profiled(dir: &Path) {
    let profiles = judged(dir).profiles.expect("a run with profiles");
    let [mesh] = profiles.meshes.as_slice() else {
        panic!("{profiles:#?}");
    };
    let planes: Vec<Plane> = mesh.planes.iter().map(|p| p.plane).collect();
    for plane in [Plane::Application, Plane::DataPlane, Plane::GeneratorProxy] {
        assert!(planes.contains(&plane), "{profiles:#?}");
    }
    let missing = profiles
        .limits
        .iter()
        .find(|l| l.contains("no functions of"));
    assert_eq!(missing, None);
    let served: Vec<&str> = mesh
        .served
        .iter()
        .map(|p| p.rsplit('/').next().unwrap())
        .collect();
    let [cpu, heap] = served.as_slice() else {
        panic!("{served:?}");
    };
    assert!(
        cpu.starts_with("istiod-") && cpu.ends_with("-cpu.pb.gz"),
        "{cpu}"
    );
    assert!(
        heap.starts_with("istiod-") && heap.ends_with("-heap.pb.gz"),
        "{heap}"
    );
    let stacks = pprof::decode(&std::fs::read(dir.join(&mesh.served[0])).unwrap()).unwrap();
    let functions = stacks.iter().flat_map(|(stack, _)| stack);
    assert!(
        functions.clone().all(|f| f.function.is_some()),
        "{stacks:?}"
    );
}
