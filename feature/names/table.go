package names

import (
	"errors"
	"fmt"

	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/pmiserver"
)

func init() { launch.Register(launch.Feature{Name: "names", Attach: attach}) }

// attach makes a table of names for the attempt (one run of all ranks). With --names user or all, it makes a place
// instead of a table, because a helper keeps the names.
func attach(j *launch.Job) {
	scope, has := launch.SettingOf[*Scope](j)
	if !has {
		launch.Handle(j, new(table).handleRequest)
		return
	}
	p := newPlace(j, scope)
	launch.Handle(j, p.handleRequest)
	j.Hooks.Closing.Add(p.close)
}

// A table contains the names that ranks have published, and the nodes that wait for names. There is one table for each
// attempt (one run of all ranks).
type table struct {
	published pmiserver.NameTable
	waitingNodes
}

// A waitingNodes records which nodes wait for which names.
type waitingNodes struct {
	nodesOf    map[string]map[*launch.Node]bool // by name: the nodes that wait for it
	waitCounts map[*launch.Node]int             // by node: how many names it waits for
}

// maxNameWaits is the maximum number of names that a node may wait for (rule TRUST-4).
const maxNameWaits = 1 << 16

var errNameWaits = errors.New("too many ranks wait for names that are not published yet")

// handleRequest carries out a node's request to publish, look up or remove a name, and sends the reply. If the request
// publishes the name, handleRequest notifies all nodes that wait for the name (rule PMIX-40).
func (a *table) handleRequest(n *launch.Node, m *NameRequest) []supervise.Event {
	answer, nodes := a.reply(n, m)
	n.Send(answer)
	for waiting := range nodes {
		waiting.Send(&NamePublished{Service: m.Service})
	}
	return nil
}

// reply carries out a node's request about a name and returns the reply to it. waiting contains the nodes to notify
// that the name is published.
func (a *table) reply(n *launch.Node, m *NameRequest) (answer *NameReply, waiting map[*launch.Node]bool) {
	answer = &NameReply{ID: m.ID}
	var err error
	switch m.Op {
	case Publish:
		answer.OK, err = a.published.Add(m.Service, pmiserver.Entry{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly})
		if answer.OK {
			waiting = a.takeWaiting(m.Service)
		}
	case Lookup, LookupWait:
		var e pmiserver.Entry
		e, answer.OK = a.published.Find(m.Service)
		answer.Port, answer.Value, answer.FirstReadOnly = e.Port, e.Value, e.Once
		if m.Op == LookupWait && !answer.OK {
			err = a.addWaiting(n, m.Service)
		}
	case Unpublish:
		answer.OK = a.published.Remove(m.Service)
	default:
		err = fmt.Errorf("the host requested the unknown operation %d on a published name", m.Op)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	return answer, waiting
}

// addWaiting records that a node waits for a name.
func (a *waitingNodes) addWaiting(n *launch.Node, service string) error {
	switch {
	case a.nodesOf[service][n]:
		return nil
	case a.waitCounts[n] == maxNameWaits:
		return errNameWaits
	case a.nodesOf == nil:
		a.nodesOf, a.waitCounts = make(map[string]map[*launch.Node]bool), make(map[*launch.Node]int)
	}
	if a.nodesOf[service] == nil {
		a.nodesOf[service] = make(map[*launch.Node]bool)
	}
	a.nodesOf[service][n] = true
	a.waitCounts[n]++
	return nil
}

// takeWaiting removes and returns the nodes that wait for a name. mpiexec notifies each of them once. A node whose
// rank does not get the name then sends its request again.
func (a *waitingNodes) takeWaiting(service string) map[*launch.Node]bool {
	waiting := a.nodesOf[service]
	delete(a.nodesOf, service)
	for n := range waiting {
		a.waitCounts[n]--
	}
	return waiting
}
