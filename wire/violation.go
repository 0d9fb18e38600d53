package wire

import (
	"fmt"
	"strings"
)

// A Violation is what the other end said and may not, as TRUST-2 words it. The first one is
// the end of a connection.
type Violation string

func (v Violation) Error() string { return string(v) }

func notAMessage(kind byte) Violation {
	return Violation(fmt.Sprintf("not a message: kind %d", kind))
}

// admissible returns the row of a frame that may be read on this side, before a byte of its
// body is (TRUST-31).
func admissible(kind byte, size uint64, self Side) (*Kind, error) {
	k := row(kind)
	switch {
	case k == nil:
		return nil, notAMessage(kind)
	case k.From == self:
		return nil, Violation(fmt.Sprintf("it sent %s, which only %v sends", k.Name, k.From))
	case size > uint64(k.Most):
		return nil, Violation(fmt.Sprintf("%s of %d bytes", article(k.Name), size))
	}
	return k, nil
}

// article sets "a" or "an" before a name.
func article(name string) string {
	if strings.ContainsRune("AEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
