//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remshell/test/jsonschema"
	"remshell/tools/testbed"
)

// A testCluster is a test cluster for one test. At the end of the test it checks that no process
// and no partial file is left on the hosts.
type testCluster struct{ *testbed.Cluster }

// newTestCluster brings up a test cluster for one test and takes it down at the test's end. Before
// that, if the test has not failed, it calls awaitClean.
func newTestCluster(t *testing.T, o testbed.Options) *testCluster {
	t.Helper()
	o.Kind = clusterKind()
	b := &testCluster{testbed.New(t, o)}
	t.Cleanup(func() {
		if !t.Failed() {
			b.awaitClean(t, goneTimeout)
		}
	})
	return b
}

// requireNamespaces skips the test unless the hosts have namespaces of their own.
func (b *testCluster) requireNamespaces(t *testing.T) {
	t.Helper()
	if b.Kind != testbed.Namespaces {
		t.Skip("needs hosts with namespaces of their own, and so root")
	}
}

// shareRepo makes the repository accessible to all users on the head. If a folder above it is
// closed to other users, such as a home, shareRepo mounts an empty folder over it in the head's
// mount namespace. The repository is mounted there at its own path.
func (b *testCluster) shareRepo(t *testing.T) {
	t.Helper()
	closed := ""
	for dir := repoRoot; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&1 == 0 {
			closed = dir
		}
	}
	if closed == "" {
		return
	}
	const script = `aside=$(mktemp -d)
mount --bind "$1" "$aside"
mount -t tmpfs -o mode=755 field "$2"
mkdir -p "$1"
chmod 755 "$aside"
mount --move "$aside" "$1"
rmdir "$aside"`
	if out, err := b.On(t.Context(), testbed.Head, "sh", "-ec", script, "sh", repoRoot, closed).CombinedOutput(); err != nil {
		t.Fatalf("open %s: %v: %s", closed, err, out)
	}
}

// requireOpenSSH skips the test if the hosts' SSH servers are those of package sshtest, which lack
// features of OpenSSH.
func (b *testCluster) requireOpenSSH(t *testing.T) {
	t.Helper()
	if b.Kind == testbed.InProcess {
		t.Skip("needs OpenSSH's server")
	}
}

// transports returns the options of mpiexec for each transport to a host: none for the built-in
// SSH client and, if ssh(1) is installed, those for ssh.
func transports() [][]string {
	if _, err := exec.LookPath("ssh"); err != nil {
		return [][]string{nil}
	}
	return [][]string{nil, {"-launcher-exec", "ssh"}}
}

// requireNamespaces skips the test unless hosts have namespaces of their own. It brings up a test
// cluster to find out.
func requireNamespaces(t *testing.T) {
	t.Helper()
	(&testCluster{testbed.New(t, testbed.Options{Hosts: 1, Kind: clusterKind()})}).requireNamespaces(t)
}

// clusterKind returns the kind of test clusters from E2E_KIND: namespaces, loopback or in-process.
// Without it, package testbed chooses.
func clusterKind() testbed.Kind { return testbed.Kind(os.Getenv("E2E_KIND")) }

// A mpiexecCall is one call of mpiexec on the head.
type mpiexecCall struct {
	args    []string
	env     []string             // added to the environment of the test
	stdin   io.Reader            // nil: /dev/null
	timeout time.Duration        // after it, mpiexec is killed and the test fails; 0: five minutes
	uid     int                  // user that runs mpiexec; 0: not changed
	attr    *syscall.SysProcAttr // nil: in the session of the test
}

// A result is the output and the exit code of a command that has ended.
type result struct {
	out, err string
	code     int           // 128+n after signal n
	took     time.Duration // from start to end
	cpu      time.Duration // of the command and of the children that it has waited for
}

// runMpiexec runs mpiexec on the head and waits for its end.
func (b *testCluster) runMpiexec(t *testing.T, args ...string) result {
	t.Helper()
	return b.startMpiexec(t, mpiexecCall{args: args}).wait(t)
}

// A runningJob is a started mpiexec, or another command that startCommand has started.
type runningJob struct {
	cmd      *exec.Cmd // cmd.Process is mpiexec itself
	out, err outputBuffer
	began    time.Time
	end      func() (result, error) // waits for the end; later calls return the same result
}

