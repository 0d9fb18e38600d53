//go:build linux

// Package e2e tests the whole program: the real binary on the hosts of a test cluster (package
// testbed), with real sshds and real MPI programs.
//
//	test --- newTestCluster(t, testbed.Options) --> hosts n1..nN without any file of mpiexec
//	  |----- cluster.runMpiexec(t, args...) ------> result: stdout, stderr, exit code, time
//	  |----- cluster.startMpiexec(t, call) -------> runningJob: await output, send signals, wait
//	  '----- at the end of the test --------------> fails if a process or a partial file is left
//
// Without root the tests run on sshds of this user; tests that need namespaces are skipped. With
// -short all tests are skipped. With E2E_LONG set, tests of rare races run many more rounds.
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

	_ "remshell/cli" // makes go test rerun the tests when the program has changed
	"remshell/tools/testbed"
)

// binary is the path of mpiexec under test. It is below bin/, which hosts do not see unless their
// home is shared.
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

// setParallel raises the number of tests that run in parallel to least, unless -parallel was given.
// Tests mostly wait for timeouts and hosts, not for a CPU.
func setParallel(least int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < least {
		flag.Set("test.parallel", fmt.Sprint(least))
	}
}

// catchIgnoredSignals catches the signals that this process ignores, because it runs under nohup or
// as a background job of a script. Children inherit ignored signals, but caught ones are reset to
// the default by exec. So the programs under test do not ignore them.
func catchIgnoredSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// withBinary builds mpiexec for all tests, calls run and removes the program. It returns the exit
// code of run.
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

// build compiles the package pkg to the file output. For ".", mpiexec, it uses the linker flags of
// make.
func build(output, pkg string) error {
	flags := []byte("-s -w")
	if pkg == "." {
		var err error
		ldflags := exec.Command("tools/ldflags.sh", "development")
		ldflags.Dir = repoRoot
		if flags, err = ldflags.Output(); err != nil {
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

// compileMPIPrograms compiles the MPI programs of testdata once. It returns false if this machine
// has no MPI.
var compileMPIPrograms = sync.OnceValue(func() bool {
	return exec.Command(filepath.Join(repoRoot, "testdata", "programs.sh")).Run() == nil
})

// mpiProgram returns the path of an MPI program of testdata/mpi, such as hello or hello.mpich4. On
// the hosts it has the same path. The test is skipped if the program cannot be compiled.
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
