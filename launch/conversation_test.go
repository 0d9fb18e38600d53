//go:build linux

package launch_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/launchtest"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/wire"
)

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

// conversations make mpiexec and helpers send every kind of message, by actions and situations of a
// user.
var conversations = []struct {
	name string
	says string // a message that is sent, among others
	play func(launchtest.Recording)
}{
	{"ranks that talk", "Hello NodeInfo LockDecision DecisionLocked UnlockDecision Survey Surveyed Prepare Prepared Start Started Data Credit Fence Fenced RankMapRequest RankMap Exited EndJob Drained Bye", func(s launchtest.Recording) {
		r := launchtest.NewPMIRun(2, "barrier; hosts; say done", nil, "a", "b")
		r.In = strings.NewReader("input\n")
		s.MustExit(r, 0)
	}},
	{"ranks of one node that read", "StdinBroadcast Credit", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "read line; test $line = input", "a:2")
		r.Req.Streams.Stdin, r.In = job.AllRanks, strings.NewReader("input\n")
		s.MustExit(r, 0)
	}},
	{"two names of one machine", "WriteMark MarkWritten ReadMarks MarksRead", func(s launchtest.Recording) { s.MustExit(launchtest.NewRun(2, "true", "c~1", "c~2"), 0) }},
	{"a variable whose directory is not there", "Log", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "true", "a")
		r.Req.BaseEnv.DirVars = []string{"LIBRARIES=/no/such/directory"}
		s.MustExit(r, 0)
	}},
	{"a program that one node lacks", "Refused CancelPrepare", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "true", "a", "b")
		r.Req.Apps = append(r.Req.Apps, job.App{N: 1, Argv: []string{"no-such-program"}, Dir: "/"})
		s.MustExit(r, -1)
	}},
	{"another job is faster", "ClaimConflict", func(s launchtest.Recording) {
		r := launchtest.NewRun(1, "true", "a")
		s.Recorder.OnPrepare = sync.OnceFunc(func() { s.Occupy("a") })
		s.MustExit(r, -1)
	}},
	{"an abort", "PMIReport", func(s launchtest.Recording) { s.MustExit(launchtest.NewPMIRun(1, "abort 5", nil, "a"), 5) }},
	{"a signal, and a terminal of another size", "Signal ResizeTerminal", func(s launchtest.Recording) {
		r := s.Add(launchtest.NewRun(1, "trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done", "a"))
		resized := make(chan os.Signal, 1)
		env := r.Env()
		env.TerminalResized, env.TerminalSize = resized, func() (rows, cols int) { return 24, 80 }
		ready, told := r.Out.Shows("ready"), s.Recorder.Log.Shows(" ResizeTerminal\n")
		go func() {
			<-ready
			resized <- syscall.SIGWINCH
			<-told
			r.Signals <- syscall.SIGUSR1
		}()
		if result, err := launch.Run(s.Context(), r.Req, env); err != nil || result.Code != 3 {
			s.Errorf("code %d, %v", result.Code, err)
		}
	}},
	{"a batch system that ends a step", "HelperSignaled", func(s launchtest.Recording) {
		// The rank does what a batch system does to all processes of its step. It dies when its
		// helper has reported the signal, which otherwise could come after its end.
		told, caught := filepath.Join(s.TempDir(), "told"), s.Recorder.Log.Shows(" HelperSignaled\n")
		go func() {
			<-caught
			os.WriteFile(told, nil, 0o600)
		}()
		r := launchtest.NewRun(1, "trap '' TERM; kill -TERM $PPID; until test -e "+told+"; do sleep 0.05; done; kill -9 $$; sleep 600", "a")
		r.Req.RM = &job.RM{Name: "slurm", Job: "4711", Starter: "srun", Integration: job.TightIntegration}
		s.MustExit(r, 143)
	}},
	{"a reader who pauses at the end", "ProcessesGone", func(s launchtest.Recording) {
		// Output beyond the window waits in the pipe of a rank that has ended.
		r, terminal := launchtest.NewRun(1, fmt.Sprintf("head -c %d /dev/zero", stdio.WindowSize(1)+1000), "a"), launchtest.NewStuckWriter()
		r.Stdout = terminal
		waiting := s.Recorder.Log.Shows(" ProcessesGone\n")
		go func() {
			<-waiting
			close(terminal.Release)
		}()
		s.MustExit(r, 0)
	}},
	{"a request that waits for a node", "Enqueue QueuePosition WatchClaims ClaimsChanged Ping Dequeue", func(s launchtest.Recording) {
		job, r := s.Occupy("a"), launchtest.NewRun(1, "true", "a")
		r.Req.Wait = true
		waiting := s.Recorder.Log.Shows("a > Ping\n")
		go func() {
			<-waiting
			job.Close()
		}()
		s.MustExit(r, 0)
	}},
	{"a request that waits behind one that never fits", "Overtake", func(s launchtest.Recording) {
		greedy := s.OtherLauncher("a")
		greedy.Send(&wire.Enqueue{Ledger: s.LedgerDir, Ticket: job.Ticket{Job: "greedy", User: "greedy", Size: 1 << 20}})
		s.Expect(greedy, "QueuePosition")
		r := launchtest.NewRun(1, "true", "a")
		r.Req.Wait = true
		s.MustExit(r, 0)
	}},
	{"a job that is started again", "NextAttempt AttemptReady", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, `echo "attempt $MPIEXEC_ATTEMPT"; [ "$MPIEXEC_ATTEMPT" = 2 ]`, "a", "b")
		r.Req.Restart = job.RestartPolicy{MaxRestarts: 2, On: []job.EndKind{job.EndByExitCode}, Delay: time.Millisecond}
		s.MustExit(r, 0)
		if tape := s.Recorder.Log.String(); strings.Count(tape, "Hello") != 2 || strings.Count(tape, "> NextAttempt\n") != 4 || strings.Count(tape, "> Bye") != 2 {
			s.Errorf("it has not kept its two helpers:\n%s", tape)
		}
		if out := r.Out.String(); strings.Count(out, "attempt 2\n") != 2 {
			s.Errorf("stdout %q", out)
		}
	}},
	{"a job with a spare", "NextAttempt AttemptReady", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, `echo "$MPIEXEC_ATTEMPT on $MPIEXEC_HOST"; [ $MPIEXEC_ATTEMPT = 1 ] || { [ $MPIEXEC_HOST = a ] || kill -9 $PPID; exec sleep 600; }`, "a", "b", "c", "d")
		r.Req.Restart = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}, Delay: time.Millisecond, StandbyNodes: 2}
		s.MustExit(r, 0)
		tape := s.Recorder.Log.String()
		if out := r.Out.String(); !strings.Contains(out, "1 on a\n") || !strings.Contains(out, "1 on c\n") || strings.Count(tape, "c < Hello") != 1 || !strings.Contains(tape, "c > NextAttempt") || !strings.Contains(tape, "d > NextAttempt") {
			s.Errorf("its spare c was not used, or not kept: stdout %q, stderr %q\n%s", out, r.Err.String(), tape)
		}
	}},
	{"a job that finds no room to be started again, and waits", "ReleaseClaims", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, `[ $MPIEXEC_HOST = a ] || kill -9 $PPID; exec sleep 600`, "a", "b")
		r.Req.Restart, r.Req.Wait = job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}, Delay: time.Millisecond}, true
		s.Recorder.ReachedOnce = "b"
		yields := s.Recorder.Log.Shows("a > ReleaseClaims\n")
		go func() {
			<-yields
			r.Signals <- syscall.SIGINT
		}()
		s.MustExit(r, -1)
	}},
	{"jobs are listed, signalled and ended", "ListLedger LedgerListed SignalJob JobSignaled Evict Evicted", func(s launchtest.Recording) {
		r := s.Add(launchtest.NewRun(1, "true", "a"))
		s.Occupy("a")
		_, listed := reserve.Ledgers(s.Context(), r.Req, r.Env().Env)
		_, alerted := reserve.SignalJob(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: "other"}, int(syscall.SIGUSR1))
		_, evicted := reserve.Evict(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: "other"})
		if err := errors.Join(listed, alerted, evicted); err != nil {
			s.Error(err)
		}
	}},
	{"somebody suspends a job, and ends it", "ControlRequest ControlReply Hold EndJob", func(s launchtest.Recording) {
		r := launchtest.NewRun(2, "echo up; exec sleep 600", "a", "b")
		up := s.Recorder.Log.Shows("Started")
		go func() {
			<-up
			r := s.Add(launchtest.NewRun(1, "true", "b"))
			ask := func(verb job.Verb) (asked reserve.ControlResult, err error) {
				for range 20 { // a slow machine may not reply within 10 s
					asked, err = reserve.Control(s.Context(), r.Req, r.Env().Env, job.JobRef{Job: job.NewestJob}, job.ControlRequest{Verb: verb})
					if !strings.HasPrefix(asked.Reply.Text, job.NoAnswerText) {
						break
					}
				}
				return asked, err
			}
			for _, verb := range []job.Verb{job.VerbSuspend, job.VerbResume, job.VerbSuspend} {
				if asked, err := ask(verb); err != nil || asked.Reply.State != job.ReplyDone {
					s.Errorf("%s: %+v, %v", verb, asked, err)
				}
			}
			asked, err := ask(job.VerbEnd)
			if err != nil || asked.Reply.State != job.ReplyDone {
				s.Errorf("%+v, %v", asked, err)
			}
		}()
		s.MustExit(r, 143)
	}},
	{"--doctor", "Diagnose Diagnosed OpenProbePort ProbePortOpened ProbePeers PeersProbed", func(s launchtest.Recording) {
		r := s.Add(launchtest.NewRun(1, "true", "a", "b"))
		own := ownAddress(s.T)
		s.Recorder.Environ = []string{"SSH_CONNECTION=" + own + " 50000 " + own + " 22"} // as on a node that is reached by ssh
		if _, _, err := reserve.Diagnose(s.Context(), r.Req, r.Env().Env); err != nil {
			s.Error(err)
		}
	}},
}

// Real jobs with real helpers send every kind of message. This test finds kinds in the table that
// are never sent, or sent by a side that nothing receives from. The messages of a feature are tested beside it, and so are
// KillGroup and GroupEnded: a job has one group unless its ranks spawn.
func TestEveryKindIsSaid(t *testing.T) {
	unsaid := make(map[string]bool)
	for _, k := range wire.Kinds() {
		unsaid[k.Name] = k.Example == nil && k.Name != "KillGroup" && k.Name != "GroupEnded"
	}
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			launchtest.RecordJobs(t, c.says, c.play)
		})
		for kind := range strings.FieldsSeq(c.says) {
			delete(unsaid, kind)
		}
	}
	for kind, missing := range unsaid {
		if missing {
			t.Errorf("%s is in no conversation of this test: add what provokes it", kind)
		}
	}
}
