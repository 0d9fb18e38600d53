package pmiserver

import (
	"context"
	"errors"
	"sync"
)

// Names is the table of the names that ranks publish for MPI_Comm_accept and
// look up for MPI_Comm_connect. There is one for all groups of a job, in mpiexec,
// so the methods may wait for an answer from there. A name outlives the rank that
// published it (pmi-wire.md 2.5).
type Names interface {
	Publish(ctx context.Context, service, port string) (added bool, err error)
	Lookup(ctx context.Context, service string) (port string, found bool, err error)
	Unpublish(ctx context.Context, service string) (removed bool, err error)
}

// The limits of a table (TRUST-24): names, and bytes of one with its port.
const (
	maxNames = 1024
	maxName  = 4 << 10
)

// What a table does not take.
var (
	errNamesFull = errors.New("name table full")
	errLongName  = errors.New("name too long")
)

// A NameTable is the table itself. The zero value is empty and ready.
type NameTable struct {
	mu    sync.Mutex // guards ports
	ports map[string]string
}

var _ Names = (*NameTable)(nil)

// Publish adds a name, unless it is there already. It fails when there are too many.
func (t *NameTable) Publish(_ context.Context, service, port string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.ports[service]; there {
		return false, nil
	}
	if len(t.ports) == maxNames {
		return false, errNamesFull
	}
	if t.ports == nil {
		t.ports = make(map[string]string)
	}
	t.ports[service] = port
	return true, nil
}

// Lookup returns the port published under a name. It never fails.
func (t *NameTable) Lookup(_ context.Context, service string) (string, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	port, found := t.ports[service]
	return port, found, nil
}

// Unpublish removes a name. It never fails.
func (t *NameTable) Unpublish(_ context.Context, service string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.ports[service]
	delete(t.ports, service)
	return there, nil
}
