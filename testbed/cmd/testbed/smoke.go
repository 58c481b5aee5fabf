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

// smoke starts a cluster, tests it, stops it, and checks that this machine is as before.
func smoke(name string) error {
	if name == "main" {
		name = "smoke"
	}
	if _, err := load(name); err == nil {
		return fmt.Errorf("found a cluster %q, expected none: stop it with `testbed --name %s down`", name, name)
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
	return step("comparing this machine with its state before", func() error {
		var now snapshot
		// The kernel frees namespaces with a delay after their last process.
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
		{"checking: cross-node DNS and Service without a mesh", c.provePlain},
		{"checking: mTLS between injected pods on two nodes", func() error { return c.proveMutual(start) }},
		{"checking: a plaintext client is refused", c.proveRefusal},
		{"checking: no xDS resource was rejected", c.proveAccepted},
		{"checking: no process is in this machine's network namespace", c.proveApart},
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

// provePlain shows that the client can reach a server, so that the refusal in proveRefusal is meaningful.
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
			return fmt.Errorf("found an answer from %q to %s, expected from echo to %s: source addresses are masqueraded", answer.Host, answer.Peer, address)
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
		fmt.Fprintf(os.Stderr, "  first request with mTLS: %.1f s after the start\n", time.Since(start).Seconds())
	}
	return err
}

func (c *Cluster) proveRefusal() error {
	answer, err := c.get("plain", meshURL)
	if err == nil {
		return fmt.Errorf("found an answer from %q, expected a reset connection", answer.Host)
	}
	if !strings.Contains(err.Error(), "connection reset") && !strings.Contains(err.Error(), "EOF") {
		return fmt.Errorf("expected a reset connection, found %w", err)
	}
	return nil
}

// proveAccepted reads the rejections that istiod and each sidecar have counted.
func (c *Cluster) proveAccepted() error {
	metrics, err := c.kubectl("get", "--raw", "/api/v1/namespaces/"+istioNamespace+"/services/istiod:15014/proxy/metrics")
	if err != nil {
		return err
	}
	pushes, err := sum(metrics, "pilot_xds_pushes")
	if err != nil {
		return err
	}
	// A counter at zero is not exported.
	rejected, _ := sum(metrics, "pilot_total_xds_rejects")
	if pushes == 0 || rejected != 0 {
		return fmt.Errorf("found %v pushes of istiod and %v rejections, expected at least 1 and 0", pushes, rejected)
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
				// A line of the agent's own log.
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
			return fmt.Errorf("%s: found %d updates and %d rejections in %d counters, expected at least 1, 0 and at least 2:\n%s", pod, accepted, rejected, lines, stats)
		}
	}
	return nil
}

// proveApart checks that no process can listen on an address of the host.
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

// A snapshot lists what a testbed could leave on its host. It has no processes: those of other
// programs come and go, and `down` checks its own.
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
			// The other clusters need it until the last one is stopped.
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
			// Other clusters may start and stop meanwhile; `down` has checked this one.
			if !was[line] && !strings.Contains(line, "tare-testbed") {
				found = append(found, what+" "+line)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	sort.Strings(found)
	return fmt.Errorf("this machine is not as before:\n  %s", strings.Join(found, "\n  "))
}
