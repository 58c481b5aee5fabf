//! An account on a real cluster with exactly the rights that tare prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kubectl::kubectl;

/// What the account of a run may do: verb, resource, and `yes` or `no`.
const RIGHTS_OF_RUN: [(&str, &str, &str); 3] = [
    ("list", "pods", "yes"),
    ("create", "mutatingwebhookconfigurations", "yes"),
    ("*", "*", "no"),
];

/// How often the cluster is asked, every half second, whether it has applied new bindings.
const TRIES: usize = 120;

/// An account. Dropping it removes it from the cluster, and its kubeconfig from the disk.
pub(crate) struct Account {
    /// Name of the account, in the namespace `default`, and the beginning of the names of its bindings.
    name: &'static str,
    roles: &'static [&'static str],
    role: PathBuf,
    kubeconfig: PathBuf,
}

impl Account {
    /// Creates an account that may run a plan, with its files in `dir`.
    pub(crate) fn new(tare: &Path, plan: &str, dir: &Path) -> Self {
        let account = Self::of_plan(tare, plan, dir);
        account.bind("tare");
        account.bind("tare-meshes");
        account.assert_rights(&RIGHTS_OF_RUN);
        account
    }

    /// Does the same, and checks what `tare doctor` says about the rights before and after.
    #[allow(dead_code, reason = "other tests share this file")]
    pub(crate) fn checked_by_doctor(tare: &Path, plan: &str, dir: &Path) -> Self {
        let account = Self::of_plan(tare, plan, dir);
        account.bind("tare");
        account.wait_for_doctor(
            tare,
            plan,
            &[
                "ok    rights ",
                "BAD   mesh rights  missing in the whole cluster: ",
            ],
        );
        account.bind("tare-meshes");
        account.wait_for_doctor(tare, plan, &["ok    rights ", "ok    mesh rights  all "]);
        account.assert_rights(&RIGHTS_OF_RUN);
        account
    }

    /// Creates an account whose roles for a plan are not bound yet.
    fn of_plan(tare: &Path, plan: &str, dir: &Path) -> Self {
        let roles = &["tare", "tare-meshes"];
        let printed = ["doctor", "--rbac", "--plan", plan];
        Self::with_roles("printed-role", roles, tare, &printed, dir)
    }

    /// Creates an account that may observe a mesh and its requests, with its files in `dir`.
    #[allow(dead_code, reason = "other tests share this file")]
    pub(crate) fn observer(tare: &Path, dir: &Path) -> Self {
        let printed = ["observe", "--requests", "--rbac"];
        let roles = &["tare-observe"];
        let account = Self::with_roles("printed-observer", roles, tare, &printed, dir);
        account.bind("tare-observe");
        account.assert_rights(&[
            ("list", "pods", "yes"),
            ("create", "deployments", "no"),
            ("patch", "services", "no"),
            ("patch", "nodes", "no"),
        ]);
        account
    }

    /// Creates an account without rights, and the roles that tare prints.
    fn with_roles(
        name: &'static str,
        roles: &'static [&'static str],
        tare: &Path,
        printed: &[&str],
        dir: &Path,
    ) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let account = Self {
            name,
            roles,
            role: dir.join("role.yaml"),
            kubeconfig: dir.join("kubeconfig.json"),
        };
        account.remove();
        let printed = Command::new(tare).args(printed).output().unwrap();
        let errors = String::from_utf8_lossy(&printed.stderr);
        assert!(printed.status.success(), "{errors}");
        std::fs::write(&account.role, printed.stdout).unwrap();
        kubectl_ok(&["apply", "--filename", account.role.to_str().unwrap()]);
        kubectl_ok(&["create", "serviceaccount", name, "--namespace", "default"]);
        let token = ["create", "token", name, "--namespace", "default"];
        let token = kubectl_ok(&[&token[..], &["--duration=2h"]].concat());
        let config = kubectl_ok(&["config", "view", "--raw", "--minify", "--output", "json"]);
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        std::fs::write(&account.kubeconfig, config.to_string()).unwrap();
        account
    }

    /// Name of the account's user.
    #[allow(dead_code, reason = "other tests share this file")]
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:default:{}", self.name)
    }

    fn bind(&self, role: &str) {
        let name = self.name;
        let binding = format!("{name}-{role}");
        let role = format!("--clusterrole={role}");
        let who = format!("--serviceaccount=default:{name}");
        kubectl_ok(&["create", "clusterrolebinding", &binding, &role, &who]);
    }

    /// Checks what the account may do in all namespaces: verb, resource, and `yes` or `no`.
    fn assert_rights(&self, rights: &[(&str, &str, &str)]) {
        let who = format!("--as={}", self.user());
        for (verb, what, may) in rights {
            let answer = || {
                let asked = ["auth", "can-i", verb, what, "--all-namespaces", &who];
                let answer = kubectl_output(&asked);
                String::from_utf8_lossy(&answer.stdout).trim().to_owned()
            };
            // The cluster applies new bindings with a delay.
            let tries = (0..TRIES)
                .take_while(|_| answer() != *may)
                .inspect(|_| std::thread::sleep(Duration::from_millis(500)));
            assert!(tries.count() < TRIES, "{verb} {what}: expected {may}");
        }
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
        for _ in 0..TRIES {
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
        let name = self.name;
        let mut all = vec![
            "delete".to_owned(),
            "--ignore-not-found".to_owned(),
            "--namespace=default".to_owned(),
            format!("serviceaccount/{name}"),
        ];
        for role in self.roles {
            all.push(format!("clusterrolebinding/{name}-{role}"));
            all.push(format!("clusterrole/{role}"));
        }
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let _ = kubectl(&all);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.remove();
    }
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
