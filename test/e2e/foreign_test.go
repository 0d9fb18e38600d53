//go:build linux

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Another user puts a link, or a file, where mpiexec is about to write, in a directory for everybody: what the link leads to
// stays as it is, nothing is written for that user, and the message says whose it is.
func TestWritingWhereOthersHaveLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes links of another user")
	}
	t.Parallel()
	const stranger = 12345
	for what, args := range map[string][]string{
		"--report":                   {"--report", "FILE"},
		"--report-every":             {"--report", "FILE", "--report-every", "1"},
		"--trace":                    {"--trace", "FILE"},
		"--trace-svg":                {"--trace-svg", "FILE"},
		"--json":                     {"--json=FILE"},
		"--json of a plan":           {"--dry-run", "--json=FILE"},
		"--pmi-trace":                {"--pmi-trace", "FILE"},
		"--save-job":                 {"--save-job", "FILE"},
		"--save-cluster-state":       {"--dry-run", "--probe", "--save-cluster-state", "FILE"},
		"-outfile-pattern":           {"-outfile-pattern", "FILE"},
		"-errfile-pattern":           {"-errfile-pattern", "FILE"},
		"appended to":                {"-outfile-pattern", "FILE:append"},
		"--output-filename of a dir": {"--output-filename", "FILE/%r"},
		"--ckpt-dir":                 {"--ckpt-dir", "FILE/dir"},
	} {
		dir := filepath.Join(t.TempDir(), "sticky")
		file, victim := filepath.Join(dir, "file"), filepath.Join(t.TempDir(), "victim")
		below := strings.Contains(strings.Join(args, " "), "FILE/")
		for _, err := range []error{os.Mkdir(dir, 0o700), os.Chmod(dir, os.ModeSticky|0o777), os.WriteFile(victim, []byte("kept"), 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		line := []string{}
		for _, word := range append(args, "-n", "1", "sh", "-c", "echo out; echo err >&2") {
			line = append(line, strings.ReplaceAll(word, "FILE", file))
		}
		run := func(kind string) {
			t.Helper()
			if err := os.Lchown(file, stranger, stranger); err != nil {
				t.Fatal(err)
			}
			var errs strings.Builder
			cmd := exec.Command(binary, line...)
			cmd.Dir, cmd.Stderr = dir, &errs
			if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			if !strings.Contains(errs.String(), file+kind) || !strings.Contains(errs.String(), "\n  hint: give a file in a directory of your own\n") {
				t.Errorf("%s: the message is %q", what, errs.String())
			}
		}
		const link = " is a symbolic link that belongs to uid 12345, and is not followed"
		if below {
			os.Symlink(filepath.Dir(victim), file)
			run(link)
			if made, _ := os.ReadDir(filepath.Dir(victim)); len(made) != 1 {
				t.Errorf("%s: behind the link are %v", what, made)
			}
			continue
		}
		os.Symlink(victim, file)
		run(link)
		os.Remove(file)
		if err := os.WriteFile(file, []byte("theirs"), 0o666); err != nil {
			t.Fatal(err)
		}
		run(" belongs to uid 12345, so mpiexec does not write to it")
		for name, want := range map[string]string{victim: "kept", file: "theirs"} {
			if text, err := os.ReadFile(name); string(text) != want {
				t.Errorf("%s: %s is now %q, %v", what, name, text, err)
			}
		}
	}
}
