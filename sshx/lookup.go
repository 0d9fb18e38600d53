package sshx

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// lookup finds the addresses of a name. A literal address is its own.
func (d *Dialer) lookup(ctx context.Context, t Target) (addrs []netip.Addr, failed *DialError) {
	resolved := t.Watch.begin("resolve")
	defer func() { resolved(asError(failed)) }()
	if a, err := netip.ParseAddr(t.HostName); err == nil {
		return []netip.Addr{a}, nil
	}
	network := "ip"
	switch t.AddressFamily {
	case "inet":
		network = "ip4"
	case "inet6":
		network = "ip6"
	}
	find := d.Lookup
	if find == nil {
		find = net.DefaultResolver.LookupNetIP
	}
	addrs, err := find(ctx, network, t.HostName)
	switch {
	case err == nil && len(addrs) > 0:
		return addrs, nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errDeadline):
		return nil, d.timeout(ctx, t, "resolve", "")
	}
	return nil, notFound(t, err, ctx.Err() != nil)
}

// notFound is the error of a name without an address. Where no name server can be asked, all hosts have the same reason.
func notFound(t Target, err error, late bool) *DialError {
	var dns *net.DNSError
	e := fail(t, "resolve", KindName, "host name unknown").because(err)
	switch errors.As(err, &dns); {
	case late, dns != nil && dns.IsTimeout:
		e.Why = "names cannot be looked up: no answer"
	case dns != nil && !dns.IsNotFound:
		// The text of the library names the ports of a connection, if there was one, and they differ.
		e.Why = "names cannot be looked up: " + strings.TrimSpace(dns.Err[strings.LastIndex(dns.Err, ": ")+1:])
	default:
		if t.HostName != t.Alias {
			e.At = t.HostName
		}
		return e
	}
	if dns != nil && dns.Server != "" {
		e.At = "name server " + dns.Server
	}
	return e.hint("see /etc/resolv.conf; a host with an address as HostName in ~/.ssh/config needs no name server")
}
