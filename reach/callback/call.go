package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// rounds is how often a helper tries all addresses.
const rounds = 3

// errStranger is that something else answers at an address of mpiexec's.
var errStranger = errors.New("somebody else answers there")

// A Refusal is mpiexec's own word that it does not want this helper.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return "refused: " + r.Why }

// Call calls mpiexec as the helper of a host, and returns the stream when it is welcome. Near is the address that
// the batch system has told of the machine where its starter runs: it is tried first; the zero value: none.
func Call(ctx context.Context, i Invitation, host string, near netip.Addr) (net.Conn, error) {
	return caller{i, host, usual}.call(ctx, inOrder(i.Addresses, near))
}

// A caller is the helper of a host that calls.
type caller struct {
	i        Invitation
	host     string
	patience patience
}

// call tries addresses in so many rounds.
func (c caller) call(ctx context.Context, addresses []netip.AddrPort) (conn net.Conn, err error) {
	times := rounds
	if c.i.Streams { // there is something else to try
		times = 1
	}
	for round := range times {
		if round > 0 {
			select {
			case <-time.After(c.patience.pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		var refused *Refusal
		if conn, err = c.round(ctx, slices.Clone(addresses)); err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, err
}

// round tries all addresses, side by side. One that leads to mpiexec, and then nowhere, is left out.
func (c caller) round(ctx context.Context, addresses []netip.AddrPort) (net.Conn, error) {
	ctx, over := context.WithTimeoutCause(ctx, c.patience.round, errSilent)
	defer over()
	var last error
	for len(addresses) > 0 {
		at, stream, err := c.race(ctx, addresses)
		if err != nil {
			return nil, err
		}
		if err = c.prove(ctx, stream); err == nil {
			return stream, nil
		}
		var refused *Refusal
		if errors.As(err, &refused) {
			return nil, err
		}
		last = fmt.Errorf("%s: %w", addresses[at], err)
		addresses = slices.Delete(addresses, at, at+1)
	}
	return nil, last
}

// inOrder puts the address that is sure to lead somewhere before all others, once.
func inOrder(addresses []netip.AddrPort, near netip.Addr) []netip.AddrPort {
	if !near.IsValid() || len(addresses) == 0 {
		return addresses
	}
	first := netip.AddrPortFrom(near.Unmap(), addresses[0].Port())
	others := slices.DeleteFunc(slices.Clone(addresses), func(a netip.AddrPort) bool { return a == first })
	return slices.Insert(others, 0, first)
}

// prove says who we are and hears whether that is welcome. If not, the connection is closed.
func (c caller) prove(ctx context.Context, stream *tls.Conn) (err error) {
	defer func() {
		if err != nil {
			stream.NetConn().Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { stream.NetConn().Close() })
	why, err := c.exchange(stream)
	switch ended := !stop(); {
	case ended:
		return context.Cause(ctx)
	case err != nil:
		return innermost(err)
	case why != "":
		return &Refusal{why}
	}
	return nil
}

// exchange sends the proof and returns the answer to it.
func (c caller) exchange(stream *tls.Conn) (why string, err error) {
	mac, err := macOf(c.i.Token, stream.ConnectionState(), c.host)
	if err != nil {
		return "", err
	}
	if _, err := stream.Write(proof{c.host, mac}.bytes()); err != nil {
		return "", err
	}
	return readAnswer(stream)
}

// innermost is the system's own word.
func innermost(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
