//! Targets for what a cluster sends, and for the manifests of a user.

use tare_cluster::fuzz;

/// An answer of an API server.
pub fn api_answer(data: &[u8]) {
    let words = fuzz::answer(data);
    assert!(words.is_empty() || words.len() >= 4, "{words:?}");
}

/// Manifests of an application.
pub fn manifests(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match fuzz::manifests(text) {
        Ok(objects) => {
            let has_kind = |o: &String| o.contains(r#""kind":""#);
            assert!(objects.iter().all(has_kind), "{objects:?}");
        }
        Err(found) => assert!(!found.is_empty()),
    }
}

/// The stream with the files of a run. Nothing is written outside the folder of the receiver.
pub fn transfer(data: &[u8]) {
    let around = tempfile::tempdir().expect("make a folder");
    let dir = around.path().join("run");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().expect("start a runtime");
    let received = runtime.block_on(fuzz::transfer(data, &dir));
    assert!(received.is_ok() || received.is_err_and(|found| !found.is_empty()));
    let names = std::fs::read_dir(around.path()).expect("read the folder");
    let mut names = names.map(|entry| entry.expect("read the folder").file_name());
    assert!(names.all(|name| name == "run"));
}
