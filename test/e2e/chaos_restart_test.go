//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// restartableProgram runs until its first attempt is struck, and ends well in the next one.
var restartableProgram = program{"again", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", "setsid sleep 1000." + tag + ` & echo ready; if [ "$MPIEXEC_ATTEMPT" = 0 ]; then sleep 1000.` + tag + "; fi"}
}, 2}

// attemptNotice is what mpiexec says between two of them.
var attemptNotice = []string{"attempt 1: ", "mpiexec waits before the restart, for at most "}

// restartCase returns a case in which hit makes mpiexec start the job again, which then succeeds.
func restartCase(hit func(*testing.T, *taggedJob)) chaosCase {
	m := runningCase(restartableProgram, 0, "starting again (1 of 1)", hit)
	m.options = []string{"--restart", "1", "--restart-on", "any", "--restart-delay", "0.1", "--kill-grace", "1"}
	m.otherLines = attemptNotice
	return m
}

// chaosRestartKinds are the faults that a job, or a queue, survives, and the end that somebody else asks for. They
// are thrown by make chaos alone.
var chaosRestartKinds = []chaosKind{
	{"restart, rank killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return restartCase(killProcessOn(d, host, syscall.SIGKILL, secondArgIs("-c")))
	}},
	{"restart, helper killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := restartCase(killProcessOn(d, host, syscall.SIGKILL, isHelperArgs))
		m.killed = true
		return m
	}},
	{"restart, session of sshd killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return restartCase(killProcessOn(d, host, syscall.SIGKILL, isSession))
	}},
	{"restart, SIGTERM between attempts", func(d *rand.Rand) chaosCase {
		pause := time.Duration(d.IntN(1500)) * time.Millisecond
		m := endCase(143, "", append([]string{"--restart", "always", "--restart-on", "any", "--restart-delay", "0.1", "--kill-grace", "1"},
			shellArgs("echo ready; sleep 0.1; exit 3")...)...)
		m.hit = func(t *testing.T, v *taggedJob) {
			v.awaitOut(t, "ready", 1)
			<-time.After(pause)
			v.cmd.Process.Signal(syscall.SIGTERM)
		}
		m.codes, m.causes = []int{3}, []string{"", "cancelled by"} // it gives up after five attempts
		m.otherLines = []string{"starting again", "attempt "}
		return m
	}},
	{"restart 3, struck again and again", restartTwiceCase},
	{"--end", func(d *rand.Rand) chaosCase {
		pause := time.Duration(d.IntN(300)) * time.Millisecond
		host, _ := pickHost(d)
		return runningCase(pick(d, shellProgram, spinProgram), 143, "with --end", func(t *testing.T, v *taggedJob) {
			<-time.After(pause)
			if r := v.cluster.runMpiexec(t, "--end", "last", host); r.code != 0 {
				t.Errorf("--end: exit %d, %s", r.code, r.err)
			}
		})
	}},
	{"mpiexec killed and resumed", func(d *rand.Rand) chaosCase {
		pause := time.Duration(d.IntN(300)) * time.Millisecond
		var file string
		m := runningCase(restartableProgram, 0, "", func(t *testing.T, v *taggedJob) {
			<-time.After(pause)
			v.cmd.Process.Kill()
			v.wait(t)
			v.runningJob = v.cluster.startMpiexec(t, mpiexecCall{args: []string{"--resume", file, "--restart-delay", "0.1"}})
		})
		m.run = func(t *testing.T, b *testCluster, _ string) *taggedJob {
			file = filepath.Join(t.TempDir(), "job.json")
			return startTagged(t, b, restartableProgram, false, "--save-job", file, "--kill-grace", "1")
		}
		m.killed = true
		m.otherLines = attemptNotice
		return m
	}},
	{"queue host lost while eight wait", func(d *rand.Rand) chaosCase { return queueLostCase(d.IntN(2) == 0) }},
}

