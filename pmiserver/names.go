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

// The limits of a table (TRUST-24): names, and bytes of one with what is published.
const (
	maxNames     = 1024
	maxNameBytes = 4 << 10
)

// What a table does not take.
var (
	errNamesFull = errors.New("name table full")
	errLongName  = errors.New("name too long")
)

// An Entry is what is published under a name.
type Entry struct {
	Port  string // for ranks that speak PMI
	Value []byte // for those that speak PMIx, with its publisher; nil: he speaks PMI
	Once  bool   // the first who looks it up takes it (PMIX-41)
}

// A NameTable is the table itself. The zero value is empty and ready.
type NameTable struct {
	mu      sync.Mutex // guards entries
	entries map[string]Entry
}

var _ Names = (*NameTable)(nil)

// Publish is that of Names.
func (t *NameTable) Publish(_ context.Context, service, port string) (bool, error) {
	return t.Add(service, Entry{Port: port})
}

// Lookup is that of Names. It never fails.
func (t *NameTable) Lookup(_ context.Context, service string) (string, bool, error) {
	e, found := t.Find(service)
	return e.Port, found, nil
}

// Unpublish is that of Names. It never fails.
func (t *NameTable) Unpublish(_ context.Context, service string) (bool, error) {
	return t.Remove(service), nil
}

// Add adds a name, unless it is there already. It fails when there are too many.
func (t *NameTable) Add(service string, e Entry) (added bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.entries[service]
	switch {
	case there:
		return false, nil
	case len(t.entries) == maxNames:
		return false, errNamesFull
	case len(service)+len(e.Port)+len(e.Value) > maxNameBytes:
		return false, errLongName
	}
	if t.entries == nil {
		t.entries = make(map[string]Entry)
	}
	t.entries[service] = e
	return true, nil
}

// Remove removes a name, and reports whether it was there.
func (t *NameTable) Remove(service string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.entries[service]
	delete(t.entries, service)
	return there
}

// Find returns what is published under a name, which is then there no more if it was published
// once.
func (t *NameTable) Find(service string) (e Entry, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, found = t.entries[service]
	if e.Once {
		delete(t.entries, service)
	}
	return e, found
}
