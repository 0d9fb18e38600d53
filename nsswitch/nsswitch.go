// Package nsswitch finds users, groups and hosts by getent(1). The C library, which getent asks, knows all sources that
// nsswitch.conf(5) names, such as NIS, SSSD, LDAP, libvirt and mDNS. A static program knows files and name servers only.
package nsswitch

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseHosts reads the answer of "getent ahosts": an address in each line, and behind the first one the canonical name. Each
// address is returned once. An address of IPv4 in the form of IPv6, as ahostsv6 has them, stands for none of IPv6 and is left
// out.
func ParseHosts(text string) (addrs []netip.Addr, canonical string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 2 && canonical == "" {
			canonical = words[2]
		}
		if len(words) == 0 {
			continue
		}
		a, err := netip.ParseAddr(words[0])
		if err == nil && !a.Is4In6() && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs, canonical
}

// An Account is what passwd(5) says of a user. It is empty if there is no such user.
type Account struct{ Name, Home string }

// ParseAccount finds the first account with a user ID in a passwd file, or in the answer of "getent passwd".
func ParseAccount(passwd string, uid int) Account {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 5 && !strings.HasPrefix(fields[0], "#") && fields[2] == strconv.Itoa(uid) {
			return Account{fields[0], fields[5]}
		}
	}
	return Account{}
}
