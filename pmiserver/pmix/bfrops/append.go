package bfrops

import "encoding/binary"

var order = binary.BigEndian

// appendPack appends the header of a pack of n elements.
func appendPack(dst []byte, n int) []byte { return order.AppendUint32(dst, uint32(n)) }

// AppendByte appends a PMIx pack with one element of one byte: a COMMAND, SCOPE, DATA_RANGE or BOOL.
func AppendByte(dst []byte, b uint8) []byte { return append(appendPack(dst, 1), b) }

// AppendUint32 appends a PMIx pack with one element of four bytes: a UINT32, STATUS or PROC_RANK.
func AppendUint32(dst []byte, n uint32) []byte { return order.AppendUint32(appendPack(dst, 1), n) }

// AppendTime appends a PMIx pack with one TIME, in seconds since 1970.
func AppendTime(dst []byte, seconds int64) []byte {
	return order.AppendUint64(appendPack(dst, 1), uint64(seconds))
}

// AppendSize appends a PMIx pack with one SIZE.
func AppendSize(dst []byte, n int) []byte { return appendSize(appendPack(dst, 1), n) }

// AppendText appends a PMIx pack with one STRING.
func AppendText(dst []byte, text string) []byte { return appendText(appendPack(dst, 1), text) }

// AppendPair appends a packed PMIx KVAL, that is, a key and its value.
func AppendPair(dst []byte, key string, value Value) []byte {
	return appendValue(appendText(appendPack(dst, 1), key), value)
}

// AppendBlob appends a PMIx pack with one BYTE_OBJECT that contains all parts, one after the other.
func AppendBlob(dst []byte, parts ...[]byte) []byte {
	return appendJoined(appendPack(dst, 1), parts...)
}

// AppendBuffer appends a PMIx pack with one BUFFER of type NonDescribed.
func AppendBuffer(dst []byte, b []byte) []byte {
	return appendJoined(append(appendPack(dst, 1), NonDescribed), b)
}

// AppendProc appends a PMIx pack with one PROC.
func AppendProc(dst []byte, p Proc) []byte { return appendProc(appendPack(dst, 1), p) }

// appendList appends a SIZE and, unless the list is empty, a pack with all elements (n+X in pmix-wire.md 6).
func appendList[T any](dst []byte, all []T, element func([]byte, T) []byte) []byte {
	dst = AppendSize(dst, len(all))
	if len(all) == 0 {
		return dst
	}
	dst = appendPack(dst, len(all))
	for _, one := range all {
		dst = element(dst, one)
	}
	return dst
}

// AppendProcs appends a list of PROC.
func AppendProcs(dst []byte, all []Proc) []byte { return appendList(dst, all, appendProc) }

// AppendInfos appends a list of INFO.
func AppendInfos(dst []byte, all []Info) []byte { return appendList(dst, all, appendInfo) }

// AppendData appends a list of PDATA.
func AppendData(dst []byte, all []Datum) []byte { return appendList(dst, all, appendDatum) }

// AppendStatuses appends a list of STATUS.
func AppendStatuses(dst []byte, all []int32) []byte {
	return appendList(dst, all, func(dst []byte, s int32) []byte { return order.AppendUint32(dst, uint32(s)) })
}

// AppendQueries appends a list of QUERY.
func AppendQueries(dst []byte, all []Question) []byte { return appendList(dst, all, appendQuery) }

// AppendPrograms appends a list of APP.
func AppendPrograms(dst []byte, all []Program) []byte { return appendList(dst, all, appendProgram) }

// AppendKeys appends a SIZE, and for each key a pack with one STRING.
func AppendKeys(dst []byte, keys []string) []byte {
	dst = AppendSize(dst, len(keys))
	for _, key := range keys {
		dst = AppendText(dst, key)
	}
	return dst
}

func appendSize(dst []byte, n int) []byte {
	return order.AppendUint64(order.AppendUint16(dst, uint16(Uint64)), uint64(n))
}

