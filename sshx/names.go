package sshx

import (
	"slices"
	"strings"
)

// This file lists the hosts that a user may mean, for a shell that completes their names.

// Names are the names in Host lines that are no patterns.
func (c *Config) Names() (names []string) {
	var look func(files []*configFile)
	look = func(files []*configFile) {
		for _, f := range files {
			for _, b := range f.blocks {
				names = append(names, plainNames(b.hosts)...)
				for _, s := range b.settings {
					look(s.include)
				}
			}
		}
	}
	look(c.files)
	return names
}

// KnownNames are the names of hosts in a known_hosts file, but for those that are hashed, patterns or addresses beside a name. A file that
// cannot be read has none.
func KnownNames(path string) (names []string) {
	f, err := readKnownFile(path)
	if err != nil {
		return nil
	}
	for _, lines := range f.names {
		for _, l := range lines {
			if l.marker == "" {
				names = append(names, knownNames(l.hosts)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// knownNames are the hosts of one line, without the port.
func knownNames(hosts []string) (names []string) {
	for _, host := range plainNames(hosts) {
		if inside, bracketed := strings.CutPrefix(host, "["); bracketed {
			host, _, _ = strings.Cut(inside, "]")
		}
		names = append(names, host)
	}
	named := slices.ContainsFunc(names, func(name string) bool { return !isAddress(name) })
	return slices.DeleteFunc(names, func(name string) bool { return named && isAddress(name) })
}

func isAddress(name string) bool {
	return strings.Contains(name, ":") || strings.Trim(name, "0123456789.") == ""
}

// plainNames leaves out patterns.
func plainNames(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return strings.ContainsAny(name, "*?!") })
}
