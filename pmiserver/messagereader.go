package pmiserver

import (
	"bytes"
	"errors"
)

// maxLine is the maximum length of a line in bytes (pmi-wire.md 6.4).
const maxLine = 64 << 10

// These are errors in the data that a client sends.
var (
	errNoCommand  = errors.New("the rank sent something that is not a PMI command")
	errLength     = errors.New("the rank sent a PMI-2 message with a malformed length")
	errLongLine   = errors.New("the rank sent a PMI command of more than 64 KiB")
	errNotReading = errors.New("the rank sends PMI requests but does not read the replies")
)

// A messageReader splits the bytes from a client into messages. A single read may return a part of a message
// or several messages (pmi-wire.md 2.1). It uses one buffer, which grows only if a client sends long
// messages.
type messageReader struct {
	buf     []byte
	start   int  // start of the current message in buf
	scanned int  // buf has no line end between start and here
	inBlock bool // within an mcmd request, where a line may be anything
	pmi2    bool // PMI-2 was agreed on: frames follow, and perhaps lines
	isFrame bool // the last result of nextMessage was a frame
}

// readBuffer returns the free part of the buffer, which is never empty. The caller reads into it and then
// calls addRead.
func (f *messageReader) readBuffer() []byte {
	switch {
	case f.start == len(f.buf):
		f.buf, f.start, f.scanned = f.buf[:0], 0, 0
	case len(f.buf) == cap(f.buf) && f.start > 0:
		f.buf = append(f.buf[:0], f.buf[f.start:]...)
		f.start, f.scanned = 0, f.scanned-f.start
	}
	if len(f.buf) == cap(f.buf) {
		larger := make([]byte, len(f.buf), max(2048, 2*cap(f.buf)))
		copy(larger, f.buf)
		f.buf = larger
	}
	return f.buf[len(f.buf):cap(f.buf)]
}

// addRead records that n bytes have been read into the slice that readBuffer has returned.
func (f *messageReader) addRead(n int) { f.buf = f.buf[:len(f.buf)+n] }

// nextMessage returns the next message, which is a line without its line end or the body of a frame. It
// returns nil if more bytes must be read first. The message is valid until the next call of readBuffer.
func (f *messageReader) nextMessage() ([]byte, error) {
	if !f.inBlock {
		f.skipPadding()
	}
	rest := f.buf[f.start:]
	f.isFrame = f.pmi2 && len(rest) > 0 && rest[0] != 'c' && rest[0] != 'm'
	switch {
	case f.isFrame:
		return f.nextFrame(rest)
	case !f.inBlock && !isMessageStart(rest):
		return nil, errNoCommand
	}
	return f.nextLine(rest)
}

// nextLine returns the next line without its line end, or nil if the line is not complete. rest is the unread input.
func (f *messageReader) nextLine(rest []byte) ([]byte, error) {
	f.scanned = max(f.scanned, f.start)
	n := bytes.IndexByte(f.buf[f.scanned:], '\n')
	if n < 0 {
		f.scanned = len(f.buf)
		if len(rest) >= maxLine {
			return nil, errLongLine
		}
		return nil, nil
	}
	end := f.scanned + n
	line := f.buf[f.start:end:end]
	if len(line) >= maxLine {
		return nil, errLongLine
	}
	f.start, f.scanned = end+1, end+1
	return line, nil
}

// nextFrame returns the body of the next frame, or nil if the frame is not complete. A frame consists of six bytes,
// which contain a length in decimal and spaces before or after it, and a body of that length (pmi-wire.md 4.1).
func (f *messageReader) nextFrame(rest []byte) ([]byte, error) {
	const prefix = 6
	digits := bytes.Trim(rest[:min(len(rest), prefix)], " ")
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return nil, errLength
		}
		n = 10*n + int(d-'0')
	}
	switch {
	case len(rest) < prefix:
		return nil, nil
	case n == 0:
		return nil, errLength
	case len(rest) < prefix+n:
		return nil, nil
	}
	f.start += prefix + n
	return rest[prefix : prefix+n : prefix+n], nil
}

// skipPadding skips line feeds and zero bytes before a message. Old clients end a message with a zero byte. If the port
// name at the end of a request ends with a line feed, a second line feed follows.
func (f *messageReader) skipPadding() {
	for f.start < len(f.buf) && (f.buf[f.start] == '\n' || f.buf[f.start] == 0) {
		f.start++
	}
}

// isMessageStart reports whether b can be the first bytes of a message.
func isMessageStart(b []byte) bool {
	const line, block = "cmd=", "mcmd="
	return string(b[:min(len(b), len(line))]) == line[:min(len(b), len(line))] ||
		string(b[:min(len(b), len(block))]) == block[:min(len(b), len(block))]
}

// firstBytes returns up to 64 bytes of the unread input, for an error message.
func (f *messageReader) firstBytes() []byte { return f.buf[f.start:min(len(f.buf), f.start+64)] }
