package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const gatewayModule = "sigs.k8s.io/gateway-api"

// installGatewayAPI applies the custom resource definitions of the Gateway API (channel `standard`), in the version with
// which the testbed's Istio is built. They are files of a Go module.
func installGatewayAPI(c *Cluster) error {
	return step("installing the Gateway API", func() error {
		directory, err := moduleDirectory(gatewayModule)
		if err != nil {
			return err
		}
		// Some definitions are too large for the annotation of a client-side apply.
		_, err = c.kubectl("apply", "--server-side", "--filename", filepath.Join(directory, "config", "crd", "standard"))
		if err != nil {
			return err
		}
		_, err = c.kubectl("wait", "--for", "condition=Established", "--timeout", "30s", "customresourcedefinition",
			"gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
		return err
	})
}

// moduleDirectory returns the directory of a Go module that build/all pins. It downloads the module if it is missing.
func moduleDirectory(module string) (string, error) {
	source, err := source()
	if err != nil {
		return "", err
	}
	in := func(arguments ...string) (string, error) {
		command := exec.Command("go", arguments...)
		command.Dir = filepath.Join(source, "build", "all")
		command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		return run(command)
	}
	if _, err := in("mod", "download", module); err != nil {
		return "", err
	}
	directory, err := in("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module)
	return strings.TrimSpace(directory), err
}
