package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Both packages are installed, run and removed again, on a copy of this machine that has
// other people's mpirun.
func TestPackages(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs mounts of its own, and so root")
	}
	for _, tool := range []string{"dpkg", "rpm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v; run as root: testdata/install.sh", err)
		}
	}
	dir := t.TempDir()
	pack := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(repoRoot, "tools", "pack"), ".",
		"-only", "linux-"+runtime.GOARCH, "-version", "1.0", "-epoch", "1700000000", "-out", dir)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	deb, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	rpm, _ := filepath.Glob(filepath.Join(dir, "*.rpm"))
	if len(deb) != 1 || len(rpm) != 1 {
		t.Fatalf("packages: %v and %v", deb, rpm)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(repoRoot, "testdata", "packages.sh"), deb[0], rpm[0]).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
