package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
)

//go:embed tare-cluster.yaml
var tareCluster string

// tareCluster returns the path for TARE_CLUSTER. With this file, plans run on this cluster unchanged.
func (c *Cluster) tareCluster() string { return c.path("tare-cluster.yaml") }

// writeForOthers writes the files for tare and for other users of the cluster, which `env` names.
func (c *Cluster) writeForOthers() error {
	text, err := tareSettings(c.chart(""))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(c.istioValues(), istioValues, 0o644),
		os.WriteFile(c.tareCluster(), []byte(text), 0o644))
}

// tareSettings returns the content of the file for TARE_CLUSTER, with Istio's values indented in it.
func tareSettings(charts string) (string, error) {
	if strings.ContainsAny(charts, "\"'#:{},[]& \t\n") {
		return "", fmt.Errorf("found the charts' path %q, expected one without characters that YAML has to quote: set XDG_CACHE_HOME to another directory", charts)
	}
	const indent = "        "
	values := indent + strings.ReplaceAll(strings.TrimSpace(string(istioValues)), "\n", "\n"+indent)
	// So that a plan can ask for another tag, such as istio/minimal@other.
	values = strings.Replace(values, "tag: "+imageTag, "tag: ${tare.version}", 1)
	return strings.NewReplacer("@CHARTS@", charts, "@VALUES@", values).Replace(tareCluster), nil
}

// printEnvironment prints the shell variables of `env`. It writes the files again, because an older
// program may have started the cluster.
func printEnvironment(c *Cluster) error {
	if err := c.writeForOthers(); err != nil {
		return err
	}
	for _, line := range [][2]string{
		{"TARE_KUBECONFIG", c.kubeconfig()},
		{"TARE_CLUSTER", c.tareCluster()},
		{"KUBECONFIG", c.kubeconfig()},
		{"TESTBED_CHARTS", c.chart("")},
		{"TESTBED_ISTIO_VALUES", c.istioValues()},
		{"TESTBED_REGISTRY", c.registry()},
		{"TESTBED_REGISTRY_LOGIN", c.registryLogin()},
		{"PATH", c.bin("") + ":$PATH"},
	} {
		fmt.Printf("export %s=%s\n", line[0], line[1])
	}
	return nil
}
