package pmi2

import (
	"bytes"

	"remshell/pmiserver/pmiversion"
)

// Parse splits the body of a PMI-2 request into fields (pmi-wire.md 4.2). It changes body, because it replaces doubled
// semicolons with single ones. It ignores words without "=", and everything from a zero byte on.
func Parse(fields *pmiversion.Fields, body []byte) {
	*fields = (*fields)[:0]
	for len(body) > 0 && body[0] != 0 {
		n := bytes.IndexAny(body, "=;")
		if n < 0 {
			return
		}
		if body[n] == ';' {
			body = body[n+1:]
			continue
		}
		key := body[:n]
		var value []byte
		value, body = unescape(body[n+1:])
		*fields = append(*fields, pmiversion.Field{Key: key, Value: value})
	}
}

// unescape returns the value before the first single semicolon, and the bytes after that semicolon. The value is
// unescaped in place.
func unescape(b []byte) (value, rest []byte) {
	end := 0
	for i := 0; i < len(b); i++ {
		if b[i] == ';' {
			if i+1 == len(b) || b[i+1] != ';' {
				return b[:end], b[i+1:]
			}
			i++
		}
		b[end] = b[i]
		end++
	}
	return b[:end], nil
}

// putLength writes the length of a frame's body into the frame's first six bytes.
func putLength(frame []byte) {
	n := len(frame) - 6
	for i := 5; i >= 0 && n > 0; i-- {
		frame[i] = byte('0' + n%10)
		n /= 10
	}
}

// appendEscaped appends a value to dst, with its semicolons doubled.
func appendEscaped(dst, value []byte) []byte {
	for _, b := range value {
		if b == ';' {
			dst = append(dst, ';')
		}
		dst = append(dst, b)
	}
	return dst
}
