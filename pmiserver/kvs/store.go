/*
Package kvs is the key-value space of a group of ranks on one node: what each rank has put,
and what the fences have spread.

	put ---> View of the rank --- Hand ---> blob ---> a fence ---> blobs of all nodes
	get <--- View <--- Store <--- Show ---- Snapshot <--- Next ------'

A rank sees at once what it has put itself (pmi-wire.md 6.5); the others see it after the
next fence. What the fences have spread is a snapshot that never changes, behind an atomic
pointer, which a fence replaces. So the gets of all ranks of a node share it without a lock,
and answering one allocates nothing.

What travels is a blob, the pairs that the ranks of a node bring to a fence:

	blob = *pair        pair = uvarint(len key) key  uvarint(len value) value

Blobs joined are a blob. An empty one is normal: most barriers follow no put.
*/
package kvs

import "sync/atomic"

// Limits (pmi-wire.md 5 and 6.4), in bytes.
const (
	MaxKey   = 255
	MaxValue = 16 << 10
	MaxStore = 1 << 30 // of a group, on one node
	PairCost = 64      // of a pair beside its bytes, about
)

// MaxKeys is how many keys a rank may put between two barriers. Real clients stay far below.
const MaxKeys = 1 << 16

// A Store is what all ranks of a group on one node share. Its methods may be called from any
// goroutine.
type Store struct {
	snapshot atomic.Pointer[Snapshot] // what the fences have spread
	pending  atomic.Int64             // bytes put on this node and not yet spread
}

// New returns a store in which the pairs of a blob are found from the first moment, the later
// of equal keys.
func New(blob []byte) *Store {
	s := new(Store)
	s.snapshot.Store(newSnapshot(blob))
	return s
}

// Get finds a key among what the fences have spread. It allocates nothing.
func (s *Store) Get(key []byte) (value []byte, found bool) { return s.snapshot.Load().findKey(key) }

// Epoch returns how many fences were shown.
func (s *Store) Epoch() int { return s.snapshot.Load().epoch }

// NextSnapshot returns what there is after a fence that has spread these blobs, which it keeps: a key
// of a later blob replaces that of an earlier one, and both what was there. Show makes it
// visible. An error means that a blob is none.
func (s *Store) NextSnapshot(blobs [][]byte) (*Snapshot, error) {
	return s.snapshot.Load().withBlobs(blobs)
}

// SetSnapshot makes visible what Next has made.
func (s *Store) SetSnapshot(next *Snapshot) { s.snapshot.Store(next) }

// AddPending counts bytes that are put beside the keys of ranks, unless there is no room for them.
func (s *Store) AddPending(bytes int) bool {
	if s.pending.Load()+int64(bytes) > MaxStore {
		return false
	}
	s.pending.Add(int64(bytes))
	return true
}

// SubtractPending takes back bytes that were counted by Hold, or by a View that has handed them out.
func (s *Store) SubtractPending(bytes int) { s.pending.Add(-int64(bytes)) }
