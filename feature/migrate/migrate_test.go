package migrate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	_ "remshell/feature" // a move needs requests of users
	"remshell/job"
	"remshell/launch"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/test/actors"
	"remshell/trace"
	"remshell/wire"
)

// A removal is a job to be moved, on simulated helpers. It has one rank each on n0 and n1; n2 is
// free. If the move is refused, the ranks end well.
type removal struct {
	*actors.FakeHelpers
	args   []string // of the request
	on     string   // when trouble comes: "claim", "checkpoint", "look", "unanswered look" or "end"
	strike func(s *removal, c *wire.Conn, group string)
	fails  string // why the checkpoint fails; empty: it does not

	signals chan os.Signal // signals to mpiexec
	times   *trace.Recorder

	mu    sync.Mutex // guards the fields below
	conns map[string]*wire.Conn
	ranks map[string]int  // by node; -1: it has ended
	next  map[string]bool // nodes of the second attempt
	begun int
	diary []string
}

func (s *removal) note(format string, words ...any) {
	s.diary = append(s.diary, fmt.Sprintf(format, words...))
}

// ends ends the rank of a node, unless it has ended.
func (s *removal) ends(on string, exit job.Exit) {
	if exit.Rank = s.ranks[on]; exit.Rank >= 0 {
		s.conns[on].Send(&wire.Exited{Exit: exit})
	}
	s.ranks[on] = -1
}

func (s *removal) play(c *wire.Conn, node string, m wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[node] = c
	switch m := m.(type) {
	case *wire.Survey:
		if (s.on == "look" || s.on == "unanswered look") && s.begun == 2 && node == "n2" {
			silent := s.on != "look"
			s.on = "" // once
			s.strike(s, c, "")
			return silent
		}
	case *wire.Prepare:
		if m.Claim.Entry.IdleReason != "" {
			s.note("%s claims %d of %s", node, len(m.Ranks), m.Group.Name)
			if s.on == "claim" {
				s.strike(s, c, m.Group.Name)
				return true
			}
			time.AfterFunc(time.Second, func() { c.Send(&wire.Prepared{Group: m.Group.Name}) }) // requests made meanwhile are handled by then
			return true
		}
		s.ranks[node] = m.Ranks[0].Rank
		for _, assignment := range m.Process.BaseEnv.Set {
			s.next[node] = s.next[node] || assignment == "MPIEXEC_RESTART_REASON=move"
		}
	case *wire.Start:
		c.Send(&wire.Started{Rank: s.ranks[node], PID: 1})
		if s.next[node] {
			s.note("%s starts", node)
			s.ends(node, job.Exit{})
			break
		}
		if s.begun++; s.begun == 2 {
			ask := &wire.ControlRequest{ID: "1", Role: job.RoleOwner, Request: job.ControlRequest{Job: "j", User: "alice", Verb: job.VerbMigrate, Args: s.args, Since: time.Now()}}
			n0 := s.conns["n0"]
			time.AfterFunc(time.Second, func() { n0.Send(ask) }) // when all ranks run
		}
	case *wire.ControlReply:
		s.note("%s: %s", m.State, m.Text)
		if m.State == job.ReplyRefused {
			s.ends("n0", job.Exit{})
			s.ends("n1", job.Exit{})
		}
	case *wire.EndJob:
		if s.on == "end" && s.ranks[node] < 0 {
			break // a second EndJob with a shorter time
		}
		if m.Linger == 0 {
			s.note("%s ends", node)
			s.ends(node, job.Exit{Signal: 15, ToldToEnd: true})
		}
		if s.on == "end" {
			s.strike(s, nil, "")
			time.AfterFunc(time.Second, func() { c.Send(&wire.Drained{}) })
			break
		}
		c.Send(&wire.Drained{})
	case *wire.Hold:
		s.note("%s %s", node, map[bool]string{true: "stands", false: "goes on"}[m.On])
	case *wire.NextAttempt:
		c.Send(&wire.AttemptReady{})
	case *wire.CancelPrepare:
		s.note("%s releases %s", node, m.Group)
	}
	return false
}

// checkpoints is launch.Checkpoints of a removal: a checkpoint takes a second, in which trouble may come.
type checkpoints struct {
	*removal
	job        *launch.Job
	inProgress bool
	replies    []func(why string)
	stop       func()
}

func init() {
	launch.Register(launch.Feature{Name: "checkpoints of a test", Attach: func(j *launch.Job) {
		c := &checkpoints{removal: j.Env.Dialer.(*removal), job: j}
		j.Checkpoints = c
		j.Hooks.Due.Add(func(time.Time) time.Time {
			if j.State.Phase != supervise.Running {
				c.finish("the job ended before the checkpoint was complete", nil)
			}
			return time.Time{}
		})
	}})
}

func (c *checkpoints) InProgress() bool { return c.inProgress }
func (c *checkpoints) CancelStop()      {}

func (c *checkpoints) Request(answer func(why string), _ func()) {
	c.replies = append(c.replies, answer)
}

