//! Services with several replicas.

use std::collections::BTreeSet;

use tare_run::environment::{Deployed, Environment, Phase};

use crate::server::Server;
use crate::{INJECTED, deploy, folder, plan, prepared};

#[tokio::test]
async fn every_replica_is_awaited_proven_and_sampled() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 2, INJECTED);
    for service in &mut plan.workload.graph.services[1..] {
        service.replicas = 3;
    }
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    assert_eq!(server.paths("/deployments/").len(), 6);
    assert_eq!(deployment.targets().len(), 2, "one address for each front");
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    assert_eq!(proofs[0].seen, "istio-proxy is ready in 14 of 14 pods");
    let watched = deployment.watched();
    let names: BTreeSet<&str> = watched.iter().map(|w| w.name.as_str()).collect();
    assert_eq!((watched.len(), names.len()), (28, 28), "{names:?}");
    let of = |service: &str| names.iter().filter(|n| n.starts_with(service)).count();
    assert_eq!((of("emojivoto-1/emoji."), of("emojivoto-1/web")), (6, 2));
}
