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
type UsageTotals struct {
	nodes         map[int]*nodeUsage
	second        int64           // that is being filled
	nodesReported int             // how many nodes have told in it
	maximum       job.UsageSample // of the job
	staleAfter    int64           // for how many seconds a sample stands; 0: tooOld
	completeOnly  bool            // no second is being filled
}

// A nodeUsage is what a node has told.
type nodeUsage struct {
	current job.UsageSample // now; its CPU time never falls
	maximum job.UsageSample
	second  int64
	over    bool // nothing of the job is left there
}

// defaultStaleAfter is for how many seconds a sample stands for what came after it: three times the longest
// time between two, where memory is not counted in parts.
const defaultStaleAfter = 15

// AddSample takes in what the processes of a node have.
func (t *UsageTotals) AddSample(node int, s job.UsageSample, now time.Time) {
	if t.nodes == nil {
		t.nodes = make(map[int]*nodeUsage)
	}
	if second := now.Unix(); second != t.second {
		t.sumSecond()
		t.second, t.nodesReported = second, 0
	}
	n := t.nodes[node]
	if n == nil {
		n = &nodeUsage{second: t.second - 1}
		t.nodes[node] = n
	}
	if n.over = false; n.second != t.second {
		n.second = t.second
		t.nodesReported++
	}
	s.CPU = max(s.CPU, n.current.CPU)
	n.current = s
	n.maximum.TakeMax(s)
	if t.nodesReported == len(t.nodes) {
		t.sumSecond()
	}
}

// NodeDone notes that nothing is left of the job on a node.
func (t *UsageTotals) NodeDone(node int) {
	if n := t.nodes[node]; n != nil {
		n.over = true
	}
}

// sumSecond sums up what is known of the second.
func (t *UsageTotals) sumSecond() {
	var sum job.UsageSample
	for _, n := range t.nodes {
		s := n.current
		if n.over || t.second-n.second > cmp.Or(t.staleAfter, defaultStaleAfter) {
			s = job.UsageSample{CPU: s.CPU}
		}
		sum.Add(s)
	}
	t.maximum.TakeMax(sum)
}

// NodeMaximum is the most that a node had at one moment; false: it has told nothing.
func (t *UsageTotals) NodeMaximum(node int) (most job.UsageSample, sampled bool) {
	n := t.nodes[node]
	if n == nil {
		return job.UsageSample{}, false
	}
	return n.maximum, true
}

// CompleteSeconds is a tally of the seconds that are over: of the one that is being filled not all nodes have told.
func (t *UsageTotals) CompleteSeconds() UsageTotals {
	return UsageTotals{nodes: t.nodes, maximum: t.maximum, completeOnly: true}
}

// JobMaximum is the most that the job had at one moment; false: nobody has told anything.
func (t *UsageTotals) JobMaximum() (most job.UsageSample, sampled bool) {
	if !t.completeOnly {
		t.sumSecond()
	}
	return t.maximum, len(t.nodes) > 0
}
