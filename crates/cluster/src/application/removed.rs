//! API versions that Kubernetes and Istio no longer serve, and what replaces them.
//!
//! Source: the deprecated API migration guide of Kubernetes, and the change notes of Kubernetes and Istio.

/// A version of kinds that was removed.
struct Removed {
    version: &'static str,
    /// The kinds; empty for all kinds of the version.
    kinds: &'static [&'static str],
    /// The release that no longer serves it.
    since: &'static str,
    /// What to use.
    replacement: &'static str,
}

macro_rules! removed {
    ($($version:literal [$($kind:literal)*] $since:literal $replacement:literal;)*) => {
        &[$(Removed { version: $version, kinds: &[$($kind),*], since: $since, replacement: $replacement }),*]
    };
}

/// The first entry that fits holds.
const REMOVED: &[Removed] = removed! {
    "extensions/v1beta1" ["Ingress"] "Kubernetes 1.22" "use `networking.k8s.io/v1`";
    "extensions/v1beta1" ["NetworkPolicy"] "Kubernetes 1.16" "use `networking.k8s.io/v1`";
    "extensions/v1beta1" ["PodSecurityPolicy"] "Kubernetes 1.16" "use the labels of Pod Security Admission";
    "extensions/v1beta1" ["Job"] "Kubernetes 1.6" "use `batch/v1`";
    "extensions/v1beta1" ["HorizontalPodAutoscaler"] "Kubernetes 1.7" "use `autoscaling/v2`";
    "extensions/v1beta1" ["ThirdPartyResource"] "Kubernetes 1.8" "use a CustomResourceDefinition";
    "extensions/v1beta1" [] "Kubernetes 1.16" "use `apps/v1`";
    "apps/v1alpha1" [] "Kubernetes 1.5" "use a StatefulSet of `apps/v1`";
    "apps/v1beta1" [] "Kubernetes 1.16" "use `apps/v1`";
    "apps/v1beta2" [] "Kubernetes 1.16" "use `apps/v1`";
    "settings.k8s.io/v1alpha1" [] "Kubernetes 1.20" "write the settings into the pod templates";
    "auditregistration.k8s.io/v1alpha1" [] "Kubernetes 1.19" "configure auditing in the API server";
    "admissionregistration.k8s.io/v1beta1" ["MutatingWebhookConfiguration" "ValidatingWebhookConfiguration"] "Kubernetes 1.22" "use `admissionregistration.k8s.io/v1`";
    "admissionregistration.k8s.io/v1alpha1" ["InitializerConfiguration"] "Kubernetes 1.14" "use admission webhooks";
    "apiextensions.k8s.io/v1beta1" [] "Kubernetes 1.22" "use `apiextensions.k8s.io/v1`";
    "apiregistration.k8s.io/v1beta1" [] "Kubernetes 1.22" "use `apiregistration.k8s.io/v1`";
    "authentication.k8s.io/v1beta1" ["TokenReview"] "Kubernetes 1.22" "use `authentication.k8s.io/v1`";
    "authorization.k8s.io/v1beta1" [] "Kubernetes 1.22" "use `authorization.k8s.io/v1`";
    "certificates.k8s.io/v1beta1" ["CertificateSigningRequest"] "Kubernetes 1.22" "use `certificates.k8s.io/v1`";
    "coordination.k8s.io/v1beta1" ["Lease"] "Kubernetes 1.22" "use `coordination.k8s.io/v1`";
    "networking.k8s.io/v1beta1" ["Ingress" "IngressClass"] "Kubernetes 1.22" "use `networking.k8s.io/v1`";
    "rbac.authorization.k8s.io/v1alpha1" [] "Kubernetes 1.22" "use `rbac.authorization.k8s.io/v1`";
    "rbac.authorization.k8s.io/v1beta1" [] "Kubernetes 1.22" "use `rbac.authorization.k8s.io/v1`";
    "scheduling.k8s.io/v1beta1" ["PriorityClass"] "Kubernetes 1.22" "use `scheduling.k8s.io/v1`";
    "storage.k8s.io/v1beta1" ["CSIDriver" "CSINode" "StorageClass" "VolumeAttachment"] "Kubernetes 1.22" "use `storage.k8s.io/v1`";
    "storage.k8s.io/v1beta1" ["CSIStorageCapacity"] "Kubernetes 1.27" "use `storage.k8s.io/v1`";
    "batch/v2alpha1" [] "Kubernetes 1.21" "use `batch/v1`";
    "batch/v1beta1" [] "Kubernetes 1.25" "use `batch/v1`";
    "discovery.k8s.io/v1alpha1" [] "Kubernetes 1.19" "use `discovery.k8s.io/v1`";
    "discovery.k8s.io/v1beta1" [] "Kubernetes 1.25" "use `discovery.k8s.io/v1`";
    "events.k8s.io/v1beta1" [] "Kubernetes 1.25" "use `events.k8s.io/v1`";
    "autoscaling/v2beta1" [] "Kubernetes 1.25" "use `autoscaling/v2`";
    "autoscaling/v2beta2" [] "Kubernetes 1.26" "use `autoscaling/v2`";
    "policy/v1beta1" ["PodSecurityPolicy"] "Kubernetes 1.25" "use the labels of Pod Security Admission";
    "policy/v1beta1" [] "Kubernetes 1.25" "use `policy/v1`";
    "node.k8s.io/v1alpha1" [] "Kubernetes 1.22" "use `node.k8s.io/v1`";
    "node.k8s.io/v1beta1" [] "Kubernetes 1.25" "use `node.k8s.io/v1`";
    "flowcontrol.apiserver.k8s.io/v1alpha1" [] "Kubernetes 1.21" "use `flowcontrol.apiserver.k8s.io/v1`";
    "flowcontrol.apiserver.k8s.io/v1beta1" [] "Kubernetes 1.26" "use `flowcontrol.apiserver.k8s.io/v1`";
    "flowcontrol.apiserver.k8s.io/v1beta2" [] "Kubernetes 1.29" "use `flowcontrol.apiserver.k8s.io/v1`";
    "flowcontrol.apiserver.k8s.io/v1beta3" [] "Kubernetes 1.32" "use `flowcontrol.apiserver.k8s.io/v1`";
    "resource.k8s.io/v1alpha2" [] "Kubernetes 1.31" "use `resource.k8s.io/v1`";
    "rbac.istio.io/v1alpha1" [] "Istio 1.6" "use an AuthorizationPolicy of `security.istio.io/v1`";
    "authentication.istio.io/v1alpha1" [] "Istio 1.6" "use a PeerAuthentication and a RequestAuthentication of `security.istio.io/v1`";
    "config.istio.io/v1alpha2" [] "Istio 1.6" "use a Telemetry of `telemetry.istio.io/v1`";
};

