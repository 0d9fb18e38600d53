//go:build linux

package trace

import (
	"slices"
	"testing"
)

// Only memory that is shared and can be written counts.
func TestSharedMappings(t *testing.T) {
	const maps = `1000-3000 rw-s 00000000 00:19 1443 /dev/shm/segment
3000-4000 rw-p 00000000 00:19 1443 /dev/shm/segment
4000-5000 r--s 00000000 00:19 1443 /usr/lib/locale
7000-8000 rw-s 00000000 00:01 0
x
`
	var got [][2]uint64
	for _, m := range sharedMappings(maps, 2) {
		got = append(got, [2]uint64{m.Start, m.End})
	}
	if want := [][2]uint64{{0x1000, 0x3000}, {0x7000, 0x8000}}; !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := sharedMappings(maps, 1); len(got) != 1 {
		t.Errorf("with a limit of 1: %d mappings", len(got))
	}
}
