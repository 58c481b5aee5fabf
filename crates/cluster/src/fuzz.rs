//! Parsers of what a cluster and its user send.

use std::path::Path;

use tare_plan::KubernetesSettings;
use tokio::io::{join, sink};

use super::api::list;
use super::application;
use super::objects::{Pod, node};
use crate::transfer::Receiver;

/// Reads an answer of an API server: a list, whose objects are read as pods and as nodes. Returns what a user would see.
#[must_use]
pub fn answer(body: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    for pod in list::<Pod>(body).unwrap_or_default() {
        words.extend([
            pod.title(),
            pod.not_ready_reason(),
            pod.workload().to_owned(),
        ]);
        words.extend(pod.termination());
        words.extend(pod.containers().iter().map(|c| c.image()));
        words.push(format!("{:?}", pod.watched(None)));
    }
    let settings = KubernetesSettings::default();
    for node in list(body).unwrap_or_default() {
        words.push(format!("{:?}", node::read(&node, &settings)));
    }
    words
}

/// Reads the manifests of an application and moves its objects into another namespace. Returns them.
///
/// # Errors
/// What is refused, with its place.
pub fn manifests(text: &str) -> Result<Vec<String>, String> {
    application::moved(text, "other").map_err(|e| e.to_string())
}

/// Receives the files of a run into `dir`. Fails for what the receiver refuses, with its words.
///
/// # Errors
/// See above.
pub async fn transfer(stream: &[u8], dir: &Path) -> Result<(), String> {
    let mut receiver = Receiver::new(dir.to_owned());
    let received = receiver.receive(join(stream, sink())).await;
    received.map_err(|failure| failure.to_string())
}
