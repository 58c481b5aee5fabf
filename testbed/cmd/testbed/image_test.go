package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func contents(t *testing.T, archive io.Reader) (names []string, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		files[header.Name] = text
	}
}

func TestDigestsMatchTheBlobsOfAnArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := image{"one", map[string]string{"usr/bin/program": program, "program": program}, []string{"/program"}, "7:7"}
	first, second := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	for _, archive := range []string{first, second} {
		if err := made.write(archive); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(second)
	if len(a) == 0 || !bytes.Equal(a, b) {
		t.Fatal("found two different archives of the same files")
	}
	_, files := contents(t, bytes.NewReader(a))
	blobs := 0
	for name, text := range files {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok {
			sum := sha256.Sum256(text)
			if found := hex.EncodeToString(sum[:]); found != digest {
				t.Errorf("blob %s: found %s", digest, found)
			}
			blobs++
		}
	}
	if blobs != 3 {
		t.Errorf("found %d blobs, expected manifest, configuration and layer", blobs)
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if name := index.Manifests[0].Annotations["io.containerd.image.name"]; name != "localhost/tare/one:testbed" {
		t.Errorf("found the name %q", name)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	blob := func(d descriptor) []byte { return files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")] }
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(blob(manifest.Config), []byte(`"User":"7:7"`)) {
		t.Errorf("found no user in %s", blob(manifest.Config))
	}
	names, layer := contents(t, bytes.NewReader(blob(manifest.Layers[0])))
	if expected := []string{"tmp/", "program", "usr/", "usr/bin/", "usr/bin/program"}; !slices.Equal(names, expected) {
		t.Errorf("found %v, expected %v", names, expected)
	}
	if string(layer["usr/bin/program"]) != "program" {
		t.Errorf("found %q in the layer", layer["usr/bin/program"])
	}
}

func TestImageNames(t *testing.T) {
	for given, expected := range map[string]string{
		"tare":            "localhost/tare/tare:testbed",
		"localhost/a/b:1": "localhost/a/b:1",
	} {
		if found := imageName(given); found != expected {
			t.Errorf("%s: found %s, expected %s", given, found, expected)
		}
	}
}
