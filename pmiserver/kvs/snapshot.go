package kvs

import (
	"hash/maphash"
	"iter"
)

// A Snapshot contains the pairs that the fences of a group have exchanged so far. It never changes, so any
// number of ranks may read it at the same time.
//
// It is a stack of layers. Each barrier adds a layer on top, because copying all pairs would slow down
// programs with many barriers. Layers of similar size are merged, so that each layer is at least twice as
// large as the one above it. As a result, there are few layers, and a pair is copied only a few times.
type Snapshot struct {
	seed   maphash.Seed // random, since ranks choose the keys and must not be able to choose collisions
	epoch  int          // number of fences so far
	bytes  int          // size of all blobs
	count  int          // number of pairs in all layers
	layers []layer      // newest first
}

// newSnapshot returns the snapshot before the first fence. It contains the pairs of a blob.
func newSnapshot(blob []byte) *Snapshot {
	s := &Snapshot{seed: maphash.MakeSeed()}
	if len(blob) > 0 {
		filled, err := s.withBlobs([][]byte{blob})
		if err != nil {
			panic("kvs: a blob of ours: " + err.Error())
		}
		filled.epoch, s = 0, filled
	}
	return s
}

// memoryBytes estimates the memory that the snapshot uses, in bytes.
func (s *Snapshot) memoryBytes() int { return s.bytes + s.count*PairCost }

// findKey returns the value of a key. It does not allocate memory.
func (s *Snapshot) findKey(key []byte) (value []byte, found bool) {
	if len(s.layers) == 0 {
		return nil, false
	}
	h := maphash.Bytes(s.seed, key)
	for i := range s.layers {
		if _, value, found = s.layers[i].findSlot(h, key); found {
			break
		}
	}
	return value, found
}

// withBlobs returns a snapshot with the pairs of s and of the blobs of a fence. The new snapshot keeps the blobs. A
// pair replaces pairs with the same key in earlier blobs and in s.
func (s *Snapshot) withBlobs(blobs [][]byte) (*Snapshot, error) {
	top, err := newLayer(s.seed, blobs)
	if err != nil {
		return nil, err
	}
	n := &Snapshot{seed: s.seed, epoch: s.epoch + 1, layers: s.layers}
	if top.count > 0 {
		rest := s.layers
		for len(rest) > 0 && rest[0].count < 2*top.count {
			top = s.mergeLayers(top, rest[0])
			rest = rest[1:]
		}
		n.layers = append([]layer{top}, rest...)
	}
	for i := range n.layers {
		n.bytes += n.layers[i].bytes
		n.count += n.layers[i].count
	}
	return n, nil
}

// mergeLayers merges two layers. Pairs of the newer layer replace pairs of the older one.
func (s *Snapshot) mergeLayers(newer, older layer) layer {
	kept := make([]byte, 0, older.bytes)
	for key, value := range older.pairs() {
		if _, _, replaced := newer.findSlot(maphash.Bytes(s.seed, key), key); !replaced {
			kept = AppendPair(kept, key, value)
		}
	}
	l, err := newLayer(s.seed, append([][]byte{kept}, newer.blobs...))
	if err != nil {
		panic("kvs: blobs that could be read before: " + err.Error())
	}
	return l
}

// A layer is a hash table of the pairs in several blobs. For 64,000 pairs it needs 1 MB in addition to the blobs. A map
// of strings would need as much memory as all blobs together, and would take ten times as long to fill.
type layer struct {
	blobs [][]byte
	bytes int // size of all blobs
	count int // number of different keys

	// slots is a hash table with open addressing. Its length is a power of two, and at least half of
	// it is 0, which means free. A pair is in the first slot that was free when it was added, searched
	// from the slot of its hash.
	slots []pairRef
}

// A pairRef is the position of a pair in the blobs of a layer. The upper half is the index of the blob plus
// 1, and the lower half is the offset in that blob. 0 means that there is no pair.
type pairRef uint64

func (p pairRef) pairIn(blobs [][]byte) []byte { return blobs[p>>32-1][uint32(p):] }

// newLayer builds a layer from the pairs in blobs. If a key occurs several times, the last pair is used.
func newLayer(seed maphash.Seed, blobs [][]byte) (layer, error) {
	l := layer{blobs: blobs}
	pairs := 0
	for _, b := range blobs {
		n, err := countPairs(b)
		if err != nil {
			return layer{}, err
		}
		pairs += n
		l.bytes += len(b)
	}
	l.slots = make([]pairRef, initialSlots(pairs, l.bytes))
	for i, b := range blobs {
		for rest := b; len(rest) > 0; {
			key, _, after, _ := cutPair(rest)
			l.putPair(seed, key, pairRef(uint64(i+1)<<32|uint64(len(b)-len(rest))))
			rest = after
		}
	}
	return l, nil
}

// initialSlots returns the initial number of slots of a hash table. pairs is the number of pairs and bytes is their
// total size. initialSlots assumes that pairs are as long as in real programs. If there are many shorter pairs,
// growSlots adds slots when they are needed (rule TRUST-30).
func initialSlots(pairs, bytes int) int {
	const usual = 8 // minimum size of a pair in real programs, in bytes
	size := 1
	for size < 2*min(pairs, bytes/usual+8) {
		size *= 2
	}
	return size
}

// putPair adds a pair. It replaces the pair with the same key, if there is one.
func (l *layer) putPair(seed maphash.Seed, key []byte, at pairRef) {
	slot, _, replaces := l.findSlot(maphash.Bytes(seed, key), key)
	l.slots[slot] = at
	if replaces {
		return
	}
	if l.count++; 2*l.count > len(l.slots) {
		l.growSlots(seed)
	}
}

// growSlots doubles the number of slots.
func (l *layer) growSlots(seed maphash.Seed) {
	old := l.slots
	l.slots = make([]pairRef, 2*len(old))
	for _, p := range old {
		if p != 0 {
			key, _, _, _ := cutPair(p.pairIn(l.blobs))
			slot, _, _ := l.findSlot(maphash.Bytes(seed, key), key)
			l.slots[slot] = p
		}
	}
}

// findSlot returns the slot for a key. hash is the hash of the key. If the slot contains the key, found is
// true, and value is the key's value.
func (l *layer) findSlot(hash uint64, key []byte) (slot int, value []byte, found bool) {
	mask := len(l.slots) - 1
	for slot = int(hash) & mask; l.slots[slot] != 0; slot = (slot + 1) & mask {
		k, value, _, _ := cutPair(l.slots[slot].pairIn(l.blobs))
		if string(k) == string(key) {
			return slot, value, true
		}
	}
	return slot, nil, false
}

// pairs iterates over the pairs, in no particular order.
func (l *layer) pairs() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for _, p := range l.slots {
			if p == 0 {
				continue
			}
			if key, value, _, _ := cutPair(p.pairIn(l.blobs)); !yield(key, value) {
				return
			}
		}
	}
}
