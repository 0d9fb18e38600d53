package pmiserver

import (
	"context"
	"errors"
	"sync"
)

// Names is the table of names that ranks publish for MPI_Comm_accept and look up for MPI_Comm_connect. There is one
// table for all groups of a job. mpiexec stores the table, so the methods may wait for a reply from mpiexec. A name
// outlives the rank that published it (pmi-wire.md 2.5).
type Names interface {
	Publish(ctx context.Context, service, port string) (added bool, err error)
	Lookup(ctx context.Context, service string) (port string, found bool, err error)
	Unpublish(ctx context.Context, service string) (removed bool, err error)
}

// These are the limits of a NameTable (rule TRUST-24): the number of names, and the size of one name together with its
// entry, in bytes.
const (
	maxNames     = 1024
	maxNameBytes = 4 << 10
)

// These are the errors of a NameTable.
var (
	errNamesFull = errors.New("name table full")
	errLongName  = errors.New("name too long")
)

// An Entry is the value of a published name.
type Entry struct {
	Port  string // for ranks that use PMI
	Value []byte // the PMIx value, which names its publisher; nil if a PMI rank published the name
	Once  bool   // the first lookup removes the entry (PMIX-41)
}

// A NameTable is an in-memory implementation of Names. The zero value is empty and ready to use.
type NameTable struct {
	mu      sync.Mutex // guards entries
	entries map[string]Entry
}

var _ Names = (*NameTable)(nil)

// Publish implements Names: it adds a name with its port to the table.
func (t *NameTable) Publish(_ context.Context, service, port string) (bool, error) {
	return t.Add(service, Entry{Port: port})
}

// Lookup implements Names: it returns the port of a name, and never fails.
func (t *NameTable) Lookup(_ context.Context, service string) (string, bool, error) {
	e, found := t.Find(service)
	return e.Port, found, nil
}

// Unpublish implements Names: it removes a name, and never fails.
func (t *NameTable) Unpublish(_ context.Context, service string) (bool, error) {
	return t.Remove(service), nil
}

// Add adds a name to the table. added is false if the table already has the name. It returns an error if the
// table is full or the entry is too long.
func (t *NameTable) Add(service string, e Entry) (added bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, exists := t.entries[service]
	switch {
	case exists:
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

// Remove removes a name from the table. It reports whether the table had the name.
func (t *NameTable) Remove(service string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, exists := t.entries[service]
	delete(t.entries, service)
	return exists
}

// Find returns the entry of a name. If the entry's field Once is set, Find also removes the entry.
func (t *NameTable) Find(service string) (e Entry, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, found = t.entries[service]
	if e.Once {
		delete(t.entries, service)
	}
	return e, found
}
