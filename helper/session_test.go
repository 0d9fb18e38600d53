//go:build linux

package helper

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/pmidetect"
	"remshell/job"
	"remshell/proc"
	"remshell/wire"
)

// A testHelper is a connection to a helper that this process serves. Its ranks are children of this process, so such
// tests run one after the other.
type testHelper struct {
	t        *testing.T
	conn     *wire.Conn
	received chan wire.Message // all its messages; closed at the end
	served   chan error        // what Serve returned
	stop     context.CancelFunc
	signals  chan os.Signal // signals to the helper itself
	out      map[int]string // stdout so far, by rank; every byte of it was credited
}

// testTimeout is for steps that have no reason to take long.
const testTimeout = 5 * time.Minute

func newTestHelper(t *testing.T) *testHelper {
	t.Helper()
	here, there := net.Pipe()
	k := &testHelper{t: t, conn: wire.NewConn(here, wire.Launcher), received: make(chan wire.Message, 1024), served: make(chan error, 1), signals: make(chan os.Signal), out: map[int]string{}}
	sys := System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, Signals: k.signals}
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	t.Cleanup(k.stop)
	go func() { k.served <- Serve(ctx, there, sys) }()
	if _, _, err := k.conn.ReceiveHello(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(k.received)
		for {
			m, err := k.conn.Recv()
			if err != nil {
				return
			}
			k.received <- m
		}
	}()
	receive[*wire.NodeInfo](k)
	t.Cleanup(func() { k.conn.Abandon() })
	return k
}

// nextMessage returns the helper's next message, or nil at the end.
func (k *testHelper) nextMessage() wire.Message {
	k.t.Helper()
	select {
	case m := <-k.received:
		if d, ok := m.(*wire.Data); ok && d.Stream == wire.Stdout {
			k.out[d.Rank] += string(d.Bytes)
		}
		return m
	case <-time.After(testTimeout):
		k.t.Fatalf("the helper says nothing for %v", testTimeout)
	}
	return nil
}

// receive returns the next message of a type. It skips the messages before.
func receive[M wire.Message](k *testHelper) M {
	k.t.Helper()
	for {
		switch m := k.nextMessage().(type) {
		case M:
			return m
		case nil:
			k.t.Fatalf("the helper ended without %T", *new(M))
		}
	}
}

// prepare prepares one rank for each sh script, and waits until they are prepared.
func (k *testHelper) prepare(scripts ...string) {
	k.t.Helper()
	k.prepareAs(func(*wire.Prepare) {}, scripts...)
}

// prepareAs is prepare with a change to the Prepare message.
func (k *testHelper) prepareAs(change func(*wire.Prepare), scripts ...string) {
	k.t.Helper()
	m := &wire.Prepare{Job: "test", Group: wire.Group{Size: len(scripts), NodeCount: 1}, Node: wire.GroupNode{Name: "here"}, Process: wire.Process{Umask: -1}, Supervision: wire.Supervision{Grace: 100 * time.Millisecond}, Streams: wire.Streams{Stdin: []int{0}},
		Claim: wire.Claim{Ledger: k.t.TempDir(), MaxProcs: -1}}
	for i, script := range scripts {
		m.Apps = append(m.Apps, job.App{Argv: []string{"/bin/sh", "-c", script}, Dir: "/"})
		m.Ranks = append(m.Ranks, job.RankPlan{Rank: i, Local: i, App: i, RankResources: new(job.RankResources)})
	}
	change(m)
	k.conn.Send(m)
	receive[*wire.Prepared](k)
}

func (k *testHelper) start(scripts ...string) {
	k.t.Helper()
	k.prepare(scripts...)
	k.conn.Send(&wire.Start{})
}

// awaitOutput waits until a rank has printed a text.
func (k *testHelper) awaitOutput(rank int, text string) {
	k.t.Helper()
	for !strings.Contains(k.out[rank], text) {
		if k.nextMessage() == nil {
			k.t.Fatalf("rank %d never said %q", rank, text)
		}
	}
}

