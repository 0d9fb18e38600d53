package launch

import (
	"errors"
	"fmt"

	"remshell/pmiserver"
	"remshell/wire"
)

// A nameService is the names that ranks have published, and those that they wait for. They live
// as long as the job does.
type nameService struct {
	table        pmiserver.NameTable
	waitingNodes map[string]map[*jobNode]bool // by name: the nodes that want to hear of it
	waitCounts   map[*jobNode]int             // names that each node waits for
}

// maxNameWaits is how many names a node may wait for (TRUST-4).
const maxNameWaits = 1 << 16

var errNameWaits = errors.New("too many names are waited for")

// handleName answers a node's request to the table of names, and tells those who wait for what it has
// published (PMIX-40).
func (f *runningJob) handleName(n *jobNode, m *wire.NameRequest) {
	answer, news := f.names.reply(n, m)
	n.Send(answer)
	for waiting := range news {
		waiting.Send(&wire.NamePublished{Service: m.Service})
	}
}

// reply does what a node asks for. Those who wait for what it has published are to be told.
func (a *nameService) reply(n *jobNode, m *wire.NameRequest) (answer *wire.NameReply, news map[*jobNode]bool) {
	answer = &wire.NameReply{ID: m.ID}
	var err error
	switch m.Op {
	case wire.Publish:
		answer.OK, err = a.table.Add(m.Service, pmiserver.Entry{Port: m.Port, Value: m.Value, Once: m.FirstReadOnly})
		if answer.OK {
			news = a.takeWaiting(m.Service)
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
	return answer, news
}

// addWaiting notes that a node wants to hear of a name.
func (a *nameService) addWaiting(n *jobNode, service string) error {
	switch {
	case a.waitingNodes[service][n]:
		return nil
	case a.waitCounts[n] == maxNameWaits:
		return errNameWaits
	case a.waitingNodes == nil:
		a.waitingNodes, a.waitCounts = make(map[string]map[*jobNode]bool), make(map[*jobNode]int)
	}
	if a.waitingNodes[service] == nil {
		a.waitingNodes[service] = make(map[*jobNode]bool)
	}
	a.waitingNodes[service][n] = true
	a.waitCounts[n]++
	return nil
}

// takeWaiting returns the nodes that wait for a name, and forgets them: who still wants it asks again.
func (a *nameService) takeWaiting(service string) map[*jobNode]bool {
	waiting := a.waitingNodes[service]
	delete(a.waitingNodes, service)
	for n := range waiting {
		a.waitCounts[n]--
	}
	return waiting
}
