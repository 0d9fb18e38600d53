//go:build linux

package stacks

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/proc"
	"remshell/stack/trace"
)

// These constants limit how much trafficOf reads of one process.
const (
	maxSharedMappings = 1024
	maxSharedBytes    = 16 << 20 // of all mappings together, or minSharedBytes of each
	minSharedBytes    = 64 << 10 // of one mapping, even if there are many
	maxSharedPages    = 1 << 12  // pages of one mapping for which the page table is read
	maxFiles          = 4096     // open files among which sockets are searched for
)

// trafficSeed is the seed of all hashes that trafficOf computes. Two hashes can be compared only if they have the
// same seed.
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

// addSharedMemory adds to sum the contents of pages that a process has touched and shares with other processes. It
// reads the first pages of each mapping, because there MPI libraries count their messages.
func addSharedMemory(sum *maphash.Hash, pid int) {
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return
	}
	defer pagemap.Close()
	shared := trace.SharedMappings(pid, maxSharedMappings)
	memory, size := trace.MemoryOf(pid), uint64(os.Getpagesize())
	buf, entries := make([]byte, size), make([]byte, 8*maxSharedPages)
	share := max(maxSharedBytes/max(len(shared), 1), minSharedBytes)
	for _, s := range shared {
		bytes := share
		n, _ := pagemap.ReadAt(entries[:8*min((s.End-s.Start)/size, maxSharedPages)], int64(8*(s.Start/size)))
		for i := range n / 8 {
			const present = 1 << 63 // Documentation/admin-guide/mm/pagemap.rst
			if bytes < len(buf) {
				break
			}
			if binary.NativeEndian.Uint64(entries[8*i:])&present != 0 && memory(s.Start+uint64(i)*size, buf) {
				sum.Write(buf)
				bytes -= len(buf)
			}
		}
	}
}

// addTCP adds to sum the numbers of bytes that the TCP connections of a process have sent and received. It adds
// nothing if the kernel does not permit that (pidfd_getfd(2), Linux 5.6).
func addTCP(sum *maphash.Hash, pid int) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	descriptors := proc.ListNumbers(fmt.Sprintf("/proc/%d/fd", pid), maxFiles)
	slices.Sort(descriptors)
	for _, number := range descriptors {
		if !strings.HasPrefix(proc.FileOf(pid, number), "socket:") {
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
