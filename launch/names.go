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
	table   pmiserver.NameTable
	awaited map[string]map[*member]bool // by name: the nodes that want to hear of it
	waits   map[*member]int             // names that each node waits for
}

// maxAwaited is how many names a node may wait for (TRUST-4).
const maxAwaited = 1 << 16

var errAwaited = errors.New("too many names are waited for")

// named answers a node's request to the table of names, and tells those who wait for what it has
// published (PMIX-40).
func (f *fleet) named(n *member, m *wire.Name) {
	answer, news := f.names.answer(n, m)
	n.Send(answer)
	for waiting := range news {
		waiting.Send(&wire.Posted{Service: m.Service})
	}
}

// answer does what a node asks for. Those who wait for what it has published are to be told.
func (a *nameService) answer(n *member, m *wire.Name) (answer *wire.Named, news map[*member]bool) {
	answer = &wire.Named{ID: m.ID}
	var err error
	switch m.Op {
	case wire.Publish:
		answer.Yes, err = a.table.Add(m.Service, pmiserver.Entry{Port: m.Port, Value: m.Value, Once: m.Once})
		if answer.Yes {
			news = a.posted(m.Service)
		}
	case wire.Lookup, wire.Await:
		var e pmiserver.Entry
		e, answer.Yes = a.table.Find(m.Service)
		answer.Port, answer.Value, answer.Once = e.Port, e.Value, e.Once
		if m.Op == wire.Await && !answer.Yes {
			err = a.await(n, m.Service)
		}
	case wire.Unpublish:
		answer.Yes = a.table.Remove(m.Service)
	default:
		err = fmt.Errorf("operation %d with a name", m.Op)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	return answer, news
}

// await notes that a node wants to hear of a name.
func (a *nameService) await(n *member, service string) error {
	switch {
	case a.awaited[service][n]:
		return nil
	case a.waits[n] == maxAwaited:
		return errAwaited
	case a.awaited == nil:
		a.awaited, a.waits = make(map[string]map[*member]bool), make(map[*member]int)
	}
	if a.awaited[service] == nil {
		a.awaited[service] = make(map[*member]bool)
	}
	a.awaited[service][n] = true
	a.waits[n]++
	return nil
}

// posted returns the nodes that wait for a name, and forgets them: who still wants it asks again.
func (a *nameService) posted(service string) map[*member]bool {
	waiting := a.awaited[service]
	delete(a.awaited, service)
	for n := range waiting {
		a.waits[n]--
	}
	return waiting
}
