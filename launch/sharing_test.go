//go:build linux

package launch_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"remshell/test/crowd"
)

// launchCrowd runs a job on that many hosts, all simulated by this process. It returns the
// allocated bytes and the number of allocations.
func launchCrowd(t testing.TB, c *crowd.FakeHosts, hosts, ranks int) (bytes, pieces uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.Launch(t.Context(), hosts, ranks, t.Output()); err != nil {
		t.Fatalf("%d hosts: %v", hosts, err)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// The cost of a host does not depend on the number of the others: the messages to and from it, and
// the allocations, are the same.
func TestAHostCostsTheSameAmongMany(t *testing.T) {
	type cost struct{ heard, said, bytes, pieces float64 }
	of := func(hosts int) cost {
		var c crowd.FakeHosts
		bytes, pieces := launchCrowd(t, &c, hosts, 4)
		n := float64(hosts)
		if ranks := int64(4 * hosts); c.Dialed.Load() != int64(hosts) || c.Started.Load() != ranks || c.Exited.Load() != ranks || c.Drained.Load() != int64(hosts) {
			t.Fatalf("%d hosts: %d reached, %d drained; %d ranks started, %d ended", hosts, c.Dialed.Load(), c.Drained.Load(), c.Started.Load(), c.Exited.Load())
		}
		return cost{float64(c.Received.Load()) / n, float64(c.Sent.Load()) / n, float64(bytes) / n, float64(pieces) / n}
	}
	of(100) // allocations made once happen here
	few, many := of(100), of(1000)
	for _, x := range []struct {
		what      string
		few, many float64
		growth    float64
	}{{"messages to it", few.heard, many.heard, 1}, {"messages of it", few.said, many.said, 1},
		{"bytes allocated", few.bytes, many.bytes, 1.5}, {"pieces allocated", few.pieces, many.pieces, 1.5}} {
		if x.many > x.few*x.growth+0.1 {
			t.Errorf("%s: %.1f of 100 hosts, %.1f of 1,000", x.what, x.few, x.many)
		}
	}
}

// BenchmarkCrowd is a whole launch: connect, survey, plan, prepare, start, one fence, end. The
// helpers are in this process, so the figures include their half of the work.
func BenchmarkCrowd(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				launchCrowd(b, new(crowd.FakeHosts), hosts, crowd.CoresPerHost)
			}
			runs := float64(hosts * b.N)
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/runs, "CPU-µs/host")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/runs, "µs/host")
			b.ReportMetric(float64(liveAtEnd(b, hosts))/float64(hosts<<10), "live-KiB/host")
		})
	}
}

// liveAtEnd returns how many bytes a launch with its helpers holds when all ranks have ended.
func liveAtEnd(t testing.TB, hosts int) uint64 {
	var memory runtime.MemStats
	launchCrowd(t, &crowd.FakeHosts{AtEnd: func() {
		runtime.GC()
		runtime.ReadMemStats(&memory)
	}}, hosts, crowd.CoresPerHost)
	return memory.HeapAlloc + memory.StackInuse
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
