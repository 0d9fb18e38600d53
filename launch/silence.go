package launch

import (
	"errors"
	"time"

	"remshell/batch"
	"remshell/launch/node"
	"remshell/launch/supervise"
)

/*
A host that a batch system's starter has reached may go without a word (RM-40):

	helper --Ping, each 10 s--> us      node.Node.Heard
	                            us -- how does the job stand? --> batch system
	                               <------ it runs, ... --------
*/

// silenceCheckDue is the time to see who is silent.
type silenceCheckDue struct{}

// batchStateRead is how the batch system's job stands.
type batchStateRead struct{ state batch.State }

// watchSilentNodes begins to look for nodes that fall silent, if those of this job give signs of life, and
// returns what ends that.
func (f *runningJob) watchSilentNodes() (stop func()) {
	if !f.req.RM.ControlsHelpers() || f.env.BatchState == nil {
		return func() {}
	}
	ticks, done, ended := time.NewTicker(supervise.SilenceCheckEvery), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				f.events.Put(silenceCheckDue{})
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(done)
		<-ended
	}
}

// checkSilentNodes sees who is silent, and asks the batch system about it: beside us, as it may take its time.
func (f *runningJob) checkSilentNodes(now time.Time) {
	heard := make(map[int]time.Time, len(f.nodes))
	for _, n := range f.nodes {
		if n.lost == nil {
			heard[n.key] = n.LastHeard()
		}
	}
	if f.silentNodes.Check(heard, now) {
		go func() { f.events.Put(batchStateRead{f.env.BatchState()}) }() // asking has a limit of its own (RM-4)
	}
}

// batchStateRead takes the answer. A node that is given up is treated as if its connection had ended.
func (f *runningJob) batchStateRead(said batchStateRead, now time.Time) (events []supervise.Event) {
	for _, news := range f.silentNodes.BatchReplied(said.state, f.req.RM.Name, now) {
		lost, ok := news.(supervise.NodeLost)
		if !ok {
			events = append(events, news)
			continue
		}
		n := f.nodes[lost.Node]
		events = append(events, f.translate(node.Disconnected{From: n.Node.Node, Err: errors.New(lost.Why)})...)
		go n.Abandon() // whoever carries the connection may need a moment to end
	}
	return events
}
