package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"
)

// errShort is returned if the body of a frame ends inside a field.
var errShort = errors.New("the message ends before its last field")

// A ValueError describes an invalid value in a message.
type ValueError string

func (i ValueError) Error() string { return string(i) }

// A Codec writes the fields of a message to buf, in order, or reads them from buf if Reading is set. Each message has
// one list of fields for both directions, so that writer and reader cannot disagree. Each field has a range of valid
// values. A writer truncates strings meant for people to that range, and a reader rejects values outside that range
// (rule TRUST-7).
type Codec struct {
	buf     []byte
	Reading bool
	err     error // errShort or a ValueError

	claimedRanks, claimedCPUs int // totals of the claims read so far
}

// codecs is a pool of unused Codecs. It saves an allocation for each message.
var codecs = sync.Pool{New: func() any { return new(Codec) }}

// newCodec returns a Codec that reads from buf, or appends to buf. The caller must call free when it is
// done.
func newCodec(buf []byte, reading bool) *Codec {
	c := codecs.Get().(*Codec)
	*c = Codec{buf: buf, Reading: reading}
	return c
}

func (c *Codec) free() {
	*c = Codec{}
	codecs.Put(c)
}

// Fail records the error err, which makes the message invalid. If the Codec already has an error, Fail keeps that
// error.
func (c *Codec) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.buf = nil
}

// Require makes the message invalid, with a formatted error, if valid is false and the Codec is reading.
func (c *Codec) Require(valid bool, format string, numbers ...int) {
	if valid || !c.Reading {
		return
	}
	args := make([]any, len(numbers)) // allocated only when needed, not for each message
	for i, n := range numbers {
		args[i] = n
	}
	c.Fail(ValueError(fmt.Sprintf(format, args...)))
}

// Num reads or writes a number. When reading, a number outside s makes the message invalid.
func (c *Codec) Num(p *int, s Range) {
	n := int64(*p)
	c.Num64(&n, s)
	if c.Reading { // when writing, other goroutines may read m at the same time
		*p = int(n)
	}
}

// Num8 reads or writes an int8 within s. All values in s must fit into an int8.
func (c *Codec) Num8(p *int8, s Range) {
	n := int64(*p)
	c.Num64(&n, s)
	if c.Reading {
		*p = int8(n)
	}
}

// Num64 reads or writes an int64 within s.
func (c *Codec) Num64(p *int64, s Range) {
	c.varint(p)
	if c.Reading && c.err == nil && !s.contains(*p) {
		c.Fail(s.errorFor(*p))
	}
}

func (c *Codec) varint(p *int64) {
	if !c.Reading {
		c.buf = binary.AppendVarint(c.buf, *p)
		return
	}
	n, size := binary.Varint(c.buf)
	if size <= 0 {
		c.Fail(errShort)
		return
	}
	*p, c.buf = n, c.buf[size:]
}

// length writes n, which is the length of a list or string, or reads such a length. A length that is negative or larger
// than the rest of the body makes the message invalid, since each element takes at least one byte. So a broken message
// cannot cause an allocation larger than itself.
func (c *Codec) length(n int) int {
	size := int64(n)
	c.varint(&size)
	if c.Reading && (size < 0 || size > int64(len(c.buf))) {
		c.Fail(errShort)
		return 0
	}
	return int(size)
}

