package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// "make install" copies the program, links its names mpijob and aprun but not mpirun, and writes manual pages and completions.
// The second time it replaces what is there.
func TestInstall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MPIEXEC_TEST_MAIN", "1") // this test is mpiexec
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := filepath.Join(t.TempDir(), "usr")
	for range 2 {
		if out, err := exec.Command("tools/install.sh", self, dir).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, test := range []struct{ program, args, want string }{
		{"mpiexec", "--help", "mpiexec [options] program"},
		{"mpijob", "help", "mpijob COMMAND [JOB] [options] [HOST...]"},
		{"aprun", "--help", "aprun [options] program"},
	} {
		out, err := exec.Command(filepath.Join(dir, "bin", test.program), test.args).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), test.want) {
			t.Errorf("%s: %v: %.80s", test.program, err, out)
		}
	}
	for name, want := range map[string]string{
		"man/man1/mpiexec.1": ".TH MPIEXEC 1", "man/man1/mpijob.1": ".TH MPIJOB 1", "man/man1/aprun.1": ".TH APRUN 1",
		"bash-completion/completions/mpiexec": " mpijob\n", "bash-completion/completions/mpijob": " mpijob\n", "bash-completion/completions/aprun": " mpijob\n",
		"zsh/site-functions/_mpiexec": "#compdef ", "fish/vendor_completions.d/mpiexec.fish": " mpijob\n", "fish/vendor_completions.d/mpijob.fish": " mpijob\n",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, "share", name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %d bytes without %q", name, err, len(text), want)
		}
	}
	if names, err := filepath.Glob(dir + "/bin/*"); err != nil || len(names) != 3 {
		t.Errorf("%q, %v", names, err)
	}
}