// startTimeout is the environment that sets generous timeouts for connecting and starting, in
// seconds. Tests of these timeouts override it.
var startTimeout = []string{"MPIEXEC_CONNECT_TIMEOUT=120", "MPIEXEC_SHELL_TIMEOUT=120", "MPIEXEC_START_TIMEOUT=240"}

// startMpiexec starts mpiexec on the head. If it still runs at the end of the test, it is killed.
func (b *testCluster) startMpiexec(t *testing.T, j mpiexecCall) *runningJob {
	t.Helper()
	return b.startCommand(t, j, append([]string{binary}, j.args...))
}

// startCommand is like startMpiexec, but for any command: words replaces mpiexec and j.args.
func (b *testCluster) startCommand(t *testing.T, j mpiexecCall, words []string) *runningJob {
	t.Helper()
	if j.timeout == 0 {
		j.timeout = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.timeout)
	if j.uid != 0 {
		id := strconv.Itoa(j.uid)
		words = append([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"}, words...)
	}
	r := &runningJob{cmd: b.Command(ctx, append(startTimeout, j.env...), words[0], words[1:]...), began: time.Now()}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = j.stdin, &r.out, &r.err
	r.cmd.SysProcAttr = j.attr
	r.cmd.WaitDelay = 3 * time.Second // for processes that keep the pipes open
	if err := r.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	r.end = sync.OnceValues(func() (result, error) {
		defer cancel()
		err := r.cmd.Wait()
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			err = fmt.Errorf("not over after %v", j.timeout)
		case errors.As(err, &exit):
			err = nil
		}
		return result{r.out.String(), r.err.String(), exitCode(r.cmd.ProcessState), time.Since(r.began),
			r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()}, err
	})
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		r.end()
	})
	return r
}

