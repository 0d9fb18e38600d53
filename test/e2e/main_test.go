//go:build linux

// Package e2e tests the whole program: the real binary, on the hosts of a field, with
// real sshds and real MPI programs.
//
//	test --- newBed(t, testbed.Options) --> hosts n1..nN, nothing of ours on them
//	  |----- bed.run(t, args...) -------> result: stdout, stderr, code, time
//	  |----- bed.start(t, job) ---------> running: text as it comes, signals, wait
//	  '----- at the end of the test ----> no process and no half-written file is left
//
// Without root the same tests run on hosts that are sshds of this user; what only
// namespaces can show is left out there. -short leaves everything out. With E2E_LONG
// set, what is to be right many times in a row is tried so often.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "remshell/cli" // or go test would take old results for those of a changed program
	"remshell/tools/testbed"
)

// binary is the program under test. It lies below bin/, which hosts do not see unless
// their home is shared.
var binary string

// repoRoot is the root of the repository.
var repoRoot string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: left out by -short")
		return
	}
	catchIgnoredSignals()
	setParallel(3)
	code, err := withBinary(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// setParallel has at least so many tests run side by side, unless -parallel was given: they mostly
// wait for timeouts and for hosts, and not for a CPU.
func setParallel(most int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < most {
		flag.Set("test.parallel", fmt.Sprint(most))
	}
}

// catchIgnoredSignals keeps the programs under test from ignoring what we were started to ignore,
// by nohup or as a background job of a script: what is caught is no more ignored behind an
// exec.
func catchIgnoredSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// withBinary builds the program once for all tests and removes it after them.
func withBinary(run func() int) (code int, err error) {
	if repoRoot, err = testbed.Repo(); err != nil {
		return 1, err
	}
	if err := os.MkdirAll(filepath.Join(repoRoot, "bin"), 0o755); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "bin"), "e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "mpiexec")
	if err := errors.Join(os.Chmod(dir, 0o755), build(binary, ".")); err != nil {
		return 1, err
	}
	return run(), nil
}

// build compiles a program of ours, mpiexec as make does.
func build(output, pkg string) error {
	flags := []byte("-s -w")
	if pkg == "." {
		var err error
		ask := exec.Command("tools/ldflags.sh", "development")
		ask.Dir = repoRoot
		if flags, err = ask.Output(); err != nil {
			return fmt.Errorf("tools/ldflags.sh: %w", err)
		}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", strings.TrimSpace(string(flags)), "-o", output, pkg)
	cmd.Dir = repoRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, out)
	}
	return nil
}

// compileMPIPrograms makes the programs of testdata once; false means that there is no MPI here.
var compileMPIPrograms = sync.OnceValue(func() bool {
	return exec.Command(filepath.Join(repoRoot, "testdata", "programs.sh")).Run() == nil
})

// mpiProgram returns the path of an MPI program of testdata/mpi: hello, misc, hello.mpich4. On
// the hosts it has the same path.
func mpiProgram(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(repoRoot, "build", "programs", name)
	if !compileMPIPrograms() {
		t.Skip("no MPI on this machine; run as root: testdata/install.sh")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("not compiled on this machine: %v", err)
	}
	return path
}
