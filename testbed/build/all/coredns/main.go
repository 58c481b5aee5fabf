// CoreDNS with the plugins that a cluster needs, and none that would bring a cloud's client along.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order is the order in which a request meets them.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "errors", "loadbalance", "cache", "kubernetes", "forward",
	}
	coremain.Run()
}
