package sshx

import "testing"

// Include ~USER/FILE is read in the home of a user whom only nsswitch knows; that of a user whom nobody knows
// is passed over, as in ssh. It refused every host.
func TestIncludeOfAnotherUser(t *testing.T) {
	p := newPlace(t)
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
