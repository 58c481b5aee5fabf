package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAddressRangesOfAClusterDoNotOverlap(t *testing.T) {
	c := &Cluster{Slot: 9, Nodes: 20}
	all := netip.MustParsePrefix(c.address(0, 0) + "/16")
	ranges := []netip.Prefix{
		netip.MustParsePrefix(c.serviceRange()),
		netip.MustParsePrefix(c.address(255, 0) + "/24"),
	}
	pods := netip.MustParsePrefix(c.podRanges())
	for n := 1; n <= c.Nodes; n++ {
		own := netip.MustParsePrefix(c.podRange(n))
		if !pods.Contains(own.Addr()) {
			t.Errorf("%s is outside %s", own, pods)
		}
		ranges = append(ranges, own)
	}
	for i, one := range ranges {
		if !all.Contains(one.Addr()) {
			t.Errorf("%s is outside %s", one, all)
		}
		for _, other := range ranges[i+1:] {
			if one.Overlaps(other) {
				t.Errorf("%s and %s overlap", one, other)
			}
		}
	}
	if !ranges[0].Contains(netip.MustParseAddr(c.dnsAddress())) {
		t.Errorf("%s is outside the range of Services", c.dnsAddress())
	}
}

func TestOnlyNodesOfTheClusterHaveNumbers(t *testing.T) {
	c := &Cluster{Nodes: 3}
	for i, name := range c.nodeNames() {
		if n, err := c.nodeNumber(name); n != i+1 || err != nil {
			t.Errorf("%s: found %d, %v", name, n, err)
		}
	}
	for _, name := range []string{"node0", "node4", "node01", "3", "control-plane", ""} {
		if _, err := c.nodeNumber(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestCertificatesChainToTheAuthority(t *testing.T) {
	c := &Cluster{Name: "t", Nodes: 2, dir: t.TempDir()}
	if err := c.writeCertificates(); err != nil {
		t.Fatal(err)
	}
	read := func(name string) *x509.Certificate {
		text, err := os.ReadFile(c.path("pki", name))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	roots := x509.NewCertPool()
	roots.AddCert(read("ca.crt"))
	for name, host := range map[string]string{
		"apiserver.crt":     c.controlAddress(),
		"registry.crt":      c.controlAddress(),
		"kubelet-node2.crt": c.nodeAddress(2),
	} {
		if _, err := read(name).Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read("kubelet-node2.crt").VerifyHostname(c.nodeAddress(1)); err == nil {
		t.Error("the certificate of node2 is valid for node1")
	}
	info, err := os.Stat(c.kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}

func TestAStoredProcessIsNotConfusedWithALaterOne(t *testing.T) {
	own, err := describe(os.Getpid())
	if err != nil || !own.alive() {
		t.Fatalf("found %+v, %v", own, err)
	}
	if !slices.Contains(own.members(), os.Getpid()) {
		t.Error("this process is not in its own namespace")
	}
	text, _ := json.Marshal(own)
	var again Process
	if err := json.Unmarshal(text, &again); err != nil || again != own {
		t.Errorf("found %+v, %v, expected %+v", again, err, own)
	}
	again.Started = "1"
	if again.alive() {
		t.Error("a later process with the same id was taken for the recorded one")
	}
}

func TestTheErrorOfAStepNamesTheStep(t *testing.T) {
	err := step("doing", func() error { _, err := command("sh", "-c", "echo why >&2; exit 3"); return err })
	if err == nil || !strings.HasPrefix(err.Error(), "doing: sh -c") || !strings.HasSuffix(err.Error(), "exit status 3: why") {
		t.Errorf("found %v", err)
	}
}

func TestServiceNamesMatchTheirPrograms(t *testing.T) {
	c := &Cluster{Nodes: 1, Cache: "/cache", dir: "/cluster"}
	for _, service := range append(c.controlServices(), c.nodeServices("node1")...) {
		program, _, _ := strings.Cut(service.Name, "@")
		if service.Argv[0] != "/cache/bin/"+program {
			t.Errorf("%s starts %s", service.Name, service.Argv[0])
		}
		for _, argument := range service.Argv {
			if strings.Contains(argument, "0.0.0.0") {
				t.Errorf("%s listens on all addresses: %s", service.Name, argument)
			}
		}
	}
}
