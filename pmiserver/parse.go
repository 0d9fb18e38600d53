package pmiserver

import (
	"bytes"
	"strconv"
)

// A field is key=value of a request; both are parts of the line.
type field struct{ key, value []byte }

// args are the fields of one request. It is used again for the next one.
type args []field

// command returns NAME of "cmd=NAME ...".
func command(line []byte) []byte {
	name := line[len("cmd="):]
	if end := bytes.IndexByte(name, ' '); end >= 0 {
		name = name[:end]
	}
	return name
}

// parse splits a request into fields (pmi-wire.md 2.2). Fields in tails contain
// anything, spaces too: each goes on until the next one of them, the last one to
// the end of the line. What has no "=" or no key is ignored.
func (a *args) parse(line []byte, tails []string) {
	*a = (*a)[:0]
	for i := len(tails) - 1; i >= 0; i-- {
		line = a.cutTail(line, tails[i])
	}
	for len(line) > 0 {
		token := line
		if end := bytes.IndexByte(line, ' '); end >= 0 {
			token, line = line[:end], line[end+1:]
		} else {
			line = nil
		}
		if eq := bytes.IndexByte(token, '='); eq > 0 {
			*a = append(*a, field{token[:eq], token[eq+1:]})
		}
	}
}

// parse2 splits the body of a PMI-2 request (pmi-wire.md 4.2). It undoes the
// doubling of semicolons in the body itself. A word without "=" is ignored, and
// so is all from a zero on.
func (a *args) parse2(body []byte) {
	*a = (*a)[:0]
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
		value, body = unescape2(body[n+1:])
		*a = append(*a, field{key, value})
	}
}

// unescape2 returns what stands before the first single semicolon, in the same
// place, and what follows it.
func unescape2(b []byte) (value, rest []byte) {
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

// cutTail takes " key=..." off the end of a line, and returns what is left.
func (a *args) cutTail(line []byte, key string) []byte {
	for from := 0; ; {
		n := bytes.Index(line[from:], []byte(key))
		if n < 0 {
			return line
		}
		n += from
		end := n + len(key)
		if n > 0 && line[n-1] == ' ' && end < len(line) && line[end] == '=' {
			*a = append(*a, field{line[n:end], line[end+1:]})
			return line[:n-1]
		}
		from = n + 1
	}
}

// find returns the first field of that name.
func (a args) find(key string) (value []byte, found bool) {
	for i := range a {
		if string(a[i].key) == key {
			return a[i].value, true
		}
	}
	return nil, false
}

// text returns the first field of that name, or nil.
func (a args) text(key string) []byte {
	value, _ := a.find(key)
	return value
}

// number returns a field of decimal digits with an optional minus.
func (a args) number(key string) (n int, ok bool) {
	value, found := a.find(key)
	if !found || len(value) == 0 || value[0] == '+' {
		return 0, false
	}
	n, err := strconv.Atoi(string(value))
	return n, err == nil
}
