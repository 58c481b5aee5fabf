package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// registryLogin returns the directory for DOCKER_CONFIG, whose config.json has the registry's password.
func (c *Cluster) registryLogin() string { return c.path("registry-login") }

// writeRegistry writes what the registry and its clients need: a password, a login file, and the registry's certificate
// authority for containerd. Only the nodes' containerd trusts this authority.
func (c *Cluster) writeRegistry() error {
	type object = map[string]any
	user := "testbed:" + rand.Text()
	auth := base64.StdEncoding.EncodeToString([]byte(user))
	login, err := json.Marshal(object{"auths": object{c.registry(): object{"auth": auth}}})
	if err != nil {
		return err
	}
	host := c.path("registries", c.registry())
	for _, dir := range []string{c.registryLogin(), host} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	trust := fmt.Sprintf("server = %q\nca = %q\n", "https://"+c.registry(), c.path("pki", "ca.crt"))
	for file, text := range map[string]string{
		c.path("pki", "registry.password"):              user,
		filepath.Join(c.registryLogin(), "config.json"): string(login),
		filepath.Join(host, "hosts.toml"):               trust,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
