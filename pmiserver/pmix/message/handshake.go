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
	Err32Bit   = errors.New("the PMIx client is a 32-bit program, but only 64-bit programs are supported") // PMIX-22
)

// ParseFirstHeader reads the header of a handshake, and returns the size of the body, from 0 to MaxHandshake.
// Unlike all other headers, this header is in the byte order of the machine. A 32-bit client is recognized by
// the missing padding of its header: the body begins at byte 12.
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

// A Handshake is the first message of a client, which authenticates the client.
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
	if credential := r.takeBytes(int(binary.BigEndian.Uint32(r.takeOrZeros(4)))); len(credential) == credentialSize {
		h.UID = binary.NativeEndian.Uint32(credential)
		h.GID = binary.NativeEndian.Uint32(credential[4:])
	} else if h.Security == nativeSecurity {
		return Handshake{}, errHandshake
	}
	h.Flag = r.takeOrZeros(1)[0]
	h.Namespace = r.text()
	h.Rank = bfrops.Rank(binary.BigEndian.Uint32(r.takeOrZeros(4)))
	h.Version = r.text()
	h.Encoding = r.text()
	h.BufferType = r.takeOrZeros(1)[0]
	h.Storage = r.text()
	if r.short {
		return Handshake{}, errHandshake
	}
	return h, nil
}

// errHandshake is returned when a handshake is incomplete or contains a string of more than maxField bytes.
var errHandshake = errors.New("malformed handshake")

// nativeSecurity is the name of the PMIx security module that authenticates a client by its uid and gid, which the
// kernel confirms.
const nativeSecurity = "native"

// maxField is the maximum size in bytes of a string in a handshake.
const maxField = 255

// A handshakeReader reads the fields of a handshake. Strings in a handshake end with a zero byte, unlike strings in
// other messages, which begin with their length. If the handshake is too short, the missing fields are zero or empty.
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

// takeBytes returns the next n bytes. It returns nil if fewer bytes are left.
func (f *handshakeReader) takeBytes(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// takeOrZeros returns the next n bytes. If fewer bytes are left, it returns n zero bytes.
func (f *handshakeReader) takeOrZeros(n int) []byte {
	if b := f.takeBytes(n); b != nil {
		return b
	}
	return make([]byte, n)
}

// Refusal decides whether the server accepts a client whose namespace and rank are valid (pmix-wire.md 3.3). It returns
// Success if the server accepts the client. Otherwise it returns the status to reply with and the reason. The reason
// continues a message that begins with "PMIx client VERSION". uid is the user ID of the ranks.
func (h *Handshake) Refusal(uid uint32) (Status, string) {
	switch {
	case h.Security != nativeSecurity:
		return InvalidCredential, fmt.Sprintf("it uses the security method %q, but only native is supported", h.Security)
	case h.UID != uid:
		return InvalidCredential, fmt.Sprintf("it says that its uid is %d, but the ranks have another uid", h.UID)
	case h.Flag != 0:
		return NotSupported, fmt.Sprintf("it is a client of kind %d, and not a rank", h.Flag)
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

// Major returns the major version of the client's library, or 0 if the handshake does not contain it (rule
// PMIX-46).
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

// AppendWelcome appends the reply to a handshake. The reply has no header; it consists of the status and the
// index of the client on this server.
func AppendWelcome(dst []byte, s Status, index uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(s))
	return binary.BigEndian.AppendUint32(dst, index)
}
