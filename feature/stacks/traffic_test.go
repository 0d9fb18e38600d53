//go:build linux

package stacks

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Messages by shared memory and by TCP change the number, and nothing else does.
func TestTraffic(t *testing.T) {
	last := trafficOf(os.Getpid())
	expect := func(changes bool, what string) {
		t.Helper()
		now := trafficOf(os.Getpid())
		if (now != last) != changes {
			t.Errorf("after %s: changed: %v", what, now != last)
		}
		last = now
	}
	expect(false, "nothing")
	memory, err := unix.Mmap(-1, 0, 4*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	memory[2*os.Getpagesize()] = 1
	expect(true, "a message in shared memory")
	memory[2*os.Getpagesize()]++
	expect(true, "another one")
	expect(false, "nothing")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	a, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	last = trafficOf(os.Getpid())
	for range 2 {
		a.Write([]byte("x"))
		b.Read(make([]byte, 1))
		expect(true, "a message by TCP")
	}
	expect(false, "nothing")
}
