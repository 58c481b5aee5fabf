//! Profile trials on a real cluster.

use std::path::Path;

use tare_analysis::formats::pprof;
use tare_model::worker::Plane;

use crate::judged::judged;
use crate::{cluster, command};

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn the_code_of_proxies_and_control_plane_is_profiled() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-profile");
    let before = cluster();
    let sets = [
        "meshes=istio/minimal",
        "baseline=istio/minimal",
        "repeats=1",
        "reruns=0",
        "load.rate=60",
        "load.duration=4s",
        "load.warmup=1s",
    ];
    let mut run = command("cluster-quick", &dir, &sets);
    run.arg("--profile").status().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let profiles = judged(&dir).profiles.expect("a run with profiles");
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
