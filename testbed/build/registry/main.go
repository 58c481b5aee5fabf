// An image registry (CNCF Distribution) with TLS and a password, which keeps its images in a directory.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"golang.org/x/crypto/bcrypt"
)

var settings = template.Must(template.New("").Parse(`version: 0.1
log: {accesslog: {disabled: false}, level: warn}
storage: {filesystem: {rootdirectory: {{printf "%q" .Dir}}}}
auth: {htpasswd: {realm: testbed, path: {{printf "%q" .Users}}}}
http:
  addr: {{printf "%q" .Listen}}
  tls: {certificate: {{printf "%q" .Certificate}}, key: {{printf "%q" .Key}}}
`))

type options struct{ Listen, Dir, Users, Certificate, Key, password string }

func main() {
	var o options
	flag.StringVar(&o.Listen, "listen", "", "address and port")
	flag.StringVar(&o.Dir, "dir", "", "directory for images, and for the file of users beside it")
	flag.StringVar(&o.Certificate, "certificate", "", "file with the certificate")
	flag.StringVar(&o.Key, "key", "", "file with its key")
	flag.StringVar(&o.password, "password", "", "file with the user and the password, as USER:PASSWORD")
	flag.Parse()
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, "registry: "+err.Error())
		os.Exit(1)
	}
}

func serve(o options) error {
	text, err := os.ReadFile(o.password)
	if err != nil {
		return err
	}
	user, password, found := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !found {
		return errors.New(o.password + ": expected USER:PASSWORD")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return err
	}
	o.Users = o.Dir + ".htpasswd"
	if err := os.WriteFile(o.Users, []byte(user+":"+string(hash)+"\n"), 0o600); err != nil {
		return err
	}
	var written bytes.Buffer
	if err := settings.Execute(&written, o); err != nil {
		return err
	}
	parsed, err := configuration.Parse(&written)
	if err != nil {
		return err
	}
	server, err := registry.NewRegistry(context.Background(), parsed)
	if err != nil {
		return err
	}
	return server.ListenAndServe()
}
