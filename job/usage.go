package job

import (
	"math"
	"time"
)

// A UsageSample is the resource usage of some processes at one moment. Mem is resident memory and VMem is address
// space, both in bytes. CPU includes the CPU time of processes that have already ended.
type UsageSample struct {
	CPU       time.Duration
	Mem, VMem int64
}

// Add adds the usage of other processes at the same moment. A sum that would overflow is replaced with the maximum
// value, since a host may report any values.
func (s *UsageSample) Add(other UsageSample) {
	s.CPU = time.Duration(saturatingAdd(int64(s.CPU), int64(other.CPU)))
	s.Mem, s.VMem = saturatingAdd(s.Mem, other.Mem), saturatingAdd(s.VMem, other.VMem)
}

// TakeMax sets each value in s to the larger of the values in s and other.
func (s *UsageSample) TakeMax(other UsageSample) {
	s.CPU, s.Mem, s.VMem = max(s.CPU, other.CPU), max(s.Mem, other.Mem), max(s.VMem, other.VMem)
}

// saturatingAdd returns a + b, or math.MaxInt64 if the sum would overflow. Neither argument may be negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A RankUsageSample is the usage of a rank and all its descendants.
type RankUsageSample struct {
	Rank int
	UsageSample
}

// SampleInterval returns the interval between two samples of usage. The interval is shorter if limited is true, which
// means that a limit depends on the samples (rule RM-51).
func SampleInterval(limited bool) time.Duration {
	if limited {
		return time.Second
	}
	return 5 * time.Second
}

// UsageTotal is the total usage of a rank, a host or a job (rule RM-51). Mem and VMem are the peaks of all
// processes together, in bytes. If Sampled is false, Mem is the peak of the largest single process, and VMem is
// unknown.
type UsageTotal struct {
	UsageSample
	Wall    time.Duration
	Sampled bool
}

// JobUsage is the total usage of a job.
type JobUsage struct {
	Ranks []UsageTotal // by rank
	Nodes []UsageTotal // as Result.NodeTotals
	Job   UsageTotal
}

// SetExact replaces sampled values with the exact values that wait4(2) has returned for all processes. It overwrites
// the times, but uses MaxRSS only as a lower bound for the memory.
func (u *UsageTotal) SetExact(exact Usage) {
	u.CPU = exact.CPU()
	u.Mem, u.Wall = max(u.Mem, exact.MaxRSS), exact.Wall
}
