package bfrops

// A Reader takes a message apart, pack by pack. After the first error, which Err tells, all
// that it returns is zero. Values and bytes are parts of the message, texts are copies.
type Reader struct{ elements }

// NewReader returns a Reader of one message's body.
func NewReader(body []byte) *Reader { return &Reader{elements{rest: body}} }

// Err returns the first error: ErrMalformed or ErrBound, with what was wrong.
func (r *Reader) Err() error { return r.err }

// More reports whether there is another pack, or what should be one.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// one reads a pack of one element.
func one[T any](r *Reader, element func(*elements) T) T {
	r.pack(1)
	return element(&r.elements)
}

// pack reads the beginning of a pack that has to have n elements.
func (r *Reader) pack(n int) {
	if count := int32(r.uint32()); r.err == nil && int64(count) != int64(n) {
		r.fail(ErrMalformed, "a pack of %d elements, where %d should be", count, n)
	}
}

// list reads a SIZE, and unless it is 0 a pack of so many elements, each of at least so many
// bytes: n+X of pmix-wire.md 6. More than most is out of bounds.
func list[T any](r *Reader, most, smallest int, element func(*elements) T) []T {
	n := r.Size()
	if n > uint64(most) {
		r.fail(ErrBound, "a list of %d, where at most %d may be", n, most)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	r.pack(int(n))
	all := make([]T, r.room(n, smallest))
	for i := range all {
		all[i] = element(&r.elements)
	}
	if r.err != nil {
		return nil
	}
	return all
}

// Byte reads a pack of one byte: COMMAND, SCOPE, DATA_RANGE, BOOL.
func (r *Reader) Byte() uint8 { return one(r, (*elements).uint8) }

// Uint32 reads a pack of one UINT32.
func (r *Reader) Uint32() uint32 { return one(r, (*elements).uint32) }

// Status reads a pack of one STATUS.
func (r *Reader) Status() int32 { return int32(one(r, (*elements).uint32)) }

// Rank reads a pack of one PROC_RANK.
func (r *Reader) Rank() Rank { return Rank(one(r, (*elements).uint32)) }

// Time reads a pack of one TIME, in seconds since 1970.
func (r *Reader) Time() int64 { return int64(one(r, (*elements).uint64)) }

// Size reads a pack of one SIZE.
func (r *Reader) Size() uint64 { return one(r, (*elements).size) }

// Text reads a pack of one STRING.
func (r *Reader) Text() string { return one(r, (*elements).text) }

// Key reads a pack of one STRING that is a key or a group's name.
func (r *Reader) Key() string { return one(r, (*elements).key) }

// Namespace reads a pack of one STRING that is a namespace.
func (r *Reader) Namespace() string { return one(r, (*elements).namespace) }

// Proc reads a pack of one PROC.
func (r *Reader) Proc() Proc { return one(r, (*elements).proc) }

// Pair reads a pack of one KVAL.
func (r *Reader) Pair() Pair { return one(r, (*elements).pair) }

// Blob reads a pack of one BYTE_OBJECT.
func (r *Reader) Blob() []byte { return one(r, (*elements).byteObject) }

// Buffer reads a pack of one BUFFER.
func (r *Reader) Buffer() []byte { return one(r, (*elements).buffer) }

// Procs reads a list of PROC.
func (r *Reader) Procs() []Proc {
	return list(r, MaxProcs, shapes[ProcType].bytes, (*elements).proc)
}

// Infos reads a list of INFO.
func (r *Reader) Infos() []Info {
	return list(r, MaxInfos, shapes[InfoType].bytes, (*elements).info)
}

// Malformed reports whether bytes are no list of infos, and no more than that.
func Malformed(infos []byte) bool {
	r := NewReader(infos)
	r.Infos()
	return r.Err() != nil || r.More()
}

// Statuses reads a list of STATUS.
func (r *Reader) Statuses() []int32 {
	return list(r, MaxInfos, shapes[Status].bytes, func(e *elements) int32 { return int32(e.uint32()) })
}

// Data reads a list of PDATA.
func (r *Reader) Data() []Datum {
	return list(r, MaxInfos, shapes[PData].bytes, (*elements).datum)
}

// Queries reads a list of QUERY.
func (r *Reader) Queries() []Question {
	return list(r, MaxInfos, shapes[Query].bytes, (*elements).query)
}

// Programs reads a list of APP.
func (r *Reader) Programs() []Program {
	return list(r, MaxInfos, shapes[App].bytes, (*elements).app)
}

// Keys reads a SIZE and so many packs of one STRING each that is a key.
func (r *Reader) Keys() []string {
	n := r.Size()
	if n > MaxInfos {
		r.fail(ErrBound, "%d keys, where at most %d may be", n, MaxInfos)
	}
	if r.err != nil {
		return nil
	}
	keys := make([]string, r.room(n, shapes[String].bytes+packHead))
	for i := range keys {
		keys[i] = r.Key()
	}
	return keys
}

// packHead is how many bytes a pack has before its elements.
const packHead = 4

// Fail makes err, which wraps ErrMalformed or ErrBound, the error of the message, unless it has
// one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}
