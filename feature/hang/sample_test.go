//go:build linux

package hang

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startSleeps starts n processes that sleep, as ranks.
func startSleeps(tb testing.TB, n int) (ranks []watchedRank) {
	tb.Helper()
	for i := range n {
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { child.Process.Kill(); child.Wait() })
		ranks = append(ranks, watchedRank{number: i, pid: child.Process.Pid})
	}
	return ranks
}

// The signature of a sample changes with the PMI state of a rank, and when a process ends or starts.
func TestSignature(t *testing.T) {
	ranks := startSleeps(t, 2)
	for deadline := time.Now().Add(time.Minute); !sleepsForATime(ranks[0].pid) || !sleepsForATime(ranks[1].pid); {
		if time.Now().After(deadline) {
			t.Fatal("sleep does not sleep")
		}
	}
	first := readSample(ranks)
	if again := readSample(ranks); again.Signature != first.Signature || !again.Ranks[1].Sleeps || again.User {
		t.Errorf("%+v, then %+v", first, again)
	}
	ranks[1].state++
	if other := readSample(ranks); other.Signature == first.Signature {
		t.Error("the PMI state does not count")
	}
	ranks[1].state--
	ranks[1].pid = 0
	if other := readSample(ranks); other.Signature == first.Signature {
		t.Error("the end of a rank does not count")
	}
}

// One sample of a node with 64 ranks. With --hang=60 there are twelve in a minute.
func BenchmarkSample(b *testing.B) {
	ranks := startSleeps(b, 64)
	began := cpuUsed()
	for b.Loop() {
		readSample(ranks)
	}
	each := (cpuUsed() - began) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds()), "cpu-µs/sample")
	b.ReportMetric(100*each.Seconds()*12/60, "%CPU")
}

// cpuUsed returns the CPU time of this process.
func cpuUsed() time.Duration {
	var used unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
