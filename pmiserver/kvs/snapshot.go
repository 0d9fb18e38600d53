package kvs

import (
	"hash/maphash"
	"iter"
)

// A Snapshot is what the fences of a group have spread so far. It never changes,
// so any number of ranks read it at once.
//
// It is a stack of layers, because copying everything at each barrier would make
// a program of many barriers slow: a barrier puts a layer on top, and layers of
// like size melt into one. Each layer is at least twice as large as the one above
// it, so there are few, and a pair is moved a few times in its life.
type Snapshot struct {
	seed   maphash.Seed // ranks choose the keys, and shall not choose the collisions
	epoch  int          // barriers behind us
	bytes  int          // of all blobs
	count  int          // of pairs in all layers
	layers []layer      // newest first
}

// newSnapshot returns the snapshot of a group that has met no fence yet, with the pairs of a blob.
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

// memoryBytes is what the snapshot needs, in bytes, about.
func (s *Snapshot) memoryBytes() int { return s.bytes + s.count*PairCost }

// findKey finds a key without allocating.
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

// withBlobs returns the snapshot after a barrier that spread these blobs, and keeps
// them. A key of a later blob replaces that of an earlier one, and both what was
// there.
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

// mergeLayers puts one layer over another, and leaves behind what it replaces.
func (s *Snapshot) mergeLayers(over, under layer) layer {
	kept := make([]byte, 0, under.bytes)
	for key, value := range under.pairs() {
		if _, _, replaced := over.findSlot(maphash.Bytes(s.seed, key), key); !replaced {
			kept = AppendPair(kept, key, value)
		}
	}
	l, err := newLayer(s.seed, append([][]byte{kept}, over.blobs...))
	if err != nil {
		panic("kvs: blobs that could be read before: " + err.Error())
	}
	return l
}

// A layer finds pairs in the blobs in which they came. 64,000 pairs need 1 MB
// beside the blobs; a map of strings would need as much as the blobs once more,
// and ten times as long to fill.
type layer struct {
	blobs [][]byte
	bytes int // of all blobs
	count int // of different keys

	// slots is a hash table: where a pair is, or 0. At least half of it is
	// free, and its length is a power of two. A pair is in the first slot from
	// that of its hash on that was free when it came.
	slots []pairRef
}

// A pairRef is where a pair begins: one more than the number of its blob in the
// upper half, and the offset in the lower.
type pairRef uint64

func (p pairRef) pairIn(blobs [][]byte) []byte { return blobs[p>>32-1][uint32(p):] }

// newLayer indexes blobs, of which the later ones replace what the earlier say.
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

// initialSlots is enough for so many pairs, but for shorter ones than programs have: these may
// be one and the same, and get more room when they are seen to differ (TRUST-30).
func initialSlots(pairs, bytes int) int {
	const usual = 8 // bytes of a pair, at least
	size := 1
	for size < 2*min(pairs, bytes/usual+8) {
		size *= 2
	}
	return size
}

// putPair adds a pair, or replaces the one of the same key.
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

// growSlots doubles the slots.
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

// findSlot returns the slot of a key with that hash, and its value if it has one.
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

// pairs goes through the pairs, in no order.
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