/// Returns that a version of a kind was removed, and what to use.
pub(super) fn reason(version: &str, kind: &str) -> Option<String> {
    let fits =
        |r: &&Removed| r.version == version && (r.kinds.is_empty() || r.kinds.contains(&kind));
    let found = REMOVED.iter().find(fits)?;
    let (since, replacement) = (found.since, found.replacement);
    Some(format!("`{version}` was removed in {since}; {replacement}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_version_has_its_release_and_its_replacement() {
        for (version, kind, expected) in [
            (
                "extensions/v1beta1",
                "Deployment",
                "was removed in Kubernetes 1.16; use `apps/v1`",
            ),
            (
                "apps/v1beta2",
                "StatefulSet",
                "was removed in Kubernetes 1.16; use `apps/v1`",
            ),
            (
                "extensions/v1beta1",
                "Ingress",
                "was removed in Kubernetes 1.22; use `networking.k8s.io/v1`",
            ),
            (
                "policy/v1beta1",
                "PodDisruptionBudget",
                "was removed in Kubernetes 1.25; use `policy/v1`",
            ),
            (
                "policy/v1beta1",
                "PodSecurityPolicy",
                "Pod Security Admission",
            ),
            (
                "autoscaling/v2beta2",
                "HorizontalPodAutoscaler",
                "was removed in Kubernetes 1.26; use `autoscaling/v2`",
            ),
            (
                "rbac.istio.io/v1alpha1",
                "ServiceRole",
                "was removed in Istio 1.6; use an AuthorizationPolicy",
            ),
        ] {
            let found = reason(version, kind).unwrap_or_default();
            assert!(found.contains(expected), "{version} {kind}: {found}");
        }
        for (version, kind) in [
            ("apps/v1", "Deployment"),
            ("v1", "Service"),
            ("networking.k8s.io/v1", "Ingress"),
            // Served again, for other kinds.
            ("networking.k8s.io/v1beta1", "ServiceCIDR"),
            (
                "admissionregistration.k8s.io/v1beta1",
                "ValidatingAdmissionPolicy",
            ),
            ("coordination.k8s.io/v1beta1", "LeaseCandidate"),
        ] {
            assert_eq!(reason(version, kind), None, "{version} {kind}");
        }
    }

    #[test]
    fn no_entry_is_hidden_by_an_earlier_one() {
        for (index, entry) in REMOVED.iter().enumerate() {
            let earlier = &REMOVED[..index];
            let hides = |e: &Removed| e.version == entry.version && e.kinds.is_empty();
            assert!(!earlier.iter().any(hides), "{}", entry.version);
        }
    }
}
