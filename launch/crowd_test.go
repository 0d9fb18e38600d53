//go:build linux

package launch_test

import (
	"fmt"
	"io"
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
func launchCrowd(t testing.TB, hosts int) (*crowd.Crowd, job.Result) {
	t.Helper()
	c := new(crowd.Crowd)
	env := launch.Env{Dialer: c, Out: stdio.Stdout(io.Discard), Err: stdio.Stderr(t.Output()), Umask: -1,
		Greet: 10 * time.Minute, Probe: 10 * time.Minute, Say: func(text string) { t.Log(text) }}
	result, err := launch.Run(t.Context(), crowd.Request(hosts), env)
	if err != nil {
		t.Fatal(err)
	}
	return c, result
}

// BenchmarkCrowd is a whole launch: connect, survey, plan, prepare, start, one fence, end. The
// helpers are in this process, so their half of the work is in the figures.
func BenchmarkCrowd(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				if _, result := launchCrowd(b, hosts); result.Code != 0 {
					b.Fatal(result)
				}
			}
			runs := float64(hosts * b.N)
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/runs, "CPU-µs/host")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/runs, "µs/host")
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/(1<<20), "sys-MiB")
		})
	}
}

// cpuTime is what this process has had of the CPUs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
