package sshx

import (
	"net/netip"
	"strconv"
	"strings"
)

// canonical returns the name to connect to. The configuration must already have been read once. The name is HostName
// or, without HostName, the alias, converted as CanonicalizeHostname requires (ssh.c, main and resolve_canonicalize).
// An address is returned in its usual form. If reread is true, the configuration must be read a second time.
func (s *hostScope) canonical() (name string, reread bool, err error) {
	name = s.hostname()
	when := strings.ToLower(s.firstWord("canonicalizehostname"))
	switch when {
	case "yes", "true", "always":
		reread = true
	case "", "no", "false":
	default:
		return "", false, s.first["canonicalizehostname"].fail("%q is not yes, no or always", when)
	}
	a, isAddress := parseAddress(name)
	other := map[string]bool{"inet": !a.Is4(), "inet6": a.Is4()}[s.family()]
	switch {
	case isAddress && !other && !strings.EqualFold(a.String(), name):
		return a.String(), reread, nil
	case isAddress, looksLikeAddress(name):
		return name, reread, nil
	}
	name = strings.ToLower(name)
	if reread && (when == "always" || s.isDirect()) {
		name, err = s.lookupInDomains(name)
	}
	return name, reread, err
}

func (s *hostScope) family() string { return strings.ToLower(s.firstWord("addressfamily")) }

// isDirect reports whether the connection uses neither a proxy command nor a jump host.
func (s *hostScope) isDirect() bool {
	return isNone(s.first["proxycommand"].text) && isNone(s.firstWord("proxyjump"))
}

// isNone reports whether value is empty or "none".
func isNone(value string) bool {
	value = strings.TrimSpace(value)
	return value == "" || strings.EqualFold(value, "none")
}

// lookupInDomains looks the host up in the domains of CanonicalDomains, in order. It returns the full name of the host
// in the first domain that contains the host.
func (s *hostScope) lookupInDomains(name string) (string, error) {
	full, err := s.candidateNames(name)
	if err != nil {
		return "", err
	}
	for _, f := range full {
		target, found, err := s.lookup(f)
		if err != nil {
			return "", err
		}
		if found {
			return s.followCNAME(strings.TrimSuffix(f, "."), target)
		}
	}
	local := strings.ToLower(s.firstWord("canonicalizefallbacklocal"))
	if full != nil && (local == "no" || local == "false") {
		return "", s.first["canonicalizefallbacklocal"].fail("the host has no address in CanonicalDomains, and CanonicalizeFallbackLocal is no")
	}
	if isNone(s.firstWord("canonicalizepermittedcnames")) {
		return name, nil
	}
	target, _, err := s.lookup(name)
	if err != nil {
		return "", err
	}
	return s.followCNAME(name, target)
}

// candidateNames returns the full names to look up for a host, one for each of CanonicalDomains. Each name ends in
// a dot, so that the resolver does not append a domain. If name has more than CanonicalizeMaxDots dots,
// candidateNames returns nil.
func (s *hostScope) candidateNames(name string) (names []string, err error) {
	if strings.HasSuffix(name, ".") {
		return []string{name}, nil
	}
	most := 1
	if set, ok := s.first["canonicalizemaxdots"]; ok {
		if most, err = strconv.Atoi(s.firstWord("canonicalizemaxdots")); err != nil {
			return nil, set.fail("%q is not a number", s.firstWord("canonicalizemaxdots"))
		}
	}
	if strings.Count(name, ".") > most {
		return nil, nil
	}
	domains, _ := splitArgs(s.first["canonicaldomains"].text)
	names = []string{}
	for _, domain := range domains {
		if !isNone(domain) {
			names = append(names, name+"."+strings.ToLower(strings.TrimSuffix(domain, "."))+".")
		}
	}
	return names, nil
}

// lookup looks a name up. target is the canonical name that the look-up returned, or "". found is false if the name
// does not exist.
func (s *hostScope) lookup(name string) (target string, found bool, err error) {
	if err := checkName(name); err != nil {
		return "", false, err
	}
	target, found, err = s.machine.Canonical(s.ctx, s.family(), name)
	if err != nil {
		err = s.first["canonicalizehostname"].fail("%v", err)
	}
	return target, found, err
}

// followCNAME returns target if a rule of CanonicalizePermittedCNAMEs allows target for name, and name otherwise
// (ssh.c, check_follow_cname).
func (s *hostScope) followCNAME(name, target string) (string, error) {
	set := s.first["canonicalizepermittedcnames"]
	rules, _ := splitArgs(set.text)
	if target == "" || target == name || !validDomain(target) {
		return name, nil
	}
	for _, rule := range rules {
		from, to, ok := strings.Cut(rule, ":")
		switch {
		case rule == "*":
			to = "*"
		case isNone(rule):
			continue
		case !ok || to == "":
			return "", set.fail("%q is not two patterns with a colon between them", rule)
		}
		if matchHost(from, name) && matchList(strings.ToLower(to), target) {
			return target, nil
		}
	}
	return name, nil
}

// validDomain reports whether a name that a name server has sent can be a host name (misc.c, valid_domain).
func validDomain(name string) bool {
	const also = ".-_"
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(also, r)
	}
	return name != "" && !strings.Contains(also, name[:1]) && !strings.Contains(name, "..") && !strings.ContainsFunc(name, bad)
}

// looksLikeAddress reports whether a name looks like an address, and so cannot be a host name. The address may
// be invalid (ssh.c, is_addr_fast).
func looksLikeAddress(name string) bool {
	return strings.ContainsAny(name, "%:") || strings.Trim(name, "0123456789.") == ""
}

// parseAddress parses an address in any form that getaddrinfo(3) accepts. An IPv4 address may have one to four
// parts, each decimal, octal or hexadecimal. If there are fewer than four, the last part fills the remaining
// bytes (inet_aton(3)). parseAddress returns false if name is not an address.
func parseAddress(name string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(name); err == nil {
		return a, true
	}
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	value := uint64(0)
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, ok := parseNumber(part)
		if !ok || n>>bits != 0 {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// parseNumber parses a number that is decimal, octal or hexadecimal, in C's notation. It returns false if s is not such
// a number.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch lower := strings.ToLower(s); {
	case strings.HasPrefix(lower, "0x"):
		s, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(s, base, 32)
	return n, err == nil
}