// endJob waits for Serve, and checks that it has left no process.
func (k *testHelper) endJob() error {
	k.t.Helper()
	select {
	case err := <-k.served:
		if left := proc.Descendants(os.Getpid()); len(left) > 0 {
			k.t.Errorf("the helper left processes behind: %v", left)
		}
		return err
	case <-time.After(testTimeout):
		k.t.Fatalf("the helper is not over after %v", testTimeout)
	}
	return nil
}

// bye ends regularly after the last rank: EndJob, Drained, Bye.
func (k *testHelper) bye() {
	k.t.Helper()
	k.conn.Send(&wire.EndJob{Linger: 0, Grace: 0})
	receive[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		k.t.Errorf("Serve: %v", err)
	}
}

func TestAJobFromPrepareToBye(t *testing.T) {
	k := newTestHelper(t)
	k.start(`echo "$MPIEXEC_RANK of $PMI_SIZE in $PWD"; exit 3`)
	if pid := receive[*wire.Started](k).PID; pid <= 0 {
		t.Errorf("Started with pid %d", pid)
	}
	exit := receive[*wire.Exited](k).Exit
	if exit.Code != 3 || k.out[0] != "0 of 1 in /\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

func TestTheEndOfTheConnectionEndsAllProcesses(t *testing.T) {
	for name, script := range map[string]string{
		"a rank":                       `echo up; exec sleep 1000`,
		"one that is deaf to SIGTERM":  `trap "" TERM; echo up; while :; do sleep 1000; done`,
		"a child in another session":   `setsid sleep 1000 & echo up; exec sleep 1000`,
		"an orphan":                    `setsid sh -c 'trap "" TERM; (sleep 1000 &) ; echo up; sleep 1000'`,
		"a rank that is stopped":       `echo up; kill -STOP $$; sleep 1000`,
		"a rank that writes for ever":  `echo up; exec yes`,
		"one that waits for its input": `echo up; exec cat`,
	} {
		t.Run(name, func(t *testing.T) {
			k := newTestHelper(t)
			k.start(script, script)
			k.awaitOutput(0, "up")
			k.awaitOutput(1, "up")
			k.conn.Abandon()
			if err := k.endJob(); err == nil {
				t.Error("Serve returned no error, though mpiexec was gone before Bye")
			}
		})
	}
}

// A helper that gets a signal to end, as when its reaper dies, ends its ranks. Their exits are not reported: the node
// is lost, and mpiexec learns that at once.
func TestASignaledHelperClosesItsConnectionFirst(t *testing.T) {
	k := newTestHelper(t)
	k.start(`trap "" TERM; echo up; while :; do sleep 1000; done`, `echo up; exec sleep 1000`)
	k.awaitOutput(0, "up")
	k.awaitOutput(1, "up")
	k.stop()
	for m := k.nextMessage(); m != nil; m = k.nextMessage() {
		if _, told := m.(*wire.Exited); told {
			t.Errorf("it said %+v", m)
		}
	}
	if err := k.endJob(); err == nil {
		t.Error("Serve returned no error")
	}
}

func TestByeBeforeStartLeaves(t *testing.T) {
	k := newTestHelper(t)
	k.prepare("exec sleep 1000")
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestByeWhileRanksAreForked(t *testing.T) {
	k := newTestHelper(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestEndWhileRanksAreForkedIsDrained(t *testing.T) {
	k := newTestHelper(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.bye()
}

// A rank that fails because another did must not be reported before it, even if the other has more output.
func TestFailuresAreReportedInTheOrderOfTheEnds(t *testing.T) {
	k := newTestHelper(t)
	pid := filepath.Join(t.TempDir(), "pid")
	k.start(
		`echo $$ >`+pid+`.new; mv `+pid+`.new `+pid+`; head -c 100000 /dev/zero; exit 3`, // more than a window
		`until [ -f `+pid+` ]; do :; done; while kill -0 $(cat `+pid+`) 2>/dev/null; do :; done; exit 4`,
	)
	first, second := receive[*wire.Exited](k).Exit, receive[*wire.Exited](k).Exit
	if first.Rank != 0 || first.Code != 3 || second.Rank != 1 || second.Code != 4 {
		t.Errorf("first %+v, then %+v; rank 0 ended first", first, second)
	}
	k.bye()
}

func TestAnExitSaysWhetherTheRankWasAskedToEnd(t *testing.T) {
	k := newTestHelper(t)
	k.start(`read _; kill -SEGV $$`, `exec sleep 1000`)
	for range 2 { // a rank that has not started by the end never does
		receive[*wire.Started](k)
	}
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin}) // ends its read
	if exit := receive[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGSEGV) || exit.ToldToEnd {
		t.Errorf("exit %+v, want one by SIGSEGV and unasked", exit)
	}
	k.conn.Send(&wire.EndJob{Linger: 0, Grace: time.Minute})
	if exit := receive[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGTERM) || !exit.ToldToEnd {
		t.Errorf("exit %+v, want one by SIGTERM and asked", exit)
	}
	k.bye()
}

// Descendants inherit every descriptor of a rank. The rank's exit is reported without waiting for them.
func TestALeftoverChildDelaysNoReport(t *testing.T) {
	k := newTestHelper(t)
	k.start(`setsid sleep 1000 & echo last words; exit 3`)
	receive[*wire.Started](k)
	began := time.Now()
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 3 || k.out[0] != "last words\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	if took := time.Since(began); took > outputTimeout/2 {
		t.Errorf("the report took %v", took)
	}
	k.bye()
}

// A rank that has sent nothing by PMI cannot be mistaken for one that aborted.
func TestPMIOfACrashedRankIsAnsweredBeforeItsExit(t *testing.T) {
	k := newTestHelper(t)
	k.start(`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n' >&3; setsid sleep 1000 & kill -9 $$`)
	for {
		switch m := k.nextMessage().(type) {
		case *wire.PMIReport:
			if m.Event != wire.PMIAborted || m.Code != 7 {
				t.Errorf("heard %+v, want an abort with 7", m)
			}
			k.bye()
			return
		case *wire.Exited:
			t.Fatalf("the end came before the abort: %+v", m)
		case nil:
			t.Fatal("the helper ended")
		}
	}
}

func TestARankThatClosesItsStreams(t *testing.T) {
	k := newTestHelper(t)
	k.start(`exec >&- 2>&- <&- 3>&-; exec /bin/sh -c 'exit 5'`)
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 5 {
		t.Errorf("exit %+v, want code 5", exit)
	}
	k.bye()
}

func TestAllOutputComesBeforeTheEnd(t *testing.T) {
	const lines = 100_000
	k := newTestHelper(t)
	k.start(`seq 100000`)
	got := 0
	for {
		switch m := k.nextMessage().(type) {
		case *wire.Data:
			got += strings.Count(string(m.Bytes), "\n")
			k.conn.Send(&wire.Credit{Rank: m.Rank, Stream: m.Stream, Bytes: len(m.Bytes)})
			k.out = map[int]string{}
			continue
		case *wire.Exited:
		default:
			continue
		}
		break
	}
	if got != lines {
		t.Errorf("%d lines before the end, want %d", got, lines)
	}
	k.bye()
}

// The output of a leftover child may take as long as its reader likes (IO-10). mpiexec, which gives up on processes
// that cannot be ended, is told that there are none.
func TestASlowReaderOfALeftoverChild(t *testing.T) {
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Window = 16 },
		`(trap "head -c 1000 /dev/zero; exit" TERM; echo ready; while :; do sleep 1; done) & read x`)
	k.conn.Send(&wire.Start{})
	k.awaitOutput(0, "ready\n")
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin})
	receive[*wire.Exited](k)
	k.conn.Send(&wire.EndJob{Linger: time.Millisecond, Grace: testTimeout})
	receive[*wire.ProcessesGone](k)
	k.conn.Send(&wire.Credit{Rank: 0, Stream: wire.Stdout, Bytes: 1 << 20})
	receive[*wire.Drained](k)
	if got := strings.Count(k.out[0], "\x00"); got != 1000 {
		t.Errorf("%d bytes of 1000 came", got)
	}
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestInputReachesTheRank(t *testing.T) {
	k := newTestHelper(t)
	k.start(`cat; echo end`)
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("one ")})
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("two ")})
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin})
	receive[*wire.Exited](k)
	if k.out[0] != "one two end\n" {
		t.Errorf("the rank echoed %q", k.out[0])
	}
	k.bye()
}