// runOnHead runs a command on the head and waits for its end. It returns standard output, standard
// error and the exit code.
func (b *testCluster) runOnHead(t *testing.T, name string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := b.Command(ctx, nil, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return stdout.String(), stderr.String(), exitCode(cmd.ProcessState)
}

// exitCode returns the exit code as a shell reports it: 128+n after signal n.
func exitCode(s *os.ProcessState) int {
	if status := s.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// wait waits for the end of mpiexec. The test fails if the timeout of the call is over.
func (r *runningJob) wait(t *testing.T) result {
	t.Helper()
	res, err := r.end()
	if err != nil {
		t.Fatalf("mpiexec %q: %v\nstdout: %s\nstderr: %s", r.cmd.Args, err, res.out, res.err)
	}
	if err := jsonschema.CheckOutput([]byte(res.out)); err != nil {
		t.Errorf("mpiexec %q: %v", r.cmd.Args, err)
	}
	return res
}

// awaitOut waits until stdout contains text at least n times. If mpiexec ends before, the test fails.
func (r *runningJob) awaitOut(t *testing.T, text string, n int) {
	t.Helper()
	r.awaitOn(t, &r.out, text, n)
}

// awaitErr is like awaitOut, but for stderr.
func (r *runningJob) awaitErr(t *testing.T, text string, n int) {
	t.Helper()
	r.awaitOn(t, &r.err, text, n)
}

// awaitOn is awaitOut for either stream.
func (r *runningJob) awaitOn(t *testing.T, stream *outputBuffer, text string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go func() { // stop waiting when mpiexec ends
		r.end()
		cancel()
	}()
	if !stream.wait(ctx, func(all string) bool { return strings.Count(all, text) >= n }) {
		t.Fatalf("waited for %d times %q\nstdout: %s\nstderr: %s", n, text, &r.out, &r.err)
	}
}

// An outputBuffer stores all output that is written to it, and lets other goroutines wait for it.
type outputBuffer struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	more chan struct{} // closed by the next Write; nil: no goroutine waits
}

func (p *outputBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
	return p.text.Write(b)
}

func (p *outputBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// wait waits until ok returns true for all output so far. It returns false if ctx ends first.
func (p *outputBuffer) wait(ctx context.Context, ok func(string) bool) bool {
	for {
		p.mu.Lock()
		if ok(p.text.String()) {
			p.mu.Unlock()
			return true
		}
		if p.more == nil {
			p.more = make(chan struct{})
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return ok(p.String())
		}
	}
}

// checkSuccess fails the test unless the exit code is 0 and stderr is empty.
func (r result) checkSuccess(t *testing.T) {
	t.Helper()
	if r.code != 0 || r.err != "" {
		t.Errorf("exit %d, want 0 and silence\nstdout: %s\nstderr: %s", r.code, r.out, r.err)
	}
}

// runOn runs a command inside a host, without ssh, and returns its stdout and stderr.
func (b *testCluster) runOn(t *testing.T, host, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := b.On(ctx, host, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s %q: %v: %s", host, name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// awaitClean waits until no process is left on any host and no mpiexec on the head. If some are left
// after limit, or if leftFiles finds files, the test fails with a list of them.
func (b *testCluster) awaitClean(t *testing.T, limit time.Duration) {
	t.Helper()
	var left []string
	if !poll(limit, func() bool { left = b.leftProcesses(t); return len(left) == 0 }) {
		t.Errorf("still there after %v:\n%s", limit, strings.Join(left, "\n"))
	}
	if files := b.leftFiles(); len(files) > 0 {
		t.Errorf("files left behind: %q", files)
	}
}

// leftProcesses returns a line for each process on the hosts and each mpiexec on the head.
func (b *testCluster) leftProcesses(t *testing.T) (left []string) {
	t.Helper()
	for _, h := range b.Hosts {
		for _, p := range b.processes(t, h.Name) {
			left = append(left, fmt.Sprintf("%s: %d %q", h.Name, p.PID, p.Args))
		}
	}
	for _, pid := range b.launchers() {
		left = append(left, fmt.Sprintf("head: %d %s", pid, binary))
	}
	return left
}

// processes returns the processes of a host.
func (b *testCluster) processes(t *testing.T, host string) []testbed.Process {
	t.Helper()
	all, err := b.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// helperProcesses returns the helpers and reapers on a host.
func (b *testCluster) helperProcesses(t *testing.T, host string) []testbed.Process {
	t.Helper()
	return slices.DeleteFunc(b.processes(t, host), func(p testbed.Process) bool {
		return !isHelperArgs(p.Args) && !isReaperArgs(p.Args)
	})
}

// launchers returns the pids of mpiexec on the head of this cluster.
func (b *testCluster) launchers() (pids []int) {
	network := ""
	if b.Kind == testbed.Namespaces {
		network, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/net", b.HeadPID))
	}
	found, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range found {
		target, _ := os.Readlink(exe)
		if strings.TrimSuffix(target, " (deleted)") != binary {
			continue
		}
		dir := filepath.Dir(exe)
		if net, _ := os.Readlink(dir + "/ns/net"); network != "" && net != network {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		pids = append(pids, pid)
	}
	return pids
}

// leftFilePrefixes are the prefixes of files that must not be left after a job: partial copies of
// mpiexec, session directories of helpers, and shared memory segments of Open MPI's ranks.
var leftFilePrefixes = []string{".new.", "rs-", "vader_segment", "sm_segment"}

// leftFiles returns the files on the hosts whose names begin with one of leftFilePrefixes.
func (b *testCluster) leftFiles() (files []string) {
	for _, h := range b.Hosts {
		home := b.Root(h.Name) + "/root"
		tops := []string{home + "/.cache", b.Root(h.Name) + "/tmp", b.Root(h.Name) + "/dev/shm"}
		if b.Kind != testbed.Namespaces {
			tops = []string{filepath.Join(b.State, "hosts", h.Name, "home")}
		}
		for _, top := range tops {
			filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				for _, name := range leftFilePrefixes {
					if err == nil && strings.HasPrefix(d.Name(), name) {
						files = append(files, path)
					}
				}
				return nil
			})
		}
	}
	return files
}

// longTimeout is how long to wait for an event that only a bug can prevent.
const longTimeout = 5 * time.Minute

// poll calls done every 5 ms until it returns true. It returns false if that takes longer than
// limit. It is for states that cause no event.
func poll(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); ; {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		<-time.After(5 * time.Millisecond)
	}
}