func (c *checkpoints) RequestAndStop(stop func(), stays func(why string)) {
	c.inProgress, c.replies = true, append(c.replies, func(why string) {
		if c.stop == nil {
			stays(why)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note("saves")
	if c.on == "checkpoint" {
		c.strike(c.removal, nil, "")
	}
	time.AfterFunc(time.Second, func() {
		c.job.Post(func() []supervise.Event {
			if c.inProgress && c.fails != "" {
				c.job.Env.Report(c.fails)
			}
			if c.fails != "" && c.job.Request.Checkpoint.Required {
				stop = nil
			}
			c.finish(c.fails, stop)
			return nil
		})
	})
}

// finish ends the checkpoint in progress. why says why there is none; stop, if not nil, ends the attempt.
func (c *checkpoints) finish(why string, stop func()) {
	if !c.inProgress {
		return
	}
	c.inProgress, c.stop = false, stop
	for _, answer := range c.replies {
		answer(why)
	}
	if c.replies = nil; stop != nil {
		stop()
	}
}

// run runs the job, and returns its exit code and the lines for the user.
func (s *removal) run(t *testing.T, change func(*job.Request)) (code int, said string) {
	t.Helper()
	s.FakeHelpers, s.conns, s.ranks, s.next = actors.New(s.play), make(map[string]*wire.Conn), make(map[string]int), make(map[string]bool)
	req := job.Request{Job: "j", Apps: []job.App{{N: 2, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 1}}}, TimeLimits: job.TimeLimits{Grace: time.Second},
		Restart: job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByNodeLoss}}, Checkpoint: job.CheckpointPolicy{Command: "save", Grace: time.Hour}}
	for i := range 3 {
		name := fmt.Sprint("n", i)
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: name, Host: name, Slots: 1})
	}
	change(&req)
	s.signals = make(chan os.Signal, 9)
	defer close(s.signals)
	var text strings.Builder
	errs := stdio.Stderr(&text)
	env := launch.Env{Out: stdio.Stdout(&strings.Builder{}), Err: errs}
	env.Env = reserve.Env{Connector: node.Connector{Dialer: s, GreetTimeout: 10 * time.Second, Log: zerolog.Nop(), Trace: s.times},
		RankOptions: reserve.RankOptions{Umask: -1}, Signals: s.signals, Report: func(line string) { fmt.Fprintln(errs, line) }, Suspend: func() {}}
	result, err := launch.Run(t.Context(), req, env)
	if err != nil {
		t.Errorf("%v", err)
		errs.Close()
	}
	<-errs.Done()
	synctest.Wait() // all messages are handled
	s.mu.Lock()
	defer s.mu.Unlock()
	return result.Code, text.String()
}

