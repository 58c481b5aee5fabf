//! An account on a real cluster with exactly the rights that `tare doctor --rbac` prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kubectl::kubectl;

/// Name of the account, of its namespace and of its bindings.
const NAME: &str = "printed-role";

/// An account. Dropping it removes it from the cluster, and its kubeconfig from the disk.
pub(crate) struct Account {
    role: PathBuf,
    kubeconfig: PathBuf,
}

impl Account {
    /// Creates an account for a plan, with its files in `dir`.
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
        let errors = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.success(), "{errors}");
        std::fs::write(&account.role, printed.stdout).unwrap();
        kubectl_ok(&["apply", "--filename", account.role.to_str().unwrap()]);
        kubectl_ok(&["create", "namespace", NAME]);
        kubectl_ok(&["create", "serviceaccount", NAME, "--namespace", NAME]);
        bind("tare");
        let token = kubectl_ok(&[
            "create",
            "token",
            NAME,
            "--namespace",
            NAME,
            "--duration=2h",
        ]);
        let config = kubectl_ok(&["config", "view", "--raw", "--minify", "--output", "json"]);
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        std::fs::write(&account.kubeconfig, config.to_string()).unwrap();
        account.wait_for_doctor(
            tare,
            plan,
            &[
                "ok    rights ",
                "BAD   mesh rights  missing in the whole cluster: ",
            ],
        );
        bind("tare-meshes");
        account.wait_for_doctor(tare, plan, &["ok    rights ", "ok    mesh rights  all "]);
        let who = format!("--as=system:serviceaccount:{NAME}:{NAME}");
        for (verb, what, may) in [("list", "pods", "yes"), ("*", "*", "no")] {
            let answer = kubectl_output(&["auth", "can-i", verb, what, "--all-namespaces", &who]);
            let answer = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            assert_eq!(answer, may, "{verb} {what}");
        }
        account
    }

    /// Waits until the output of `tare doctor` has these lines: the cluster applies new bindings
    /// with a delay.
    fn wait_for_doctor(&self, tare: &Path, plan: &str, expected: &[&str]) {
        let doctor = || {
            let mut doctor = Command::new(tare);
            doctor.args(["doctor", "--plan", plan]);
            doctor.env("TARE_KUBECONFIG", self.kubeconfig());
            String::from_utf8(doctor.output().unwrap().stdout).unwrap()
        };
        let mut printed = String::new();
        for _ in 0..10 {
            printed = doctor();
            if expected.iter().all(|line| printed.contains(line)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("expected {expected:?}, found: {printed}");
    }

    /// Returns the path of its kubeconfig.
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
    kubectl_ok(&["create", "clusterrolebinding", &name, &role, &who]);
}

fn kubectl_output(arguments: &[&str]) -> Output {
    let mut kubectl = Command::new("kubectl");
    kubectl
        .args(arguments)
        .output()
        .expect("kubectl must be on PATH")
}

fn kubectl_ok(arguments: &[&str]) -> String {
    let output = kubectl_output(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "kubectl {}: {errors}",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).unwrap()
}
