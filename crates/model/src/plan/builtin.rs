//! Plans that come with tare: files under `plans/`.

use crate::source::nearest;

/// A built-in plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Name, as `quick`.
    pub name: &'static str,
    /// What it is for, in a line.
    pub title: &'static str,
    /// The plan file, commented: the place to start from.
    pub text: &'static str,
}

/// All built-in plans; the first is the one that `tare run` runs by itself.
#[must_use]
pub fn builtins() -> &'static [Builtin] {
    const ALL: [Builtin; 9] = [
        of(
            "quick",
            "Emojivoto x 2: no mesh, Envoy sidecars, Envoy with mutual TLS",
            include_str!("../../../../plans/quick.yaml"),
        ),
        of(
            "aa",
            "no mesh against itself: the noise floor of this machine",
            include_str!("../../../../plans/aa.yaml"),
        ),
        of(
            "thirty",
            "Emojivoto x 30 at 500 rps: no mesh, Envoy with mutual TLS",
            include_str!("../../../../plans/thirty.yaml"),
        ),
        of(
            "smoke",
            "seconds on an echo service, to see that everything works",
            include_str!("../../../../plans/smoke.yaml"),
        ),
        of(
            "cluster-quick",
            "Emojivoto x 2 on a small cluster: no mesh, Istio with strict mutual TLS and without",
            include_str!("../../../../plans/cluster-quick.yaml"),
        ),
        of(
            "kinvolk-2019",
            "after Kinvolk 2019: Emojivoto x 30 at 500 and 600 rps, Linkerd and Istio",
            include_str!("../../../../plans/kinvolk-2019.yaml"),
        ),
        of(
            "kinvolk-sweep",
            "after Kinvolk's sweep: 500 to 5500 rps, Linkerd and Istio",
            include_str!("../../../../plans/kinvolk-sweep.yaml"),
        ),
        of(
            "linkerd-2021",
            "after Linkerd 2021: 20, 200 and 2000 rps, Linkerd and Istio",
            include_str!("../../../../plans/linkerd-2021.yaml"),
        ),
        of(
            "istio-2018",
            "after Istio 2018: an echo service at 400 rps, variants of Istio",
            include_str!("../../../../plans/istio-2018.yaml"),
        ),
    ];
    &ALL
}

const fn of(name: &'static str, title: &'static str, text: &'static str) -> Builtin {
    Builtin { name, title, text }
}

/// The built-in plan of that name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|b| b.name == name)
}

/// The built-in plan whose name is nearest to `name`, if one is near.
#[must_use]
pub fn nearest_builtin(name: &str) -> Option<&'static str> {
    nearest(name, builtins().iter().map(|b| b.name))
}
