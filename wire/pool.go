package wire

import (
	"errors"
	"os"
	"sync"

	"remshell/pipe"
)

// A dataBuffer holds the frame of one Data message.
type dataBuffer [Window + 64]byte

// buffers is a pool of dataBuffers. Output may be gigabytes in pieces of up to Window bytes. If a new slice were
// allocated for each piece, half of the time would be spent on clearing memory and on garbage collection.
var buffers = sync.Pool{New: func() any { return new(dataBuffer) }}

// pooledFrom is the minimum number of bytes for which Data uses a buffer of the pool.
const pooledFrom = 4 << 10

// NewData returns a Data message with size bytes for the caller to fill. size is at most Window. The caller may
// shorten Bytes. The caller must pass the message to Send or call Release, and must not use the message
// afterwards.
func NewData(size int) *Data {
	if size < pooledFrom {
		return &Data{Bytes: make([]byte, size)}
	}
	b := buffers.Get().(*dataBuffer)
	return &Data{Bytes: b[:size], pooled: b}
}

// SplicedData returns a Data message with a piece of a rank's input, which consists of the n bytes in buffer. The
// message can only be sent inside one process. The sender may use buffer again after it has received credit for all n
// bytes.
func SplicedData(rank int, buffer *pipe.SpliceBuffer, n int) *Data {
	return &Data{Rank: rank, Stream: Stdin, splice: buffer, spliced: n}
}

// errSpliced is returned by Send for Data from SplicedData if the receiver is in another process.
var errSpliced = errors.New("cannot send the data in a kernel pipe buffer to another process")

// Len returns the number of bytes in the message. 0 means end of file.
func (m *Data) Len() int { return len(m.Bytes) + m.spliced }

// WriteToFile writes the bytes to a file, releases the message, and returns the number of bytes written.
func (m *Data) WriteToFile(file *os.File) (n int, err error) {
	if m.splice != nil {
		return m.splice.SpliceTo(file, m.spliced)
	}
	defer m.Release()
	return file.Write(m.Bytes)
}

// Release returns the buffer of a Data, sent or received, to the pool. Bytes must not be used afterwards. Calling
// Release is optional: without it, the garbage collector frees the buffer.
func (m *Data) Release() {
	if m.pooled != nil {
		buffers.Put(m.pooled)
		m.pooled, m.Bytes = nil, nil
	}
}
