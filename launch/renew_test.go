package launch

import (
	"context"
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

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/stdio"
	"remshell/test/actors"
	"remshell/wire"
)

// A revival is a job whose first attempt fails, on simulated helpers, with synthetic time.
type revival struct {
	*actors.FakeHelpers
	ahead int            // jobs that wait in the queue when the next attempt starts
	loses string         // a node that is lost with the first attempt; empty: rank 0 fails
	stuck string         // a node that cannot kill its rank then; empty: none
	late  syscall.Signal // arrives after the decision about the first attempt; 0: none

	mu    sync.Mutex // guards the fields below
	began time.Time
	again bool           // the second attempt is prepared
	ranks map[string]int // by node, its rank
	diary []string       // messages to nodes that matter here, with times
}

func (s *revival) play(c *wire.Conn, node string, m wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := func(exit job.Exit) {
		exit.Rank = s.ranks[node]
		c.Send(&wire.Exited{Exit: exit})
	}
	switch m := m.(type) {
	case *wire.LockDecision:
		gated := &wire.DecisionLocked{}
		if len(s.ranks) > 0 {
			gated.Ahead = s.ahead
		}
		c.Send(gated)
		return true
	case *wire.Prepare:
		s.again, s.ranks[node] = slices.Contains(m.Process.BaseEnv.Set, "MPIEXEC_ATTEMPT=1"), m.Ranks[0].Rank
	case *wire.Start:
		s.note(node, "Start")
		if node == s.loses {
			c.Abandon()
			return true
		}
		c.Send(&wire.Started{Rank: s.ranks[node], PID: 1})
		switch {
		case s.again:
			ends(job.Exit{})
		case s.ranks[node] == 0:
			ends(job.Exit{Code: 7})
		}
	case *wire.EndJob:
		if !s.again && node == s.stuck {
			return true
		}
		if !s.again && s.ranks[node] == 1 {
			ends(job.Exit{Signal: 15, ToldToEnd: true})
		}
		c.Send(&wire.Drained{})
	case *wire.Evict:
		c.Send(&wire.Evicted{Incomplete: time.Since(s.began) < 5*time.Minute})
	case *wire.NextAttempt:
		s.note(node, "NextAttempt")
		c.Send(&wire.AttemptReady{})
	case *wire.Bye:
		s.note(node, "Bye")
	}
	return false
}

// note records a message to a node. Pauses have a random part, so times are rounded.
func (s *revival) note(node, what string) {
	when := "later"
	switch since := time.Since(s.began); {
	case since < time.Second:
		when = "at once"
	case since < 5*time.Minute:
		when = "soon"
	case since.Round(time.Second) == 10*time.Minute:
		when = "after 10 min"
	}
	if entry := node + " " + what + " " + when; !slices.Contains(s.diary, entry) {
		s.diary = append(s.diary, entry)
	}
}

// run runs the job, of two ranks on two of three nodes. It returns the exit code and the lines for
// the user.
func (s *revival) run(t *testing.T, policy job.RestartPolicy) (code int, said string) {
	t.Helper()
	s.FakeHelpers, s.began, s.ranks = actors.New(s.play), time.Now(), make(map[string]int)
	req := job.Request{Job: "j", Apps: []job.App{{N: 2, Argv: []string{"x"}, RankNeeds: job.RankNeeds{PerNode: 1}}}, TimeLimits: job.TimeLimits{Grace: time.Second}, Restart: policy}
	for i := range 3 {
		name := fmt.Sprint("n", i)
		req.Nodes = append(req.Nodes, job.NodeDef{ID: i, Name: name, Host: name, Slots: 1})
	}
	signals := make(chan os.Signal)
	defer close(signals)
	var text strings.Builder
	errs := stdio.Stderr(&text)
	env := Env{Out: stdio.Stdout(&strings.Builder{}), Err: errs}
	env.Env = reserve.Env{Connector: node.Connector{Dialer: s, GreetTimeout: 10 * time.Second, Log: zerolog.Nop()},
		RankOptions: reserve.RankOptions{Umask: -1}, Signals: signals, Report: func(line string) { fmt.Fprintln(errs, line) }, Suspend: func() {}}
	if s.late != 0 {
		env.Settings = append(env.Settings, &afterwards{signals: signals, number: s.late})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result, err := Run(ctx, req, env)
	if err != nil {
		result.Code = -1
		fmt.Fprintln(errs, err)
		errs.Close()
	}
	<-errs.Done()
	synctest.Wait() // all messages are handled
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.diary)
	return result.Code, text.String()
}

