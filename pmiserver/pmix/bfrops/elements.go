package bfrops

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// These errors say what is wrong with a message. The Reader returns errors that wrap them and add details.
var (
	ErrMalformed = errors.New("the message is malformed")    // the message does not follow the encoding
	ErrBound     = errors.New("the message exceeds a limit") // the message exceeds a limit of pmix-wire.md 11
)

// An elementReader decodes elements from the part of a message that has not been read yet. After the first error it
// returns zero values. A length that is larger than the rest of the message is an error (rule PMIX-26).
type elementReader struct {
	rest          []byte
	depth         int    // nesting depth of values and arrays
	lastNamespace string // namespace decoded last, reused because lists repeat it
	err           error
}

func (e *elementReader) fail(kind error, format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
	}
	e.rest = nil
}

// takeBytes returns the next n bytes of the message without copying them.
func (e *elementReader) takeBytes(n uint64) []byte {
	if n > uint64(len(e.rest)) {
		e.fail(ErrMalformed, "a field has %d bytes, but only %d bytes are left", n, len(e.rest))
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

// number decodes an integer of a type that has a fixed size. For any other type it records an error.
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
			e.fail(ErrMalformed, "the number %d is too large", n)
		}
		return int64(n)
	}
	e.fail(ErrMalformed, "a number has the unknown type %d", t)
	return 0
}

// anyNumber decodes an integer that is preceded by its actual type. SIZE, INT, UINT and PID are encoded in
// this way.
func (e *elementReader) anyNumber() int64 {
	t := Type(e.uint16())
	if e.err == nil && t < Int8 {
		e.fail(ErrMalformed, "a number has the unknown type %d", t)
	}
	return e.number(t)
}

// size decodes a number of bytes or elements.
func (e *elementReader) size() uint64 {
	n := e.anyNumber()
	if n < 0 {
		e.fail(ErrMalformed, "a size is negative (%d)", n)
		return 0
	}
	return uint64(n)
}

// textBytes decodes a string of at most maxLen bytes without copying it. A length of 0, which stands for a null pointer
// in C, yields an empty string.
func (e *elementReader) textBytes(maxLen int) []byte {
	n := int32(e.uint32())
	if n == 0 {
		return nil
	}
	if n < 0 {
		e.fail(ErrMalformed, "the length of a string is negative (%d)", n)
		return nil
	}
	b := e.takeBytes(uint64(n))
	if b == nil {
		return nil
	}
	for i, c := range b {
		if (c == 0) != (i == len(b)-1) {
			e.fail(ErrMalformed, "a string of %d bytes must have its only NUL byte at the end", n)
			return nil
		}
	}
	if len(b)-1 > maxLen {
		e.fail(ErrBound, "a string has %d bytes, but at most %d are allowed", len(b)-1, maxLen)
		return nil
	}
	return b[:len(b)-1]
}

func (e *elementReader) text() string { return string(e.textBytes(math.MaxInt32)) }
func (e *elementReader) key() string  { return string(e.textBytes(MaxKey)) }

// namespace decodes a namespace. If the same namespace occurs several times in a row, the results share one
// string.
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

// buffer decodes a BUFFER. It records an error unless the type of the buffer is NonDescribed.
func (e *elementReader) buffer() []byte {
	if kind := e.uint8(); e.err == nil && kind != NonDescribed {
		e.fail(ErrMalformed, "a buffer has the unknown type %d", kind)
	}
	return e.byteObject()
}

// NonDescribed is the type of buffers whose packs do not contain the type of their elements.
const NonDescribed = 1

// value decodes a VALUE, and checks that its content is well-formed.
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

// enterNested increases the nesting depth. At maxDepth it records an error and returns false instead. If it
// returns true, the caller must decrease the depth afterwards.
func (e *elementReader) enterNested() bool {
	if e.depth == maxDepth {
		e.fail(ErrMalformed, "values are nested more than %d deep", maxDepth)
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

// skip skips an element of type t. It records an error if the type is not in elementSizes, because the length
// is then unknown.
func (e *elementReader) skip(t Type) {
	s, known := elementSizeOf(t)
	switch {
	case !known:
		e.fail(ErrMalformed, "an element has the unknown type %d", t)
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

// skipArray skips a DATA_ARRAY, which may be empty.
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

// arrayHead decodes the element type and the number of elements of a DATA_ARRAY.
func (e *elementReader) arrayHead() (Type, int) {
	t := Type(e.uint16())
	n := e.size()
	if n == 0 {
		return t, 0
	}
	s, known := elementSizeOf(t)
	if !known {
		e.fail(ErrMalformed, "an array has the unknown type %d", t)
		return t, 0
	}
	return t, e.checkCount(n, s.bytes)
}

// checkCount returns n if n elements of at least minSize bytes fit in the rest of the message. Otherwise it
// records an error and returns 0.
func (e *elementReader) checkCount(n uint64, minSize int) int {
	if n > uint64(len(e.rest)/minSize) {
		e.fail(ErrMalformed, "an array has %d elements, but only %d bytes are left", n, len(e.rest))
		return 0
	}
	return int(n)
}
