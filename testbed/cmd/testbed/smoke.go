package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

//go:embed smoke.yaml
var smokeManifest string

// smoke proves a cluster of its own from nothing to nothing.
func smoke(name string) error {
	if name == "main" {
		name = "smoke"
	}
	if _, err := load(name); err == nil {
		return fmt.Errorf("cluster %q exists: the test starts from nothing; `testbed --name %s down` first", name, name)
	}
	before, err := takeSnapshot()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := up(name, 3); err != nil {
		return err
	}
	c, err := load(name)
	if err != nil {
		return err
	}
	err = errors.Join(c.prove(start), down(name))
	if err != nil {
		return err
	}
	return step("comparing this machine with what it was", func() error {
		var now snapshot
		// The kernel frees namespaces after their last process.
		return until(endLimit, func() (err error) {
			if now, err = takeSnapshot(); err != nil {
				return err
			}
			return before.differs(now)
		})
	})
}

func (c *Cluster) prove(start time.Time) error {
	if err := installIstio(c, nil); err != nil {
		return err
	}
	if err := c.apply(smokeManifest); err != nil {
		return err
	}
	if err := step("waiting for the pods", func() error {
		for _, namespace := range []string{"mesh", "plain"} {
			_, err := c.kubectl("--namespace", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
			if err != nil {
				described, _ := c.kubectl("--namespace", namespace, "describe", "pods")
				return fmt.Errorf("%w\n%s", err, described)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, proof := range []struct {
		what string
		do   func() error
	}{
		{"proving: cross-node DNS and Service without a mesh", c.provePlain},
		{"proving: mTLS between injected pods on two nodes", func() error { return c.proveMutual(start) }},
		{"proving: a plaintext client is refused", c.proveRefusal},
		{"proving: no xDS resource was rejected", c.proveAccepted},
		{"proving: no process is in this machine's own network", c.proveApart},
	} {
		if err := step(proof.what, proof.do); err != nil {
			return err
		}
	}
	return nil
}

const (
	meshURL  = "http://echo.mesh.svc.cluster.local/"
	plainURL = "http://echo.plain.svc.cluster.local/"
)

type echoed struct {
	Host, Peer string
	Headers    map[string][]string
}

// get sends a request from the client pod of a namespace.
func (c *Cluster) get(namespace, url string) (echoed, error) {
	var answer echoed
	text, err := c.kubectl("--namespace", namespace, "exec", "client", "--container", "probe", "--", "/probe", "get", url)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal([]byte(text), &answer)
}

// provePlain also is what makes the refusal below mean something: the same client reaches a server.
func (c *Cluster) provePlain() error {
	return until(15*time.Second, func() error {
		answer, err := c.get("plain", plainURL)
		if err != nil {
			return err
		}
		host, _, _ := strings.Cut(answer.Peer, ":")
		address, err := c.kubectl("--namespace", "plain", "get", "pod", "client", "--output", "jsonpath={.status.podIP}")
		if err != nil {
			return err
		}
		if answer.Host != "echo" || host != address {
			return fmt.Errorf("found an answer of %q to %s, expected of echo to %s: source addresses are masqueraded", answer.Host, answer.Peer, address)
		}
		return nil
	})
}

func (c *Cluster) proveMutual(start time.Time) error {
	const client, server = "URI=spiffe://cluster.local/ns/mesh/sa/client", "By=spiffe://cluster.local/ns/mesh/sa/echo"
	err := until(15*time.Second, func() error {
		answer, err := c.get("mesh", meshURL)
		if err != nil {
			return err
		}
		found := strings.Join(answer.Headers["X-Forwarded-Client-Cert"], " ")
		if !strings.Contains(found, client) || !strings.Contains(found, server) {
			return fmt.Errorf("found x-forwarded-client-cert %q, expected %s and %s", found, client, server)
		}
		return nil
	})
	if err == nil {
		fmt.Fprintf(os.Stderr, "  the first request with mTLS: %.1f s after nothing\n", time.Since(start).Seconds())
	}
	return err
}

func (c *Cluster) proveRefusal() error {
	answer, err := c.get("plain", meshURL)
	if err == nil {
		return fmt.Errorf("found an answer of %q, expected a reset connection", answer.Host)
	}
	if !strings.Contains(err.Error(), "connection reset") && !strings.Contains(err.Error(), "EOF") {
		return fmt.Errorf("expected a reset connection, found %w", err)
	}
	return nil
}

// proveAccepted reads both sides: what istiod heard back, and what each sidecar counted.
func (c *Cluster) proveAccepted() error {
	metrics, err := c.kubectl("get", "--raw", "/api/v1/namespaces/"+istioNamespace+"/services/istiod:15014/proxy/metrics")
	if err != nil {
		return err
	}
	pushes, err := sum(metrics, "pilot_xds_pushes")
	if err != nil {
		return err
	}
	// A counter that never counted is not shown.
	rejected, _ := sum(metrics, "pilot_total_xds_rejects")
	if pushes == 0 || rejected != 0 {
		return fmt.Errorf("found %v pushes of istiod and %v rejections, expected some and none", pushes, rejected)
	}
	for _, pod := range []string{"client", "echo"} {
		stats, err := c.kubectl("--namespace", "mesh", "exec", pod, "--container", "istio-proxy", "--",
			"pilot-agent", "request", "GET", "stats?filter=(cds|lds|rds).*update_(success|rejected)")
		if err != nil {
			return err
		}
		accepted, rejected, lines := 0, 0, 0
		for line := range strings.Lines(stats) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if !strings.Contains(name, ".update_") {
				// The agent's own log shares its output.
				continue
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("%s: found %q, expected NAME: COUNT", pod, line)
			}
			if strings.HasSuffix(name, "update_rejected") {
				rejected, lines = rejected+n, lines+1
			} else {
				accepted += n
			}
		}
		if lines < 2 || accepted == 0 || rejected != 0 {
			return fmt.Errorf("%s: found %d updates and %d rejections in %d counters, expected some, none and 2 or more:\n%s", pod, accepted, rejected, lines, stats)
		}
	}
	return nil
}

// proveApart is why nothing can listen on an address of the host.
func (c *Cluster) proveApart() error {
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	seen := 0
	for name, machine := range c.Machines {
		for _, pid := range machine.members() {
			network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil || network == host {
				return fmt.Errorf("process %d of %s is in the host's network namespace %s (%v)", pid, name, network, err)
			}
			seen++
		}
	}
	if least := len(c.Machines) * 4; seen < least {
		return fmt.Errorf("found %d processes, expected at least %d", seen, least)
	}
	return nil
}

// sum adds the series of a metric in Prometheus's text format.
func sum(text, metric string) (float64, error) {
	total, found := 0.0, false
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "{")
		if name, _, _ = strings.Cut(name, " "); name != metric {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:len(strings.TrimRight(line, "\n"))], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", metric, err)
		}
		total, found = total+value, true
	}
	if !found {
		return 0, fmt.Errorf("found no metric %s", metric)
	}
	return total, nil
}

func fields(text string) []string { return strings.Fields(text) }

// A snapshot is what a testbed could leave on its host. Processes are not in it: those of others
// come and go, and `down` looks for its own.
type snapshot map[string][]string

func takeSnapshot() (snapshot, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	root, err := clustersRoot()
	if err != nil {
		return nil, err
	}
	others, err := clusters(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	made := snapshot{"mount": strings.Split(string(mounts), "\n")}
	for what, argv := range map[string][]string{
		"interface":       {"sh", "-c", "ls /sys/class/net"},
		"route":           {"ip", "route"},
		"netns":           {"ip", "netns"},
		"rule":            {"nft", "list", "ruleset"},
		"kernel settings": {"sh", "-c", "cd /proc/sys && grep . vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops net/ipv4/ip_forward"},
		"limit":           {"sh", "-c", "cd /proc/sys && grep . fs/inotify/max_user_instances"},
	} {
		if what == "limit" && len(others) > 0 {
			// It is theirs until the last of them is down.
			continue
		}
		out, err := command(argv...)
		if err != nil {
			return nil, err
		}
		made[what] = strings.Split(out, "\n")
	}
	return made, nil
}

func (before snapshot) differs(after snapshot) error {
	var found []string
	for what, lines := range after {
		if before[what] == nil {
			continue
		}
		was := map[string]bool{}
		for _, line := range before[what] {
			was[line] = true
		}
		for _, line := range lines {
			// Other clusters come and go meanwhile. For its own, "down" has looked.
			if !was[line] && !strings.Contains(line, "tare-testbed") {
				found = append(found, what+" "+line)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	sort.Strings(found)
	return fmt.Errorf("this machine is not as it was:\n  %s", strings.Join(found, "\n  "))
}
