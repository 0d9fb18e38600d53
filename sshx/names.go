package sshx

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkNames refuses names that could be something else than names where a ProxyCommand or
// a token has them, whoever let them in (TRUST-23).
func (t Target) checkNames() error {
	for _, name := range []string{t.Alias, t.HostName, t.User} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	for _, hop := range t.Via {
		if err := hop.checkNames(); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses what means something to a shell, or to a program as an option.
func checkName(name string) error {
	bad := strings.HasPrefix(name, "-") || strings.ContainsAny(name, "'\"`\\$;&|<>(){}[]*?!~^#") ||
		strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) })
	if bad {
		return fmt.Errorf("%q cannot be the name of a host or user", name)
	}
	return nil
}
