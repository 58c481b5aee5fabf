package main

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed coredns.yaml
var corednsManifest string

const (
	apiLimit   = 60 * time.Second
	nodesLimit = 60 * time.Second
)

func up(name string, nodes int) error {
	if nodes < 1 || nodes > 20 {
		return fmt.Errorf("found %d nodes, expected 1 to 20", nodes)
	}
	if c, err := load(name); err == nil {
		if c.Machines[controlPlane].alive() {
			if c.Nodes != nodes {
				return fmt.Errorf("found cluster %q with %d nodes, expected %d: stop it first with `testbed down`", name, c.Nodes, nodes)
			}
			fmt.Fprintf(os.Stderr, "cluster %q is already running\n", name)
			return printEnvironment(c)
		}
		fmt.Fprintf(os.Stderr, "removing the remains of an earlier cluster %q\n", name)
		if err := down(name); err != nil {
			return err
		}
	}
	if err := check(); err != nil {
		return err
	}
	cache, err := build()
	if err != nil {
		return err
	}
	start := time.Now()
	c, err := create(name, nodes, cache)
	if err != nil && c != nil {
		return errors.Join(err, down(name))
	}
	if err != nil {
		return err
	}
	finished := make(chan error, 1)
	go func() { finished <- c.bringUp() }()
	select {
	case err = <-finished:
	case signal := <-interrupted():
		err = fmt.Errorf("%w by signal %s", errInterrupted, signal)
	}
	if err != nil {
		return c.giveUp(err)
	}
	fmt.Fprintf(os.Stderr, "%d nodes are ready after %.1f s\n", nodes, time.Since(start).Seconds())
	return printEnvironment(c)
}

// giveUp keeps the logs of a failed start and removes everything else.
func (c *Cluster) giveUp(why error) error {
	// Concurrent jobs must not start another machine.
	c.starting.Lock()
	c.givenUp = true
	c.starting.Unlock()
	kept := filepath.Join(filepath.Dir(filepath.Dir(c.dir)), "failed-"+c.Name)
	_ = os.RemoveAll(kept)
	if err := os.CopyFS(kept, os.DirFS(c.path("logs"))); err == nil {
		why = fmt.Errorf("%w\n  the servers' logs are kept in %s", why, kept)
	}
	return errors.Join(why, down(c.Name))
}

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "Metadata", "userGroups": ["system:serviceaccounts"],
   "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
  {"level": "None"}]}
`

func (c *Cluster) bringUp() error {
	for _, dir := range []string{"logs", "images", "etcd"} {
		if err := os.Mkdir(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	// Nodes resolve no names outside the cluster.
	if err := os.WriteFile(c.path("resolv.conf"), nil, 0o644); err != nil {
		return err
	}
	// The audit log, beside the kubeconfig, has who changed or created what.
	if err := os.WriteFile(c.path("audit-policy.json"), []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	if err := c.writeForOthers(); err != nil {
		return err
	}
	if err := c.writeCertificates(); err != nil {
		return err
	}
	if err := c.writeRegistry(); err != nil {
		return err
	}
	if err := step("starting the control plane and the nodes", c.startMachines); err != nil {
		return err
	}
	err := together(
		func() error {
			return step("waiting for the API server", func() error { return until(apiLimit, c.ready) })
		},
		func() error {
			return step("importing images into the nodes", func() error { return c.importFirst("pause", "coredns") })
		},
	)
	if err != nil {
		return err
	}
	if err := c.apply(c.nodeObjects()); err != nil {
		return err
	}
	if err := c.apply(strings.ReplaceAll(corednsManifest, "@DNS@", c.dnsAddress())); err != nil {
		return err
	}
	return together(
		func() error { return c.importFirst("pilot", "proxyv2") },
		func() error { return step("waiting for the nodes", c.nodesReady) },
		func() error {
			return step("waiting for CoreDNS", func() error {
				_, err := c.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=90s")
				return err
			})
		},
	)
}

func (c *Cluster) startMachines() error {
	if err := c.startControlPlane(); err != nil {
		return err
	}
	// Nodes are connected to the control plane's bridge.
	if err := until(apiLimit, func() error {
		if err := c.runs(controlPlane); err != nil {
			return err
		}
		_, err := c.inMachine(controlPlane, "ip", "link", "show", "dev", "br0", "up")
		return err
	}); err != nil {
		return err
	}
	for n := 1; n <= c.Nodes; n++ {
		if err := c.startNode(n); err != nil {
			return fmt.Errorf("%s: %w", nodeName(n), err)
		}
	}
	return nil
}

// runs returns nil if a machine is running, otherwise a permanent error with the log of its process 1.
func (c *Cluster) runs(name string) error {
	if c.Machines[name].alive() {
		return nil
	}
	return permanent{fmt.Errorf("%s exited at start: %s", name, c.tail(name+"-init"))}
}

// ready checks that the API server is ready, and that its certificate is from the cluster's authority.
func (c *Cluster) ready() error {
	if err := c.runs(controlPlane); err != nil {
		return err
	}
	ca, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	answer, err := client.Get("https://" + c.apiServer() + "/readyz")
	if err != nil {
		return fmt.Errorf("%w: %s", err, c.tail("kube-apiserver"))
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("found %s, expected 200: %s", answer.Status, body)
	}
	return nil
}

// importFirst imports images as soon as each node's containerd is ready.
func (c *Cluster) importFirst(images ...string) error {
	var archives []string
	for _, image := range images {
		archives = append(archives, filepath.Join(c.Cache, "images", image+".tar"))
	}
	for _, node := range c.nodeNames() {
		if err := until(apiLimit, func() error {
			if err := c.runs(node); err != nil {
				return err
			}
			_, err := c.inMachine(node, c.bin("ctr"), "version")
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w: %s", node, err, c.tail("containerd@"+node))
		}
	}
	_, err := importImages(c, archives)
	return err
}

// nodeObjects returns Node objects with the pod ranges of the nodes' CNI configurations.
func (c *Cluster) nodeObjects() string {
	type object = map[string]any
	var items []object
	for n := 1; n <= c.Nodes; n++ {
		items = append(items, object{"apiVersion": "v1", "kind": "Node",
			"metadata": object{"name": nodeName(n)}, "spec": object{"podCIDR": c.podRange(n), "podCIDRs": []string{c.podRange(n)}}})
	}
	text, _ := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	return string(text)
}

func (c *Cluster) nodesReady() error {
	_, err := c.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout="+nodesLimit.String())
	if err != nil {
		for _, node := range c.nodeNames() {
			err = fmt.Errorf("%w\n%s: %s", err, node, c.tail("kubelet@"+node))
		}
	}
	return err
}

func (c *Cluster) kubectl(arguments ...string) (string, error) {
	return command(append([]string{c.bin("kubectl"), "--kubeconfig", c.kubeconfig()}, arguments...)...)
}

func (c *Cluster) apply(manifest string) error {
	apply := exec.Command(c.bin("kubectl"), "--kubeconfig", c.kubeconfig(), "apply", "--server-side", "--force-conflicts", "-f", "-")
	apply.Stdin = strings.NewReader(manifest)
	_, err := run(apply)
	return err
}

// tail returns the end of a log, for an error message.
func (c *Cluster) tail(log string) string {
	text, err := os.ReadFile(c.path("logs", log+".log"))
	if err != nil {
		return err.Error()
	}
	const most = 1500
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}
