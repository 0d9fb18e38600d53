package bfrops

// A Reader decodes a message, pack by pack. After the first error, see Err, it returns zero values.
// Values and byte slices refer to the message; strings are copies.
type Reader struct{ elementReader }

// NewReader returns a Reader of the body of a message.
func NewReader(body []byte) *Reader { return &Reader{elementReader{rest: body}} }

// Err returns the first error, which wraps ErrMalformed or ErrBound.
func (r *Reader) Err() error { return r.err }

// More reports whether bytes are left and there was no error.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// readOne reads one element, encoded as a PMIx pack.
func readOne[T any](r *Reader, element func(*elementReader) T) T {
	r.beginPack(1)
	return element(&r.elementReader)
}

// beginPack reads the header of a pack, and fails unless it has n elements.
func (r *Reader) beginPack(n int) {
	if count := int32(r.uint32()); r.err == nil && int64(count) != int64(n) {
		r.fail(ErrMalformed, "a pack has %d elements instead of %d", count, n)
	}
}

// readList reads a SIZE. Unless that is 0, it also reads a pack of as many elements: n+X of pmix-wire.md 6. minSize
// is the least size of an element in bytes. A list of more than limit elements is an ErrBound.
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

// Byte reads one byte, encoded as a PMIx pack: COMMAND, SCOPE, DATA_RANGE, BOOL.
func (r *Reader) Byte() uint8 { return readOne(r, (*elementReader).uint8) }

// Uint32 reads a pack of one UINT32.
func (r *Reader) Uint32() uint32 { return readOne(r, (*elementReader).uint32) }

// Status reads one STATUS, encoded as a PMIx pack.
func (r *Reader) Status() int32 { return int32(readOne(r, (*elementReader).uint32)) }

// Rank reads one PROC_RANK, encoded as a PMIx pack.
func (r *Reader) Rank() Rank { return Rank(readOne(r, (*elementReader).uint32)) }

// Time reads a pack of one TIME, in seconds since 1970.
func (r *Reader) Time() int64 { return int64(readOne(r, (*elementReader).uint64)) }

// Size reads one SIZE, encoded as a PMIx pack.
func (r *Reader) Size() uint64 { return readOne(r, (*elementReader).size) }

// Text reads one STRING, encoded as a PMIx pack.
func (r *Reader) Text() string { return readOne(r, (*elementReader).text) }

// Key reads one STRING that is a key or the ID of a PMIx group, encoded as a PMIx pack.
func (r *Reader) Key() string { return readOne(r, (*elementReader).key) }

// Namespace reads one STRING that is a namespace, encoded as a PMIx pack.
func (r *Reader) Namespace() string { return readOne(r, (*elementReader).namespace) }

// Proc reads one PROC, encoded as a PMIx pack.
func (r *Reader) Proc() Proc { return readOne(r, (*elementReader).proc) }

// Pair reads one KVAL, encoded as a PMIx pack.
func (r *Reader) Pair() Pair { return readOne(r, (*elementReader).pair) }

// Blob reads one BYTE_OBJECT, encoded as a PMIx pack.
func (r *Reader) Blob() []byte { return readOne(r, (*elementReader).byteObject) }

// Buffer reads one BUFFER, encoded as a PMIx pack.
func (r *Reader) Buffer() []byte { return readOne(r, (*elementReader).buffer) }

// Procs reads a list of PROC.
func (r *Reader) Procs() []Proc {
	return readList(r, MaxProcs, elementSizes[ProcType].bytes, (*elementReader).proc)
}

// Infos reads a list of INFO.
func (r *Reader) Infos() []Info {
	return readList(r, MaxInfos, elementSizes[InfoType].bytes, (*elementReader).info)
}

// IsMalformedInfos reports whether the bytes are not exactly one encoded list of INFO.
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

// Programs reads a list of APP.
func (r *Reader) Programs() []Program {
	return readList(r, MaxInfos, elementSizes[App].bytes, (*elementReader).app)
}

// Keys reads a SIZE and as many packs of one STRING that is a key.
func (r *Reader) Keys() []string {
	n := r.Size()
	if n > MaxInfos {
		r.fail(ErrBound, "it has %d keys, but at most %d are allowed", n, MaxInfos)
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

// Fail makes err the error of the message, unless it has one already. err must wrap ErrMalformed or ErrBound.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}
