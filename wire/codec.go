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

// errShort is returned for a body that ends within a field.
var errShort = errors.New("message ends early")

// A valueError is the description of an invalid value.
type valueError string

func (i valueError) Error() string { return string(i) }

// A codec goes through the fields of a message in order and either writes them
// to buf or reads them from it. One list of fields per message serves both
// directions, so they cannot disagree. Each field has its valid range: a writer truncates texts for
// people to it, and a reader refuses values outside of it (TRUST-7).
type codec struct {
	buf     []byte
	reading bool
	err     error // errShort or a valueError

	claimedRanks, claimedCPUs int // totals of the claims read so far
}

// codecs has unused codecs, so that a short message needs no allocation for one.
var codecs = sync.Pool{New: func() any { return new(codec) }}

// newCodec returns a codec that reads from buf, or appends to buf. The caller must call free at the end.
func newCodec(buf []byte, reading bool) *codec {
	c := codecs.Get().(*codec)
	*c = codec{buf: buf, reading: reading}
	return c
}

func (c *codec) free() {
	*c = codec{}
	codecs.Put(c)
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.buf = nil
}

// require fails with the formatted error if valid is false and the codec is reading.
func (c *codec) require(valid bool, format string, numbers ...int) {
	if valid || !c.reading {
		return
	}
	args := make([]any, len(numbers)) // allocated only when needed, not for each message
	for i, n := range numbers {
		args[i] = n
	}
	c.fail(valueError(fmt.Sprintf(format, args...)))
}

func (c *codec) num(p *int, s valueRange) {
	n := int64(*p)
	c.num64(&n, s)
	if c.reading { // when writing, other goroutines may read m at the same time
		*p = int(n)
	}
}

// num8 is num for an int8. All values in s must fit into an int8.
func (c *codec) num8(p *int8, s valueRange) {
	n := int64(*p)
	c.num64(&n, s)
	if c.reading {
		*p = int8(n)
	}
}

func (c *codec) num64(p *int64, s valueRange) {
	c.varint(p)
	if c.reading && c.err == nil && !s.contains(*p) {
		c.fail(s.errorFor(*p))
	}
}

func (c *codec) varint(p *int64) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, *p)
		return
	}
	n, size := binary.Varint(c.buf)
	if size <= 0 {
		c.fail(errShort)
		return
	}
	*p, c.buf = n, c.buf[size:]
}

// count reads or writes a length. A length read is never negative and never larger than the rest of the body,
// because every element takes at least one byte. So a broken frame cannot cause an
// allocation larger than itself.
func (c *codec) count(n int) int {
	size := int64(n)
	c.varint(&size)
	if c.reading && (size < 0 || size > int64(len(c.buf))) {
		c.fail(errShort)
		return 0
	}
	return int(size)
}

func (c *codec) bytes(p *[]byte, l length) {
	n := c.count(len(*p))
	if !c.reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if n > l.max {
		c.fail(l.errorFor(n))
	}
	if c.err == nil {
		*p, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

// blob reads or writes bytes whose only limit is the size of the frame.
func (c *codec) blob(p *[]byte) { c.bytes(p, length{"blob", maxUnbounded}) }

// text reads or writes a text for programs. A text that is too long is refused, never truncated.
func (c *codec) text(p *string, l length) {
	n := c.count(len(*p))
	if !c.reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if n > l.max {
		c.fail(l.errorFor(n))
	}
	if c.err == nil {
		*p, c.buf = string(c.buf[:n]), c.buf[n:]
	}
}

// humanText reads or writes a text for people, in UTF-8. It is truncated to l when written.
func (c *codec) humanText(p *string, l length) {
	if !c.reading {
		fit := l.truncate(*p)
		c.text(&fit, l)
		return
	}
	c.text(p, l)
	if !utf8.ValidString(*p) {
		c.fail(valueError(l.name + " that is no text"))
	}
}

func (c *codec) word(p *string, name string)     { c.humanText(p, length{name, maxWord}) }
func (c *codec) sentence(p *string, name string) { c.humanText(p, length{name, maxSentence}) }

func (c *codec) boolean(p *bool) {
	n := 0
	if *p {
		n = 1
	}
	c.num(&n, valueRange{"flag", 0, 1})
	if c.reading {
		*p = n != 0
	}
}

func (c *codec) duration(p *time.Duration, name string) {
	c.num64((*int64)(p), valueRange{name, 0, maxTime})
}

// timestamp reads or writes a time in nanoseconds, without its zone. The zero time stays zero.
func (c *codec) timestamp(p *time.Time, name string) {
	n := int64(0)
	if !p.IsZero() {
		n = p.UnixNano()
	}
	c.num64(&n, valueRange{name, 0, math.MaxInt64})
	if c.reading && n != 0 {
		*p = time.Unix(0, n)
	}
}

// list reads or writes a list, calling each for every element. When reading, memory grows with the
// elements that have arrived (TRUST-30).
func list[T any](c *codec, p *[]T, most length, each func(*codec, *T)) {
	n := c.count(len(*p))
	if !c.reading {
		for i := range *p {
			each(c, &(*p)[i])
		}
		return
	}
	if n > most.max {
		c.fail(valueError(fmt.Sprintf("%d %s", n, most.name)))
	}
	if n > 0 && c.err == nil {
		*p = make([]T, 0, min(n, initialCapacity))
	}
	for i := 0; i < n && c.err == nil; i++ {
		*p = append(*p, *new(T))
		each(c, &(*p)[i])
	}
}

func (c *codec) nums(p *[]int, most length, each valueRange) {
	list(c, p, most, func(c *codec, p *int) { c.num(p, each) })
}

func (c *codec) texts(p *[]string, most length, each length) {
	list(c, p, most, func(c *codec, p *string) { c.text(p, each) })
}

// cpus reads or writes CPU numbers. Duplicates are refused.
func (c *codec) cpus(p *[]int) {
	c.nums(p, length{"CPUs", maxCPUs}, cpuRange)
	if c.reading && len(*p) > 1 {
		var seen cpuSet
		c.requireUnique(&seen, *p)
	}
}

// requireUnique adds cpus to seen, and fails if one of them is in it already.
func (c *codec) requireUnique(seen *cpuSet, cpus []int) {
	for _, cpu := range cpus {
		if c.err == nil && !seen.add(cpu) {
			c.fail(valueError(fmt.Sprintf("CPU %d twice", cpu)))
		}
	}
}
