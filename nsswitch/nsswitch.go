// Package nsswitch looks up users, groups and hosts with getent(1). getent uses the C library, which reads all
// sources that nsswitch.conf(5) names, such as NIS, SSSD, LDAP, libvirt and mDNS. Go code in a static binary only
// reads files and queries name servers.
package nsswitch

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseHosts parses the output of "getent ahosts". Each line contains an address, and the first line also contains the
// canonical name. ParseHosts returns each address only once. It leaves out IPv4 addresses in IPv6 form, which "getent
// ahostsv6" prints.
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

// An Account is the entry of a user in passwd(5). It is the zero Account if there is no such user.
type Account struct{ Name, Home string }

// ParseAccount returns the first account with this user ID in the contents of a passwd file, or in the output of
// "getent passwd".
func ParseAccount(passwd string, uid int) Account {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 5 && !strings.HasPrefix(fields[0], "#") && fields[2] == strconv.Itoa(uid) {
			return Account{fields[0], fields[5]}
		}
	}
	return Account{}
}
