package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Minimum values of kernel limits per user. All nodes share these limits, because every sidecar runs as
// the same user. Envoy uses two inotify instances and its agent one; the default limit is 128.
var leastSettings = map[string]int{"fs/inotify/max_user_instances": 8192}

// A raised setting: its old and new value.
type raised struct{ Before, Now int }

// locked runs do under a lock that all testbed programs of this user share.
func locked(do func(root string) error) error {
	root, err := clustersRoot()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(root, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do(root)
}

func readSetting(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func writeSetting(name string, value int) error {
	return os.WriteFile("/proc/sys/"+name, []byte(strconv.Itoa(value)), 0o644)
}

func settingsFile(root string) string { return filepath.Join(root, "settings.json") }

func readRaised(root string) (map[string]raised, error) {
	found := map[string]raised{}
	text, err := os.ReadFile(settingsFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return found, json.Unmarshal(text, &found)
}

// raiseSettings records the old value of a setting before it raises it.
func raiseSettings(root string) error {
	record, err := readRaised(root)
	if err != nil {
		return err
	}
	for name, least := range leastSettings {
		value, err := readSetting(name)
		if err != nil {
			return err
		}
		if value >= least {
			continue
		}
		record[name] = raised{value, least}
		text, err := json.Marshal(record)
		if err != nil {
			return err
		}
		if err := os.WriteFile(settingsFile(root), text, 0o600); err != nil {
			return err
		}
		if err := writeSetting(name, least); err != nil {
			fmt.Fprintf(os.Stderr, "cannot raise %s from %d to %d (%v): with more than about %d sidecars, Envoy exits at start\n", name, value, least, err, value/3)
		}
	}
	return nil
}

// restoreSettings restores the settings once no cluster is left. It keeps settings that have been
// changed since.
func restoreSettings(root string) error {
	record, err := readRaised(root)
	if err != nil {
		return err
	}
	for name, was := range record {
		value, err := readSetting(name)
		if err != nil {
			return err
		}
		if value == was.Now {
			if err := writeSetting(name, was.Before); err != nil {
				return err
			}
		}
	}
	err = os.Remove(settingsFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
