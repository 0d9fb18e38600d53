package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
)

// What is wrong with the first bytes of a connection. None of it is answered.
var (
	ErrNotPMIx = errors.New("not a PMIx client of this machine")
	Err32Bit   = errors.New("32-bit PMIx client: not served") // PMIX-22
)

// ParseFirstHeader reads the header of a handshake, the only one in the byte order of the
// machine, and returns the size of the body, 0 to MaxHandshake. A client of 32 bits has no
// padding behind its numbers, but the beginning of the body.
func ParseFirstHeader(b [HeaderSize]byte) (size int, err error) {
	if !bytes.Equal(b[:8], []byte("\xff\xff\xff\xff\xff\xff\xff\xff")) {
		return 0, ErrNotPMIx
	}
	for _, module := range []string{"native", "none", "munge"} {
		if string(b[12:]) == module[:4] {
			return 0, Err32Bit
		}
	}
	n := binary.NativeEndian.Uint32(b[8:])
	if n > MaxHandshake {
		return 0, ErrNotPMIx
	}
	return int(n), nil
}

// A Handshake is how a client introduces itself.
type Handshake struct {
	Security   string // "native", or what we do not serve
	UID, GID   uint32 // which it says are its own
	Flag       uint8  // 0 is a rank; others are tools and launchers
	Namespace  string // at most 255 bytes
	Rank       bfrops.Rank
	Version    string // of the client's library
	Encoding   string // "v3" and "v21" are served
	BufferType uint8  // 1 is served: non-described
	Storage    string // "hash" is served
}

// credentialSize is how many bytes a native credential has: two numbers.
const credentialSize = 8

// ParseHandshake reads the body of a handshake. What newer clients add behind it is ignored.
func ParseHandshake(body []byte) (h Handshake, err error) {
	r := handshakeReader{rest: body}
	h.Security = r.text()
	if credential := r.takeBytes(int(binary.BigEndian.Uint32(r.atLeast(4)))); len(credential) == credentialSize {
		h.UID = binary.NativeEndian.Uint32(credential)
		h.GID = binary.NativeEndian.Uint32(credential[4:])
	} else if h.Security == native {
		return Handshake{}, errHandshake
	}
	h.Flag = r.atLeast(1)[0]
	h.Namespace = r.text()
	h.Rank = bfrops.Rank(binary.BigEndian.Uint32(r.atLeast(4)))
	h.Version = r.text()
	h.Encoding = r.text()
	h.BufferType = r.atLeast(1)[0]
	h.Storage = r.text()
	if r.short {
		return Handshake{}, errHandshake
	}
	return h, nil
}

// errHandshake is the fault of a handshake that ends early or is long-winded.
var errHandshake = errors.New("a handshake that makes no sense")

// native is the security module by which the kernel says who the client is.
const native = "native"

// maxField is how many bytes a text of the handshake may have.
const maxField = 255

// A handshakeReader is what is left of a handshake, which unlike all other messages has texts without
// lengths. When it is too short it goes on in zeros.
type handshakeReader struct {
	rest  []byte
	short bool
}

func (f *handshakeReader) text() string {
	end := bytes.IndexByte(f.rest, 0)
	if end < 0 || end > maxField {
		f.rest, f.short = nil, true
		return ""
	}
	text := string(f.rest[:end])
	f.rest = f.rest[end+1:]
	return text
}

// takeBytes returns the next n bytes, or none if there are fewer.
func (f *handshakeReader) takeBytes(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// atLeast returns the next n bytes, at most 4 of them zeros if there are fewer.
func (f *handshakeReader) atLeast(n int) []byte {
	if b := f.takeBytes(n); b != nil {
		return b
	}
	return make([]byte, n)
}

// Refusal says why a client is refused that has the right to a namespace and rank of ours: the
// status for its answer, and words that follow "PMIx client VERSION". uid is ours. Success
// comes without words (pmix-wire.md 3.3).
func (h *Handshake) Refusal(uid uint32) (Status, string) {
	switch {
	case h.Security != native:
		return InvalidCredential, fmt.Sprintf("identifies itself by %q", h.Security)
	case h.UID != uid:
		return InvalidCredential, fmt.Sprintf("says it is of uid %d", h.UID)
	case h.Flag != 0:
		return NotSupported, fmt.Sprintf("is no rank, but of kind %d", h.Flag)
	case h.Encoding == "v20" || h.Encoding == "v12":
		return NotSupported, fmt.Sprintf("wants encoding %s: too old", h.Encoding)
	case h.Encoding != "v3" && h.Encoding != "v21":
		return NotSupported, fmt.Sprintf("wants encoding %q", h.Encoding)
	case h.BufferType != bfrops.NonDescribed:
		return NotSupported, fmt.Sprintf("wants buffers of type %d", h.BufferType)
	case h.Storage != "hash":
		return NotSupported, fmt.Sprintf("keeps its data in %q", h.Storage)
	}
	return Success, ""
}

// Major returns the first number of the client's version, 0 if there is none (PMIX-46).
func (h *Handshake) Major() int {
	major := 0
	for _, c := range strings.TrimPrefix(h.Version, "v") {
		if c < '0' || c > '9' || major > 1000 {
			break
		}
		major = 10*major + int(c-'0')
	}
	return major
}

// AppendWelcome adds the answer to a handshake, which has no header: the status, and the index
// that the client then has on this server.
func AppendWelcome(dst []byte, s Status, index uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(s))
	return binary.BigEndian.AppendUint32(dst, index)
}
