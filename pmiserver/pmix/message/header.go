package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sizes of messages, in bytes (pmix-wire.md 4 and 11).
const (
	HeaderSize   = 16
	MaxHandshake = 131_072
	MaxMessage   = 64 << 20
	MaxReply     = 16<<20 - 64 // what a client of 3.x can still read, body alone (PMIX-23)
)

// A Header is what stands in front of each message after the handshake.
type Header struct {
	Index int32  // which the handshake gave the client
	Tag   uint32 // of a request, and of its answer
	Size  int    // bytes of the body, 0 to MaxMessage
}

// ParseHeader reads the header of a client's message. A client that announces more than
// MaxMessage is not to be understood.
func ParseHeader(b [HeaderSize]byte) (Header, error) {
	size := binary.BigEndian.Uint32(b[8:])
	if size > MaxMessage {
		return Header{}, fmt.Errorf("header says %d bytes", size)
	}
	return Header{int32(binary.BigEndian.Uint32(b[:])), binary.BigEndian.Uint32(b[4:]), int(size)}, nil
}

// AppendHeader adds the header of an answer with so many bytes, at most math.MaxUint32.
func AppendHeader(dst []byte, tag uint32, size int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 0) // no client reads an index
	dst = binary.BigEndian.AppendUint32(dst, tag)
	dst = binary.BigEndian.AppendUint32(dst, uint32(min(size, math.MaxUint32)))
	return append(dst, 0, 0, 0, 0)
}

// NewReply begins the answer to the request of a tag: a header, to which the body is appended
// before Finish says how long it is.
func NewReply(tag uint32) []byte { return AppendHeader(nil, tag, 0) }

// FinishReply completes an answer. One that no client could read becomes the status TooMuch, and is
// reported (PMIX-23).
func FinishReply(reply []byte) (whole []byte, fits bool) {
	size := len(reply) - HeaderSize
	if fits = size <= MaxReply; !fits {
		reply = AppendStatus(reply[:HeaderSize:HeaderSize], NoMemory)
		size = len(reply) - HeaderSize
	}
	binary.BigEndian.PutUint32(reply[8:], uint32(size))
	return reply, fits
}
