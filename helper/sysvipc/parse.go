//go:build linux

package sysvipc

import (
	"bytes"
	"strconv"
)

// These are the maximum numbers of bytes that are read of one file in /proc. Limits are needed because other processes
// decide how long these files are. The parsers skip lines that do not have the kernel's format.
const (
	maxTable = 8 << 20 // of /proc/sysvipc: 32,768 segments
	maxMaps  = 16 << 20
)

// parseNumber parses a number from 0 to the largest int64. It returns false if text is not such a number.
func parseNumber(text string, base int) (int64, bool) {
	n, err := strconv.ParseInt(text, base, 64)
	return n, err == nil && n >= 0
}

// parseSegments parses /proc/sysvipc/shm:
//
//	key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap
func parseSegments(table []byte) (all []sysvSegment) {
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) < 14 {
			continue
		}
		key, err := strconv.ParseInt(string(f[0]), 10, 64) // keys may be negative
		n, ok := parseNumbers(f[1], f[3], f[4], f[6], f[7], f[9], f[13])
		if err != nil || !ok {
			continue // the heading
		}
		all = append(all, sysvSegment{key: int(key), id: int(n[0]), size: n[1], cpid: int(n[2]), attached: n[3], uid: int(n[4]), cuid: int(n[5]), changed: n[6]})
	}
	return all
}

// parseSets parses /proc/sysvipc/sem:
//
//	key semid perms nsems uid gid cuid cgid otime ctime
func parseSets(table []byte) (all []semSet) {
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) < 10 {
			continue
		}
		key, err := strconv.ParseInt(string(f[0]), 10, 64) // keys may be negative
		n, ok := parseNumbers(f[1], f[3], f[6], f[8], f[9])
		if err != nil || !ok {
			continue // the heading
		}
		all = append(all, semSet{key: int(key), id: int(n[0]), semaphores: int(n[1]), cuid: int(n[2]), operated: n[3], changed: n[4]})
	}
	return all
}

func parseNumbers(fields ...[]byte) (all []int64, ok bool) {
	for _, field := range fields {
		n, ok := parseNumber(string(field), 10)
		if !ok {
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}

// parseMapping returns the file, as device and inode, to which a line of /proc/PID/maps refers. It does not
// use the name, because a process can give a file any name:
//
//	7f3c5a000000-7f3c5a021000 rw-s 00000000 00:1a 41    /dev/shm/x.1
func parseMapping(line []byte) (fileNumber, bool) {
	f := bytes.Fields(line)
	if len(f) < 5 {
		return fileNumber{}, false
	}
	major, minor, ok := bytes.Cut(f[3], []byte(":"))
	high, good := parseNumber(string(major), 16)
	low, fine := parseNumber(string(minor), 16)
	file, right := parseNumber(string(f[4]), 10)
	if !ok || !good || !fine || !right || file == 0 || high > 1<<12-1 || low > 1<<20-1 {
		return fileNumber{}, false
	}
	return fileNumber{makeDev(uint32(high), uint32(low)), uint64(file)}, true
}
