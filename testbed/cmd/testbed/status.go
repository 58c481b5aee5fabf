package main

import (
	"fmt"
	"os"
	"strings"
)

// status prints a line for each machine, then the nodes and pods from the API server.
func status(c *Cluster) error {
	names := append([]string{controlPlane}, c.nodeNames()...)
	fmt.Printf("%-14s %-8s %9s %11s  %s\n", "machine", "pid", "processes", "memory MiB", "address")
	total := 0
	for n, name := range names {
		machine := c.Machines[name]
		address := c.controlAddress()
		if n > 0 {
			address = c.nodeAddress(n)
		}
		if !machine.alive() {
			fmt.Printf("%-14s not running\n", name)
			continue
		}
		members := machine.members()
		memory := 0
		for _, pid := range members {
			memory += proportionalKib(pid)
		}
		total += memory
		fmt.Printf("%-14s %-8d %9d %11d  %s\n", name, machine.Pid, len(members), memory>>10, address)
	}
	fmt.Printf("%-14s %-8s %9s %11d\n\n", "all", "", "", total>>10)
	if c.Machines[controlPlane].alive() {
		for _, what := range [][]string{{"get", "nodes"}, {"get", "pods", "-A", "-o", "wide"}} {
			out, err := c.kubectl(what...)
			if err != nil {
				return err
			}
			fmt.Println(out)
		}
	}
	printEnvironment(c)
	return nil
}

// proportionalKib returns a process's proportional set size: shared pages are divided among the
// processes that share them.
func proportionalKib(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	kib := 0
	_, _ = fmt.Sscan(rest, &kib)
	return kib
}
