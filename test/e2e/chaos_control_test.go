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

// movableProgram runs until it is asked to save, and ends well in its next attempt.
var movableProgram = program{"moves", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", `trap "exit 85" USR1; setsid sleep 1000.` + tag + ` & echo ready; [ "$MPIEXEC_ATTEMPT" = 1 ] || while :; do sleep 0.1; done`}
}, 1}

// A chaosHit ends a job that stands still, or moves.
type chaosHit struct {
	hit    func(d *rand.Rand, host string) func(*testing.T, *taggedJob)
	code   int
	cause  string // HOST stands for that of the blow
	killed bool
}

// chaosHits are those of which nothing may be left, whatever the job is about to do.
var chaosHits = []chaosHit{
	{signalMpiexec(syscall.SIGTERM), 143, "", false},
	{signalMpiexec(syscall.SIGKILL), 137, "", true},
	{signalProcessOn(syscall.SIGKILL, isHelperArgs), 125, "lost contact with HOST", true},
	{signalProcessOn(syscall.SIGKILL, isReaperArgs), 125, "lost contact with HOST", true},
	{signalProcessOn(syscall.SIGKILL, isSession), 125, "lost contact with HOST", true},
	{signalProcessOn(syscall.SIGKILL, isRank), 137, "rank ", false},
}

// signalMpiexec is a signal to mpiexec after a moment.
func signalMpiexec(sig syscall.Signal) func(*rand.Rand, string) func(*testing.T, *taggedJob) {
	return func(d *rand.Rand, _ string) func(*testing.T, *taggedJob) {
		pause := time.Duration(d.IntN(400)) * time.Millisecond
		return func(_ *testing.T, v *taggedJob) {
			<-time.After(pause)
			v.cmd.Process.Signal(sig)
		}
	}
}

// signalProcessOn is a signal to one process of a host after a moment.
func signalProcessOn(sig syscall.Signal, is func([]string) bool) func(*rand.Rand, string) func(*testing.T, *taggedJob) {
	return func(d *rand.Rand, host string) func(*testing.T, *taggedJob) { return killProcessOn(d, host, sig, is) }
}

// afterRequest is a mishap of a blow that comes behind an ask, or while it is under way.
func (w chaosHit) afterRequest(d *rand.Rand, p program, ask func(t *testing.T, v *taggedJob, host string)) chaosCase {
	host, other := pickHost(d)
	strike, atOnce := w.hit(d, host), d.IntN(2) == 0
	m := runningCase(p, w.code, strings.Replace(w.cause, "HOST", host, 1), func(t *testing.T, v *taggedJob) {
		if !atOnce {
			ask(t, v, other)
			strike(t, v)
			return
		}
		var both sync.WaitGroup
		both.Go(func() { v.hitUnlessOver(func(t *testing.T, v *taggedJob) { ask(t, v, other) }) })
		both.Go(func() { v.hitUnlessOver(strike) })
		both.Wait()
	})
	m.killed = w.killed
	m.otherLines = []string{"suspended by ", "the job continues; it was suspended for "}
	return m
}

// chaosControlKinds are what somebody asks of a job at the worst moment. They are thrown by make chaos alone.
var chaosControlKinds = []chaosKind{
	{"suspend, struck", func(d *rand.Rand) chaosCase {
		return pick(d, chaosHits...).afterRequest(d, pick(d, shellProgram, spinProgram), func(t *testing.T, v *taggedJob, host string) {
			v.cluster.sendControlRequest(t, "--suspend", "last", host)
		})
	}},
	{"resume-job, struck", func(d *rand.Rand) chaosCase {
		return pick(d, chaosHits...).afterRequest(d, pick(d, shellProgram, spinProgram), func(t *testing.T, v *taggedJob, host string) {
			v.cluster.sendControlRequest(t, "--suspend", "last", host)
			v.cluster.sendControlRequest(t, "--resume-job", "last", host)
		})
	}},
	{"moved", func(d *rand.Rand) chaosCase {
		m := whileMoving(func(*testing.T, *taggedJob) {})
		m.after = func(t *testing.T, _ *taggedJob, r result) {
			if !strings.Contains(r.err, "attempt 1: 2 ranks on n2 (was n1)") {
				t.Errorf("it was not moved: %s", r.err)
			}
		}
		return m
	}},
	{"moved, mpiexec killed", func(d *rand.Rand) chaosCase {
		m := whileMoving(signalMpiexec(syscall.SIGKILL)(d, ""))
		m.codes, m.causes = []int{137}, []string{""}
		return m
	}},
	{"moved, SIGTERM", func(d *rand.Rand) chaosCase {
		m := whileMoving(signalMpiexec(syscall.SIGTERM)(d, ""))
		m.codes, m.causes = []int{143}, []string{"", "cancelled by"}
		return m
	}},
	{"moved, a helper killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := whileMoving(func(t *testing.T, v *taggedJob) {
			v.hitUnlessOver(killProcessOn(d, host, syscall.SIGKILL, isHelperArgs))
		})
		m.causes = []string{"starting again (1 of 1)"} // the move came to nothing, the loss is what counts
		m.codes = []int{0}
		return m
	}},
}

// whileMoving is a job of two ranks that is moved from n1 to n2 while something else happens to it. It may have ended before that.
func whileMoving(meanwhile func(*testing.T, *taggedJob)) chaosCase {
	m := runningCase(movableProgram, 0, "", func(t *testing.T, v *taggedJob) {
		var both sync.WaitGroup
		move := func(t *testing.T, v *taggedJob) {
			v.cluster.sendControlRequest(t, "--migrate", "last", "--to", "n2", "n1")
		}
		both.Go(func() { v.hitUnlessOver(move) })
		both.Go(func() { v.hitUnlessOver(meanwhile) })
		both.Wait()
		v.hitUnlessOver(move) // it may have come to nothing
	})
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		v := b.startTaggedJob(t, tag, append([]string{"-hosts", "n1:2,n2:2", "-n", "2", "--save-job", filepath.Join(t.TempDir(), "job.json"), "--restart", "1", "--restart-on", "any",
			"--restart-delay", "0.1", "--kill-grace", "1", "--ckpt-signal", "USR1"}, movableProgram.args(t, tag)...)...)
		v.awaitOut(t, "ready", 2)
		return v
	}
	m.killed = true
	m.otherLines = []string{"the job moves", "the job was moved to n2", "attempt 1: ", "mpiexec waits before the restart, for at most "}
	return m
}
