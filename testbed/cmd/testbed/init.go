package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The name under which `testbed` starts itself as process 1 of a machine.
const initCommand = "machine-init"

// A Machine is what process 1 of a set of namespaces does: it prepares them and keeps services running.
type Machine struct {
	Hostname string
	// Cgroups that process 1 enters, one per hierarchy.
	Cgroups  []string
	Setup    [][]string
	Services []Service
}

// A Service is a program that is restarted when it ends.
type Service struct {
	Name string
	Argv []string
	// The start waits for this Unix socket (a path) or TCP address (host:port).
	After string
	Log   string
}

const (
	restartPause = 500 * time.Millisecond
	afterPoll    = 20 * time.Millisecond
)

// runInit is process 1: when it is killed, the kernel ends everything in its namespaces, so no
// container, mount, interface or rule can outlive it.
func runInit() error {
	var m Machine
	if err := json.NewDecoder(os.Stdin).Decode(&m); err != nil {
		return fmt.Errorf("reading the machine from standard input: %w", err)
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("found process id %d, expected 1: this command is internal to testbed", os.Getpid())
	}
	for _, cgroup := range m.Cgroups {
		if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("1"), 0o644); err != nil {
			// "0" means the writing process in every PID namespace.
			if err = os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("0"), 0o644); err != nil {
				return err
			}
		}
	}
	if err := syscall.Sethostname([]byte(m.Hostname)); err != nil {
		return err
	}
	for _, argv := range m.Setup {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
	}
	s := supervisor{running: map[int]Service{}}
	go func() {
		for _, service := range m.Services {
			waitFor(service.After)
			s.start(service)
		}
	}()
	s.reap()
	return nil
}

type supervisor struct {
	sync.Mutex
	running map[int]Service
}

// start holds the lock, so that a child that ends at once is recorded before it is reaped.
func (s *supervisor) start(service Service) {
	s.Lock()
	defer s.Unlock()
	log, err := os.OpenFile(service.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer log.Close()
	empty, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer empty.Close()
	process, err := os.StartProcess(service.Argv[0], service.Argv, &os.ProcAttr{
		Files: []*os.File{empty, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		time.AfterFunc(restartPause, func() { s.start(service) })
		return
	}
	s.running[process.Pid] = service
	_ = process.Release()
}

// reap waits for every child: services, which it restarts, and orphans of containers.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil {
			// No child yet, or a signal.
			time.Sleep(afterPoll)
			continue
		}
		s.Lock()
		service, known := s.running[pid]
		delete(s.running, pid)
		s.Unlock()
		if known {
			fmt.Fprintf(os.Stderr, "%s %s exited (status %d), restarting it\n",
				time.Now().UTC().Format(time.RFC3339), service.Name, status)
			time.AfterFunc(restartPause, func() { s.start(service) })
		}
	}
}

func waitFor(what string) {
	if what == "" {
		return
	}
	network := "tcp"
	if strings.HasPrefix(what, "/") {
		network = "unix"
	}
	for {
		connection, err := net.DialTimeout(network, what, time.Second)
		if err == nil {
			_ = connection.Close()
			return
		}
		time.Sleep(afterPoll)
	}
}
