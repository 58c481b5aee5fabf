package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Increase the number when the images of the cache change.
const imageRecipe = "images 1"

const (
	imagePrefix = "localhost/tare/"
	imageTag    = "testbed"

	pushNamespace = "push" // of containerd; the kubelet does not see its images
)

// An image FROM scratch with one uncompressed layer.
type image struct {
	name       string
	files      map[string]string // path in the image -> file on this machine
	entrypoint []string
	user       string // root when empty
}

func imageName(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return imagePrefix + name + ":" + imageTag
}

func writeImages(staging, envoy, bootstrap string) error {
	bin := func(name string) string { return filepath.Join(staging, "bin", name) }
	proxy := map[string]string{
		"usr/local/bin/pilot-agent":                     bin("pilot-agent"),
		"usr/local/bin/envoy":                           envoy,
		"var/lib/istio/envoy/envoy_bootstrap_tmpl.json": bootstrap,
	}
	// Envoy and nft are the only programs that are not static.
	nft, err := command("sh", "-c", "command -v nft")
	if err != nil {
		return fmt.Errorf("nft is missing for the sidecar's image: apt-get install nftables")
	}
	proxy["usr/sbin/nft"] = strings.TrimSpace(nft)
	if err := addLibraries(proxy, envoy, proxy["usr/sbin/nft"]); err != nil {
		return err
	}
	for _, image := range []image{
		{"pause", map[string]string{"pause": bin("pause")}, []string{"/pause"}, ""},
		{"coredns", map[string]string{"coredns": bin("coredns")}, []string{"/coredns"}, ""},
		{"pilot", map[string]string{"usr/local/bin/pilot-discovery": bin("pilot-discovery")}, []string{"/usr/local/bin/pilot-discovery"}, "1337:1337"},
		{"proxyv2", proxy, []string{"/usr/local/bin/pilot-agent"}, ""},
	} {
		if err := image.write(filepath.Join(staging, "images", image.name+".tar")); err != nil {
			return fmt.Errorf("image %s: %w", image.name, err)
		}
	}
	return nil
}

// importPrograms imports an image of programs of this machine (PLACE=FILE), with their libraries, into every node.
func importPrograms(c *Cluster, name string, programs []string) error {
	files := map[string]string{}
	for _, program := range programs {
		place, file, found := strings.Cut(program, "=")
		if !found {
			return fmt.Errorf("found %q, expected PLACE=FILE", program)
		}
		files[strings.TrimPrefix(place, "/")] = file
		if err := addLibraries(files, file); err != nil {
			return err
		}
	}
	archive := c.path("programs.tar")
	defer os.Remove(archive)
	if err := (image{name, files, nil, ""}).write(archive); err != nil {
		return err
	}
	_, err := importImages(c, []string{archive})
	return err
}

// addLibraries adds the libraries of programs to the files of an image.
func addLibraries(files map[string]string, programs ...string) error {
	for _, program := range programs {
		libraries, err := libraries(program)
		if err != nil {
			return err
		}
		for _, library := range libraries {
			files[strings.TrimPrefix(library, "/")] = library
		}
	}
	return nil
}

