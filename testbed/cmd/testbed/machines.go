package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Setup of every machine: its mounts do not reach the host, and /proc shows its own processes.
var privateMounts = [][]string{
	{"mount", "--make-rprivate", "/"},
	{"mount", "-t", "proc", "proc", "/proc"},
	{"ip", "link", "set", "lo", "up"},
}

// The kubelet changes these settings, which apply to the whole kernel. Files are mounted over them, so
// that the kubelet writes into the files.
var shieldedSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// startMachine starts process 1 of new namespaces; connect gives it its network interfaces.
func (c *Cluster) startMachine(name string, machine Machine, connect func(pid int) error) error {
	c.starting.Lock()
	defer c.starting.Unlock()
	if c.givenUp {
		return errInterrupted
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.path("logs", name+"-init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(self, initCommand)
	process.Stdout, process.Stderr = log, log
	process.Dir = "/"
	process.Env = []string{"PATH=" + c.bin("") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: allNamespaces, Setsid: true}
	input, err := process.StdinPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	// Reaps the machine if it ends while testbed still runs.
	go func() { _ = process.Wait() }()
	c.Machines[name], err = describe(process.Process.Pid)
	if err == nil {
		err = c.save()
	}
	if err == nil {
		err = connect(process.Process.Pid)
	}
	if err == nil {
		err = json.NewEncoder(input).Encode(machine)
	}
	if err != nil {
		_ = process.Process.Kill()
		return err
	}
	return input.Close()
}

func (c *Cluster) startControlPlane() error {
	setup := append(append([][]string{}, privateMounts...), [][]string{
		// Without a fixed hardware address, a bridge changes its address when a port is removed, and a
		// restarted node has a new one. Other machines would send to the old addresses for up to a minute.
		{"ip", "link", "add", "br0", "address", c.hardwareAddress(0), "type", "bridge"},
		{"ip", "address", "add", c.controlAddress() + "/24", "dev", "br0"},
		{"ip", "link", "set", "br0", "up"},
		{"ip", "link", "set", "host", "master", "br0", "up"},
		// The host reaches pods and Services through this machine.
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	}...)
	for n := 1; n <= c.Nodes; n++ {
		setup = append(setup, []string{"ip", "route", "add", c.podRange(n), "via", c.nodeAddress(n)})
	}
	machine := Machine{Hostname: controlPlane, Setup: setup, Services: c.controlServices()}
	return c.startMachine(controlPlane, machine, func(pid int) error {
		device := c.hostInterface()
		return all([][]string{
			{"ip", "link", "add", device, "type", "veth", "peer", "name", "host", "netns", strconv.Itoa(pid)},
			{"ip", "address", "add", c.hostAddress() + "/24", "dev", device},
			{"ip", "link", "set", device, "up"},
			{"ip", "route", "add", c.podRanges(), "via", c.controlAddress(), "dev", device},
		})
	})
}

func (c *Cluster) startNode(n int) error {
	name := nodeName(n)
	if err := c.writeNodeFiles(n); err != nil {
		return err
	}
	cgroups, err := c.makeCgroups(name)
	if err != nil {
		return err
	}
	setup := append(append([][]string{}, privateMounts...), [][]string{
		// The kubelet propagates mounts to containers.
		{"mount", "--make-rshared", "/"},
		{"mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"},
		{"mount", "--bind", c.path(name, "lib"), "/var/lib"},
		{"mount", "--bind", c.path(name, "log"), "/var/log"},
		{"ip", "address", "add", c.nodeAddress(n) + "/24", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", c.controlAddress()},
		{"sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	}...)
	for _, setting := range shieldedSettings {
		if _, err := os.Stat("/proc/sys/" + setting); err == nil {
			setup = append(setup, []string{"mount", "--bind", c.path(name, "settings", filepath.Base(setting)), "/proc/sys/" + setting})
		}
	}
	for other := 1; other <= c.Nodes; other++ {
		if other != n {
			setup = append(setup, []string{"ip", "route", "add", c.podRange(other), "via", c.nodeAddress(other)})
		}
	}
	machine := Machine{Hostname: name, Cgroups: cgroups, Setup: setup, Services: c.nodeServices(name)}
	return c.startMachine(name, machine, func(pid int) error {
		control := strconv.Itoa(c.Machines[controlPlane].Pid)
		// After a node is killed, the control plane's end of its link disappears with a delay.
		_, _ = command("nsenter", "-t", control, "-n", "ip", "link", "delete", name)
		return all([][]string{
			{"ip", "link", "add", "eth0", "address", c.hardwareAddress(n), "netns", strconv.Itoa(pid), "type", "veth", "peer", "name", name, "netns", control},
			{"nsenter", "-t", control, "-n", "ip", "link", "set", name, "master", "br0", "up"},
		})
	})
}

// inMachine runs a program in all namespaces of a machine.
func (c *Cluster) inMachine(name string, argv ...string) (string, error) {
	command, err := c.enter(name, argv)
	if err != nil {
		return "", err
	}
	return run(command)
}

func (c *Cluster) enter(name string, argv []string) (*exec.Cmd, error) {
	machine, ok := c.Machines[name]
	if !ok || !machine.alive() {
		return nil, fmt.Errorf("%s is not running: expected %s or one of %s; `testbed node start` starts a node again", name, controlPlane, strings.Join(c.nodeNames(), ", "))
	}
	enter := []string{"-t", strconv.Itoa(machine.Pid), "-m", "-n", "-p", "-u", "-i", "--"}
	return exec.Command("nsenter", append(enter, argv...)...), nil
}

func execIn(c *Cluster, name string, argv []string) error {
	inside, err := c.enter(name, argv)
	if err != nil {
		return err
	}
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	return inside.Run()
}

// makeCgroups makes a node's cgroup, which holds its pods, and `system` in it for its own services.
// It returns the cgroups that process 1 of the node enters.
func (c *Cluster) makeCgroups(node string) ([]string, error) {
	var enter []string
	for _, hierarchy := range cgroupHierarchies() {
		dir := hierarchy
		for _, name := range append(strings.Split(c.cgroup(), "/"), node, "system") {
			if cgroupV2() {
				if err := delegate(dir); err != nil {
					return nil, err
				}
			}
			above := dir
			dir = filepath.Join(dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			if err := copyCpuset(above, dir); err != nil {
				return nil, err
			}
		}
		enter = append(enter, dir)
	}
	return enter, nil
}

func delegate(dir string) error {
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids", "io"} {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		if err != nil && controller != "io" {
			return fmt.Errorf("enabling the cgroup controller %s in %s: %w", controller, dir, err)
		}
	}
	return nil
}

// copyCpuset copies processors and memory nodes: a cpuset of cgroup v1 accepts no process without them.
func copyCpuset(from, to string) error {
	if cgroupV2() {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(to, file))
		if err != nil || strings.TrimSpace(string(have)) != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func interfaceExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// addressTaken reports whether an interface of this host already has an address in this /16.
func addressTaken(address string) bool {
	_, range16, err := net.ParseCIDR(address + "/16")
	if err != nil {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range addresses {
		if have, ok := a.(*net.IPNet); ok && range16.Contains(have.IP) {
			return true
		}
	}
	return false
}

func killNode(c *Cluster, name string) error {
	if _, err := c.nodeNumber(name); err != nil {
		return err
	}
	return endMachine(c.Machines[name])
}

// killService kills the process of a service; process 1 of its machine restarts it.
func killService(c *Cluster, service string) error {
	program, machine, onNode := strings.Cut(service, "@")
	if !onNode {
		machine = controlPlane
	}
	for _, pid := range c.Machines[machine].members() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if first, _, _ := strings.Cut(string(text), "\x00"); err == nil && first == c.bin(program) {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("found no running %s, expected etcd, kube-apiserver, kube-controller-manager, kube-scheduler, registry, or containerd, kube-proxy, kubelet with @NODE", service)
}

func startNode(c *Cluster, name string) error {
	n, err := c.nodeNumber(name)
	if err != nil {
		return err
	}
	if c.Machines[name].alive() {
		return fmt.Errorf("%s is already running", name)
	}
	return c.startNode(n)
}
