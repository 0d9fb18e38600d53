package sshx

import "testing"

// Include ~USER/FILE is read from the home directory of a user that only nsswitch knows. If nobody knows the
// user, the file is ignored, as in ssh.
func TestIncludeOfAnotherUser(t *testing.T) {
	p := newTestHome(t)
	p.write("ann/ssh.inc", "Host n1\n  Port 2201\n")
	me := p.me()
	me.HomeOf = func(user string) string {
		if user == "ann" {
			return p.home + "/ann"
		}
		return ""
	}
	c, err := ReadConfig(p.write(".ssh/config", "Include ~ann/ssh.inc\nInclude ~nobody-knows/ssh.inc\n"), "", me)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Resolve(t.Context(), "n1", me, nowhere); err != nil || got.Port != 2201 {
		t.Errorf("port %d, %v", got.Port, err)
	}
}
