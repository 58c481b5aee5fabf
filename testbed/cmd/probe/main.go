// The application of the testbed's own test: a server that returns what it received, and a client.
//
//	probe serve ADDRESS   answer every request with its headers, as JSON
//	probe get URL         print the body of the response; exit 1 with the reason if there is none
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fail("usage: probe serve ADDRESS | probe get URL")
	}
	switch os.Args[1] {
	case "serve":
		fail(serve(os.Args[2]).Error())
	case "get":
		if err := get(os.Args[2]); err != nil {
			fail(err.Error())
		}
	default:
		fail(fmt.Sprintf("found %q, expected serve or get", os.Args[1]))
	}
}

func serve(address string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"host": host, "peer": r.RemoteAddr, "headers": r.Header,
		})
	}))
}

func get(url string) error {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s: %s", answer.Status, body)
	}
	_, err = os.Stdout.Write(body)
	return err
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "probe: "+why)
	os.Exit(1)
}
