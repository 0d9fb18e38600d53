package bfrops

// A Reader decodes a message, pack by pack. After the first error, which Err returns, it returns zero values.
// Returned Values and byte slices share the memory of the message; returned strings are copies.
type Reader struct{ elementReader }

// NewReader returns a Reader for the body of a message.
func NewReader(body []byte) *Reader { return &Reader{elementReader{rest: body}} }

// Err returns the first error, which wraps ErrMalformed or ErrBound.
func (r *Reader) Err() error { return r.err }

// More reports whether bytes are left to read and no error has occurred.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// readOne reads a PMIx pack with one element. element decodes the element.
func readOne[T any](r *Reader, element func(*elementReader) T) T {
	r.beginPack(1)
	return element(&r.elementReader)
}

// beginPack reads the header of a pack. It records an error unless the pack has n elements.
func (r *Reader) beginPack(n int) {
	if count := int32(r.uint32()); r.err == nil && int64(count) != int64(n) {
		r.fail(ErrMalformed, "a pack has %d elements instead of %d", count, n)
	}
}

// readList reads a SIZE and, unless that is 0, as many packed elements (written n+X in pmix-wire.md 6).
// minSize is the smallest possible size of an element in bytes. If there are more than limit elements, the
// error is ErrBound.
func readList[T any](r *Reader, limit, minSize int, element func(*elementReader) T) []T {
	n := r.Size()
	if n > uint64(limit) {
		r.fail(ErrBound, "a list has %d elements, but at most %d are allowed", n, limit)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	r.beginPack(int(n))
	all := make([]T, r.checkCount(n, minSize))
	for i := range all {
		all[i] = element(&r.elementReader)
	}
	if r.err != nil {
		return nil
	}
	return all
}

// Byte reads a PMIx pack with one element of one byte. Its type may be COMMAND, SCOPE, DATA_RANGE or BOOL.
func (r *Reader) Byte() uint8 { return readOne(r, (*elementReader).uint8) }

// Uint32 reads a PMIx pack with one UINT32.
func (r *Reader) Uint32() uint32 { return readOne(r, (*elementReader).uint32) }

// Status reads a PMIx pack with one STATUS.
func (r *Reader) Status() int32 { return int32(readOne(r, (*elementReader).uint32)) }

// Rank reads a PMIx pack with one PROC_RANK.
func (r *Reader) Rank() Rank { return Rank(readOne(r, (*elementReader).uint32)) }

// Time reads a PMIx pack with one TIME, and returns it in seconds since 1970.
func (r *Reader) Time() int64 { return int64(readOne(r, (*elementReader).uint64)) }

// Size reads a PMIx pack with one SIZE.
func (r *Reader) Size() uint64 { return readOne(r, (*elementReader).size) }

// Text reads a PMIx pack with one STRING.
func (r *Reader) Text() string { return readOne(r, (*elementReader).text) }

// Key reads a PMIx pack with one STRING, which is a key or the ID of a PMIx group.
func (r *Reader) Key() string { return readOne(r, (*elementReader).key) }

// Namespace reads a PMIx pack with one STRING, which is a namespace.
func (r *Reader) Namespace() string { return readOne(r, (*elementReader).namespace) }

// Proc reads a PMIx pack with one PROC.
func (r *Reader) Proc() Proc { return readOne(r, (*elementReader).proc) }

// Pair reads a PMIx pack with one KVAL, which is a key and its value.
func (r *Reader) Pair() Pair { return readOne(r, (*elementReader).pair) }

// Blob reads a PMIx pack with one BYTE_OBJECT.
func (r *Reader) Blob() []byte { return readOne(r, (*elementReader).byteObject) }

// Buffer reads a PMIx pack with one BUFFER.
func (r *Reader) Buffer() []byte { return readOne(r, (*elementReader).buffer) }

// Procs reads a list of PROC.
func (r *Reader) Procs() []Proc {
	return readList(r, MaxProcs, elementSizes[ProcType].bytes, (*elementReader).proc)
}

// Infos reads a list of INFO.
func (r *Reader) Infos() []Info {
	return readList(r, MaxInfos, elementSizes[InfoType].bytes, (*elementReader).info)
}

// IsMalformedInfos reports whether infos is not exactly one encoded list of INFO.
func IsMalformedInfos(infos []byte) bool {
	r := NewReader(infos)
	r.Infos()
	return r.Err() != nil || r.More()
}

// Statuses reads a list of STATUS.
func (r *Reader) Statuses() []int32 {
	return readList(r, MaxInfos, elementSizes[Status].bytes, func(e *elementReader) int32 { return int32(e.uint32()) })
}

// Data reads a list of PDATA.
func (r *Reader) Data() []Datum {
	return readList(r, MaxInfos, elementSizes[PData].bytes, (*elementReader).datum)
}

// Queries reads a list of QUERY.
func (r *Reader) Queries() []Question {
	return readList(r, MaxInfos, elementSizes[Query].bytes, (*elementReader).query)
}

// Programs reads an array of values of the PMIx type APP.
func (r *Reader) Programs() []Program {
	return readList(r, MaxInfos, elementSizes[App].bytes, (*elementReader).app)
}

// Keys reads a SIZE, and then that number of packs. Each pack contains one STRING, which is a key.
func (r *Reader) Keys() []string {
	n := r.Size()
	if n > MaxInfos {
		r.fail(ErrBound, "%d keys are too many; at most %d are allowed", n, MaxInfos)
	}
	if r.err != nil {
		return nil
	}
	keys := make([]string, r.checkCount(n, elementSizes[String].bytes+packHeaderSize))
	for i := range keys {
		keys[i] = r.Key()
	}
	return keys
}

// packHeaderSize is the size of a pack's header in bytes.
const packHeaderSize = 4

// Fail records err as the error of the message, unless there already is one. err must wrap ErrMalformed or
// ErrBound.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}
