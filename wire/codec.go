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

// What is wrong with a body that is none, or with a value that cannot be.
var errShort = errors.New("message ends early")

type valueError string

func (i valueError) Error() string { return string(i) }

// A codec walks the fields of a message in their order and either writes each
// to buf or reads it from there. One list of fields per message thus serves both
// directions, and they cannot disagree. With each field stands what it may be; who writes
// words cuts them to that, who reads refuses what is beyond (TRUST-7).
type codec struct {
	buf     []byte
	reading bool
	err     error // errShort or impossible

	claimedRanks, claimedCPUs int // in the claims so far, and the CPUs of these
}

// codecs are those that nobody uses now: a message of a few bytes shall not cost as much for one.
var codecs = sync.Pool{New: func() any { return new(codec) }}

// newCodec is a codec that reads buf, or writes behind it; it ends by free.
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

// require refuses what was read, unless it can be.
func (c *codec) require(can bool, format string, numbers ...int) {
	if can || !c.reading {
		return
	}
	args := make([]any, len(numbers)) // made here, or each message would pay for them
	for i, n := range numbers {
		args[i] = n
	}
	c.fail(valueError(fmt.Sprintf(format, args...)))
}

func (c *codec) num(p *int, s valueRange) {
	n := int64(*p)
	c.num64(&n, s)
	if c.reading { // a message that is sent may be sent to others at the same time
		*p = int(n)
	}
}

// num8 is a num whose values all fit.
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

// count is a length: never negative, and never more than the bytes that are left,
// since every element takes one at least. So a broken frame cannot make us
// allocate more than it has bytes.
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

// blob is as large as the frame may be.
func (c *codec) blob(p *[]byte) { c.bytes(p, length{"blob", maxUnbounded}) }

// text is what programs read, and so comes whole or not at all.
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

// humanText is what people read: UTF-8, and no more than they would.
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

// timestamp walks a time to the nanosecond, without its zone; the zero time stays so.
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

// list walks a list, each element by the function given. What is read is made as it comes
// (TRUST-30).
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

// cpus are numbers of CPUs, each once.
func (c *codec) cpus(p *[]int) {
	c.nums(p, length{"CPUs", maxCPUs}, cpuRange)
	if c.reading && len(*p) > 1 {
		var seen cpuSet
		c.requireUnique(&seen, *p)
	}
}

// requireUnique refuses CPUs that were seen before.
func (c *codec) requireUnique(seen *cpuSet, cpus []int) {
	for _, cpu := range cpus {
		if c.err == nil && !seen.add(cpu) {
			c.fail(valueError(fmt.Sprintf("CPU %d twice", cpu)))
		}
	}
}
