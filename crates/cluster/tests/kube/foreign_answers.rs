//! Answers of an API server that are valid JSON, but not of the expected shape: every command ends with a result or an
//! error, and none panics.

use std::future::{pending, ready};
use std::time::Duration;

use serde_json::json;
use tare_cluster::detached::{attach, fetch};
use tare_cluster::observe::{Options, observe};
use tare_cluster::{Preview, actions, clean, doctor, leftovers};
use tare_plan::KubernetesSettings;
use tare_plan::mesh::known_parts;
use tare_run::environment::Environment as _;
use tokio::time::timeout;

use super::server::Server;
use super::simulated::foreign::Numbers;
use super::{INJECTED, deploy, environment, folder, plan};

/// Runs every command that reads from a cluster once. What they return does not matter here.
async fn all_commands(settings: &KubernetesSettings, server: &Server) {
    let plan = plan(server, 1, INJECTED);
    let (_keep, stop) = tokio::sync::watch::channel(false);
    let options = Options {
        parts: known_parts(),
        namespaces: Vec::new(),
        duration: Duration::from_secs(16),
        requests: true,
    };
    let dir = folder();
    let out = dir.path().join("out");
    // Those that wait for a cluster would do so for minutes, because this one never gets ready.
    let within = Duration::from_millis(500);
    let until_end = Duration::from_secs(60);
    let run = async {
        let mut cluster = environment();
        if cluster.prepare(&plan, &mut |_| {}).await.is_ok() {
            let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
            if let Ok(mut deployment) = deployed {
                let phase = tare_run::environment::Phase::Before;
                let _ = cluster.prove(&mut deployment, phase).await;
            }
        }
    };
    let of_deep = stop.clone();
    let examined = async {
        if let Ok(preview) = Preview::of(settings, &plan).await {
            drop(actions::actions(&preview));
            drop(doctor::examine(&preview).await);
        }
    };
    let deep = async {
        if let Ok(preview) = Preview::of(settings, &plan).await {
            drop(doctor::examine_deep(&preview, of_deep).await);
        }
    };
    let observed = async { drop(observe(settings, &options, stop, &mut |_| {}).await) };
    let found = async { drop(leftovers(settings).await) };
    let attached =
        async { drop(attach(settings, None, ready(()), &mut |_| {}, &mut |_| {}).await) };
    let fetched = async { drop(fetch(settings, None, Some(&out), pending(), &mut |_| {}).await) };
    let cleaned = async { drop(clean(settings, None, &mut |_| {}).await) };
    let waiting = async {
        let _ = tokio::join!(
            timeout(within, run),
            timeout(within, deep),
            timeout(within, observed),
            timeout(within, attached),
            timeout(within, fetched),
        );
    };
    let ((), examined, found, cleaned) = tokio::join!(
        waiting,
        timeout(until_end, examined),
        timeout(until_end, found),
        timeout(until_end, cleaned),
    );
    for (command, ended) in [
        ("doctor and actions", examined),
        ("leftovers", found),
        ("clean", cleaned),
    ] {
        assert!(ended.is_ok(), "{command} does not end");
    }
}

fn settings(server: &Server) -> KubernetesSettings {
    *plan(server, 1, INJECTED).kubernetes.unwrap()
}

#[tokio::test]
async fn answers_of_any_shape_are_errors_and_no_panics() {
    for seed in 0..16 {
        let server = Server::start(3).await;
        server.world.lock().unwrap().foreign = Some(Numbers(seed));
        all_commands(&settings(&server), &server).await;
    }
}

#[tokio::test]
async fn a_list_that_is_no_object_is_named_and_not_asked_again() {
    for (answer, part) in [
        (json!([]), "the response is a list, expected a JSON object"),
        (json!(null), "the response is null, expected a JSON object"),
        (
            json!("text"),
            "the response is a text, expected a JSON object",
        ),
        (
            json!({"items": "text"}),
            "`items` of the response is a text, expected a list",
        ),
        (
            json!({"items": [7]}),
            "an item of the response is a number, expected an object",
        ),
    ] {
        let server = Server::start(1).await;
        let settings = settings(&server);
        server.world.lock().unwrap().answer_of_all = Some(answer);
        let error = clean(&settings, None, &mut |_| {}).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(server.world.lock().unwrap().requests, 1);
    }
    let server = Server::start(1).await;
    let settings = settings(&server);
    server.world.lock().unwrap().answer_of_all = Some(json!({"items": null}));
    assert_eq!(clean(&settings, None, &mut |_| {}).await.unwrap(), []);
}
