package usage

import (
	"time"

	"remshell/job"
)

/*
Totals sums the usage samples of nodes. Samples that arrive within one second are treated as taken at the same moment
(rule RM-51).

	         a        b
	1 s    100 MB   250 MB    the job: 350 MB
	2 s    300 MB    40 MB             340 MB   maximum: 350 MB, and not 300 + 250

The samples of a second are summed when the last node has reported, or when a sample of the next second arrives. If
a node is late, its previous sample is used, unless that sample is too old. Seconds are those of mpiexec's clock,
so that a wrong clock of a node does no harm.
*/
type Totals struct {
	nodes         map[int]*nodeUsage
	second        int64           // the second being summed, in Unix time
	nodesReported int             // nodes that have reported in it
	maximum       job.UsageSample // of the job
	completeOnly  bool            // leave out the second being summed
}

// A nodeUsage is the usage of one node.
type nodeUsage struct {
	current job.UsageSample // last sample; CPU time never decreases
	maximum job.UsageSample
	second  int64
	over    bool // nothing of the job is left there
}

// staleAfter is the number of seconds for which a sample is valid. It is three times the longest sampling
// interval.
var staleAfter = 3 * int64(job.SampleInterval(false).Seconds())

// AddSample adds a sample of a node's processes.
func (t *Totals) AddSample(node int, s job.UsageSample, now time.Time) {
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

// NodeDone records that no process of the job is left on a node.
func (t *Totals) NodeDone(node int) {
	if n := t.nodes[node]; n != nil {
		n.over = true
	}
}

// sumSecond sums the samples that have arrived in the current second.
func (t *Totals) sumSecond() {
	var sum job.UsageSample
	for _, n := range t.nodes {
		s := n.current
		if n.over || t.second-n.second > staleAfter {
			s = job.UsageSample{CPU: s.CPU}
		}
		sum.Add(s)
	}
	t.maximum.TakeMax(sum)
}

// NodeMaximum returns, for each resource, the largest value in the samples of a node. It returns false if the node has
// sent no sample.
func (t *Totals) NodeMaximum(node int) (maximum job.UsageSample, sampled bool) {
	n := t.nodes[node]
	if n == nil {
		return job.UsageSample{}, false
	}
	return n.maximum, true
}

// CompleteSeconds returns the totals without the current second, for which some nodes have not reported yet.
func (t *Totals) CompleteSeconds() Totals {
	return Totals{nodes: t.nodes, maximum: t.maximum, completeOnly: true}
}

// JobMaximum returns, for each resource, the largest value that the whole job has used at one moment. It returns false
// if no node has sent a sample.
func (t *Totals) JobMaximum() (maximum job.UsageSample, sampled bool) {
	if !t.completeOnly {
		t.sumSecond()
	}
	return t.maximum, len(t.nodes) > 0
}
