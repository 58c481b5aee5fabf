// One service of a shop, with the web framework chi. With -backend, its page calls another service.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	backend := flag.String("backend", "", "URL of the service that has the items")
	flag.Parse()

	items := func() ([]string, error) {
		if *backend == "" {
			return []string{"scales", "weights"}, nil
		}
		response, err := http.Get(*backend + "/items")
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		var found []string
		err = json.NewDecoder(response.Body).Decode(&found)
		return found, err
	}
	router := chi.NewRouter()
	router.Get("/health", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	router.Get("/items", func(w http.ResponseWriter, _ *http.Request) {
		found, err := items()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(found); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServe(*listen, router))
}
