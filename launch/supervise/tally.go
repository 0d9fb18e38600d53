package supervise

import (
	"cmp"
	"time"

	"remshell/job"
)

/*
A Tally sums the samples of nodes up. Nodes look at the same moments, as far as their clocks agree,
and what comes in one second is of one moment: so much the job had then (RM-51).

	         a        b
	1 s    100 MB   250 MB    the job: 350 MB
	2 s    300 MB    40 MB             340 MB   most: 350 MB, and not 300 + 250

A second is summed up when the last node has told, or something comes of the next one; who is late
counts with what he told before, unless that is too old. The second is that of our own clock: a
node that lies about its figures lies about nothing else.
*/
type Tally struct {
	nodes  map[int]*nodeTally
	second int64      // that is being filled
	told   int        // how many nodes have told in it
	most   job.Sample // of the job
	old    int64      // for how many seconds a sample stands; 0: tooOld
	whole  bool       // no second is being filled
}

// A nodeTally is what a node has told.
type nodeTally struct {
	last   job.Sample // now; its CPU time never falls
	most   job.Sample
	second int64
	over   bool // nothing of the job is left there
}

// tooOld is for how many seconds a sample stands for what came after it: three times the longest
// time between two, where memory is not counted in parts.
const tooOld = 15

// Hear takes in what the processes of a node have.
func (t *Tally) Hear(node int, s job.Sample, now time.Time) {
	if t.nodes == nil {
		t.nodes = make(map[int]*nodeTally)
	}
	if second := now.Unix(); second != t.second {
		t.sum()
		t.second, t.told = second, 0
	}
	n := t.nodes[node]
	if n == nil {
		n = &nodeTally{second: t.second - 1}
		t.nodes[node] = n
	}
	if n.over = false; n.second != t.second {
		n.second = t.second
		t.told++
	}
	s.CPU = max(s.CPU, n.last.CPU)
	n.last = s
	n.most.Rise(s)
	if t.told == len(t.nodes) {
		t.sum()
	}
}

// Gone notes that nothing is left of the job on a node.
func (t *Tally) Gone(node int) {
	if n := t.nodes[node]; n != nil {
		n.over = true
	}
}

// sum sums up what is known of the second.
func (t *Tally) sum() {
	var sum job.Sample
	for _, n := range t.nodes {
		s := n.last
		if n.over || t.second-n.second > cmp.Or(t.old, tooOld) {
			s = job.Sample{CPU: s.CPU}
		}
		sum.Add(s)
	}
	t.most.Rise(sum)
}

// Node is the most that a node had at one moment; false: it has told nothing.
func (t *Tally) Node(node int) (most job.Sample, sampled bool) {
	n := t.nodes[node]
	if n == nil {
		return job.Sample{}, false
	}
	return n.most, true
}

// Whole is a tally of the seconds that are over: of the one that is being filled not all nodes have told.
func (t *Tally) Whole() Tally { return Tally{nodes: t.nodes, most: t.most, whole: true} }

// All is the most that the job had at one moment; false: nobody has told anything.
func (t *Tally) All() (most job.Sample, sampled bool) {
	if !t.whole {
		t.sum()
	}
	return t.most, len(t.nodes) > 0
}
