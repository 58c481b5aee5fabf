package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const containerdSocket = "/run/containerd/containerd.sock"

func (c *Cluster) service(name, after string, arguments ...string) Service {
	program, _, _ := strings.Cut(name, "@")
	return Service{
		Name: name, After: after, Log: c.path("logs", name+".log"),
		Argv: append([]string{c.bin(program)}, arguments...),
	}
}

// controlServices returns the servers of the control plane. They listen in its own network namespace,
// etcd only on the loopback address.
func (c *Cluster) controlServices() []Service {
	pki := func(name string) string { return c.path("pki", name) }
	return []Service{
		c.service("etcd", "",
			"--name=etcd", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380"),
		c.service("kube-apiserver", "127.0.0.1:2379",
			"--etcd-servers=http://127.0.0.1:2379",
			"--bind-address="+c.controlAddress(), "--advertise-address="+c.controlAddress(), "--secure-port=6443",
			"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"),
			"--client-ca-file="+pki("ca.crt"),
			"--kubelet-certificate-authority="+pki("ca.crt"),
			"--kubelet-client-certificate="+pki("apiserver-kubelet.crt"), "--kubelet-client-key="+pki("apiserver-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file="+pki("service-accounts.crt"), "--service-account-signing-key-file="+pki("service-accounts.key"),
			"--service-cluster-ip-range="+c.serviceRange(),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true", "--profiling=false",
			"--audit-policy-file="+c.path("audit-policy.json"), "--audit-log-path="+c.path("audit.log"),
			// No kube-proxy runs here, so webhooks are called at their pods' addresses.
			"--enable-aggregator-routing=true"),
		c.service("kube-controller-manager", c.apiServer(),
			"--kubeconfig="+pki("kube-controller-manager.kubeconfig"),
			"--service-account-private-key-file="+pki("service-accounts.key"), "--root-ca-file="+pki("ca.crt"),
			"--cluster-signing-cert-file="+pki("ca.crt"), "--cluster-signing-key-file="+pki("ca.key"),
			"--use-service-account-credentials", "--leader-elect=false", "--bind-address=127.0.0.1"),
		c.service("kube-scheduler", c.apiServer(),
			"--kubeconfig="+pki("kube-scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1"),
		c.service("registry", "", "-listen="+c.registry(), "-dir="+c.path("registry"),
			"-certificate="+pki("registry.crt"), "-key="+pki("registry.key"), "-password="+pki("registry.password")),
	}
}

func (c *Cluster) nodeServices(node string) []Service {
	return []Service{
		c.service("containerd@"+node, "", "--config", c.path(node, "containerd.toml")),
		c.service("kube-proxy@"+node, c.apiServer(), "--config", c.path(node, "kube-proxy.json")),
		c.service("kubelet@"+node, containerdSocket,
			"--config", c.path(node, "kubelet.json"),
			"--kubeconfig", c.path("pki", "kubelet-"+node+".kubeconfig"),
			"--hostname-override", node, "--node-ip", c.nodeAddress(mustNumber(c, node))),
	}
}

// mustNumber returns the number of a node whose name comes from nodeNames.
func mustNumber(c *Cluster, node string) int {
	n, _ := c.nodeNumber(node)
	return n
}

// writeNodeFiles writes the configuration of a node's services.
func (c *Cluster) writeNodeFiles(n int) error {
	node := nodeName(n)
	for _, dir := range []string{"lib", "log", "settings", "cni"} {
		if err := os.MkdirAll(c.path(node, dir), 0o755); err != nil {
			return err
		}
	}
	for _, setting := range shieldedSettings {
		text, err := os.ReadFile("/proc/sys/" + setting)
		if err != nil {
			continue
		}
		if err := os.WriteFile(c.path(node, "settings", filepath.Base(setting)), text, 0o644); err != nil {
			return err
		}
	}
	kubelet, err := c.kubeletConfig(n)
	if err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	type object = map[string]any
	for name, value := range map[string]any{
		"kubelet.json": kubelet,
		"kube-proxy.json": object{
			"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
			"mode": "nftables", "clusterCIDR": c.podRanges(), "hostnameOverride": node,
			"clientConnection":   object{"kubeconfig": c.path("pki", "kube-proxy.kubeconfig")},
			"metricsBindAddress": "127.0.0.1:10249", "healthzBindAddress": "127.0.0.1:10256",
			// A network namespace cannot change the limits of the kernel's connection table.
			"conntrack":   object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
			"oomScoreAdj": 0,
		},
		"cni/10-testbed.conflist": object{
			"cniVersion": "1.0.0", "name": "testbed",
			"plugins": []object{
				// Routed instead of bridged: this needs no br_netfilter and keeps source addresses.
				{"type": "ptp", "ipMasq": false, "ipam": object{
					"type": "host-local", "dataDir": "/run/cni",
					"ranges": [][]object{{{"subnet": c.podRange(n)}}},
					"routes": []object{{"dst": "0.0.0.0/0"}}}},
				{"type": "portmap", "capabilities": object{"portMappings": true}, "backend": "nftables"},
			},
		},
	} {
		text, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.path(node, name), text, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(c.path(node, "containerd.toml"), []byte(c.containerdConfig(node, runc)), 0o600)
}

func (c *Cluster) containerdConfig(node, runc string) string {
	// Lowering oom_score_adj needs a capability that root does not have on every machine.
	restrict := !hasCapability(capSysResource)
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = %q

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = %q

[plugins."io.containerd.cri.v1.images".registry]
config_path = %q

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = %t

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [%q]
conf_dir = %q

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = %q
SystemdCgroup = false
`, containerdSocket, imageName("pause"), c.path("registries"), restrict, c.bin(""), c.path(node, "cni"), runc)
}

func (c *Cluster) kubeletConfig(n int) (map[string]any, error) {
	type object = map[string]any
	node := nodeName(n)
	reserved, err := c.reservedMemory()
	if err != nil {
		return nil, err
	}
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address":           c.nodeAddress(n),
		"authentication":    object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": c.path("pki", "ca.crt")}},
		"authorization":     object{"mode": "Webhook"},
		"tlsCertFile":       c.path("pki", "kubelet-"+node+".crt"),
		"tlsPrivateKeyFile": c.path("pki", "kubelet-"+node+".key"),
		"clusterDNS":        []string{c.dnsAddress()}, "clusterDomain": "cluster.local",
		"resolvConf":               c.path("resolv.conf"),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs", "failCgroupV1": false,
		"cgroupRoot": "/" + c.cgroup() + "/" + node,
		"failSwapOn": false, "oomScoreAdj": 0,
		"registerWithTaints": []object{},
		// Logs are rotated in each trial, as those of long trials are elsewhere.
		"containerLogMaxSize": "64Ki", "containerLogMaxFiles": 2, "containerLogMonitorInterval": "3s",
		// Each kubelet finds the whole machine. Memory is divided among the nodes; processors are not, so
		// that a small machine can run pods that request half a core.
		"systemReserved":              object{"memory": reserved},
		"evictionHard":                object{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
	}, nil
}

// reservedMemory returns the memory of the other nodes, as a Kubernetes quantity.
func (c *Cluster) reservedMemory() (string, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", err
	}
	var kibibytes int
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kibibytes); err != nil {
		return "", fmt.Errorf("/proc/meminfo: %w", err)
	}
	return fmt.Sprintf("%dKi", kibibytes/c.Nodes*(c.Nodes-1)), nil
}
