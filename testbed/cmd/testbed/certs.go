package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// Certificates are not renewed, so they are valid for longer than a testbed runs.
const certificateLife = 365 * 24 * time.Hour

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

type identity struct{ certificate, key []byte }

func newAuthority() (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template := template(pkix.Name{CommonName: "tare-testbed"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return authority{certificate, key, encode("CERTIFICATE", der)}, err
}

func template(subject pkix.Name) *x509.Certificate {
	// 127 random bits are unique without a registry.
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
	}
}

// issue makes a certificate for a client and, if it has names or addresses, also for a server.
func (a authority) issue(user, group string, names []string, addresses ...string) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	template := template(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(names)+len(addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.DNSNames = names
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return identity{}, err
	}
	text, err := encodeKey(key)
	return identity{encode("CERTIFICATE", der), text}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeCertificates makes every certificate and kubeconfig of a cluster, in its directory `pki`.
func (c *Cluster) writeCertificates() error {
	if err := os.MkdirAll(c.path("pki"), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	caKey, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": ca.pem, "ca.key": caKey}
	add := func(name, user, group string, names []string, addresses ...string) (identity, error) {
		made, err := ca.issue(user, group, names, addresses...)
		files[name+".crt"], files[name+".key"] = made.certificate, made.key
		return made, err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if _, err := add("apiserver", "kube-apiserver", "", names, c.controlAddress(), c.address(128, 1), "127.0.0.1"); err != nil {
		return err
	}
	if _, err := add("registry", "registry", "", nil, c.controlAddress()); err != nil {
		return err
	}
	if _, err := add("apiserver-kubelet", "kube-apiserver-kubelet", "system:masters", nil); err != nil {
		return err
	}
	if _, err := add("service-accounts", "service-accounts", "", nil); err != nil {
		return err
	}
	for i, node := range c.nodeNames() {
		made, err := add("kubelet-"+node, "system:node:"+node, "system:nodes", []string{node}, c.nodeAddress(i+1))
		if err != nil {
			return err
		}
		files["kubelet-"+node+".kubeconfig"] = c.kubeconfigFor(ca.pem, made)
	}
	for file, user := range map[string][2]string{
		"admin":                   {"admin", "system:masters"},
		"kube-controller-manager": {"system:kube-controller-manager", ""},
		"kube-scheduler":          {"system:kube-scheduler", ""},
		"kube-proxy":              {"system:kube-proxy", ""},
	} {
		made, err := ca.issue(user[0], user[1], nil)
		if err != nil {
			return err
		}
		files[file+".kubeconfig"] = c.kubeconfigFor(ca.pem, made)
	}
	for name, text := range files {
		if err := os.WriteFile(c.path("pki", name), text, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(c.kubeconfig(), files["admin.kubeconfig"], 0o600)
}

// kubeconfigFor returns a kubeconfig in JSON, which is also valid YAML.
func (c *Cluster) kubeconfigFor(ca []byte, who identity) []byte {
	type object = map[string]any
	name := "tare-testbed-" + c.Name
	base := base64.StdEncoding.EncodeToString
	text, _ := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{
			"server": "https://" + c.apiServer(), "certificate-authority-data": base(ca)}}},
		"users": []object{{"name": name, "user": object{
			"client-certificate-data": base(who.certificate), "client-key-data": base(who.key)}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name}}},
	}, "", "  ")
	return text
}