// What happens when a job is to be moved (survive.md SV-17). The target is claimed before the
// checkpoint. If there is none, or it is lost, the job goes on unchanged.
func TestMoves(t *testing.T) {
	lose := func(s *removal, _ *wire.Conn, _ string) { s.conns["n2"].Abandon() }
	asks := func(verb job.Verb) func(s *removal, _ *wire.Conn, _ string) {
		return func(s *removal, _ *wire.Conn, _ string) {
			s.conns["n0"].Send(&wire.ControlRequest{ID: "2", Role: job.RoleOwner, Request: job.ControlRequest{Job: "j", User: "alice", Verb: verb, Since: time.Now()}})
		}
	}
	for _, test := range []struct {
		name   string
		job    *removal
		change func(*job.Request)
		code   int
		diary  string // messages that nodes received
		says   string
	}{
		{"it goes", &removal{args: []string{"from=n1"}}, nil, 0,
			"taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|done: the job moves now to n[0,2]|n0 ends|n1 ends|n0 starts|n2 starts", "attempt 1: 2 ranks on n[0,2] (was n[0-1])"},
		{"its checkpoint fails", &removal{args: []string{"from=n1"}, fails: "the command of --ckpt-cmd exited with code 2"}, nil, 0,
			"taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|done: the job moves now to n[0,2]|n0 ends|n1 ends|n0 starts|n2 starts", "the command of --ckpt-cmd exited with code 2"},
		{"its checkpoint fails, and is required", &removal{args: []string{"from=n1"}, fails: "the command of --ckpt-cmd exited with code 2"}, func(req *job.Request) { req.Checkpoint.Required = true }, 0,
			"taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|n2 releases move|refused: the command of --ckpt-cmd exited with code 2", "the command of --ckpt-cmd exited with code 2"},
		{"others are faster", &removal{args: []string{"from=n1"}, on: "claim", strike: func(_ *removal, c *wire.Conn, group string) {
			c.Send(&wire.ClaimConflict{Group: group, Reason: "CPU 0 was taken"})
		}}, nil, 0,
			"taken: mpiexec looks for other hosts|" + strings.Repeat("n2 claims 1 of move|n2 releases move|", 5) + "refused: n2: CPU 0 was taken; mpiexec tried 5 times, and each time another job took CPUs first", ""},
		{"the node refuses", &removal{args: []string{"from=n1"}, on: "claim", strike: func(_ *removal, c *wire.Conn, group string) {
			c.Send(&wire.Refused{Group: group, Reason: "it is closed", Code: 125})
		}}, nil, 0, "taken: mpiexec looks for other hosts|n2 claims 1 of move|n2 releases move|refused: the job cannot be moved: n2: it is closed", ""},
		{"its place is lost while it saves", &removal{args: []string{"from=n1"}, on: "checkpoint", strike: lose}, nil, 0,
			"taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|refused: the job cannot be moved: mpiexec lost contact with n2", "lost contact with standby node n2"},
		{"a rank fails while it is looked for", &removal{args: []string{"from=n1"}, on: "unanswered look", strike: func(s *removal, _ *wire.Conn, _ string) { s.ends("n1", job.Exit{Code: 7}) }}, nil, 7, "taken: mpiexec looks for other hosts|n0 ends|n1 ends|refused: the job is already ending", "exited with code 7"},
		{"a rank fails while it saves", &removal{args: []string{"from=n1"}, on: "checkpoint", strike: func(s *removal, _ *wire.Conn, _ string) {
			s.ends("n1", job.Exit{Code: 7})
		}}, nil, 7, "taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|n2 releases move|refused: the job ended before the checkpoint was complete|n0 ends|n1 ends", "exited with code 7"},
		{"suspended while it is looked for", &removal{args: []string{"from=n1"}, on: "look", strike: asks(job.VerbSuspend)}, nil, 0,
			"taken: mpiexec looks for other hosts|n0 stands|n1 stands|done: suspended|n2 claims 1 of move|n2 releases move|refused: the job was suspended, so its ranks cannot write a checkpoint|n0 goes on|n1 goes on", "n0 says: the job was suspended by alice (--suspend)"},
		{"suspended while it saves", &removal{args: []string{"from=n1"}, on: "checkpoint", strike: asks(job.VerbSuspend)}, nil, 0, "taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|taken: the job is writing a checkpoint; mpiexec suspends the job after that|done: the job moves now to n[0,2]|n0 ends|n1 ends|refused: the job is already ending|n0 starts|n2 starts", "attempt 1: 2 ranks on n[0,2] (was n[0-1])"},
		{"^C while it ends", &removal{args: []string{"from=n1"}, on: "end", strike: func(s *removal, _ *wire.Conn, _ string) { s.signals <- syscall.SIGINT }}, nil, 130,
			"taken: mpiexec looks for other hosts|n2 claims 1 of move|taken: the job moves to n[0,2] after a checkpoint|saves|done: the job moves now to n[0,2]|n0 ends|n1 ends", ""},
		{"not with --restart", &removal{}, func(req *job.Request) { req.Restart = job.RestartPolicy{} }, 0, "refused: the job cannot be moved: it was started without --restart", ""},
		{"junk", &removal{args: []string{"home"}}, nil, 0, `refused: "home" is not an argument of a request to move a job`, ""},
		{"nowhere", &removal{args: []string{"to=n1"}}, nil, 0, "taken: mpiexec looks for other hosts|refused: the job cannot be moved: 2 ranks do not fit: there are free slots for only 1 rank on 1 node (n1); n[0,2]: this host is not in the list of --to", ""},
		{"not at all", &removal{}, nil, 0, "taken: mpiexec looks for other hosts|refused: the job cannot be moved: it would start on the same CPUs as now", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.change == nil {
					test.change = func(*job.Request) {}
				}
				code, said := test.job.run(t, test.change)
				if code != test.code || !tells(test.job.diary, test.diary) || !strings.Contains(said, test.says) {
					t.Errorf("code %d, want %d\n%s, want\n%s\n%s", code, test.code, strings.Join(test.job.diary, "|"), test.diary, said)
				}
			})
		})
	}
}

// tells reports whether a diary has certain entries. Entries of different nodes may be in any
// order; claim, checkpoint, end and start must be in this order.
func tells(diary []string, want string) bool {
	wanted := strings.Split(want, "|")
	last := 0
	for _, entry := range diary {
		for step, word := range []string{" claims ", "saves", " ends", " starts"} {
			if strings.Contains(" "+entry, word) {
				if step < last {
					return false
				}
				last = step
			}
		}
	}
	slices.Sort(wanted)
	return slices.Equal(slices.Sorted(slices.Values(diary)), wanted)
}

// In a trace, an attempt that was moved has not failed; a note says where the job went.
func TestTraceOfAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &removal{args: []string{"from=n1"}, times: trace.New(time.Now)}
		if code, said := s.run(t, func(*job.Request) {}); code != 0 {
			t.Fatalf("code %d\n%s", code, said)
		}
		attempts := 0
		for _, span := range s.times.Trace().Spans {
			if !strings.HasPrefix(span.Step, trace.Attempt) {
				continue
			}
			if attempts++; span.Why != "" || span.Open {
				t.Errorf("%s failed: %q, open: %v", span.Step, span.Why, span.Open)
			}
			if want := map[string]string{"attempt 0": "n0 says: the job was moved to n[0,2] by alice with --migrate"}[span.Step]; span.Note != want {
				t.Errorf("%s: %q, want %q", span.Step, span.Note, want)
			}
		}
		if attempts != 2 {
			t.Errorf("%d attempts", attempts)
		}
	})
}
