//go:build linux

package trace

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"remshell/stack"
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
	parseMaps(strings.NewReader(maps), func(m stack.Mapping, permissions string, _ uint64) bool {
		if isSharedAndWritable(permissions) {
			got = append(got, [2]uint64{m.Start, m.End})
		}
		return true
	})
	if want := [][2]uint64{{0x1000, 0x3000}, {0x7000, 0x8000}}; !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// An endless maps is a text of /proc/PID/maps without an end. It counts the bytes that were read.
type endlessMaps struct {
	line string
	read int
}

func (e *endlessMaps) Read(to []byte) (int, error) {
	n := copy(to, e.line[e.read%len(e.line):])
	e.read += n
	return n, nil
}

// However many mappings a hostile process has, and however long their lines are, reading them ends, and does not keep their
// text in memory.
func TestMapsAreReadUpToALimit(t *testing.T) {
	for name, line := range map[string]string{
		"mappings":       "1000-2000 rw-p 00000000 00:00 0\n",
		"shared":         "1000-2000 rw-s 00000000 00:01 7 /dev/zero\n",
		"no line ends":   "1000-2000 r-xp 00000000 00:00 0 /x",
		"a long path":    "1000-2000 r-xp 00000000 00:00 0 /" + strings.Repeat("x", 100_000) + "\n",
		"no valid lines": strings.Repeat("\n", 4096),
	} {
		maps, longest := &endlessMaps{line: line}, 0
		err := parseMaps(maps, func(m stack.Mapping, _ string, _ uint64) bool {
			longest = max(longest, len(m.Path))
			return true
		})
		if err != nil || maps.read > maxMapsBytes || longest > 8<<10 {
			t.Errorf("%s: %d bytes were read, a path has %d bytes, %v", name, maps.read, longest, err)
		}
	}
	maps, n := &endlessMaps{line: "1000-2000 rw-s 00000000 00:01 7 /dev/zero\n"}, 0
	parseMaps(maps, func(stack.Mapping, string, uint64) bool { n++; return n < 3 })
	if n != 3 || maps.read > 64<<10 {
		t.Errorf("%d mappings, %d bytes, although 3 mappings were enough", n, maps.read)
	}
}

const withMappings = `#include <stdio.h>
#include <sys/mman.h>
volatile int sink;
__attribute__((noinline)) void innermost(void) { for (;;) sink++; }
int main(void) {
	for (int i = 0; i < 60000; i++) // with equal permissions, the kernel would join them
		if (mmap(0, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
	puts("ready"); fflush(stdout); innermost(); return 0;
}
`

// A process with as many mappings as the kernel allows by default is read, with little memory.
func TestStackOfAProcessWithManyMappings(t *testing.T) {
	pid := start(t, program(t, withMappings, "-O1", "-g"), "")
	var images Images
	defer images.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all, err := images.Mappings(pid)
	runtime.ReadMemStats(&after)
	if err != nil || len(all) != maxMappings || after.Mallocs-before.Mallocs > 100_000 {
		t.Errorf("%d mappings, %v, %d allocations", len(all), err, after.Mallocs-before.Mallocs)
	}
	for got := ""; !strings.Contains(got, "innermost"); { // it may still be in puts
		threads, _ := namesOf(t, pid)
		got = strings.Join(threads[0], ", ")
	}
}