// Bytes reads or writes a byte slice. When reading, the slice is part of the received frame and not a copy.
func (c *Codec) Bytes(p *[]byte, l Length) {
	n := c.length(len(*p))
	if !c.Reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if n > l.Max {
		c.Fail(l.errorFor(n))
	}
	if c.err == nil {
		*p, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

// Blob reads or writes a byte slice whose size is limited only by the size of the frame.
func (c *Codec) Blob(p *[]byte) { c.Bytes(p, Length{"blob", maxUnbounded}) }

// Text reads or writes a string meant for programs. When reading, a string that is too long makes the message invalid.
// Such strings are never truncated.
func (c *Codec) Text(p *string, l Length) {
	n := c.length(len(*p))
	if !c.Reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if n > l.Max {
		c.Fail(l.errorFor(n))
	}
	if c.err == nil {
		*p, c.buf = string(c.buf[:n]), c.buf[n:]
	}
}

// HumanText reads or writes a string meant for people, in UTF-8. When writing, it truncates a string that is longer
// than l.
func (c *Codec) HumanText(p *string, l Length) {
	if !c.Reading {
		fit := l.truncate(*p)
		c.Text(&fit, l)
		return
	}
	c.Text(p, l)
	if !utf8.ValidString(*p) {
		c.Fail(ValueError(l.Name + " is not valid UTF-8 text"))
	}
}

// Word reads or writes a string, meant for people, of at most 256 bytes. name is the field's name for error messages.
func (c *Codec) Word(p *string, name string) { c.HumanText(p, Length{name, maxWord}) }

// Sentence reads or writes a string, meant for people, of at most 4 KiB. name is the field's name for error messages.
func (c *Codec) Sentence(p *string, name string) { c.HumanText(p, Length{name, maxSentence}) }

// Bool reads or writes a bool.
func (c *Codec) Bool(p *bool) {
	n := 0
	if *p {
		n = 1
	}
	c.Num(&n, Range{"flag", 0, 1})
	if c.Reading {
		*p = n != 0
	}
}

// Duration reads or writes a duration. Durations from 0 to 73 years are valid.
func (c *Codec) Duration(p *time.Duration, name string) {
	c.Num64((*int64)(p), Range{name, 0, maxTime})
}

// Time reads or writes a time with a precision of nanoseconds, but not its time zone. The zero time stays zero.
func (c *Codec) Time(p *time.Time, name string) {
	n := int64(0)
	if !p.IsZero() {
		n = p.UnixNano()
	}
	c.Num64(&n, Range{name, 0, math.MaxInt64})
	if c.Reading && n != 0 {
		*p = time.Unix(0, n)
	}
}

// List reads or writes a list of at most maxLen elements. It calls element for each element. A reader allocates
// memory only as elements arrive (rule TRUST-30).
func List[T any](c *Codec, p *[]T, maxLen Length, element func(*Codec, *T)) {
	n := c.length(len(*p))
	if !c.Reading {
		for i := range *p {
			element(c, &(*p)[i])
		}
		return
	}
	if n > maxLen.Max {
		c.Fail(ValueError(fmt.Sprintf("%d %s", n, maxLen.Name)))
	}
	if n > 0 && c.err == nil {
		*p = make([]T, 0, min(n, initialCapacity))
	}
	for i := 0; i < n && c.err == nil; i++ {
		*p = append(*p, *new(T))
		element(c, &(*p)[i])
	}
}

// Nums reads or writes a list of at most maxLen numbers, each within bounds.
func (c *Codec) Nums(p *[]int, maxLen Length, bounds Range) {
	List(c, p, maxLen, func(c *Codec, p *int) { c.Num(p, bounds) })
}

// Texts reads or writes a list of at most maxLen strings meant for programs, each of at most maxTextLen bytes.
func (c *Codec) Texts(p *[]string, maxLen Length, maxTextLen Length) {
	List(c, p, maxLen, func(c *Codec, p *string) { c.Text(p, maxTextLen) })
}

// CPUs reads or writes CPU numbers. When reading, duplicates make the message invalid.
func (c *Codec) CPUs(p *[]int) {
	c.Nums(p, Length{"CPUs", maxCPUs}, cpuRange)
	if c.Reading && len(*p) > 1 {
		var seen cpuSet
		c.requireUnique(&seen, *p)
	}
}

// requireUnique adds cpus to used. It calls Fail if a CPU was already in used.
func (c *Codec) requireUnique(used *cpuSet, cpus []int) {
	for _, cpu := range cpus {
		if c.err == nil && !used.add(cpu) {
			c.Fail(ValueError(fmt.Sprintf("CPU %d twice", cpu)))
		}
	}
}
