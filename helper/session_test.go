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

	"remshell/helper/offer"
	"remshell/job"
	"remshell/limit"
	"remshell/proc"
	"remshell/wire"
)

// A talk is a conversation with a helper that is served by this process. Its ranks are
// our children, so tests of this kind run one after the other.
type talk struct {
	t    *testing.T
	conn *wire.Conn
	said chan wire.Message // all it says; closed at the end
	over chan error        // what Serve returned
	stop context.CancelFunc
	hits chan os.Signal // signals to the helper itself
	out  map[int]string // stdout so far, by rank; every byte of it was credited
}

// patience is for what has no reason to take long.
const patience = 5 * time.Minute

func newTalk(t *testing.T) *talk {
	t.Helper()
	return newTalkUnder(t, nil)
}

// newTalkUnder is one with a helper whose node allows no more than some limits.
func newTalkUnder(t *testing.T, most limit.Bounds) *talk {
	t.Helper()
	here, there := net.Pipe()
	k := &talk{t: t, conn: wire.NewConn(here, wire.Launcher), said: make(chan wire.Message, 1024), over: make(chan error, 1), hits: make(chan os.Signal), out: map[int]string{}}
	sys := System{Build: "test", Root: os.DirFS("/"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, Signals: k.hits,
		Limits: func() (limit.Bounds, error) { return most, nil }}
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	t.Cleanup(k.stop)
	go func() { k.over <- Serve(ctx, there, sys) }()
	if _, _, err := k.conn.Greet(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(k.said)
		for {
			m, err := k.conn.Recv()
			if err != nil {
				return
			}
			k.said <- m
		}
	}()
	hear[*wire.Node](k)
	t.Cleanup(func() { k.conn.Abandon() })
	return k
}

// next returns what the helper says next, nil at the end.
func (k *talk) next() wire.Message {
	k.t.Helper()
	select {
	case m := <-k.said:
		if d, ok := m.(*wire.Data); ok && d.Stream == wire.Stdout {
			k.out[d.Rank] += string(d.Bytes)
		}
		return m
	case <-time.After(patience):
		k.t.Fatalf("the helper says nothing for %v", patience)
	}
	return nil
}

// hear returns the next message of a type; what comes before it is passed over.
func hear[M wire.Message](k *talk) M {
	k.t.Helper()
	for {
		switch m := k.next().(type) {
		case M:
			return m
		case nil:
			k.t.Fatalf("the helper ended without %T", *new(M))
		}
	}
}

// prepare has one rank for each script of sh, and waits until they are ready.
func (k *talk) prepare(scripts ...string) {
	k.t.Helper()
	k.prepareAs(func(*wire.Prepare) {}, scripts...)
}

// prepareAs is prepare with further wishes.
func (k *talk) prepareAs(change func(*wire.Prepare), scripts ...string) {
	k.t.Helper()
	m := &wire.Prepare{Job: "test", Group: wire.Group{Size: len(scripts), Nodes: 1}, Node: wire.Member{Name: "here"}, Process: wire.Process{Umask: -1}, Supervision: wire.Supervision{Grace: 100 * time.Millisecond}, Streams: wire.Streams{Stdin: []int{0}},
		Claim: wire.Claim{Ledger: k.t.TempDir(), Most: -1}}
	for i, script := range scripts {
		m.Apps = append(m.Apps, job.App{Argv: []string{"/bin/sh", "-c", script}, Dir: "/"})
		m.Ranks = append(m.Ranks, job.RankPlan{Rank: i, Local: i, App: i, Portion: new(job.Portion)})
	}
	change(m)
	k.conn.Send(m)
	hear[*wire.Prepared](k)
}

func (k *talk) start(scripts ...string) {
	k.t.Helper()
	k.prepare(scripts...)
	k.conn.Send(&wire.Start{})
}

// await waits until a rank has said a text.
func (k *talk) await(rank int, text string) {
	k.t.Helper()
	for !strings.Contains(k.out[rank], text) {
		if k.next() == nil {
			k.t.Fatalf("rank %d never said %q", rank, text)
		}
	}
}

// end waits for Serve, and asserts that it has left no process.
func (k *talk) end() error {
	k.t.Helper()
	select {
	case err := <-k.over:
		if left := proc.Below(os.Getpid()); len(left) > 0 {
			k.t.Errorf("the helper left processes behind: %v", left)
		}
		return err
	case <-time.After(patience):
		k.t.Fatalf("the helper is not over after %v", patience)
	}
	return nil
}

// bye takes the regular way out: the last ranks are over, so end, drained, bye.
func (k *talk) bye() {
	k.t.Helper()
	k.conn.Send(&wire.End{Linger: 0, Grace: 0})
	hear[*wire.Drained](k)
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		k.t.Errorf("Serve: %v", err)
	}
}

