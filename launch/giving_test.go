//go:build linux

package launch_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
)

// A neighbour is a job beside those that a test runs, on helpers of the same stage.
type neighbour struct {
	*run
	over chan int // its exit code; -1: it has not started
}

// neighbour starts a job of a name, which runs until it is ended, and waits until all of its ranks are up.
func (s stage) neighbour(id job.ID, r *run) neighbour {
	s.Helper()
	n := neighbour{s.cast(r), make(chan int, 1)}
	r.req.Job = id
	up := r.out.shows("up")
	go func() {
		result, err := launch.Run(s.Context(), r.req, r.env())
		if err != nil {
			result.Code = -1
		}
		n.over <- result.Code
	}()
	n.await(s, up, "comes up")
	return n
}

// await waits until something has been seen of the job.
func (n neighbour) await(s stage, seen <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-seen:
	case code := <-n.over:
		if strings.Contains(n.err.String(), "no answer from job") {
			s.Skip("on this machine helpers take more than 10 s to hear what is asked")
		}
		s.Fatalf("job %s has ended with %d before it %s: stdout %q, stderr %q", n.req.Job, code, what, n.out.String(), n.err.String())
	case <-time.After(5 * time.Minute):
		s.Fatalf("job %s never %s: stdout %q, stderr %q", n.req.Job, what, n.out.String(), n.err.String())
	}
}

// end ends the job from its terminal.
func (n neighbour) end(s stage) {
	s.Helper()
	n.signals <- syscall.SIGTERM
	if code := <-n.over; code != 143 {
		s.Errorf("job %s: code %d, stderr %q", n.req.Job, code, n.err.String())
	}
}

// willing is a job of one rank that gives way, on nodes.
func willing(how job.Yielding, nodes ...string) *run {
	r := newRun(1, `echo "up $MPIEXEC_ATTEMPT $MPIEXEC_RESTART_REASON"; exec sleep 600`, nodes...)
	r.req.Preemptible, r.req.Restart.Yields = how, how == job.YieldByRequeueing
	return r
}

// held is a job that runs until a file is there.
func held(n int, file string, nodes ...string) *run {
	return newRun(n, "echo up; until test -e "+file+"; do sleep 0.05; done", nodes...)
}

// goesOn has a job that was held by a file go on, and awaits its good end.
func (n neighbour) goesOn(s stage, file string) {
	s.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		s.Fatal(err)
	}
	if code := <-n.over; code != 0 {
		s.Errorf("job %s: code %d, %q", n.req.Job, code, n.err.String())
	}
}

// Several jobs of one node give way to one request, by one helper of its, and both go on.
func TestSeveralJobsOfANodeGiveWay(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs")
	}
	t.Parallel()
	s := stage{t, &recorder{}, t.TempDir()}
	first := s.neighbour("first", willing(job.YieldBySuspending, "a:2"))
	second := s.neighbour("second", willing(job.YieldBySuspending, "a:2"))
	again := []<-chan struct{}{first.err.shows("goes on after"), second.err.shows("goes on after")}
	file := filepath.Join(t.TempDir(), "go")
	asker := s.neighbour("asker", held(2, file, "a:2"))
	if said := asker.err.String(); !strings.Contains(said, "asking job second of ") || !strings.Contains(said, ", job first of ") {
		t.Errorf("%q", said)
	}
	for _, n := range []neighbour{first, second} {
		if said := n.err.String(); !strings.Contains(said, "preempted by job asker (") || strings.Contains(said, "goes on") {
			t.Errorf("%s: %q", n.req.Job, said)
		}
	}
	asker.goesOn(s, file)
	for i, n := range []neighbour{first, second} {
		n.await(s, again[i], "goes on")
		n.end(s)
	}
}

// What a job holds in reserve it gives to nobody while it stands still, nor is it asked for that.
func TestAJobThatStandsStillKeepsItsSpare(t *testing.T) {
	t.Parallel()
	s := stage{t, &recorder{}, t.TempDir()}
	r := willing(job.YieldBySuspending, "a", "b")
	r.req.Restart.Most, r.req.Restart.On, r.req.Restart.Spares = 1, []job.EndKind{job.ByNode}, 1
	first := s.neighbour("first", r)
	again := first.err.shows("goes on after")
	spareIsKept := func(when string) {
		t.Helper()
		other := s.cast(newRun(1, "true", "b"))
		if _, err := launch.Run(t.Context(), other.req, other.env()); err == nil || strings.Contains(other.err.String(), "asking job") {
			t.Errorf("%s its spare: %v, %q", when, err, other.err.String())
		}
	}
	spareIsKept("before")
	file := filepath.Join(t.TempDir(), "go")
	asker := s.neighbour("asker", held(1, file, "a"))
	spareIsKept("meanwhile")
	asker.goesOn(s, file)
	first.await(s, again, "goes on")
	spareIsKept("behind that")
	first.end(s)
}

// A job that queues again holds nothing in reserve meanwhile: it may run there itself, beside who has asked.
func TestAJobThatQueuesAgainUsesItsSpare(t *testing.T) {
	t.Parallel()
	s := stage{t, &recorder{}, t.TempDir()}
	r := willing(job.YieldByRequeueing, "a", "b")
	r.req.Restart.Most, r.req.Restart.On, r.req.Restart.Spares = 1, []job.EndKind{job.ByNode}, 1
	first := s.neighbour("first", r)
	again := first.out.shows("up 1 preempt")
	file := filepath.Join(t.TempDir(), "go")
	asker := s.neighbour("asker", held(1, file, "a"))
	first.await(s, again, "goes on")
	if said := first.err.String(); !strings.Contains(said, "attempt 1: 1 rank on b (was a)") {
		t.Errorf("%q", said)
	}
	asker.goesOn(s, file)
	first.end(s)
}
