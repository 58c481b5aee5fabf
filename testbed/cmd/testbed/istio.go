package main

import (
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

//go:embed istio-values.yaml
var istioValues []byte

const istioNamespace = "istio-system"

func (c *Cluster) helm(arguments ...string) error {
	_, err := command(append([]string{c.bin("helm"), "--kubeconfig", c.kubeconfig()}, arguments...)...)
	return err
}

func (c *Cluster) chart(name string) string { return filepath.Join(c.Cache, "charts", name) }

// istioValues returns the path of the Helm values. Users can also install Istio with them.
func (c *Cluster) istioValues() string { return c.path("istio-values.yaml") }

// installIstio installs Istio with Helm. It passes `more` to Helm as options for istiod.
func installIstio(c *Cluster, more []string) error {
	if err := step("installing Istio's custom resource definitions", func() error {
		return c.helm("upgrade", "--install", "istio-base", c.chart("base"),
			"--namespace", istioNamespace, "--create-namespace", "--wait")
	}); err != nil {
		return err
	}
	return step("installing istiod", func() error {
		err := c.helm(append([]string{"upgrade", "--install", "istiod", c.chart("istiod"),
			"--namespace", istioNamespace, "--values", c.istioValues(), "--wait", "--timeout", "90s"}, more...)...)
		if err != nil {
			events, _ := c.kubectl("--namespace", istioNamespace, "events", "--types", "Warning")
			err = fmt.Errorf("%w\n%s", err, events)
		}
		return err
	})
}

func removeIstio(c *Cluster) error {
	return step("removing Istio", func() error {
		// Remove istiod first: without it, the webhook of istio-base does not reject requests.
		err := errors.Join(
			c.helm("uninstall", "istiod", "--namespace", istioNamespace, "--wait", "--ignore-not-found"),
			c.helm("uninstall", "istio-base", "--namespace", istioNamespace, "--wait", "--ignore-not-found"))
		if err != nil {
			return err
		}
		definitions, err := c.kubectl("get", "customresourcedefinitions", "--output", "name", "--selector", "app.kubernetes.io/part-of=istio")
		if err != nil {
			return err
		}
		if names := strings.Fields(definitions); len(names) > 0 {
			if _, err := c.kubectl(append([]string{"delete"}, names...)...); err != nil {
				return err
			}
		}
		_, err = c.kubectl("delete", "namespace", istioNamespace, "--ignore-not-found")
		return err
	})
}
