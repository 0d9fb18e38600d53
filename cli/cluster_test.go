package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"remshell/cli/option"
	"remshell/cli/request"
)

// The cluster file is searched in four places, in order. A file that is named must exist, and a file with errors is
// not skipped.
func TestClusterPlaces(t *testing.T) {
	const user, site = "/home/eve/.config/remshell/cluster.toml", "/etc/remshell/cluster.toml"
	tests := []struct {
		name, flag, variable, home string
		files                      []string
		want                       string // the file, or the error
	}{
		{"none", "", "", "/home/eve", nil, ""},
		{"the site's", "", "", "/home/eve", []string{site}, site},
		{"the user's before the site's", "", "", "/home/eve", []string{site, user}, user},
		{"no home", "", "", "", []string{site, user}, site},
		{"a home that is no folder", "", "", "/dev/null", []string{site}, site},
		{"the variable before both", "", "mine", "/home/eve", []string{site, user, "mine"}, "mine"},
		{"the flag before all", "this", "mine", "/home/eve", []string{site, user, "mine", "this"}, "this"},
		{"the flag's is missing", "this", "mine", "/home/eve", []string{site, user, "mine"}, "--cluster: this: file does not exist"},
		{"the variable's is missing", "", "mine", "/home/eve", []string{site, user}, "MPIEXEC_CLUSTER: mine: file does not exist"},
		{"the user's is broken", "", "", "/home/bad", []string{site}, "/home/bad/.config/remshell/cluster.toml: no node is defined; write [[node]] and name = \"NAME\""},
	}
	for _, test := range tests {
		read := func(name string) (string, error) {
			for _, file := range test.files {
				if file == name {
					return "[[node]]\nname = \"a\"\n", nil
				}
			}
			switch name {
			case "/dev/null/.config/remshell/cluster.toml":
				return "", &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
			case "/home/bad/.config/remshell/cluster.toml":
				return "", nil
			}
			return "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		getenv := func(name string) string {
			return map[string]string{"HOME": test.home, "MPIEXEC_CLUSTER": test.variable}[name]
		}
		site, err := findCluster(option.JobOptions{Cluster: test.flag}, getenv, read, func(string) error { return nil })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case site != nil:
			got = site.File
		}
		if got != test.want {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}

// A waiting request keeps its soft limits and its own error code when the cluster file changes.
func TestARequestThatIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[[node]]\nname = \"a\"\n")
	sys := System{Environ: []string{"HOME=/nowhere", "USER=me"}, Getwd: os.Getwd, FS: os.DirFS("/")}
	line, err := option.Mpiexec(signalNumber).Parse([]string{"--cluster", file, "--wait", "-n", "1", "true"}, optionSources(sys))
	if err != nil {
		t.Fatal(err)
	}
	c := invocation{sys: sys, line: line, ownErrorCode: 77}
	if _, err := c.locateHosts(); err != nil {
		t.Fatal(err)
	}
	if c.req, _, err = request.Make(c.line, c.inputs); err != nil {
		t.Fatal(err)
	}
	c.completeRequest()
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	again, changed, err := c.env.RereadRequest()
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if !again.Priority.Known || again.Priority != c.req.Priority {
		t.Errorf("priority %+v, want %+v", again.Priority, c.req.Priority)
	}
	if again.EndPolicy.ErrorCode != 77 || len(again.SoftLimits) == 0 || !reflect.DeepEqual(again.SoftLimits, c.req.SoftLimits) {
		t.Errorf("code %d, %d soft limits; want 77 and %d", again.EndPolicy.ErrorCode, len(again.SoftLimits), len(c.req.SoftLimits))
	}
}
