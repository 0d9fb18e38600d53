//go:build linux

package launch_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"remshell/helper"
	"remshell/helper/probe"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/limits"
	"remshell/test/pmitest"
	"remshell/test/pmixtest"
	"remshell/trace"
	"remshell/transport"
	"remshell/usererr"
	"remshell/wire"
)

// rankMark is the environment variable of a rank that runs a script with its PMI server.
const rankMark = "TEST_RANK_TALKS"

// guestMark is that of a rank that sends messages to its PMIx server: a script of pmixtest.Client,
// its argument or its input.
const guestMark = "TEST_RANK_IS_GUEST"

// TestMain also runs as the helper of the tests' nodes. Helpers are real processes that start real
// ranks, over two pipes. Some ranks are this program, too.
func TestMain(m *testing.M) {
	if os.Getenv(rankMark) != "" {
		if err := pmitest.RunScript(pmitest.ScriptOf(os.Args[1], os.Getenv), os.Getenv, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(guestMark) != "" {
		if err := beGuest(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if plan := os.Getenv("TEST_BURN"); plan != "" {
		burn(plan)
		return
	}
	if name := os.Getenv("TEST_HELPER_NODE"); name != "" {
		os.Unsetenv("TEST_HELPER_NODE")
		conn := struct {
			io.Reader
			io.WriteCloser
		}{os.NewFile(uintptr(dup(0)), "in"), os.NewFile(uintptr(dup(1)), "out")}
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, syscall.SIGTERM)
		sys := helper.System{Root: machine{os.DirFS("/"), name}, Environ: os.Environ(), Signals: signals}
		if name == "fast" {
			sys.Now = func() time.Time { return time.Now().Add(fastClock) }
		}
		if name == "narrow" {
			sys.Limits = func() (limits.Map, error) { return limits.Map{limits.HostVMem: 4096}, nil }
		}
		helper.Serve(context.Background(), conn, sys)
		return
	}
	os.Exit(m.Run())
}

func beGuest() error {
	guest, err := pmixtest.NewClient(os.Getenv)
	if err != nil {
		return err
	}
	var script io.Reader = os.Stdin
	if len(os.Args) > 1 {
		script = strings.NewReader(os.Args[1])
	}
	return guest.RunScript(script, os.Stdout)
}

// fastClock is how far the clock of the node "fast" is ahead.
const fastClock = 90 * time.Second

// dup moves a standard stream to another descriptor, as the real helper does, so that a broken pipe
// is an error and no signal.
func dup(fd int) int {
	copied, err := syscall.Dup(fd)
	if err != nil {
		panic(err)
	}
	syscall.CloseOnExec(copied)
	null, _ := os.OpenFile("/dev/null", os.O_RDWR, 0)
	syscall.Dup3(int(null.Fd()), fd, 0)
	null.Close()
	return copied
}

// A machine is this machine under another name, so that several helpers here are several nodes.
type machine struct {
	fs.FS
	name string
}

func (m machine) Open(name string) (fs.File, error) {
	if name == "proc/sys/kernel/random/boot_id" {
		machine, _, _ := strings.Cut(m.name, "~") // "a~1" and "a~2" are names of one machine
		return fstest.MapFS{name: {Data: []byte(machine)}}.Open(name)
	}
	return m.FS.Open(name)
}

// A local dials helpers that are children of the test.
type local struct {
	mu    sync.Mutex
	pids  map[string]int
	fakes map[string]func(*wire.Conn) // by node, helpers that the test plays itself

	environ []string // variables of the helpers, in addition to those of the test
}

// A child is a helper process as a stream.
type child struct {
	io.Reader
	io.WriteCloser
	wait func() error // waits for the process; may be called from any goroutine, and repeatedly
}

func (c child) Close() error {
	c.WriteCloser.Close()
	return c.wait()
}

func (l *local) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, l.dial)
}

func (l *local) dial(_ context.Context, node transport.Host) (io.ReadWriteCloser, error) {
	if node.Name == "nowhere" {
		return nil, fmt.Errorf("no such host")
	}
	if fake := l.fakes[node.Name]; fake != nil {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			fake(wire.NewConn(theirs, wire.Helper))
		}()
		return ours, nil
	}
	cmd := exec.Command("/proc/self/exe")
	// The race detector would sleep for a second at the end of every helper.
	cmd.Env = slices.Concat(os.Environ(), []string{"TEST_HELPER_NODE=" + node.Name, "GORACE=atexit_sleep_ms=0"}, l.environ)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pids == nil {
		l.pids = make(map[string]int)
	}
	l.pids[node.Name] = cmd.Process.Pid
	return child{r, in, sync.OnceValue(cmd.Wait)}, nil
}

