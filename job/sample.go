package job

import (
	"math"
	"time"
)

// A Sample is what processes had at one moment: resident memory and address space, in bytes, and
// the CPU time that they, and those that were there before them, have consumed until then.
type Sample struct {
	CPU       time.Duration
	Mem, VMem int64
}

// Add counts what others had at the same moment. A sum that no number can hold is the largest
// one: a host may tell us anything.
func (s *Sample) Add(other Sample) {
	s.CPU = time.Duration(plus(int64(s.CPU), int64(other.CPU)))
	s.Mem, s.VMem = plus(s.Mem, other.Mem), plus(s.VMem, other.VMem)
}

// Rise makes each figure the larger of two.
func (s *Sample) Rise(other Sample) {
	s.CPU, s.Mem, s.VMem = max(s.CPU, other.CPU), max(s.Mem, other.Mem), max(s.VMem, other.VMem)
}

// plus adds what is not negative.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A RankSample is that of a rank and all its descendants.
type RankSample struct {
	Rank int
	Sample
}

// SampleEvery is the longest time between two samples: a second where there is a limit to be kept (RM-51).
func SampleEvery(limited bool) time.Duration {
	if limited {
		return time.Second
	}
	return 5 * time.Second
}

// Used is what accounting tells of a rank, a host or a job (RM-51). Memory is that of all
// processes together when they had most, in bytes; what was not sampled is at least the largest
// process, and of its address space nothing is known.
type Used struct {
	Sample
	Wall    time.Duration
	Sampled bool
}

// Accounts are what a job has used, as far as somebody wanted to know.
type Accounts struct {
	Ranks []Used // by number
	Nodes []Used // as Result.Hosts
	All   Used
}

// Exact takes what wait4(2) tells of all processes in the place of what was seen of them while
// they ran: the time, and how much memory there was at least.
func (u *Used) Exact(of Usage) {
	u.CPU = of.CPU()
	u.Mem, u.Wall = max(u.Mem, of.MaxRSS), of.Wall
}
