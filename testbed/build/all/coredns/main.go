// CoreDNS with the plugins that a cluster needs, and without those that depend on cloud clients.
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
	// A request passes the plugins in this order.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "errors", "loadbalance", "cache", "kubernetes", "forward",
	}
	coremain.Run()
}
