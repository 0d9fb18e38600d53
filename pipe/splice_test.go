//go:build linux

package pipe

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
)

func opened(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func newTestBuffer(t *testing.T, size int) *SpliceBuffer {
	t.Helper()
	buffer, err := NewSpliceBuffer(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buffer.Close)
	return buffer
}

// Data written into one pipe, in pieces smaller than a page and in large ones, arrives in all
// others, whatever their sizes and however slow their readers are.
func TestSpliceAndTee(t *testing.T) {
	random := rand.NewChaCha8([32]byte{17})
	from, in := opened(t)
	sizes := []int{DefaultSize, 4 * DefaultSize, 2 * DefaultSize}
	buffers := make([]*SpliceBuffer, len(sizes)) // the first is the smallest
	outs := make([]*os.File, len(sizes))
	sums := make(chan [32]byte)
	for i, size := range sizes {
		var r *os.File
		r, outs[i] = opened(t)
		buffers[i] = newTestBuffer(t, size)
		go func() {
			hash := sha256.New()
			io.CopyBuffer(hash, struct{ io.Reader }{r}, make([]byte, 1000*(i+1)))
			sums <- [32]byte(hash.Sum(nil))
		}()
	}
	want := sha256.New()
	go func() {
		defer in.Close()
		for range 2000 {
			piece := make([]byte, 1+random.Uint64()%3*random.Uint64()%9000)
			random.Read(piece)
			want.Write(piece)
			in.Write(piece)
		}
	}()
	for {
		n, err := buffers[0].SpliceFrom(from)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for _, other := range buffers[1:] {
			if err := buffers[0].TeeTo(other, n); err != nil {
				t.Fatal(err)
			}
		}
		for i, buffer := range buffers {
			if poured, err := buffer.SpliceTo(outs[i], n); poured != n || err != nil {
				t.Fatalf("%d of %d bytes poured, %v", poured, n, err)
			}
		}
	}
	for _, w := range outs {
		w.Close()
	}
	for range sizes {
		if got := <-sums; got != [32]byte(want.Sum(nil)) {
			t.Error("one of the outputs is not the input")
		}
	}
}

// SpliceFrom also waits for data in a nonblocking pipe, such as some programs leave behind.
func TestSpliceFromWaits(t *testing.T) {
	from, in := opened(t) // pipes of Go are nonblocking
	filled := make(chan int)
	buffer := newTestBuffer(t, DefaultSize)
	go func() {
		n, _ := buffer.SpliceFrom(from)
		filled <- n
	}()
	in.WriteString("text")
	if n := <-filled; n != 4 {
		t.Errorf("%d bytes, want 4", n)
	}
}

func TestSpliceToClosedPipe(t *testing.T) {
	from, in := opened(t)
	r, w := opened(t)
	buffer := newTestBuffer(t, DefaultSize)
	in.WriteString("text")
	n, err := buffer.SpliceFrom(from)
	if n != 4 || err != nil {
		t.Fatal(n, err)
	}
	r.Close()
	if poured, err := buffer.SpliceTo(w, n); poured != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%d bytes, %v", poured, err)
	}
}

// SpliceTo waits for a reader that does not read until the deadline of the file.
func TestSpliceToHasDeadlineOfFile(t *testing.T) {
	from, in := opened(t)
	_, w := opened(t)
	room := GrowPipe(w, 0)
	w.Write(make([]byte, room))
	buffer := newTestBuffer(t, DefaultSize)
	in.WriteString("text")
	n, _ := buffer.SpliceFrom(from)
	w.SetWriteDeadline(time.Unix(1, 0))
	if poured, err := buffer.SpliceTo(w, n); poured != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", poured, err)
	}
}

// A file that does not accept pages gets a copy.
func TestSpliceToRegularFile(t *testing.T) {
	from, in := opened(t)
	file, err := os.OpenFile(t.TempDir()+"/file", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) // splice refuses to append
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	buffer := newTestBuffer(t, 4*DefaultSize)
	want := bytes.Repeat([]byte("text"), DefaultSize/5)
	in.Write(want)
	n, _ := buffer.SpliceFrom(from)
	if poured, err := buffer.SpliceTo(file, n); poured != n || err != nil {
		t.Fatalf("%d bytes, %v", poured, err)
	}
	if got, err := os.ReadFile(file.Name()); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TeeTo to a buffer that is too small is an error.
func TestTeeToSmallerBuffer(t *testing.T) {
	from, in := opened(t)
	large, small := newTestBuffer(t, 4*DefaultSize), newTestBuffer(t, DefaultSize)
	if GrowPipe(from, 4*DefaultSize) < 4*DefaultSize || large.Size() <= small.Size() {
		t.Skip("this user has as many pages in pipes as he may")
	}
	in.Write(make([]byte, 3*DefaultSize))
	n, err := large.SpliceFrom(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := large.TeeTo(small, n); err == nil {
		t.Errorf("%d bytes went into %d", n, small.Size())
	}
}

func TestIsPipe(t *testing.T) {
	r, _ := opened(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if !IsPipe(r) || IsPipe(null) {
		t.Errorf("a pipe: %v, %s: %v", IsPipe(r), os.DevNull, IsPipe(null))
	}
}

// All pipes share the bytes of a pool. A pool without enough bytes, or a file that is no pipe, takes nothing from it.
func TestSizePool(t *testing.T) {
	pool := NewSizePool(5 * DefaultSize)
	first, _ := opened(t)
	if pool.GrowPipe(first, 4*DefaultSize) == 0 {
		t.Skip("this user has as many pages in pipes as he may")
	}
	second, _ := opened(t)
	held := GrowPipe(second, 0)
	if taken := pool.GrowPipe(second, 2*DefaultSize); taken != 0 || GrowPipe(second, 0) != held {
		t.Errorf("%d bytes taken of an empty pool, the pipe holds %d", taken, GrowPipe(second, 0))
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if taken := pool.GrowPipe(file, DefaultSize); taken != 0 {
		t.Errorf("%d bytes taken for no pipe", taken)
	}
	pool.GiveBack(4 * DefaultSize)
	if left := pool.left.Load(); left != 5*DefaultSize {
		t.Errorf("the pool has %d bytes in the end", left)
	}
}
