package bfrops

import "math"

// A Value is an element with its type. Its bytes are a part of the message, and the Reader has checked that
// they are well-formed. Each method decodes the bytes to one Go type, and returns false if the element has a
// different type. The zero Value has no content.
type Value struct {
	Type  Type
	Bytes []byte
}

func (v Value) elementReader() *elementReader { return &elementReader{rest: v.Bytes} }

// Number returns the content of a value that has any integer type (rule PMIX-27). A BOOL is 0 or 1.
func (v Value) Number() (int64, bool) {
	e := v.elementReader()
	var n int64
	switch v.Type {
	case Bool:
		n = int64(min(e.uint8(), 1))
	case Size, Int, Uint, PID:
		n = e.anyNumber()
	case Time:
		n = e.number(Int64)
	case Status:
		n = e.number(Int32)
	case ProcRank:
		n = e.number(Uint32)
	case Persistence, Scope, DataRange:
		n = e.number(Uint8)
	default:
		n = e.number(v.Type)
	}
	return n, e.err == nil
}

// Flag returns the value of a boolean option. An option without a value is true.
func (v Value) Flag() bool {
	n, ok := v.Number()
	return v.Type == Undefined || ok && n != 0
}

// Text returns the text of a STRING.
func (v Value) Text() (string, bool) {
	if v.Type != String {
		return "", false
	}
	return string(v.elementReader().textBytes(math.MaxInt32)), true
}

// Blob returns the bytes of a BYTE_OBJECT.
func (v Value) Blob() ([]byte, bool) {
	if v.Type != ByteObject {
		return nil, false
	}
	return v.elementReader().byteObject(), true
}

// Proc returns the process in a PROC.
func (v Value) Proc() (Proc, bool) {
	if v.Type != ProcType {
		return Proc{}, false
	}
	return v.elementReader().proc(), true
}

// Procs returns the elements of a DATA_ARRAY whose elements are PROCs.
func (v Value) Procs() ([]Proc, bool) {
	e := v.elementReader()
	if v.Type != DataArray {
		return nil, false
	}
	t, n := e.arrayHead()
	if t != ProcType || n > MaxProcs {
		return nil, false
	}
	procs := make([]Proc, n)
	for i := range procs {
		procs[i] = e.proc()
	}
	return procs, e.err == nil
}

// Infos returns the elements of a DATA_ARRAY whose elements are INFOs.
func (v Value) Infos() ([]Info, bool) {
	e := v.elementReader()
	if v.Type != DataArray {
		return nil, false
	}
	t, n := e.arrayHead()
	if t != InfoType {
		return nil, false
	}
	infos := make([]Info, n)
	for i := range infos {
		infos[i] = e.info()
	}
	return infos, e.err == nil
}

// Variable returns the name and value of an ENVAR.
func (v Value) Variable() (Variable, bool) {
	if v.Type != Envar {
		return Variable{}, false
	}
	return v.elementReader().envar(), true
}
