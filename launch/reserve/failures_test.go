package reserve

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
	"remshell/sshx"
	"remshell/transport"
	"remshell/usererr"
)

// Hosts with the same failure share a line, which has the detail of the first of them.
func TestFoldedFailures(t *testing.T) {
	dialError := func(host, at string) job.Failure {
		return job.Failure{Node: host, Err: &sshx.DialError{Host: host, Step: "connect", Why: "refused", Details: at}}
	}
	transportError := func(host, at string) job.Failure {
		return job.Failure{Node: host, Err: &transport.Error{Host: host, Step: "connect", Why: "refused", Details: at}}
	}
	for name, test := range map[string]struct {
		failed []job.Failure
		want   string
	}{
		"one":                 {[]job.Failure{dialError("n1", "10.0.0.1:22")}, "n1: connect: refused (10.0.0.1:22)"},
		"no detail":           {[]job.Failure{dialError("n1", ""), dialError("n2", "")}, "n[1-2]: connect: refused"},
		"equal":               {[]job.Failure{dialError("n1", "10.0.0.1:22"), dialError("n2", "10.0.0.1:22")}, "n[1-2]: connect: refused (10.0.0.1:22)"},
		"each its own":        {[]job.Failure{dialError("n1", "10.0.0.1:22"), dialError("n2", "10.0.0.2:22")}, "n[1-2]: connect: refused (n1: 10.0.0.1:22)"},
		"detail of a program": {[]job.Failure{transportError("n1", ""), transportError("n2", "Connection refused")}, "n[1-2]: connect: refused (Connection refused)"},
	} {
		if got := (&HostsError{Failed: test.failed}).Error(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A hint with a command has the command of each host, not only of the first.
func TestEachHostHasItsCommandInTheHint(t *testing.T) {
	var failed []job.Failure
	for _, host := range []string{"n1", "n2"} {
		failed = append(failed, job.Failure{Node: host, Err: changedKey{"ssh-keygen -R " + host}})
	}
	hosts := &HostsError{Failed: failed, SomeReached: true}
	const want = "forget the old key with: ssh-keygen -R n1; ssh-keygen -R n2; or to start without the hosts that cannot be reached: --skip-unreachable"
	if got := usererr.Hint(hosts.Unwrap()[0]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 20 {
		failed = append(failed, job.Failure{Node: "m", Err: changedKey{fmt.Sprint("ssh-keygen -R m", i)}})
	}
	if got := usererr.Hint((&HostsError{Failed: failed}).Unwrap()[0]); !strings.HasSuffix(got, "ssh-keygen -R m5 (and the same command for 14 more hosts)") {
		t.Errorf("%q", got)
	}
}

// changedKey is an error whose hint has a command for its host.
type changedKey struct{ command string }

func (e changedKey) Error() string   { return "the host key has changed" }
func (e changedKey) Command() string { return e.command }
func (e changedKey) Hint() string    { return "forget the old key with: " + e.command }
