//go:build linux

package stacks

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/stack/trace"
)

// These constants limit how much trafficOf reads of one process.
const (
	maxSharedBytes = 16 << 20 // of all mappings together
	minSharedBytes = 64 << 10 // of one mapping, also if there are many
	maxSharedPages = 1 << 12  // pages of one mapping of which it is read whether the process has touched them
	maxSockets     = 4096
)

// trafficSeed makes the numbers that trafficOf returns comparable.
var trafficSeed = maphash.MakeSeed()

// trafficOf returns a number that changes when a process sends or receives messages by TCP or by memory that it shares
// with other processes. This may be the only sign of progress in a rank that exchanges equal messages.
func trafficOf(pid int) uint64 {
	var sum maphash.Hash
	sum.SetSeed(trafficSeed)
	addSharedMemory(&sum, pid)
	addTCP(&sum, pid)
	return sum.Sum64()
}

// A span is a part of the memory of a process.
type span struct{ start, end uint64 }

// addSharedMemory adds the contents of pages that a process shares with others and has touched. It reads the first pages of
// each mapping, because there MPI libraries count their messages.
func addSharedMemory(sum *maphash.Hash, pid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return
	}
	defer pagemap.Close()
	shared := sharedMappings(string(text))
	memory, size := trace.MemoryOf(pid), uint64(os.Getpagesize())
	buf, entries := make([]byte, size), make([]byte, 8*maxSharedPages)
	share := max(maxSharedBytes/max(len(shared), 1), minSharedBytes)
	for _, s := range shared {
		bytes := share
		n, _ := pagemap.ReadAt(entries[:8*min((s.end-s.start)/size, maxSharedPages)], int64(8*(s.start/size)))
		for i := range n / 8 {
			const present = 1 << 63 // Documentation/admin-guide/mm/pagemap.rst
			if bytes < len(buf) {
				break
			}
			if binary.NativeEndian.Uint64(entries[8*i:])&present != 0 && memory(s.start+uint64(i)*size, buf) {
				sum.Write(buf)
				bytes -= len(buf)
			}
		}
	}
}

// sharedMappings returns the mappings in a text of /proc/PID/maps that are shared, and that the process may write to:
//
//	7f2c5c026000-7f2c5c17b000 rw-s 00026000 00:19 1443 /dev/shm/segment
func sharedMappings(maps string) (all []span) {
	for line := range strings.Lines(maps) {
		addresses, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(addresses, "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start < end && len(rest) > 4 && rest[:2] == "rw" && rest[3] == 's' {
			all = append(all, span{start, end})
		}
	}
	return all
}

// addTCP adds the numbers of bytes that the TCP connections of a process have sent and received. It adds nothing if the
// kernel does not permit that (pidfd_getfd(2), Linux 5.6).
func addTCP(sum *maphash.Hash, pid int) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	files, err := os.Open(dir)
	if err != nil {
		return
	}
	defer files.Close()
	names, _ := files.Readdirnames(maxSockets)
	slices.Sort(names)
	for _, name := range names {
		number, _ := strconv.Atoi(name)
		if to, _ := os.Readlink(dir + name); !strings.HasPrefix(to, "socket:") {
			continue
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			maphash.WriteComparable(sum, [3]uint64{uint64(number), info.Bytes_acked, info.Bytes_received})
		}
		unix.Close(fd)
	}
}