func TestAJobFromPrepareToBye(t *testing.T) {
	k := newTalk(t)
	k.start(`echo "$MPIEXEC_RANK of $PMI_SIZE in $PWD"; exit 3`)
	if pid := hear[*wire.Started](k).PID; pid <= 0 {
		t.Errorf("Started with pid %d", pid)
	}
	exit := hear[*wire.Exited](k).Exit
	if exit.Code != 3 || k.out[0] != "0 of 1 in /\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

func TestTheEndOfTheConversationEndsAllProcesses(t *testing.T) {
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
			k := newTalk(t)
			k.start(script, script)
			k.await(0, "up")
			k.await(1, "up")
			k.conn.Abandon()
			if err := k.end(); err == nil {
				t.Error("Serve returned no error, though mpiexec was gone before Bye")
			}
		})
	}
}

// A helper that is told to end, as by its keeper's death, ends its ranks. What they
// then die of is no news: the node is lost, and mpiexec hears that at once.
func TestAHelperThatIsEndedHangsUpFirst(t *testing.T) {
	k := newTalk(t)
	k.start(`trap "" TERM; echo up; while :; do sleep 1000; done`, `echo up; exec sleep 1000`)
	k.await(0, "up")
	k.await(1, "up")
	k.stop()
	for m := k.next(); m != nil; m = k.next() {
		if _, told := m.(*wire.Exited); told {
			t.Errorf("it said %+v", m)
		}
	}
	if err := k.end(); err == nil {
		t.Error("Serve returned no error")
	}
}

func TestByeBeforeStartLeaves(t *testing.T) {
	k := newTalk(t)
	k.prepare("exec sleep 1000")
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestByeWhileRanksAreForked(t *testing.T) {
	k := newTalk(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestEndWhileRanksAreForkedIsDrained(t *testing.T) {
	k := newTalk(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.bye()
}

// A rank that fails because another did must not be reported before it, also when
// the other has more to say.
func TestFailuresAreReportedInTheOrderOfTheEnds(t *testing.T) {
	k := newTalk(t)
	pid := filepath.Join(t.TempDir(), "pid")
	k.start(
		`echo $$ >`+pid+`.new; mv `+pid+`.new `+pid+`; head -c 100000 /dev/zero; exit 3`, // more than a window
		`until [ -f `+pid+` ]; do :; done; while kill -0 $(cat `+pid+`) 2>/dev/null; do :; done; exit 4`,
	)
	first, second := hear[*wire.Exited](k).Exit, hear[*wire.Exited](k).Exit
	if first.Rank != 0 || first.Code != 3 || second.Rank != 1 || second.Code != 4 {
		t.Errorf("first %+v, then %+v; rank 0 ended first", first, second)
	}
	k.bye()
}

func TestAnExitSaysWhetherTheRankWasAskedToEnd(t *testing.T) {
	k := newTalk(t)
	k.start(`read _; kill -SEGV $$`, `exec sleep 1000`)
	for range 2 { // a rank that has not started by the end never does
		hear[*wire.Started](k)
	}
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin}) // read ends
	if exit := hear[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGSEGV) || exit.Asked {
		t.Errorf("exit %+v, want one by SIGSEGV and unasked", exit)
	}
	k.conn.Send(&wire.End{Linger: 0, Grace: time.Minute})
	if exit := hear[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGTERM) || !exit.Asked {
		t.Errorf("exit %+v, want one by SIGTERM and asked", exit)
	}
	k.bye()
}

// Descendants inherit every descriptor of a rank. The rank's end is told without
// waiting for them.
func TestALeftoverChildDelaysNoReport(t *testing.T) {
	k := newTalk(t)
	k.start(`setsid sleep 1000 & echo last words; exit 3`)
	hear[*wire.Started](k)
	began := time.Now()
	if exit := hear[*wire.Exited](k).Exit; exit.Code != 3 || k.out[0] != "last words\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	if took := time.Since(began); took > lastWords/2 {
		t.Errorf("the report took %v", took)
	}
	k.bye()
}

// It has said nothing to a PMI server that could be mistaken for an abort.
func TestPMIOfACrashedRankIsHeardBeforeItsEnd(t *testing.T) {
	k := newTalk(t)
	k.start(`printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n' >&3; setsid sleep 1000 & kill -9 $$`)
	for {
		switch m := k.next().(type) {
		case *wire.PMI:
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
	k := newTalk(t)
	k.start(`exec >&- 2>&- <&- 3>&-; exec /bin/sh -c 'exit 5'`)
	if exit := hear[*wire.Exited](k).Exit; exit.Code != 5 {
		t.Errorf("exit %+v, want code 5", exit)
	}
	k.bye()
}

func TestAllOutputComesBeforeTheEnd(t *testing.T) {
	const lines = 100_000
	k := newTalk(t)
	k.start(`seq 100000`)
	got := 0
	for {
		switch m := k.next().(type) {
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

// What a leftover child wrote last may take as long as its reader likes (IO-10). mpiexec,
// which gives up on processes that cannot be ended, hears that there are none.
func TestASlowReaderOfALeftoverChild(t *testing.T) {
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) { m.Streams.Window = 16 },
		`(trap "head -c 1000 /dev/zero; exit" TERM; echo ready; while :; do sleep 1; done) & read x`)
	k.conn.Send(&wire.Start{})
	k.await(0, "ready\n")
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin})
	hear[*wire.Exited](k)
	k.conn.Send(&wire.End{Linger: time.Millisecond, Grace: patience})
	hear[*wire.Emptied](k)
	k.conn.Send(&wire.Credit{Rank: 0, Stream: wire.Stdout, Bytes: 1 << 20})
	hear[*wire.Drained](k)
	if got := strings.Count(k.out[0], "\x00"); got != 1000 {
		t.Errorf("%d bytes of 1000 came", got)
	}
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestInputReachesTheRank(t *testing.T) {
	k := newTalk(t)
	k.start(`cat; echo end`)
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("one ")})
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("two ")})
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin})
	hear[*wire.Exited](k)
	if k.out[0] != "one two end\n" {
		t.Errorf("the rank echoed %q", k.out[0])
	}
	k.bye()
}

