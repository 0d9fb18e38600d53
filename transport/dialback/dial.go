package dialback

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

// maxRounds is the maximum number of times that a helper tries all addresses of mpiexec.
const maxRounds = 3

// errNotMpiexec is returned if the program that replies at an address is not mpiexec.
var errNotMpiexec = errors.New("another program answers at this address")

// A Refusal is returned if mpiexec refuses the connection of a helper. Why is the reason that mpiexec gives.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return "refused: " + r.Why }

// WithSecret returns the token with which a helper connects. If t.Secret is not empty, t.Token is not secret,
// and value must be the value of the environment variable with the name t.Secret. If t.Secret is empty,
// WithSecret returns t unchanged.
func (t JoinToken) WithSecret(value string) JoinToken {
	if t.Secret != "" {
		t.Token = secretKey(t.Token, value)
	}
	return t
}

// DialBack connects to mpiexec as the helper of a host. It returns the stream after mpiexec has accepted the helper. It
// first tries near, the address that the batch system reports for the starter's machine. If this address is unknown,
// near is the zero value.
func DialBack(ctx context.Context, token JoinToken, host string, near netip.Addr) (net.Conn, error) {
	return dialer{token, host, defaultTimeouts}.dialRounds(ctx, orderAddresses(token.Addresses, near))
}

// A dialer connects to mpiexec as the helper of a host.
type dialer struct {
	token    JoinToken
	host     string
	timeouts timeouts
}

// dialRounds tries the addresses in rounds, up to maxRounds times. If the helper can use the starter's streams instead,
// there is only one round.
func (c dialer) dialRounds(ctx context.Context, addresses []netip.AddrPort) (conn net.Conn, err error) {
	times := maxRounds
	if c.token.Streams { // the helper can use the starter's streams instead
		times = 1
	}
	for round := range times {
		if round > 0 {
			select {
			case <-time.After(c.timeouts.pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		var refused *Refusal
		if conn, err = c.dialRound(ctx, slices.Clone(addresses)); err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, err
}

// dialRound tries all addresses in parallel. If mpiexec replies at an address and the connection then fails,
// dialRound does not try that address again.
func (c dialer) dialRound(ctx context.Context, addresses []netip.AddrPort) (net.Conn, error) {
	ctx, over := context.WithTimeoutCause(ctx, c.timeouts.round, errNoAnswer)
	defer over()
	var last error
	for len(addresses) > 0 {
		at, stream, err := c.raceAddresses(ctx, addresses)
		if err != nil {
			return nil, err
		}
		if err = c.authenticate(ctx, stream); err == nil {
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

// orderAddresses returns the addresses with near first, even if near is not one of them. If near is not valid, it
// returns the addresses unchanged.
func orderAddresses(addresses []netip.AddrPort, near netip.Addr) []netip.AddrPort {
	if !near.IsValid() || len(addresses) == 0 {
		return addresses
	}
	first := netip.AddrPortFrom(near.Unmap(), addresses[0].Port())
	others := slices.DeleteFunc(slices.Clone(addresses), func(a netip.AddrPort) bool { return a == first })
	return slices.Insert(others, 0, first)
}

// authenticate sends the proof that this helper has the token, and waits until mpiexec accepts the proof. On
// failure it closes the connection.
func (c dialer) authenticate(ctx context.Context, stream *tls.Conn) (err error) {
	defer func() {
		if err != nil {
			stream.NetConn().Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { stream.NetConn().Close() })
	why, err := c.sendProof(stream)
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

// sendProof sends the helper's proof and returns mpiexec's reply. The reply is empty if mpiexec accepts the helper.
func (c dialer) sendProof(stream *tls.Conn) (refusal string, err error) {
	mac, err := connectionMAC(c.token.Token, stream.ConnectionState(), c.host)
	if err != nil {
		return "", err
	}
	if _, err := stream.Write(proof{c.host, mac}.bytes()); err != nil {
		return "", err
	}
	return readReply(stream)
}

// innermost returns the innermost wrapped error, which usually comes from the operating system.
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
