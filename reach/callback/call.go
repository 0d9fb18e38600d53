package callback

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// How long a helper tries to call: each address, one after the other, several times over.
const (
	rounds      = 3
	connectTime = 3 * time.Second
	roundPause  = time.Second
)

// errStranger is that something else answers at an address of mpiexec's.
var errStranger = errors.New("somebody else answers there")

// A Refusal is mpiexec's own word that it does not want this helper.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return "refused: " + r.Why }

// Call calls mpiexec as the helper of a host, and returns the stream when it is welcome. Near is the address that
// the batch system has told of the machine where its starter runs: it is tried first; the zero value: none.
func Call(ctx context.Context, i Invitation, host string, near netip.Addr) (net.Conn, error) {
	var last error
	times := rounds
	if i.Streams { // there is something else to try
		times = 1
	}
	for round := range times {
		if round > 0 {
			select {
			case <-time.After(roundPause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		for _, address := range inOrder(i.Addresses, near) {
			conn, err := callAt(ctx, i, address, host)
			var refused *Refusal
			if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
				return conn, err
			}
			last = fmt.Errorf("%s: %w", address, err)
		}
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

// callAt tries one address.
func callAt(ctx context.Context, i Invitation, address netip.AddrPort, host string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTime, KeepAliveConfig: keepAlive}
	conn, err := dialer.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, innermost(err)
	}
	conn.SetDeadline(time.Now().Add(greetTime))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	stream, err := introduce(conn, i, host)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return stream, conn.SetDeadline(time.Time{})
}

// introduce makes sure that mpiexec is at the other end, and says whose helper we are.
func introduce(conn net.Conn, i Invitation, host string) (*tls.Conn, error) {
	stream := tls.Client(conn, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // it is no authority that we ask: there is one certificate, and we know its hash
		VerifyConnection: func(state tls.ConnectionState) error {
			if sha256.Sum256(state.PeerCertificates[0].Raw) != i.Certificate {
				return errStranger
			}
			return nil
		},
	})
	if err := stream.Handshake(); err != nil {
		if errors.Is(err, errStranger) {
			return nil, errStranger
		}
		return nil, innermost(err)
	}
	mac, err := macOf(i.Token, stream.ConnectionState(), host)
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write(proof{host, mac}.bytes()); err != nil {
		return nil, innermost(err)
	}
	switch why, err := readAnswer(stream); {
	case err != nil:
		return nil, innermost(err)
	case why != "":
		return nil, &Refusal{why}
	}
	return stream, nil
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
