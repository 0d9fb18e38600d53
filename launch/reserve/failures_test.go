package reserve

import (
	"testing"

	"remshell/job"
	"remshell/reach"
	"remshell/sshx"
)

// Hosts that fail alike share a line, which has the detail of the first of them.
func TestFoldedFailures(t *testing.T) {
	ours := func(host, at string) job.Failure {
		return job.Failure{Node: host, Err: &sshx.DialError{Host: host, Step: "connect", Why: "refused", At: at}}
	}
	theirs := func(host, at string) job.Failure {
		return job.Failure{Node: host, Err: &reach.Error{Host: host, Step: "connect", Why: "refused", At: at}}
	}
	for name, test := range map[string]struct {
		failed []job.Failure
		want   string
	}{
		"one":            {[]job.Failure{ours("n1", "10.0.0.1:22")}, "n1: connect: refused (10.0.0.1:22)"},
		"no detail":      {[]job.Failure{ours("n1", ""), ours("n2", "")}, "n[1-2]: connect: refused"},
		"equal":          {[]job.Failure{ours("n1", "10.0.0.1:22"), ours("n2", "10.0.0.1:22")}, "n[1-2]: connect: refused (10.0.0.1:22)"},
		"each its own":   {[]job.Failure{ours("n1", "10.0.0.1:22"), ours("n2", "10.0.0.2:22")}, "n[1-2]: connect: refused (n1: 10.0.0.1:22)"},
		"a program says": {[]job.Failure{theirs("n1", ""), theirs("n2", "Connection refused")}, "n[1-2]: connect: refused (Connection refused)"},
	} {
		if got := (&HostsError{Failed: test.failed}).Error(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