func TestARankThatReadsNoInputIsNoObstacle(t *testing.T) {
	k := newTestHelper(t)
	k.start(`exec <&-; echo closed; sleep 1000`)
	k.awaitOutput(0, "closed")
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("text")})
	for {
		if d, ok := k.nextMessage().(*wire.Data); ok && d.Stream == wire.Stdin && len(d.Bytes) == 0 {
			break // the helper reports that nobody reads
		}
	}
	k.bye()
}

func TestSignalsReachTheGroup(t *testing.T) {
	k := newTestHelper(t)
	k.start(`trap "exit 9" USR1; sh -c 'trap "exit 0" USR1; echo child; while :; do sleep 0.01; done'; while :; do sleep 0.01; done`)
	k.awaitOutput(0, "child")
	k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 9 {
		t.Errorf("exit %+v, want 9", exit)
	}
	k.bye()
}

// Grid Engine signals the process group of its task, so the helper gets the signal, but not the ranks, which have
// process groups of their own. They get mpiexec's same signal. Slurm signals all processes at once, and the ranks are
// not signaled again (RM-60).
func TestASignalToTheHelperIsPassedOnOnce(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice %v", twice), func(t *testing.T) {
			k := newTestHelper(t)
			k.prepareAs(func(m *wire.Prepare) { m.Supervision.BatchStarted, m.Supervision.BatchSignalsRanks = true, twice },
				`trap "exit 9" USR2; trap "exit 8" USR1; echo ready; while :; do sleep 0.01; done`)
			k.conn.Send(&wire.Start{})
			k.awaitOutput(0, "ready")
			k.signals <- unix.SIGUSR2
			k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR2)})
			want := 9
			if twice {
				want = 8
				k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
			}
			if exit := receive[*wire.Exited](k).Exit; exit.Code != want {
				t.Errorf("exit %+v, want %d", exit, want)
			}
			k.bye()
		})
	}
}

