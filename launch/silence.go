package launch

import (
	"errors"
	"time"

	"remshell/batch"
	"remshell/launch/node"
	"remshell/launch/supervise"
)

/*
A host that was reached through a batch system may disappear without closing its connection (rule RM-40):

	helper --Ping, each 10 s--> mpiexec      node.Node.LastHeard
	                            mpiexec -- state of the job? --> batch system
	                               <------ running, ... --------
*/

// silenceCheckDue is an event that a timer sends. Its handler calls checkSilentNodes.
type silenceCheckDue struct{}

// batchStateRead is an event. It contains the state of the batch job in which mpiexec is running, as the batch system
// has reported it.
type batchStateRead struct{ state batch.State }

// watchSilentNodes starts a timer that calls checkSilentNodes regularly, if helpers of this job send Pings (signs of
// life). The returned function stop ends the timer.
func (j *Job) watchSilentNodes() (stop func()) {
	if !j.Request.RM.ControlsHelpers() || j.Env.BatchState == nil {
		return func() {}
	}
	ticks, done, ended := time.NewTicker(supervise.SilenceCheckEvery), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticks.C:
				j.events.Put(silenceCheckDue{})
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

// checkSilentNodes looks for nodes that have sent nothing for a long time. If there is one, it asks the batch system
// whether the batch job is still running. It does so on another goroutine, because the query may take long.
func (j *Job) checkSilentNodes(now time.Time) {
	heard := make(map[int]time.Time, len(j.Nodes))
	for _, n := range j.Nodes {
		if n.Lost == nil {
			heard[n.Key] = n.LastHeard()
		}
	}
	if j.silentNodes.Check(heard, now) {
		go func() { j.events.Put(batchStateRead{j.Env.BatchState()}) }() // the query has a time limit of its own (RM-4)
	}
}

// batchStateRead handles the reply of the batch system about the batch job. Nodes that have been silent for too long
// are reported as lost.
func (j *Job) batchStateRead(answer batchStateRead, now time.Time) (events []supervise.Event) {
	for _, event := range j.silentNodes.BatchReplied(answer.state, j.Request.RM.Name, now) {
		lost, ok := event.(supervise.NodeLost)
		if !ok {
			events = append(events, event)
			continue
		}
		n := j.Nodes[lost.Node]
		events = append(events, j.translate(node.Disconnected{From: n.Node.Node, Err: errors.New(lost.Why)})...)
		go n.Abandon() // the process behind the connection may need a moment to exit
	}
	return events
}
