package transport

import (
	"cmp"

	"remshell/sshx"
)

// A Host contains everything that a transport needs to reach one machine. It is passed by value.
type Host struct {
	Name    string // the user's name for it, in every message
	Alias   string // name to look up in the SSH configuration, and to pass to a command; empty means Name. An alias= of a host file is in Name
	Address string // address to connect to; empty means that of the alias
	User    string // login name; empty means as configured
	Port    int    // 1 to 65535; 0 means as configured
	Helper  string // path of the helper there; if empty, it is searched for there, or sent
	Index   int    // number of the candidate, from 0: %n of a -launcher-exec
	Local   bool   // whether it is this machine, by its names and addresses
}

// alias returns the name of the host for remote-shell programs and for the SSH configuration.
func (h Host) alias() string { return cmp.Or(h.Alias, h.Name) }

// address returns the address of the host for the command line of a remote-shell program.
func (h Host) address() string { return cmp.Or(h.Address, h.alias()) }

// applyTo returns t with the settings of the host list, which take precedence over the user's SSH
// configuration.
func (h Host) applyTo(t sshx.Target) sshx.Target {
	t.HostName = cmp.Or(h.Address, t.HostName)
	t.User = cmp.Or(h.User, t.User)
	if h.Port > 0 {
		t.Port = h.Port
	}
	return t
}
