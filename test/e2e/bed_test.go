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

	"remshell/tools/testbed"
)

// A testCluster is a field whose test ends only when nothing of ours is left on its hosts.
type testCluster struct{ *testbed.Cluster }

// newTestCluster brings a field up for one test. What the test must not leave behind is
// checked before the field goes down.
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

// requireNamespaces is for what hosts that share this machine cannot show.
func (b *testCluster) requireNamespaces(t *testing.T) {
	t.Helper()
	if b.Kind != testbed.Namespaces {
		t.Skip("needs hosts with namespaces of their own, and so root")
	}
}

// shareRepo lets other users than root use the repository on the head, also where it lies in
// a folder that is its owner's alone, such as his home: the head, which has mounts of its
// own, gets another such folder, with nothing else in it.
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

// requireOpenSSH is for what the SSH servers made of our own packages do not know.
func (b *testCluster) requireOpenSSH(t *testing.T) {
	t.Helper()
	if b.Kind == testbed.InProcess {
		t.Skip("needs OpenSSH's server")
	}
}

// transports are those to reach a host: by our own client and, where there is one, by ssh(1).
func transports() [][]string {
	if _, err := exec.LookPath("ssh"); err != nil {
		return [][]string{nil}
	}
	return [][]string{nil, {"-launcher-exec", "ssh"}}
}

// requireNamespaces is the same where there is no bed yet.
func requireNamespaces(t *testing.T) {
	t.Helper()
	(&testCluster{testbed.New(t, testbed.Options{Hosts: 1, Kind: clusterKind()})}).requireNamespaces(t)
}

// clusterKind of the fields, to try another one than the best: namespaces, loopback, in-process.
func clusterKind() testbed.Kind { return testbed.Kind(os.Getenv("E2E_KIND")) }

// A mpiexecCall is one call of mpiexec on the head.
type mpiexecCall struct {
	args    []string
	env     []string             // beside that of the test
	stdin   io.Reader            // nil: /dev/null
	timeout time.Duration        // 0: five minutes; then it is killed and the test fails
	uid     int                  // whose job it is; 0: root's
	attr    *syscall.SysProcAttr // nil: in the session of the test
}

// A result is what came of a job.
type result struct {
	out, err string
	code     int // 128+n after signal n
	took     time.Duration
	cpu      time.Duration // of mpiexec and of its children that it has waited for
}

// runMpiexec calls mpiexec and waits for it.
func (b *testCluster) runMpiexec(t *testing.T, args ...string) result {
	t.Helper()
	return b.startMpiexec(t, mpiexecCall{args: args}).wait(t)
}

// A runningJob is an mpiexec that runs.
type runningJob struct {
	cmd      *exec.Cmd // cmd.Process is mpiexec itself
	out, err outputBuffer
	began    time.Time
	end      func() (result, error) // once; later calls have the same result
}

// startTimeout is how long a job may take to reach hosts and to start where that is not what is tested.
var startTimeout = []string{"MPIEXEC_CONNECT_TIMEOUT=120", "MPIEXEC_SHELL_TIMEOUT=120", "MPIEXEC_START_TIMEOUT=240"}

// startMpiexec calls mpiexec. A test that does not wait has it killed at its end.
func (b *testCluster) startMpiexec(t *testing.T, j mpiexecCall) *runningJob {
	t.Helper()
	return b.startCommand(t, j, append([]string{binary}, j.args...))
}

// startCommand is start for any command on the head.
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
	r.cmd.WaitDelay = 3 * time.Second // for what still holds our pipes
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

// runOnHead runs any command on the head and waits for it.
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

// exitCode is what a shell would say.
func exitCode(s *os.ProcessState) int {
	if status := s.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// wait waits for the end of mpiexec.
func (r *runningJob) wait(t *testing.T) result {
	t.Helper()
	res, err := r.end()
	if err != nil {
		t.Fatalf("mpiexec %q: %v\nstdout: %s\nstderr: %s", r.cmd.Args, err, res.out, res.err)
	}
	return res
}

// awaitOut waits until text has come on stdout, at least n times.
func (r *runningJob) awaitOut(t *testing.T, text string, n int) {
	t.Helper()
	r.awaitOn(t, &r.out, text, n)
}

// awaitErr is await for what mpiexec reports.
func (r *runningJob) awaitErr(t *testing.T, text string, n int) {
	t.Helper()
	r.awaitOn(t, &r.err, text, n)
}

func (r *runningJob) awaitOn(t *testing.T, stream *outputBuffer, text string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go func() { // so that an early end is not waited for
		r.end()
		cancel()
	}()
	if !stream.wait(ctx, func(all string) bool { return strings.Count(all, text) >= n }) {
		t.Fatalf("waited for %d times %q\nstdout: %s\nstderr: %s", n, text, &r.out, &r.err)
	}
}

// An outputBuffer keeps what is written to it, and tells of it.
type outputBuffer struct {
	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	more chan struct{} // closed by the next write; nil: nobody waits
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

// wait waits until ok says so of all that was written; false if ctx ends first.
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

// checkSuccess asserts exit 0 and nothing on stderr.
func (r result) checkSuccess(t *testing.T) {
	t.Helper()
	if r.code != 0 || r.err != "" {
		t.Errorf("exit %d, want 0 and silence\nstdout: %s\nstderr: %s", r.code, r.out, r.err)
	}
}

// runOn runs a command inside a host and returns its output.
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

// awaitClean waits until no process is left on any host and none of ours on the head, and
// looks for half-written files. After limit that is an error that lists them.
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

// leftProcesses lists processes: all on the hosts, ours on the head.
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

func (b *testCluster) processes(t *testing.T, host string) []testbed.Process {
	t.Helper()
	all, err := b.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// helperProcesses lists our own processes on a host: helpers and their reapers.
func (b *testCluster) helperProcesses(t *testing.T, host string) []testbed.Process {
	t.Helper()
	return slices.DeleteFunc(b.processes(t, host), func(p testbed.Process) bool {
		return !isHelperArgs(p.Args) && !isReaperArgs(p.Args)
	})
}

// launchers lists the pids of our binary that belong to the head of this field.
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

// leftFilePrefixes are how files begin that nobody needs when a job is over: half of our program, and
// directories and segments of Open MPI's ranks.
var leftFilePrefixes = []string{".new.", "rs-", "vader_segment", "sm_segment"}

// leftFiles lists what deliveries and ranks have left on the hosts beside complete programs.
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

// poll asks until done says so, where there is no event to wait for.
// patience is how long is waited for what comes for sure, unless the test is to fail.
const longTimeout = 5 * time.Minute

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
