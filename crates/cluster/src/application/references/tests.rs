use serde_json::json;

use super::*;

fn references() -> References {
    let objects = [
        json!({"kind": "Namespace", "metadata": {"name": "shop", "labels": {"name": "shop", "team": "a"}}}),
        json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}),
        json!({"kind": "Service", "metadata": {"name": "db", "namespace": "data"}}),
        json!({"kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "shop"}}),
    ];
    References::of(&objects, "default")
}

fn replaced(object: Value) -> (Value, Found) {
    let mut object = object;
    let found = references().replace(&mut object, "t-0");
    (object, found)
}

/// An object of Istio with this specification.
fn istio(spec: Value) -> Value {
    json!({"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn references_in_texts_are_replaced_and_words_that_are_spelled_alike_are_not() {
    for (text, expected) in [
        ("web.shop:8080", "web.t-0:8080"),
        ("http://web.shop/a?b=db.data", "http://web.t-0/a?b=db.t-0"),
        ("web.shop.svc.cluster.local", "web.t-0.svc.cluster.local"),
        (
            "db-0.db.data.svc,db-1.db.data.svc",
            "db-0.db.t-0.svc,db-1.db.t-0.svc",
        ),
        ("db.shop.", "db.t-0."),
        ("postgres://u:p@db.data/x", "postgres://u:p@db.t-0/x"),
        ("höhe→db.data", "höhe→db.t-0"),
        (
            "outbound|80||web.shop.svc.cluster.local",
            "outbound|80||web.t-0.svc.cluster.local",
        ),
        (
            "web\\.shop\\.svc\\.cluster\\.local",
            "web\\.t-0\\.svc\\.cluster\\.local",
        ),
        ("*.shop.svc.cluster.local", "*.t-0.svc.cluster.local"),
        ("shop.svc.cluster.local", "t-0.svc.cluster.local"),
        (
            "10-1-2-3.shop.pod.cluster.local",
            "10-1-2-3.t-0.pod.cluster.local",
        ),
        (
            "spiffe://cluster.local/ns/shop/sa/web",
            "spiffe://cluster.local/ns/t-0/sa/web",
        ),
        ("cluster.local/ns/shop/*", "cluster.local/ns/t-0/*"),
        ("*/ns/data/sa/web", "*/ns/t-0/sa/web"),
        (
            "*.shop.serviceaccount.identity.linkerd.cluster.local",
            "*.t-0.serviceaccount.identity.linkerd.cluster.local",
        ),
        (
            "other.shop.serviceaccount.identity.linkerd.cluster.local",
            "other.t-0.serviceaccount.identity.linkerd.cluster.local",
        ),
        (
            "system:serviceaccount:shop:web",
            "system:serviceaccount:t-0:web",
        ),
        ("system:serviceaccounts:shop", "system:serviceaccounts:t-0"),
        (
            "https://k/api/v1/namespaces/shop/pods",
            "https://k/api/v1/namespaces/t-0/pods",
        ),
        ("--namespace=shop", "--namespace=t-0"),
        (
            "server --watch-namespaces shop,data -v",
            "server --watch-namespaces t-0,t-0 -v",
        ),
        ("kubectl -n shop get pods", "kubectl -n t-0 get pods"),
        (
            "{\"namespace\":\"shop\", \"name\":\"shop\"}",
            "{\"namespace\":\"t-0\", \"name\":\"shop\"}",
        ),
        (
            "namespaces:\n- shop\n- data\nname: shop\n",
            "namespaces:\n- t-0\n- t-0\nname: shop\n",
        ),
        ("source_namespace == 'shop'", "source_namespace == 't-0'"),
    ] {
        let found = words::replace(&references().names, text, "t-0");
        assert_eq!(
            (found.text.as_str(), found.foreign),
            (expected, None),
            "{text}"
        );
    }
    for same in [
        "web:8080",
        "web.other",
        "db.data.com",
        "db.data.svcx",
        "other.shop",
        "x-db.data",
        "db.data-2",
        "shop",
        "www.shop",
        "registry.example/shop:v1",
        "/shop/items",
        "shop.example.com",
        "my-shop.svc.cluster.local",
        "--name=shop",
        "rows/shop/",
        "a.b.c.",
        "..",
        "",
    ] {
        let found = words::replace(&references().names, same, "t-0");
        assert_eq!((found.text.as_str(), found.foreign), (same, None));
    }
    let foreign = words::replace(&references().names, "http://pay.shop.svc/x", "t-0");
    assert_eq!(foreign.foreign.as_deref(), Some("pay.shop"));
}

#[test]
fn policies_of_meshes_and_kubernetes_name_the_namespace_of_the_instance() {
    let linkerd = |kind: &str, spec: Value| json!({"apiVersion": "policy.linkerd.io/v1alpha1", "kind": kind, "metadata": {"name": "p"}, "spec": spec});
    let kubernetes = |kind: &str, spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": {"name": "p"}, "spec": spec});
    for (object, pointer, expected) in [
        (
            istio(
                json!({"rules": [{"from": [{"source": {"principals": ["cluster.local/ns/shop/sa/web"],
                "notPrincipals": ["*/ns/data/sa/x"], "namespaces": ["shop", "istio-system", "data"],
                "notNamespaces": ["other"], "serviceAccounts": ["shop/web", "web"]}}],
                "to": [{"operation": {"hosts": ["web.shop", "web.shop.svc.cluster.local"], "paths": ["/shop"]}}],
                "when": [{"key": "source.namespace", "values": ["shop"]},
                    {"key": "source.principal", "notValues": ["cluster.local/ns/shop/sa/a"]}]}]}),
            ),
            "/spec/rules/0",
            json!({"from": [{"source": {"principals": ["cluster.local/ns/t-0/sa/web"],
                "notPrincipals": ["*/ns/t-0/sa/x"], "namespaces": ["t-0", "istio-system"],
                "notNamespaces": ["other"], "serviceAccounts": ["t-0/web", "web"]}}],
                "to": [{"operation": {"hosts": ["web.t-0", "web.t-0.svc.cluster.local"], "paths": ["/shop"]}}],
                "when": [{"key": "source.namespace", "values": ["t-0"]},
                    {"key": "source.principal", "notValues": ["cluster.local/ns/t-0/sa/a"]}]}),
        ),
        (
            istio(
                json!({"egress": [{"hosts": ["./*", "shop/*", "istio-system/*", "shop/web.shop.svc.cluster.local"]}],
                "exportTo": [".", "shop"], "gateways": ["shop/front", "mesh"], "host": "web.shop.svc.cluster.local",
                "subjectAltNames": ["spiffe://cluster.local/ns/shop/sa/web"], "uri": {"prefix": "/shop/"}}),
            ),
            "/spec",
            json!({"egress": [{"hosts": ["./*", "t-0/*", "istio-system/*", "t-0/web.t-0.svc.cluster.local"]}],
                "exportTo": [".", "t-0"], "gateways": ["t-0/front", "mesh"], "host": "web.t-0.svc.cluster.local",
                "subjectAltNames": ["spiffe://cluster.local/ns/t-0/sa/web"], "uri": {"prefix": "/shop/"}}),
        ),
        (
            linkerd(
                "MeshTLSAuthentication",
                json!({"identities": ["*.shop.serviceaccount.identity.linkerd.cluster.local"],
                "identityRefs": [{"kind": "ServiceAccount", "name": "shop", "namespace": "shop"},
                    {"kind": "Namespace", "name": "shop"}]}),
            ),
            "/spec",
            json!({"identities": ["*.t-0.serviceaccount.identity.linkerd.cluster.local"],
                "identityRefs": [{"kind": "ServiceAccount", "name": "shop", "namespace": "t-0"},
                    {"kind": "Namespace", "name": "t-0"}]}),
        ),
        (
            json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": {"name": "g"},
                "spec": {"from": [{"kind": "HTTPRoute", "namespace": "shop"}],
                    "parentRefs": [{"name": "shop", "namespace": "shop"}], "backendRefs": [{"name": "db", "namespace": "data"}]}}),
            "/spec",
            json!({"from": [{"kind": "HTTPRoute", "namespace": "t-0"}],
                "parentRefs": [{"name": "shop", "namespace": "t-0"}], "backendRefs": [{"name": "db", "namespace": "t-0"}]}),
        ),
        (
            kubernetes(
                "NetworkPolicy",
                json!({"ingress": [{"from": [
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}},
                {"namespaceSelector": {"matchLabels": {"name": "shop"}}},
                {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}},
                {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "shop"}}},
                {"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In",
                    "values": ["shop", "kube-system"]}]}}]}]}),
            ),
            "/spec/ingress/0/from",
            json!([
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "t-0"}}},
                {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "t-0"}}},
                {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}},
                {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "shop"}}},
                {"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In",
                    "values": ["t-0", "kube-system"]}]}}]),
        ),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
                "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "shop"},
                    {"kind": "ServiceAccount", "name": "b", "namespace": "kube-system"},
                    {"kind": "Group", "name": "system:serviceaccounts:shop"}]}),
            "/subjects",
            json!([{"kind": "ServiceAccount", "name": "a", "namespace": "t-0"},
                {"kind": "ServiceAccount", "name": "b", "namespace": "kube-system"},
                {"kind": "Group", "name": "system:serviceaccounts:t-0"}]),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pods", "spec": {
                "env": [{"name": "POD_NAMESPACE", "value": "shop"}, {"name": "TITLE", "value": "shop"}],
                "args": ["--namespace", "shop", "-n", "data", "--name", "shop"], "image": "registry.example/shop:v1",
                "dnsConfig": {"searches": ["shop.svc.cluster.local"]},
                "webhooks": [{"clientConfig": {"service": {"name": "web", "namespace": "shop"}}}],
                "affinity": {"namespaces": ["shop"]}, "rules": [{"resources": ["namespaces"], "resourceNames": ["shop"]}],
                "externalName": "db.data.svc.cluster.local"}}),
            "/spec",
            json!({"env": [{"name": "POD_NAMESPACE", "value": "t-0"}, {"name": "TITLE", "value": "shop"}],
                "args": ["--namespace", "t-0", "-n", "t-0", "--name", "shop"], "image": "registry.example/shop:v1",
                "dnsConfig": {"searches": ["t-0.svc.cluster.local"]},
                "webhooks": [{"clientConfig": {"service": {"name": "web", "namespace": "t-0"}}}],
                "affinity": {"namespaces": ["t-0"]}, "rules": [{"resources": ["namespaces"], "resourceNames": ["t-0"]}],
                "externalName": "db.t-0.svc.cluster.local"}),
        ),
        (
            json!({"apiVersion": "linkerd.io/v1alpha2", "kind": "ServiceProfile",
                "metadata": {"name": "web.shop.svc.cluster.local", "namespace": "shop",
                    "annotations": {"networking.istio.io/exportTo": "shop,istio-system"}}}),
            "/metadata",
            json!({"name": "web.t-0.svc.cluster.local", "namespace": "shop",
                "annotations": {"networking.istio.io/exportTo": "t-0,istio-system"}}),
        ),
        (
            json!({"kind": "ConfigMap", "data": {"conf": "proxy_pass http://db.data;\n", "web.shop.svc": "x"}}),
            "/data",
            json!({"conf": "proxy_pass http://db.t-0;\n", "web.t-0.svc": "x"}),
        ),
    ] {
        let (new, found) = replaced(object);
        assert_eq!(new.pointer(pointer).unwrap(), &expected);
        assert_eq!(found.unclear, Vec::<String>::new());
        assert!(!found.replaced.is_empty());
    }
}

