//go:build linux

package helper

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"remshell/job"
	"remshell/wire"
)

/*
A door is the port that --doctor opens on each node, to see whether the others get in as
the ranks of an MPI program would: to a port of the kernel's choice.

	caller                          door
	  | token ----------------------->    somebody else's is not answered
	  | <----------------------- token    small packets arrive, both ways
	  | 64 KiB ---------------------->    full packets arrive as well
	  | <------------------------ token   (a wrong MTU between them would swallow these)
*/
type door struct {
	ln   net.Listener
	work sync.WaitGroup
	mu   sync.Mutex // guards what follows
	open map[net.Conn]bool
	shut bool
}

const (
	knockTime = 3 * time.Second // for each step of a knock
	bulk      = 64 << 10        // bytes, more than a network lets through in one piece
	callers   = 16              // knocks of one node that are under way at once
)

// listen opens the door.
func (e *examiner) listen(m *wire.Listen) {
	if m.Address == "" { // never on all interfaces
		e.s.conn.Send(&wire.Listening{Err: "the node has no address for its peers"})
		return
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(m.Address, "0"))
	if err != nil {
		e.s.conn.Send(&wire.Listening{Err: bareNet(err)})
		return
	}
	if e.door != nil {
		e.door.close()
	}
	e.door = &door{ln: ln, open: make(map[net.Conn]bool)}
	e.door.work.Go(func() { e.door.serve([]byte(m.Token)) })
	e.s.conn.Send(&wire.Listening{Port: ln.Addr().(*net.TCPAddr).Port})
}

// serve answers callers until the door is shut.
func (d *door) serve(token []byte) {
	for {
		c, err := d.ln.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.open[c] = true
		if d.shut {
			c.Close()
		}
		d.mu.Unlock()
		d.work.Go(func() {
			answer(c, token)
			c.Close()
			d.mu.Lock()
			delete(d.open, c)
			d.mu.Unlock()
		})
	}
}

// answer holds the door's part of the conversation.
func answer(c net.Conn, token []byte) {
	said := make([]byte, len(token))
	c.SetDeadline(time.Now().Add(3 * knockTime))
	if _, err := io.ReadFull(c, said); err != nil || subtle.ConstantTimeCompare(said, token) != 1 {
		return
	}
	if _, err := c.Write(token); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, c, bulk); err != nil {
		return
	}
	c.Write(token)
}

// close shuts the door, and ends the conversations.
func (d *door) close() {
	d.ln.Close()
	d.mu.Lock()
	d.shut = true
	for c := range d.open {
		c.Close()
	}
	d.mu.Unlock()
	d.work.Wait()
}

// knockAll knocks at doors, some at a time, and tells of each in their order.
func knockAll(ctx context.Context, doors []wire.Door) []job.Knock {
	knocks := make([]job.Knock, len(doors))
	places := make(chan struct{}, callers)
	var under sync.WaitGroup
	for i, d := range doors {
		places <- struct{}{}
		under.Go(func() {
			defer func() { <-places }()
			knocks[i] = knock(ctx, d)
		})
	}
	under.Wait()
	return knocks
}

// knock is one conversation with a door.
func knock(ctx context.Context, d wire.Door) job.Knock {
	result := func(stage string, err error) job.Knock {
		return job.Knock{At: d.Node, Stage: stage, Err: bareNet(err)}
	}
	dialer := net.Dialer{Timeout: knockTime}
	c, err := dialer.DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return result("connect", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	echo := make([]byte, len(d.Token))
	exchange := func(data []byte) error {
		c.SetDeadline(time.Now().Add(knockTime))
		if _, err := c.Write(data); err != nil {
			return err
		}
		_, err := io.ReadFull(c, echo)
		if err == nil && string(echo) != d.Token {
			err = errors.New("somebody else answers there")
		}
		return err
	}
	if err := exchange([]byte(d.Token)); err != nil {
		return result("small", err)
	}
	if err := exchange(make([]byte, bulk)); err != nil {
		return result("large", err)
	}
	return job.Knock{At: d.Node}
}

// bareNet is what went wrong in the system's words, without addresses and ports, so that
// equal reasons are equal texts.
func bareNet(err error) string {
	var no syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &no):
		return no.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in " + strconv.Itoa(int(knockTime/time.Second)) + " s"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the other end closed the connection"
	}
	return err.Error()
}
