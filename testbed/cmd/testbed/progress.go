package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const heartbeat = 15 * time.Second

// step runs do and prints the name of the step, a line every heartbeat, and the duration.
func step(what string, do func() error) error {
	start := time.Now()
	seconds := func() float64 { return time.Since(start).Seconds() }
	fmt.Fprintf(os.Stderr, "%s ...\n", what)
	done := make(chan struct{})
	go func() {
		for ticker := time.NewTicker(heartbeat); ; {
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "  still %s, %.0f s\n", what, seconds())
			}
		}
	}()
	err := do()
	close(done)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(os.Stderr, "  %s: %.1f s\n", what, seconds())
	return nil
}

// run runs a command and returns its standard output. The error contains the command and the end of
// its output.
func run(command *exec.Cmd) (string, error) {
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	if err != nil {
		text := strings.TrimSpace(problems.String())
		if text == "" {
			text = strings.TrimSpace(out.String())
		}
		const most = 3000
		if len(text) > most {
			text = "..." + text[len(text)-most:]
		}
		err = fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, text)
	}
	return out.String(), err
}

func command(argv ...string) (string, error) {
	return run(exec.Command(argv[0], argv[1:]...))
}

func all(commands [][]string) error {
	for _, argv := range commands {
		if _, err := command(argv...); err != nil {
			return err
		}
	}
	return nil
}

// together runs all jobs at once and returns the first error.
func together(jobs ...func() error) error {
	results := make(chan error, len(jobs))
	for _, job := range jobs {
		go func() { results <- job() }()
	}
	var first error
	for range jobs {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// A permanent error cannot be resolved by waiting longer.
type permanent struct{ error }

// until calls holds until it returns nil or a permanent error, or until the time limit is reached.
func until(limit time.Duration, holds func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := holds()
		if err == nil || errors.As(err, &permanent{}) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s: %w", limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