#[test]
fn the_values_of_secrets_are_read_and_written_in_base64() {
    let secret = json!({"kind": "Secret", "stringData": {"a": "db.data"}, "data": {
        "url": STANDARD.encode("db.data:5432"), "key": STANDARD.encode([0xff, 0xfe]), "namespace": STANDARD.encode("shop")}});
    let expected = json!({"kind": "Secret", "stringData": {"a": "db.t-0"}, "data": {
        "url": STANDARD.encode("db.t-0:5432"), "key": STANDARD.encode([0xff, 0xfe]), "namespace": STANDARD.encode("t-0")}});
    assert_eq!(replaced(secret).0, expected);
}

#[test]
fn what_may_be_a_reference_is_refused_with_its_place() {
    let selector = |selector: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"namespaceSelector": selector}});
    for (object, path, part) in [
        (
            istio(json!({"rules": [{"source": {"namespaces": ["shop*"]}}]})),
            "`spec.rules[0].source.namespaces[0]`",
            "a pattern that covers the namespace `shop`",
        ),
        (
            istio(json!({"source": {"notNamespaces": ["*op"]}})),
            "`spec.source.notNamespaces[0]`",
            "a pattern",
        ),
        (
            istio(json!({"source": {"notNamespaces": ["data"]}})),
            "`spec.source.notNamespaces[0]`",
            "would refuse the whole application",
        ),
        (
            istio(json!({"action": "DENY", "source": {"namespaces": ["data"]}})),
            "`spec.source.namespaces[0]`",
            "would refuse the whole application",
        ),
        (
            istio(json!({"principals": ["*shop/sa/web"]})),
            "`spec.principals[0]`",
            "may name the namespace `shop`",
        ),
        (
            istio(json!({"principals": ["cluster.local/ns/shop*"]})),
            "`spec.principals[0]`",
            "may name the namespace",
        ),
        (
            istio(json!({"hosts": ["pay.shop"]})),
            "`spec.hosts[0]`",
            "may name the namespace `shop`",
        ),
        (
            istio(json!({"host": "pay.shop.svc.cluster.local"})),
            "`spec.host`",
            "`pay.shop`, a Service",
        ),
        (
            istio(json!({"when": [{"key": "source.principal", "values": ["*/shop/sa/web"]}]})),
            "`spec.when[0].values[0]`",
            "may name the namespace",
        ),
        (
            selector(json!({"matchLabels": {"team": "a"}})),
            "matchLabels.team`",
            "by its label `team: a`",
        ),
        (
            selector(json!({"matchLabels": {"project": "shop"}})),
            "matchLabels.project`",
            "`project: shop`",
        ),
        (
            selector(json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]})),
            "matchExpressions[0]`",
            "by its label `team`",
        ),
        (
            json!({"kind": "Deployment", "spec": {"env": [{"name": "PAY", "value": "http://pay.data.svc:80"}]}}),
            "`spec.env[0].value`",
            "`pay.data`, a Service in a namespace of the application that is not one of its objects",
        ),
    ] {
        let (_, found) = replaced(object.clone());
        let [why] = found.unclear.as_slice() else {
            panic!("{object}: {found:?}");
        };
        assert!(why.contains(path) && why.contains(part), "{why}");
    }
}