// A run is a job under test.
type run struct {
	staged    []reserve.FileContent
	dialer    local
	req       job.Request
	in        io.Reader
	signals   chan os.Signal
	out, err  lockedBuffer
	suspended chan struct{}
	trace     io.Writer // receives a transcript; may be nil
	stuck     io.Writer // replaces stdout, if set

	over    node.HelperDialer // replaces dialer, if set
	planned func()            // called with the plan; may be nil
	limit   time.Duration     // timeout for replies of helpers; 0: 10 s
	here    string            // the node that is the launching machine under another name

	steps *trace.Recorder // nil: no steps are recorded
}

// suspend replaces stopping mpiexec: it returns when the test continues the job.
func (r *run) suspend() {
	r.suspended <- struct{}{}
	<-r.suspended
}

func (r *run) stdout() io.Writer {
	if r.stuck != nil {
		return r.stuck
	}
	return &r.out
}

// newRun returns a job of n ranks of a shell script on the nodes, with one slot each unless the
// name says otherwise ("a:2").
func newRun(n int, script string, nodes ...string) *run {
	r := &run{signals: make(chan os.Signal, 4), suspended: make(chan struct{})}
	r.req = job.Request{
		Job:        "test",
		Apps:       []job.App{{N: n, Argv: []string{"/bin/sh", "-c", script}, Dir: "/"}},
		TimeLimits: job.TimeLimits{Grace: 300 * time.Millisecond},
	}
	for i, name := range nodes {
		name, slots, _ := strings.Cut(name, ":")
		def := job.NodeDef{ID: i, Name: name, Slots: 1}
		if slots != "" {
			def.Slots, _ = strconv.Atoi(slots)
		}
		r.req.Nodes = append(r.req.Nodes, def)
	}
	return r
}

// env returns the Env of a job under test.
func (r *run) env() launch.Env {
	out := stdio.Stdout(r.stdout())
	errs := stdio.Stderr(&r.err)
	var dialer node.HelperDialer = &r.dialer
	if r.over != nil {
		dialer = r.over
	}
	return launch.Env{In: r.in, Out: out, Err: errs, Transcript: r.trace, Env: reserve.Env{
		Connector: node.Connector{Dialer: dialer, GreetTimeout: cmp.Or(r.limit, 5*time.Minute), Trace: r.steps}, RankOptions: reserve.RankOptions{Umask: -1},
		FindHosts: r.find, Localhost: r.identity, FileContents: r.staged, ProbeTimeout: r.limit, Signals: r.signals, Suspend: r.suspend,
		OnPlan: func(job.Snapshot, job.Plan) {
			if r.planned != nil {
				r.planned()
			}
		},
		Report: func(text string) { fmt.Fprintln(errs, text) }}}
}

// identity returns the identity of the node that is the launching machine, as its helper will
// report it.
func (r *run) identity() string {
	here, _ := probe.Node(machine{os.DirFS("/"), r.here}, nil)
	return here.Identity
}

// do runs the job to its end, which must come within a minute.
func (r *run) do(t *testing.T) (job.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.req.Queue.LedgerDir = cmp.Or(r.req.Queue.LedgerDir, t.TempDir())
	env := r.env()
	result, err := launch.Run(ctx, r.req, env)
	if err != nil {
		env.Err.Close()
	}
	<-env.Err.Done()
	if ctx.Err() != nil {
		t.Fatalf("the job did not end; stdout %q, stderr %q", r.out.String(), r.err.String())
	}
	return result, err
}

// report returns the block that mpiexec wrote about the end of the job.
func (r *run) report() string {
	_, report, _ := strings.Cut(r.err.String(), "mpiexec: ")
	return report
}

// A lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	watches []watchFor
}

