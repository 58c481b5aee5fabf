package main

import (
	"strings"
	"testing"
)

func TestTheClusterFileHasChartsAndIstioValues(t *testing.T) {
	text, err := tareSettings("/cache/charts")
	if err != nil {
		t.Fatal(err)
	}
	for _, expected := range []string{
		"\nnote: ",
		"\n    version: testbed",
		"\n          tag: ${tare.version}\n",
		"chart: /cache/charts/base,",
		"chart: /cache/charts/istiod,",
		"\n      istiod:\n        # What",
		"\n        telemetry:\n          enabled: false\n",
		"\n        meshConfig: {defaultConfig: {proxyStatsMatcher: {inclusionPrefixes: [cluster.inbound]}}}\n",
	} {
		if !strings.Contains(text, expected) {
			t.Errorf("found no %q in\n%s", expected, text)
		}
	}
	_, values, _ := strings.Cut(text, "      istiod:\n")
	for line := range strings.Lines(values) {
		if !strings.HasPrefix(line, "        ") || strings.Contains(line, "@") {
			t.Errorf("found %q, expected a line of Istio's values", line)
		}
	}
	if _, err := tareSettings("/my cache/charts"); err == nil {
		t.Error("a path that YAML has to quote was accepted")
	}
}
