package wire

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// A connection with output gets a large read buffer, without losing bytes at any
// boundary. A connection with other messages, of any size, keeps a small one.
func TestOnlyOutputTakesALargeBuffer(t *testing.T) {
	for _, test := range []struct {
		piece  int
		output bool
		size   int
	}{{100, true, maxInputBuffer}, {1000, true, maxInputBuffer}, {30_000, true, maxInputBuffer}, {30_000, false, minInputBuffer}} {
		a, b := net.Pipe()
		from, to := NewConn(a, Helper), NewConn(b, Launcher)
		const pieces = 300
		piece := bytes.Repeat([]byte{'x'}, test.piece)
		for i := range pieces {
			if test.output {
				from.Send(&Data{Rank: i, Stream: Stdout, Bytes: piece})
			} else {
				from.Send(&Fence{ID: "x", Blob: piece})
			}
		}
		go from.Close()
		for i := 0; ; i++ {
			m, err := to.Recv()
			if err == io.EOF && i == pieces {
				break
			}
			if data, ok := m.(*Data); err != nil || ok && (data.Rank != i || !bytes.Equal(data.Bytes, piece)) {
				t.Fatalf("piece %d of %d bytes: %v, %v", i, test.piece, m, err)
			}
		}
		if got := to.in.Size(); got != test.size {
			t.Errorf("pieces of %d bytes: a buffer of %d, want %d", test.piece, got, test.size)
		}
		to.Close()
	}
}