func TestARankThatReadsNoInputIsNoObstacle(t *testing.T) {
	k := newTalk(t)
	k.start(`exec <&-; echo closed; sleep 1000`)
	k.await(0, "closed")
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("text")})
	for {
		if d, ok := k.next().(*wire.Data); ok && d.Stream == wire.Stdin && len(d.Bytes) == 0 {
			break // it says that nobody reads
		}
	}
	k.bye()
}

func TestSignalsReachTheGroup(t *testing.T) {
	k := newTalk(t)
	k.start(`trap "exit 9" USR1; sh -c 'trap "exit 0" USR1; echo child; while :; do sleep 0.01; done'; while :; do sleep 0.01; done`)
	k.await(0, "child")
	k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
	if exit := hear[*wire.Exited](k).Exit; exit.Code != 9 {
		t.Errorf("exit %+v, want 9", exit)
	}
	k.bye()
}

// What Grid Engine signals to the process group of its task comes to the helper and not to the ranks, each in a group
// of its own: the same signal of mpiexec's, which has it on its own way, is theirs. Slurm signals all at once, and
// ranks are not told again (RM-60).
func TestASignalToTheHelperTellsRanksOrNot(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice %v", twice), func(t *testing.T) {
			k := newTalk(t)
			k.prepareAs(func(m *wire.Prepare) { m.Supervision.Held, m.Supervision.Twice = true, twice },
				`trap "exit 9" USR2; trap "exit 8" USR1; echo ready; while :; do sleep 0.01; done`)
			k.conn.Send(&wire.Start{})
			k.await(0, "ready")
			k.hits <- unix.SIGUSR2
			k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR2)})
			want := 9
			if twice {
				want = 8
				k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
			}
			if exit := hear[*wire.Exited](k).Exit; exit.Code != want {
				t.Errorf("exit %+v, want %d", exit, want)
			}
			k.bye()
		})
	}
}

// The starter forks on while the session hears a signal; the ranks of which it has not
// heard yet must get it too.
func TestASignalWhileForkingReachesLaterRanks(t *testing.T) {
	k := newTalk(t)
	k.start(slices.Repeat([]string{"exec sleep 1000"}, 50)...)
	k.conn.Send(&wire.Signal{Number: int(unix.SIGUSR1)})
	for range 50 {
		// sh may not have become sleep yet; the signal ends either.
		if exit := hear[*wire.Exited](k).Exit; exit.Signal != int(unix.SIGUSR1) {
			t.Errorf("exit %+v, want the signal", exit)
		}
	}
	k.bye()
}