// An afterwards is a setting with which a signal arrives when an attempt is reported: after the decision about it.
type afterwards struct {
	once    sync.Once
	signals chan<- os.Signal
	number  syscall.Signal
}

func (*afterwards) Fields(*wire.Codec) {}

func init() {
	wire.RegisterSetting[afterwards](255)
	Register(Feature{Name: "afterwards", Attach: func(j *Job) {
		if a, has := SettingOf[*afterwards](j); has {
			j.Hooks.Reported.Add(func(job.Result) { a.once.Do(a.send) })
		}
	}})
}

func (a *afterwards) send() {
	a.signals <- a.number
	a.signals <- syscall.SIGWINCH
}

// A ^C that arrives after the decision about an attempt ends the pause before the next one at once.
func TestSignalAfterAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &revival{late: syscall.SIGINT}
		code, said := s.run(t, job.RestartPolicy{MaxRestarts: 1, On: []job.EndKind{job.EndByExitCode}, Delay: time.Hour})
		if took := time.Since(s.began); code != -1 || !strings.Contains(said, "cancelled by SIGINT") || took >= time.Hour {
			t.Errorf("code %d after %v: %s", code, took, said)
		}
	})
}

// What is kept of an attempt, for how long, and which jobs go first (survive.md SV-2, SV-5).
func TestNodesAreKept(t *testing.T) {
	byCode, byNode := []job.EndKind{job.EndByExitCode}, []job.EndKind{job.EndByNodeLoss}
	for _, test := range []struct {
		name   string
		policy job.RestartPolicy
		job    *revival
		code   int
		diary  string
	}{
		{"a pause", job.RestartPolicy{MaxRestarts: 1, On: byCode, Delay: 8 * time.Minute}, &revival{}, 0,
			"n0 Bye later, n0 NextAttempt at once, n0 Start at once, n0 Start later, n1 Bye later, n1 NextAttempt at once, n1 Start at once, n1 Start later, n2 Bye at once, n2 Bye later"},
		{"a long one", job.RestartPolicy{MaxRestarts: 1, On: byCode, Delay: time.Hour}, &revival{}, 0,
			"n0 Bye after 10 min, n0 Bye later, n0 NextAttempt at once, n0 Start at once, n0 Start later, n1 Bye after 10 min, n1 Bye later, n1 NextAttempt at once, n1 Start at once, n1 Start later, n2 Bye at once, n2 Bye later"},
		{"others wait, perhaps for what it has", job.RestartPolicy{MaxRestarts: 1, On: byCode, Delay: time.Minute}, &revival{ahead: 1}, 0,
			"n0 Bye soon, n0 NextAttempt at once, n0 Start at once, n0 Start soon, n1 Bye soon, n1 NextAttempt at once, n1 Start at once, n1 Start soon, n2 Bye at once, n2 Bye soon"},
		{"a node is lost", job.RestartPolicy{MaxRestarts: 1, On: byNode, Delay: time.Minute}, &revival{loses: "n1"}, 0,
			"n0 Bye soon, n0 NextAttempt at once, n0 Start at once, n0 Start soon, n1 Bye soon, n1 Start at once, n2 Bye at once, n2 Bye soon, n2 Start soon"},
		{"a node with what cannot be killed", job.RestartPolicy{MaxRestarts: 1, On: byCode, Delay: time.Second, MaxFence: time.Hour}, &revival{stuck: "n1"}, 0,
			"n0 Bye later, n0 NextAttempt soon, n0 Start at once, n0 Start later, n1 Bye later, n1 Bye soon, n1 Start at once, n2 Bye at once, n2 Bye later, n2 Start later"},
		{"a node is lost, and others wait for the next", job.RestartPolicy{MaxRestarts: 1, On: byNode, Delay: 4 * time.Minute}, &revival{loses: "n1", ahead: 1}, -1,
			"n0 Bye after 10 min, n0 NextAttempt at once, n0 Start at once, n1 Start at once, n2 Bye at once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := test.job
				code, said := s.run(t, test.policy)
				if diary := strings.Join(s.diary, ", "); code != test.code || diary != test.diary {
					t.Errorf("code %d, want %d; nodes heard\n%s, want\n%s\n%s", code, test.code, diary, test.diary, said)
				}
			})
		})
	}
}
