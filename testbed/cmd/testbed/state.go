package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const controlPlane = "control-plane"

// A Cluster is stored as cluster.json in its directory.
type Cluster struct {
	Name string
	// Slot determines the addresses of the cluster: 10.(240+Slot).0.0/16.
	Slot  int
	Nodes int
	// The cache directory with its programs.
	Cache    string
	Machines map[string]Process
	dir      string
	// Held while a machine starts.
	starting sync.Mutex
	givenUp  bool
}

// A Process is recorded with its start time, because process ids are reused.
type Process struct {
	Pid int
	// In clock ticks since boot, from /proc/PID/stat.
	Started string
	// The PID namespace of the process. Every process in this namespace belongs to the cluster.
	Namespace string
}

const slots = 10

func cacheRoot() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "tare", "testbed"), nil
}

func clustersRoot() (string, error) {
	root, err := cacheRoot()
	return filepath.Join(root, "clusters"), err
}

func load(name string) (*Cluster, error) {
	root, err := clustersRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, name)
	text, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no cluster %q: start one with `testbed --name %s up` (%w)", name, name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return c, nil
}

func (c *Cluster) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	next := c.path("cluster.json.next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.path("cluster.json"))
}

// clusters lists the recorded clusters.
func clusters(root string) ([]*Cluster, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var found []*Cluster
	for _, entry := range entries {
		if c, err := load(entry.Name()); err == nil {
			found = append(found, c)
		}
	}
	return found, nil
}

// create records a new cluster under a lock, so that clusters that start at once get different slots.
func create(name string, nodes int, cache string) (made *Cluster, err error) {
	err = locked(func(root string) error {
		others, err := clusters(root)
		if err != nil {
			return err
		}
		taken := map[int]bool{}
		for _, other := range others {
			taken[other.Slot] = true
		}
		for slot := range slots {
			c := &Cluster{Name: name, Slot: slot, Nodes: nodes, Cache: cache,
				Machines: map[string]Process{}, dir: filepath.Join(root, name)}
			if taken[slot] || interfaceExists(c.hostInterface()) || addressTaken(c.address(0, 0)) {
				continue
			}
			if err := os.Mkdir(c.dir, 0o700); err != nil {
				return err
			}
			made = c
			return errors.Join(c.save(), raiseSettings(root))
		}
		return fmt.Errorf("all of 10.240.0.0/16 to 10.%d.0.0/16 are in use: stop a cluster with `testbed --name NAME down` (%s)", 239+slots, root)
	})
	return made, err
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}
func (c *Cluster) bin(name string) string { return filepath.Join(c.Cache, "bin", name) }
func (c *Cluster) kubeconfig() string     { return c.path("kubeconfig") }

// Addresses: pods of node N in 10.x.N.0/24, services in 10.x.128.0/20, machines in 10.x.255.0/24.
func (c *Cluster) address(third, fourth int) string {
	return fmt.Sprintf("10.%d.%d.%d", 240+c.Slot, third, fourth)
}
func (c *Cluster) controlAddress() string   { return c.address(255, 1) }
func (c *Cluster) hostAddress() string      { return c.address(255, 254) }
func (c *Cluster) nodeAddress(n int) string { return c.address(255, 10+n) }
func (c *Cluster) podRange(n int) string    { return c.address(n, 0) + "/24" }
func (c *Cluster) podRanges() string        { return c.address(0, 0) + "/17" }
func (c *Cluster) serviceRange() string     { return c.address(128, 0) + "/20" }
func (c *Cluster) dnsAddress() string       { return c.address(128, 10) }
func (c *Cluster) apiServer() string        { return c.controlAddress() + ":6443" }
func (c *Cluster) registry() string         { return c.controlAddress() + ":5000" }
func (c *Cluster) hostInterface() string    { return fmt.Sprintf("tare-testbed%d", c.Slot) }
func (c *Cluster) cgroup() string           { return "tare-testbed/" + c.Name }

// hardwareAddress returns a locally administered address for node n, or for the bridge if n is 0.
func (c *Cluster) hardwareAddress(n int) string {
	return fmt.Sprintf("02:74:61:72:%02x:%02x", c.Slot, n)
}

func nodeName(n int) string { return fmt.Sprintf("node%d", n) }

func (c *Cluster) nodeNames() []string {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = nodeName(i + 1)
	}
	return names
}

// nodeNumber returns the number in a node's name: 1 for node1.
func (c *Cluster) nodeNumber(name string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
	if err != nil || n < 1 || n > c.Nodes || name != nodeName(n) {
		return 0, fmt.Errorf("found node %q, expected one of %s", name, strings.Join(c.nodeNames(), ", "))
	}
	return n, nil
}

func describe(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	// The name, in brackets, may contain spaces.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("/proc/%d/stat: found %q", pid, stat)
	}
	if fields[0] == "Z" {
		return Process{}, fmt.Errorf("process %d has ended", pid)
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return Process{Pid: pid, Started: fields[19], Namespace: namespace}, err
}

func (p Process) alive() bool {
	now, err := describe(p.Pid)
	return err == nil && now.Started == p.Started
}

// members returns the process ids, as the host numbers them, in p's PID namespace and in the namespaces
// inside it (of containers). The kernel reuses namespace numbers, so the result is not valid for long after p has
// ended.
func (p Process) members() []int {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	parents := map[int]int{}
	inside := map[int]bool{}
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if namespace, err := os.Readlink(entry + "/ns/pid"); err == nil && namespace == p.Namespace {
			inside[pid] = true
		}
		parents[pid] = parent(pid)
	}
	var found []int
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if inside[up] {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		n, _ := strconv.Atoi(fields[1])
		return n
	}
	return 0
}

func architecture() string { return runtime.GOARCH }
