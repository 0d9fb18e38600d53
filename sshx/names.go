package sshx

import (
	"slices"
	"strings"
)

// This file lists host names for completion in shells.

// Names returns the names in Host lines, without patterns.
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

// KnownNames returns the host names in a known_hosts file. It leaves out hashed names, patterns, and
// addresses that follow a name. If the file cannot be read, it returns none.
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

// knownNames returns the host names in one line of known_hosts, without ports. It returns addresses only if there are
// no names.
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

// plainNames returns list without the names that are patterns.
func plainNames(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return strings.ContainsAny(name, "*?!") })
}
