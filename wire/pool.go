package wire

import (
	"errors"
	"os"
	"sync"

	"remshell/pipe"
)

// A buffer holds the bytes of one Data, and the frame around them.
type buffer [Window + 64]byte

// buffers are those that nobody uses now. Output flows by the gigabyte in pieces of up to
// Window bytes: with a new slice for each, half the time would go into clearing and
// collecting them.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// poolFrom is the size from which it is worth to reuse a slice, in bytes.
const poolFrom = 4 << 10

// NewData returns Data with size bytes to be filled, at most Window. Who has it may shorten
// Bytes, and gives it back by Release or passes it on by Send, and then has it no more.
func NewData(size int) *Data {
	if size < poolFrom {
		return &Data{Bytes: make([]byte, size)}
	}
	b := buffers.Get().(*buffer)
	return &Data{Bytes: b[:size], pooled: b}
}

// InTank returns a piece of a rank's input, n bytes that lie in a tank: all that it holds. It can be
// sent inside of one process only, and the tank is its sender's again with the credit for all n.
func InTank(rank int, tank *pipe.Tank, n int) *Data {
	return &Data{Rank: rank, Stream: Stdin, tank: tank, held: n}
}

// errTank is what Send returns for a tank that cannot be handed over.
var errTank = errors.New("a tank cannot go to another process")

// Len is how many bytes it has; 0 is the end of the stream.
func (m *Data) Len() int { return len(m.Bytes) + m.held }

// Pour writes the piece to a file, releases it, and tells how many bytes were written.
func (m *Data) Pour(to *os.File) (n int, err error) {
	if m.tank != nil {
		return m.tank.Pour(to, m.held)
	}
	defer m.Release()
	return to.Write(m.Bytes)
}

// Release gives back the bytes of Data, sent or received, that nobody looks at any more.
// It need not be called: what is not given back is collected.
func (m *Data) Release() {
	if m.pooled != nil {
		buffers.Put(m.pooled)
		m.pooled, m.Bytes = nil, nil
	}
}