#[test]
fn a_service_account_may_have_the_name_of_the_namespace() {
    let spec = json!({"principals": ["cluster.local/ns/shop/sa/shop", "shop/ns/shop/sa/web"],
        "serviceAccounts": ["shop/shop"], "identities": ["shop.shop.serviceaccount.identity.linkerd.cluster.local"]});
    let (new, found) = replaced(istio(spec));
    let expected = json!({"principals": ["cluster.local/ns/t-0/sa/shop", "shop/ns/t-0/sa/web"],
        "serviceAccounts": ["t-0/shop"], "identities": ["shop.t-0.serviceaccount.identity.linkerd.cluster.local"]});
    assert_eq!((&new["spec"], found.unclear), (&expected, Vec::new()));
}

#[test]
fn objects_without_a_namespace_refer_to_each_other_as_default() {
    let service = json!({"kind": "Service", "metadata": {"name": "web"}});
    let references = References::of(std::slice::from_ref(&service), "default");
    let mut policy = istio(
        json!({"principals": ["cluster.local/ns/default/sa/web"], "host": "web.default.svc"}),
    );
    references.replace(&mut policy, "t-0");
    assert_eq!(
        policy["spec"],
        json!({"principals": ["cluster.local/ns/t-0/sa/web"], "host": "web.t-0.svc"})
    );
    let mut api = json!({"kind": "ConfigMap", "data": {"api": "https://kubernetes.default.svc"}});
    let found = references.replace(&mut api, "t-0");
    assert_eq!(
        (api["data"]["api"].as_str(), found),
        (Some("https://kubernetes.default.svc"), Found::default())
    );
}

