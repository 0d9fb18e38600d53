package transport

import (
	"cmp"

	"remshell/sshx"
)

// A Host is a machine and all that is known of the way there. It is made of a candidate once
// and travels as a value from there on: nobody strips it to its name and looks the rest up.
type Host struct {
	Name    string // what the user calls it; the label in every message
	Alias   string // that SSH looks up in its configuration, and a command is told; empty: Name
	Address string // where to connect instead; empty: where the alias leads
	User    string // login name; empty: as configured
	Port    int    // 1 to 65535; 0: as configured
	Helper  string // path of our program there; empty: it is found there, or sent
	Index   int    // of the candidate, from 0: %n of a -launcher-exec
	Local   bool   // this machine, by the names and addresses it has
}

// alias is what the host is called on the way there.
func (h Host) alias() string { return cmp.Or(h.Alias, h.Name) }

// address is what a command is told to connect to.
func (h Host) address() string { return cmp.Or(h.Address, h.alias()) }

// applyTo writes what the host list says of a host over what the user's configuration does.
func (h Host) applyTo(t sshx.Target) sshx.Target {
	t.HostName = cmp.Or(h.Address, t.HostName)
	t.User = cmp.Or(h.User, t.User)
	if h.Port > 0 {
		t.Port = h.Port
	}
	return t
}
