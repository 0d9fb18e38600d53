/*
Package machine decides when a job makes no progress. It performs no I/O and reads no clock.

	helper:   a Sample of /proc, several times in each --hang time --Tracker--> Report: how long nothing has changed on the node
	mpiexec:  Reports of all nodes --Watch--> read all stacks, four times --Watch--> tell the user, or wait twice as long

In cases of doubt, the package assumes that a job makes progress. A rank that computes, sleeps for a set time, waits for
the user or is traced by a debugger is assumed to continue by itself. So is a rank whose stack has changed between two
readings.
*/
package machine

import (
	"maps"
	"slices"
	"time"
)

// A Sample contains counters of what the processes of a node's ranks have done so far.
type Sample struct {
	At        time.Time
	Signature uint64 // changes with the processes, their bytes read and written, and the PMI states of ranks
	PMI       bool   // a rank has called PMI
	User      bool   // a process waits for its standard input, or for a reader of its output
	Ranks     map[int]RankSample
}

// A RankSample contains counters of what the processes of one rank have done so far.
type RankSample struct {
	CPU    time.Duration // of all its processes
	Wakeup uint64        // how often threads on which its progress depends have gone to sleep in the kernel
	Sleeps bool          // a process of it sleeps for a limited time, has a timer or is traced. It is only set in samples for a reading
}

// A Report says for how long nothing has changed on a node. The zero Report says that something has changed.
type Report struct {
	For   time.Duration // how long nothing has changed
	PMI   bool
	User  bool
	Awake []int // ranks that have used a CPU, or were sometimes awake, or sleep for a limited time
}

// A Tracker compares the samples of a node and produces Reports.
type Tracker struct {
	After time.Duration // as in Policy

	changed  time.Time // when something changed last
	last     Sample
	earlier  []Sample  // since something changed, and since the last reading of stacks was over; oldest first; at most maxEarlier
	reading  time.Time // when a reading of stacks began last
	before   Report    // the report at that time; zero if there was none, or something has changed since
	reported bool      // the last report says that nothing has changed

	atReading map[int]RankSample // the ranks when a reading of stacks began last; nil if something has changed since
}

// awakeShare is the fraction of one CPU's time that a rank must use to be listed in Report.Awake.
const awakeShare = 0.01

// maxEarlier is the maximum number of samples that a Tracker keeps. When there are more, it drops every second one,
// so that the kept samples can cover days.
const maxEarlier = 64

// everySecond returns every second sample, including the first one.
func everySecond(samples []Sample) (kept []Sample) {
	for i := 0; i < len(samples); i += 2 {
		kept = append(kept, samples[i])
	}
	return kept
}

// Add adds a sample. reading is true if mpiexec reads the stacks of ranks right after this sample. send is true if r
// must be sent to mpiexec. next is the time until the next sample.
func (t *Tracker) Add(s Sample, reading bool) (r Report, send bool, next time.Duration) {
	if t.changed.IsZero() || s.Signature != t.last.Signature {
		t.changed, t.earlier, t.before, t.atReading = s.At, nil, Report{}, nil
	}
	t.last = s
	if reading {
		t.atReading = s.Ranks
	}
	quiet := s.At.Sub(t.changed)
	every := min(max(t.After, quiet)/12, time.Minute)
	begin := t.After - (rounds-1)*spacing(t.After)
	if quiet >= begin {
		r = Report{For: quiet, PMI: s.PMI, User: s.User, Awake: t.awake(quiet / 2)}
	}
	switch {
	case reading: // it stops the processes for a moment, so they wake up
		t.earlier, t.reading, t.before = nil, s.At, r
	case t.reading.IsZero() || s.At.Sub(t.reading) > min(t.After/4, 5*time.Second):
		t.earlier = append(t.earlier, s)
		if len(t.earlier) > maxEarlier {
			t.earlier = everySecond(t.earlier)
		}
	}
	if quiet < begin {
		send, t.reported = t.reported, false
		return r, send, min(every, begin-quiet)
	}
	t.reported = true
	return r, true, every
}

// awake returns the ranks that slept for a limited time when stacks were read last, and those that have woken up or used
// a CPU within the last window. To find ranks that have woken up, it compares the last sample with an earlier one: the
// newest that is at least as old as window, or the oldest. It includes ranks that the earlier sample does not contain.
// For a short time after a reading of stacks, it takes these ranks from the report before the reading, because the
// reading itself wakes ranks.
func (t *Tracker) awake(window time.Duration) (ranks []int) {
	readJustNow := len(t.earlier) == 0 && t.before.For > 0 && t.last.At.Sub(t.reading) <= t.After/2
	var base Sample
	for _, s := range t.earlier {
		if base.At.IsZero() || t.last.At.Sub(s.At) >= window {
			base = s
		}
	}
	span := t.last.At.Sub(base.At)
	for _, rank := range slices.Sorted(maps.Keys(t.last.Ranks)) {
		now := t.last.Ranks[rank]
		was, known := base.Ranks[rank]
		isAwake := !known || now.CPU-was.CPU > time.Duration(awakeShare*float64(span)) || now.Wakeup != was.Wakeup
		if readJustNow {
			isAwake = slices.Contains(t.before.Awake, rank)
		}
		if isAwake || t.atReading[rank].Sleeps {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
