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

// noticesFile is the name of the file with the licenses of Go and of the modules of mpiexec.
const noticesFile = "NOTICES"

// license matches the names of files that contain the license of a module.
var license = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(txt|md))?$`)

// notices returns the licenses of Go and of all modules that the program contains.
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

// golist runs the go command in the sources of mpiexec and returns its output.
func golist(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// appendLicenses appends the license files in the directory dir, below a heading with the name of the module. It
// returns an error if dir has no license file, because a module without a license must not be distributed.
func appendLicenses(all *bytes.Buffer, module, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("license of %s: %w", module, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !license.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("license of %s: %w", module, err)
		}
		fmt.Fprintf(all, "\n==== %s: %s ====\n\n%s\n", module, e.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("license of %s: %s has none", module, dir)
	}
	return nil
}
