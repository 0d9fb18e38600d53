package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// These constants decide whether the blobs of a Fenced are deflated (compressed). Deflating costs mpiexec some 5 ns per
// byte, once. Inflating costs 3 to 8 ns per byte on each node, in parallel. Each byte that is not sent saves 3 ns for
// encryption on each node, and 8 ns on a link of 1 Gbit/s. Business cards of MPI libraries shrink to between 0.12 and
// 0.42 of their size.
const (
	deflateFrom   = 64 << 10 // fewest bytes of all blobs that are deflated
	deflateNodes  = 16
	deflateSample = 64 << 10 // bytes that are deflated on trial
	deflateGain   = 4        // least saving: 1/deflateGain of the size
)

// maxInflation is the highest possible ratio of inflated to deflated size. In the best case, one bit each for
// a length and a distance stand for 258 bytes (RFC 1951).
const maxInflation = 258 * 8 / 2

// maxBlobs is the maximum number of blobs in a fence. Each node sends one blob, and no cluster has that many nodes.
// Without the limit, a list of empty blobs would take 24 times as much memory as its encoded form.
const maxBlobs = 1 << 18

var errInflate = errors.New("the compressed data in the message are malformed")

// FrameFor encodes m for sending it to the given number of nodes. It compresses the blobs if that saves time
// in total.
func (m *Fenced) FrameFor(nodes int) Frame {
	if nodes < deflateNodes {
		return Encode(m)
	}
	size := 0
	for _, b := range m.Blobs {
		size += len(b)
	}
	if size < deflateFrom {
		return Encode(m)
	}
	return Encode(m.deflated())
}

// deflated returns a copy of m with compressed blobs. If compression saves too little, it returns m itself.
func (m *Fenced) deflated() *Fenced {
	c := Codec{}
	List(&c, &m.Blobs, Length{"blobs", maxBlobs}, (*Codec).Blob)
	deflated, saves := Deflate(c.buf, deflateSample)
	if !saves {
		return m
	}
	return &Fenced{ID: m.ID, Err: m.Err, Size: len(c.buf), Deflated: deflated}
}

// Deflate compresses b. Before that, it compresses the first sample bytes of b as a test. smaller is false if these
// bytes, or all of b, do not become much smaller.
func Deflate(b []byte, sample int) (deflated []byte, smaller bool) {
	tried := b[:min(len(b), sample)]
	if !worthDeflating(len(tried), len(deflate(tried))) {
		return nil, false
	}
	deflated = deflate(b)
	return deflated, worthDeflating(len(b), len(deflated))
}

func worthDeflating(oldSize, newSize int) bool { return newSize < oldSize-oldSize/deflateGain }

func deflate(b []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	w.Write(b) // into memory
	w.Close()
	return out.Bytes()
}

// Inflate sets Blobs to the decompressed contents of Deflated, if Deflated is set. It never allocates more than
// twice the bytes that were decompressed, even if Size is larger (rule TRUST-30).
func (m *Fenced) Inflate() error {
	if len(m.Deflated) == 0 {
		return nil
	}
	if m.Size < 0 || m.Size > min(maxUnbounded, maxInflation*len(m.Deflated)) || len(m.Blobs) > 0 {
		return fmt.Errorf("%w: %d bytes of %d", errInflate, m.Size, len(m.Deflated))
	}
	buf, err := inflate(m.Deflated, m.Size)
	if err != nil {
		return fmt.Errorf("%w: %w", errInflate, err)
	}
	if m.Blobs, err = decodeBlobs(buf); err != nil {
		return fmt.Errorf("%w: %w", errInflate, err)
	}
	m.Deflated, m.Size = nil, 0
	return nil
}

// inflate decompresses data that must yield exactly size bytes. It returns an error for any other number of bytes.
func inflate(deflated []byte, size int) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(deflated))
	buf, err := readGrowing(r, size)
	if err != nil {
		return nil, fmt.Errorf("data of %d bytes: %w", size, err)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("the data are larger than the %d bytes that the message states: %w", size, err)
	}
	return buf, nil
}

// decodeBlobs decodes a list of blobs. It returns an error if there are bytes after the list.
func decodeBlobs(b []byte) (blobs [][]byte, err error) {
	if n, _ := binary.Varint(b); n > maxBlobs {
		return nil, fmt.Errorf("%d blobs", n)
	}
	c := Codec{buf: b, Reading: true}
	List(&c, &blobs, Length{"blobs", maxBlobs}, (*Codec).Blob)
	if c.err == nil && len(c.buf) > 0 {
		c.err = fmt.Errorf("the data have %d bytes too many", len(c.buf))
	}
	if c.err != nil {
		return nil, c.err
	}
	return blobs, nil
}
