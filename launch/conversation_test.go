//go:build linux

package launch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
	"remshell/transport"
	"remshell/wire"
)

// A recorder is a dialer of real helpers that records the kind of every message of each connection,
// as "n1 > Prepare" and "n1 < Prepared".
type recorder struct {
	local
	tape     lockedBuffer
	scribe   sync.WaitGroup
	prepares func() // called before a Prepare is sent; may be nil
	once     string // a node that can be reached only once; empty: none
	reached  atomic.Int32
}

func (r *recorder) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, r.dial)
}

func (r *recorder) dial(ctx context.Context, host transport.Host) (io.ReadWriteCloser, error) {
	if host.Name == r.once && r.reached.Add(1) > 1 {
		return nil, errors.New("connection refused")
	}
	stream, err := r.local.dial(ctx, host)
	if err != nil {
		return nil, err
	}
	said, heard := r.listen(host.Name+" > ", wire.Helper), r.listen(host.Name+" < ", wire.Launcher)
	return tapped{io.TeeReader(stream, heard), io.MultiWriter(hook{r}, stream, said), func() error {
		return errors.Join(stream.Close(), said.Close(), heard.Close())
	}}, nil
}

// A hook sees each message to a helper before it is sent: each write begins with a frame.
type hook struct{ *recorder }

func (h hook) Write(frames []byte) (int, error) {
	if h.prepares != nil && frames[0] == wire.Encode(&wire.Prepare{})[0] {
		h.prepares()
	}
	return len(frames), nil
}

// listen records the messages from the other end of a side, of which it is passed every byte.
func (r *recorder) listen(prefix string, side wire.Side) io.WriteCloser {
	out, in := io.Pipe()
	conn := wire.NewConn(tapped{out, io.Discard, out.Close}, side)
	note := func(m wire.Message) { io.WriteString(&r.tape, prefix+wire.NameOf(m)+"\n") }
	r.scribe.Go(func() {
		defer conn.Abandon()
		defer io.Copy(io.Discard, out) // the sender must not wait for the recorder
		if side == wire.Launcher {
			hello, _, err := conn.ReceiveHello()
			if err != nil {
				return
			}
			note(hello)
		}
		for {
			m, err := conn.Recv()
			if err != nil {
				return
			}
			note(m)
		}
	})
	return in
}

// A tapped is a stream made of its parts.
type tapped struct {
	io.Reader
	io.Writer
	close func() error
}

func (t tapped) Close() error { return t.close() }

// kinds returns the recorded kinds of messages.
func (r *recorder) kinds() map[string]bool {
	r.scribe.Wait()
	said := make(map[string]bool)
	for line := range strings.Lines(r.tape.String()) {
		said[strings.Fields(line)[2]] = true
	}
	return said
}

// A stage is where one conversation takes place: recorded helpers, and a ledger shared by all.
type stage struct {
	*testing.T
	rec    *recorder
	ledger string
}

// cast prepares a job to run on the stage.
func (s stage) cast(r *run) *run {
	r.over, r.req.Queue.LedgerDir = s.rec, s.ledger
	return r
}

// must runs a job that exits with code or, if code is negative, does not start.
func (s stage) must(r *run, code int) {
	s.Helper()
	result, err := s.cast(r).do(s.T)
	if code < 0 && err == nil || code >= 0 && (err != nil || result.Code != code) {
		s.Errorf("code %d, %v, want %d; stdout %q, stderr %q", result.Code, err, code, r.out.String(), r.err.String())
	}
}

// other returns a connection of another user's mpiexec to a helper on a node. It is not recorded.
func (s stage) other(node string) *wire.Conn {
	s.Helper()
	stream, err := s.rec.local.dial(s.Context(), transport.Host{Name: node})
	if err != nil {
		s.Fatal(err)
	}
	conn := wire.NewConn(stream, wire.Launcher)
	s.Cleanup(func() { conn.Close() })
	if _, _, err := conn.ReceiveHello(); err != nil {
		s.Fatal(err)
	}
	return conn
}

// hears returns when a message of a kind has arrived.
func (s stage) hears(conn *wire.Conn, kind string) {
	s.Helper()
	for {
		m, err := conn.Recv()
		if err != nil {
			s.Fatalf("no %s: %v", kind, err)
		}
		if wire.NameOf(m) == kind {
			return
		}
	}
}

// occupies claims a whole node for another job, until the connection ends.
func (s stage) occupies(node string) *wire.Conn {
	s.Helper()
	return s.claims(node, job.Claim{Job: "other", Exclusive: true})
}