// restartTwiceCase is a job whose first attempts are struck, one after the other; its code is that of the last one (survive.md SV-12).
func restartTwiceCase(d *rand.Rand) chaosCase {
	const restarts = 3
	strikes, code := 1+d.IntN(restarts+1), d.IntN(3)
	var all []func(*testing.T, *taggedJob)
	ended, cause := code, ""
	if code > 0 {
		cause = fmt.Sprint("exited with code ", code)
	}
	nodes := []string{"n1", "n2"} // that were not lost yet: who is lost twice is out for good
	killed := false
	for range strikes {
		host, sig, is := pick(d, "n1", "n2"), pick(d, syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGTERM), secondArgIs("-c")
		last, why := 128+int(sig), "rank "
		if i := slices.Index(nodes, host); i >= 0 && d.IntN(2) == 0 {
			nodes = slices.Delete(nodes, i, i+1)
			sig, is = syscall.SIGKILL, pick(d, isReaperArgs, isHelperArgs)
			last, why, killed = 125, "lost contact with "+host, true
		}
		if all = append(all, killProcessOn(d, host, sig, is)); len(all) > restarts {
			ended, cause = last, why
		}
	}
	m := runningCase(program{}, ended, cause, func(t *testing.T, v *taggedJob) {
		for i, strike := range all {
			v.awaitOut(t, fmt.Sprintln("ready", i), 4)
			strike(t, v)
		}
	})
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		script := fmt.Sprintf(`setsid sleep 1000.%s & echo ready $MPIEXEC_ATTEMPT; [ $MPIEXEC_ATTEMPT = %d ] || sleep 1000.%s; exit %d`, tag, strikes, tag, code)
		return b.startTaggedJob(t, tag, "-hosts", "n1:2,n2:2", "-n", "4", "--restart", strconv.Itoa(restarts), "--restart-on", "node,signal", "--restart-delay", "0.1",
			"--kill-grace", "1", "sh", "-c", script)
	}
	m.killed = killed
	m.otherLines = []string{"starting again (", "attempt ", "mpiexec waits before the restart, for at most "}
	return m
}

// queueLostCase is eight requests that wait when their queue host is cut off, or all helpers there are killed. They
// start in their order: nobody is lost, nobody overtakes another.
func queueLostCase(cutOff bool) chaosCase {
	const waiters = 8
	var blocker holdingJob
	var waiting []*runningJob
	down, up := cutLink("n1")
	m := chaosCase{fault: fault{hit: func(t *testing.T, v *taggedJob) {
		if cutOff {
			down(t, v.cluster)
		} else {
			signalPIDs(t, syscall.SIGKILL, "helper", v.findOn(t, "n1", isHelperArgs))
		}
		blocker.input.Close()
	}}}
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		cluster := filepath.Join(t.TempDir(), "cluster.toml")
		if err := os.WriteFile(cluster, []byte("queueHosts = [\"n1\", \"n2\"]\n[[node]]\nname = \"n[1-2]\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		on := []string{"--cluster", cluster, "--nodes", "1", "--connect-timeout", "5", "-n", "2"}
		blocker = b.startHolding(t, on...)
		blocker.awaitCPUs(t)
		for i := range waiters {
			args := append(on[:len(on):len(on)], "--wait", "sh", "-c", "[ $PMI_RANK = 1 ] || echo $0 >>/tmp/order."+tag, strconv.Itoa(i))
			waiting = append(waiting, b.startMpiexec(t, mpiexecCall{args: args, timeout: 10 * time.Minute}))
			b.awaitQueue(t, "n1", i+1)
		}
		return &taggedJob{cluster: b, tag: tag, runningJob: waiting[waiters-1]}
	}
	if cutOff {
		m.repair = up
	}
	m.killed = true
	m.otherLines = []string{"the queue host n1 ", "waiting in the queue, ", "the job starts now, after waiting for "}
	m.after = func(t *testing.T, v *taggedJob, _ result) {
		var want string
		for i, w := range waiting {
			want += fmt.Sprintln(i)
			if i == waiters-1 {
				break // that is the victim
			}
			if r := w.wait(t); r.code != 0 {
				t.Errorf("request %d: exit %d, %s", i, r.code, r.err)
			}
		}
		blocker.wait(t)
		file := v.cluster.Root("n2") + "/tmp/order." + v.tag
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("started in the order %q (%v), queued as %q", got, err, want)
		}
		os.Remove(file)
	}
	return m
}
