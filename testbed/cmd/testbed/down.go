package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const endLimit = 20 * time.Second

// down stops a cluster. It returns an error that lists what is left of it.
func down(name string) error {
	c, err := load(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; its processes are unknown: end them, then delete the directory", err)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "no cluster %q is running\n", name)
		// A start that was killed early may have left a directory without a record.
		root, err := clustersRoot()
		if err != nil {
			return err
		}
		return os.RemoveAll(filepath.Join(root, name))
	}
	err = step(fmt.Sprintf("stopping cluster %q", name), func() error {
		var jobs []func() error
		for _, machine := range c.Machines {
			jobs = append(jobs, func() error { return endMachine(machine) })
		}
		if err := together(jobs...); err != nil {
			return err
		}
		if interfaceExists(c.hostInterface()) {
			// The kernel removes it with the namespace of its other end, with a delay.
			if _, err := command("ip", "link", "delete", c.hostInterface()); err != nil && interfaceExists(c.hostInterface()) {
				return err
			}
		}
		if err := until(endLimit, c.removeCgroups); err != nil {
			return err
		}
		if err := until(endLimit, func() error { return os.RemoveAll(c.dir) }); err != nil {
			return err
		}
		return locked(func(root string) error {
			if others, err := clusters(root); err != nil || len(others) > 0 {
				return err
			}
			return restoreSettings(root)
		})
	})
	if err != nil {
		return err
	}
	if left := c.leftovers(); len(left) > 0 {
		return fmt.Errorf("cluster %q is stopped, but these are left:\n  %s", name, strings.Join(left, "\n  "))
	}
	fmt.Fprintln(os.Stderr, "  nothing is left: no process, mount, network interface, cgroup or file")
	return nil
}

// endMachine kills process 1 of a machine. The kernel then kills all its other processes.
func endMachine(p Process) error {
	if !p.alive() {
		// Process 1 ends only after all other processes of its namespace.
		return nil
	}
	if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return until(endLimit, func() error {
		if members := p.members(); len(members) > 0 {
			return fmt.Errorf("processes %v have not ended", members)
		}
		return nil
	})
}

// removeCgroups removes the innermost cgroups first. A cgroup is busy for a moment after its last
// process has ended.
func (c *Cluster) removeCgroups() error {
	for _, dir := range c.cgroups() {
		var found []string
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := len(found) - 1; i >= 0; i-- {
			if err := syscall.Rmdir(found[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing the cgroup %s: %w", found[i], err)
			}
		}
		// Fails if another cluster still uses the parent.
		_ = syscall.Rmdir(filepath.Dir(dir))
	}
	return nil
}

func (c *Cluster) cgroups() []string {
	var found []string
	for _, hierarchy := range append(cgroupHierarchies(), hybridMount) {
		if dir := filepath.Join(hierarchy, c.cgroup()); exists(dir) {
			found = append(found, dir)
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// leftovers lists what is left on the host. It does not rely on the record of the cluster.
func (c *Cluster) leftovers() []string {
	var left []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		text, _ := os.ReadFile(file)
		groups, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		if strings.Contains(string(text), c.dir+"/") || strings.Contains(string(groups), "/"+c.cgroup()+"/") {
			left = append(left, "process "+filepath.Base(filepath.Dir(file))+": "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	if interfaceExists(c.hostInterface()) {
		left = append(left, "interface "+c.hostInterface())
	}
	for _, dir := range c.cgroups() {
		left = append(left, "cgroup "+dir)
	}
	if exists(c.dir) {
		left = append(left, "directory "+c.dir)
	}
	return left
}
