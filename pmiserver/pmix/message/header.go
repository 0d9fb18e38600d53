package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// These are the size of a header and the maximum sizes of a handshake and of the bodies of messages, in bytes
// (pmix-wire.md 4 and 11).
const (
	HeaderSize   = 16
	MaxHandshake = 131_072
	MaxMessage   = 64 << 20
	MaxReply     = 16<<20 - 64 // body that a client of PMIx 3.x can still read (PMIX-23)
)

// A Header is the first part of each message after the handshake.
type Header struct {
	Index int32  // index of the client, from the reply to its handshake
	Tag   uint32 // same in a request and its reply
	Size  int    // bytes of the body, 0 to MaxMessage
}

// ParseHeader reads the header of a client's message. It returns an error if the size is above
// MaxMessage.
func ParseHeader(b [HeaderSize]byte) (Header, error) {
	size := binary.BigEndian.Uint32(b[8:])
	if size > MaxMessage {
		return Header{}, fmt.Errorf("a message of %d bytes is too large", size)
	}
	return Header{int32(binary.BigEndian.Uint32(b[:])), binary.BigEndian.Uint32(b[4:]), int(size)}, nil
}

// AppendHeader appends the header of a reply whose body has size bytes. size must not exceed math.MaxUint32.
func AppendHeader(dst []byte, tag uint32, size int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 0) // index; clients ignore it
	dst = binary.BigEndian.AppendUint32(dst, tag)
	dst = binary.BigEndian.AppendUint32(dst, uint32(min(size, math.MaxUint32)))
	return append(dst, 0, 0, 0, 0)
}

// NewReply begins the reply to the request with the given tag. It returns a header without the size. The
// caller appends the body and then calls FinishReply.
func NewReply(tag uint32) []byte { return AppendHeader(nil, tag, 0) }

// FinishReply writes the size of the body into the header of a reply. If the body is larger than MaxReply, FinishReply
// replaces it by the status NoMemory, and fits is false (rule PMIX-23).
func FinishReply(reply []byte) (finished []byte, fits bool) {
	size := len(reply) - HeaderSize
	if fits = size <= MaxReply; !fits {
		reply = AppendStatus(reply[:HeaderSize:HeaderSize], NoMemory)
		size = len(reply) - HeaderSize
	}
	binary.BigEndian.PutUint32(reply[8:], uint32(size))
	return reply, fits
}
