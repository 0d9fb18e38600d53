package pmi1

import (
	"bytes"

	"remshell/pmiserver/pmiversion"
)

// commandName returns the NAME of a line "cmd=NAME ...".
func commandName(line []byte) []byte {
	name := line[len("cmd="):]
	if end := bytes.IndexByte(name, ' '); end >= 0 {
		name = name[:end]
	}
	return name
}

// Parse splits a request into fields (pmi-wire.md 2.2). Values of the keys in lastFields may contain anything, even
// spaces. Each such value ends at the next of these keys, and the last value ends at the end of the line. Words without
// "=" or without a key are ignored.
func Parse(fields *pmiversion.Fields, line []byte, lastFields []string) {
	*fields = (*fields)[:0]
	for i := len(lastFields) - 1; i >= 0; i-- {
		line = cutTail(fields, line, lastFields[i])
	}
	for len(line) > 0 {
		token := line
		if end := bytes.IndexByte(line, ' '); end >= 0 {
			token, line = line[:end], line[end+1:]
		} else {
			line = nil
		}
		if eq := bytes.IndexByte(token, '='); eq > 0 {
			*fields = append(*fields, pmiversion.Field{Key: token[:eq], Value: token[eq+1:]})
		}
	}
}

// cutTail removes " key=..." from the end of a line, and adds it to the fields. It returns the rest of the
// line.
func cutTail(fields *pmiversion.Fields, line []byte, key string) []byte {
	for from := 0; ; {
		n := bytes.Index(line[from:], []byte(key))
		if n < 0 {
			return line
		}
		n += from
		end := n + len(key)
		if n > 0 && line[n-1] == ' ' && end < len(line) && line[end] == '=' {
			*fields = append(*fields, pmiversion.Field{Key: line[n:end], Value: line[end+1:]})
			return line[:n-1]
		}
		from = n + 1
	}
}
