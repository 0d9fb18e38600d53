/*
Package kvs is the key-value space of a group of ranks on one node. It holds the pairs that each
rank has put, and the pairs that fences have exchanged.

	put ---> View of the rank --- TakeForFence ---> blob ---> a fence ---> blobs of all nodes
	get <--- View <--- Store <--- SetSnapshot ---- Snapshot <--- NextSnapshot -----'

A rank sees its own puts at once (pmi-wire.md 6.5). Other ranks see them after the next fence. The
pairs exchanged so far are in a Snapshot, which never changes. Each fence stores a new snapshot in
an atomic pointer. So all ranks of a node can read it without a lock, and a get does not allocate
memory.

A blob contains the pairs that the ranks of one node contribute to a fence:

	blob = *pair        pair = uvarint(len key) key  uvarint(len value) value

The concatenation of two blobs is also a blob. An empty blob is normal: before most barriers, no rank puts a pair.
*/
package kvs

import "sync/atomic"

// These are the limits of keys, values and the store, in bytes (pmi-wire.md 5 and 6.4).
const (
	MaxKey   = 255
	MaxValue = 16 << 10
	MaxStore = 1 << 30 // for a group on one node
	PairCost = 64      // estimated memory of a pair without its bytes
)

// MaxKeys is the maximum number of keys that a rank may put between two barriers. Known clients put far
// fewer.
const MaxKeys = 1 << 16

// A Store is the part of the key-value space that all ranks of a group on one node share. Its methods
// may be called from any goroutine.
type Store struct {
	snapshot atomic.Pointer[Snapshot] // the pairs that fences have exchanged
	pending  atomic.Int64             // bytes put on this node and not yet exchanged
}

// New returns a store that initially contains the pairs of a blob. If a key occurs twice, the later pair replaces the
// earlier one.
func New(blob []byte) *Store {
	s := new(Store)
	s.snapshot.Store(newSnapshot(blob))
	return s
}

// Get returns the value of a key that a fence has exchanged. It does not allocate memory.
func (s *Store) Get(key []byte) (value []byte, found bool) { return s.snapshot.Load().findKey(key) }

// Epoch returns how many fences have changed the store. This is the number of calls of SetSnapshot.
func (s *Store) Epoch() int { return s.snapshot.Load().epoch }

// NextSnapshot returns a snapshot that contains the current pairs and the pairs of a fence's blobs. A pair replaces
// pairs with the same key in earlier blobs and in the current snapshot. The snapshot keeps the blobs, and becomes
// visible to ranks through SetSnapshot. An error means that a blob is malformed.
func (s *Store) NextSnapshot(blobs [][]byte) (*Snapshot, error) {
	return s.snapshot.Load().withBlobs(blobs)
}

// SetSnapshot makes next, a result of NextSnapshot, visible to the ranks.
func (s *Store) SetSnapshot(next *Snapshot) { s.snapshot.Store(next) }

// AddPending counts bytes that ranks store outside of snapshots, such as node attributes. If the total would
// exceed MaxStore, it counts nothing and returns false.
func (s *Store) AddPending(bytes int) bool {
	if s.pending.Load()+int64(bytes) > MaxStore {
		return false
	}
	s.pending.Add(int64(bytes))
	return true
}

// SubtractPending subtracts bytes that AddPending or View.Put has counted.
func (s *Store) SubtractPending(bytes int) { s.pending.Add(-int64(bytes)) }