func appendInt(dst []byte, n int) []byte {
	return order.AppendUint32(order.AppendUint16(dst, uint16(Int32)), uint32(n))
}

// appendText appends a STRING. An empty string is sent with its terminating zero byte, because clients would
// otherwise read a null pointer.
func appendText(dst []byte, text string) []byte {
	dst = order.AppendUint32(dst, uint32(len(text)+1))
	return append(append(dst, text...), 0)
}

func appendTexts(dst []byte, texts []string) []byte {
	for _, text := range texts {
		dst = appendText(dst, text)
	}
	return dst
}

func appendJoined(dst []byte, parts ...[]byte) []byte {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	dst = appendSize(dst, n)
	for _, part := range parts {
		dst = append(dst, part...)
	}
	return dst
}

func appendProc(dst []byte, p Proc) []byte {
	return order.AppendUint32(appendText(dst, p.Namespace), uint32(p.Rank))
}

func appendValue(dst []byte, v Value) []byte {
	return append(order.AppendUint16(dst, uint16(v.Type)), v.Bytes...)
}

func appendInfo(dst []byte, i Info) []byte {
	return appendValue(order.AppendUint32(appendText(dst, i.Key), i.Flags), i.Value)
}

func appendDatum(dst []byte, d Datum) []byte {
	return appendValue(appendText(appendProc(dst, d.Publisher), d.Key), d.Value)
}

func appendQuery(dst []byte, q Question) []byte {
	dst = appendTexts(order.AppendUint32(dst, uint32(len(q.Keys))), q.Keys)
	return appendInfos(dst, q.Qualifiers)
}

func appendProgram(dst []byte, p Program) []byte {
	dst = appendText(dst, p.Command)
	dst = appendTexts(appendInt(dst, len(p.Args)), p.Args)
	dst = appendTexts(order.AppendUint32(dst, uint32(len(p.Environment))), p.Environment)
	dst = appendInt(appendText(dst, p.Dir), p.Ranks)
	return appendInfos(dst, p.Options)
}

// appendInfos appends a SIZE and that number of INFOs, as part of an element.
func appendInfos(dst []byte, all []Info) []byte {
	dst = appendSize(dst, len(all))
	for _, i := range all {
		dst = appendInfo(dst, i)
	}
	return dst
}

// TextOf returns a Value of type STRING.
func TextOf(text string) Value { return Value{String, appendText(nil, text)} }

// FlagOf returns a Value of type BOOL.
func FlagOf(holds bool) Value {
	if holds {
		return Value{Bool, []byte{1}}
	}
	return Value{Bool, []byte{0}}
}

// Uint16Of returns a Value of type UINT16.
func Uint16Of(n uint16) Value { return Value{Uint16, order.AppendUint16(nil, n)} }

// Uint32Of returns a Value of type UINT32.
func Uint32Of(n uint32) Value { return Value{Uint32, order.AppendUint32(nil, n)} }

// SizeOf returns a Value of type SIZE.
func SizeOf(n int) Value { return Value{Size, appendSize(nil, n)} }

// RankOf returns a Value of type PROC_RANK.
func RankOf(r Rank) Value { return Value{ProcRank, order.AppendUint32(nil, uint32(r))} }

// ProcOf returns a Value of type PROC.
func ProcOf(p Proc) Value { return Value{ProcType, appendProc(nil, p)} }

// BlobOf returns a Value of type BYTE_OBJECT that contains all parts, one after the other.
func BlobOf(parts ...[]byte) Value { return Value{ByteObject, appendJoined(nil, parts...)} }

// InfosOf returns a Value of type DATA_ARRAY whose elements are INFOs. The last element is marked with the flag
// lastOfArray.
func InfosOf(all ...Info) Value {
	b := appendSize(order.AppendUint16(nil, uint16(InfoType)), len(all))
	for n, i := range all {
		if n == len(all)-1 {
			i.Flags |= lastOfArray
		}
		b = appendInfo(b, i)
	}
	return Value{DataArray, b}
}

// lastOfArray is the flag that marks the last INFO of an array.
const lastOfArray = 2