#[test]
fn a_namespace_that_no_object_names_is_replaced_only_in_places_for_hosts() {
    let services = ["cache", "log", "queue"]
        .map(|name| json!({"kind": "Service", "metadata": {"name": name}}));
    let moved = |services: &[Value], text: &str| {
        let mut map = json!({"kind": "ConfigMap", "data": {"a": text}});
        References::of(services, "default").replace(&mut map, "t-0");
        map["data"]["a"].as_str().unwrap().to_owned()
    };
    for text in [
        "cache.default=60",
        "log.default: info",
        "a: 1\nqueue.default=jobs\n",
    ] {
        assert_eq!(moved(&services, text), text);
        // Of a namespace that an object names, the form is clear.
        let mut named = services.clone();
        named[0]["metadata"]["namespace"] = "default".into();
        assert_eq!(moved(&named, text), text.replace("default", "t-0"));
    }
    for text in [
        "cache.default",
        "0.cache.default\n",
        "http://cache.default/a",
        "amqp://u:p@queue.default,x",
        "queues=queue.default:5672,cache.default.svc",
    ] {
        assert_eq!(moved(&services, text), text.replace("default", "t-0"));
    }
    let mut settings =
        json!({"kind": "ConfigMap", "data": {"log.default": "info", "log.default.svc": "a"}});
    References::of(&services, "default").replace(&mut settings, "t-0");
    let expected = json!({"log.default": "info", "log.t-0.svc": "a"});
    assert_eq!(settings["data"], expected);
}

#[test]
fn any_object_is_walked_without_a_panic() {
    let shapes = [
        json!(null),
        json!(1),
        json!("shop"),
        json!([]),
        json!([1, "shop"]),
        json!({}),
        json!({"a": "shop"}),
    ];
    for key in [
        "namespaceSelector",
        "matchLabels",
        "metadata",
        "data",
        "namespaces",
        "namespace",
        "values",
        "resources",
    ] {
        for shape in &shapes {
            for kind in ["Secret", "ConfigMap"] {
                for nested in [
                    json!({key: shape}),
                    json!({"namespaceSelector": {key: shape}}),
                    json!([{key: shape}]),
                ] {
                    let mut object = json!({"kind": kind, "spec": nested, key: shape});
                    references().replace(&mut object, "t-0");
                    let mut alone = nested.clone();
                    references().replace(&mut alone, "t-0");
                }
            }
        }
    }
}
