package kvs

import (
	"encoding/binary"
	"errors"
)

// errBlob is returned for a malformed blob. It means that helpers of different versions are connected to
// mpiexec.
var errBlob = errors.New("barrier: cannot parse the PMI keys that another host sent")

// AppendPair appends the encoding of a key and its value to a blob.
func AppendPair(blob, key, value []byte) []byte {
	blob = binary.AppendUvarint(blob, uint64(len(key)))
	blob = append(blob, key...)
	blob = binary.AppendUvarint(blob, uint64(len(value)))
	return append(blob, value...)
}

// appendPairs appends the encoding of all pairs of a map to a blob.
func appendPairs(blob []byte, pairs map[string][]byte) []byte {
	for key, value := range pairs {
		blob = AppendPair(blob, []byte(key), value)
	}
	return blob
}

// countPairs returns the number of pairs in a blob, or an error if it is malformed.
func countPairs(blob []byte) (n int, err error) {
	for ; len(blob) > 0; n++ {
		if _, _, blob, err = cutPair(blob); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// cutPair splits the first pair off a non-empty blob.
func cutPair(blob []byte) (key, value, rest []byte, err error) {
	if key, rest, err = cutField(blob); err != nil {
		return nil, nil, nil, err
	}
	value, rest, err = cutField(rest)
	return key, value, rest, err
}

func cutField(blob []byte) (field, rest []byte, err error) {
	n, size := binary.Uvarint(blob)
	if size <= 0 || n > uint64(len(blob)-size) {
		return nil, nil, errBlob
	}
	end := size + int(n)
	return blob[size:end:end], blob[end:], nil
}
