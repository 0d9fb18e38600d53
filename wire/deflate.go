package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Fenced goes to all nodes alike, so deflating it costs mpiexec once, some 5 ns for each
// byte, and the nodes 3 to 8 ns, all at the same time, while what is saved is saved as often as
// there are nodes: 3 ns of encrypting for each byte, and 8 ns on a link of 1 Gbit/s. Cards of
// MPI libraries shrink to 0.12 to 0.42.
const (
	deflateFrom   = 64 << 10 // bytes of all blobs; what is smaller takes no time
	deflateNodes  = 16
	deflateSample = 64 << 10 // bytes that are tried first
	deflateGain   = 4        // the saving that is worth it, as a part of the whole: 1/deflateGain
)

// maxInflation is how many bytes one of deflate can stand for: 258 for a length and a
// distance of one bit each (RFC 1951).
const maxInflation = 258 * 8 / 2

// maxBlobs is more than there are nodes in any cluster. An empty blob is one byte in a
// list, and 24 in memory.
const maxBlobs = 1 << 18

var errInflate = errors.New("packed blobs that are none")

// FrameFor encodes m, to be sent to so many nodes; deflated if that pays.
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

// deflated returns m with its blobs deflated, or m if that does not pay.
func (m *Fenced) deflated() *Fenced {
	c := codec{}
	list(&c, &m.Blobs, length{"blobs", maxBlobs}, (*codec).blob)
	probe := c.buf[:min(len(c.buf), deflateSample)]
	if !worthDeflating(len(probe), len(deflate(probe))) {
		return m
	}
	deflated := deflate(c.buf)
	if !worthDeflating(len(c.buf), len(deflated)) {
		return m
	}
	return &Fenced{ID: m.ID, Err: m.Err, Size: len(c.buf), Deflated: deflated}
}

func worthDeflating(from, to int) bool { return to < from-from/deflateGain }

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

// Inflate makes Blobs of Deflated, if there are any. It believes no size before so much has
// come of the stream: its memory at most doubles with that (TRUST-30).
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

// inflate returns the size bytes that deflated stands for.
func inflate(deflated []byte, size int) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(deflated))
	buf, err := readGrowing(r, size)
	if err != nil {
		return nil, fmt.Errorf("%d bytes: %w", size, err)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("%d bytes, and more: %w", size, err)
	}
	return buf, nil
}

// decodeBlobs reads a list of blobs and nothing else.
func decodeBlobs(b []byte) (blobs [][]byte, err error) {
	if n, _ := binary.Varint(b); n > maxBlobs {
		return nil, fmt.Errorf("%d blobs", n)
	}
	c := codec{buf: b, reading: true}
	list(&c, &blobs, length{"blobs", maxBlobs}, (*codec).blob)
	if c.err == nil && len(c.buf) > 0 {
		c.err = fmt.Errorf("%d bytes too many", len(c.buf))
	}
	if c.err != nil {
		return nil, c.err
	}
	return blobs, nil
}
