package wire

import (
	"errors"
	"os"
	"sync"

	"remshell/pipe"
)

// A dataBuffer holds the bytes of one Data, and the frame around them.
type dataBuffer [Window + 64]byte

// buffers are those that nobody uses now. Output flows by the gigabyte in pieces of up to
// Window bytes: with a new slice for each, half the time would go into clearing and
// collecting them.
var buffers = sync.Pool{New: func() any { return new(dataBuffer) }}

// pooledFrom is the size from which it is worth to reuse a slice, in bytes.
const pooledFrom = 4 << 10

// NewData returns Data with size bytes to be filled, at most Window. Who has it may shorten
// Bytes, and gives it back by Release or passes it on by Send, and then has it no more.
func NewData(size int) *Data {
	if size < pooledFrom {
		return &Data{Bytes: make([]byte, size)}
	}
	b := buffers.Get().(*dataBuffer)
	return &Data{Bytes: b[:size], pooled: b}
}

// SplicedData returns a piece of a rank's input, n bytes that lie in a tank: all that it holds. It can be
// sent inside of one process only, and the tank is its sender's again with the credit for all n.
func SplicedData(rank int, tank *pipe.SpliceBuffer, n int) *Data {
	return &Data{Rank: rank, Stream: Stdin, splice: tank, spliced: n}
}

// errSpliced is what Send returns for a tank that cannot be handed over.
var errSpliced = errors.New("a tank cannot go to another process")

// Len is how many bytes it has; 0 is the end of the stream.
func (m *Data) Len() int { return len(m.Bytes) + m.spliced }

// WriteToFile writes the piece to a file, releases it, and tells how many bytes were written.
func (m *Data) WriteToFile(to *os.File) (n int, err error) {
	if m.splice != nil {
		return m.splice.SpliceTo(to, m.spliced)
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
