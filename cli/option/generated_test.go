package option

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// requireProgram skips a test without a program that make test installs.
func requireProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if testing.Short() {
		t.Skipf("%s is not installed", name)
	}
	t.Fatalf("%s is not installed; run testdata/install.sh", name)
}

// runCommand runs a command with an input, and returns both outputs.
func runCommand(t *testing.T, input string, argv ...string) (out, err string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "HOME="+t.TempDir(), "TERM=dumb")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// doc/options.md agrees with the option table.
func TestReference(t *testing.T) {
	const file = "../../doc/options.md"
	if *update {
		if err := os.WriteFile(file, []byte(Mpiexec(linuxSignals).Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != Mpiexec(linuxSignals).Reference() {
		t.Errorf("doc/options.md is not what the option table says (%v): go test ./cli/option -run TestReference -update", err)
	}
}

// The man page has every option and no syntax errors.
func TestMan(t *testing.T) {
	page := Mpiexec(linuxSignals).Man("1.2-test")
	table := Mpiexec(linuxSignals)
	for _, o := range table.options {
		for _, s := range append([]Spelling{{Dashed: o.Dashed}}, o.OtherSpellings...) {
			if !strings.Contains(page, `\fB`+escapeRoff(s.Dashed)+`\fR`) {
				t.Errorf("the page has no %s", s.Dashed)
			}
		}
		if !strings.Contains(page, escapeRoff(capitalize(o.Help()))) {
			t.Errorf("the page does not say what %s does", o.Dashed)
		}
	}
	requireProgram(t, "man")
	file := filepath.Join(t.TempDir(), "mpiexec.1")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	text, warnings := runCommand(t, "", "man", "--warnings=w", "-l", file)
	if warnings != "" {
		t.Errorf("man -l: %s", warnings)
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range []string{"NAME mpiexec - start parallel programs", "~/.config/mpiexec/config", "-pernode means -ppn=1.", "HYDRA_HOST_FILE"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page as printed has no %q", want)
		}
	}
}

// Help on a topic lists options that the short help leaves out.
func TestHelpOn(t *testing.T) {
	all, err := Mpiexec(linuxSignals).HelpOn("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range Mpiexec(linuxSignals).options {
		if !strings.Contains(all, "  "+o.Dashed) {
			t.Errorf("-help all has no %s", o.Dashed)
		}
	}
	for _, word := range Mpiexec(linuxSignals).topicWords() {
		text, err := Mpiexec(linuxSignals).HelpOn(word)
		if err != nil || !strings.Contains(all, text) || len(text) < 100 {
			t.Errorf("-help %s: %v, %q", word, err, text)
		}
	}
}
