//! Records that a log has lost are read again from the worker, through a forwarded port.

use tare_analysis::LoadStream;
use tare_cluster::role_yaml;
use tare_records::trial::{Event, EventKind};
use tare_run::environment::{Environment, WorkerSpec};

use crate::rbac::Roles;
use crate::server::Server;
use crate::{INJECTED, deploy, folder, lines_of, load, plan, prepared};

/// Returns the lines of a trial's generators, and the events of the trial.
async fn measured(server: &Server, generators: u32) -> (Vec<String>, Vec<Event>) {
    let mut plan = plan(server, 1, INJECTED);
    crate::set(&mut plan, |k| k.generators = generators);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let generator = WorkerSpec::Generator(Box::new(load()));
    let generator = cluster.start(&mut deployment, generator, dir.path()).await;
    let lines = lines_of(generator.unwrap()).await;
    let events = cluster.teardown(deployment).await;
    cluster.close().await;
    (lines, events)
}

fn requests(lines: &[String]) -> Option<u64> {
    let mut stream = LoadStream::new();
    for line in lines {
        stream.line(line).unwrap();
    }
    Some(stream.finish().ok()?.counts.ok)
}

fn rereads(events: &[Event]) -> Vec<&str> {
    let of_kind = events.iter().filter(|e| e.kind == EventKind::LogReread);
    of_kind.map(|e| e.found.as_str()).collect()
}

#[tokio::test]
async fn records_that_a_rotated_log_has_lost_are_read_again() {
    let whole = requests(&measured(&Server::start(3).await, 2).await.0);
    assert!(whole.is_some_and(|count| count > 0));
    let server = Server::start(3).await;
    server.world.lock().unwrap().rotated_logs = 2;
    let (lines, events) = measured(&server, 2).await;
    assert_eq!(requests(&lines), whole, "{events:?}");
    let found = rereads(&events);
    assert_eq!(found.len(), 2, "{found:?}");
    for found in found {
        assert!(found.starts_with("its log lost records 1 to "), "{found}");
        assert!(
            found.ends_with("they were read again from the worker"),
            "{found}"
        );
    }
}

#[tokio::test]
async fn records_that_nobody_keeps_make_the_stream_incomplete() {
    let server = Server::start(3).await;
    {
        let mut world = server.world.lock().unwrap();
        world.rotated_logs = 1;
        world.forgets_records = true;
    }
    let (lines, events) = measured(&server, 1).await;
    assert_eq!(requests(&lines), None);
    let found = rereads(&events).join(", ");
    assert!(
        found.ends_with("the worker no longer keeps them"),
        "{found}"
    );
}

#[tokio::test]
async fn a_missing_right_to_forward_ports_is_named() {
    let server = Server::start(3).await;
    let role = role_yaml(plan(&server, 1, INJECTED).kubernetes.as_ref().unwrap());
    let without = role.replace("resources: [pods/portforward]", "resources: [others]");
    assert_ne!(role, without);
    {
        let mut world = server.world.lock().unwrap();
        world.rotated_logs = 1;
        world.roles = Some(Roles::read(&without));
    }
    let (lines, events) = measured(&server, 1).await;
    assert_eq!(requests(&lines), None);
    let found = rereads(&events).join(", ");
    assert!(found.contains("the role needs pods/portforward"), "{found}");
}

#[tokio::test]
async fn a_lost_connection_is_reported_although_the_rest_is_read_at_once() {
    let server = Server::start(3).await;
    server.world.lock().unwrap().log_cut_at = Some("\"type\":".to_owned());
    let (lines, events) = measured(&server, 1).await;
    assert!(requests(&lines).is_some(), "{events:?}");
    let found = rereads(&events).join(", ");
    let start = "connection to its log lost after record ";
    assert!(found.starts_with(start), "{found}");
}
