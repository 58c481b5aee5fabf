package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Programs from Debian packages, by package. Everything else is built.
var tools = map[string]string{
	"ip": "iproute2", "nft": "nftables", "runc": "runc", "nsenter": "util-linux", "mount": "mount", "ldd": "libc-bin",
}

const (
	capSysResource = 24
	allNamespaces  = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
)

func installDependencies() error {
	packages := []string{"apt-get", "install", "-y", "--no-install-recommends"}
	for _, name := range tools {
		packages = append(packages, name)
	}
	run := exec.Command(packages[0], packages[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	return run.Run()
}

// check returns an error that lists everything that is missing, with remedies.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("found user id " + strconv.Itoa(os.Geteuid()) +
			", expected 0: the testbed makes namespaces, interfaces and cgroups; run it as root (sudo)")
	}
	var missing []string
	add := func(err error) {
		if err != nil {
			missing = append(missing, err.Error())
		}
	}
	for tool, debian := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			add(fmt.Errorf("%s is missing: apt-get install %s (or `testbed deps` for all)", tool, debian))
		}
	}
	add(checkCgroups())
	if len(missing) == 0 {
		add(checkNamespaces())
	}
	if len(missing) > 0 {
		return errors.New("this machine cannot run a testbed\n  " + strings.Join(missing, "\n  "))
	}
	return nil
}

// checkNamespaces tries what the nodes will do, in temporary namespaces.
func checkNamespaces() error {
	trials := []struct{ what, script, remedy string }{
		{"make namespaces", "true", "CAP_SYS_ADMIN and CAP_NET_ADMIN are needed: in a container, run it privileged"},
		{"mount", "mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs none /run", "CAP_SYS_ADMIN is needed: in a container, run it privileged"},
		{"change network settings", "mount --make-rprivate / && mount -t proc proc /proc && echo 1 > /proc/sys/net/ipv4/ip_forward", "CAP_NET_ADMIN and a writable /proc/sys are needed"},
		{"add nftables rules", "nft add table ip tare && nft add chain ip tare c '{ type nat hook prerouting priority 0; }' && nft add rule ip tare c masquerade || nft add rule ip tare c accept", "CAP_NET_ADMIN and nf_tables with nft_nat in the kernel are needed"},
		{"add veth interfaces and bridges", "ip link add name veth1 type veth peer name veth2 && ip link add name br0 type bridge", "veth and bridge in the kernel are needed"},
		{"mount overlayfs", "mount --make-rprivate / && mount -t tmpfs none /run && mkdir /run/a /run/b /run/c /run/d && mount -t overlay none -o lowerdir=/run/a,upperdir=/run/b,workdir=/run/c /run/d", "overlay in the kernel is needed"},
	}
	for _, trial := range trials {
		try := exec.Command("sh", "-ec", trial.script)
		try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: allNamespaces}
		if _, err := run(try); err != nil {
			return fmt.Errorf("cannot %s (%w): %s", trial.what, err, trial.remedy)
		}
	}
	return nil
}

const cgroupMount = "/sys/fs/cgroup"

func cgroupV2() bool {
	_, err := os.Stat(cgroupMount + "/cgroup.controllers")
	return err == nil
}

// hybridMount is the mount point of cgroup v2 on machines that use v1 and v2. Its v2 has no controllers, but
// runc makes cgroups there.
const hybridMount = cgroupMount + "/unified"

// cgroupHierarchies returns the hierarchies in which the kubelet needs its cgroup; v2 has one.
func cgroupHierarchies() []string {
	if cgroupV2() {
		return []string{cgroupMount}
	}
	// Links such as cpu -> cpu,cpuacct are skipped, so that each hierarchy appears once.
	found, _ := filepath.Glob(cgroupMount + "/*/cgroup.procs")
	var hierarchies []string
	for _, file := range found {
		if dir := filepath.Dir(file); dir != hybridMount && !isLink(dir) {
			hierarchies = append(hierarchies, dir)
		}
	}
	return hierarchies
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

func checkCgroups() error {
	if cgroupV2() {
		text, err := os.ReadFile(cgroupMount + "/cgroup.controllers")
		if err != nil {
			return err
		}
		have := " " + strings.TrimSpace(string(text)) + " "
		for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !strings.Contains(have, " "+controller+" ") {
				return fmt.Errorf("found cgroup v2 with the controllers %s, expected also %s: enable it in the parent's cgroup.subtree_control", strings.TrimSpace(have), controller)
			}
		}
		return nil
	}
	for _, controller := range []string{"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"} {
		if _, err := os.Stat(filepath.Join(cgroupMount, controller, "cgroup.procs")); err != nil {
			return fmt.Errorf("found no cgroup v1 hierarchy at %s/%s and no cgroup v2 at %s, expected one of them", cgroupMount, controller, cgroupMount)
		}
	}
	return nil
}

func hasCapability(bit int) bool {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "CapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && set&(1<<bit) != 0
}
