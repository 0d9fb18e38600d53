package cli

import (
	"fmt"
	"testing"
)

// Arguments written for the ssh program, such as those of Open MPI's and Hydra's variables, become options of the
// built-in ssh.
func TestArgumentsOfSSHAreOptionsOfOurs(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "[] <nil>"},
		{[]string{"-o", "ConnectionAttempts=10"}, "[ConnectionAttempts=10] <nil>"},
		{[]string{"-oPort=22", "-o", "StrictHostKeyChecking no"}, "[Port=22 StrictHostKeyChecking=no] <nil>"},
		{[]string{"-p2222", "-l", "pi", "-i", "~/.ssh/k", "-J", "gate"}, "[Port=2222 User=pi IdentityFile=~/.ssh/k ProxyJump=gate] <nil>"},
		{[]string{"-q", "-xT", "-4"}, "[AddressFamily=inet] <nil>"},
		{[]string{"-p"}, "[] -launcher-args: -p needs a value"},
		{[]string{"-o", "x"}, "[] -launcher-args: -o x: the value must have the form KEY=VALUE, such as Port=2222"},
		{[]string{"-D", "1080"}, "[] -launcher-args: the built-in ssh does not have the option -D"},
		{[]string{"host"}, "[] -launcher-args: the built-in ssh does not have the option host"},
		{[]string{""}, "[] -launcher-args: the built-in ssh does not have the option ''"},
	} {
		options, err := sshOptions(c.args)
		if got := fmt.Sprint(options, " ", err); got != c.want {
			t.Errorf("%q: %s; want %s", c.args, got, c.want)
		}
	}
}
