package sshx

import (
	"errors"
	"testing"
)

// A user without an account and without a variable has no login name. A configured or given name is
// enough.
func TestALoginWithoutAName(t *testing.T) {
	p := newTestHome(t)
	me := p.me()
	me.Name = ""
	c, err := ReadConfig(p.write(".ssh/config", "Host named\n  User ann\nHost far\n  User ann\n  ProxyJump jump\nHost both\n  User ann\n  ProxyJump bob@jump\n"), "", me)
	check(t, err)
	for host, refused := range map[string]bool{"n1": true, "ann@n1": false, "named": false, "far": true, "both": false} {
		_, err := c.Resolve(t.Context(), host, me, nowhere)
		var e *DialError
		switch {
		case !refused && err != nil:
			t.Errorf("%s: %v", host, err)
		case refused && !errors.As(err, &e):
			t.Errorf("%s: %v", host, err)
		case refused:
			p.want(e, KindConfig, "config: no user name to log in with: user ID", "write USER@HOST in the host list, or User NAME for the host in ")
		}
	}
}
