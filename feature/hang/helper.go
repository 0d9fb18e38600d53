//go:build linux

package hang

import (
	"time"

	"remshell/feature/hang/machine"
	"remshell/helper"
	"remshell/job"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "hang", Attach: attachHelper}) }

// A nodeWatch takes samples of the processes of one session. Only the session's goroutine uses it.
type nodeWatch struct {
	session *helper.Session
	tracker machine.Tracker
	began   bool
	pmi     bool // a rank has called PMI
	checked bool // libraryFault has looked
	fault   string
}

func attachHelper(s *helper.Session) {
	n := &nodeWatch{session: s}
	s.Hooks.LongJobBegins.Add(n.begin)
	helper.Handle(s, func(*TakeSample) {
		if n.began {
			n.add(n.sampler(true)(), true)
		}
	})
}

// begin starts to take samples at intervals if the job has the setting Watching. Later calls do nothing.
func (n *nodeWatch) begin() {
	setting, has := wire.SettingOf[*Watching](n.session.Prepare.Settings)
	if !has || n.began {
		return
	}
	n.began, n.tracker.After = true, setting.After
	n.takeSample()
}

// takeSample takes a sample in another goroutine, and repeats that at intervals.
func (n *nodeWatch) takeSample() {
	take := n.sampler(false)
	go func() {
		sample := take()
		n.session.Post(func() {
			next := n.add(sample, false)
			time.AfterFunc(next, func() { n.session.Post(n.takeSample) })
		})
	}()
}

// add passes a sample to the tracker, and sends mpiexec a report if one is due. It returns the time until the next
// sample. If reading is true, the stacks of ranks are read after this sample.
func (n *nodeWatch) add(sample machine.Sample, reading bool) time.Duration {
	report, send, next := n.tracker.Add(sample, reading)
	if send && !n.session.Lifecycle.IsDisconnected() {
		n.session.Send(&Unchanged{Report: report, Fault: n.libraryFault()})
	}
	return next
}

// sampler returns a function that takes a sample of the ranks that are running now. Any goroutine may call the
// function.
func (n *nodeWatch) sampler(thorough bool) func() machine.Sample {
	var ranks []watchedRank
	for _, r := range n.session.Ranks() {
		state := r.PMIState()
		n.pmi = n.pmi || state != job.PMIUnused
		w := watchedRank{number: r.Number, state: uint64(state)<<32 | uint64(r.Barrier()), mpi: state != job.PMIUnused}
		if r.IsAlive() {
			w.pid = r.Child.PID
		}
		ranks = append(ranks, w)
	}
	pmi := n.pmi
	return func() machine.Sample {
		s := readSample(ranks, thorough)
		s.PMI = pmi
		return s
	}
}

// libraryFault returns the code of a known fault in the MPI library of the node's first rank, or "" if it has none.
func (n *nodeWatch) libraryFault() string {
	if ranks := n.session.Ranks(); !n.checked && n.pmi && len(ranks) > 0 {
		n.checked, n.fault = true, n.session.FinalizeFault(ranks[0])
	}
	return n.fault
}
