// Runs a real Kubernetes cluster on one machine, built only from package registries; see ../../README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: testbed COMMAND [OPTIONS]

  deps                       install the Debian packages that the testbed needs (apt-get)
  check                      check whether this machine can run the testbed, and list what is missing
  build                      build all programs and images into the cache (once, 7 minutes on 2 cores)
  up [--nodes 3]             start a cluster; print its kubeconfig
  down                       stop the cluster, and check that nothing is left
  status                     show the cluster's nodes, processes, memory and kubeconfig
  istio [--set K=V]...       install Istio (base and istiod) with Helm
  istio-remove               uninstall Istio with its CRDs and namespace
  gateway-api                install the custom resource definitions of the Gateway API
  image import ARCHIVE       import an OCI archive into every node
  image push ARCHIVE NAME    push an OCI archive to the cluster's registry
  image programs NAME PLACE=FILE...
                             import an image of programs of this machine with their libraries
  node kill|start NODE       kill a node without warning, or start it again
  kill SERVICE               kill a service, which is then restarted: kube-apiserver, kubelet@node1 ...
  exec NODE PROGRAM...       run a program in a node's namespaces (node "control-plane": the servers)
  kubectl|helm ARGUMENTS...  run the built kubectl or helm on this cluster
  env                        print shell variables: kubeconfig, tare's cluster file, Istio's charts and values, registry, PATH

--name NAME (default "main"), before the command, selects one of several clusters.
`

func main() {
	if len(os.Args) == 2 && os.Args[1] == initCommand {
		exit(runInit())
	}
	options := flag.NewFlagSet("testbed", flag.ExitOnError)
	name := options.String("name", "main", "name of the cluster")
	options.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	_ = options.Parse(os.Args[1:])
	if options.NArg() == 0 {
		options.Usage()
		os.Exit(2)
	}
	command, rest := options.Arg(0), options.Args()[1:]
	if !validName(*name) {
		exit(fmt.Errorf("cluster name %q: expected 1 to 20 of a-z, 0-9 and -", *name))
	}
	exit(dispatch(*name, command, rest))
}

func dispatch(name, command string, rest []string) error {
	switch command {
	case "deps":
		return installDependencies()
	case "check":
		return check()
	case "build":
		_, err := build()
		return err
	case "up":
		flags := flag.NewFlagSet("up", flag.ExitOnError)
		nodes := flags.Int("nodes", 3, "number of nodes, 1 to 20")
		_ = flags.Parse(rest)
		return up(name, *nodes)
	case "down":
		return down(name)
	case "help":
		fmt.Print(usage)
		return nil
	}
	cluster, err := load(name)
	if err != nil {
		return err
	}
	return dispatchRunning(cluster, command, rest)
}

// dispatchRunning runs the commands that need a cluster.
func dispatchRunning(c *Cluster, command string, rest []string) error {
	switch {
	case command == "status":
		return status(c)
	case command == "env":
		return printEnvironment(c)
	case command == "istio":
		return installIstio(c, rest)
	case command == "istio-remove":
		return removeIstio(c)
	case command == "gateway-api":
		return installGatewayAPI(c)
	case command == "image" && len(rest) == 2 && rest[0] == "import":
		names, err := importImages(c, rest[1:])
		fmt.Print(names)
		return err
	case command == "image" && len(rest) == 3 && rest[0] == "push":
		return pushImage(c, rest[1], rest[2])
	case command == "image" && len(rest) >= 3 && rest[0] == "programs":
		return importPrograms(c, rest[1], rest[2:])
	case command == "node" && len(rest) == 2 && rest[0] == "kill":
		return killNode(c, rest[1])
	case command == "node" && len(rest) == 2 && rest[0] == "start":
		return startNode(c, rest[1])
	case command == "kill" && len(rest) == 1:
		return killService(c, rest[0])
	case command == "exec" && len(rest) >= 2:
		return execIn(c, rest[0], rest[1:])
	case command == "kubectl" || command == "helm":
		env := append(os.Environ(), "KUBECONFIG="+c.kubeconfig())
		path := c.bin(command)
		return syscall.Exec(path, append([]string{path}, rest...), env)
	}
	return fmt.Errorf("found %q, expected a command of `testbed help`", strings.Join(append([]string{command}, rest...), " "))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "testbed: "+err.Error())
	}
	if errors.Is(err, errInterrupted) {
		os.Exit(130)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

var errInterrupted = errors.New("interrupted")

// interrupted returns a channel for Ctrl-C and SIGTERM, so that the running command can clean up.
func interrupted() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return signals
}

func validName(name string) bool {
	return name != "" && len(name) <= 20 &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
