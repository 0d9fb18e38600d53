package job

import (
	"math"
	"time"
)

// A UsageSample is what processes had at one moment: resident memory and address space, in bytes, and
// the CPU time that they, and those that were there before them, have consumed until then.
type UsageSample struct {
	CPU       time.Duration
	Mem, VMem int64
}

// Add counts what others had at the same moment. A sum that no number can hold is the largest
// one: a host may tell us anything.
func (s *UsageSample) Add(other UsageSample) {
	s.CPU = time.Duration(saturatingAdd(int64(s.CPU), int64(other.CPU)))
	s.Mem, s.VMem = saturatingAdd(s.Mem, other.Mem), saturatingAdd(s.VMem, other.VMem)
}

// TakeMax makes each figure the larger of two.
func (s *UsageSample) TakeMax(other UsageSample) {
	s.CPU, s.Mem, s.VMem = max(s.CPU, other.CPU), max(s.Mem, other.Mem), max(s.VMem, other.VMem)
}

// saturatingAdd adds what is not negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A RankUsageSample is that of a rank and all its descendants.
type RankUsageSample struct {
	Rank int
	UsageSample
}

// SampleInterval is the longest time between two samples: a second where there is a limit to be kept (RM-51).
func SampleInterval(limited bool) time.Duration {
	if limited {
		return time.Second
	}
	return 5 * time.Second
}

// UsageTotal is what accounting tells of a rank, a host or a job (RM-51). Memory is that of all
// processes together when they had most, in bytes; what was not sampled is at least the largest
// process, and of its address space nothing is known.
type UsageTotal struct {
	UsageSample
	Wall    time.Duration
	Sampled bool
}

// JobUsage are what a job has used, as far as somebody wanted to know.
type JobUsage struct {
	Ranks []UsageTotal // by number
	Nodes []UsageTotal // as Result.Hosts
	Job   UsageTotal
}

// SetExact takes what wait4(2) tells of all processes in the place of what was seen of them while
// they ran: the time, and how much memory there was at least.
func (u *UsageTotal) SetExact(of Usage) {
	u.CPU = of.CPU()
	u.Mem, u.Wall = max(u.Mem, of.MaxRSS), of.Wall
}