// libraries returns the libraries and the loader of a program, as ldd lists them.
func libraries(program string) ([]string, error) {
	out, err := command("ldd", program)
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				found = append(found, word)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("ldd %s: found no library in %q", program, out)
	}
	return found, nil
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// write makes an OCI archive: an image layout in a tar file.
func (i image) write(archive string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	layer, err := os.CreateTemp(filepath.Dir(archive), ".layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	hash := sha256.New()
	if err := i.writeLayer(io.MultiWriter(layer, hash)); err != nil {
		return err
	}
	layerDigest := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	type object = map[string]any
	configText, _ := json.Marshal(object{
		"architecture": architecture(), "os": "linux",
		"config": object{"Entrypoint": i.entrypoint, "WorkingDir": "/", "User": i.user,
			"Env": []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{layerDigest}},
	})
	config := describeBlob("application/vnd.oci.image.config.v1+json", configText)
	manifestText, _ := json.Marshal(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": []descriptor{{"application/vnd.oci.image.layer.v1.tar", layerDigest, size, nil}},
	})
	manifest := describeBlob("application/vnd.oci.image.manifest.v1+json", manifestText)
	name := imageName(i.name)
	manifest.Annotations = map[string]string{
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": name[strings.LastIndex(name, ":")+1:],
	}
	index, _ := json.Marshal(object{"schemaVersion": 2, "manifests": []descriptor{manifest}})

	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	out := tar.NewWriter(file)
	blob := func(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }
	for _, entry := range []struct {
		name string
		size int64
		from io.Reader
	}{
		{"oci-layout", 30, strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", int64(len(index)), strings.NewReader(string(index))},
		{blob(manifest.Digest), manifest.Size, strings.NewReader(string(manifestText))},
		{blob(config.Digest), config.Size, strings.NewReader(string(configText))},
		{blob(layerDigest), size, layer},
	} {
		if err := out.WriteHeader(&tar.Header{Name: entry.name, Mode: 0o644, Size: entry.size}); err != nil {
			return err
		}
		if _, err := io.Copy(out, entry.from); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return file.Close()
}

func describeBlob(mediaType string, text []byte) descriptor {
	digest := sha256.Sum256(text)
	return descriptor{mediaType, "sha256:" + hex.EncodeToString(digest[:]), int64(len(text)), nil}
}

// writeLayer writes the same bytes for the same files: sorted, without times and owners.
func (i image) writeLayer(to io.Writer) error {
	out := tar.NewWriter(to)
	places := make([]string, 0, len(i.files))
	for place := range i.files {
		places = append(places, place)
	}
	sort.Strings(places)
	made := map[string]bool{}
	for _, dir := range []string{"tmp/"} {
		made[dir] = true
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o1777}); err != nil {
			return err
		}
	}
	for _, place := range places {
		for end, letter := range place {
			if dir := place[:end] + "/"; letter == '/' && !made[dir] {
				made[dir] = true
				if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
					return err
				}
			}
		}
		if err := addFile(out, place, i.files[place]); err != nil {
			return err
		}
	}
	return out.Close()
}

func addFile(out *tar.Writer, place, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: place, Mode: int64(info.Mode().Perm() | 0o444), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}

// importImages imports archives into the containerd of each node and returns the images' names.
func importImages(c *Cluster, archives []string) (string, error) {
	var jobs []func() error
	names := make([]string, c.Nodes)
	for n, node := range c.nodeNames() {
		jobs = append(jobs, func() error {
			for _, archive := range archives {
				output, err := importImage(c, node, archive, "k8s.io")
				if err != nil {
					return fmt.Errorf("%s: %w", node, err)
				}
				for line := range strings.Lines(output) {
					// unpacking NAME (DIGEST)...done
					if words := strings.Fields(line); len(words) > 1 && words[0] == "unpacking" {
						names[n] += words[1] + "\n"
					}
				}
			}
			return nil
		})
	}
	err := together(jobs...)
	return names[0], err
}

// pushImage pushes the image of an archive to the cluster's registry. No node has the image then.
func pushImage(c *Cluster, archive, name string) error {
	user, err := os.ReadFile(c.path("pki", "registry.password"))
	if err != nil {
		return err
	}
	node := c.nodeNames()[0]
	output, err := importImage(c, node, archive, pushNamespace)
	if err != nil {
		return err
	}
	words := strings.Fields(output)
	at := slices.Index(words, "unpacking")
	if at < 0 || at+1 >= len(words) {
		return fmt.Errorf("found no image in %q", output)
	}
	imported, to := words[at+1], c.registry()+"/"+name
	images := func(arguments ...string) error {
		_, err := c.inMachine(node, append([]string{c.bin("ctr"), "--namespace", pushNamespace, "images"}, arguments...)...)
		return err
	}
	pushed := images("push", "--local", "--user", strings.TrimSpace(string(user)), "--tlscacert", c.path("pki", "ca.crt"), to, imported)
	return errors.Join(pushed, images("remove", "--sync", imported))
}

// importImage passes the archive on standard input, because a node does not see all files of the host.
func importImage(c *Cluster, node, archive, namespace string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close()
	enter, err := c.enter(node, []string{c.bin("ctr"), "--namespace", namespace, "images", "import", "--local", "-"})
	if err != nil {
		return "", err
	}
	enter.Stdin = file
	return run(enter)
}
