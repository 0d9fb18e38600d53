//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// jobScript writes the guide's script for a batch system to a folder that all hosts see, with the programs that it calls.
func jobScript(t *testing.T, system, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "guide.sh")
	writeJobBox(t, system, file)
	if err := copyProgram(mpiProgram(t, "hello"), filepath.Join(dir, "hello")); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeJobBox writes the guide's box for a job to a file.
func writeJobBox(t *testing.T, job, file string) {
	t.Helper()
	all := readBoxes(t, "batch")
	i := slices.IndexFunc(all, func(b guideBox) bool { return b.words == "sh job="+job })
	if i < 0 {
		t.Fatalf("doc/guide/batch.md has no box for %s", job)
	}
	if err := os.WriteFile(file, []byte(all[i].script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// jobPath is the PATH of a job that is to find mpiexec.
func jobPath(dir string) string { return "PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin" }

// checkScriptOutput tells what is wrong with the output of the guide's script.
func checkScriptOutput(t *testing.T, out, starter string) {
	t.Helper()
	for text, want := range map[string]int{" of 4 on ": 4, "4 tasks, 4 CPUs, starter " + starter + " (tight)": 1, "resources_used.cput = ": 1} {
		if n := strings.Count(out, text); n != want {
			t.Errorf("%q stands there %d times, want %d:\n%s", text, n, want, out)
		}
	}
}

// The guide's script for Slurm runs as it stands there.
func slurmScript(t *testing.T, s *slurmCluster) {
	file := jobScript(t, "slurm", s.dir)
	out, errs, code := s.runOnHead(t, "sbatch", "--wait", "-D", s.dir, "-o", file+".out", "--export=ALL,"+jobPath(s.dir), file)
	text, _ := os.ReadFile(file + ".out")
	if code != 0 {
		t.Fatalf("exit %d: %s%s%s", code, out, errs, text)
	}
	checkScriptOutput(t, string(text), "srun")
}

// The guide's script for Grid Engine runs as it stands there.
func sgeScript(t *testing.T, s *sgeCluster) {
	j := s.submit(t, jobScript(t, "sge", s.dir), "-wd", s.dir, "-v", jobPath(s.dir))
	checkScriptOutput(t, j.wait(t), "qrsh")
}
