package kvs

import (
	"bytes"
	"maps"
	"slices"
)

// A View is the key-value space as one rank sees it: the pairs in the store, and the pairs that the rank has put since
// the last fence. Only one goroutine may use a View.
type View struct {
	Store   *Store
	unsent  map[string][]byte // put since the rank last entered a barrier
	bytes   int               // cost of unsent
	inFence map[string][]byte // the pairs that the rank took into its last barrier
	epoch   int               // Store.Epoch when it entered
}

// View returns the view of a rank that has put nothing yet.
func (s *Store) View() View { return View{Store: s} }

// Get returns the value of a key that the rank can see. It does not allocate memory.
func (v *View) Get(key []byte) (value []byte, found bool) {
	snap := v.Store.snapshot.Load()
	if v.inFence != nil && snap.epoch > v.epoch {
		v.inFence = nil // the snapshot has these pairs, or newer values
	}
	if value, found = v.unsent[string(key)]; found {
		return value, true
	}
	if value, found = v.inFence[string(key)]; found {
		return value, true
	}
	return snap.findKey(key)
}

// Put stores a pair, which becomes visible to other ranks at the next barrier. It returns false if the group
// has reached MaxStore, or if the rank has put MaxKeys keys since the last barrier.
func (v *View) Put(key, value []byte) bool {
	old, replaced := v.unsent[string(key)]
	more := len(key) + len(value) + PairCost
	if replaced {
		more = len(value) - len(old)
	}
	s := v.Store
	full := s.pending.Load()+int64(s.snapshot.Load().memoryBytes()+more) > MaxStore
	if full || !replaced && len(v.unsent) >= MaxKeys {
		return false
	}
	if v.unsent == nil {
		v.unsent = make(map[string][]byte)
	}
	v.unsent[string(key)] = bytes.Clone(value)
	v.bytes += more
	s.pending.Add(int64(more))
	return true
}

// TakeForFence returns the pairs that the rank has put since the last fence, as a blob, and removes them from the
// view's unsent pairs. cost is the number of bytes that Put has counted for these pairs. When the fence is over, the
// caller must pass cost to Store.SubtractPending.
func (v *View) TakeForFence() (blob []byte, cost int) {
	blob, cost = appendPairs(nil, v.unsent), v.bytes
	*v = View{Store: v.Store, inFence: v.unsent, epoch: v.Store.Epoch()}
	return blob, cost
}

// DiscardUnsent drops the pairs that the rank has put since the last barrier.
func (v *View) DiscardUnsent() {
	v.Store.SubtractPending(v.bytes)
	v.unsent, v.bytes = nil, 0
}

// Keys returns the keys that the rank can see and that have a value, in sorted order.
func (v *View) Keys() []string {
	all := make(map[string]bool)
	add := func(key []byte) {
		if value, _ := v.Get(key); len(value) > 0 {
			all[string(key)] = true
		}
	}
	for _, l := range v.Store.snapshot.Load().layers {
		for key := range l.pairs() {
			add(key)
		}
	}
	for key := range v.inFence {
		add([]byte(key))
	}
	for key := range v.unsent {
		add([]byte(key))
	}
	return slices.Sorted(maps.Keys(all))
}
