package control

import (
	"testing"

	"remshell/job"
)

// The terms that a feature registers decide. A verb without terms is unknown, and every other request is refused when the job
// ends.
func TestTermsDecide(t *testing.T) {
	const verb job.Verb = "sing"
	Register(verb, Terms{Suspended: "its ranks cannot sing", NotSuspended: "they sing already"})
	Register("listen", Terms{WhileEnding: true})
	for _, test := range []struct {
		verb               job.Verb
		running, suspended bool
		want               string
	}{
		{verb, true, true, "its ranks cannot sing"},
		{verb, true, false, "they sing already"},
		{verb, false, true, "the job is already ending"},
		{"listen", true, false, ""},
		{"listen", false, true, ""},
		{"dance", true, false, `the mpiexec of this job does not support the request "dance"`},
		{"dance", false, false, "the job is already ending"},
	} {
		if got := WhyRefused(test.verb, test.running, test.suspended); got != test.want {
			t.Errorf("%s, running %v, suspended %v: %q, want %q", test.verb, test.running, test.suspended, got, test.want)
		}
	}
}

// A requester that only a remote node vouches for is reported with that node.
func TestWhoSaysWhoAsks(t *testing.T) {
	for says, want := range map[string]string{"": "the job was ended by bob (administrator) with --end", "n3": "n3 says: the job was ended by bob (administrator) with --end"} {
		if got := (Request{User: "bob", Role: job.RoleAdministrator, SayingNode: says}).EndText(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
