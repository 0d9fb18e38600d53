package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
)

// These are the errors about the first bytes of a connection. The server closes such a connection without a
// reply.
var (
	ErrNotPMIx = errors.New("the connection does not come from a PMIx client on this host")
	Err32Bit   = errors.New("refused a 32-bit PMIx client: only 64-bit programs are supported") // PMIX-22
)

// ParseFirstHeader reads the header of a handshake, and returns the size of the body, 0 to MaxHandshake.
// It is the only header in the byte order of the machine. A 32-bit client is recognized because its
// header has no padding: the body begins at byte 12.
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

// A Handshake is the first message of a client, by which it authenticates.
type Handshake struct {
	Security   string // "native"; others are not supported
	UID, GID   uint32 // as the client claims; not verified
	Flag       uint8  // 0: a rank; others: tools and launchers
	Namespace  string // at most 255 bytes
	Rank       bfrops.Rank
	Version    string // of the client's library
	Encoding   string // "v3" and "v21" are supported
	BufferType uint8  // 1, non-described, is supported
	Storage    string // "hash" is supported
}

// credentialSize is the size in bytes of a native credential: uid and gid.
const credentialSize = 8

// ParseHandshake reads the body of a handshake. Further fields of newer clients are ignored.
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

// errHandshake is returned when a handshake ends early or has a string over maxField bytes.
var errHandshake = errors.New("malformed handshake")

// native is the PMIx security module that authenticates a client by its uid and gid, which the kernel confirms.
const native = "native"

// maxField is the largest size of a string of the handshake, in bytes.
const maxField = 255

// A handshakeReader reads the fields of a handshake. Its strings end with a zero byte; strings of all other messages
// have a length. After the end of the data it returns zeros.
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

// takeBytes returns the next n bytes, or nil if fewer are left.
func (f *handshakeReader) takeBytes(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// atLeast returns the next n bytes, or n zero bytes if fewer are left.
func (f *handshakeReader) atLeast(n int) []byte {
	if b := f.takeBytes(n); b != nil {
		return b
	}
	return make([]byte, n)
}

// Refusal checks a client that has a valid namespace and rank (pmix-wire.md 3.3). It returns Success, or
// the status to reply and a text that follows "PMIx client VERSION". uid is the user ID of the ranks.
func (h *Handshake) Refusal(uid uint32) (Status, string) {
	switch {
	case h.Security != native:
		return InvalidCredential, fmt.Sprintf("it uses the security method %q instead of native", h.Security)
	case h.UID != uid:
		return InvalidCredential, fmt.Sprintf("it says that its uid is %d, but the ranks have another uid", h.UID)
	case h.Flag != 0:
		return NotSupported, fmt.Sprintf("it is not a rank but another kind of client (%d)", h.Flag)
	case h.Encoding == "v20" || h.Encoding == "v12":
		return NotSupported, fmt.Sprintf("its message encoding %s is too old", h.Encoding)
	case h.Encoding != "v3" && h.Encoding != "v21":
		return NotSupported, fmt.Sprintf("its message encoding %q is not supported", h.Encoding)
	case h.BufferType != bfrops.NonDescribed:
		return NotSupported, fmt.Sprintf("its message buffers have type %d, which is not supported", h.BufferType)
	case h.Storage != "hash":
		return NotSupported, fmt.Sprintf("it uses the data storage %q, but only hash is supported", h.Storage)
	}
	return Success, ""
}

// Major returns the major version of the client's library, or 0 if it names none (rule PMIX-46).
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

// AppendWelcome appends the reply to a handshake, which has no header: the status, and the index of the
// client on this server.
func AppendWelcome(dst []byte, s Status, index uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(s))
	return binary.BigEndian.AppendUint32(dst, index)
}
