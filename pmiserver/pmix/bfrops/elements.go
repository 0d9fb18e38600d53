package bfrops

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// What can be wrong with a message. Both are wrapped, with what was wrong.
var (
	ErrMalformed = errors.New("malformed")     // it contradicts itself or the encoding
	ErrBound     = errors.New("out of bounds") // it says more than pmix-wire.md 11 allows
)

// elementReader reads one element after the other from what is left of a message. After the first
// error all are zero. No length is believed that the rest of the message does not have
// (PMIX-26).
type elementReader struct {
	rest          []byte
	depth         int    // of values and arrays around the element that is read
	lastNamespace string // the namespace read last: lists repeat it
	err           error
}

func (e *elementReader) fail(kind error, format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
	}
	e.rest = nil
}

// takeBytes returns the next n bytes, as a part of the message.
func (e *elementReader) takeBytes(n uint64) []byte {
	if n > uint64(len(e.rest)) {
		e.fail(ErrMalformed, "%d bytes where %d are left", n, len(e.rest))
		return nil
	}
	b := e.rest[:n:n]
	e.rest = e.rest[n:]
	return b
}

func (e *elementReader) uint8() uint8 {
	if b := e.takeBytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (e *elementReader) uint16() uint16 {
	if b := e.takeBytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (e *elementReader) uint32() uint32 {
	if b := e.takeBytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (e *elementReader) uint64() uint64 {
	if b := e.takeBytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// number reads a whole number of a type that says its width, and is refused if it has none.
func (e *elementReader) number(t Type) int64 {
	switch t {
	case Bool, Byte, Uint8:
		return int64(e.uint8())
	case Int8:
		return int64(int8(e.uint8()))
	case Int16:
		return int64(int16(e.uint16()))
	case Uint16:
		return int64(e.uint16())
	case Int32:
		return int64(int32(e.uint32()))
	case Uint32:
		return int64(e.uint32())
	case Int64:
		return int64(e.uint64())
	case Uint64:
		n := e.uint64()
		if n > math.MaxInt64 {
			e.fail(ErrMalformed, "the number %d", n)
		}
		return int64(n)
	}
	e.fail(ErrMalformed, "a number of type %d", t)
	return 0
}

// anyNumber reads a number whose real type stands in front of it: SIZE, INT, UINT and PID.
func (e *elementReader) anyNumber() int64 {
	t := Type(e.uint16())
	if e.err == nil && t < Int8 {
		e.fail(ErrMalformed, "a number of type %d", t)
	}
	return e.number(t)
}

// size reads how many of something there are.
func (e *elementReader) size() uint64 {
	n := e.anyNumber()
	if n < 0 {
		e.fail(ErrMalformed, "%d bytes or elements", n)
		return 0
	}
	return uint64(n)
}

// textBytes reads a text of at most so many bytes, as a part of the message.
// No bytes at all, a null pointer in C, is an empty one.
func (e *elementReader) textBytes(most int) []byte {
	n := int32(e.uint32())
	if n == 0 {
		return nil
	}
	if n < 0 {
		e.fail(ErrMalformed, "a text of %d bytes", n)
		return nil
	}
	b := e.takeBytes(uint64(n))
	if b == nil {
		return nil
	}
	for i, c := range b {
		if (c == 0) != (i == len(b)-1) {
			e.fail(ErrMalformed, "a text of %d bytes without an end, or with an end inside", n)
			return nil
		}
	}
	if len(b)-1 > most {
		e.fail(ErrBound, "a text of %d bytes, where at most %d may be", len(b)-1, most)
		return nil
	}
	return b[:len(b)-1]
}

func (e *elementReader) text() string { return string(e.textBytes(math.MaxInt32)) }
func (e *elementReader) key() string  { return string(e.textBytes(MaxKey)) }

// namespace reads the name of a namespace, and keeps one string for all mentions in a row.
func (e *elementReader) namespace() string {
	if b := e.textBytes(MaxNamespace); string(b) != e.lastNamespace {
		e.lastNamespace = string(b)
	}
	return e.lastNamespace
}

func (e *elementReader) proc() Proc {
	namespace := e.namespace()
	return Proc{namespace, Rank(e.uint32())}
}

func (e *elementReader) byteObject() []byte { return e.takeBytes(e.size()) }

// buffer reads a BUFFER, which is refused unless it is non-described as all else.
func (e *elementReader) buffer() []byte {
	if kind := e.uint8(); e.err == nil && kind != NonDescribed {
		e.fail(ErrMalformed, "a buffer of type %d", kind)
	}
	return e.byteObject()
}

// NonDescribed is the type of buffers whose packs do not say of which type they are.
const NonDescribed = 1

// value reads a VALUE, of which it sees that it ends where its type says.
func (e *elementReader) value() Value {
	t := Type(e.uint16())
	if t == Undefined {
		return Value{}
	}
	start := e.rest
	if e.enterNested() {
		e.skip(t)
		e.depth--
	}
	if e.err != nil {
		return Value{}
	}
	n := len(start) - len(e.rest)
	return Value{t, start[:n:n]}
}

// enterNested goes one value or array further in; who is told true comes back out by himself.
func (e *elementReader) enterNested() bool {
	if e.depth == maxDepth {
		e.fail(ErrMalformed, "more than %d values inside of each other", maxDepth)
		return false
	}
	e.depth++
	return true
}

func (e *elementReader) info() Info {
	key := e.key()
	flags := e.uint32()
	return Info{key, flags, e.value()}
}

func (e *elementReader) pair() Pair {
	key := e.key()
	return Pair{key, e.value()}
}

func (e *elementReader) datum() Datum {
	publisher := e.proc()
	return Datum{publisher, e.pair()}
}

// skip passes over an element. The types that a value may be of are all that there are; of
// another one nobody could say where it ends.
func (e *elementReader) skip(t Type) {
	s, known := elementSizeOf(t)
	switch {
	case !known:
		e.fail(ErrMalformed, "an element of type %d", t)
	case s.fixed:
		e.takeBytes(uint64(s.bytes))
	default:
		e.skipVariable(t)
	}
}

func (e *elementReader) skipVariable(t Type) {
	switch t {
	case Size, PID, Int, Uint:
		e.anyNumber()
	case String, Float, Double:
		e.textBytes(math.MaxInt32)
	case ByteObject, CompressedString:
		e.byteObject()
	case Buffer:
		e.uint8()
		e.byteObject()
	case ValueType:
		e.value()
	case ProcType:
		e.proc()
	case KVal:
		e.pair()
	case InfoType:
		e.info()
	case PData:
		e.datum()
	case DataArray:
		e.skipArray()
	default:
		e.skipRare(t)
	}
}

func (e *elementReader) skipRare(t Type) {
	switch t {
	case Query:
		e.query()
	case App:
		e.app()
	case Envar:
		e.envar()
	case ProcInfo:
		e.proc()
		e.textBytes(math.MaxInt32) // host
		e.textBytes(math.MaxInt32) // executable
		e.anyNumber()
		e.uint8() // state
	}
}

// skipArray passes over a DATA_ARRAY, which may be one of nothing.
func (e *elementReader) skipArray() {
	t, n := e.arrayHead()
	if e.err != nil || !e.enterNested() {
		return
	}
	for range n {
		if e.skip(t); e.err != nil {
			break
		}
	}
	e.depth--
}

// arrayHead reads of what type a DATA_ARRAY's elements are, and how many it has.
func (e *elementReader) arrayHead() (Type, int) {
	t := Type(e.uint16())
	n := e.size()
	if n == 0 {
		return t, 0
	}
	s, known := elementSizeOf(t)
	if !known {
		e.fail(ErrMalformed, "an array of type %d", t)
		return t, 0
	}
	return t, e.checkCount(n, s.bytes)
}

// checkCount returns n if so many elements of at least so many bytes can still come.
func (e *elementReader) checkCount(n uint64, smallest int) int {
	if n > uint64(len(e.rest)/smallest) {
		e.fail(ErrMalformed, "%d elements where %d bytes are left", n, len(e.rest))
		return 0
	}
	return int(n)
}