// The fork thread goes on while the session handles a signal. Ranks whose Forked has not arrived must get the signal,
// too.
func TestASignalWhileForkingReachesLaterRanks(t *testing.T) {
	k := newTestHelper(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
	for range 50 {
		// sh may not have become sleep yet; the signal ends either.
		if exit := receive[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGUSR1) {
			t.Errorf("exit %+v, want the signal", exit)
		}
	}
	k.bye()
}

// A CancelPrepare right after a Prepare cancels that one, and not the next.
func TestAReleaseKeepsItsPlace(t *testing.T) {
	k := newTestHelper(t)
	m := &wire.Prepare{Job: "test", Group: wire.Group{Size: 1, NodeCount: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1, Entry: job.Claim{Job: "test"}},
		Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{}}}
	for range 3 {
		k.conn.Send(m)
		k.conn.Send(&wire.CancelPrepare{})
	}
	k.conn.Send(m)
	for range 4 {
		receive[*wire.Prepared](k)
	}
	k.conn.Send(&wire.ListLedger{Ledger: m.Claim.Ledger})
	if claims := receive[*wire.LedgerListed](k).Claims; len(claims) != 1 {
		t.Errorf("claims %+v, want one", claims)
	}
	k.conn.Send(&wire.Start{})
	receive[*wire.Started](k)
	receive[*wire.Exited](k)
	k.bye()
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		argv, dir string
		code      int
		reason    string
	}{
		{"/no/such/program", "/", 127, "program /no/such/program: no such file"},
		{"no-such-program", "/", 127, "not found in PATH"},
		{"/etc", "/", 126, "is a directory"},
		{"/etc/passwd", "/", 126, "permission denied"},
		{"/bin/true", "/no/such/dir", 127, "working directory /no/such/dir: no such file"},
		{"/bin/true", "/etc/passwd", 127, "not a directory"},
	} {
		k := newTestHelper(t)
		k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1}, Apps: []job.App{{Argv: []string{test.argv}, Dir: test.dir}}, Ranks: []job.RankPlan{{}}})
		refused := receive[*wire.Refused](k)
		if refused.Code != test.code || !strings.Contains(refused.Reason, test.reason) {
			t.Errorf("%s in %s: refused with %d %q, want %d %q", test.argv, test.dir, refused.Code, refused.Reason, test.code, test.reason)
		}
		k.conn.Send(&wire.Bye{})
		k.endJob()
	}
}

