//go:build linux

package sysvipc

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const segmentTable = `       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          2  1600                  4096 70001 70002      1    77     0    78     0 1700000001 1700000002 1700000003                  4096                     0
-559038737      32769   600             134217728 70003     0      0    77     0    77     0          0          0 1700000004                     0                     0
         0          x   600                     1     1     0      0    77     0    77     0          0          0          1                     0                     0
         0         -1   600                     1     1     0      0    77     0    77     0          0          0          1                     0                     0
         0         10   600
`

func TestParseSegments(t *testing.T) {
	want := []sysvSegment{
		{key: 0, id: 2, cpid: 70001, uid: 77, cuid: 78, attached: 1, size: 4096, changed: 1700000003},
		{key: -559038737, id: 32769, cpid: 70003, uid: 77, cuid: 77, size: 134217728, changed: 1700000004},
	}
	if got := parseSegments([]byte(segmentTable)); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseSets(t *testing.T) {
	const sems = `       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
         0          1   600          1    77     0    77     0          0 1700000003
 -12345678          2   600      32000    78     0    79     0 1700000004 1700000003
         0          3   600         -1    77     0    77     0          0 1600000000
         0          4   600
`
	want := []semSet{{0, 1, 1, 77, 0, 1700000003}, {-12345678, 2, 32000, 79, 1700000004, 1700000003}}
	if got := parseSets([]byte(sems)); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]fileNumber{
		"7f3c5a000000-7f3c5a021000 rw-s 00000000 00:1a 41                         /dev/shm/x.1": {makeDev(0, 0x1a), 41},
		`7f3c5a000000-7f3c5a021000 rw-s 00000000 08:01 7 /dev/shm/a\012b c (deleted)`:           {makeDev(8, 1), 7},
		"7f3c5a000000-7f3c5a021000 rw-p 00000000 00:00 0":                                       {},
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]":   {},
		"x y z 0:1": {}, "x y z 01 5": {}, "x y z -1:2 5": {}, "x y z 00:fffffff 5": {}, "": {},
	} {
		if got, ok := parseMapping([]byte(line)); got != want || ok != (want != fileNumber{}) {
			t.Errorf("%s: %v %v, want %v", line, got, ok, want)
		}
	}
}

// Any contents of the kernel's tables, including file names, are parsed without
// harm, and yield only what the kernel can have written.
func FuzzKernelTables(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/maps")
	for _, seed := range []string{segmentTable, string(own), "0-1 rw-s 0 1:2 3 \n 4-5", strings.Repeat(" 0", 14)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, s := range parseSegments(text) {
			if s.id < 0 || s.cpid < 0 || s.uid < 0 || s.cuid < 0 || s.size < 0 || s.attached < 0 {
				t.Errorf("%+v", s)
			}
		}
		for _, s := range parseSets(text) {
			if s.id < 0 || s.semaphores < 0 || s.cuid < 0 || s.operated < 0 || s.changed < 0 {
				t.Errorf("%+v", s)
			}
		}
		if i, ok := parseMapping(text); ok && i.number == 0 {
			t.Errorf("%+v", i)
		}
	})
}