// claims claims CPUs of a node for another job, until the connection ends.
func (s stage) claims(node string, claim job.Claim, cpus ...int) *wire.Conn {
	s.Helper()
	conn := s.other(node)
	conn.Send(&wire.Prepare{Job: claim.Job, Group: wire.Group{Name: string(claim.Job), Size: 1, NodeCount: 1}, Process: wire.Process{Umask: -1},
		Claim: wire.Claim{Entry: claim, Ledger: s.ledger, MaxProcs: -1},
		Apps:  []job.App{{Argv: []string{"/bin/true"}, Dir: "/"}}, Ranks: []job.RankPlan{{RankResources: &job.RankResources{ClaimedCPUs: cpus}}}})
	s.hears(conn, "Prepared")
	return conn
}

// ownAddress returns an address of this machine that other hosts could reach.
func ownAddress(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, is := a.(*net.IPNet); is && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but that of its loopback")
	return ""
}

// asked formats a request as a line for a rank that uses its PMIx server.
func asked(request message.Request) string {
	body := pmixtest.Encode(request)
	return fmt.Sprintf("message %x\n", append(message.AppendHeader(nil, 1, len(body)), body...))
}

// conversations make mpiexec and helpers send every kind of message, by actions and situations of a
// user.
var conversations = []struct {
	name string
	says string // a message that is sent, among others
	play func(stage)
}{
	{"a job that is accounted for", "SampledUsage", func(s stage) {
		seen := filepath.Join(s.TempDir(), "seen")
		r := newRun(1, "until test -e "+seen+"; do sleep 0.05; done", "a")
		r.req.EndPolicy.SampleUsage = true
		over := make(chan struct{})
		go func() {
			for !strings.Contains(s.rec.tape.String(), "< SampledUsage") {
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
			os.WriteFile(seen, nil, 0o600)
		}()
		s.must(r, 0)
		close(over)
	}},
	{"ranks that talk", "Hello NodeInfo LockDecision DecisionLocked UnlockDecision Survey Surveyed Prepare Prepared Start Started Data Credit Fence Fenced NameRequest NameReply RankMapRequest RankMap PMITrace Exited EndJob Drained Bye", func(s stage) {
		r := newTalk(2, "barrier; 0: publish svc p; hosts; say done", nil, "a", "b")
		r.in, r.trace = strings.NewReader("input\n"), io.Discard
		s.must(r, 0)
	}},
	{"ranks of one node that read", "StdinBroadcast Credit", func(s stage) {
		r := newRun(2, "read line; test $line = input", "a:2")
		r.req.Streams.Stdin, r.in = job.AllRanks, strings.NewReader("input\n")
		s.must(r, 0)
	}},
	{"two names of one machine", "WriteMark MarkWritten ReadMarks MarksRead", func(s stage) { s.must(newRun(2, "true", "c~1", "c~2"), 0) }},
	{"a variable whose directory is not there", "Log", func(s stage) {
		r := newRun(1, "true", "a")
		r.req.BaseEnv.DirVars = []string{"LIBRARIES=/no/such/directory"}
		s.must(r, 0)
	}},
	{"a program that one node lacks", "Refused CancelPrepare", func(s stage) {
		r := newRun(1, "true", "a", "b")
		r.req.Apps = append(r.req.Apps, job.App{N: 1, Argv: []string{"no-such-program"}, Dir: "/"})
		s.must(r, -1)
	}},
	{"another job is faster", "ClaimConflict", func(s stage) {
		r := newRun(1, "true", "a")
		s.rec.prepares = sync.OnceFunc(func() { s.occupies("a") })
		s.must(r, -1)
	}},
	{"files to stage", "StageFiles MissingFiles FileChunk FileCredit StageResult", func(s stage) {
		r := newRun(1, "true", "a")
		r.addStagedFile("large", bytes.Repeat([]byte("words and words "), wire.StageWindow/8))
		s.must(r, 0)
	}},
	{"ranks that spawn", "Spawn Spawned KillGroup", func(s stage) {
		broken := filepath.Join(s.TempDir(), "broken")
		if err := os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
			s.Fatal(err)
		}
		s.must(newTalk(1, "spawn 1 leaf; spawn 1 leaf + 2 leaf program="+broken, map[string]string{"leaf": "say leaf"}, "a:4"), 0)
	}},
	{"a name that a rank waits for", "NamePublished", func(s stage) {
		r := newRun(1, "", "a", "b")
		r.req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe"}, Dir: "/", PMIOffer: job.PMIOfferPMIx}, {N: 1, Argv: []string{"/proc/self/exe",
			asked(&message.Lookup{Keys: []string{"svc"}, Options: message.Options{{Key: "pmix.wait", Value: bfrops.FlagOf(true)}}})}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.req.BaseEnv.Set = []string{guestMark + "=1"}
		input, publisher := io.Pipe()
		r.in = input
		waiting := s.rec.tape.shows("b < NameRequest\n")
		go func() {
			<-waiting
			io.WriteString(publisher, asked(&message.Publish{Infos: message.Options{{Key: "svc", Value: bfrops.TextOf("port")}}}))
			publisher.Close()
		}()
		s.must(r, 0)
	}},
	{"a rank that wants what one of another node has not", "Fetch Fetched", func(s stage) {
		r := newRun(1, "", "a", "b")
		wants := asked(&message.Get{Namespace: pmixtest.Namespace, Rank: 1, Key: "card"})
		r.req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", wants}, Dir: "/", PMIOffer: job.PMIOfferPMIx},
			{N: 1, Argv: []string{"/proc/self/exe", ""}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.req.BaseEnv.Set = []string{guestMark + "=1"}
		s.must(r, 0)
		if r.out.String() != "status -46\n" {
			s.Errorf("it is answered by %q", r.out.String())
		}
	}},
	{"ranks that ask for those of a group on another node", "GroupEnded", func(s stage) {
		r, enough := newRun(1, "", "a", "b"), filepath.Join(s.TempDir(), "enough")
		child := bfrops.Program{Command: "sh", Args: []string{"sh", "-c", `until test -e "$0"; do sleep 0.01; done`, enough}, Ranks: 1,
			Options: message.Options{{Key: "pmix.host", Value: bfrops.TextOf("b")}}}
		spawns := asked(&message.Spawn{Programs: []bfrops.Program{child}})
		wants := asked(&message.Get{Namespace: strings.TrimSuffix(pmixtest.Namespace, "0") + "1", Rank: bfrops.Wildcard, Key: "pmix.job.size"})
		r.req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", spawns + wants}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.req.BaseEnv.Set = []string{guestMark + "=1"}
		told := s.rec.tape.shows("a > RankMap\n")
		go func() {
			<-told
			os.WriteFile(enough, nil, 0o600)
		}()
		s.must(r, 0)
		if r.out.String() != "status 0\nstatus 0\n" {
			s.Errorf("it is answered by %q", r.out.String())
		}
	}},
	{"a rank that tells others of an event", "Notify Notified", func(s stage) {
		r := newRun(1, "", "a", "b")
		tells := asked(&message.Notify{Event: -3001, Range: message.InJob})
		r.req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", tells}, Dir: "/", PMIOffer: job.PMIOfferPMIx},
			{N: 1, Argv: []string{"/proc/self/exe", ""}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
		r.req.BaseEnv.Set = []string{guestMark + "=1"}
		s.must(r, 0)
		if r.out.String() != "status 0\n" {
			s.Errorf("it is answered by %q", r.out.String())
		}
	}},
	{"ranks whose libraries have the same to say", "ShowHelp ShowHelpReply", func(s stage) {
		r := newRun(1, "", "a", "b")
		says := asked(&message.Log{Data: message.Options{{Key: "pmix.log.stderr", Value: bfrops.TextOf("it is broken\n")}},
			Directives: message.Options{{Key: "pmix.log.key", Value: bfrops.TextOf("help.txt")}, {Key: "pmix.log.val", Value: bfrops.TextOf("broken")}}})
		r.req.Apps = slices.Repeat([]job.App{{N: 1, Argv: []string{"/proc/self/exe", says}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}, 2)
		r.req.BaseEnv.Set = []string{guestMark + "=1"}
		s.must(r, 0)
		if said := r.err.String(); strings.Count(said, "it is broken\n") != 1 || !strings.Contains(said, "(broken: the same from 1 more rank)") {
			s.Errorf("stderr %q", said)
		}
	}},
	{"ranks that outlive one", "FailedRanks", func(s stage) { s.must(outliving("a:2", "b"), 5) }},
	{"an abort", "PMIReport", func(s stage) { s.must(newTalk(1, "abort 5", nil, "a"), 5) }},
	{"a signal, and a terminal of another size", "Signal ResizeTerminal", func(s stage) {
		r := s.cast(newRun(1, "trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done", "a"))
		resized := make(chan os.Signal, 1)
		env := r.env()
		env.TerminalResized, env.TerminalSize = resized, func() (rows, cols int) { return 24, 80 }
		ready, told := r.out.shows("ready"), s.rec.tape.shows(" ResizeTerminal\n")
		go func() {
			<-ready
			resized <- syscall.SIGWINCH
			<-told
			r.signals <- syscall.SIGUSR1
		}()
		if result, err := launch.Run(s.Context(), r.req, env); err != nil || result.Code != 3 {
			s.Errorf("code %d, %v", result.Code, err)
		}
	}},
	{"a limit of the node's own", "LimitExceeded", func(s stage) {
		r := newRun(1, "exec sleep 600", "narrow")
		s.must(r, 124)
		if said := r.err.String(); !strings.Contains(said, "=>> mpiexec: job killed: vmem ") || !strings.Contains(said, " exceeded limit 4096 on host narrow\n") {
			s.Errorf("stderr %q", said)
		}
	}},
	{"a batch system that ends a step", "HelperSignaled", func(s stage) {
		// The rank does what a batch system does to all processes of its step. It dies when its
		// helper has reported the signal, which otherwise could come after its end.
		told, caught := filepath.Join(s.TempDir(), "told"), s.rec.tape.shows(" HelperSignaled\n")
		go func() {
			<-caught
			os.WriteFile(told, nil, 0o600)
		}()
		r := newRun(1, "trap '' TERM; kill -TERM $PPID; until test -e "+told+"; do sleep 0.05; done; kill -9 $$; sleep 600", "a")
		r.req.RM = &job.RM{Name: "slurm", Job: "4711", Starter: "srun", Integration: job.TightIntegration}
		s.must(r, 143)
	}},
	{"a rank that leaves shared memory", "IPCCleaned", func(s stage) {
		if _, err := exec.LookPath("perl"); err != nil {
			s.Skip(err)
		}
		r := newRun(1, `exec perl -e '$id = shmget(0, 4096, 0600) // die $!; print "segment $id\n"; kill 9, $$'`, "a")
		s.must(r, 137)
		id, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(r.out.String(), "segment ")))
		if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, new(unix.SysvShmDesc)); err == nil {
			s.Errorf("it is still there: %q", r.out.String())
		}
	}},
	{"-timeout", "InspectRanks RankStates", func(s stage) {
		r := newRun(1, "exec sleep 600", "a")
		r.req.TimeLimits.Run = 200 * time.Millisecond
		s.must(r, 124)
	}},
	{"a reader who pauses at the end", "ProcessesGone", func(s stage) {
		// Output beyond the window waits in the pipe of a rank that has ended.
		r, terminal := newRun(1, fmt.Sprintf("head -c %d /dev/zero", stdio.WindowSize(1)+1000), "a"), newStuckWriter()
		r.stuck = terminal
		waiting := s.rec.tape.shows(" ProcessesGone\n")
		go func() {
			<-waiting
			close(terminal.letGo)
		}()
		s.must(r, 0)
	}},
	{"a request that waits for a node", "Enqueue QueuePosition WatchClaims ClaimsChanged Ping Dequeue", func(s stage) {
		job, r := s.occupies("a"), newRun(1, "true", "a")
		r.req.Wait = true
		waiting := s.rec.tape.shows("a > Ping\n")
		go func() {
			<-waiting
			job.Close()
		}()
		s.must(r, 0)
	}},
	{"a request that waits behind one that never fits", "Overtake", func(s stage) {
		greedy := s.other("a")
		greedy.Send(&wire.Enqueue{Ledger: s.ledger, Ticket: job.Ticket{Job: "greedy", User: "greedy", Size: 1 << 20}})
		s.hears(greedy, "QueuePosition")
		r := newRun(1, "true", "a")
		r.req.Wait = true
		s.must(r, 0)
	}},
	{"a job that is started again", "NextAttempt AttemptReady", func(s stage) {
		r := newRun(2, `echo "attempt $MPIEXEC_ATTEMPT"; [ "$MPIEXEC_ATTEMPT" = 2 ]`, "a", "b")
		r.req.Restart = job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
		s.must(r, 0)
		if tape := s.rec.tape.String(); strings.Count(tape, "Hello") != 2 || strings.Count(tape, "> NextAttempt\n") != 4 || strings.Count(tape, "> Bye") != 2 {
			s.Errorf("it has not kept its two helpers:\n%s", tape)
		}
		if out := r.out.String(); strings.Count(out, "attempt 2\n") != 2 {
			s.Errorf("stdout %q", out)
		}
	}},
	{"a job with a spare", "NextAttempt AttemptReady", func(s stage) {
		r := newRun(2, `echo "$MPIEXEC_ATTEMPT on $MPIEXEC_HOST"; [ $MPIEXEC_ATTEMPT = 1 ] || { [ $MPIEXEC_HOST = a ] || kill -9 $PPID; exec sleep 600; }`, "a", "b", "c", "d")
		r.req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}, Delay: time.Millisecond, StandbyNodes: 2}
		s.must(r, 0)
		tape := s.rec.tape.String()
		if out := r.out.String(); !strings.Contains(out, "1 on a\n") || !strings.Contains(out, "1 on c\n") || strings.Count(tape, "c < Hello") != 1 || !strings.Contains(tape, "c > NextAttempt") || !strings.Contains(tape, "d > NextAttempt") {
			s.Errorf("its spare c was not used, or not kept: stdout %q, stderr %q\n%s", out, r.err.String(), tape)
		}
	}},
	{"a job that finds no room to be started again, and waits", "ReleaseClaims", func(s stage) {
		r := newRun(2, `[ $MPIEXEC_HOST = a ] || kill -9 $PPID; exec sleep 600`, "a", "b")
		r.req.Restart, r.req.Wait = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}, Delay: time.Millisecond}, true
		s.rec.once = "b"
		yields := s.rec.tape.shows("a > ReleaseClaims\n")
		go func() {
			<-yields
			r.signals <- syscall.SIGINT
		}()
		s.must(r, -1)
	}},
	{"jobs are listed, signalled and ended", "ListLedger LedgerListed SignalJob JobSignaled Evict Evicted", func(s stage) {
		r := s.cast(newRun(1, "true", "a"))
		s.occupies("a")
		_, listed := reserve.Ledgers(s.Context(), r.req, r.env().Env)
		_, alerted := reserve.SignalJob(s.Context(), r.req, r.env().Env, job.JobRef{Job: "other"}, int(syscall.SIGUSR1))
		_, evicted := reserve.Evict(s.Context(), r.req, r.env().Env, job.JobRef{Job: "other"})
		if err := errors.Join(listed, alerted, evicted); err != nil {
			s.Error(err)
		}
	}},
	{"somebody suspends a job, and ends it", "ControlRequest ControlReply InspectRanks RankStates Hold EndJob", func(s stage) {
		r := newRun(2, "echo up; exec sleep 600", "a", "b")
		up := s.rec.tape.shows("Started")
		go func() {
			<-up
			r := s.cast(newRun(1, "true", "b"))
			ask := func(verb job.Verb) (asked reserve.ControlResult, err error) {
				for range 20 { // a slow machine may not reply within 10 s
					asked, err = reserve.Control(s.Context(), r.req, r.env().Env, job.JobRef{Job: job.NewestJob}, job.ControlRequest{Verb: verb})
					if !strings.HasPrefix(asked.Reply.Text, "no answer") {
						break
					}
				}
				return asked, err
			}
			asked, err := ask(job.VerbStatus)
			if n := len(asked.Reply.Ranks); err != nil || n != 2 {
				s.Errorf("%d of 2 ranks are told, %+v, %v", n, asked, err)
			}
			for _, verb := range []job.Verb{job.VerbSuspend, job.VerbResume, job.VerbSuspend} {
				if asked, err = ask(verb); err != nil || asked.Reply.State != job.ReplyDone {
					s.Errorf("%s: %+v, %v", verb, asked, err)
				}
			}
			asked, err = ask(job.VerbEnd)
			if err != nil || asked.Reply.State != job.ReplyDone {
				s.Errorf("%+v, %v", asked, err)
			}
		}()
		s.must(r, 143)
	}},
	{"--doctor", "Diagnose Diagnosed OpenProbePort ProbePortOpened ProbePeers PeersProbed", func(s stage) {
		r := s.cast(newRun(1, "true", "a", "b"))
		own := ownAddress(s.T)
		s.rec.environ = []string{"SSH_CONNECTION=" + own + " 50000 " + own + " 22"} // as on a node that is reached by ssh
		if _, _, err := reserve.Diagnose(s.Context(), r.req, r.env().Env); err != nil {
			s.Error(err)
		}
	}},
}

// Real jobs with real helpers send every kind of message. This test finds kinds in the table that
// are never sent, or sent by a side that nothing receives from.
func TestEveryKindIsSaid(t *testing.T) {
	unsaid := make(map[string]bool)
	for _, k := range wire.Kinds() {
		unsaid[k.Name] = true
	}
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := stage{t, &recorder{}, t.TempDir()}
			c.play(s)
			said := s.rec.kinds()
			for kind := range strings.FieldsSeq(c.says) {
				if !said[kind] {
					t.Errorf("no %s in this conversation:\n%s", kind, s.rec.tape.String())
				}
			}
		})
		for kind := range strings.FieldsSeq(c.says) {
			delete(unsaid, kind)
		}
	}
	for kind := range unsaid {
		t.Errorf("%s is in no conversation of this test: add what provokes it", kind)
	}
}
