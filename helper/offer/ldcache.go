package offer

import (
	"bytes"
	"encoding/binary"
	"io"
)

// A libraryCache is /etc/ld.so.cache: the files of each name, best first.
//
// In the format glibc-ld.so.cache1.1 (glibc, sysdeps/generic/dl-cache.h), numbers in the order of
// the host, offsets from the beginning of the file:
//
//	"glibc-ld.so.cache1.1"  entries uint32  bytes of strings uint32  flags, pad, offset of extensions, unused: 20 bytes
//	each entry: flags int32, name uint32, path uint32, version uint32, capabilities uint64
//	strings, each ended by a zero byte
type libraryCache map[string][]string

const (
	cacheMagic = "glibc-ld.so.cache1.1"
	cacheHead  = 48
	cacheEntry = 24
	mostCache  = 8 << 20 // bytes; 100,000 libraries have half of it
)

// parseCache reads a cache. What is not of this format has nothing in it; entries that lead
// outside of it are passed over, as the dynamic loader does.
func parseCache(text []byte) libraryCache {
	if len(text) < cacheHead || string(text[:len(cacheMagic)]) != cacheMagic {
		return nil
	}
	order := binary.NativeEndian
	entries := int(order.Uint32(text[20:]))
	entries = min(entries, (len(text)-cacheHead)/cacheEntry)
	cache := make(libraryCache, entries)
	for i := range entries {
		e := text[cacheHead+i*cacheEntry:]
		name, ok1 := stringAt(text, order.Uint32(e[4:]))
		path, ok2 := stringAt(text, order.Uint32(e[8:]))
		if ok1 && ok2 {
			cache[name] = append(cache[name], path)
		}
	}
	return cache
}

func stringAt(text []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(text)) {
		return "", false
	}
	s, _, ended := bytes.Cut(text[at:], []byte{0})
	return string(s), ended && len(s) <= mostName
}

// readCache reads that of the node; nil: there is none.
func readCache(files Files) libraryCache {
	f, err := files.Open("/etc/ld.so.cache")
	if err != nil {
		return nil
	}
	defer f.Close()
	id, err := f.ID()
	if err != nil || id.Size > mostCache {
		return nil
	}
	text := make([]byte, id.Size)
	n, err := f.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return parseCache(text[:n])
}