type watchFor struct {
	text string
	seen chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	b.watches = slices.DeleteFunc(b.watches, func(w watchFor) bool {
		found := strings.Contains(b.buf.String(), w.text)
		if found {
			close(w.seen)
		}
		return found
	})
	return n, err
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// shows returns a channel that is closed when the text has been written.
func (b *lockedBuffer) shows(text string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := watchFor{text, make(chan struct{})}
	b.watches = append(b.watches, w)
	return w.seen
}

// sorted returns the lines of a text in order.
func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

func TestRanksSeeTheirPlace(t *testing.T) {
	r := newRun(3, `echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS $MPIEXEC_NODE_RANK/$MPIEXEC_NNODES $MPIEXEC_HOST`, "a:2", "b")
	result, err := r.do(t)
	want := "0/3 0/2 0/2 a\n1/3 1/2 0/2 a\n2/3 0/1 1/2 b\n"
	if got := sorted(r.out.String()); err != nil || result.Code != 0 || got != want {
		t.Errorf("code %d, %v, stderr %q\n got %q\nwant %q", result.Code, err, r.err.String(), got, want)
	}
}

func TestRanksHoldNoStrayDescriptors(t *testing.T) {
	r := newRun(1, `ls /proc/self/fd | tr '\n' ' '`, "a")
	if _, err := r.do(t); err != nil || r.out.String() != "0 1 2 3 4 " { // 4 is ls reading the directory
		t.Errorf("descriptors %q, %v", r.out.String(), err)
	}
}

func TestStdinGoesToRank0AndTheOthersHaveNone(t *testing.T) {
	r := newRun(3, `wc -c`, "a:2", "b")
	r.in = bytes.NewReader(make([]byte, 3_000_000))
	if _, err := r.do(t); err != nil || sorted(r.out.String()) != "0\n0\n3000000\n" {
		t.Errorf("counts %q, %v", sorted(r.out.String()), err)
	}
}

func TestARankThatReadsNothingEndsWithAnyInput(t *testing.T) {
	r := newRun(1, `exec 0<&-; exit 0`, "a")
	r.in = endless{}
	if result, err := r.do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v", result.Code, err)
	}
}

// endless is an input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAllOutputArrivesBeforeTheEnd(t *testing.T) {
	r := newRun(4, `head -c 1000000 /dev/zero; printf done >&2`, "a:2", "b:2")
	if _, err := r.do(t); err != nil || len(r.out.String()) != 4_000_000 || r.err.String() != strings.Repeat("done", 4) {
		t.Errorf("%d bytes, stderr %q, %v", len(r.out.String()), r.err.String(), err)
	}
}

func TestLabels(t *testing.T) {
	r := newRun(2, `printf 'one\ntwo'`, "a", "b")
	r.req.Streams.Out.Label = "[%r] "
	if _, err := r.do(t); err != nil || sorted(r.out.String()) != "[0] one\n[0] two\n[1] one\n[1] two\n" {
		t.Errorf("output %q, %v", r.out.String(), err)
	}
}

