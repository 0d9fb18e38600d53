package sshx

import (
	"slices"
	"strings"
	"testing"
)

// Completion offers the host names that a person has written, or can read.
func TestNamesOfKnownHosts(t *testing.T) {
	p := newTestHome(t)
	p.write(".ssh/more", "Host inner !inner2 in*\n")
	c, err := ReadConfig(p.write(".ssh/config", "Host n1 n2 *.example.org\n  Port 2\nMatch host x\n  Include more\nHost n? !n3\n"), "", p.me())
	check(t, err)
	if got := strings.Join(c.Names(), " "); got != "n1 n2 inner" {
		t.Errorf("of the configuration: %q", got)
	}
	const key = " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGEfdYBvYSfkZSFlcxS0Pr+ZNDbfkZTV2R6uoaJDnkQJ\n"
	known := p.write(".ssh/names", "n4,10.0.0.4"+key+"[n5]:2222"+key+"10.0.0.6"+key+"fe80::1"+key+"*.example.org,n7"+key+
		"|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="+key+"@cert-authority ca"+key+"@revoked bad"+key+"# comment\n\xff\xfe\n")
	if got := KnownNames(known); !slices.Equal(got, []string{"10.0.0.6", "fe80::1", "n4", "n5"}) {
		t.Errorf("of the known hosts: %q", got)
	}
	if got := KnownNames(p.home + "/nothing"); got != nil {
		t.Errorf("of a file that is not there: %q", got)
	}
}
