//! An account on a real cluster with exactly the rights that `tare doctor --rbac` prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kubectl::kubectl;

/// Namespace of the account; also its name and that of its bindings.
const NAME: &str = "printed-role";

/// Gone from the cluster, and its kubeconfig from the disk, when it is dropped.
pub(crate) struct Account {
    role: PathBuf,
    kubeconfig: PathBuf,
}

impl Account {
    /// Makes it for a plan; files go to `dir`.
    pub(crate) fn new(tare: &Path, plan: &str, dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let account = Self {
            role: dir.join("role.yaml"),
            kubeconfig: dir.join("kubeconfig.json"),
        };
        account.remove();
        let printed = Command::new(tare)
            .args(["doctor", "--rbac", "--plan", plan])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.success(), "{said}");
        std::fs::write(&account.role, printed.stdout).unwrap();
        must(&["apply", "--filename", account.role.to_str().unwrap()]);
        must(&["create", "namespace", NAME]);
        must(&["create", "serviceaccount", NAME, "--namespace", NAME]);
        bind("tare");
        let token = must(&[
            "create",
            "token",
            NAME,
            "--namespace",
            NAME,
            "--duration=2h",
        ]);
        let config = must(&["config", "view", "--raw", "--minify", "--output", "json"]);
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        std::fs::write(&account.kubeconfig, config.to_string()).unwrap();
        account.told(
            tare,
            plan,
            &[
                "ok    rights ",
                "BAD   mesh rights  missing in the whole cluster: ",
            ],
        );
        bind("tare-meshes");
        account.told(tare, plan, &["ok    rights ", "ok    mesh rights  all "]);
        let who = format!("--as=system:serviceaccount:{NAME}:{NAME}");
        for (verb, what, may) in [("list", "pods", "yes"), ("*", "*", "no")] {
            let said = asked(&["auth", "can-i", verb, what, "--all-namespaces", &who]);
            let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            assert_eq!(said, may, "{verb} {what}");
        }
        account
    }

    /// What `tare doctor` says to it, as soon as the cluster knows of its bindings.
    fn told(&self, tare: &Path, plan: &str, expected: &[&str]) {
        let ask = || {
            let mut doctor = Command::new(tare);
            doctor.args(["doctor", "--plan", plan]);
            doctor.env("TARE_KUBECONFIG", self.kubeconfig());
            String::from_utf8(doctor.output().unwrap().stdout).unwrap()
        };
        let mut said = String::new();
        for _ in 0..10 {
            said = ask();
            if expected.iter().all(|line| said.contains(line)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("expected {expected:?}: {said}");
    }

    /// The path of its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
        let roles = ["tare", "tare-meshes"];
        let bindings = roles.map(|role| format!("clusterrolebinding/{NAME}-{role}"));
        let roles = roles.map(|role| format!("clusterrole/{role}"));
        let namespace = format!("namespace/{NAME}");
        let mut all = vec!["delete", "--ignore-not-found", &namespace];
        all.extend(bindings.iter().chain(&roles).map(String::as_str));
        let _ = kubectl(&all);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.remove();
    }
}

fn bind(role: &str) {
    let name = format!("{NAME}-{role}");
    let role = format!("--clusterrole={role}");
    let who = format!("--serviceaccount={NAME}:{NAME}");
    must(&["create", "clusterrolebinding", &name, &role, &who]);
}

fn asked(arguments: &[&str]) -> Output {
    let mut kubectl = Command::new("kubectl");
    kubectl
        .args(arguments)
        .output()
        .expect("kubectl must be on PATH")
}

fn must(arguments: &[&str]) -> String {
    let output = asked(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "kubectl {}: {said}",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).unwrap()
}
