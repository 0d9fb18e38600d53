package kvs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"runtime"
	"testing"
)

// Many barriers with a put each make few layers, and replaced pairs are not kept.
func TestSnapshotStaysShallow(t *testing.T) {
	snap := &Snapshot{seed: maphash.MakeSeed()}
	want := make(map[string]string)
	for i := range 2000 {
		key, value := fmt.Sprint("key-", i%700), fmt.Sprint("value-", i)
		want[key] = value
		next, err := snap.withBlobs([][]byte{AppendPair(nil, []byte(key), []byte(value))})
		if err != nil {
			t.Fatal(err)
		}
		snap = next
		if len(snap.layers) > 11 {
			t.Fatalf("%d layers after %d barriers", len(snap.layers), i+1)
		}
	}
	for key, value := range want {
		if got, _ := snap.findKey([]byte(key)); string(got) != value {
			t.Errorf("%s = %q, want %q", key, got, value)
		}
	}
	if snap.epoch != 2000 || snap.bytes > 2*700*20 {
		t.Errorf("epoch %d, %d bytes", snap.epoch, snap.bytes)
	}
}

// The fences of a spawned group are counted from 0, even if it has preputs.
func TestPreputs(t *testing.T) {
	var blob []byte
	for _, p := range [][2]string{{"a", "1"}, {"b", "2"}, {"a", "3"}} {
		blob = AppendPair(blob, []byte(p[0]), []byte(p[1]))
	}
	s := New(blob)
	if a, _ := s.Get([]byte("a")); string(a) != "3" || s.Epoch() != 0 || s.snapshot.Load().count != 2 {
		t.Errorf("a = %q, epoch %d, %d keys", a, s.Epoch(), s.snapshot.Load().count)
	}
}

// The slots of a layer suffice for the pairs that differ, not for all pairs that fit into so many
// bytes (TRUST-30).
func TestMemoryOfALayer(t *testing.T) {
	empty := make([]byte, 2<<20) // the same pair a million times
	var short []byte
	for i := range 1 << 18 {
		short = AppendPair(short, binary.BigEndian.AppendUint32(nil, uint32(i))[1:], nil)
	}
	for name, test := range map[string]struct {
		blob        []byte
		count, most int
	}{
		"one pair again and again": {empty, 1, 5 * len(empty)},
		"the shortest":             {short, 1 << 18, 16 * len(short)},
	} {
		l, err, took := measureLayer(test.blob)
		if err != nil || l.count != test.count || took > uint64(test.most) {
			t.Errorf("%s: %d pairs, %v, took %d bytes, more than %d", name, l.count, err, took, test.most)
		}
	}
}

// measureLayer builds a layer of a blob, and measures its memory.
func measureLayer(blob []byte) (l layer, err error, took uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err = newLayer(maphash.MakeSeed(), [][]byte{blob})
	runtime.ReadMemStats(&after)
	return l, err, after.TotalAlloc - before.TotalAlloc
}

// Blobs from other nodes must not do harm. Valid ones must be written again as they were.
func FuzzBlob(f *testing.F) {
	f.Add(appendPairs(nil, map[string][]byte{"a": []byte("1"), "b": bytes.Repeat([]byte("2"), 200)}))
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1})
	f.Fuzz(func(t *testing.T, blob []byte) {
		seed := maphash.MakeSeed()
		l, err, took := measureLayer(blob)
		if most := uint64(64<<10 + 16*len(blob)); took > most {
			t.Errorf("%d bytes took %d", len(blob), took)
		}
		if err != nil {
			return
		}
		want := make(map[string][]byte) // from a simpler parser
		for rest := blob; len(rest) > 0; {
			var key, value []byte
			key, value, rest, _ = cutPair(rest)
			want[string(key)] = value
		}
		again, err := newLayer(seed, [][]byte{appendPairs(nil, want)})
		if err != nil || again.count != len(want) || l.count != len(want) {
			t.Errorf("%d keys become %d, %d, %v", len(want), l.count, again.count, err)
		}
		for key, value := range l.pairs() {
			if !bytes.Equal(want[string(key)], value) {
				t.Errorf("%q is %q, want %q", key, value, want[string(key)])
			}
		}
	})
}
