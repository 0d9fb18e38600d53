package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// hostileFrames returns frames of every kind that a helper may send, each of the largest size up to
// most, with as many tiny elements as possible in one of its lists. These cost a
// receiver the most memory.
func hostileFrames(most int) (frames [][]byte) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, m := range messages(r) {
		kind := kindOf(m)
		if kind.Sender != Helper || kind.MaxBody == maxUnbounded {
			continue
		}
		leaves(reflect.ValueOf(m).Elem(), func(_ string, v reflect.Value) {
			if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
				frames = append(frames, crowd(m, v, min(most, kind.MaxBody)))
			}
		})
	}
	return frames
}

// crowd returns a frame of m whose list v has as many elements as fit.
func crowd(m Message, v reflect.Value, most int) []byte {
	old := reflect.ValueOf(v.Interface())
	defer func() { v.Set(old) }()
	size := func(all reflect.Value, n int) []byte {
		v.Set(all.Slice(0, n))
		return Encode(m)
	}
	few := crew(v.Type(), 2000)
	n := most / (len(size(few, 2000)) - len(size(few, 1999)))
	for all := crew(v.Type(), n); ; n -= n/8 + 1 {
		if frame := size(all, n); len(frame) <= most {
			return frame
		}
	}
}

// crew fills a list with the given number of tiny elements.
func crew(of reflect.Type, n int) reflect.Value {
	all := reflect.MakeSlice(of, n, n)
	for i := range n {
		smallest(all.Index(i), i)
	}
	return all
}

// smallest returns a valid element that takes few bytes.
func smallest(v reflect.Value, i int) {
	switch {
	case v.Kind() == reflect.Int:
		v.SetInt(int64(i % maxCPUs))
	case v.Kind() == reflect.Struct && v.FieldByName("Argv").IsValid():
		v.FieldByName("Argv").Set(reflect.MakeSlice(v.FieldByName("Argv").Type(), 1, 1))
		v.FieldByName("Count").SetInt(1)
	}
}

// No frame of a helper costs mpiexec more than 4 MiB in addition to the frame's size
// (TRUST-29 to 31).
func TestMemoryOfHostileFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 1.1 GB; make test runs it")
	}
	worst := uint64(0)
	for _, frame := range hostileFrames(maxUnbounded) {
		most := uint64(4<<20 + 8*len(frame))
		m, err, took := receive(frame, Launcher)
		if took > most {
			t.Errorf("%T of %d bytes took %d, more than %d (%v)", m, len(frame), took, most, err)
		}
		worst = max(worst, took)
	}
	t.Logf("the dearest took %d bytes", worst)
}

// An announced body that does not arrive takes no memory.
func TestMemoryOfAnnouncedFrames(t *testing.T) {
	for number, k := range table {
		if k.New == nil {
			continue
		}
		for _, came := range []int{0, 100, 1 << 20} {
			frame := binary.AppendUvarint([]byte{byte(number)}, uint64(k.MaxBody))
			frame = append(frame, make([]byte, min(came, max(k.MaxBody-1, 0)))...)
			_, err, took := receive(frame, anySide)
			if most := uint64(256<<10 + 4*came); took > most {
				t.Errorf("%d bytes of %s of %d took %d: %v", came, k.Name, k.MaxBody, took, err)
			}
		}
	}
}

// endless reads as zeros, and counts them.
type endless int

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	*e += endless(len(p))
	return len(p), nil
}

// The body of a frame that is too large is not read.
func TestOversizedBodyIsNotRead(t *testing.T) {
	frame := binary.AppendUvarint([]byte{33}, 32<<20)
	var rest endless
	c := NewConn(&memory{r: io.MultiReader(bytes.NewReader(frame), &rest)}, Launcher)
	defer c.Abandon()
	if _, err := c.Recv(); err != Violation("a LedgerListed of 33554432 bytes") || rest > 0 {
		t.Errorf("%v, after %d bytes of the body", err, rest)
	}
}

// A large complete frame takes at most three times its size.
func TestMemoryOfALargeFence(t *testing.T) {
	frame := Encode(&Fence{ID: "k0/0", Blob: make([]byte, 64<<20)})
	runtime.GC()
	m, err, took := receive(frame, Launcher)
	if err != nil || len(m.(*Fence).Blob) != 64<<20 || took > 3*64<<20 {
		t.Errorf("%v, took %d", err, took)
	}
}
