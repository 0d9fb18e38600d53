package wire_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"remshell/wire"
	"remshell/wire/wiretest"
)

// hostileFrames returns frames of every kind that a helper may send, each of the largest size up to
// most, with as many tiny elements as possible in one of its lists. These cost a
// receiver the most memory.
func hostileFrames(most int) (frames [][]byte) {
	for _, m := range messages(rand.New(rand.NewPCG(7, 8))) {
		frames = append(frames, wiretest.HostileFrames(m, most)...)
	}
	return frames
}

// No frame of a helper costs mpiexec more than 4 MiB in addition to the frame's size
// (TRUST-29 to 31).
func TestMemoryOfHostileFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 1.1 GB; make test runs it")
	}
	for _, m := range messages(rand.New(rand.NewPCG(7, 8))) {
		wiretest.CheckMemory(t, m)
	}
}

// An announced body that does not arrive takes no memory.
func TestMemoryOfAnnouncedFrames(t *testing.T) {
	for _, k := range wire.Kinds() {
		for _, came := range []int{0, 100, 1 << 20} {
			frame := binary.AppendUvarint([]byte{wire.NumberOf(k.New())}, uint64(k.MaxBody))
			frame = append(frame, make([]byte, min(came, max(k.MaxBody-1, 0)))...)
			_, err, took := wiretest.Receive(frame, wiretest.AnySide)
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
	c := wire.NewConn(wiretest.ReadOnly{Reader: io.MultiReader(bytes.NewReader(frame), &rest)}, wire.Launcher)
	defer c.Abandon()
	if _, err := c.Recv(); err != wire.Violation("the host sent a LedgerListed message of 33554432 bytes, which is too large") || rest > 0 {
		t.Errorf("%v, after %d bytes of the body", err, rest)
	}
}

// A large complete frame takes at most three times its size.
func TestMemoryOfALargeFence(t *testing.T) {
	frame := wire.Encode(&wire.Fence{ID: "k0/0", Blob: make([]byte, 64<<20)})
	runtime.GC()
	m, err, took := wiretest.Receive(frame, wire.Launcher)
	if err != nil || len(m.(*wire.Fence).Blob) != 64<<20 || took > 3*64<<20 {
		t.Errorf("%v, took %d", err, took)
	}
}
