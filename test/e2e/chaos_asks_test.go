//go:build linux

package e2e

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// moves runs until it is asked to save, and ends well in its next attempt.
var moves = program{"moves", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", `trap "exit 85" USR1; setsid sleep 1000.` + tag + ` & echo ready; [ "$MPIEXEC_ATTEMPT" = 1 ] || while :; do sleep 0.1; done`}
}, 1}

// A blow ends a job that stands still, or moves.
type blow struct {
	strike func(d *rand.Rand, host string) func(*testing.T, *victim)
	code   int
	cause  string // HOST stands for that of the blow
	killed bool
}

// blows are those of which nothing may be left, whatever the job is about to do.
var blows = []blow{
	{sent(syscall.SIGTERM), 143, "", false},
	{sent(syscall.SIGKILL), 137, "", true},
	{on(syscall.SIGKILL, aHelper), 125, "lost contact with HOST", true},
	{on(syscall.SIGKILL, aKeeper), 125, "lost contact with HOST", true},
	{on(syscall.SIGKILL, isSession), 125, "lost contact with HOST", true},
	{on(syscall.SIGKILL, aRank), 137, "rank ", false},
}

// sent is a signal to mpiexec after a moment.
func sent(sig syscall.Signal) func(*rand.Rand, string) func(*testing.T, *victim) {
	return func(d *rand.Rand, _ string) func(*testing.T, *victim) {
		pause := time.Duration(d.IntN(400)) * time.Millisecond
		return func(_ *testing.T, v *victim) {
			<-time.After(pause)
			v.cmd.Process.Signal(sig)
		}
	}
}

// on is a signal to one process of a host after a moment.
func on(sig syscall.Signal, is func([]string) bool) func(*rand.Rand, string) func(*testing.T, *victim) {
	return func(d *rand.Rand, host string) func(*testing.T, *victim) { return striking(d, host, sig, is) }
}

// struck is a mishap of a blow that comes behind an ask, or while it is under way.
func (w blow) struck(d *rand.Rand, p program, ask func(t *testing.T, v *victim, host string)) mishap {
	host, other := aHost(d)
	strike, atOnce := w.strike(d, host), d.IntN(2) == 0
	m := hits(p, w.code, strings.Replace(w.cause, "HOST", host, 1), func(t *testing.T, v *victim) {
		if !atOnce {
			ask(t, v, other)
			strike(t, v)
			return
		}
		var both sync.WaitGroup
		both.Go(func() { v.tryTo(func(t *testing.T, v *victim) { ask(t, v, other) }) })
		both.Go(func() { v.tryTo(strike) })
		both.Wait()
	})
	m.killed = w.killed
	m.chatter = []string{"suspended by ", "goes on after "}
	return m
}

// kindsOfAsks are what somebody asks of a job at the worst moment. They are thrown by make chaos alone.
var kindsOfAsks = []kindOfMishap{
	{"suspend, struck", func(d *rand.Rand) mishap {
		return pick(d, blows...).struck(d, pick(d, shell, spin), func(t *testing.T, v *victim, host string) {
			v.bed.ask(t, "--suspend", "last", host)
		})
	}},
	{"resume-job, struck", func(d *rand.Rand) mishap {
		return pick(d, blows...).struck(d, pick(d, shell, spin), func(t *testing.T, v *victim, host string) {
			v.bed.ask(t, "--suspend", "last", host)
			v.bed.ask(t, "--resume-job", "last", host)
		})
	}},
	{"moved", func(d *rand.Rand) mishap {
		m := moving(func(*testing.T, *victim) {})
		m.after = func(t *testing.T, _ *victim, r result) {
			if !strings.Contains(r.err, "attempt 1: 2 ranks on n2 (was n1)") {
				t.Errorf("it was not moved: %s", r.err)
			}
		}
		return m
	}},
	{"moved, mpiexec killed", func(d *rand.Rand) mishap {
		m := moving(sent(syscall.SIGKILL)(d, ""))
		m.codes, m.causes = []int{137}, []string{""}
		return m
	}},
	{"moved, SIGTERM", func(d *rand.Rand) mishap {
		m := moving(sent(syscall.SIGTERM)(d, ""))
		m.codes, m.causes = []int{143}, []string{"", "cancelled by"}
		return m
	}},
	{"moved, a helper killed", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := moving(func(t *testing.T, v *victim) { v.tryTo(striking(d, host, syscall.SIGKILL, aHelper)) })
		m.causes = []string{"starting again (1 of 1)"} // the move came to nothing, the loss is what counts
		m.codes = []int{0}
		return m
	}},
}

// moving is a job of two ranks that is moved from n1 to n2 while something else happens to it. It may have ended before that.
func moving(meanwhile func(*testing.T, *victim)) mishap {
	m := hits(moves, 0, "", func(t *testing.T, v *victim) {
		var both sync.WaitGroup
		move := func(t *testing.T, v *victim) { v.bed.ask(t, "--migrate", "last", "--to", "n2", "n1") }
		both.Go(func() { v.tryTo(move) })
		both.Go(func() { v.tryTo(meanwhile) })
		both.Wait()
		v.tryTo(move) // it may have come to nothing
	})
	m.run = func(t *testing.T, b *bed, tag string) *victim {
		v := b.launch(t, tag, append([]string{"-hosts", "n1:2,n2:2", "-n", "2", "--save-job", filepath.Join(t.TempDir(), "job.json"), "--restart", "1", "--restart-on", "any",
			"--restart-delay", "0.1", "--kill-grace", "1", "--ckpt-signal", "USR1"}, moves.args(t, tag)...)...)
		v.await(t, "ready", 2)
		return v
	}
	m.killed = true
	m.chatter = []string{"moving to n2", "moved to n2", "attempt 1: ", "waiting until nothing of the job can be left"}
	return m
}