func TestFailedExecs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct {
		program string
		code    int
		reason  string
	}{
		{write("missing-interpreter", "#!/no/such/interpreter\n"), 126, "interpreter or loader is missing"},
		{write("junk", "\x7fELF\x00junk"), 126, "exec format error"},
	} {
		k := newTestHelper(t)
		k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1}, Apps: []job.App{{Argv: []string{test.program}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
		receive[*wire.Prepared](k)
		k.conn.Send(&wire.Start{})
		if m := receive[*wire.Started](k); m.Code != test.code || !strings.Contains(m.Err, test.reason) {
			t.Errorf("%s: %d %q, want %d %q", test.program, m.Code, m.Err, test.code, test.reason)
		}
		k.bye()
	}
}

// mpiexec cannot make a helper fail by starting ranks before their program is staged.
func TestProgramThatWasNotStagedFailsTheRanks(t *testing.T) {
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) { m.Apps[0].StagedFile = "sh" }, "exit 0")
	k.conn.Send(&wire.Start{})
	if m := receive[*wire.Started](k); m.Code != job.ExitInternal || m.Err != "program sh was not copied to this host by --stage" {
		t.Errorf("%d %q", m.Code, m.Err)
	}
	k.bye()
}

func TestAScriptWithoutHashBangIsRunByTheShell(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo ran with $1; exit 6\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	k := newTestHelper(t)
	k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), MaxProcs: -1}, Apps: []job.App{{Argv: []string{script, "x y"}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
	receive[*wire.Prepared](k)
	k.conn.Send(&wire.Start{})
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 6 || k.out[0] != "ran with x y\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

// The kernel accepts more in many arguments than in one variable. Open MPI's ranks get their arguments in one.
func TestMoreArgumentsThanAVariableHolds(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Apps[0].Argv, m.Apps[0].PMIOffer = append(m.Apps[0].Argv, long, long), job.PMIOfferBoth
	}, "echo $# ${#0} ${#1} $OMPI_COMMAND ${OMPI_ARGV-untold}")
	k.conn.Send(&wire.Start{})
	if exit := receive[*wire.Exited](k).Exit; exit.Code != 0 || k.out[0] != "1 70000 70000 /bin/sh untold\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

// The claims worker reports results to the session while the session gives it more work. Neither ever waits for the
// other.
func TestSessionAndLedgerWorkerDoNotWaitForEachOther(t *testing.T) {
	k := newTestHelper(t)
	for range 5000 {
		k.conn.Send(&wire.CancelPrepare{Group: "none"})
	}
	k.conn.Send(&wire.ReadMarks{})
	receive[*wire.MarksRead](k)
	k.conn.Send(&wire.Bye{})
	if err := k.endJob(); err != nil {
		t.Error(err)
	}
}

// A plain program is not expected to use PMI. The library that it is linked with decides, or the user's --pmi.
func TestWhoIsToConnect(t *testing.T) {
	for _, test := range []struct {
		pmidetect.Verdict
		want bool
	}{
		{pmidetect.Verdict{Offer: job.PMIOfferBoth}, false},
		{pmidetect.Verdict{Offer: job.PMIOfferBoth, Library: "libmpich.so.12"}, true},
		{pmidetect.Verdict{Offer: job.PMIOfferPMI1}, true},
		{pmidetect.Verdict{Offer: job.PMIOfferNone}, false},
	} {
		r := &Rank{group: &Group{pmiOffers: map[int]*pmiOffer{0: {Verdict: test.Verdict}}}}
		if got := r.speaksPMI(); got != test.want {
			t.Errorf("%+v: %v", test.Verdict, got)
		}
	}
	if (&Rank{group: new(Group)}).speaksPMI() {
		t.Error("a program that is still to be staged")
	}
}
