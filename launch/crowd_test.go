//go:build linux

package launch_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/stdio"
	"remshell/test/crowd"
)

// launchCrowd runs a job with a rank on every core of so many hosts, all of which this
// process plays.
func launchCrowd(t testing.TB, c *crowd.Crowd, hosts int) job.Result {
	t.Helper()
	signals := make(chan os.Signal)
	defer close(signals)
	env := launch.Env{Dialer: c, Signals: signals, Out: stdio.Stdout(io.Discard), Err: stdio.Stderr(t.Output()), Umask: -1,
		Greet: 10 * time.Minute, Probe: 10 * time.Minute, Say: func(text string) { t.Log(text) }}
	result, err := launch.Run(t.Context(), crowd.Request(hosts), env)
	if err != nil || result.Code != 0 || len(result.Exits) != hosts*crowd.Cores {
		t.Fatalf("%d hosts: code %d with %d exits, %v", hosts, result.Code, len(result.Exits), err)
	}
	return result
}

// BenchmarkCrowd is a whole launch: connect, survey, plan, prepare, start, one fence, end. The
// helpers are in this process, so their half of the work is in the figures.
func BenchmarkCrowd(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				launchCrowd(b, new(crowd.Crowd), hosts)
			}
			runs := float64(hosts * b.N)
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/runs, "CPU-µs/host")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/runs, "µs/host")
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/(1<<20), "sys-MiB")
			b.ReportMetric(float64(liveAtEnd(b, hosts))/float64(hosts<<10), "live-KiB/host")
		})
	}
}

// liveAtEnd is how much memory a launch holds, with the helpers, when all ranks have ended, in
// bytes.
func liveAtEnd(t testing.TB, hosts int) uint64 {
	var memory runtime.MemStats
	launchCrowd(t, &crowd.Crowd{AtEnd: func() {
		runtime.GC()
		runtime.ReadMemStats(&memory)
	}}, hosts)
	return memory.HeapAlloc + memory.StackInuse
}

// cpuTime is what this process has had of the CPUs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
