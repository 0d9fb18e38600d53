package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// cards returns the data that the given number of nodes with 64 ranks each send for a fence.
func cards(nodes int) [][]byte {
	blobs := make([][]byte, nodes)
	for n := range blobs {
		for r := range 64 {
			blobs[n] = fmt.Appendf(blobs[n], "\x12P%d-businesscarddescription#node%04d$port#%d$ifname#10.0.%d.%d$",
				n*64+r, n, 32768+(n*7919+r*104729)%28000, n>>8, n&255)
		}
	}
	return blobs
}

// noise returns bytes that cannot be deflated.
func noise(size int) []byte {
	r := rand.NewChaCha8([32]byte{})
	b := make([]byte, size)
	r.Read(b)
	return b
}

// A fence is deflated only where that saves time, and arrives unchanged.
func TestFencedArrivesUnchanged(t *testing.T) {
	tests := []struct {
		name     string
		blobs    [][]byte
		nodes    int
		deflated bool
	}{
		{"nothing", nil, 1000, false},
		{"few bytes", cards(10), 1000, false},
		{"few nodes", cards(100), deflateNodes - 1, false},
		{"many", cards(100), deflateNodes, true},
		{"some empty", append(cards(20), nil, []byte{}), 1000, true},
		{"noise", [][]byte{noise(100_000)}, 1000, false},
		{"noise at first", append([][]byte{noise(2 * deflateSample)}, cards(100)...), 1000, false},
		{"noise behind", append(cards(15), noise(1<<20)), 1000, false},
	}
	for _, test := range tests {
		sent := &Fenced{ID: "k0/1", Blobs: test.blobs}
		frame := sent.FrameFor(test.nodes)
		m, err := decodeFrame(frame, Helper)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		got := m.(*Fenced)
		if deflated := len(got.Deflated) > 0; deflated != test.deflated {
			t.Errorf("%s: deflated: %v, want %v", test.name, deflated, test.deflated)
		}
		if err := got.Inflate(); err != nil || got.ID != sent.ID || !equal(got.Blobs, sent.Blobs) {
			t.Errorf("%s: %d blobs came as %d, %v", test.name, len(sent.Blobs), len(got.Blobs), err)
		}
		if !reflect.DeepEqual(sent, &Fenced{ID: "k0/1", Blobs: test.blobs}) {
			t.Errorf("%s: what was sent has changed", test.name)
		}
	}
}

func equal(a, b [][]byte) bool {
	for i := range a {
		if i >= len(b) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// Malformed deflated data is refused without allocating the size that it announces.
func TestInflateRefusesMalformedData(t *testing.T) {
	good := (&Fenced{Blobs: cards(100)}).deflated()
	zeros := deflate(make([]byte, 1<<20))
	tests := map[string]Fenced{
		"no deflate":      {Size: 10, Deflated: []byte("hello, world")},
		"cut":             {Size: good.Size, Deflated: good.Deflated[:len(good.Deflated)/2]},
		"too few bytes":   {Size: good.Size + 1, Deflated: good.Deflated},
		"too many bytes":  {Size: good.Size - 1, Deflated: good.Deflated},
		"negative":        {Size: -1, Deflated: good.Deflated},
		"blobs besides":   {Size: good.Size, Deflated: good.Deflated, Blobs: [][]byte{{1}}},
		"a size too much": {Size: 1 << 30, Deflated: []byte("hello")},
		"a frame more":    {Size: maxUnbounded + 1, Deflated: make([]byte, 2<<20)},
		"no list":         {Size: 1 << 20, Deflated: zeros},
		"too many blobs":  {Size: 4 + 1<<20, Deflated: deflate(append(binary.AppendVarint(nil, 1<<20), make([]byte, 1<<20)...))},
		"a longer list":   {Size: 2, Deflated: deflate([]byte{100, 0})},
	}
	for name, m := range tests {
		took, err := unpacking(&m)
		if err == nil || !strings.Contains(err.Error(), errInflate.Error()) {
			t.Errorf("%s: got error %v", name, err)
		}
		if took > 8<<20 {
			t.Errorf("%s: took %d bytes", name, took)
		}
	}
}

// Announced data that does not arrive takes no memory (TRUST-30): here 1 GiB, announced by the few bytes that
// could stand for it.
func TestMemoryOfInflate(t *testing.T) {
	part := deflate(make([]byte, 1<<20))
	for name, m := range map[string]*Fenced{
		"no deflate":    {Size: maxUnbounded, Deflated: make([]byte, 2<<20)},
		"ends early":    {Size: maxUnbounded, Deflated: append(part, make([]byte, 2<<20)...)},
		"cut in a half": {Size: maxUnbounded, Deflated: append(part[:len(part)-10:len(part)-10], bytes.Repeat([]byte{0xff}, 2<<20)...)},
	} {
		took, err := unpacking(m)
		if err == nil || took > 5<<20 {
			t.Errorf("%s: took %d bytes, and is %v", name, took, err)
		}
	}
}

// unpacking inflates and returns the memory that this took.
func unpacking(m *Fenced) (took uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = m.Inflate()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

func FuzzInflate(f *testing.F) {
	good := (&Fenced{Blobs: cards(20)}).deflated()
	f.Add(good.Size, good.Deflated)
	f.Add(3, deflate([]byte{2, 2, 65}))
	f.Add(1<<20, deflate(make([]byte, 1<<20)))
	f.Add(5, []byte("hello"))
	f.Add(64<<20, append(deflate([]byte{2, 2, 65}), make([]byte, 64<<10)...))
	f.Fuzz(func(t *testing.T, size int, deflated []byte) {
		m := Fenced{Size: size, Deflated: deflated}
		inflated, _ := io.Copy(io.Discard, flate.NewReader(bytes.NewReader(deflated)))
		took, err := unpacking(&m)
		if most := uint64(1<<20 + 4*len(deflated) + 4*int(inflated) + 72*min(int(inflated), 1<<18)); took > most {
			t.Errorf("%d bytes, that are %d, took %d", len(deflated), inflated, took)
		}
		if err != nil || len(deflated) == 0 {
			return
		}
		sum := 0
		for _, b := range m.Blobs {
			sum += len(b)
		}
		if sum > size || size > maxInflation*len(deflated) {
			t.Errorf("%d bytes in blobs of %d bytes that were %d", sum, size, len(deflated))
		}
	})
}

func BenchmarkDeflate(b *testing.B) {
	m := &Fenced{Blobs: cards(1000)}
	for b.Loop() {
		m.deflated()
	}
	b.SetBytes(int64(m.deflated().Size))
}

func BenchmarkInflate(b *testing.B) {
	m := (&Fenced{Blobs: cards(1000)}).deflated()
	b.SetBytes(int64(m.Size))
	b.ReportMetric(float64(len(m.Deflated))/float64(m.Size), "deflated/size")
	for b.Loop() {
		one := *m
		if err := one.Inflate(); err != nil {
			b.Fatal(err)
		}
	}
}
