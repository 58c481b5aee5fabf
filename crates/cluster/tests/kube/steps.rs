//! A search: generators and agents run several times in one trial.

use tare_run::environment::{Environment, Phase, WorkerSpec};

use crate::server::Server;
use crate::{INJECTED, agent_spec, deploy, folder, lines_of, load, plan, prepared};

#[tokio::test]
async fn each_step_has_generators_and_agents_of_its_own() {
    let server = Server::start(2).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let mut agents = Vec::new();
    for step in 0..3 {
        let generator = WorkerSpec::Generator(Box::new(load()));
        let generator = cluster.start(&mut deployment, generator, dir.path()).await;
        assert!(
            lines_of(generator.unwrap())
                .await
                .last()
                .unwrap()
                .contains("final")
        );
        let agent = WorkerSpec::Agent(agent_spec(&deployment, 0, 1000));
        let agent = cluster.start(&mut deployment, agent, dir.path()).await;
        assert!(
            lines_of(agent.unwrap())
                .await
                .last()
                .unwrap()
                .contains("final")
        );
        // What belongs to earlier steps is deleted.
        let jobs = server.paths("/jobs/");
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        let running = server.paths("-agents/pods/");
        assert!(
            running.iter().all(|p| !agents.contains(p)),
            "step {step}: {running:?}"
        );
        agents.extend(running);
    }
    assert_eq!(agents.len(), 3, "one for each step: {agents:?}");
    // Only the first step asks the generator's sidecar for its configuration.
    let asked = |path: &&String| {
        server.world.lock().unwrap().objects[path.as_str()]
            .to_string()
            .contains("server_info")
    };
    let maps = server.paths("-load/configmaps/");
    assert_eq!(
        (maps.len(), maps.iter().filter(asked).count()),
        (3, 1),
        "{maps:?}"
    );
    cluster.teardown(deployment).await;
    cluster.close().await;
}
