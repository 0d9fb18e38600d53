package pmix

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
)

// The kernel sends replies at once (no Nagle delay), because clients send one request after the other
// (PMIX-16).
func TestNoReplyIsHeldBack(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	held := make(chan int, 1)
	s.SocketOwner = func(conn net.Conn) (uint32, error) {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Error(err)
		}
		raw.Control(func(fd uintptr) {
			on, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
			if err != nil {
				t.Error(err)
			}
			held <- on
		})
		return testUID, nil
	}
	uri, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimPrefix(uri, "tcp4://"), "tcp6://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if on := <-held; on == 0 {
		t.Error("TCP_NODELAY is off")
	}
}

// The job info is requested and encoded once for all ranks of a node, and is the same for each
// (PMIX-50).
func TestJobInfoIsBuiltOnce(t *testing.T) {
	s, reports := newTestServer(t, 1, 1)
	var asked atomic.Int32
	g := testGroup(3, 3, reports)
	g.Name, g.Namespace = "k1", "rs-0123456789abcdef-1"
	job := g.Job
	g.Job = func(ctx context.Context) (jobinfo.Job, error) {
		asked.Add(1)
		return job(ctx)
	}
	s.AddGroup(g)
	var first string
	for rank := range uint32(3) {
		c := connectRaw(t, s, handshake(g.Namespace, rank, nil))
		if status := c.welcome(); status != message.Success {
			t.Fatal(status)
		}
		answer := string(c.request(body(req)))
		if rank == 0 {
			first = answer
		}
		if answer != first || answer == "" {
			t.Errorf("rank %d got another job info than rank 0", rank)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked for %d times", n)
	}
}
