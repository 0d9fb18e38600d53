package pmiserver

// A snapshot is what the fences of a group have spread so far. It never changes,
// so any number of ranks read it at once.
//
// It is a stack of layers, because copying everything at each barrier would make
// a program of many barriers slow: a barrier puts a layer on top, and layers of
// like size melt into one. Each layer is at least twice as large as the one above
// it, so there are few, and a pair is moved a few times in its life.
type snapshot struct {
	epoch  int // barriers behind us
	bytes  int // length of all keys and values
	layers []layer
}

// A layer holds pairs. All keys and values are parts of one string, as they came
// in the blob, so a thousand pairs are not two thousand allocations.
type layer struct {
	pairs map[string]string
	bytes int // of the string they are parts of
}

// get finds a key without allocating.
func (s *snapshot) get(key []byte) (value string, found bool) {
	for i := range s.layers {
		if value, found = s.layers[i].pairs[string(key)]; found {
			break
		}
	}
	return value, found
}

// next returns the snapshot after a barrier that spread these blobs. A key of a
// later blob replaces that of an earlier one, and both what was there.
func (s *snapshot) next(blobs [][]byte) (*snapshot, error) {
	top, err := newLayer(blobs...)
	if err != nil {
		return nil, err
	}
	n := &snapshot{epoch: s.epoch + 1, layers: s.layers}
	if len(top.pairs) > 0 {
		rest := s.layers
		for len(rest) > 0 && len(rest[0].pairs) < 2*len(top.pairs) {
			top = merge(top, rest[0])
			rest = rest[1:]
		}
		n.layers = append([]layer{top}, rest...)
	}
	for i := range n.layers {
		n.bytes += n.layers[i].bytes
	}
	return n, nil
}

// newLayer reads blobs, the later ones replacing what the earlier ones say.
func newLayer(blobs ...[]byte) (layer, error) {
	size := 0
	for _, b := range blobs {
		size += len(b) / 64 // a guess at the number of pairs
	}
	l := layer{pairs: make(map[string]string, size)}
	for _, b := range blobs {
		l.bytes += len(b)
		for rest := string(b); rest != ""; {
			key, value, after, err := cutPair(rest)
			if err != nil {
				return layer{}, err
			}
			l.pairs[key] = value
			rest = after
		}
	}
	return l, nil
}

// merge puts one layer over another, and leaves the bytes behind that belonged
// to replaced pairs.
func merge(over, under layer) layer {
	blob := make([]byte, 0, over.bytes+under.bytes)
	for key, value := range under.pairs {
		if _, replaced := over.pairs[key]; !replaced {
			blob = appendPair(blob, key, value)
		}
	}
	l, err := newLayer(appendPairs(blob, over.pairs))
	if err != nil {
		panic("pmiserver: a blob of our own: " + err.Error())
	}
	return l
}