func TestFirstFailureNamesTheRankAndEndsTheOthers(t *testing.T) {
	// The rank that fails waits for the others: a rank that does not run yet cannot be stopped.
	r := newRun(4, `cd `+t.TempDir()+`; >$PMI_RANK
		if [ $PMI_RANK = 2 ]; then until [ -e 0 -a -e 1 -a -e 3 ]; do sleep 0.01; done; exit 3; fi
		exec sleep 600`, "a:2", "b:2")
	result, err := r.do(t)
	if err != nil || result.Code != 3 || !strings.HasPrefix(r.report(), "rank 2 on b exited with code 3\n") ||
		!strings.Contains(r.report(), "mpiexec ended 3 other ranks") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

func TestASignalIsNamed(t *testing.T) {
	r := newRun(2, `if [ $PMI_RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 600`, "a", "b")
	result, err := r.do(t)
	if err != nil || result.Code != 139 || !strings.HasPrefix(r.report(), "rank 1 on b died: Segmentation fault (signal 11)") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

// A job leaves nothing behind: neither ranks that ignore SIGTERM nor children in sessions of their
// own.
func TestAFailedJobLeavesNothingBehind(t *testing.T) {
	r := newRun(2, `trap '' TERM; setsid sleep 600 & echo $! $$; if [ $PMI_RANK = 1 ]; then exit 9; fi; while :; do sleep 600; done`, "a", "b")
	result, err := r.do(t)
	if err != nil || result.Code != 9 {
		t.Errorf("code %d, %v", result.Code, err)
	}
	for pid := range strings.FieldsSeq(r.out.String()) {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s is still there", pid)
		}
	}
}

func TestALeftoverChildDoesNotHoldTheJob(t *testing.T) {
	began := time.Now()
	r := newRun(1, `(sleep 600; echo late) & echo $!`, "a")
	result, err := r.do(t)
	if err != nil || result.Code != 0 || time.Since(began) > 5*time.Minute {
		t.Errorf("code %d, %v after %v", result.Code, err, time.Since(began))
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(r.out.String())); err == nil {
		t.Error("the child is still there")
	}
}

func TestAKilledHelperIsALostNode(t *testing.T) {
	r := newRun(3, `echo ready; exec sleep 600`, "a", "b", "c")
	ready := r.out.shows("ready\nready\nready\n")
	go func() {
		<-ready
		r.dialer.mu.Lock()
		defer r.dialer.mu.Unlock()
		syscall.Kill(r.dialer.pids["b"], syscall.SIGKILL)
	}()
	result, err := r.do(t)
	if err != nil || result.Code != 125 || !strings.Contains(r.report(), "lost contact with b") ||
		!strings.Contains(r.report(), "where rank 1 ran") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

func TestInterruptGoesToTheRanks(t *testing.T) {
	r := newRun(2, `trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.1; done`, "a", "b")
	ready := r.out.shows("ready\nready\n")
	go func() {
		<-ready
		r.signals <- syscall.SIGINT
	}()
	result, err := r.do(t)
	if err != nil || result.Code != 130 || r.report() != "" || strings.Count(r.out.String(), "caught") != 2 ||
		!strings.Contains(r.err.String(), "^C: sent SIGINT to 2 ranks on 2 nodes") {
		t.Errorf("code %d, %v, report %q, stdout %q, stderr %q", result.Code, err, r.report(), r.out.String(), r.err.String())
	}
}

// A stuckWriter is a terminal after ^S: writes block until it is released.
type stuckWriter struct {
	letGo chan struct{}
	taken *atomic.Int64 // bytes written
}

func newStuckWriter() stuckWriter { return stuckWriter{make(chan struct{}), new(atomic.Int64)} }

func (w stuckWriter) Write(p []byte) (int, error) {
	<-w.letGo
	w.taken.Add(int64(len(p)))
	return len(p), nil
}

// If our stdout is not read, neither a timeout nor a signal waits for it.
func TestAStuckTerminalHoldsNoEnd(t *testing.T) {
	terminal := newStuckWriter()
	defer close(terminal.letGo)
	r := newRun(1, `exec yes`, "a")
	r.stuck = terminal
	r.req.TimeLimits.Run = 200 * time.Millisecond
	if result, err := r.do(t); err != nil || result.Code != 124 {
		t.Errorf("timeout: code %d, %v", result.Code, err)
	}
	r = newRun(1, `echo well; echo ready >&2`, "a")
	r.stuck = terminal
	ready := r.err.shows("ready")
	go func() {
		<-ready
		r.signals <- syscall.SIGTERM
	}()
	if result, err := r.do(t); err != nil || result.Code != 143 {
		t.Errorf("SIGTERM: code %d, %v", result.Code, err)
	}
}

// ^Z stops the ranks before mpiexec, and continues them after it.
func TestSuspendStopsTheRanks(t *testing.T) {
	// There is no sleep in the loop: a shell that waits in vfork cannot stop before its child.
	r := newRun(1, `trap 'exit 0' USR1; echo $$; while :; do :; done`, "a")
	ready := r.out.shows("\n")
	stateOf := func() string {
		stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(r.out.String()) + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		return rest[:min(1, len(rest))]
	}
	go func() {
		<-ready
		r.signals <- syscall.SIGTSTP
		<-r.suspended
		for deadline := time.Now().Add(5 * time.Minute); stateOf() != "T" && time.Now().Before(deadline); {
		}
		if got := stateOf(); got != "T" {
			t.Errorf("the rank is in state %q, want T", got)
		}
		r.suspended <- struct{}{}
		r.signals <- syscall.SIGUSR1
	}()
	if result, err := r.do(t); err != nil || result.Code != 0 {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

func TestFullDiskIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r := newRun(1, `echo hello; exec sleep 600`, "a")
	r.stuck = full
	if result, err := r.do(t); err != nil || result.Code != 125 || !strings.HasPrefix(r.report(), "standard output: ") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

func TestTimeout(t *testing.T) {
	r := newRun(1, `exec sleep 600`, "a")
	r.req.TimeLimits.Run = 200 * time.Millisecond
	result, err := r.do(t)
	if err != nil || result.Code != 124 || !strings.Contains(r.report(), "longer than -timeout 200ms") {
		t.Errorf("code %d, %v, report %q", result.Code, err, r.report())
	}
}

func TestNothingStartsWhereOneNodeRefuses(t *testing.T) {
	r := newRun(2, `echo started`, "a", "b")
	r.req.Apps = []job.App{r.req.Apps[0], {N: 1, Argv: []string{"no-such-program"}, Dir: "/"}}
	r.req.Apps[0].N = 1
	_, err := r.do(t)
	if err == nil || !strings.Contains(err.Error(), "b: program no-such-program: not found in PATH") || r.out.String() != "" {
		t.Errorf("error %v, output %q", err, r.out.String())
	}
}

func TestEqualRefusalsAreOneLine(t *testing.T) {
	r := newRun(3, "", "a", "b", "c")
	r.req.Apps[0] = job.App{N: 3, Argv: []string{"no-such-program"}, Dir: "/"}
	if _, err := r.do(t); err == nil || err.Error() != "a,b,c: program no-such-program: not found in PATH" {
		t.Errorf("error %v", err)
	}
}

// A reader that pauses at the end of a job loses nothing (IO-10).
func TestASlowReaderLosesNothing(t *testing.T) {
	terminal := newStuckWriter()
	r := newRun(1, `seq 1 20000; seq 1 20000 >&2; echo ready >&2`, "a")
	r.stuck = terminal
	ready := r.err.shows("ready")
	go func() {
		<-ready
		time.AfterFunc(3*time.Second, func() { close(terminal.letGo) })
	}()
	result, err := r.do(t)
	if err != nil || result.Code != 0 || terminal.taken.Load() != 108894 || len(r.err.String()) != 108894+6 {
		t.Errorf("code %d, %v, %d and %d bytes", result.Code, err, terminal.taken.Load(), len(r.err.String()))
	}
}

func TestAHostThatCannotBeReachedFailsTheJob(t *testing.T) {
	r := newRun(2, `echo started`, "a", "nowhere")
	if _, err := r.do(t); err == nil || err.Error() != "nowhere: no such host" || r.out.String() != "" {
		t.Errorf("error %v, output %q", err, r.out.String())
	}
	r = newRun(1, `echo started`, "a", "nowhere")
	r.req.SkipUnreachable = true
	if _, err := r.do(t); err != nil || r.out.String() != "started\n" || !strings.Contains(r.err.String(), "nowhere: no such host; skipped") {
		t.Errorf("error %v, output %q, stderr %q", err, r.out.String(), r.err.String())
	}
}

func TestTooManyRanksAreRefused(t *testing.T) {
	r := newRun(3, `echo started`, "a", "b")
	if _, err := r.do(t); err == nil || !strings.Contains(err.Error(), "3 ranks do not fit") || r.out.String() != "" {
		t.Errorf("error %v, output %q", err, r.out.String())
	}
}

func TestScriptsWithoutInterpreterAndBrokenPrograms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "echo plain $1\n", 0o755)
	write("binary", "\x7fELF\x00\x01junk", 0o755)
	write("noexec", "#!/bin/sh\n", 0o644)
	write("nointerp", "#!/no/such/interpreter\n", 0o755)
	tests := []struct {
		argv []string
		code int
		text string
	}{
		{[]string{"./plain", "a b"}, 0, "plain a b\n"},
		{[]string{"./binary"}, 126, "not a program for this machine"},
		{[]string{"./noexec"}, 126, "permission denied; make it executable: chmod +x ./noexec"},
		{[]string{"./nointerp"}, 126, "its interpreter or loader is missing"},
		{[]string{"./nothing"}, 127, "program ./nothing: no such file or directory"},
		{[]string{"plain"}, 127, "did you mean ./plain?"},
	}
	for _, test := range tests {
		r := newRun(1, "", "a")
		r.req.Apps[0] = job.App{N: 1, Argv: test.argv, Dir: dir}
		result, err := r.do(t)
		text, code := r.out.String()+r.report(), result.Code
		if start := (*usererr.Error)(nil); errors.As(err, &start) {
			text, code = err.Error()+"; "+start.Remedy, start.Code
		}
		if code != test.code || !strings.Contains(text, test.text) {
			t.Errorf("%v: code %d, %q; want %d, %q", test.argv, code, text, test.code, test.text)
		}
	}
}
