package sshx

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"remshell/deadline"
)

// lookup returns the addresses of a target's host name. If the name is itself an address, it returns that
// address.
func (d *Dialer) lookup(b *deadline.Deadline, t Target) (addrs []netip.Addr, failed *DialError) {
	resolved := t.Tracer.begin("resolve")
	defer func() { resolved(asError(failed)) }()
	if a, err := netip.ParseAddr(t.HostName); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx := b.Context()
	addrs, err := d.lookupAddresses(ctx, b.Left()/2, t)
	switch {
	case err == nil:
		return addrs, nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDeadline):
		return nil, d.timeout(ctx, t, "resolve", "")
	}
	return nil, notFoundError(t, err, ctx.Err() != nil)
}

// A lookupResult is the result of one name look-up.
type lookupResult struct {
	addrs []netip.Addr
	err   error // not nil if there are no addresses
}

// lookupAddresses looks a name up as Go does, in files and name servers. If these do not know the name, or have
// not replied within delay, it also asks the C library. Some name servers do not reply for unknown domains,
// such as *.local. lookupAddresses returns the first result that has addresses. Any error comes from Go's
// look-up.
func (d *Dialer) lookupAddresses(ctx context.Context, delay time.Duration, t Target) ([]netip.Addr, error) {
	own, system := make(chan lookupResult, 1), make(chan lookupResult, 1)
	go func() { own <- d.lookupInGo(ctx, t) }()
	ask := sync.OnceFunc(func() { go func() { system <- d.lookupInSystem(ctx, t) }() })
	late := time.AfterFunc(delay, ask)
	defer late.Stop()
	var failed error
	for range 2 {
		select {
		case f := <-own:
			if f.err == nil {
				return f.addrs, nil
			}
			failed = f.err
			ask()
		case f := <-system:
			if f.err == nil {
				return f.addrs, nil
			}
		}
	}
	return nil, failed
}

// lookupInGo looks a name up with Go's resolver.
func (d *Dialer) lookupInGo(ctx context.Context, t Target) lookupResult {
	network := map[string]string{"inet": "ip4", "inet6": "ip6"}[t.AddressFamily]
	find := d.Lookup
	if find == nil {
		find = net.DefaultResolver.LookupNetIP
	}
	return resultOf(find(ctx, cmp.Or(network, "ip"), t.HostName))
}

// lookupInSystem looks a name up with the C library (Dialer.LookupSystem).
func (d *Dialer) lookupInSystem(ctx context.Context, t Target) lookupResult {
	if d.LookupSystem == nil {
		return lookupResult{err: errNoAddress}
	}
	return resultOf(d.LookupSystem(ctx, t.AddressFamily, t.HostName))
}

var errNoAddress = errors.New("no address")

func resultOf(addrs []netip.Addr, err error) lookupResult {
	if err == nil && len(addrs) == 0 {
		err = errNoAddress
	}
	return lookupResult{addrs, err}
}

// notFoundError returns the error for a name without an address. err is the error of Go's look-up. timedOut is true if
// the look-up took too long. If no name server can be reached, the reason does not name the host, so that mpiexec can
// report all hosts on one line.
func notFoundError(t Target, err error, timedOut bool) *DialError {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound || errors.Is(err, errNoAddress) {
		e := newDialError(t, "resolve", KindName, "the host name is unknown").withCause(err)
		if t.HostName != t.Alias {
			e.Details = t.HostName
		}
		return e
	}
	why := "no answer"
	if dns != nil && !dns.IsTimeout && !timedOut {
		// The library's text may contain ports of the connection, which differ between hosts.
		why = strings.TrimSpace(dns.Err[strings.LastIndex(dns.Err, ": ")+1:])
	}
	e := newDialError(t, "resolve", KindName, "cannot look up host names: %s", why).withCause(err).
		withHint("check /etc/resolv.conf, or set HostName for the host to an address in %s", t.configName())
	if dns != nil && dns.Server != "" {
		e.Details = "name server " + dns.Server
	}
	return e
}