// A Release that follows a Prepare at once takes back that one, and not the next.
func TestAReleaseKeepsItsPlace(t *testing.T) {
	k := newTalk(t)
	m := &wire.Prepare{Job: "test", Group: wire.Group{Size: 1, Nodes: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), Most: -1, Entry: job.Claim{Job: "test"}},
		Apps: []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{}}}
	for range 3 {
		k.conn.Send(m)
		k.conn.Send(&wire.Release{})
	}
	k.conn.Send(m)
	for range 4 {
		hear[*wire.Prepared](k)
	}
	k.conn.Send(&wire.List{Ledger: m.Claim.Ledger})
	if claims := hear[*wire.Listed](k).Claims; len(claims) != 1 {
		t.Errorf("claims %+v, want one", claims)
	}
	k.conn.Send(&wire.Start{})
	hear[*wire.Started](k)
	hear[*wire.Exited](k)
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
		k := newTalk(t)
		k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), Most: -1}, Apps: []job.App{{Argv: []string{test.argv}, Dir: test.dir}}, Ranks: []job.RankPlan{{}}})
		refused := hear[*wire.Refused](k)
		if refused.Code != test.code || !strings.Contains(refused.Reason, test.reason) {
			t.Errorf("%s in %s: refused with %d %q, want %d %q", test.argv, test.dir, refused.Code, refused.Reason, test.code, test.reason)
		}
		k.conn.Send(&wire.Bye{})
		k.end()
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
		k := newTalk(t)
		k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), Most: -1}, Apps: []job.App{{Argv: []string{test.program}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
		hear[*wire.Prepared](k)
		k.conn.Send(&wire.Start{})
		if m := hear[*wire.Started](k); m.Code != test.code || !strings.Contains(m.Err, test.reason) {
			t.Errorf("%s: %d %q, want %d %q", test.program, m.Code, m.Err, test.code, test.reason)
		}
		k.bye()
	}
}

// Files that cannot be staged are the failure of the ranks, not of the helper, which does not know
// by then what those of a staged program are to be offered.
func TestFailedStagingFailsTheRanks(t *testing.T) {
	k := newTalk(t)
	twice := job.Parcel{Name: "sh", Path: "/bin/sh"} // no folder takes two links of one name
	k.conn.Send(&wire.Stage{Here: true, Parcels: []job.Parcel{twice, twice}})
	k.prepareAs(func(m *wire.Prepare) { m.Apps[0].Staged = "sh" }, "exit 0", "exit 0")
	k.conn.Send(&wire.Start{})
	for range 2 {
		if m := hear[*wire.Started](k); m.Code != job.ExitInternal || !strings.Contains(m.Err, "no folder takes links") {
			t.Errorf("rank %d: %d %q", m.Rank, m.Code, m.Err)
		}
	}
	k.bye()
}

func TestAScriptWithoutHashBangIsRunByTheShell(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo ran with $1; exit 6\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	k := newTalk(t)
	k.conn.Send(&wire.Prepare{Group: wire.Group{Size: 1}, Process: wire.Process{Umask: -1}, Claim: wire.Claim{Ledger: t.TempDir(), Most: -1}, Apps: []job.App{{Argv: []string{script, "x y"}, Dir: "/"}}, Ranks: []job.RankPlan{{}}})
	hear[*wire.Prepared](k)
	k.conn.Send(&wire.Start{})
	if exit := hear[*wire.Exited](k).Exit; exit.Code != 6 || k.out[0] != "ran with x y\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

// The kernel takes as much in many arguments as no variable may have, in which Open MPI's ranks are
// told theirs.
func TestMoreArgumentsThanAVariableHolds(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Apps[0].Argv, m.Apps[0].PMI = append(m.Apps[0].Argv, long, long), job.OfferBoth
	}, "echo $# ${#0} ${#1} $OMPI_COMMAND ${OMPI_ARGV-untold}")
	k.conn.Send(&wire.Start{})
	if exit := hear[*wire.Exited](k).Exit; exit.Code != 0 || k.out[0] != "1 70000 70000 /bin/sh untold\n" {
		t.Errorf("exit %+v, output %q", exit, k.out[0])
	}
	k.bye()
}

// The ledger worker tells the session what it has done while the session gives it more to do: neither
// ever waits for the other to take it.
func TestSessionAndLedgerWorkerDoNotWaitForEachOther(t *testing.T) {
	k := newTalk(t)
	for range 5000 {
		k.conn.Send(&wire.Release{Group: "none"})
	}
	k.conn.Send(&wire.Inspect{})
	hear[*wire.States](k)
	k.conn.Send(&wire.Bye{})
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// Of a plain program nobody expects that it speaks to its helper: what it is linked with decides, or the user's word.
func TestWhoIsToConnect(t *testing.T) {
	for _, test := range []struct {
		offer.Verdict
		want bool
	}{
		{offer.Verdict{Offer: job.OfferBoth}, false},
		{offer.Verdict{Offer: job.OfferBoth, Library: "libmpich.so.12"}, true},
		{offer.Verdict{Offer: job.OfferPMI1}, true},
		{offer.Verdict{Offer: job.OfferNone}, false},
	} {
		r := &process{group: &group{offers: map[int]*offering{0: {Verdict: test.Verdict}}}}
		if got := r.speaks(); got != test.want {
			t.Errorf("%+v: %v", test.Verdict, got)
		}
	}
	if (&process{group: new(group)}).speaks() {
		t.Error("a program that is still to be staged")
	}
}
