//! The fields that tare reads of objects on a cluster. Other fields are skipped, because a large cluster has many objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Reads `null` as a missing field.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Defines partial types of API objects. A field that is missing or `null` has its default.
macro_rules! parts {
    ($($(#[$of:meta])* $see:vis struct $name:ident { $($(#[$of_field:meta])* $see_field:vis $field:ident: $type:ty,)* })*) => { $(
        $(#[$of])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        $see struct $name {
            $(
                $(#[$of_field])*
                #[serde(deserialize_with = "crate::objects::read::or_default")]
                $see_field $field: $type,
            )*
        }
    )* };
}

pub(crate) use parts;

parts! {
    /// Metadata of an object.
    pub(crate) struct Metadata {
        pub(crate) name: String,
        /// Empty for objects outside of namespaces.
        pub(crate) namespace: String,
        pub(crate) labels: BTreeMap<String, String>,
        pub(crate) annotations: BTreeMap<String, String>,
        pub(crate) generation: i64,
        pub(crate) creation_timestamp: Option<String>,
        pub(crate) deletion_timestamp: Option<String>,
        pub(crate) finalizers: Vec<String>,
        pub(crate) owner_references: Vec<OwnerReference>,
        pub(crate) managed_fields: Vec<ManagedFieldsEntry>,
    }

    /// The object that created this one.
    pub(crate) struct OwnerReference {
        pub(crate) name: String,
    }

    /// A client that set fields of the object.
    pub(crate) struct ManagedFieldsEntry {
        pub(crate) manager: String,
    }

    /// A condition in the status of an object.
    pub(crate) struct Condition {
        #[serde(rename = "type")]
        pub(crate) kind: String,
        pub(crate) status: String,
        pub(crate) reason: Option<String>,
        pub(crate) message: Option<String>,
    }

    /// An object of any kind.
    pub(crate) struct Object {
        pub(crate) metadata: Metadata,
        pub(crate) spec: ObjectSpec,
        pub(crate) status: ObjectStatus,
    }

    /// Specification of a GatewayClass, a Deployment or a DaemonSet.
    pub(crate) struct ObjectSpec {
        pub(crate) controller_name: String,
        pub(crate) replicas: Option<i64>,
        pub(crate) selector: MatchLabels,
    }

    /// Labels that a Deployment or a DaemonSet selects.
    pub(crate) struct MatchLabels {
        pub(crate) match_labels: BTreeMap<String, String>,
    }

    /// Status of a Namespace, a Job, a Deployment or a DaemonSet.
    pub(crate) struct ObjectStatus {
        pub(crate) conditions: Vec<Condition>,
        pub(crate) observed_generation: i64,
        pub(crate) available_replicas: i64,
        pub(crate) number_available: i64,
        pub(crate) desired_number_scheduled: i64,
    }
}

impl Metadata {
    /// The value of a label; empty without it.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The value of an annotation; empty without it.
    pub(crate) fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map_or("", String::as_str)
    }
}

impl Condition {
    /// Whether the condition has this type and the status True.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "True"
    }
}

impl Object {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }
}
