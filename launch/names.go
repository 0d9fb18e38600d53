package launch

import (
	"errors"
	"fmt"

	"remshell/pmiserver"
	"remshell/wire"
)

// A nameService has the names that ranks have published (MPI_Publish_name), and the nodes that wait
// for a name. It lasts as long as the job.
type nameService struct {
	table        pmiserver.NameTable
	waitingNodes map[string]map[*Node]bool // by name: the nodes that wait for it
	waitCounts   map[*Node]int             // by node: how many names it waits for
}

// maxNameWaits is how many names a node may wait for (TRUST-4).
const maxNameWaits = 1 << 16

var errNameWaits = errors.New("too many names are waited for")

// handleName answers a node's request about a name. If it publishes the name, all nodes that wait
// for it are told (PMIX-40).
func (j *Job) handleName(n *Node, m *wire.NameRequest) {
	answer, nodes := j.names.reply(n, m)
	n.Send(answer)
	for waiting := range nodes {
		waiting.Send(&wire.NamePublished{Service: m.Service})
	}
}

// reply carries out a node's request. waiting are the nodes to be told that the name is published.
func (a *nameService) reply(n *Node, m *wire.NameRequest) (answer *wire.NameReply, waiting map[*Node]bool) {
	answer = &wire.NameReply{ID: m.ID}
	var err error
	switch m.Op {
	case wire.Publish:
		answer.OK, err = a.table.Add(m.Service, pmiserver.Entry{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly})
		if answer.OK {
			waiting = a.takeWaiting(m.Service)
		}
	case wire.Lookup, wire.LookupWait:
		var e pmiserver.Entry
		e, answer.OK = a.table.Find(m.Service)
		answer.Port, answer.Value, answer.FirstReadOnly = e.Port, e.Value, e.Once
		if m.Op == wire.LookupWait && !answer.OK {
			err = a.addWaiting(n, m.Service)
		}
	case wire.Unpublish:
		answer.OK = a.table.Remove(m.Service)
	default:
		err = fmt.Errorf("operation %d with a name", m.Op)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	return answer, waiting
}

// addWaiting records that a node waits for a name.
func (a *nameService) addWaiting(n *Node, service string) error {
	switch {
	case a.waitingNodes[service][n]:
		return nil
	case a.waitCounts[n] == maxNameWaits:
		return errNameWaits
	case a.waitingNodes == nil:
		a.waitingNodes, a.waitCounts = make(map[string]map[*Node]bool), make(map[*Node]int)
	}
	if a.waitingNodes[service] == nil {
		a.waitingNodes[service] = make(map[*Node]bool)
	}
	a.waitingNodes[service][n] = true
	a.waitCounts[n]++
	return nil
}

// takeWaiting removes and returns the nodes that wait for a name. A node that still needs it asks
// again.
func (a *nameService) takeWaiting(service string) map[*Node]bool {
	waiting := a.waitingNodes[service]
	delete(a.waitingNodes, service)
	for n := range waiting {
		a.waitCounts[n]--
	}
	return waiting
}
