package pmiserver

import (
	"encoding/binary"
	"errors"
)

// A blob is what the ranks of a node bring to a fence:
//
//	blob = *pair        pair = uvarint(len key) key  uvarint(len value) value
//
// Blobs joined are a blob. An empty one is normal: most barriers follow no put.

// errBlob can only mean that helpers of different make are talking.
var errBlob = errors.New("pmi: what a node brought to the fence cannot be read")

func appendPair(blob []byte, key, value string) []byte {
	blob = binary.AppendUvarint(blob, uint64(len(key)))
	blob = append(blob, key...)
	blob = binary.AppendUvarint(blob, uint64(len(value)))
	return append(blob, value...)
}

func appendPairs(blob []byte, pairs map[string]string) []byte {
	for key, value := range pairs {
		blob = appendPair(blob, key, value)
	}
	return blob
}

// cutPair takes the first pair off a blob that is not empty.
func cutPair(blob string) (key, value, rest string, err error) {
	if key, rest, err = cutField(blob); err != nil {
		return "", "", "", err
	}
	value, rest, err = cutField(rest)
	return key, value, rest, err
}

func cutField(blob string) (field, rest string, err error) {
	var n uint64
	for i := 0; i < len(blob) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(blob[i]&0x7f) << (7 * i)
		if blob[i] >= 0x80 {
			continue
		}
		if blob = blob[i+1:]; n > uint64(len(blob)) {
			break
		}
		return blob[:n], blob[n:], nil
	}
	return "", "", errBlob
}
