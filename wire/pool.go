package wire

import (
	"errors"
	"os"
	"sync"

	"remshell/pipe"
)

// A dataBuffer has space for the frame of one Data.
type dataBuffer [Window + 64]byte

// buffers has unused dataBuffers. Output flows by the gigabyte in pieces of up to
// Window bytes. A new slice for each piece would spend half the time on clearing and
// garbage collection.
var buffers = sync.Pool{New: func() any { return new(dataBuffer) }}

// pooledFrom is the smallest size, in bytes, for which a pooled buffer is used.
const pooledFrom = 4 << 10

// NewData returns Data with size bytes to fill, at most Window. The caller may shorten
// Bytes. It passes the Data to Send or calls Release, and must not use it afterwards.
func NewData(size int) *Data {
	if size < pooledFrom {
		return &Data{Bytes: make([]byte, size)}
	}
	b := buffers.Get().(*dataBuffer)
	return &Data{Bytes: b[:size], pooled: b}
}

// SplicedData returns a piece of a rank's input: the n bytes in buffer, which is all that buffer holds. The piece can
// only be sent within one process. The sender may use buffer again when it has credit for all n bytes.
func SplicedData(rank int, buffer *pipe.SpliceBuffer, n int) *Data {
	return &Data{Rank: rank, Stream: Stdin, splice: buffer, spliced: n}
}

// errSpliced is returned by Send for spliced data that would have to go to another process.
var errSpliced = errors.New("a splice buffer cannot go to another process")

// Len returns the number of bytes. 0 means the end of the stream.
func (m *Data) Len() int { return len(m.Bytes) + m.spliced }

// WriteToFile writes the piece to a file, releases it, and returns the number of bytes written.
func (m *Data) WriteToFile(to *os.File) (n int, err error) {
	if m.splice != nil {
		return m.splice.SpliceTo(to, m.spliced)
	}
	defer m.Release()
	return to.Write(m.Bytes)
}

// Release returns the buffer of Data, sent or received, to the pool. Bytes must not be used afterwards.
// Calling it is optional: the garbage collector frees the buffer otherwise.
func (m *Data) Release() {
	if m.pooled != nil {
		buffers.Put(m.pooled)
		m.pooled, m.Bytes = nil, nil
	}
}
