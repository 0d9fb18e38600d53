package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// noticesFile is where an archive and a package have the licenses of others.
const noticesFile = "NOTICES"

// license matches the files in which a module says under which terms it may be handed on.
var license = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(txt|md))?$`)

// notices are the licenses of all that the program contains of others: Go's own, and those of its modules.
func notices(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "mpiexec contains the Go runtime and library, and these modules, under the terms below.\n")
	goRoot, err := golist("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if err := appendLicenses(&all, "Go "+info.GoVersion, goRoot); err != nil {
		return nil, err
	}
	for _, module := range info.Deps {
		dir, err := golist("list", "-m", "-f", "{{.Dir}}", module.Path)
		if err != nil {
			return nil, err
		}
		if err := appendLicenses(&all, module.Path+" "+module.Version, dir); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// golist asks the go command something about the sources.
func golist(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// appendLicenses adds what a folder has of them. A module without any cannot be handed on.
func appendLicenses(all *bytes.Buffer, what, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("license of %s: %w", what, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !license.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("license of %s: %w", what, err)
		}
		fmt.Fprintf(all, "\n==== %s: %s ====\n\n%s\n", what, e.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("license of %s: %s has none", what, dir)
	}
	return nil
}
